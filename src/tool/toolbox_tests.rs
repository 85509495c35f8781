use std::{
    fs,
    sync::{Mutex, PoisonError},
};

use tempfile::TempDir;

use super::*;
use crate::{
    being::MindChange,
    manifest::{LimitsSpec, Scope, ToolTerms, TransportSpec},
    surface::{Call, RemoteTool},
    vocab::Span,
};

/// A surface that answers each call with what it was told to, and remembers what reached it.
struct Echoing {
    answers: BTreeMap<&'static str, Result<Value, CallError>>,
    reached: Mutex<Vec<String>>,
}

impl Remote for Echoing {
    fn tools(&self) -> Vec<RemoteTool> {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let tool = |name: &&str| RemoteTool { name: (*name).into(), description: String::new(), input_schema: schema.clone() };
        self.answers.keys().map(tool).collect()
    }

    fn call<'a>(&'a self, tool: &'a str, _: Map<String, Value>) -> Call<'a> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).push(tool.to_owned());
        let answer = self.answers.get(tool).cloned().expect("a known tool");
        Box::pin(async move { answer })
    }
}

struct Bench {
    folder: TempDir,
    remote: Arc<Echoing>,
    toolbox: Toolbox,
}

fn surface(trusted_revenue: bool, boundary: Boundary) -> SurfaceSpec {
    SurfaceSpec {
        transport: TransportSpec::Command(vec!["x".into()]),
        scope: Scope::Being,
        env: BTreeMap::new(),
        timeout: Span::from_secs(1),
        trusted_revenue,
        boundary,
        sandbox: None,
        limits: LimitsSpec::default(),
        terms: ToolTerms::default(),
    }
}

fn bench(answers: impl IntoIterator<Item = (&'static str, Result<Value, CallError>)>) -> Bench {
    let folder = TempDir::new().unwrap();
    let remote = Arc::new(Echoing { answers: answers.into_iter().collect(), reached: Mutex::default() });
    let shared: Arc<dyn Remote> = remote.clone();
    let name = |text: &str| Name::try_from(text).unwrap();
    let parts = Parts {
        capabilities: CapabilitySpec { memory: true, files: true, children: None },
        remote: Some(shared),
        surfaces: BTreeMap::from([
            (name("plain"), surface(false, Boundary::Reject)),
            (name("lenient"), surface(false, Boundary::Redact)),
            (name("shop"), surface(true, Boundary::Reject)),
        ]),
        required: vec![],
        workspace: folder.path().to_owned(),
        state_dirs: vec![folder.path().join("state")],
        models: Arc::new(|model| {
            let known = match model {
                "gpt" => Ok(true),
                "lost" => Err("the gateway at /srv is down".to_owned()),
                _ => Ok(false),
            };
            Box::pin(async move { known })
        }),
        seen: Sightings::new(),
        tokens: folder.path().join("oauth"),
        most: None,
        secrets: Secrets::new(Arc::new(|_| None)),
    };
    Bench { toolbox: Toolbox::new(parts).unwrap(), folder, remote }
}

impl Bench {
    async fn call(&self, tool: &str, arguments: impl ToString + Send) -> Outcome {
        let stamp = Stamp { id: Uuid::from_u128(9), at: Timestamp::UNIX_EPOCH };
        let call = ToolCall::new("c", tool, arguments.to_string());
        self.toolbox.call(&call, &Mind::new("Be.".into(), "smol".into()), stamp).await
    }

    fn reached(&self) -> Vec<String> {
        self.remote.reached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn structured(content: Value) -> Result<Value, CallError> {
    Ok(json!({ "content": [], "structuredContent": content }))
}

fn text(content: &str) -> Result<Value, CallError> {
    Ok(json!({ "content": [{ "type": "text", "text": content }] }))
}

fn code(outcome: &Outcome) -> (Status, &str) {
    (outcome.status, outcome.error_code.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn what_is_refused_has_reached_nothing() {
    let bench = bench([("plain__x", text("ok"))]);
    for (tool, arguments, refused) in [
        ("plain__y", "{}", "unknown_tool"),
        ("singularity_spawn_child", "{}", "unknown_tool"),
        ("plain__x", "", "invalid_arguments"),
        ("plain__x", "{", "invalid_arguments"),
        ("plain__x", "[]", "invalid_arguments"),
        ("plain__x", "null", "invalid_arguments"),
        ("plain__x", r#"{"n":"one"}"#, "invalid_arguments"),
    ] {
        assert_eq!(code(&bench.call(tool, arguments).await), (Status::Failed, refused), "{tool} {arguments}");
    }
    assert!(bench.reached().is_empty());
    let told = bench.call("plain__x", r#"{"n":"one"}"#).await.content;
    let told = told["message"].as_str().unwrap();
    assert!(told.starts_with("arguments.n breaks the rule `type` of the tool's schema: "), "{told}");
    assert_eq!(code(&bench.call("plain__x", r#"{"n":1}"#).await), (Status::Success, ""));
    assert_eq!(bench.reached(), ["plain__x"]);
}

#[tokio::test]
async fn a_model_that_calls_badly_is_told_what_is_wrong_and_reaches_nothing() {
    let bench = bench([("plain__x", text("ok"))]);
    for (tool, arguments, refused, told) in [
        ("plain__x", r#""{\"n\":1}""#, "invalid_arguments", "tool arguments must be a JSON object, not a string that holds one"),
        ("plain__x", "null", "invalid_arguments", "tool arguments must be a JSON object"),
        ("plain__x", "", "invalid_arguments", "invalid JSON arguments: EOF while parsing a value at line 1 column 0"),
        ("plain__x", r#"{"n":1"#, "invalid_arguments", "invalid JSON arguments: EOF while parsing an object at line 1 column 6"),
        ("Plain__X", "{}", "unknown_tool", "tool is not in the current catalog; did you mean `plain__x`?"),
        ("plain__y", "{}", "unknown_tool", "tool is not in the current catalog"),
    ] {
        let outcome = bench.call(tool, arguments).await;
        assert_eq!((code(&outcome), &outcome.content), ((Status::Failed, refused), &json!({ "message": told })), "{arguments}");
    }
    assert!(bench.reached().is_empty());
}

#[tokio::test]
async fn a_result_of_one_byte_too_many_is_refused_whole_and_one_of_the_last_byte_is_not() {
    let (fits, vast) = ("x".repeat(65_534), "x".repeat(65_535));
    let leaked: &'static str = Box::leak(vast.into_boxed_str());
    let bench = bench([("plain__fits", text(&fits)), ("plain__vast", text(leaked)), ("lenient__vast", text(leaked))]);
    assert_eq!(bench.call("plain__fits", "{}").await.content, json!(fits), "65,536 bytes with its quotes");
    for tool in ["plain__vast", "lenient__vast"] {
        let outcome = bench.call(tool, "{}").await;
        assert_eq!((code(&outcome), outcome.screened.as_deref()), ((Status::Failed, SCREENED), Some("oversize at $")), "{tool}");
    }
}

#[tokio::test]
async fn the_boundary_is_one_for_text_structure_resources_and_errors() {
    let hidden = r#"{"a":[{"Cookie-Token":"x"}]}"#;
    let resource = json!({ "type": "resource", "resource": { "uri": "file:///x", "text": hidden } });
    let bench = bench([
        ("plain__text", text(hidden)),
        ("plain__structure", structured(json!({ "a": { "my api key": 1 } }))),
        ("plain__resource", Ok(json!({ "content": [resource] }))),
        ("plain__refusal", Ok(json!({ "isError": true, "content": [{ "type": "text", "text": hidden }] }))),
        ("plain__error", Err(CallError::Failed { code: "remote_tool", message: hidden.into() })),
        ("plain__doubt", Err(CallError::Indeterminate { message: hidden.into() })),
        ("plain__harmless", structured(json!({ "tokens_used": 7 }))),
    ]);
    for tool in ["text", "structure", "resource", "refusal"] {
        let outcome = bench.call(&format!("plain__{tool}"), "{}").await;
        assert_eq!((code(&outcome), &outcome.content), ((Status::Failed, SCREENED), &Value::Null), "{tool}");
    }
    for (tool, status) in [("error", Status::Failed), ("doubt", Status::Indeterminate)] {
        let outcome = bench.call(&format!("plain__{tool}"), "{}").await;
        assert_eq!((outcome.status, &outcome.content), (status, &json!({ "message": "[redacted: forbidden_key]" })), "{tool}");
    }
    assert_eq!(bench.call("plain__harmless", "{}").await.content, json!({ "tokens_used": 7 }));
}

#[tokio::test]
async fn a_bearer_that_a_surface_says_back_is_shown_to_nobody() {
    let mut bench = bench([
        ("far__says", text("you sent b34rer-of-far")),
        ("far__keyed", structured(json!({ "b34rer-of-far": "b34rer-of-far" }))),
        ("far__refuses", Err(CallError::Failed { code: "remote_tool", message: "HTTP 401: b34rer-of-far is wrong".into() })),
    ]);
    let bearer = Some(crate::manifest::SecretSource::Env("BEARER".into()));
    let far = SurfaceSpec {
        transport: TransportSpec::Url { url: "http://127.0.0.1:1/mcp".into(), bearer, oauth: None },
        ..surface(false, Boundary::Reject)
    };
    bench.toolbox.surfaces.insert("far".parse().unwrap(), far);
    bench.toolbox.secrets = Secrets::new(Arc::new(|name| (name == "BEARER").then(|| "b34rer-of-far".to_owned())));
    assert_eq!(bench.call("far__says", "{}").await.content, json!("you sent [secret]"));
    assert_eq!(bench.call("far__keyed", "{}").await.content, json!({ "[secret]": "[secret]" }));
    assert_eq!(bench.call("far__refuses", "{}").await.content, json!({ "message": "HTTP 401: [secret] is wrong" }));
}

#[tokio::test]
async fn a_definite_answer_is_never_indeterminate_and_an_unknown_effect_stays_unknown() {
    let bench = bench([
        ("plain__error", Ok(json!({ "isError": true, "content": [{ "type": "text", "text": "no such thing" }] }))),
        ("plain__odd", Ok(json!({ "isError": "maybe" }))),
        ("plain__refused", Err(CallError::Failed { code: "remote_tool", message: "no, see /etc/x".into() })),
        ("plain__lost", Err(CallError::Indeterminate { message: "pipe to /srv/x broke".into() })),
        ("plain__vast", Err(CallError::Indeterminate { message: "x".repeat(100_000) })),
    ]);
    let error = bench.call("plain__error", "{}").await;
    assert_eq!((code(&error), &error.content), ((Status::Failed, "remote_tool"), &json!("no such thing")));
    assert_eq!(code(&bench.call("plain__odd", "{}").await), (Status::Failed, "remote_tool_malformed"));
    let refused = bench.call("plain__refused", "{}").await;
    assert_eq!(
        (code(&refused), &refused.content),
        ((Status::Failed, "remote_tool"), &json!({ "message": "[redacted: absolute_path]" }))
    );
    let lost = bench.call("plain__lost", "{}").await;
    assert_eq!((code(&lost), lost.screened.as_deref()), ((Status::Indeterminate, "mcp"), Some("absolute_path at $.message")));
    assert_eq!(bench.call("plain__vast", "{}").await.status, Status::Indeterminate);
}

#[tokio::test]
async fn a_result_that_may_not_be_seen_is_replaced_whole_and_the_ledger_says_why() {
    let secret = json!({ "user": { "api_key": "hunter2" }, "chat_id": Uuid::from_u128(1), "revenue_usd": "5" });
    let bench = bench([
        ("plain__x", structured(secret.clone())),
        ("lenient__x", structured(secret.clone())),
        ("shop__x", structured(secret)),
    ]);
    for tool in ["plain__x", "shop__x"] {
        let outcome = bench.call(tool, "{}").await;
        assert_eq!(outcome.screened.as_deref(), Some("forbidden_key at $.user.api_key"));
        assert_eq!(
            outcome.envelope(),
            r#"{"status":"failed","content":null,"error_code":"sensitive_output_rejected","chat_id":null,"message_id":null}"#
        );
        assert_eq!(outcome.revenue, None, "a result that nobody may see earns nothing");
    }
    let redacted = bench.call("lenient__x", "{}").await;
    assert_eq!((redacted.status, &redacted.content["user"]), (Status::Success, &json!({ "api_key": "[redacted: forbidden_key]" })));
    assert_eq!(redacted.screened.as_deref(), Some("forbidden_key at $.user.api_key"));
}

#[tokio::test]
async fn only_the_structure_of_a_trusted_tool_earns() {
    let paid = || structured(json!({ "revenue_usd": "5", "id": "t1" }));
    let bench = bench([
        ("finance__sell", paid()),
        ("trading__close", structured(json!({ "realized_profit_usd": 1.5 }))),
        ("shop__sell", paid()),
        ("plain__sell", paid()),
        ("financed__sell", paid()),
        ("finance__told", text(r#"{"revenue_usd":"5"}"#)),
        ("finance__failed", Ok(json!({ "isError": true, "structuredContent": { "revenue_usd": "5" } }))),
        ("finance__loss", structured(json!({ "revenue_usd": "-5" }))),
    ]);
    for (tool, earned) in [
        ("finance__sell", Some(("5", Some("finance__sell:t1")))),
        ("trading__close", Some(("1.5", None))),
        ("shop__sell", Some(("5", Some("shop__sell:t1")))),
        ("plain__sell", None),
        ("financed__sell", None),
        ("finance__told", None),
        ("finance__failed", None),
        ("finance__loss", None),
    ] {
        let revenue = bench.call(tool, "{}").await.revenue.map(|revenue| (revenue.amount.to_string(), revenue.transaction));
        assert_eq!(revenue, earned.map(|(amount, id)| (amount.to_owned(), id.map(str::to_owned))), "{tool}");
    }
    assert_eq!(bench.call("finance__sell", r#"{"revenue_usd":"5"}"#).await.revenue, None, "an echo");
    let loss = bench.call("finance__loss", "{}").await;
    assert_eq!((loss.status, loss.warning.as_deref()), (Status::Success, Some("revenue cannot be negative")));
}

#[tokio::test]
async fn ids_are_lifted_and_paths_of_the_workspace_are_relative() {
    let (chat, message) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let bench = bench([("plain__x", structured(json!({ "chat_id": chat, "message_id": message })))]);
    let outcome = bench.call("plain__x", "{}").await;
    assert_eq!((outcome.chat_id, outcome.message_id), (Some(chat), Some(message)));

    fs::write(bench.folder.path().join("a.txt"), format!("see {}/b.txt", bench.folder.path().display())).unwrap();
    let read = bench.call("singularity_file_read", r#"{"path":"./a.txt"}"#).await;
    assert_eq!(read.content, json!({ "path": "a.txt", "content": "see ./b.txt" }));
}

#[tokio::test]
async fn a_being_changes_its_mind_even_with_words_that_the_boundary_would_refuse() {
    let bench = bench([]);
    let rule = "never read /etc/shadow";
    let outcome = bench.call("singularity_self_add_rule", json!({ "rule": rule })).await;
    assert_eq!((outcome.status, &outcome.content), (Status::Success, &json!({ "rule": "[redacted: absolute_path]" })));
    assert_eq!(outcome.change, Some(MindChange::AddRule { rule: rule.into() }));
    let refused = bench.call("singularity_self_add_rule", json!({ "rule": " " })).await;
    assert_eq!(
        (code(&refused), &refused.content),
        ((Status::Failed, "invalid_arguments"), &json!({ "message": "rule is invalid" }))
    );
    assert_eq!(refused.change, None);
}

#[tokio::test]
async fn each_tool_of_the_mind_answers_as_the_reference_says() {
    let bench = bench([]);
    let id = Uuid::from_u128(9);
    for (tool, arguments, content) in [
        ("singularity_memory_remember", json!({ "kind": "note", "text": "x" }), json!({ "memory_id": id })),
        ("singularity_memory_recall", json!({ "query": "x" }), json!({ "memories": [] })),
        ("singularity_self_set_prompt", json!({ "prompt": "p" }), json!({ "updated": true })),
        ("singularity_self_add_learning", json!({ "learning": "l" }), json!({ "learning": "l" })),
        ("singularity_self_switch_model", json!({ "model": "gpt" }), json!({ "model": "gpt" })),
        ("singularity_file_write", json!({ "path": "d/f", "content": "é" }), json!({ "path": "d/f", "bytes": 2 })),
        ("singularity_file_read", json!({ "path": "d/f" }), json!({ "path": "d/f", "content": "é" })),
    ] {
        let outcome = bench.call(tool, &arguments).await;
        assert_eq!((outcome.status, &outcome.content), (Status::Success, &content), "{tool}");
        let changes = !matches!(tool, "singularity_memory_recall" | "singularity_file_write" | "singularity_file_read");
        assert_eq!(outcome.change.is_some(), changes, "{tool}");
    }
}

#[tokio::test]
async fn a_call_can_be_carried_out_in_a_task_of_its_own() {
    let bench = bench([("plain__x", text("ok"))]);
    let task = tokio::spawn(async move { bench.call("plain__x", "{}").await });
    assert_eq!(task.await.unwrap().content, json!("ok"));
}

#[tokio::test]
async fn a_model_that_nobody_vouches_for_is_not_switched_to() {
    let bench = bench([]);
    for model in ["other", "lost"] {
        let outcome = bench.call("singularity_self_switch_model", json!({ "model": model })).await;
        assert_eq!((code(&outcome), &outcome.change), ((Status::Failed, "model_unavailable"), &None), "{model}");
    }
}

#[tokio::test]
async fn a_file_out_of_reach_is_told_by_its_code() {
    let bench = bench([]);
    fs::create_dir(bench.folder.path().join("state")).unwrap();
    fs::write(bench.folder.path().join("state/state.json"), "{}").unwrap();
    for (path, refused) in [
        ("/etc/passwd", "workspace_boundary"),
        ("../x", "workspace_boundary"),
        ("state/state.json", "workspace_boundary"),
        ("none", "file_read"),
        ("state", "workspace_boundary"),
    ] {
        assert_eq!(code(&bench.call("singularity_file_read", json!({ "path": path })).await), (Status::Failed, refused), "{path}");
    }
    let large = fs::write(bench.folder.path().join("large"), "x".repeat(100_000));
    large.unwrap();
    let outcome = bench.call("singularity_file_read", json!({ "path": "large" })).await;
    assert_eq!(
        (code(&outcome), outcome.screened.as_deref()),
        ((Status::Failed, "sensitive_output_rejected"), Some("oversize at $"))
    );
}
