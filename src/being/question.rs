use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::vocab::Timestamp;

/// What waits for a person's word (SPEC §3, `input_requested`): whether a call may be made, or what a server asks in the midst of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Counts the questions of a life, from 1.
    pub number: u64,
    pub call_id: String,
    pub tool: String,
    /// What the being wants to call the tool with.
    pub arguments: String,
    pub asked_at: Timestamp,
    /// Without an answer until then, the call is not made.
    pub until: Timestamp,
    /// The rounds that the cycle had begun.
    pub rounds: u32,
    /// What was said, until the call begins or is told to the being as not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// What the tool's server asks. The call is under way then, and the question ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
}

/// What a server asks of a person, after the output boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    pub message: String,
    /// What the values have to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Where the person is to go, in the place of giving values here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a person says to a question. The values are for the server that asked, and are kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    pub answer: Answer,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The call may be made, once.
    Approved,
    /// The call is not made.
    Denied {
        /// What the being is told, where the operator gave a reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody answered in time, so the call is not made; or the server no longer waits.
    Expired,
    /// The server was given what it asked for.
    Given,
}

/// The questions of a life: how many there were, and the one that waits. A being does nothing else meanwhile, so there is at most one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Questions {
    pub asked: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Question>,
}

impl Questions {
    /// Tells whether nothing was ever asked.
    pub const fn are_none(&self) -> bool {
        self.asked == 0
    }

    /// The question that waits for an answer.
    pub fn waiting(&self) -> Option<&Question> {
        self.open.as_ref().filter(|question| question.answer.is_none())
    }

    /// Tells whether this question waits for an answer.
    pub fn is_waiting(&self, number: u64) -> bool {
        self.waiting().is_some_and(|question| question.number == number)
    }

    pub(super) fn ask(&mut self, question: &Question) {
        self.asked = question.number;
        self.open = Some(question.clone());
    }

    pub(super) fn answer(&mut self, number: u64, answer: &Answer) {
        if let Some(question) = self.open.as_mut().filter(|open| open.number == number && open.answer.is_none()) {
            question.answer = Some(answer.clone());
        }
    }

    /// Forgets the question about a call that has begun, or has ended without.
    pub(super) fn settle(&mut self, call_id: &str) {
        self.open.take_if(|question| question.call_id == call_id);
    }
}
