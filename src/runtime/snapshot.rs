use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    being::{AgentState, BeingStatus, Child, Closed, Question, Report},
    surface::las::SurfaceHealth,
    vocab::{Name, Timestamp, Usd},
};

/// What observers see of a living being, after each durable step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub phase: Phase,
    pub status: BeingStatus,
    pub agent_id: String,
    pub cycle: u64,
    pub current_model: String,
    pub remaining: Usd,
    pub earned: Usd,
    pub spent: Usd,
    pub total_tokens: u64,
    pub updated_at: Timestamp,
    /// How the last cycle of this process ended.
    pub last_report: Option<Report>,
    /// The question that waits for a person.
    pub question: Option<Question>,
    /// Every child that it made.
    #[serde(default)]
    pub children: Arc<[Child]>,
    /// How the selected surfaces are.
    pub surfaces: BTreeMap<Name, SurfaceHealth>,
}

/// What a living being is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Phase {
    /// A model is asked.
    Thinking,
    /// A model could not answer for now, and is asked again.
    Retrying,
    /// A tool is called.
    Calling { tool: String },
    /// A call waits for a person's word.
    Asking { number: u64, tool: String, until: Timestamp },
    /// It rests until the next cycle, for a reason in words.
    Resting { until: Timestamp, because: String },
    /// It is paused, by its manifest or an operator.
    Paused,
    /// It has no money left, or too little for the next call.
    Exhausted { because: Closed },
    /// A limit of its spending holds it; `None` is until an edit.
    Limited { because: Closed, until: Option<Timestamp> },
    /// Its life reached the declared number of cycles.
    Finished,
    /// It is being stopped.
    Stopping,
}

impl Snapshot {
    /// Looks at a being.
    pub fn of(state: &AgentState, phase: Phase, last_report: Option<Report>, surfaces: BTreeMap<Name, SurfaceHealth>) -> Self {
        Self {
            phase,
            status: state.status,
            agent_id: state.identity.agent_id.clone(),
            cycle: state.cycle,
            current_model: state.mind.current_model.clone(),
            remaining: state.budget.remaining,
            earned: state.budget.earned,
            spent: state.budget.api_spent + state.budget.instance_spent,
            total_tokens: state.budget.total_tokens,
            updated_at: state.updated_at,
            last_report,
            question: state.questions.waiting().cloned(),
            children: state.mind.children.as_slice().into(),
            surfaces,
        }
    }
}
