use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{family::Spawn, mind::MindChange};
use crate::vocab::Usd;

/// How a tool call ended (SPEC §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tool answered.
    Success,
    /// The tool, or the runtime before it, said no: nothing is open.
    Failed,
    /// The transport failed or the deadline passed in mid-call: whether it took effect is unknown.
    Indeterminate,
}

impl Status {
    /// The status as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Indeterminate => "indeterminate",
        }
    }
}

/// What came of a tool call, after the output boundary.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub status: Status,
    pub content: Value,
    pub error_code: Option<String>,
    pub chat_id: Option<Uuid>,
    pub message_id: Option<Uuid>,
    /// The change of mind that the call made, if it was a tool of the mind.
    pub change: Option<MindChange>,
    /// Money that a trusted tool reported as earned.
    pub revenue: Option<Revenue>,
    /// The child that the call asks for.
    pub spawn: Option<Box<Spawn>>,
    /// The boundary rule that replaced the result, and where in it.
    pub screened: Option<String>,
    /// What the operator should read in the journal beside the outcome.
    pub warning: Option<String>,
}

/// Earned money with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revenue {
    pub amount: Usd,
    /// `tool:id` of the transaction, where the result carried one.
    pub transaction: Option<String>,
}

impl Outcome {
    /// A definite answer.
    pub const fn success(content: Value) -> Self {
        Self::new(Status::Success, content, None)
    }

    /// A definite refusal.
    pub fn failed(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Status::Failed, json!({ "message": message.into() }), Some(code.into()))
    }

    /// An unknown effect.
    pub fn indeterminate(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Status::Indeterminate, json!({ "message": message.into() }), Some(code.into()))
    }

    /// The same outcome with a change of mind.
    #[must_use]
    pub fn changing(mut self, change: MindChange) -> Self {
        self.change = Some(change);
        self
    }

    /// The same outcome with a child that the call asks for.
    #[must_use]
    pub fn spawning(mut self, spawn: Spawn) -> Self {
        self.spawn = Some(Box::new(spawn));
        self
    }

    /// The envelope that the model reads: all five keys, always.
    pub fn envelope(&self) -> String {
        json!({
            "status": self.status,
            "content": self.content,
            "error_code": self.error_code,
            "chat_id": self.chat_id,
            "message_id": self.message_id,
        })
        .to_string()
    }

    const fn new(status: Status, content: Value, error_code: Option<String>) -> Self {
        Self {
            status,
            content,
            error_code,
            chat_id: None,
            message_id: None,
            change: None,
            revenue: None,
            spawn: None,
            screened: None,
            warning: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_always_has_its_five_keys() {
        assert_eq!(
            Outcome::failed("unknown_tool", "no").envelope(),
            r#"{"status":"failed","content":{"message":"no"},"error_code":"unknown_tool","chat_id":null,"message_id":null}"#
        );
    }
}
