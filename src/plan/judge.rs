use std::collections::BTreeSet;

use super::{
    field::Effect,
    observed::{Observed, ObservedBeing, Phase},
    planner::{Plan, Step, Verdict},
};
use crate::{
    manifest::{BeingSpec, Fleet},
    vocab::{Address, Kind},
};

/// A plan that must not be acted on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{0} has no verdict")]
    Forgotten(Address),
    #[error("{0} has a verdict, but is neither declared nor observed")]
    Invented(Address),
    #[error("{0} would be stopped although it is declared")]
    StopsDeclared(Address),
    #[error("{0} would be started although it runs or is not declared")]
    StartsTwice(Address),
    #[error("{0} would go on although it is declared otherwise")]
    KeepsOld(Address),
    #[error("{0} would change, which breaks what it was born with")]
    BreaksPromise(Address),
    #[error("{0} would be refused without cause")]
    RefusesNothing(Address),
    #[error("{0} would be restarted without cause")]
    RestartsNothing(Address),
    #[error("{0} would be changed in place by what needs a restart")]
    ChangesTooMuch(Address),
    #[error("{0} would change without saying why")]
    Silent(Address),
}

/// Checks a plan by rules of its own, not by planning again. An empty list is consent.
pub fn judge(plan: &Plan, declared: &Fleet, observed: &Observed) -> Vec<Fault> {
    let known: BTreeSet<Address> = declared.addresses().chain(observed.addresses()).collect();
    let forgotten = known.iter().filter(|at| !plan.steps.contains_key(*at)).cloned().map(Fault::Forgotten);
    let invented = plan.steps.keys().filter(|at| !known.contains(*at)).cloned().map(Fault::Invented);
    let wrong =
        plan.steps.iter().filter(|(at, _)| known.contains(*at)).filter_map(|(at, step)| wrong(at, step, declared, observed));
    forgotten.chain(invented).chain(wrong).collect()
}

fn wrong(at: &Address, step: &Step, declared: &Fleet, observed: &Observed) -> Option<Fault> {
    if step.because.is_empty() {
        return Some(Fault::Silent(at.clone()));
    }
    let name = &at.name;
    let (is_declared, is_there, is_same) = match at.kind {
        Kind::Source => sides(declared.sources.get(name), observed.sources.get(name)),
        Kind::Model => sides(declared.models.get(name), observed.models.get(name)),
        Kind::Surface => sides(declared.surfaces.get(name), observed.surfaces.get(name)),
        Kind::Cap => sides(declared.caps.get(name), observed.caps.get(name)),
        Kind::Decision => sides(declared.decisions.get(name), observed.decisions.get(name)),
        Kind::Category => sides(declared.categories.get(name), observed.categories.get(name)),
        Kind::Being => return wrong_being(at, step, declared.beings.get(name), observed.beings.get(name)),
    };
    let fault = match &step.verdict {
        Verdict::Create => (!is_declared || is_there).then_some(Fault::StartsTwice(at.clone())),
        Verdict::Stop => is_declared.then_some(Fault::StopsDeclared(at.clone())),
        Verdict::Keep => (!is_same).then_some(Fault::KeepsOld(at.clone())),
        Verdict::Update { changes } => (is_same || changes.is_empty()).then_some(Fault::Silent(at.clone())),
        Verdict::Restart { .. } => Some(Fault::RestartsNothing(at.clone())),
        Verdict::Refuse { .. } => Some(Fault::RefusesNothing(at.clone())),
    };
    fault.or_else(|| (!is_declared && step.verdict != Verdict::Stop).then_some(Fault::KeepsOld(at.clone())))
}

/// Whether it is declared, whether it is there, and whether the two are the same.
fn sides<T: PartialEq>(declared: Option<&T>, observed: Option<&T>) -> (bool, bool, bool) {
    (declared.is_some(), observed.is_some(), declared == observed)
}

fn wrong_being(at: &Address, step: &Step, declared: Option<&BeingSpec>, seen: Option<&ObservedBeing>) -> Option<Fault> {
    let runs = seen.is_some_and(|seen| seen.spec.is_some() && seen.phase != Phase::Stopped);
    let Some(spec) = declared else {
        let is_right = match step.verdict {
            Verdict::Stop => true,
            Verdict::Keep => seen.is_some_and(|seen| seen.phase == Phase::Stopped),
            _ => false,
        };
        return (!is_right).then_some(Fault::KeepsOld(at.clone()));
    };
    let born = seen.and_then(|seen| seen.born.as_ref());
    let breaks = born.is_some_and(|born| !spec.identity.matches(&born.identity) || spec.budget.starting != born.starting);
    let applied = seen.and_then(|seen| seen.spec.as_ref());
    let has = |effect: Effect| step.verdict.changes().iter().any(|change| change.effect == effect);
    let failed = seen.is_some_and(|seen| matches!(seen.phase, Phase::Failed { permanent: true, .. }));
    match &step.verdict {
        Verdict::Refuse { changes } if !breaks || changes.is_empty() => Some(Fault::RefusesNothing(at.clone())),
        Verdict::Refuse { .. } => None,
        _ if breaks || has(Effect::Refuse) => Some(Fault::BreaksPromise(at.clone())),
        Verdict::Stop => Some(Fault::StopsDeclared(at.clone())),
        Verdict::Create => runs.then_some(Fault::StartsTwice(at.clone())),
        Verdict::Keep => (!applied.is_some_and(|applied| applied == spec)).then_some(Fault::KeepsOld(at.clone())),
        Verdict::Update { changes } if changes.is_empty() => Some(Fault::Silent(at.clone())),
        Verdict::Update { .. } => (has(Effect::Restart) || applied.is_some_and(|applied| applied.workspace != spec.workspace))
            .then_some(Fault::ChangesTooMuch(at.clone())),
        Verdict::Restart { .. } => (!has(Effect::Restart) && !failed).then_some(Fault::RestartsNothing(at.clone())),
    }
}
