use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    runtime::{Assignment, Closed, Failure, Form, Limit, Phase, Question, Snapshot, UnitPhase, UnitView},
    vocab::{Hold, Name, Timestamp, day_of},
};

/// What the daemon knows, for people and programs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Grows with each change.
    pub version: u64,
    pub list: List,
    /// A download of weights that is under way, in bytes.
    pub pulling: Option<(u64, u64)>,
}

/// Objects with their status: what `get -o json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "List")]
pub struct List {
    /// The objects, in the order of the kinds, each by name.
    #[schemars(title = "Items")]
    pub items: Vec<ObjectStatus>,
    /// What is wrong with the manifests now, with its place. While there is any, the last good fleet goes on.
    #[schemars(title = "Problems")]
    pub problems: Vec<String>,
    /// Who froze the fleet: while it is frozen, nothing that is declared changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Frozen")]
    pub frozen: Option<HoldFacts>,
}

/// One declared object and how it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Object status")]
pub struct ObjectStatus {
    /// Kind and name, such as `being/ada`.
    #[schemars(title = "Address")]
    pub address: String,
    /// How often the object's declaration changed, from 1.
    #[schemars(title = "Generation")]
    pub generation: u64,
    /// The generation that is in force.
    #[schemars(title = "Observed generation")]
    pub observed_generation: u64,
    /// How the object is, one row for each type.
    #[schemars(title = "Conditions")]
    pub conditions: Vec<Condition>,
    /// The Git source that declares it, with the commit in force; objects of files and applied sets have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Source")]
    pub source: Option<SourceFacts>,
    /// What only beings have.
    #[schemars(title = "Being")]
    pub being: Option<BeingFacts>,
    /// What a surface asks of you before it can be used; what a being asks stands in `being`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Question")]
    pub question: Option<QuestionFacts>,
}

/// Where in Git an object is declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Source facts")]
pub struct SourceFacts {
    /// The source, such as `source/fleet`.
    #[schemars(title = "Address")]
    pub address: String,
    /// The commit in force, in hexadecimal.
    #[schemars(title = "Commit")]
    pub commit: String,
}

/// One aspect of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Condition")]
pub struct Condition {
    /// `Ready`, `Progressing`, `Stalled` or `Solvent`.
    #[serde(rename = "type")]
    #[schemars(title = "Type")]
    pub kind: ConditionKind,
    /// Whether it is the case.
    #[schemars(title = "Status")]
    pub status: Truth,
    /// One word for programs.
    #[schemars(title = "Reason")]
    pub reason: String,
    /// A sentence for people; may be empty.
    #[schemars(title = "Message")]
    pub message: String,
}

/// The aspects of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Condition type")]
pub enum ConditionKind {
    /// It does what it is declared to do.
    Ready,
    /// Something is under way that will change it by itself.
    Progressing,
    /// It waits for an operator.
    Stalled,
    /// It has money left.
    Solvent,
}

/// Whether something is the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Truth")]
pub enum Truth {
    True,
    False,
    Unknown,
}

/// What a being is and has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Being facts")]
pub struct BeingFacts {
    /// The being that spawned it, such as `being/ada`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Parent")]
    pub parent: Option<String>,
    /// The being's id, fixed at birth.
    #[schemars(title = "Agent id")]
    pub agent_id: Option<String>,
    /// What it does now, in words.
    #[schemars(title = "Activity")]
    pub activity: String,
    /// When its next cycle begins, while it rests until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Next wake")]
    pub next_wake: Option<String>,
    /// Why then: what its schedule is, and what was missed of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Next wake because")]
    pub next_wake_because: Option<String>,
    /// Whether nothing is under way: it rests, is paused, or may not or need not go on.
    #[serde(default)]
    #[schemars(title = "Idle")]
    pub idle: bool,
    /// The status that its state carries.
    #[schemars(title = "Status")]
    pub status: String,
    /// Cycles of its life.
    #[schemars(title = "Cycle")]
    pub cycle: u64,
    /// The model that it thinks with first.
    #[schemars(title = "Model")]
    pub model: String,
    /// What it has left, in USD, as an exact decimal.
    #[schemars(title = "Balance in USD")]
    pub balance_usd: String,
    /// What it earned over its life, in USD.
    #[schemars(title = "Earned in USD")]
    pub earned_usd: String,
    /// What it spent over its life, in USD.
    #[schemars(title = "Spent in USD")]
    pub spent_usd: String,
    /// Tokens of its life.
    #[schemars(title = "Total tokens")]
    pub total_tokens: u64,
    /// How often it was started again after a failure, since the daemon runs.
    #[schemars(title = "Restarts")]
    pub restarts: u32,
    /// Where its state is.
    #[schemars(title = "State directory")]
    pub state_dir: PathBuf,
    /// Who paused it beside its manifest; it stays paused until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Paused")]
    pub paused: Option<HoldFacts>,
    /// The call that waits for a person's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Question")]
    pub question: Option<QuestionFacts>,
    /// The surfaces that it selected, by name.
    #[schemars(title = "Surfaces")]
    pub surfaces: BTreeMap<String, SurfaceFacts>,
}

/// What waits for `singularity approve`, `deny` or `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Question")]
pub struct QuestionFacts {
    /// What `approve`, `deny` and `answer` take, such as `ada.3`; that of a surface is its address.
    #[schemars(title = "Id")]
    pub id: String,
    /// The tool that would be called, or the surface that asks.
    #[schemars(title = "Tool")]
    pub tool: String,
    /// What it would be called with, as the model wrote it.
    #[schemars(title = "Arguments")]
    pub arguments: String,
    /// When it was asked.
    #[schemars(title = "Asked at")]
    pub asked_at: String,
    /// Without an answer until then, the call is not made. A surface waits for as long as it takes.
    #[schemars(title = "Until")]
    pub until: String,
    /// What the tool's server asks in the midst of the call; `singularity answer` takes the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Form")]
    pub form: Option<FormFacts>,
}

/// What a server asks of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Form")]
pub struct FormFacts {
    /// In the server's words.
    #[schemars(title = "Message")]
    pub message: String,
    /// What the values have to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Schema")]
    pub schema: Option<serde_json::Value>,
    /// Where you are to go, in the place of giving values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Address")]
    pub url: Option<String>,
}

/// What an operator holds back until they let it go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Hold")]
pub struct HoldFacts {
    /// The number of the user who did so.
    #[schemars(title = "User id")]
    pub uid: u32,
    /// Since when.
    #[schemars(title = "Since")]
    pub since: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Because")]
    pub because: Option<String>,
}

impl From<&Hold> for HoldFacts {
    fn from(Hold { by, at, because }: &Hold) -> Self {
        Self { uid: by.uid, since: at.to_string(), because: because.as_ref().map(ToString::to_string) }
    }
}

impl QuestionFacts {
    /// Shows a question of a being.
    pub fn of(being: &Name, question: &Question) -> Self {
        Self {
            id: format!("{being}.{}", question.number),
            tool: question.tool.clone(),
            arguments: question.arguments.clone(),
            asked_at: question.asked_at.to_string(),
            until: question.until.to_string(),
            form: question.form.clone().map(|Form { message, schema, url }| FormFacts { message, schema, url }),
        }
    }
}

/// How a surface of a being is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Surface facts")]
pub struct SurfaceFacts {
    /// Whether it can be called.
    #[schemars(title = "Up")]
    pub up: bool,
    /// Why it can't be called.
    #[schemars(title = "Reason")]
    pub reason: Option<String>,
    /// Whether it failed so often in a row that it is tried only now and then; it comes back by itself.
    #[schemars(title = "Stalled")]
    #[serde(default)]
    pub stalled: bool,
    /// How many tools it lists.
    #[schemars(title = "Tools")]
    pub tools: usize,
    /// How often it was started again.
    #[schemars(title = "Restarts")]
    pub restarts: u32,
}

impl Condition {
    /// A condition with its reason.
    pub fn new(kind: ConditionKind, is: bool, reason: &str, message: impl Into<String>) -> Self {
        let status = if is { Truth::True } else { Truth::False };
        Self { kind, status, reason: reason.to_owned(), message: message.into() }
    }
}

impl ObjectStatus {
    /// Tells whether a condition is the case.
    pub fn is(&self, kind: ConditionKind) -> bool {
        self.conditions.iter().any(|condition| condition.kind == kind && condition.status == Truth::True)
    }

    /// The condition of a kind.
    pub fn condition(&self, kind: ConditionKind) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// The conditions of a being that the daemon keeps, and of what was refused of its declaration; `overslept` is why it should be awake.
pub(super) fn conditions(
    view: &UnitView,
    snapshot: Option<&Snapshot>,
    refused: Option<&Failure>,
    overslept: Option<&Failure>,
) -> Vec<Condition> {
    use ConditionKind::{Progressing, Ready, Solvent, Stalled};
    let (ready, progressing, stalled) = match &view.phase {
        UnitPhase::Booting => {
            ((false, "Starting", String::new()), (true, "Starting", "its surfaces and its state are opened".to_owned()), None)
        }
        UnitPhase::Live if overslept.is_some() => {
            let (reason, message) = overslept.map_or(("", ""), |failure| (&failure.reason, &failure.message));
            ((false, reason, message.to_owned()), (false, "Stalled", String::new()), overslept)
        }
        UnitPhase::Live if is_retrying(snapshot) => (
            (false, "ModelUnreachable", "no model answers for now; the journal says why".to_owned()),
            (true, "BackOff", "a model is asked again by itself".to_owned()),
            None,
        ),
        UnitPhase::Live => {
            let paused = paused(&view.assignment).unwrap_or_default();
            ((true, live_reason(snapshot), paused), (false, "Settled", String::new()), None)
        }
        UnitPhase::Waiting { until, failure } => (
            (false, failure.reason.as_str(), failure.message.clone()),
            (true, "BackOff", format!("it is started again at {until}")),
            None,
        ),
        UnitPhase::Stalled { failure } => {
            ((false, failure.reason.as_str(), failure.message.clone()), (false, "Stalled", String::new()), Some(failure))
        }
        UnitPhase::Stopped => ((false, "Stopped", String::new()), (false, "Stopped", String::new()), None),
    };
    let stalled = match stalled.or(refused) {
        Some(failure) => Condition::new(Stalled, true, &failure.reason, failure.message.clone()),
        None => Condition::new(Stalled, false, "Fine", ""),
    };
    let mut conditions = vec![
        Condition::new(Ready, ready.0, ready.1, ready.2),
        Condition::new(Progressing, progressing.0, progressing.1, progressing.2),
        stalled,
    ];
    conditions.extend(snapshot.map(|snapshot| {
        let (is_solvent, reason) = solvency(snapshot);
        let message = held(snapshot).map_or_else(|| format!("{} USD are left", snapshot.remaining), ToString::to_string);
        Condition::new(Solvent, is_solvent, reason, message)
    }));
    conditions
}

/// Whether a being has money that it may spend now.
fn solvency(snapshot: &Snapshot) -> (bool, &'static str) {
    match held(snapshot).map(|closed| &closed.limit) {
        Some(Limit::Balance) => (false, "Exhausted"),
        Some(Limit::Day) => (false, "DayLimit"),
        Some(Limit::Cycle) => (false, "CycleLimit"),
        Some(Limit::Cap(_)) => (false, "CapReached"),
        None if snapshot.remaining.is_positive() => (true, "Funded"),
        None => (false, "Exhausted"),
    }
}

fn held(snapshot: &Snapshot) -> Option<&Closed> {
    match &snapshot.phase {
        Phase::Exhausted { because } | Phase::Limited { because, .. } => Some(because),
        _ => None,
    }
}

fn is_retrying(snapshot: Option<&Snapshot>) -> bool {
    snapshot.is_some_and(|snapshot| snapshot.phase == Phase::Retrying)
}

fn live_reason(snapshot: Option<&Snapshot>) -> &'static str {
    match snapshot.map(|snapshot| &snapshot.phase) {
        Some(Phase::Paused) => "Paused",
        Some(Phase::Exhausted { .. }) => "Exhausted",
        Some(Phase::Limited { .. }) => snapshot.map_or("Limited", |snapshot| solvency(snapshot).1),
        Some(Phase::Finished) => "Finished",
        Some(Phase::Asking { .. }) => "Asking",
        _ => "Running",
    }
}

/// Tells whether a being has nothing under way.
pub(super) fn is_idle(view: &UnitView, snapshot: Option<&Snapshot>) -> bool {
    let is_resting = |phase: &Phase| match phase {
        Phase::Resting { .. } | Phase::Paused | Phase::Exhausted { .. } | Phase::Limited { .. } | Phase::Finished => true,
        Phase::Thinking | Phase::Retrying | Phase::Calling { .. } | Phase::Asking { .. } | Phase::Stopping => false,
    };
    // A pause that is in force is shown a moment later.
    let is_so = |phase: &Phase| if view.assignment.is_paused() { *phase == Phase::Paused } else { is_resting(phase) };
    view.phase == UnitPhase::Live && snapshot.is_some_and(|snapshot| is_so(&snapshot.phase))
}

/// That a being is paused, and by what.
fn paused(assignment: &Assignment) -> Option<String> {
    let declared = assignment.being.paused.then(|| "paused by its manifest".to_owned());
    let held = assignment.paused.as_ref().map(|hold| format!("paused {hold}"));
    held.or(declared)
}

/// When a being that rests begins its next cycle, and why then.
pub(super) fn next_wake(view: &UnitView, snapshot: Option<&Snapshot>) -> Option<(Timestamp, String)> {
    match (&view.phase, &snapshot?.phase) {
        (UnitPhase::Live, Phase::Resting { until, because }) => Some((*until, because.clone())),
        _ => None,
    }
}

/// What a being does, in words.
pub(super) fn activity(view: &UnitView, snapshot: Option<&Snapshot>, now: Timestamp) -> String {
    match (&view.phase, snapshot.map(|snapshot| &snapshot.phase)) {
        (UnitPhase::Booting, _) | (UnitPhase::Live, None) => "starting".to_owned(),
        (UnitPhase::Live, Some(phase)) => match phase {
            Phase::Thinking => "thinking".to_owned(),
            Phase::Retrying => "asking a model again".to_owned(),
            Phase::Calling { tool } => format!("calling {tool}"),
            Phase::Asking { tool, until, .. } => {
                let is_form = snapshot.and_then(|seen| seen.question.as_ref()).is_some_and(|question| question.form.is_some());
                let what = if is_form { "an answer to" } else { "approval of" };
                format!("waiting for {what} {tool} until {}", until.strftime("%Y-%m-%d %H:%MZ"))
            }
            Phase::Resting { until, because } => {
                let form = if day_of(*until) == day_of(now) { "%H:%M:%SZ" } else { "%Y-%m-%d %H:%M:%SZ" };
                format!("resting until {} ({because})", until.strftime(form))
            }
            Phase::Paused => paused(&view.assignment).unwrap_or_else(|| "paused".to_owned()),
            Phase::Exhausted { because: Closed { worst: None, .. } } => "out of money".to_owned(),
            Phase::Exhausted { .. } => "too little money for a call".to_owned(),
            Phase::Limited { until: Some(until), .. } => format!("held by a limit until {}", until.strftime("%Y-%m-%d %H:%MZ")),
            Phase::Limited { until: None, .. } => "held by a limit until an edit".to_owned(),
            Phase::Finished => "finished".to_owned(),
            Phase::Stopping => "stopping".to_owned(),
        },
        (UnitPhase::Waiting { .. }, _) => "waiting to start again".to_owned(),
        (UnitPhase::Stalled { .. }, _) => "stalled".to_owned(),
        (UnitPhase::Stopped, _) => "stopped".to_owned(),
    }
}
