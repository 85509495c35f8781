//! Children beside what is declared: each being's state says which it made, and an operator may delete one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use uuid::Uuid;

use super::{Reconciler, RequestError};
use crate::{
    manifest::Fleet,
    plan::Born,
    runtime::{Assignment, Child, ChildStatus, Fates, Phase, Unit, with_children},
    store::{Home, KeepError, child_dir, dir_of, peek, read_json, write_json},
    vocab::{Address, Kind, Name, chain},
};

/// What is known of families: what states say, and what an operator said that they do not say yet.
#[derive(Debug, Default)]
pub(super) struct Families {
    /// Every child that a being made, as its state says.
    made: BTreeMap<Name, Arc<[Child]>>,
    dirs: BTreeMap<Name, PathBuf>,
    /// Children that an operator deleted and whose parents do not know yet; kept in the home.
    deleted: BTreeSet<Uuid>,
}

impl Families {
    /// Begins with what an earlier daemon was told.
    pub(super) fn new(home: &Home) -> Self {
        let deleted = read_json(&home.fates()).unwrap_or_else(|error| {
            tracing::error!("{}; children that were deleted just before may be started again", chain(&error));
            None
        });
        Self { deleted: deleted.unwrap_or_default(), ..Self::default() }
    }

    /// Keeps that a child is deleted, before anything is done about it.
    fn delete(&mut self, home: &Home, id: Uuid) -> Result<(), KeepError> {
        let mut deleted = self.deleted.clone();
        deleted.insert(id);
        write_json(&home.fates(), &deleted)?;
        self.deleted = deleted;
        Ok(())
    }

    /// Forgets deletions that the parents' states say by now.
    fn forget_told(&mut self, home: &Home) {
        let told = |child: &&Child| child.status == ChildStatus::Deleted && self.deleted.contains(&child.id);
        let told: BTreeSet<Uuid> = self.made.values().flat_map(|made| made.iter()).filter(told).map(|child| child.id).collect();
        let open: BTreeSet<Uuid> = self.deleted.difference(&told).copied().collect();
        if told.is_empty() {
            return;
        }
        match write_json(&home.fates(), &open) {
            Ok(()) => self.deleted = open,
            Err(error) => tracing::warn!("{}", chain(&error)),
        }
    }

    fn is_deleted(&self, child: &Child) -> bool {
        child.status == ChildStatus::Deleted || self.deleted.contains(&child.id)
    }

    /// The children of a being that are not deleted.
    fn living(&self, name: &Name) -> Arc<[Child]> {
        let made = self.made.get(name).map(|made| made.iter()).into_iter().flatten();
        made.filter(|child| !self.is_deleted(child)).cloned().collect()
    }
}

impl Reconciler {
    /// Looks at every being's state, and makes the fleet anew that is to run: what is declared, and all children of it.
    pub(super) fn gather(&mut self) {
        let declared = self.declared.good.fleet.clone();
        self.fleet = self.with_families(declared);
        self.families.forget_told(&self.ground.home);
    }

    /// A fleet with all children of its beings. Every state is looked at: what was born is known afterwards.
    pub(super) fn with_families(&mut self, fleet: Fleet) -> Fleet {
        with_children(fleet, |name| {
            self.look_at_birth(name);
            let living = self.families.living(name);
            let dir = self.dir_of(name);
            for child in living.iter() {
                let Ok(name) = name.child(&child.called) else { continue };
                self.families.dirs.insert(name, child_dir(&dir, child));
            }
            living
        })
    }

    /// Remembers what a being was born with, which never changes, and the children that it made.
    fn look_at_birth(&mut self, name: &Name) {
        let seen = self.units.get(name).and_then(Unit::snapshot);
        if let Some(seen) = &seen {
            self.families.made.insert(name.clone(), Arc::clone(&seen.children));
        }
        let is_known = seen.is_some() || self.families.made.contains_key(name);
        if self.born.contains_key(name) && is_known {
            return;
        }
        let Some(state) = peek(&self.dir_of(name)).ok().flatten() else { return };
        if !is_known {
            self.families.made.insert(name.clone(), state.mind.children.into());
        }
        self.born.insert(name.clone(), Born { identity: state.identity, starting: state.budget.starting });
    }

    /// Tells whether a being made a child, or knows more of one, than was gathered; or spent all that it had.
    pub(super) fn is_family_news(&self) -> bool {
        self.units.iter().any(|(name, unit)| {
            let Some(seen) = unit.snapshot() else { return false };
            let known = self.families.made.get(name).map(Arc::as_ref).unwrap_or_default();
            let is_spent = is_spent(unit) && name.parent().is_some_and(|parent| self.counts(&parent, name));
            *seen.children != *known || is_spent
        })
    }

    /// Tells whether a child still counts for its parent.
    fn counts(&self, parent: &Name, name: &Name) -> bool {
        let is_it = |child: &&Child| parent.child(&child.called).is_ok_and(|called| called == *name);
        let child = self.families.made.get(parent).and_then(|made| made.iter().find(is_it));
        let is_told = child
            .is_some_and(|child| self.units.get(parent).is_some_and(|unit| unit.view().assignment.fates.contains_key(&child.id)));
        child.is_some_and(|child| child.status == ChildStatus::Running) && !is_told
    }

    /// Where a being's state is.
    pub(super) fn dir_of(&self, name: &Name) -> PathBuf {
        self.families.dirs.get(name).cloned().unwrap_or_else(|| self.ground.home.being_dir(name))
    }

    /// What the fleet says about a being, and what became of its children.
    pub(super) fn assignment(&self, name: &Name) -> Option<Assignment> {
        let (paused, fates, funded) = (self.pauses.of(name).cloned(), self.fates(name), self.funds.of(name));
        Some(Assignment { paused, fates, funded, ..Assignment::of(&self.fleet, name)? })
    }

    fn fates(&self, parent: &Name) -> Fates {
        let made = self.families.made.get(parent).map(|made| made.iter()).into_iter().flatten();
        let fate = |child: &Child| {
            let name = parent.child(&child.called).ok()?;
            let status = match (self.families.is_deleted(child), self.units.get(&name).is_some_and(is_spent)) {
                (true, _) => ChildStatus::Deleted,
                (false, true) => ChildStatus::Exhausted,
                (false, false) => return None,
            };
            (child.status < status).then_some((child.id, status))
        };
        made.filter_map(fate).collect()
    }

    /// Tells whether anything below a being in its family runs, or is being stopped.
    pub(super) fn has_family_about(&self, name: &Name) -> bool {
        self.units.keys().chain(&self.leaving).any(|other| other.is_under(name))
    }

    /// Deletes a child for good: it is never started again, and counts no more.
    pub(super) async fn delete_child(&mut self, address: &Address, parent: &Name) -> Result<Vec<String>, RequestError> {
        let name = &address.name;
        let unknown =
            || RequestError::Refused(format!("being/{parent} has no child {address}; `singularity get` lists what there is"));
        let home = self.ground.home.clone();
        let dir = dir_of(&home, name).map_err(|error| RequestError::Refused(chain(&error)))?.ok_or_else(unknown)?;
        let id = dir.file_name().and_then(|id| id.to_str()?.parse().ok()).ok_or_else(unknown)?;
        self.families.dirs.insert(name.clone(), dir);
        let known = self.families.made.get(parent).and_then(|made| made.iter().find(|child| child.id == id));
        if known.is_none_or(|child| child.status != ChildStatus::Deleted) {
            self.families.delete(&home, id)?;
        }
        self.converge().await;
        Ok(vec![format!("{address} is deleted: it is not started again, and being/{parent} counts it no more")])
    }

    /// Forgets a being of which nothing is left, and all below it.
    pub(super) fn forget(&mut self, name: &Name) {
        let is_of_it = |other: &Name| other == name || other.is_under(name);
        let gone = self.families.dirs.keys().chain(self.born.keys()).chain(self.families.made.keys());
        let gone: BTreeSet<Name> = gone.filter(|other| is_of_it(other)).cloned().chain([name.clone()]).collect();
        if let Err(error) = self.pauses.forget(&gone) {
            tracing::warn!("{}; a being of the same name begins paused", chain(&error));
        }
        if let Err(error) = self.funds.forget(&gone) {
            tracing::warn!("{}; a being of the same name is given the same money", chain(&error));
        }
        for name in gone {
            // A being of the same name that is born later has seen nothing.
            drop(std::fs::remove_file(self.ground.home.seen_tools(&name)));
            self.born.remove(&name);
            self.families.made.remove(&name);
            self.families.dirs.remove(&name);
        }
    }

    /// The beings in the order in which they are shown: a child after its parent.
    pub(super) fn shown(&self) -> Vec<Address> {
        let mut addresses: Vec<Address> = self.fleet.addresses().collect();
        let undeclared = self.units.keys().filter(|name| !self.fleet.beings.contains_key(*name));
        addresses.extend(undeclared.map(|name| Address::new(Kind::Being, name.clone())));
        addresses.sort_by(|one, other| {
            let parts = |address: &Address| address.name.as_str().split('.').map(str::to_owned).collect::<Vec<_>>();
            (one.kind, parts(one)).cmp(&(other.kind, parts(other)))
        });
        addresses
    }
}

/// Tells whether a being has nothing left, and nothing under way that might bring it more.
fn is_spent(unit: &Unit) -> bool {
    let seen = unit.snapshot();
    seen.is_some_and(|seen| matches!(seen.phase, Phase::Exhausted { .. }) && !seen.remaining.is_positive())
}
