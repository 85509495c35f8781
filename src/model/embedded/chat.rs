use serde_json::Value;

use super::{error::EmbeddedError, token::Vocabulary};
use crate::being::{ChatMessage, ChatRequest, Role, ToolCall, ToolDefinition};

/// How the model begins a tool call.
pub(super) const CALL_OPEN: &str = "<tool_call>";
/// Between the opener and the name of the tool.
pub(super) const BEFORE_NAME: &str = "[{\"name\": ";
/// Between the name and the arguments.
pub(super) const BEFORE_ARGUMENTS: &str = ", \"arguments\": ";
const CALL_CLOSE: &str = "}]</tool_call>";
/// The system message that the model was trained with, when a request has none.
const NOBODY: &str = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
/// The longest text that could fit, per token of context.
const MAX_BYTES_PER_TOKEN: usize = 32;
/// Tokens that are kept free for the answer, when so many are asked for.
const ANSWER: usize = 256;

/// A request as tokens, ready for the answer to be written behind.
pub(super) fn render(
    request: &ChatRequest,
    tools: &str,
    most: usize,
    context: usize,
    words: &Vocabulary,
) -> Result<Vec<u32>, EmbeddedError> {
    if request.messages.is_empty() {
        return Err(EmbeddedError::Empty);
    }
    let bytes: usize = request.messages.iter().map(|message| message.content.as_deref().map_or(0, str::len)).sum();
    if bytes > context.saturating_mul(MAX_BYTES_PER_TOKEN) {
        return Err(EmbeddedError::TooLong { needed: bytes / 4, context });
    }
    let mut page = Page::new(words);
    let (system, rest) = match request.messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first.content.as_deref().unwrap_or_default()), rest),
        _ => (None, request.messages.as_slice()),
    };
    page.system(system, tools)?;
    for message in rest {
        page.message(message)?;
    }
    page.answer()?;
    let needed = page.tokens.len() + most.clamp(1, ANSWER);
    if needed > context { Err(EmbeddedError::TooLong { needed, context }) } else { Ok(page.tokens) }
}

/// A conversation as tokens. Each part is turned into tokens for itself, so the tokens of the parts add up.
pub(super) struct Page<'a> {
    words: &'a Vocabulary,
    pub(super) tokens: Vec<u32>,
}

impl<'a> Page<'a> {
    pub(super) const fn new(words: &'a Vocabulary) -> Self {
        Self { words, tokens: Vec::new() }
    }

    /// The system message, with the tools as they are shown.
    pub(super) fn system(&mut self, text: Option<&str>, tools: &str) -> Result<(), EmbeddedError> {
        self.part("system", &format!("{}{tools}", text.unwrap_or(NOBODY)))
    }

    pub(super) fn message(&mut self, message: &ChatMessage) -> Result<(), EmbeddedError> {
        self.part(role(message.role), &body(message))
    }

    /// What opens the answer.
    pub(super) fn answer(&mut self) -> Result<(), EmbeddedError> {
        self.tokens.push(self.words.open);
        self.words.encode("assistant\n", &mut self.tokens)
    }

    fn part(&mut self, role: &str, body: &str) -> Result<(), EmbeddedError> {
        self.tokens.push(self.words.open);
        self.words.encode(&format!("{role}\n{body}"), &mut self.tokens)?;
        self.tokens.push(self.words.close);
        self.words.encode("\n", &mut self.tokens)
    }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn body(message: &ChatMessage) -> String {
    let calls = message.tool_calls.iter().map(call);
    message.content.iter().cloned().chain(calls).collect()
}

/// A call as the model writes it.
fn call(call: &ToolCall) -> String {
    let name = Value::from(call.function.name.as_str());
    format!("{CALL_OPEN}{BEFORE_NAME}{name}{BEFORE_ARGUMENTS}{}{CALL_CLOSE}", call.function.arguments)
}

/// The tools as the system message shows them: in at most half of the context.
pub(super) fn catalogue(tools: &[ToolDefinition], context: usize, words: &Vocabulary) -> Result<String, EmbeddedError> {
    self::tools(tools, context / 2, words)
}

/// The tools in at most `most` tokens: whole, with shorter descriptions, with arguments only, or by name.
pub(super) fn tools(tools: &[ToolDefinition], most: usize, words: &Vocabulary) -> Result<String, EmbeddedError> {
    if tools.is_empty() {
        return Ok(String::new());
    }
    let mut needed = 0;
    for (described, with_arguments) in [(400, true), (100, true), (40, true), (0, true), (0, false)] {
        let text = listing(tools, described, with_arguments);
        let mut tokens = Vec::new();
        words.encode(&text, &mut tokens)?;
        needed = tokens.len();
        if needed <= most {
            return Ok(text);
        }
    }
    Err(EmbeddedError::TooLong { needed, context: most })
}

fn listing(tools: &[ToolDefinition], described: usize, with_arguments: bool) -> String {
    let mut text = String::from("\n\nYou may call one of these tools. An argument with * is required.\n<tools>\n");
    for tool in tools {
        text.push_str(&tool.name);
        if with_arguments {
            text.push_str(&arguments(&tool.parameters));
        }
        let description = shorten(&tool.description, described);
        if !description.is_empty() {
            text.push_str(": ");
            text.push_str(&description);
        }
        text.push('\n');
    }
    text.push_str("</tools>\nTo call a tool, answer only with <tool_call>[{\"name\": \"tool\", \"arguments\": {}}]</tool_call>; otherwise answer in plain text.");
    text
}

/// `(path*: string, head: integer)`.
fn arguments(schema: &Value) -> String {
    let required =
        |name: &str| schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|n| n == name));
    let kind = |value: &Value| match value.get("type") {
        Some(Value::String(kind)) => format!(": {kind}"),
        _ => String::new(),
    };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let shown = properties.map(|(name, value)| format!("{name}{}{}", if required(name) { "*" } else { "" }, kind(value)));
    format!("({})", shown.collect::<Vec<_>>().join(", "))
}

/// The text on one line, cut at a word.
fn shorten(text: &str, most: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() + 1 > most {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}
