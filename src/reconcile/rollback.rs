//! History: what changed is noted as a revision, and an older one is taken back.

use std::collections::BTreeMap;

use super::{
    AppliedSet, Reconciler, RequestError,
    handle::Applied,
    revisions::{Cause, Revision, RevisionHead},
};
use crate::{
    manifest::Fleet,
    plan::{Plan, Verdict, plan},
    store::KeepError,
    vocab::{Digest, Kind, Name, Operator, chain},
};

impl Reconciler {
    /// Notes a revision where what is declared is not as the newest one has it.
    pub(super) fn note_revision(&mut self, plan: &Plan) {
        let cause = self.cause.take();
        if cause.is_none() && !self.declared.take_news() {
            return;
        }
        let (by, cause) = cause.unwrap_or((None, Cause::Served));
        let outcome = match (self.declared.problems.is_empty(), plan.is_settled()) {
            (false, _) => "refused: the manifests have problems".to_owned(),
            (true, true) => "nothing changes".to_owned(),
            (true, false) => plan.summary().to_string(),
        };
        if let Err(error) = self.add_revision(by, cause, &outcome) {
            tracing::error!("{}; the history lacks a revision", chain(&error));
        }
    }

    fn add_revision(&self, by: Option<Operator>, cause: Cause, outcome: &str) -> Result<(), KeepError> {
        let (sets, fleet) = (self.declared.sets.all()?, self.declared.good.fleet.clone());
        let digest = Digest::of(serde_json::to_vec(&(&sets, &fleet)).unwrap_or_default());
        let newest = self.revisions.newest()?;
        let is_same = newest.as_ref().is_some_and(|newest| newest.digest == digest);
        if is_same || newest.is_none() && sets.is_empty() && fleet == Fleet::default() {
            return Ok(());
        }
        let number = newest.map_or(1, |newest| newest.number + 1);
        let at = self.ground.clock.now();
        let head = RevisionHead { number, at, by, cause, outcome: outcome.to_owned(), digest };
        self.revisions.put(&Revision { head, sets, fleet })
    }

    /// Declares what an older revision declared: the one before, or the one of a number. It refuses as a whole what would break a promise.
    pub(super) async fn roll_back(&mut self, to: Option<u64>, by: Operator, dry_run: bool) -> Result<Applied, RequestError> {
        if !dry_run {
            self.check_thawed()?;
        }
        let now = self.declared.sets.all()?;
        let revision = self.target(to, &now)?;
        let number = revision.head.number;
        let fleet = self.declared.look_with(&revision.sets).result.map_err(RequestError::Invalid)?;
        let addresses = fleet.addresses().collect();
        let edited = |name: &Name, fleet: &Fleet| fleet.beings.get(name) != self.declared.good.fleet.beings.get(name);
        let changed: Vec<Name> = fleet.beings.keys().filter(|name| edited(name, &fleet)).cloned().collect();
        let fleet = self.with_families(fleet);
        let plan = plan(&fleet, &self.observe());
        check_promises(number, &plan, &changed)?;
        if dry_run {
            return Ok(Applied { plan, addresses });
        }
        for (name, set) in revision.sets.iter().filter(|(name, set)| now.get(*name) != Some(*set)) {
            self.declared.sets.put(name, set)?;
        }
        for name in now.keys().filter(|name| !revision.sets.contains_key(*name)) {
            self.declared.sets.remove(name)?;
        }
        changed.iter().for_each(|name| self.try_again(name));
        self.cause = Some((Some(by), Cause::RolledBack { to: number }));
        self.converge().await;
        match self.declared.problems.is_empty() {
            true => Ok(Applied { plan, addresses }),
            false => Err(RequestError::Troubled(self.declared.problems.join("\n"))),
        }
    }

    /// The revision that is meant: without a number the newest that was applied otherwise than what is now.
    fn target(&self, to: Option<u64>, now: &BTreeMap<Name, AppliedSet>) -> Result<Revision, RequestError> {
        let refused = |what: String| RequestError::Refused(what);
        if let Some(number) = to {
            let missing = || {
                refused(format!("there is no revision {number}, or none any more; `singularity history` lists those that are kept"))
            };
            let revision = self.revisions.read(number)?.ok_or_else(missing)?;
            return match revision.sets == *now {
                true => Err(refused(format!(
                    "revision {number} was applied from the same sets as now; what served files and Git sources declare is taken back there"
                ))),
                false => Ok(revision),
            };
        }
        for head in self.revisions.heads()?.iter().rev() {
            if let Some(revision) = self.revisions.read(head.number)?.filter(|revision| revision.sets != *now) {
                return Ok(revision);
            }
        }
        Err(refused("no kept revision was applied from other sets than now, so there is nothing to take back".to_owned()))
    }
}

/// Refuses what would break what a being was born with.
fn check_promises(number: u64, plan: &Plan, changed: &[Name]) -> Result<(), RequestError> {
    let is_broken = |verdict: &Verdict| matches!(verdict, Verdict::Refuse { .. });
    let broken =
        plan.steps.iter().filter(|(at, step)| at.kind == Kind::Being && is_broken(&step.verdict) && changed.contains(&at.name));
    let rows: Vec<String> = broken.map(|(at, step)| format!("  {at}: {}", step.because)).collect();
    match rows.is_empty() {
        true => Ok(()),
        false => Err(RequestError::Refused(format!(
            "revision {number} would break a promise, so nothing is changed:\n{}",
            rows.join("\n")
        ))),
    }
}
