use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    being::{ChatMessage, ChatRequest, Completion, Finish, Role, ToolCall, ToolDefinition, Usage},
    manifest::ModelSpec,
};

/// Above it a count is taken for damage.
const MAX_COUNTED_TOKENS: u64 = 1_000_000_000;
const MAX_TOOL_CALLS: usize = 128;
const MAX_ID_BYTES: usize = 256;
/// How much of what a server wrote is told.
const MAX_TOLD_CHARS: usize = 800;

/// Which server's manner of chat completions is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `tool_choice` is sent; calls under the finish reason `stop` are taken, for some servers write so.
    OpenAi,
    /// To the letter of the reference.
    Brama,
}

/// An answer that breaks the protocol, and the tokens that it counted all the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Breach {
    pub(super) message: String,
    pub(super) usage: Option<Usage>,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    max_tokens: u32,
    temperature: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
}

/// A message as servers want it: an assistant's has `content`, even when that is null.
#[derive(Serialize)]
struct Message<'a> {
    role: Role,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [ToolCall],
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: &'a ToolDefinition,
}

/// Writes a request; equal requests are equal to the byte, so that a server may know a prefix again. The answer may have what the spec
/// says, or what the prompt leaves of the window if that is less: servers refuse a request that asks for more.
pub(super) fn body(request: &ChatRequest, model: &str, spec: &ModelSpec, dialect: Dialect) -> Result<Vec<u8>, serde_json::Error> {
    let tools: Vec<Tool<'_>> = request.tools.iter().map(|function| Tool { r#type: "function", function }).collect();
    let tool_choice = (dialect == Dialect::OpenAi && !tools.is_empty()).then_some("auto");
    let left = u64::from(spec.context_tokens).saturating_sub(request.prompt_tokens);
    let max_tokens = spec.max_tokens.min(u32::try_from(left).unwrap_or(u32::MAX)).max(1);
    serde_json::to_vec(&Body {
        model,
        messages: request.messages.iter().map(message).collect(),
        max_tokens,
        temperature: f64::from(spec.temperature_milli) / 1_000.0,
        tools,
        tool_choice,
    })
}

fn message(message: &ChatMessage) -> Message<'_> {
    let is_empty = message.content.is_none() && message.tool_calls.is_empty();
    Message {
        role: message.role,
        content: if is_empty { Some("") } else { message.content.as_deref() },
        tool_call_id: message.tool_call_id.as_deref(),
        name: message.name.as_deref(),
        tool_calls: &message.tool_calls,
    }
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    model: Option<String>,
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Asked>>,
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    /// A text of JSON; some models and servers write something else, which the tool's door then judges.
    #[serde(default)]
    arguments: Option<Value>,
}

impl Function {
    fn into_call(self, id: String) -> ToolCall {
        let arguments = match self.arguments {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        ToolCall::new(id, self.name, arguments)
    }
}

/// Reads a successful answer. `model` is the name that was asked for.
pub(super) fn read(bytes: &[u8], model: &str, dialect: Dialect) -> Result<Completion, Breach> {
    let shapeless = |error: &serde_json::Error| format!("response is not a chat completion: {}", cut(&error.to_string()));
    let value: Value = serde_json::from_slice(bytes).map_err(|error| Breach { message: shapeless(&error), usage: None })?;
    let counted = counted(&value);
    let breach = |message: String| Breach { message, usage: counted };
    let usage = usage(&value).map_err(|message| breach(message.into()))?;
    let response = Response::deserialize(value).map_err(|error| breach(shapeless(&error)))?;
    let [choice] =
        <[Choice; 1]>::try_from(response.choices).map_err(|_| breach("response must contain exactly one choice".into()))?;
    let calls = choice.message.tool_calls.unwrap_or_default();
    let finish = finish(choice.finish_reason.as_deref(), !calls.is_empty(), dialect).map_err(breach)?;
    let tool_calls = tool_calls(calls).map_err(|message| breach(message.into()))?;
    let answered = response.model.filter(|name| !name.is_empty() && name.len() <= MAX_ID_BYTES);
    let model = answered.unwrap_or_else(|| model.to_owned());
    Ok(Completion { model, content: choice.message.content, tool_calls, finish, usage })
}

fn finish(reason: Option<&str>, has_calls: bool, dialect: Dialect) -> Result<Finish, String> {
    match (reason, has_calls) {
        (Some("stop"), false) => Ok(Finish::Stop),
        (Some("stop"), true) if dialect == Dialect::OpenAi => Ok(Finish::ToolCalls),
        (Some("stop"), true) => Err("stop finish reason with tool calls".into()),
        (Some("tool_calls"), true) => Ok(Finish::ToolCalls),
        (Some("tool_calls"), false) => Err("tool_calls finish reason without calls".into()),
        (Some("length"), _) => Ok(Finish::Length),
        (Some("content_filter"), _) => Ok(Finish::ContentFilter),
        (reason, _) => Err(format!("unsupported finish reason: {}", cut(reason.unwrap_or("null")))),
    }
}

fn tool_calls(asked: Vec<Asked>) -> Result<Vec<ToolCall>, &'static str> {
    if asked.len() > MAX_TOOL_CALLS {
        return Err("response asks for more than 128 tool calls");
    }
    let is_usable =
        |call: &Asked| call.id.as_ref().is_none_or(|id| id.len() <= MAX_ID_BYTES) && call.function.name.len() <= MAX_ID_BYTES;
    if !asked.iter().all(is_usable) {
        return Err("a tool call has no usable id or name");
    }
    let mut ids = HashSet::new();
    let call = |Asked { id, function }: Asked| function.into_call(unused(id.as_deref().unwrap_or_default(), &mut ids));
    Ok(asked.into_iter().map(call).collect())
}

/// The id itself, or one made of it where it is empty or another call of the answer has it: each call gets its own result.
fn unused(id: &str, ids: &mut HashSet<String>) -> String {
    let stem = if id.is_empty() { "call" } else { id };
    let made = (2..).map(|n| format!("{stem}-{n}"));
    let unused = std::iter::once(stem.to_owned()).chain(made).find(|id| !ids.contains(id)).unwrap_or_default();
    ids.insert(unused.clone());
    unused
}

/// Reads and checks the tokens that an answer counts (SPEC §5).
fn usage(answer: &Value) -> Result<Usage, &'static str> {
    let Some(counted) = counted(answer) else {
        return Err("response does not count its tokens, so that its cost is unknown; use a server that fills `usage`");
    };
    let total = answer.pointer("/usage/total_tokens").and_then(Value::as_u64).unwrap_or_default();
    if total != 0 && total != counted.total_tokens {
        return Err("usage total does not match prompt plus completion");
    }
    Ok(counted)
}

/// The tokens that any answer counts, be it otherwise right or wrong. Counts beyond belief are none.
pub(super) fn counted(answer: &Value) -> Option<Usage> {
    let count = |key| answer.get("usage")?.get(key)?.as_u64().filter(|count| *count <= MAX_COUNTED_TOKENS);
    Some(Usage::new(count("prompt_tokens")?, count("completion_tokens")?))
}

/// What a server said with an error status: its message, or the beginning of its text.
pub(super) fn refusal(status: u16, bytes: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    let message = value.as_ref().and_then(|value| value.pointer("/error/message")).and_then(Value::as_str);
    let told = message.map_or_else(|| cut(&String::from_utf8_lossy(bytes)), cut);
    format!("HTTP {status}: {told}")
}

/// Whether a refusal says of itself that asking again can help, as Brama's do.
pub(super) fn retryable(bytes: &[u8]) -> Option<bool> {
    serde_json::from_slice::<Value>(bytes).ok()?.pointer("/error/retryable")?.as_bool()
}

/// What servers say of a request that their model's context cannot hold, in lower case.
const TOO_LONG: [&str; 16] = [
    "context_length_exceeded",
    "exceed_context_size",
    "request_too_large",
    "context length",
    "context size",
    "context window",
    "prompt is too long",
    "input is too long",
    "prompt length",
    "too large for model",
    "too many tokens",
    "input token count",
    "token limit exceeded",
    "model token limit",
    "reduce the length of the messages",
    "`inputs` tokens + `max_new_tokens` must be",
];

/// Tells whether a server refused a request because it is too long. There is no one way to say so: some have a code, most a sentence.
pub(super) fn is_too_long(status: u16, bytes: &[u8]) -> bool {
    let said = || String::from_utf8_lossy(bytes).to_lowercase();
    match status {
        413 => true,
        400 | 422 | 500 => TOO_LONG.iter().any(|sign| said().contains(sign)),
        _ => false,
    }
}

/// A model that a server lists.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) id: String,
    /// How many tokens it takes, by whichever name servers have for that.
    #[serde(default, alias = "context_length", alias = "context_window", alias = "contextWindow")]
    pub(super) max_model_len: Option<u64>,
}

/// The models that a server lists.
pub(super) fn listed(bytes: &[u8]) -> Result<Vec<Listed>, String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Listed>,
    }
    let list: List =
        serde_json::from_slice(bytes).map_err(|error| format!("model list cannot be read: {}", cut(&error.to_string())))?;
    Ok(list.data)
}

/// Tells whether a gateway says that it is well.
pub(super) fn is_well(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|health| health.get("status").and_then(Value::as_str) == Some("ok"))
}

fn cut(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TOLD_CHARS).collect()
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "helpers take what `json!` makes")]
#[path = "wire_tests.rs"]
mod tests;
