use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    readout::Decision,
    request::{Choice, DecisionRequest},
};
use crate::vocab::Timestamp;

/// A decision as the log keeps it (SPEC §8). Other programs that learn from such logs know the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The id of the request.
    pub id: String,
    /// When it was decided, in seconds since 1970, in UTC.
    pub ts: f64,
    /// What it was about, such as `navigate:leaf`.
    pub phase: String,
    /// What was judged: a text, an object or an array.
    pub state: Value,
    /// What was asked about it.
    pub question: String,
    /// What could be answered.
    #[schemars(with = "Vec<Value>")]
    pub options: Vec<Choice>,
    /// A probability for each option, by id.
    pub predicted_probs: BTreeMap<String, f64>,
    /// What was selected; null where nothing was.
    pub selected: Option<String>,
    /// What would have been right, as far as is known: what was selected, until a person says otherwise.
    pub observed_outcome: Option<String>,
    /// Who says so.
    pub label_source: LabelSource,
    /// The model that was read, as it names itself.
    pub model: String,
    /// SHA-256 of the prompt.
    pub prompt_sha256: String,
    /// Which wording the prompt has.
    pub prompt_version: String,
    /// Tokens that were shown.
    pub tokens: u64,
    /// How long it took, in milliseconds.
    pub elapsed_ms: f64,
    /// Whose it was: `run_id`, `skill`, `being`, where there is one.
    #[serde(default)]
    pub extra: Map<String, Value>,
}

/// Who says what would have been right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabelSource {
    /// Nobody: what was selected stands.
    #[serde(rename = "self")]
    Own,
    /// A person.
    Human,
}

impl LabelSource {
    /// How much a row with such a label counts.
    pub const fn weight(self) -> f64 {
        match self {
            Self::Own => 1.0,
            Self::Human => 3.0,
        }
    }
}

/// A decision that was just made, to be logged.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub phase: String,
    pub request: DecisionRequest,
    pub decision: Decision,
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    pub extra: Map<String, Value>,
}

impl From<Made> for Row {
    fn from(made: Made) -> Self {
        let Made { phase, request, decision, began_at, ended_at, extra } = made;
        let probabilities = decision.option_ids.into_iter().zip(decision.probabilities).collect();
        Self {
            id: request.id,
            ts: ended_at.as_duration().as_secs_f64(),
            phase,
            state: request.state,
            question: request.question,
            options: request.options,
            predicted_probs: probabilities,
            observed_outcome: decision.selected.clone(),
            selected: decision.selected,
            label_source: LabelSource::Own,
            model: decision.model,
            prompt_sha256: decision.prompt_sha256.to_string(),
            prompt_version: decision.prompt_version.to_owned(),
            tokens: decision.input_tokens,
            elapsed_ms: ended_at.duration_since(began_at).as_secs_f64() * 1e3,
            extra,
        }
    }
}
