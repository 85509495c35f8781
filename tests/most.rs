//! The `most_*` tools over real HTTP: every byte that the service is sent, and what is made of what it says.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail, and keeps secrets in files")]

#[cfg(test)]
#[path = "support/openai.rs"]
#[expect(dead_code, unreachable_pub, reason = "the tests of the binary use the rest")]
mod openai;

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc, time::Duration};

use openai::{Reply, Seen, Server};
use serde_json::{Value, json};
use singularity::{
    being::{Mind, Outcome, Status, ToolCall},
    manifest::{CapabilitySpec, MostSpec, SecretSource},
    secret::Secrets,
    tool::{Parts, Stamp, Toolbox, check_most},
    vocab::{Span, Timestamp},
};
use tempfile::TempDir;
use uuid::Uuid;

const TOKEN: &str = "m0st-service-token";
const CHAT: &str = "6f2c1f0e-3b55-4a35-9a39-0d8a2f6d7f11";
const MESSAGE: &str = "0b0c9f9e-1111-4a35-9a39-0d8a2f6d7f22";

struct Setting {
    folder: TempDir,
    spec: MostSpec,
    secrets: Secrets,
    toolbox: Toolbox,
}

impl Setting {
    fn new(url: &str) -> Self {
        Self::within(url, Span::from_secs(20))
    }

    fn within(url: &str, timeout: Span) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        keep(&token, TOKEN);
        let spec = MostSpec { url: url.into(), token: SecretSource::File(token), timeout };
        let secrets = Secrets::new(Arc::new(|_| None));
        let toolbox = toolbox(&folder, Some(spec.clone()), secrets.clone());
        Self { folder, spec, secrets, toolbox }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let stamp = Stamp { id: Uuid::from_u128(9), at: Timestamp::UNIX_EPOCH };
        let call = ToolCall::new("c", tool, arguments.to_string());
        self.toolbox.call(&call, &Mind::new("Be.".into(), "smol".into()), stamp).await
    }

    async fn send(&self) -> Outcome {
        self.call("most_send_message", json!({ "chat_id": CHAT, "text": "hello" })).await
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }
}

fn toolbox(folder: &TempDir, most: Option<MostSpec>, secrets: Secrets) -> Toolbox {
    let parts = Parts {
        capabilities: CapabilitySpec { memory: true, files: true, children: None },
        remote: None,
        surfaces: BTreeMap::new(),
        required: Vec::new(),
        workspace: folder.path().to_owned(),
        state_dirs: Vec::new(),
        models: Arc::new(|_| Box::pin(async { Ok(false) })),
        most,
        seen: singularity::tool::Sightings::new(),
        tokens: PathBuf::new(),
        secrets,
    };
    Toolbox::new(parts).unwrap()
}

fn keep(path: &std::path::Path, secret: &str) {
    fs::write(path, format!("{secret}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A request as one text: its line, its headers but those that HTTP itself needs, its body.
fn told(seen: &Seen) -> String {
    let ours = ["host", "accept", "content-length"];
    let headers = seen.headers.iter().filter(|(name, _)| !ours.contains(&name.as_str()));
    let headers: String = headers.map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("{} {}\n{headers}\n{}", seen.method, seen.path, String::from_utf8_lossy(&seen.raw))
}

fn outcome(outcome: &Outcome) -> (Status, &str) {
    (outcome.status, outcome.error_code.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn the_tools_are_there_only_where_a_token_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let names = |toolbox: &Toolbox| -> Vec<String> {
        let all = toolbox.definitions();
        all.iter().map(|tool| tool.name.clone()).filter(|name| name.starts_with("most_")).collect()
    };
    assert_eq!(names(&toolbox(&folder, None, Secrets::new(Arc::new(|_| None)))), [""; 0]);
    let setting = Setting::new("http://127.0.0.1:1");
    assert_eq!(names(&setting.toolbox), ["most_create_chat", "most_health", "most_send_message"]);
}

#[tokio::test]
async fn a_chat_is_made_with_these_bytes_and_its_ids_are_kept() {
    let answer = json!({ "id": CHAT, "message": { "id": MESSAGE }, "state": "queued" });
    let server = Server::start({
        let answer = answer.clone();
        move |_| Reply::json(201, &answer)
    });
    let setting = Setting::new(&server.origin());
    let asked = json!({ "from": "+48100", "to": ["+48200", "ada@example.com"], "text": "zażółć\n!", "preferred_service": "SMS" });
    let made = setting.call("most_create_chat", asked).await;
    assert_eq!(
        told(&server.seen()[0]),
        format!(
            "POST /v3/chats\nauthorization: Bearer {TOKEN}\ncontent-type: application/json\n\n{}",
            r#"{"from":"+48100","to":["+48200","ada@example.com"],"message":{"parts":[{"type":"text","value":"zażółć\n!"}],"preferred_service":"SMS"}}"#
        )
    );
    assert_eq!((outcome(&made), &made.content), ((Status::Success, ""), &answer));
    assert_eq!((made.chat_id, made.message_id), (CHAT.parse().ok(), MESSAGE.parse().ok()));
    let envelope: Value = serde_json::from_str(&made.envelope()).unwrap();
    assert_eq!((&envelope["chat_id"], &envelope["message_id"]), (&json!(CHAT), &json!(MESSAGE)));
}

#[tokio::test]
async fn a_message_is_sent_with_these_bytes_and_health_is_asked_without_the_token() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/base/healthz" => Reply::json(200, &json!({ "status": "ok", "backends": "imessage", "secret": "x", "more": [1] })),
        _ => Reply::json(200, &json!({ "id": MESSAGE })),
    });
    let setting = Setting::new(&format!("{}/base/", server.origin()));
    let sent = setting.send().await;
    assert_eq!((outcome(&sent), sent.chat_id, sent.message_id), ((Status::Success, ""), None, MESSAGE.parse().ok()));
    let health = setting.call("most_health", json!({})).await;
    assert_eq!(health.content, json!({ "status": "ok", "backends": "imessage", "composition": "" }));
    let seen = server.seen();
    assert_eq!(
        told(&seen[0]),
        format!(
            "POST /base/v3/chats/{CHAT}/messages\nauthorization: Bearer {TOKEN}\ncontent-type: application/json\n\n{}",
            r#"{"message":{"parts":[{"type":"text","value":"hello"}]}}"#
        )
    );
    assert_eq!(told(&seen[1]), "GET /base/healthz\n\n");
}

#[tokio::test]
async fn a_definite_no_is_failed_and_whatever_may_have_been_sent_is_in_doubt() {
    let (no, doubt) = ((Status::Failed, "remote"), (Status::Indeterminate, "remote"));
    for (reply, expected, words) in [
        (Reply::error(401, "x"), no, "most: authentication (401): "),
        (Reply::error(403, "x"), no, "most: authentication (403): "),
        (Reply::error(404, "x"), no, "most: HTTP error (404): "),
        (Reply::error(422, "x"), no, "most: invalid arguments (422): "),
        (Reply::error(429, "x"), no, "most: HTTP error (429): "),
        (Reply::error(501, "x"), no, "most: unsupported capability (501): "),
        (Reply::error(503, "x"), doubt, "most: worker unavailable (503): "),
        (Reply::error(500, "x"), doubt, "most: HTTP error (500): "),
        (Reply::raw(302, vec![]).header("location", "http://127.0.0.1:1/"), no, "most: HTTP error (302): "),
        (Reply::disconnect(), doubt, "most: the connection failed in mid-call: "),
        (
            Reply::json(200, &json!({ "id": MESSAGE, "more": "x".repeat(4_000) })).cut_off(),
            doubt,
            "most: the connection failed in mid-call: ",
        ),
        (Reply::raw(200, b"<html>".to_vec()), (Status::Failed, "most_malformed"), "most: invalid response JSON: "),
        (Reply::json(200, &json!({})), (Status::Failed, "most_malformed"), "most: response missing "),
        (Reply::json(200, &json!({ "id": "town" })), (Status::Failed, "most_malformed"), "most: invalid UUID at "),
        (Reply::raw(200, vec![b' '; 300 * 1024]), (Status::Failed, "most_malformed"), "most: the answer is larger than "),
    ] {
        let server = Server::play([reply]);
        let sent = Setting::new(&server.origin()).send().await;
        assert_eq!(outcome(&sent), expected, "{words}: {}", sent.content);
        let message = sent.content["message"].as_str().unwrap_or_default();
        let hidden = message == "[redacted: absolute_path]";
        assert!(message.starts_with(words) || hidden, "{message} / {words}");
        assert_eq!(server.seen().len(), 1, "nothing is sent twice");
    }
}

#[tokio::test]
async fn a_service_that_hangs_is_given_up_in_doubt_and_one_that_is_not_there_was_asked_nothing() {
    let server = Server::play([Reply::hang()]);
    let sent = Setting::within(&server.origin(), "150ms".parse().unwrap()).send().await;
    assert_eq!(outcome(&sent), (Status::Indeterminate, "remote"));
    let gone = { Server::play([]).origin() };
    assert_eq!(outcome(&Setting::new(&gone).send().await), (Status::Failed, "most_unavailable"));
}

#[tokio::test]
async fn a_call_with_bad_arguments_reaches_nobody() {
    let server = Server::start(|_| Reply::json(200, &json!({ "id": MESSAGE })));
    let setting = Setting::new(&server.origin());
    let good = json!({ "from": "a", "to": ["b"], "text": "c" });
    let with = |key: &str, value: Value| {
        let mut arguments = good.clone();
        arguments[key] = value;
        arguments
    };
    for (tool, arguments) in [
        ("most_create_chat", with("from", json!(" "))),
        ("most_create_chat", with("from", json!("a\nb"))),
        ("most_create_chat", with("to", json!([]))),
        ("most_create_chat", with("to", json!("b"))),
        ("most_create_chat", with("to", json!(["b", "\u{0}"]))),
        ("most_create_chat", with("to", json!(vec!["b"; 65]))),
        ("most_create_chat", with("text", json!("x".repeat(16_385)))),
        ("most_create_chat", with("preferred_service", json!("pigeon"))),
        ("most_create_chat", with("extra", json!(1))),
        ("most_send_message", json!({ "chat_id": "town", "text": "x" })),
        ("most_send_message", json!({ "chat_id": "../../admin", "text": "x" })),
        ("most_send_message", json!({ "chat_id": CHAT })),
        ("most_health", json!({ "x": 1 })),
    ] {
        let refused = setting.call(tool, arguments.clone()).await;
        assert_eq!(outcome(&refused), (Status::Failed, "invalid_arguments"), "{tool} {arguments}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_token_that_was_exchanged_is_used_at_once_and_a_broken_one_sends_nothing() {
    let server = Server::start(|_| Reply::json(200, &json!({ "id": MESSAGE })));
    let setting = Setting::new(&server.origin());
    for token in ["first token", "second token"] {
        keep(&setting.token(), token);
        assert_eq!(setting.send().await.status, Status::Success);
        assert_eq!(server.seen().last().unwrap().headers["authorization"], format!("Bearer {token}"));
    }
    fs::set_permissions(setting.token(), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = setting.send().await;
    assert_eq!(outcome(&refused), (Status::Failed, "most_unavailable"));
    assert!(!refused.envelope().contains("token"), "where it lies is not the being's affair: {}", refused.envelope());
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn what_the_service_says_back_passes_the_boundary_and_keeps_the_token_to_itself() {
    let server = Server::start(|seen| match seen.index {
        0 => Reply::error(401, &format!("{TOKEN} is wrong")),
        1 => Reply::json(200, &json!({ "id": MESSAGE, "note": TOKEN })),
        _ => Reply::json(200, &json!({ "id": MESSAGE, "access_token": "x" })),
    });
    let setting = Setting::new(&server.origin());
    let refused = setting.send().await;
    assert!(refused.envelope().contains("[secret] is wrong"), "{}", refused.envelope());
    assert_eq!(setting.send().await.content["note"], "[secret]");
    let screened = setting.send().await;
    assert_eq!(outcome(&screened), (Status::Failed, "sensitive_output_rejected"));
    assert_eq!(screened.screened.as_deref(), Some("forbidden_key at $.access_token"));
}

#[tokio::test]
async fn a_service_without_a_backend_is_told_by_doctor() {
    for (health, told) in [
        (json!({ "status": "ok", "backends": "imessage,sms" }), None),
        (json!({ "status": "ok", "backends": " none " }), Some("most: Most has no send-capable backend")),
        (json!({ "status": "ok", "backends": "" }), Some("most: Most has no send-capable backend")),
        (json!({}), Some("most: response missing /status")),
    ] {
        let server = Server::start(move |_| Reply::json(200, &health).after(Duration::from_millis(1)));
        let setting = Setting::new(&server.origin());
        let checked = check_most(&setting.spec, &setting.secrets).await;
        match told {
            None => assert!(checked.is_ok()),
            Some(told) => assert!(checked.as_ref().is_err_and(|why| why.starts_with(told)), "{checked:?}"),
        }
    }
}
