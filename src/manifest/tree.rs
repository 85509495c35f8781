//! Decisions and skills as they are declared, resolved.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BeingSpec, Fleet, SecretSource};
use crate::vocab::{Name, Ratio, Size, SkillName, Span};

/// How something is decided, and from which probability on an answer counts (SPEC §8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionSpec {
    #[serde(flatten)]
    pub engine: EngineSpec,
    /// Divides the scores; `None` is what fits the engine.
    pub temperature: Option<Ratio>,
    /// In how many orders options are shown.
    pub rotations: u8,
    /// Below this share of probability, held by the options together, nothing is selected.
    pub min_mass: Ratio,
    /// From where on a category covers a request.
    pub category_tau: Ratio,
    /// From where on a skill does what is asked.
    pub intent_tau: Ratio,
    /// From where on a run did what was asked.
    pub tau: Ratio,
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
pub enum EngineSpec {
    /// The scores that a declared model gives to the letters of the options.
    Readout { model: Name },
    /// How near the options' meanings are to that of the state.
    Embedding,
}

impl DecisionSpec {
    /// The readout of a model, with the built-in defaults.
    pub const fn of_model(model: Name) -> Self {
        Self {
            engine: EngineSpec::Readout { model },
            temperature: None,
            rotations: 4,
            min_mass: Ratio::millionths(0),
            category_tau: Ratio::millionths(750_000),
            intent_tau: Ratio::millionths(600_000),
            tau: Ratio::millionths(600_000),
        }
    }

    /// The declared model that is read, if one is.
    pub const fn model(&self) -> Option<&Name> {
        match &self.engine {
            EngineSpec::Readout { model } => Some(model),
            EngineSpec::Embedding => None,
        }
    }
}

impl Fleet {
    /// How a being decides: as it says, or else by the readout of its first model.
    pub fn decision_of(&self, being: &BeingSpec) -> Option<DecisionSpec> {
        match &being.decision {
            Some(name) => self.decisions.get(name).cloned(),
            None => being.models.first().cloned().map(DecisionSpec::of_model),
        }
    }

    /// What decides where nobody says: the only decision that is declared, or the readout of the only model where there is none.
    pub fn only_decision(&self) -> Option<DecisionSpec> {
        let mut models = self.models.keys();
        match (self.decisions.len(), models.next(), models.next()) {
            (1, ..) => self.decisions.values().next().cloned(),
            (0, Some(only), None) => Some(DecisionSpec::of_model(only.clone())),
            _ => None,
        }
    }
}

/// A branch of the tree: skills of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategorySpec {
    /// What it covers; the decisions see it.
    pub description: String,
    pub skills: BTreeMap<SkillName, SkillSpec>,
}

impl CategorySpec {
    /// The category of canned replies. It is never chosen as such: one of its skills answers where no other category fits.
    pub const REPLIES: &str = "response";
    /// How many skills a category may have: a decision shows no more options.
    pub const MAX_SKILLS: usize = 16;
    /// How many categories a being may have beside the canned replies; `none` is one more option.
    pub const MAX_SIBLINGS: usize = 15;
}

/// A leaf of the tree, with all that its category says for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSpec {
    /// What it does; the decisions see it.
    pub description: String,
    pub does: SkillAction,
    /// What it accepts, in words.
    pub allowed_inputs: Vec<String>,
    /// What it does in particular, in words.
    pub actions: Vec<String>,
    /// How much one run may cost, in runs of ordinary size.
    pub cost_budget: Ratio,
    /// Where its decisions are told of.
    pub decision_log_ref: Option<String>,
    /// What its body is told: the category's table with the skill's own laid over it.
    pub config: BTreeMap<String, Value>,
    /// The same for what no manifest may hold.
    pub secrets: BTreeMap<String, SecretSource>,
    /// In the place of the decision's `tau`.
    pub tau: Option<Ratio>,
    /// How often a run that did not do what was asked is begun anew.
    pub max_reentries: u32,
    /// What its body may read, and where it may write, absolute or led by `{workspace}`.
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub network: bool,
    /// How long a run may compute, and how long it may take.
    pub cpu_time: Span,
    pub wall_time: Span,
    pub memory: Size,
    /// The request that it was made for.
    pub request_text: Option<String>,
    /// What was asked when it was made, and what was answered.
    pub requirements: BTreeMap<String, String>,
}

/// What a skill does when it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillAction {
    /// Nothing yet: it is named and described, and its body is to be written.
    Stub,
    /// Runs a Python body.
    Body(PathBuf),
    /// Gives a canned reply.
    Response(String),
}

/// Who a message to a being is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Its model, which may reach the tree by a tool.
    #[default]
    Model,
    /// The tree.
    Tree,
}

impl Route {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_model(&self) -> bool {
        *self == Self::Model
    }
}
