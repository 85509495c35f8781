use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One message of a conversation, in the shape of chat completions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatMessage {
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

impl ChatMessage {
    /// A system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Role::System, text.into())
    }

    /// A user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Role::User, text.into())
    }

    /// What the model said, with the calls that it asked for.
    pub const fn assistant(content: Option<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self { role: Role::Assistant, content, tool_call_id: None, name: None, tool_calls }
    }

    /// The result of one tool call.
    pub fn tool(call_id: impl Into<String>, tool: impl Into<String>, result: impl Into<String>) -> Self {
        let (call_id, tool, result) = (call_id.into(), tool.into(), result.into());
        Self { role: Role::Tool, content: Some(result), tool_call_id: Some(call_id), name: Some(tool), tool_calls: Vec::new() }
    }

    const fn plain(role: Role, text: String) -> Self {
        Self { role, content: Some(text), tool_call_id: None, name: None, tool_calls: Vec::new() }
    }
}

/// A tool call as a model asks for it. `arguments` is JSON text, not yet trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub id: String,
    #[serde(rename = "type", default)]
    pub kind: ToolCallKind,
    pub function: FunctionCall,
}

impl ToolCall {
    /// Puts a call together.
    pub fn new(id: impl Into<String>, tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let function = FunctionCall { name: tool.into(), arguments: arguments.into() };
        Self { id: id.into(), kind: ToolCallKind::Function, function }
    }
}

/// The only kind of tool call that chat completions have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolCallKind {
    #[default]
    Function,
}

/// The name of the called tool and its arguments as JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionCall {
    pub name: String,
    pub arguments: String,
}

/// A tool as it is shown to a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, always an object.
    pub parameters: Value,
}

/// What a model is asked. `tools` is the whole catalogue, shared between requests.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The declared model or selector that the being thinks with.
    pub model: String,
    pub messages: Vec<ChatMessage>,
    pub tools: Arc<[ToolDefinition]>,
    /// The most tokens that a server may count in it; 0 where that is not known.
    pub prompt_tokens: u64,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The model that answered, by its own name.
    pub model: String,
    pub content: Option<String>,
    pub tool_calls: Vec<ToolCall>,
    pub finish: Finish,
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    ToolCalls,
    /// The token limit cut the answer off.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
}

/// Tokens that a model call read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
}

impl Usage {
    /// Counts both sides.
    pub const fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens.saturating_add(completion_tokens) }
    }
}
