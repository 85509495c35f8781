use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    budget::Budget, chat::ChatMessage, folded::Folded, identity::Identity, mind::Mind, outcome::Status, question::Questions,
};
use crate::vocab::Timestamp;

/// The version of the stored shape.
pub const SCHEMA_VERSION: &str = "being-v1";
/// How many actions a state remembers.
pub const MAX_RECENT_ACTIONS: usize = 100;

/// The whole being, as `state.json` holds it (SPEC §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentState {
    pub schema_version: String,
    pub identity: Identity,
    pub mind: Mind,
    pub status: BeingStatus,
    pub cycle: u64,
    /// The newest slot of its schedule that a cycle took; it only rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Timestamp>,
    pub budget: Budget,
    /// What was folded out of the conversation.
    #[serde(default, skip_serializing_if = "Folded::is_nothing")]
    pub folded: Folded,
    /// The messages that are not folded: about what the model's window holds. The journal has all of them.
    pub conversation: Vec<ChatMessage>,
    pub recent_actions: VecDeque<ActionRecord>,
    pub created_resources: CreatedResources,
    pub started_at: Timestamp,
    pub updated_at: Timestamp,
    /// What its operator selects it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What waits for a person.
    #[serde(default, skip_serializing_if = "Questions::are_none")]
    pub questions: Questions,
}

/// Where a being is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeingStatus {
    Starting,
    Running,
    Stopping,
    Stopped,
    Exhausted,
    Failed,
}

impl fmt::Display for BeingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Exhausted => "exhausted",
            Self::Failed => "failed",
        })
    }
}

/// One finished tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionRecord {
    pub cycle: u64,
    pub tool: String,
    pub status: Status,
    pub at: Timestamp,
}

/// What the being created in the world, without doubles, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatedResources {
    pub chat_ids: Vec<Uuid>,
    pub message_ids: Vec<Uuid>,
}
