use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    field::{Change, Effect, changes},
    observed::{Observed, ObservedBeing, Phase},
};
use crate::{
    manifest::{BeingSpec, Fleet, PromptPolicy},
    vocab::{Address, Kind, Name},
};

/// What is to be done with each address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: BTreeMap<Address, Step>,
}

/// What is to be done with one address, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub verdict: Verdict,
    pub because: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// Start it; a being of which state exists goes on from there.
    Create,
    /// Leave it as it is.
    Keep,
    /// Change it while it runs.
    Update { changes: Vec<Change> },
    /// Stop it, and start it with the new spec.
    Restart { changes: Vec<Change> },
    /// Stop it; its state is kept.
    Stop,
    /// Leave it as it is, and say why the edit cannot be.
    Refuse { changes: Vec<Change> },
}

impl Verdict {
    /// The changes that the verdict is about.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Update { changes } | Self::Restart { changes } | Self::Refuse { changes } => changes,
            Self::Create | Self::Keep | Self::Stop => &[],
        }
    }
}

/// Compares what is declared with what is observed. Total: every address in either gets one verdict.
///
/// # Example
///
/// ```
/// use singularity::{manifest::Fleet, plan::{Observed, plan}};
///
/// assert!(plan(&Fleet::default(), &Observed::default()).steps.is_empty());
/// ```
pub fn plan(declared: &Fleet, observed: &Observed) -> Plan {
    let mut steps = BTreeMap::new();
    plain(Kind::Source, &declared.sources, &observed.sources, &mut steps);
    plain(Kind::Model, &declared.models, &observed.models, &mut steps);
    plain(Kind::Surface, &declared.surfaces, &observed.surfaces, &mut steps);
    plain(Kind::Cap, &declared.caps, &observed.caps, &mut steps);
    plain(Kind::Decision, &declared.decisions, &observed.decisions, &mut steps);
    plain(Kind::Category, &declared.categories, &observed.categories, &mut steps);
    let changed: BTreeMap<Address, Vec<Change>> =
        steps.iter().map(|(at, step)| (at.clone(), step.verdict.changes().to_vec())).collect();
    for (name, spec) in &declared.beings {
        let step = being(spec, observed.beings.get(name), &used_changes(spec, &changed));
        steps.insert(Address::new(Kind::Being, name.clone()), step);
    }
    for (name, seen) in observed.beings.iter().filter(|(name, _)| !declared.beings.contains_key(*name)) {
        let step = match seen.phase {
            Phase::Stopped => step(Verdict::Keep, "it is not declared and does not run; its state is kept"),
            _ => step(Verdict::Stop, "it is no longer declared; its state is kept"),
        };
        steps.insert(Address::new(Kind::Being, name.clone()), step);
    }
    Plan { steps }
}

fn step(verdict: Verdict, because: impl Into<String>) -> Step {
    Step { verdict, because: because.into() }
}

/// All but beings: nothing of them is fixed, nothing is lost.
fn plain<T: Serialize>(
    kind: Kind,
    declared: &BTreeMap<Name, T>,
    observed: &BTreeMap<Name, T>,
    steps: &mut BTreeMap<Address, Step>,
) {
    let names: BTreeSet<&Name> = declared.keys().chain(observed.keys()).collect();
    for name in names {
        let found = match (declared.get(name), observed.get(name)) {
            (Some(_), None) => step(Verdict::Create, "it is declared and not there yet"),
            (None, _) => step(Verdict::Stop, "it is no longer declared"),
            (Some(after), Some(before)) => match changes(kind, before, after) {
                changes if changes.is_empty() => step(Verdict::Keep, "it is as declared"),
                changes => step(Verdict::Update { changes }, "it is declared otherwise than it runs"),
            },
        };
        steps.insert(Address::new(kind, name.clone()), found);
    }
}

/// Changes of what a being uses, by their addresses.
fn used_changes(spec: &BeingSpec, changed: &BTreeMap<Address, Vec<Change>>) -> Vec<Change> {
    let models = spec.models.iter().map(|name| (Kind::Model, name));
    let surfaces = spec.las.surfaces.iter().map(|name| (Kind::Surface, name));
    let trees = spec.decision.iter().map(|name| (Kind::Decision, name));
    let trees = trees.chain(spec.categories.iter().map(|name| (Kind::Category, name)));
    let used = models.chain(surfaces).chain(trees).map(|(kind, name)| Address::new(kind, name.clone()));
    let gather = |at: Address| {
        let changes = changed.get(&at)?;
        let effect = changes.iter().map(|change| change.effect).max()?;
        let side = |pick: fn(&Change) -> &Value| {
            changes.iter().map(|change| (change.path.clone(), pick(change).clone())).collect::<serde_json::Map<_, _>>()
        };
        Some(Change {
            path: at.to_string(),
            before: side(|change| &change.before).into(),
            after: side(|change| &change.after).into(),
            effect,
        })
    };
    used.filter_map(gather).collect()
}

fn being(spec: &BeingSpec, seen: Option<&ObservedBeing>, used: &[Change]) -> Step {
    let Some(seen) = seen else { return step(Verdict::Create, "it is declared and not born yet") };
    let broken = broken_promises(spec, seen);
    if !broken.is_empty() {
        let fields = broken.iter().map(|change| format!("`{}`", change.path)).collect::<Vec<_>>().join(", ");
        return step(Verdict::Refuse { changes: broken }, format!("{fields} cannot change after birth; it goes on as it was"));
    }
    let Some(before) = &seen.spec else { return step(Verdict::Create, "its state is there, but nothing animates it") };
    let mut found = changes(Kind::Being, before, spec);
    enforce_prompt(spec, &mut found);
    // No promise is broken: before birth there is none, after it these fields agree with what is stored.
    let harmless = if seen.born.is_none() { Effect::Restart } else { Effect::Told };
    found.iter_mut().filter(|change| change.effect == Effect::Refuse).for_each(|change| change.effect = harmless);
    found.extend(used.iter().cloned());
    settle(seen, found)
}

/// What an agreed set of changes means for a being in its phase.
fn settle(seen: &ObservedBeing, changes: Vec<Change>) -> Step {
    let restarts: Vec<String> =
        changes.iter().filter(|change| change.effect == Effect::Restart).map(|change| format!("`{}`", change.path)).collect();
    match &seen.phase {
        Phase::Stopped => step(Verdict::Create, "it is declared, but nothing animates it"),
        Phase::Failed { permanent: true, reason } if changes.is_empty() => {
            step(Verdict::Keep, format!("it waits for an edit: {reason}"))
        }
        Phase::Failed { permanent: true, .. } => step(Verdict::Restart { changes }, "it had failed for good, and was edited"),
        Phase::Failed { reason, .. } if changes.is_empty() => step(Verdict::Keep, format!("it waits for its next start: {reason}")),
        _ if changes.is_empty() => step(Verdict::Keep, "it is as declared"),
        _ if restarts.is_empty() => step(Verdict::Update { changes }, "every change takes effect in place"),
        _ => step(Verdict::Restart { changes }, format!("{} cannot change while it runs", restarts.join(", "))),
    }
}

/// An enforced prompt takes effect, also when only the policy changes.
fn enforce_prompt(spec: &BeingSpec, changes: &mut [Change]) {
    if spec.prompt_policy == PromptPolicy::Enforce {
        changes.iter_mut().filter(|change| change.path == "prompt").for_each(|change| change.effect = Effect::Hot);
    }
}

/// What a being was born with and the spec declares otherwise.
fn broken_promises(spec: &BeingSpec, seen: &ObservedBeing) -> Vec<Change> {
    let Some(born) = &seen.born else { return Vec::new() };
    let pinned = serde_json::to_value(&born.identity).unwrap_or_default();
    let declared = serde_json::to_value(&spec.identity).unwrap_or_default();
    let mut broken = Vec::new();
    for (key, after) in declared.as_object().into_iter().flatten().filter(|(_, after)| !after.is_null()) {
        let before = pinned.get(key).cloned().unwrap_or_default();
        if before != *after {
            let path = if key == "specialty" { key.clone() } else { format!("identity.{key}") };
            broken.push(Change { path, before, after: after.clone(), effect: Effect::Refuse });
        }
    }
    if born.starting != spec.budget.starting {
        let (before, after) = (json!(born.starting), json!(spec.budget.starting));
        broken.push(Change { path: "budget.starting".into(), before, after, effect: Effect::Refuse });
    }
    broken
}
