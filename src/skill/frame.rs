//! What goes over the pipe between a run and its body: one JSON object a line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::inspect::Inspection;

/// No line is longer, in bytes.
pub(super) const MAX_FRAME: u64 = (1 << 20) + 1;

/// What is asked of a skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub text: String,
    /// The id of the run, 12 hexadecimal digits.
    pub id: String,
    /// Who asks: `typed`, `requeue`, or a platform and its chat.
    pub source: String,
    pub meta: Map<String, Value>,
    /// Seconds since 1970.
    pub received_at: f64,
    pub priority: f64,
    /// How often it was asked again.
    pub reentries: u32,
    pub resume: Map<String, Value>,
    /// What was answered to the body's last question.
    pub user_input: Option<String>,
}

impl Request {
    /// A request as someone typed it.
    pub fn typed(id: impl Into<String>, text: impl Into<String>, received_at: f64) -> Self {
        Self {
            text: text.into(),
            id: id.into(),
            source: "typed".to_owned(),
            meta: Map::new(),
            received_at,
            priority: 0.5,
            reentries: 0,
            resume: Map::new(),
            user_input: None,
        }
    }

    /// The same request, to be run again.
    pub(super) fn again(&self) -> Self {
        Self { source: "requeue".to_owned(), reentries: self.reentries + 1, user_input: None, resume: Map::new(), ..self.clone() }
    }
}

/// What a body foresees, and the decisions that it made for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub text: String,
    #[serde(default)]
    pub decisions: Vec<Made>,
}

/// What a body did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionResult {
    pub action_log: String,
    pub new_state: String,
    /// What it has to know before it can go on.
    #[serde(default)]
    pub needs_input: Option<String>,
    #[serde(default)]
    pub decisions: Vec<Made>,
}

/// A decision as a body hands it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    pub request: Value,
    pub result: Value,
}

impl Made {
    /// The id of the request.
    pub(super) fn id(&self) -> &str {
        self.request.get("id").and_then(Value::as_str).unwrap_or_default()
    }
}

/// What the body's process is told first.
#[derive(Debug, Serialize)]
pub(super) struct Begin<'a> {
    pub modules: [(&'static str, &'static str); 3],
    pub name: String,
    pub file: &'a str,
    pub source: &'a str,
    /// Seconds on a core.
    pub cpu: u64,
    /// Hosts, with a port each where it is named; without any there is no network.
    pub hosts: Option<Vec<(&'a str, Option<u16>)>>,
}

/// What it is asked for then.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Ask<'a> {
    Inspect { gate: &'static str, names: Names<'a> },
    Load,
    Script,
    Predict { config: &'a Map<String, Value>, request: &'a Request },
    Act { config: &'a Map<String, Value>, request: &'a Request, prediction: &'a Prediction },
}

/// What the gate knows of a body beside its text.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Names<'a> {
    pub category: &'a str,
    pub leaf: &'a str,
    pub beside: &'a [std::path::PathBuf],
}

/// The answer to a decision that the body asked for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Decided {
    Made { option_ids: Vec<String>, probabilities: Vec<f64>, extra: Value },
    Refused { refused: String },
}

/// What the body's process says.
#[derive(Debug, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Said {
    Decide { request: Value },
    Inspected(Inspection),
    Loaded,
    Passed,
    Predicted { prediction: Prediction },
    Acted { result: ActionResult },
    Fault { kind: String, text: String, line: Option<u32> },
}
