use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;

use super::{
    scripted::{Reply, Server},
    *,
};
use crate::{
    being::{ChatMessage, ChatRequest, Completion, CountTokens, Finish, Price, ToolDefinition, Usage},
    manifest::{ModelSpec, ProviderSpec, SecretSource},
    secret::{Environment, Secrets},
    vocab::{Name, Span, Usd},
};

const NOW: &str = "2026-12-02T02:53:20Z";
const KEY: &str = "sk-very-secret";

fn name(text: &str) -> Name {
    Name::try_from(text).unwrap()
}

fn price() -> Price {
    Price { input: Usd::parse("1").unwrap(), output: Usd::parse("2").unwrap() }
}

fn spec(provider: ProviderSpec) -> ModelSpec {
    ModelSpec {
        provider,
        price: price(),
        max_tokens: 64,
        temperature_milli: 200,
        timeout: Span::from_secs(20),
        concurrency: 4,
        context_tokens: 1_000,
    }
}

fn openai(base_url: String) -> ModelSpec {
    spec(ProviderSpec::OpenAi { base_url, model: "real-name".into(), api_key: Some(SecretSource::Env("KEY".into())) })
}

fn brama(base_url: String) -> ModelSpec {
    let (hmac_secret, bearer) = (SecretSource::Env("HMAC".into()), Some(SecretSource::Env("KEY".into())));
    spec(ProviderSpec::Brama { base_url, model: "own".into(), hmac_secret, bearer })
}

fn means(embed: Embed) -> Means {
    let environment: Environment = Arc::new(|name| match name {
        "KEY" => Some(KEY.into()),
        "HMAC" => Some("shared-secret".into()),
        _ => None,
    });
    Means {
        clock: Arc::new(|| NOW.parse().unwrap()),
        secrets: Secrets::new(environment),
        embed,
        encode: Arc::new(|| panic!("nothing is encoded here")),
    }
}

fn models(specs: impl IntoIterator<Item = (&'static str, ModelSpec)>) -> Models {
    let specs: BTreeMap<Name, ModelSpec> = specs.into_iter().map(|(model, spec)| (name(model), spec)).collect();
    Models::new(&specs, means(Arc::new(|_| panic!("nothing is embedded here"))))
}

fn request(model: &str) -> ChatRequest {
    let tool = ToolDefinition { name: "t".into(), description: "d".into(), parameters: json!({ "type": "object" }) };
    ChatRequest { model: model.into(), messages: vec![ChatMessage::user("hello")], tools: Arc::new([tool]), prompt_tokens: 0 }
}

/// Asks one server's model once.
async fn ask(server: &Server) -> Result<Answer, ModelError> {
    models([("gpt", openai(server.base_url()))]).complete("ada", &[name("gpt")], &request("gpt")).await
}

fn spent(prompt: u64, completion: u64) -> Vec<Spent> {
    vec![Spent { usage: Usage::new(prompt, completion), price: price() }]
}

#[tokio::test]
async fn an_openai_server_is_asked_in_its_own_words() {
    let server = Server::play([Reply::call("t", json!({ "x": 1 }))]);
    let answer = ask(&server).await.unwrap();
    assert_eq!((answer.by, answer.price, answer.passed_over), (name("gpt"), price(), vec![]));
    assert_eq!((answer.completion.finish, answer.completion.usage), (Finish::ToolCalls, Usage::new(10, 5)));
    assert_eq!(answer.completion.tool_calls[0].function.arguments, r#"{"x":1}"#);
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(
        (&seen.body["model"], &seen.body["tool_choice"], &seen.body["temperature"]),
        (&json!("real-name"), &json!("auto"), &json!(0.2))
    );
    assert_eq!((seen.last_message(), seen.tools()), ("hello", vec!["t"]));
}

#[tokio::test]
async fn a_failure_is_told_as_passing_or_lasting() {
    let seconds = |seconds| Class::Transient { retry_after: Some(Span::from_secs(seconds)) };
    let passing = Class::Transient { retry_after: None };
    for (reply, class, message) in [
        (Reply::error(429, "slow down").header("retry-after", "7"), seconds(7), "brama: HTTP 429: slow down"),
        (Reply::error(503, "x").header("retry-after", "Wed, 02 Dec 2026 02:53:25 GMT"), seconds(5), "brama: HTTP 503: x"),
        (Reply::raw(500, b"oops".to_vec()), passing, "brama: HTTP 500: oops"),
        (Reply::error(401, "bad key").header("retry-after", "7"), Class::Permanent, "brama: HTTP 401: bad key"),
        (Reply::error(400, "no"), Class::Permanent, "brama: HTTP 400: no"),
        (Reply::error(400, "prompt is too long"), Class::TooLong, "brama: HTTP 400: prompt is too long"),
        (Reply::raw(302, vec![]).header("location", "/v1/elsewhere"), Class::Permanent, "brama: HTTP 302: "),
        (Reply::completion(json!({}), "stop").cut_off(), passing, "brama: error sending request for url ("),
        (Reply::disconnect(), passing, "brama: error sending request for url ("),
        (Reply::raw(200, b"<html>".to_vec()), Class::Permanent, "brama: response is not a chat completion: "),
    ] {
        let server = Server::play([reply]);
        let error = ask(&server).await.unwrap_err();
        assert_eq!(error.class, class, "{error}");
        assert!(error.to_string().starts_with(message), "{error} / {message}");
        assert_eq!(server.seen().len(), 1, "one attempt, no redirect followed");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_may_come_back() {
    let gone = { Server::play([]).base_url() };
    let error = models([("gpt", openai(gone))]).complete("ada", &[name("gpt")], &request("gpt")).await.unwrap_err();
    assert_eq!(error.class, Class::Transient { retry_after: None }, "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_at_the_deadline() {
    let server = Server::play([Reply::hang()]);
    let spec = ModelSpec { timeout: "150ms".parse().unwrap(), ..openai(server.base_url()) };
    let error = models([("gpt", spec)]).complete("ada", &[name("gpt")], &request("gpt")).await.unwrap_err();
    assert_eq!((error.class, error.message.as_str()), (Class::Transient { retry_after: None }, "no answer within 150ms"));
}

#[tokio::test]
async fn what_a_server_counted_is_charged_even_when_its_answer_is_refused() {
    let counted = |status| {
        Reply::json(status, &json!({ "error": { "message": "x" }, "usage": { "prompt_tokens": 7, "completion_tokens": 1 } }))
    };
    for (reply, charged) in [
        (Reply::completion(json!({ "content": "x" }), "tool_calls").counting(8, 2), spent(8, 2)),
        (counted(500), spent(7, 1)),
        (counted(400), spent(7, 1)),
        (Reply::error(500, "x"), vec![]),
    ] {
        assert_eq!(ask(&Server::play([reply])).await.unwrap_err().spent, charged);
    }
}

#[tokio::test]
async fn an_answer_larger_than_its_bound_is_not_read_to_its_end() {
    let error = ask(&Server::play([Reply::say(&"x".repeat(9 * 1024 * 1024))])).await.unwrap_err();
    assert_eq!((error.class, error.message.as_str()), (Class::Permanent, "answer is larger than 8388608 bytes"));
    let error = ask(&Server::play([Reply::raw(500, vec![b'x'; 1024 * 1024])])).await.unwrap_err();
    assert_eq!(error.message.len(), "HTTP 500: ".len() + 800);
}

#[tokio::test]
async fn a_secret_that_a_server_writes_back_is_told_to_nobody() {
    let server = Server::play([Reply::error(401, &format!("key {KEY} is wrong"))]);
    let error = ask(&server).await.unwrap_err();
    assert_eq!(error.to_string(), "brama: HTTP 401: key [secret] is wrong");
    assert!(!format!("{error:?}").contains(KEY));
}

#[tokio::test]
async fn a_rotated_key_is_used_at_the_next_request_and_a_missing_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let key: PathBuf = folder.path().join("key");
    let server = Server::start(|_| Reply::say("hi"));
    let api_key = Some(SecretSource::File(key.clone()));
    let spec = spec(ProviderSpec::OpenAi { base_url: server.base_url(), model: "m".into(), api_key });
    let models = models([("gpt", spec)]);
    let ask = async || models.complete("ada", &[name("gpt")], &request("gpt")).await;
    let error = ask().await.unwrap_err();
    assert!(error.class == Class::Permanent && error.message.contains("key"), "{error}");
    for text in ["one\n", "two"] {
        fs::write(&key, text).unwrap();
        fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        ask().await.unwrap();
        assert_eq!(server.seen().last().unwrap().headers["authorization"], format!("Bearer {}", text.trim()));
    }
}

#[tokio::test]
async fn the_first_model_that_answers_is_taken_and_the_others_are_paid_for() {
    let bad = Server::play([Reply::completion(json!({ "content": "x" }), "odd").counting(3, 1)]);
    let good = Server::play([Reply::say("hi")]);
    let models = models([("bad", openai(bad.base_url())), ("good", openai(good.base_url()))]);
    let answer = models.complete("ada", &[name("bad"), name("gone"), name("good")], &request("bad")).await.unwrap();
    assert_eq!((answer.by, answer.completion.content.as_deref()), (name("good"), Some("hi")));
    let passed: Vec<(&str, &str)> =
        answer.passed_over.iter().map(|(name, error)| (name.as_str(), error.message.as_str())).collect();
    assert_eq!(passed, [("bad", "unsupported finish reason: odd"), ("gone", "no model `gone` is declared")]);
    assert_eq!(answer.passed_over[0].1.spent, spent(3, 1));
}

#[tokio::test]
async fn a_chain_that_fails_may_be_tried_again_if_one_of_it_may() {
    let servers = [
        Reply::error(401, "a"),
        Reply::error(429, "b").header("retry-after", "9"),
        Reply::error(503, "c").header("retry-after", "3"),
    ]
    .map(|reply| Server::play([reply]));
    let [a, b, c] = &servers;
    let models = models([("a", openai(a.base_url())), ("b", openai(b.base_url())), ("c", openai(c.base_url()))]);
    let error = models.complete("ada", &[name("a"), name("b"), name("c")], &request("a")).await.unwrap_err();
    assert_eq!(error.class, Class::Transient { retry_after: Some(Span::from_secs(3)) });
    assert_eq!(error.to_string(), "brama: no model answered: a: HTTP 401: a; b: HTTP 429: b; c: HTTP 503: c");
    let error = models.complete("ada", &[], &request("none")).await.unwrap_err();
    assert_eq!(error.class, Class::Permanent);
}

#[tokio::test]
async fn a_chain_in_which_one_model_wants_less_is_asked_for_less_though_another_is_only_away() {
    let servers = [Reply::error(503, "away"), Reply::error(400, "prompt is too long")].map(|reply| Server::play([reply]));
    let [away, full] = &servers;
    let models = models([("away", openai(away.base_url())), ("full", openai(full.base_url()))]);
    let error = models.complete("ada", &[name("away"), name("full")], &request("away")).await.unwrap_err();
    assert_eq!(error.class, Class::TooLong);
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_a_model_may_have() {
    let server = Server::start(|_| Reply::say("hi").after(Duration::from_millis(40)));
    let models = models([("gpt", ModelSpec { concurrency: 2, ..openai(server.base_url()) })]);
    let (chain, request) = ([name("gpt")], request("gpt"));
    let asked = futures::future::join_all((0..6).map(|_| models.complete("ada", &chain, &request))).await;
    assert!(asked.iter().all(Result::is_ok));
    assert_eq!((server.peak(), server.seen().len()), (2, 6));
}

#[tokio::test]
async fn brama_is_signed_to_the_letter() {
    let server = Server::play([Reply::say("hi")]);
    let models = models([("gate", brama(server.origin()))]);
    let answer = models.complete("ada", &[name("gate")], &request("task:poem")).await.unwrap();
    assert_eq!(answer.by, name("gate"));
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.body["model"], "task:poem", "a selector goes to the gateway");
    assert!(seen.body.get("tool_choice").is_none());
    let signed = sign::sign("shared-secret", "ada", NOW.parse().unwrap(), &seen.raw).unwrap();
    assert_eq!(seen.headers["x-agent-id"], "ada");
    assert_eq!(seen.headers["x-agent-timestamp"], "1796180000");
    assert_eq!(seen.headers["x-agent-body-sha256"], crate::vocab::Digest::of(&seen.raw).to_string());
    assert_eq!(seen.headers["x-agent-signature"], signed.signature);
    assert_eq!(seen.headers["content-type"], "application/json");
    assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
}

#[tokio::test]
async fn what_may_be_thought_with_is_declared_a_selector_or_listed_by_brama() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/v1/models" => Reply::json(200, &json!({ "object": "list", "data": [{ "id": "lab/big" }] })),
        _ => Reply::error(404, "no"),
    });
    let models = models([("gate", brama(server.origin())), ("gpt", openai("http://127.0.0.1:9/v1".into()))]);
    let chain = [name("gate"), name("gpt")];
    for (model, known) in [("gpt", true), ("any", true), ("task:x", true), ("lab/big", true), ("lab/small", false)] {
        assert_eq!(models.knows("ada", &chain, model).await, Ok(known), "{model}");
    }
    assert_eq!(models.knows("ada", &[name("gpt")], "lab/big").await, Ok(false), "only a Brama lists models");
    let signed = &server.seen()[0].headers["x-agent-signature"];
    assert_eq!(*signed, sign::sign("shared-secret", "ada", NOW.parse().unwrap(), b"").unwrap().signature);
    drop(server);
    assert!(models.knows("ada", &chain, "lab/big").await.is_err());
}

#[tokio::test]
async fn specs_change_while_the_program_runs() {
    let (one, two) = (Server::start(|_| Reply::say("one")), Server::start(|_| Reply::say("two")));
    let models = models([("gpt", openai(one.base_url()))]);
    let clone = models.clone();
    models.replace(&BTreeMap::from([(name("gpt"), openai(two.base_url()))]));
    let answer = clone.complete("ada", &[name("gpt")], &request("gpt")).await.unwrap();
    assert_eq!(answer.completion.content.as_deref(), Some("two"));
}

/// A model of this process that remembers what it was asked.
struct Local(Mutex<Vec<String>>);

impl Provider for Local {
    fn complete<'a>(&'a self, request: &'a ChatRequest) -> Thinking<'a> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request.model.clone());
        Box::pin(async {
            Ok(Completion {
                model: "smol".into(),
                content: Some("hi".into()),
                tool_calls: vec![],
                finish: Finish::Stop,
                usage: Usage::new(1, 1),
            })
        })
    }
}

#[tokio::test]
async fn a_model_of_this_process_is_made_once_per_spec() {
    let made: Arc<Mutex<Vec<Arc<Local>>>> = Arc::default();
    let keep = Arc::clone(&made);
    let embed: Embed = Arc::new(move |_| {
        let local = Arc::new(Local(Mutex::default()));
        keep.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&local));
        local
    });
    let specs = BTreeMap::from([(name("smol"), spec(ProviderSpec::Embedded { path: None }))]);
    let models = Models::new(&specs, means(embed));
    models.replace(&specs);
    let answer = models.complete("ada", &[name("smol")], &request("smol")).await.unwrap();
    assert_eq!((answer.completion.content.as_deref(), answer.price), (Some("hi"), price()));
    let made = made.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(made.len(), 1);
    assert_eq!(*made[0].0.lock().unwrap_or_else(PoisonError::into_inner), ["smol"]);
}

/// A tokenizer to which everything has seven thousand tokens.
#[derive(Debug)]
struct Seven;

impl CountTokens for Seven {
    fn message(&self, _: &ChatMessage) -> u64 {
        7_000
    }

    fn head(&self, _: Option<&str>, _: &Arc<[ToolDefinition]>) -> u64 {
        0
    }
}

/// A model of this process that may be loaded.
struct Loaded(Option<Arc<dyn CountTokens>>);

impl Provider for Loaded {
    fn complete<'a>(&'a self, _: &'a ChatRequest) -> Thinking<'a> {
        Box::pin(async { Err(ModelError::permanent("nothing is asked")) })
    }

    fn tokenizer(&self) -> Option<Arc<dyn CountTokens>> {
        self.0.clone()
    }
}

#[test]
fn what_can_be_sent_is_what_every_model_that_may_answer_can_take() {
    let seven: Arc<dyn CountTokens> = Arc::new(Seven);
    let embed: Embed = Arc::new(move |spec| Arc::new(Loaded((spec.max_tokens == 7).then(|| Arc::clone(&seven)))));
    let embedded = |max_tokens, context_tokens| {
        let spec = spec(ProviderSpec::Embedded { path: None });
        ModelSpec { max_tokens, context_tokens, ..spec }
    };
    let small = ModelSpec { context_tokens: 500, ..openai("http://127.0.0.1:1/v1".into()) };
    let specs = [("known", embedded(7, 8_192)), ("unloaded", embedded(8, 4_096)), ("small", small)];
    let models = Models::new(&specs.map(|(model, spec)| (name(model), spec)).into(), means(embed));
    let reach = |chain: &[&str], wanted: &str| {
        let chain: Vec<Name> = chain.iter().map(|model| name(model)).collect();
        let Reach { context_tokens, counter } = models.reach(&chain, wanted);
        let long = ChatRequest { messages: vec![ChatMessage::user("1".repeat(10_000))], ..request(wanted) };
        (context_tokens, counter.prompt_tokens(&request(wanted)) >= 7_000, counter.prompt_tokens(&long) >= 10_000)
    };
    assert_eq!(reach(&["known"], "known"), (Some(8_192), true, false), "to the token");
    assert_eq!(reach(&["known", "small"], "known"), (Some(500), true, true), "the most that one of them counts");
    assert_eq!(reach(&["unloaded"], "unloaded"), (Some(4_096), false, true), "estimated until it is loaded");
    assert_eq!(reach(&["known"], "small").0, Some(500), "the being switched to a model outside its chain");
    assert_eq!(reach(&["nobody"], "nobody"), (None, false, true));
}

#[tokio::test]
async fn a_being_thinks_in_a_task_of_its_own_and_shows_no_secret() {
    let server = Server::play([Reply::say("hi")]);
    let models = models([("gpt", openai(server.base_url()))]);
    let shown = format!("{models:?} {:?}", models.clone());
    assert!(shown.contains("gpt") && !shown.contains(KEY));
    let task = tokio::spawn(async move { models.complete("ada", &[name("gpt")], &request("gpt")).await });
    assert!(task.await.unwrap().is_ok());
}
