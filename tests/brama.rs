//! The Brama gateway over real HTTP: every byte that it is sent, and what is made of what it says.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail, and keeps secrets in files"
)]

#[cfg(test)]
#[path = "support/openai.rs"]
#[expect(dead_code, unreachable_pub, reason = "the tests of the binary use the rest")]
mod openai;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use openai::{Reply, Seen, Server};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use singularity::{
    being::{ChatMessage, ChatRequest, Price, ToolDefinition},
    manifest::{ModelSpec, ProviderSpec, SecretSource},
    model::{Class, Means, ModelError, Models},
    secret::Secrets,
    vocab::{Name, Span},
};
use tempfile::TempDir;

const NOW: &str = "2026-12-02T02:53:20Z";
const SECOND: &str = "1796180000";
const HMAC: &str = "s3cret of the agent";
const BEARER: &str = "b3arer.of-the_agent";

/// HMAC by its definition (RFC 2104), and not by the crate that the program uses.
fn hmac_sha256(key: &[u8], message: &[u8]) -> String {
    let mut block = [0_u8; 64];
    if key.len() > 64 {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |byte: u8| block.map(|one| one ^ byte).to_vec();
    let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
    hex(&Sha256::digest([pad(0x5c), inner.to_vec()].concat()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Setting {
    folder: TempDir,
    models: Models,
}

impl Setting {
    fn new(base_url: &str, model: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        keep(&folder.path().join("hmac"), HMAC);
        keep(&folder.path().join("bearer"), BEARER);
        let source = |name: &str| SecretSource::File(folder.path().join(name));
        let provider = ProviderSpec::Brama {
            base_url: base_url.into(),
            model: model.into(),
            hmac_secret: source("hmac"),
            bearer: Some(source("bearer")),
        };
        let spec = ModelSpec {
            provider,
            price: Price::default(),
            max_tokens: 64,
            temperature_milli: 200,
            timeout: Span::from_secs(20),
            concurrency: 1,
            context_tokens: 1_000,
        };
        let means = Means {
            clock: Arc::new(|| NOW.parse().unwrap()),
            secrets: Secrets::new(Arc::new(|_| None)),
            embed: Arc::new(|_| panic!("nothing is embedded here")),
            encode: Arc::new(|| panic!("nothing is encoded here")),
        };
        Self { models: Models::new(&BTreeMap::from([(gate(), spec)]), means), folder }
    }

    async fn ask(&self, model: &str) -> Result<String, ModelError> {
        let tool = ToolDefinition { name: "t".into(), description: "d".into(), parameters: json!({ "type": "object" }) };
        let messages = vec![ChatMessage::user("hello \u{1f44b}")];
        let request = ChatRequest { model: model.into(), messages, tools: Arc::new([tool]), prompt_tokens: 0 };
        let answer = self.models.complete("ada", &[gate()], &request).await?;
        Ok(answer.completion.content.unwrap_or_default())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn gate() -> Name {
    "gate".parse().unwrap()
}

fn keep(path: &Path, secret: &str) {
    fs::write(path, format!("{secret}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Every header of a request but those that HTTP itself needs, and none that nobody ordered.
#[track_caller]
fn headers(seen: &Seen) -> BTreeMap<&str, &str> {
    let ours = ["host", "accept", "content-length"];
    let all = seen.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    assert_eq!(seen.headers.get("accept").map(String::as_str), Some("*/*"));
    all.filter(|(name, _)| !ours.contains(name)).collect()
}

#[tokio::test]
async fn a_thought_is_signed_over_every_byte_that_is_sent() {
    let server = Server::play([Reply::say("hi")]);
    let setting = Setting::new(&server.origin(), "lab/big");
    assert_eq!(setting.ask("gate").await, Ok("hi".to_owned()));
    let seen = &server.seen()[0];
    let body = concat!(
        r#"{"model":"lab/big","messages":[{"role":"user","content":"hello "#,
        "\u{1f44b}",
        r#""}],"max_tokens":64,"temperature":0.2,"#,
        r#""tools":[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object"}}}]}"#
    );
    assert_eq!(String::from_utf8_lossy(&seen.raw), body);
    let digest = hex(&Sha256::digest(body.as_bytes()));
    let signature = hmac_sha256(HMAC.as_bytes(), format!("ada:{SECOND}:{digest}").as_bytes());
    let (bearer, length) = (format!("Bearer {BEARER}"), body.len().to_string());
    assert_eq!(
        headers(seen),
        BTreeMap::from([
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("x-agent-body-sha256", digest.as_str()),
            ("x-agent-id", "ada"),
            ("x-agent-signature", signature.as_str()),
            ("x-agent-timestamp", SECOND),
        ])
    );
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.headers["content-length"], length);
    assert_eq!(seen.headers["host"], server.origin().trim_start_matches("http://"));
}

#[tokio::test]
async fn a_gateways_health_is_asked_without_and_its_list_with_the_credentials() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/health" => Reply::json(200, &json!({ "status": "ok", "dependencies": "not_probed" })),
        _ => Reply::json(200, &json!({ "data": [{ "id": "lab/big", "contextWindow": 4_096 }, { "id": "lab/small" }] })),
    });
    let setting = Setting::new(&server.origin(), "lab/big");
    let checkup = setting.models.check("ada", &gate()).await.unwrap();
    assert_eq!((checkup.is_listed, checkup.context_tokens), (Some(true), Some(4_096)));
    let seen = server.seen();
    let (health, list) = (&seen[0], &seen[1]);
    assert_eq!((health.method.as_str(), health.path.as_str(), health.raw.as_slice()), ("GET", "/health", &b""[..]));
    assert_eq!(headers(health), BTreeMap::new());
    assert_eq!((list.method.as_str(), list.path.as_str(), list.raw.as_slice()), ("GET", "/v1/models", &b""[..]));
    // For an empty body Brama signs the empty text in the place of a digest.
    let signature = hmac_sha256(HMAC.as_bytes(), format!("ada:{SECOND}:").as_bytes());
    let (bearer, digest) = (format!("Bearer {BEARER}"), hex(&Sha256::digest(b"")));
    assert_eq!(
        headers(list),
        BTreeMap::from([
            ("authorization", bearer.as_str()),
            ("x-agent-body-sha256", digest.as_str()),
            ("x-agent-id", "ada"),
            ("x-agent-signature", signature.as_str()),
            ("x-agent-timestamp", SECOND),
        ])
    );
    assert_eq!(setting.models.knows("ada", &[gate()], "lab/small").await, Ok(true));
    assert_eq!(setting.models.knows("ada", &[gate()], "lab/none").await, Ok(false));
}

#[tokio::test]
async fn a_gateway_that_is_not_well_or_lacks_the_model_is_told() {
    let check = async |health: Value, model: &str| {
        let server = Server::start(move |seen| match seen.path.as_str() {
            "/health" => Reply::json(200, &health),
            _ => Reply::json(200, &json!({ "data": [] })),
        });
        Setting::new(&server.origin(), model).models.check("ada", &gate()).await.map(|checkup| checkup.is_listed)
    };
    let ill = check(json!({ "status": "degraded" }), "any").await.unwrap_err();
    assert_eq!((ill.class, ill.to_string().as_str()), (Class::Permanent, "brama: health response is not ok"));
    for (model, is_listed) in
        [("any", true), ("any-vision-capable", true), ("best", true), ("task:poem", true), ("task:", false), ("lab/none", false)]
    {
        assert_eq!(check(json!({ "status": "ok" }), model).await, Ok(Some(is_listed)), "{model}");
    }
}

#[tokio::test]
async fn a_selector_goes_to_the_gateway_as_it_is() {
    let server = Server::start(|_| Reply::say("hi"));
    let setting = Setting::new(&server.origin(), "any");
    for (wanted, asked) in [("gate", "any"), ("task:poem", "task:poem"), ("best", "best"), ("lab/big", "lab/big")] {
        setting.ask(wanted).await.unwrap();
        assert_eq!(server.seen().last().unwrap().body["model"], asked);
    }
}

#[tokio::test]
async fn secrets_that_were_exchanged_are_used_at_once_and_broken_ones_reach_nobody() {
    let server = Server::start(|_| Reply::say("hi"));
    let setting = Setting::new(&server.origin(), "any");
    setting.ask("gate").await.unwrap();
    keep(&setting.path("hmac"), "another secret");
    keep(&setting.path("bearer"), "another bearer");
    setting.ask("gate").await.unwrap();
    let seen = server.seen().pop().unwrap();
    assert_eq!(seen.headers["authorization"], "Bearer another bearer");
    let covered = format!("ada:{SECOND}:{}", hex(&Sha256::digest(&seen.raw)));
    assert_eq!(seen.headers["x-agent-signature"], hmac_sha256(b"another secret", covered.as_bytes()));
    fs::set_permissions(setting.path("hmac"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = setting.ask("gate").await.unwrap_err();
    assert_eq!(error.class, Class::Permanent);
    assert!(error.message.contains("must not be group/world accessible"), "{error}");
    fs::remove_file(setting.path("bearer")).unwrap();
    assert!(setting.ask("gate").await.is_err());
    assert_eq!(server.seen().len(), 2, "nothing was sent without its credentials");
}

#[tokio::test]
async fn what_the_gateway_says_of_trying_again_is_believed() {
    let refusal = |status: u16, kind: &str, retryable: Option<bool>| {
        let mut error = json!({ "message": "m", "type": kind, "code": kind, "attempts": 2 });
        if let Some(retryable) = retryable {
            error["retryable"] = retryable.into();
        }
        Reply::json(status, &json!({ "error": error }))
    };
    let again = |seconds: Option<u64>| Class::Transient { retry_after: seconds.map(Span::from_secs) };
    for (reply, class) in [
        (refusal(400, "request_error", Some(false)), Class::Permanent),
        (refusal(401, "authentication_error", Some(false)), Class::Permanent),
        (refusal(403, "authorization_error", Some(false)), Class::Permanent),
        (refusal(409, "state_error", Some(false)), Class::Permanent),
        (refusal(426, "transport_error", Some(false)), Class::Permanent),
        (refusal(429, "capacity_error", Some(true)), again(None)),
        (refusal(429, "capacity_error", Some(true)).header("retry-after", "17"), again(Some(17))),
        (refusal(502, "provider_error", Some(false)), Class::Permanent),
        (refusal(503, "dependency_error", Some(true)).header("retry-after", "3"), again(Some(3))),
        (refusal(503, "authorization_error", Some(false)), Class::Permanent),
        (refusal(504, "dependency_error", Some(true)), again(None)),
        (refusal(500, "internal_error", Some(false)), Class::Permanent),
        (refusal(500, "internal_error", None), again(None)),
        (Reply::raw(413, b"too large".to_vec()), Class::TooLong),
    ] {
        let server = Server::play([reply]);
        let error = Setting::new(&server.origin(), "any").ask("gate").await.unwrap_err();
        assert_eq!(error.class, class, "{error}");
        assert_eq!(server.seen().len(), 1, "nothing is sent twice");
    }
}

#[tokio::test]
async fn a_gateway_that_says_the_secrets_back_tells_nobody() {
    let said = format!("{HMAC} and {BEARER} are wrong");
    let server = Server::start(move |_| Reply::error(401, &said));
    let error = Setting::new(&server.origin(), "any").ask("gate").await.unwrap_err();
    assert_eq!(error.to_string(), "brama: HTTP 401: [secret] and [secret] are wrong");
}
