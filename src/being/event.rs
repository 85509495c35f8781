use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    budget::Cost,
    chat::{Finish, ToolCall, Usage},
    family::{Child, ChildStatus},
    identity::Identity,
    mind::{Mind, MindChange},
    outcome::Status,
    question::{Answer, Question},
    state::{AgentState, BeingStatus},
};
use crate::vocab::{Digest, Timestamp, Usd};

/// A fact about a being: the state changes only by applying one, so the journal is the truth (DESIGN, "The cycle machine").
///
/// Events carry what replay needs, after the output boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A process began to animate the being; at birth it says what the being was born with.
    Started {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        birth: Option<Box<Birth>>,
    },
    CycleStarted {
        framing: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stimulus: Option<String>,
        /// The slot of the schedule that it took, if it took one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<Timestamp>,
    },
    ModelCompleted {
        model: String,
        usage: Usage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        finish: Finish,
        elapsed_ms: u64,
    },
    /// A model call was paid for; `amount` is `api + instance`.
    CostDebited {
        amount: Usd,
        api: Usd,
        instance: Usd,
        tokens: u64,
    },
    ToolStarted {
        call_id: String,
        tool: String,
        arguments: String,
    },
    ToolFinished {
        call_id: String,
        tool: String,
        status: Status,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_code: Option<String>,
        /// The envelope that the model reads.
        result: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<MindChange>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat_id: Option<Uuid>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<Uuid>,
        /// Which boundary rule replaced the result, and where; never the value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        screened: Option<String>,
    },
    /// A call waits for a person's word.
    InputRequested {
        question: Box<Question>,
    },
    /// A question was answered, by a person or by the time that passed.
    InputAnswered {
        number: u64,
        answer: Answer,
    },
    RevenueCredited {
        amount: Usd,
        source: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transaction: Option<String>,
    },
    FundsGranted {
        id: String,
        usd: Usd,
    },
    /// A child was made: its money is out of the balance, and all that it is born with stands here.
    ChildSpawned {
        child: Box<Child>,
    },
    /// Something became of a child.
    ChildChanged {
        id: Uuid,
        status: ChildStatus,
    },
    /// An operator's edit changed the mind.
    MindChanged {
        change: MindChange,
    },
    /// An operator gave the being other labels: what it spends counts where they say, also when it is no longer declared.
    Labelled {
        labels: BTreeMap<String, String>,
    },
    Warning {
        message: String,
    },
    /// Something the model must be told outside of a framing message.
    Told {
        message: String,
    },
    /// The oldest `messages` left the conversation; `summary` takes the place of the one before it.
    Folded {
        messages: u64,
        summary: String,
    },
    /// The gate closed: nothing more is spent until money comes in.
    Exhausted,
    Stopping,
    Stopped {
        status: BeingStatus,
    },
    /// A picture with this digest is about to replace `state.json`. It stands for all that came before, so what a state does not
    /// say, which calls are under way, stands here.
    Checkpoint {
        picture: Digest,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open_calls: Vec<OpenCall>,
    },
    /// An operator said what the being is from here on, whatever the records before say: an edited state was accepted, or records
    /// were lost and the state that they had made was not.
    Adopted {
        state: Box<AgentState>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open_calls: Vec<OpenCall>,
    },
}

impl Event {
    /// What an operator has to read of it in the log: a warning, or which rule of the output boundary replaced a result, and where (SPEC §7).
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Warning { message } => Some(message.clone()),
            Self::ToolFinished { tool, screened: Some(rule), .. } => Some(format!("the result of {tool} was screened: {rule}")),
            _ => None,
        }
    }
}

/// A tool call that was begun and has no recorded end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenCall {
    pub call_id: String,
    pub tool: String,
    pub cycle: u64,
}

/// What a being is born with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Birth {
    pub identity: Identity,
    pub mind: Mind,
    pub starting: Usd,
}

/// An event with its place in the life: one line of `activity.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub seq: u64,
    pub at: Timestamp,
    pub cycle: u64,
    pub event: Event,
}

impl From<Cost> for Event {
    fn from(cost: Cost) -> Self {
        Self::CostDebited { amount: cost.total(), api: cost.api, instance: cost.instance, tokens: cost.tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screened_result_is_told_in_the_log_by_its_rule() {
        let finished = |screened: Option<&str>| Event::ToolFinished {
            call_id: "c".into(),
            tool: "files__read".into(),
            status: Status::Failed,
            error_code: None,
            result: "{}".into(),
            change: None,
            chat_id: None,
            message_id: None,
            screened: screened.map(str::to_owned),
        };
        assert_eq!(finished(None).warning(), None);
        let told = finished(Some("key `token` at /a")).warning();
        assert_eq!(told.as_deref(), Some("the result of files__read was screened: key `token` at /a"));
    }
}
