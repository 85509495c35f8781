//! How a model is shown what does not fit whole, or is not sound.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::chat::{ChatMessage, FunctionCall, ToolDefinition};

/// The message with at most `longest` bytes in each of its texts. The middle of a longer text is left out; a call that is no sound one (a
/// name that is none, arguments that are no JSON object) is shown as one that servers accept.
pub(super) fn shorten(message: &ChatMessage, longest: usize) -> ChatMessage {
    let calls = message.tool_calls.iter().cloned().map(|mut call| {
        let FunctionCall { name, arguments } = &mut call.function;
        if !is_name(name) {
            *name = "unknown".to_owned();
        }
        if serde_json::from_str::<Map<String, Value>>(arguments).is_err() {
            *arguments = "{}".to_owned();
        } else if arguments.len() > longest {
            *arguments = json!({ "bytes_left_out": arguments.len() }).to_string();
        }
        call
    });
    ChatMessage {
        role: message.role,
        content: message.content.as_deref().map(|text| cut_middle(text, longest)),
        tool_call_id: message.tool_call_id.clone(),
        name: message.name.clone(),
        tool_calls: calls.collect(),
    }
}

/// What chat completions take for the name of a function.
fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Bytes of the sentence that stands for what is left out.
const MARK: usize = 40;

/// The text in at most `longest` bytes, which is its beginning and its end.
pub(super) fn cut_middle(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let Some(room) = longest.checked_sub(MARK) else { return cut_end(text, longest).to_owned() };
    let head = cut_end(text, room * 2 / 3);
    let tail = text.get(text.ceil_char_boundary(text.len() - room / 3)..).unwrap_or_default();
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

/// The beginning of the text, in at most `longest` bytes.
pub(super) fn cut_end(text: &str, longest: usize) -> &str {
    text.get(..text.floor_char_boundary(longest)).unwrap_or_default()
}

/// How much of a catalogue is shown.
#[derive(Debug, Clone, Copy)]
enum Schemas {
    Whole,
    Undescribed,
    Any,
}

/// The catalogue as it `fits`: whole; with shorter descriptions; without those of arguments; without arguments; at last the first of it.
pub(super) fn fitting_tools(tools: &Arc<[ToolDefinition]>, fits: impl Fn(&Arc<[ToolDefinition]>) -> bool) -> Arc<[ToolDefinition]> {
    if fits(tools) {
        return Arc::clone(tools);
    }
    let rungs =
        [(400, Schemas::Whole), (120, Schemas::Whole), (120, Schemas::Undescribed), (0, Schemas::Undescribed), (0, Schemas::Any)];
    let mut shown: Arc<[ToolDefinition]> = Arc::default();
    for (described, schemas) in rungs {
        shown = tools.iter().map(|tool| shorter(tool, described, schemas)).collect();
        if fits(&shown) {
            return shown;
        }
    }
    while !shown.is_empty() && !fits(&shown) {
        shown = shown.iter().take(shown.len() / 2).cloned().collect();
    }
    shown
}

fn shorter(tool: &ToolDefinition, described: usize, schemas: Schemas) -> ToolDefinition {
    let parameters = match schemas {
        Schemas::Whole => tool.parameters.clone(),
        Schemas::Undescribed => undescribed(&tool.parameters),
        Schemas::Any => json!({ "type": "object" }),
    };
    ToolDefinition { name: tool.name.clone(), description: cut_end(&tool.description, described).to_owned(), parameters }
}

/// A schema without the words in it. A property that is called `description` is no words, it is a schema.
fn undescribed(schema: &Value) -> Value {
    let is_words = |key: &str, value: &Value| matches!(key, "description" | "title" | "$comment") && value.is_string();
    match schema {
        Value::Array(items) => items.iter().map(undescribed).collect(),
        Value::Object(parts) => {
            let kept = parts.iter().filter(|(key, value)| !is_words(key, value));
            Value::Object(kept.map(|(key, value)| (key.clone(), undescribed(value))).collect())
        }
        other => other.clone(),
    }
}
