use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{machine, upstream};
use crate::{
    manifest::{ModelSpec, ProviderSpec},
    runtime::{Assignment, Ground, clock::Stopwatch},
    vocab::Name,
};

/// Everything that a being needs, and how it was found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Diagnosis")]
pub struct Diagnosis {
    /// Whether nothing is bad.
    pub ok: bool,
    /// What the being's first Brama model is asked for; null where it has none.
    pub brama_model: Option<String>,
    /// What Most says of itself; null where none is configured or it did not answer.
    pub most: Option<Value>,
    /// How many tools the surfaces list.
    pub las_tools: usize,
    /// How many tools the being would have.
    pub tools: usize,
    /// What was looked at, in the order in which a being needs it.
    pub findings: Vec<Finding>,
}

/// One thing that a being needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "Finding")]
pub struct Finding {
    /// What was looked at, such as `model/gpt` or `clock`.
    pub subject: String,
    /// How it was found.
    pub state: State,
    /// What its operator would have to look after.
    pub area: Area,
    /// A sentence for people.
    pub found: String,
    /// What to do about it; null where nothing is to be done.
    pub hint: Option<String>,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "State", inline)]
pub enum State {
    /// As it should be.
    Good,
    /// The being would run; someone should look.
    Doubtful,
    /// The being would not run, or not as declared.
    Bad,
}

/// Where a fault lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Area", inline)]
pub enum Area {
    /// Manifests, variables, secrets.
    Configuration,
    /// Models, surfaces, Most.
    Upstream,
    /// The home, its disk, the clock.
    State,
    /// The tools together.
    Runtime,
}

impl Finding {
    pub(super) fn good(subject: impl Into<String>, area: Area, found: impl Into<String>) -> Self {
        Self { subject: subject.into(), state: State::Good, area, found: found.into(), hint: None }
    }

    pub(super) fn doubtful(subject: impl Into<String>, area: Area, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Doubtful, hint: Some(hint.into()), ..Self::good(subject, area, found) }
    }

    pub(super) fn bad(subject: impl Into<String>, area: Area, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Bad, hint: Some(hint.into()), ..Self::good(subject, area, found) }
    }
}

/// Looks at all that a being needs.
pub async fn diagnose(ground: &Arc<Ground>, assignment: &Assignment, models: &BTreeMap<Name, ModelSpec>) -> Diagnosis {
    let (began, watch) = (ground.clock.now(), Stopwatch::start());
    let chain = || assignment.being.models.iter().filter_map(|name| models.get_key_value(name));
    let mut findings = upstream::secrets(ground, assignment, chain()).await;
    for (name, spec) in chain() {
        findings.push(upstream::model(ground, assignment, name, spec).await);
    }
    let (most, told) = upstream::most(ground, assignment).await;
    findings.extend(told);
    let seen = upstream::surfaces(ground, assignment).await;
    findings.extend(seen.findings);
    findings.push(machine::sandbox());
    findings.push(machine::clock(ground, began, watch));
    findings.push(machine::disk(&ground.home));
    findings.push(machine::home(&ground.home));
    let brama_model = chain().find_map(|(_, spec)| match &spec.provider {
        ProviderSpec::Brama { model, .. } => Some(model.clone()),
        _ => None,
    });
    let ok = findings.iter().all(|finding| finding.state < State::Bad);
    Diagnosis { ok, brama_model, most, las_tools: seen.las_tools, tools: seen.tools, findings }
}
