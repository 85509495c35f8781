//! The three `most_*` tools: messages to people, through the service that the operator named (SPEC §6; reference §7.9, §18).

use std::{borrow::Cow, error::Error, net::IpAddr, sync::OnceLock, time::Duration};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::builtin::{BadArgument, INVALID_ARGUMENTS, Lines, text};
use crate::{
    being::{Outcome, ToolDefinition},
    manifest::MostSpec,
    secret::{Secret, SecretError, Secrets},
};

const UNAVAILABLE: &str = "most_unavailable";
const MALFORMED: &str = "most_malformed";
const REMOTE: &str = "remote";

const MAX_ADDRESS_BYTES: usize = 256;
const MAX_RECIPIENTS: usize = 64;
const MAX_TEXT_BYTES: usize = 16_384;
/// How much of an answer is read; the output boundary lets less through.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// How much of a refusal is told.
const MAX_TOLD_CHARS: usize = 800;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const SERVICES: [&str; 3] = ["iMessage", "SMS", "RCS"];

/// One of the three tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MostTool {
    Health,
    CreateChat,
    SendMessage,
}

impl MostTool {
    pub(super) const ALL: [Self; 3] = [Self::Health, Self::CreateChat, Self::SendMessage];

    const fn name(self) -> &'static str {
        match self {
            Self::Health => "most_health",
            Self::CreateChat => "most_create_chat",
            Self::SendMessage => "most_send_message",
        }
    }

    pub(super) fn definition(self) -> ToolDefinition {
        let plain = || json!({ "type": "string", "minLength": 1 });
        let service = json!({ "type": "string", "enum": SERVICES });
        let (description, properties, required): (&str, Value, &[&str]) = match self {
            Self::Health => ("Check Most messaging readiness and active backends", json!({}), &[]),
            Self::CreateChat => (
                "Create a Most chat and send its first text message",
                json!({
                    "from": plain(),
                    "to": { "type": "array", "items": plain(), "minItems": 1, "maxItems": MAX_RECIPIENTS },
                    "text": plain(),
                    "preferred_service": service,
                }),
                &["from", "to", "text"],
            ),
            Self::SendMessage => (
                "Send a text message to an existing Most chat",
                json!({ "chat_id": { "type": "string", "format": "uuid" }, "text": plain(), "preferred_service": service }),
                &["chat_id", "text"],
            ),
        };
        let parameters = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        ToolDefinition { name: self.name().into(), description: description.into(), parameters }
    }
}

/// What is asked of the service.
#[derive(Debug, PartialEq, Eq)]
enum Errand {
    Health,
    CreateChat { from: String, to: Vec<String>, message: Value },
    SendMessage { chat: Uuid, message: Value },
}

impl Errand {
    fn read(tool: MostTool, arguments: &Map<String, Value>) -> Result<Self, BadArgument> {
        match tool {
            MostTool::Health => Ok(Self::Health),
            MostTool::CreateChat => {
                let from = text(arguments, "from", MAX_ADDRESS_BYTES, Lines::One)?;
                Ok(Self::CreateChat { from, to: recipients(arguments)?, message: message(arguments)? })
            }
            MostTool::SendMessage => {
                let chat = arguments.get("chat_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
                Ok(Self::SendMessage { chat: chat.ok_or(BadArgument("chat_id"))?, message: message(arguments)? })
            }
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Health => "healthz".to_owned(),
            Self::CreateChat { .. } => "v3/chats".to_owned(),
            Self::SendMessage { chat, .. } => format!("v3/chats/{chat}/messages"),
        }
    }

    fn body(&self) -> Option<Value> {
        match self {
            Self::Health => None,
            Self::CreateChat { from, to, message } => Some(json!({ "from": from, "to": to, "message": message })),
            Self::SendMessage { message, .. } => Some(json!({ "message": message })),
        }
    }

    /// What a good answer comes to.
    fn done(&self, answer: Value) -> Result<Outcome, String> {
        let id = |pointer: &str| {
            let text = answer.pointer(pointer).and_then(Value::as_str).ok_or_else(|| format!("response missing {pointer}"))?;
            Uuid::try_parse(text).map_err(|error| format!("invalid UUID at {pointer}: {error}"))
        };
        let (chat_id, message_id) = match self {
            Self::Health => return health(&answer).map(Outcome::success),
            Self::CreateChat { .. } => (Some(id("/id")?), Some(id("/message/id")?)),
            Self::SendMessage { .. } => (None, Some(id("/id")?)),
        };
        Ok(Outcome { chat_id, message_id, ..Outcome::success(answer) })
    }
}

fn recipients(arguments: &Map<String, Value>) -> Result<Vec<String>, BadArgument> {
    let items = arguments.get("to").and_then(Value::as_array).ok_or(BadArgument("to"))?;
    if items.is_empty() || items.len() > MAX_RECIPIENTS {
        return Err(BadArgument("to"));
    }
    let one = |item: &Value| text(&Map::from_iter([("to".to_owned(), item.clone())]), "to", MAX_ADDRESS_BYTES, Lines::One);
    items.iter().map(one).collect()
}

fn message(arguments: &Map<String, Value>) -> Result<Value, BadArgument> {
    let text = text(arguments, "text", MAX_TEXT_BYTES, Lines::Many)?;
    let mut message = Map::from_iter([("parts".to_owned(), json!([{ "type": "text", "value": text }]))]);
    if let Some(service) = arguments.get("preferred_service") {
        let known = service.as_str().filter(|service| SERVICES.contains(service)).ok_or(BadArgument("preferred_service"))?;
        message.insert("preferred_service".to_owned(), known.into());
    }
    Ok(message.into())
}

/// The three fields of a health answer, and no more.
fn health(answer: &Value) -> Result<Value, String> {
    let field = |name: &str| answer.get(name).and_then(Value::as_str);
    let status = field("status").ok_or("response missing /status")?;
    let (backends, composition) = (field("backends").unwrap_or_default(), field("composition").unwrap_or_default());
    Ok(json!({ "status": status, "backends": backends, "composition": composition }))
}

/// The service, as one being reaches it.
#[derive(Debug)]
pub(super) struct Most {
    spec: MostSpec,
    secrets: Secrets,
    client: OnceLock<Result<Client, String>>,
}

/// Why no good answer came.
enum Trouble {
    /// Nothing was asked.
    Unasked(String),
    /// The answer is a no.
    Refused(String),
    /// The answer is a yes that cannot be read.
    Malformed(String),
    /// Whether it took effect is unknown.
    Unknown(String),
}

impl Trouble {
    fn told(self) -> Outcome {
        match self {
            Self::Unasked(why) => Outcome::failed(UNAVAILABLE, why),
            Self::Refused(why) => Outcome::failed(REMOTE, why),
            Self::Malformed(why) => Outcome::failed(MALFORMED, why),
            Self::Unknown(why) => Outcome::indeterminate(REMOTE, why),
        }
    }
}

impl Most {
    pub(super) fn new(spec: MostSpec, secrets: Secrets) -> Self {
        Self { spec, secrets, client: OnceLock::new() }
    }

    /// Carries one call out, once. What comes back is still to be screened.
    ///
    /// Cancel safe in the sense that the effect of a dropped call is unknown.
    pub(super) async fn call(&self, tool: MostTool, arguments: &Map<String, Value>) -> Outcome {
        let errand = match Errand::read(tool, arguments) {
            Ok(errand) => errand,
            Err(bad) => return Outcome::failed(INVALID_ARGUMENTS, bad.to_string()),
        };
        match self.ask(&errand).await {
            Ok(outcome) => outcome,
            Err(Trouble::Malformed(why)) if tool != MostTool::Health => {
                Trouble::Malformed(format!("{why}; it was accepted all the same: do not send it again")).told()
            }
            Err(trouble) => trouble.told(),
        }
    }

    async fn ask(&self, errand: &Errand) -> Result<Outcome, Trouble> {
        let (request, token) = self.request(errand).await?;
        let late = |_| Trouble::Unknown(format!("most: no answer within {}; whether it took effect is unknown", self.spec.timeout));
        let (status, answer) = tokio::time::timeout(self.spec.timeout.as_duration(), exchange(request)).await.map_err(late)??;
        if !status.is_success() {
            return Err(refused(errand, status, &answer, token.as_ref()));
        }
        let malformed = |why: String| Trouble::Malformed(format!("most: {why}"));
        let answer = serde_json::from_slice(&answer).map_err(|error| malformed(format!("invalid response JSON: {error}")))?;
        errand.done(answer).map_err(malformed)
    }

    async fn request(&self, errand: &Errand) -> Result<(RequestBuilder, Option<Secret>), Trouble> {
        let unasked = |why: String| Trouble::Unasked(format!("most: {why}"));
        let url = Url::parse(&format!("{}/{}", self.spec.url.trim_end_matches('/'), errand.path()));
        let url = url.map_err(|error| unasked(format!("invalid endpoint: {error}")))?;
        let client = self.client.get_or_init(|| build(is_loopback(&url)).map_err(|error| root(&error)));
        let client = client.as_ref().map_err(|error| unasked(format!("cannot set up the HTTP client: {error}")))?;
        let Some(body) = errand.body() else { return Ok((client.request(Method::GET, url), None)) };
        let token = self.secrets.read(&self.spec.token).await.map_err(|error| without_credential(&error))?;
        let request = client.request(Method::POST, url).bearer_auth(token.reveal()).json(&body);
        Ok((request, Some(token)))
    }
}

/// Where a token lies is the operator's affair and not the being's.
fn without_credential(error: &SecretError) -> Trouble {
    tracing::warn!(%error, "the Most credential cannot be used");
    Trouble::Unasked("the Most credential cannot be used; the operator's log says why".to_owned())
}

fn build(loopback: bool) -> Result<Client, reqwest::Error> {
    // Fails only when another provider was chosen already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().redirect(redirect::Policy::none()).retry(reqwest::retry::never());
    let builder = builder.connect_timeout(CONNECT_TIMEOUT);
    if loopback { builder.no_proxy().build() } else { builder.build() }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn exchange(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Trouble> {
    let response = request.send().await.map_err(|error| lost(&error))?;
    let status = response.status();
    Ok((status, whole(response).await?))
}

async fn whole(mut response: Response) -> Result<Vec<u8>, Trouble> {
    let is_good = response.status().is_success();
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= MAX_ANSWER_BYTES => bytes.extend_from_slice(&chunk),
            Ok(Some(_)) if is_good => {
                return Err(Trouble::Malformed(format!("most: the answer is larger than {MAX_ANSWER_BYTES} bytes")));
            }
            // Of a refusal the beginning is enough, and that its end is lost changes nothing.
            Ok(_) => return Ok(bytes),
            Err(_) if !is_good => return Ok(bytes),
            Err(error) => return Err(lost(&error)),
        }
    }
}

/// A connection that failed before anything was sent has done nothing; any other may have.
fn lost(error: &reqwest::Error) -> Trouble {
    let why = root(error);
    if error.is_connect() || error.is_builder() {
        return Trouble::Unasked(format!("most: the service cannot be reached: {why}"));
    }
    Trouble::Unknown(format!("most: the connection failed in mid-call: {why}; whether it took effect is unknown"))
}

fn root(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// A 5xx says nothing about a message that was on its way, but for one that the service cannot send at all.
fn refused(errand: &Errand, status: StatusCode, said: &[u8], token: Option<&Secret>) -> Trouble {
    let meaning = match status.as_u16() {
        401 | 403 => "authentication",
        422 => "invalid arguments",
        501 => "unsupported capability",
        503 => "worker unavailable",
        _ => "HTTP error",
    };
    // Hidden before it is cut, so that no half of a token is left.
    let said = String::from_utf8_lossy(said);
    let said = token.map_or(Cow::Borrowed(&*said), |token| token.hide(&said));
    let said: String = said.chars().take(MAX_TOLD_CHARS).collect();
    let told = format!("most: {meaning} ({}): {said}", status.as_u16());
    let is_definite = !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED || *errand == Errand::Health;
    if is_definite { Trouble::Refused(told) } else { Trouble::Unknown(told) }
}

/// What the service says of itself, if it can send.
pub async fn check_most(spec: &MostSpec, secrets: &Secrets) -> Result<Value, String> {
    let outcome = Most::new(spec.clone(), secrets.clone()).call(MostTool::Health, &Map::new()).await;
    if outcome.error_code.is_some() {
        let why = outcome.content.get("message").and_then(Value::as_str).unwrap_or("most: no answer");
        return Err(secrets.hide(why).into_owned());
    }
    let backends = outcome.content.get("backends").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    if matches!(backends.as_str(), "" | "none") {
        Err("most: Most has no send-capable backend".to_owned())
    } else {
        Ok(outcome.content)
    }
}
