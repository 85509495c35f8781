use std::fmt;

use super::{
    AppliedSet, Cause, Reconciler, RequestError,
    handle::{Applied, Reply, Request},
};
use crate::{
    manifest::DecisionSpec,
    plan::plan,
    runtime::{NotAsked, UnitPhase, Word},
    store::remove,
    vocab::{Address, Kind, Name, Operator, chain},
};

/// A deletion whose being is not gone yet.
pub(super) struct Parting {
    name: Name,
    purge: bool,
    done: Vec<String>,
    reply: Reply<Vec<String>>,
}

impl Reconciler {
    /// Carries a request out; a deletion is answered once its being is gone.
    pub(super) async fn answer(&mut self, request: Request) {
        if let Request::Apply { .. }
        | Request::Thaw { .. }
        | Request::RollBack { .. }
        | Request::Delete { .. }
        | Request::DeleteSet { .. } = request
        {
            self.catch_up(false).await;
        }
        match request {
            Request::Look { reply } => {
                self.catch_up(true).await;
                self.sourcing.poke_all();
                drop(reply.send(Ok(())));
            }
            Request::Apply { set, content, by, dry_run, reply } => {
                drop(reply.send(self.apply(&set, &content, by, dry_run).await));
            }
            Request::Freeze { by, reason, reply } => drop(reply.send(self.freeze(by, reason))),
            Request::Thaw { reply } => drop(reply.send(self.thaw().await)),
            Request::RollBack { to, by, dry_run, reply } => drop(reply.send(self.roll_back(to, by, dry_run).await)),
            Request::Delete { address, by, purge, reply } => match self.delete(&address, by).await {
                Ok(done) if address.kind == Kind::Being => {
                    self.parting.push(Parting { name: address.name, purge, done, reply });
                    self.answer_parting();
                }
                answer => drop(reply.send(answer)),
            },
            Request::DeleteSet { set, by, reply } => drop(reply.send(self.delete_set(&set, by).await)),
            Request::Pause { whom, by, reason, reply } => drop(reply.send(self.pause(&whom, by, reason).await)),
            Request::Fund { being, id, usd, reply } => drop(reply.send(self.fund(&being, &id, usd).await)),
            Request::Resume { whom, reply } => drop(reply.send(self.resume(&whom).await)),
            Request::Answer { being, number, word, reply } => self.pass_on(&being, number, word, reply),
            Request::Consent { surface, answer, reply } => self.consent(&surface, answer, reply),
            Request::Ping { reply } => drop(reply.send(Ok(()))),
        }
    }

    /// Makes sure that what was saved before a request is known when it is answered.
    async fn catch_up(&mut self, is_forced: bool) {
        self.watched.catch_up(is_forced).await;
        if self.take_served() {
            self.converge().await;
        }
    }

    async fn apply(&mut self, set: &Name, content: &AppliedSet, by: Operator, dry_run: bool) -> Result<Applied, RequestError> {
        if !dry_run {
            self.check_thawed()?;
        }
        let mut sets = self.declared.sets.all()?;
        if let Some(old) = sets.insert(set.clone(), content.clone()).filter(|old| old.origin != content.origin) {
            return Err(RequestError::Refused(format!(
                "a set called `{set}` was applied from {} before; give this one another name with --set",
                old.origin
            )));
        }
        let reading = self.declared.look_with(&sets);
        let addresses = reading.addresses_of(content);
        let fleet = self.with_families(reading.result.map_err(RequestError::Invalid)?);
        let plan = plan(&fleet, &self.observe());
        if dry_run {
            return Ok(Applied { plan, addresses });
        }
        self.declared.sets.put(set, content)?;
        for address in &addresses {
            match address.kind {
                Kind::Source => self.sourcing.poke(&address.name),
                _ => self.try_again(&address.name),
            }
        }
        self.cause = Some((Some(by), Cause::Applied { set: set.clone(), origin: content.origin.clone() }));
        self.converge().await;
        match self.declared.problems.is_empty() {
            true => Ok(Applied { plan, addresses }),
            false => Err(RequestError::Troubled(self.declared.problems.join("\n"))),
        }
    }

    /// Gives what failed for good another chance: whoever applies may have repaired what was wrong.
    pub(super) fn try_again(&mut self, name: &Name) {
        self.refused.remove(name);
        let is_stalled = self.units.get(name).is_some_and(|unit| matches!(unit.view().phase, UnitPhase::Stalled { .. }));
        if is_stalled {
            self.leave(name);
        }
    }

    async fn delete(&mut self, address: &Address, by: Operator) -> Result<Vec<String>, RequestError> {
        self.check_thawed()?;
        if let Some(parent) = address.name.parent().filter(|_| address.kind == Kind::Being) {
            return self.delete_child(address, &parent).await;
        }
        self.check_unused(address)?;
        let is_declared = self.declared.good.fleet.addresses().any(|declared| declared == *address);
        match self.declared.set_of(address)? {
            Some((name, mut set)) => {
                set.deleted.push(address.clone());
                let mut sets = self.declared.sets.all()?;
                sets.insert(name.clone(), set.clone());
                self.declared.look_with(&sets).result.map_err(RequestError::Invalid)?;
                self.declared.sets.put(&name, &set)?;
                self.cause = Some((Some(by), Cause::Deleted { address: address.clone() }));
                self.converge().await;
                Ok(vec![format!("{address} is no longer declared")])
            }
            None if is_declared => {
                let places = self.places_of(address);
                let what = match self.declared.fetched_from(address) {
                    Some((source, _)) => format!("{address} comes from source/{source}; remove it in its repository"),
                    None => format!("{address} is declared in {places}, which the daemon serves; remove it there"),
                };
                Err(RequestError::Refused(what))
            }
            None if address.kind == Kind::Being && self.ground.home.being_dir(&address.name).exists() => Ok(Vec::new()),
            None => Err(RequestError::Refused(format!("{address} is not declared; `singularity get` lists what is"))),
        }
    }

    /// Where an object is declared, for people.
    pub(super) fn places_of(&self, address: &Address) -> String {
        let files: Vec<String> = self.declared.files_of(address).iter().map(|file| format!("`{}`", file.display())).collect();
        if files.is_empty() { "a served folder".to_owned() } else { files.join(", ") }
    }

    async fn delete_set(&mut self, set: &Name, by: Operator) -> Result<Vec<String>, RequestError> {
        self.check_thawed()?;
        let mut sets = self.declared.sets.all()?;
        let Some(content) = sets.remove(set) else {
            let known: Vec<String> = sets.keys().map(ToString::to_string).collect();
            return Err(RequestError::Refused(format!("no set `{set}` was applied; there are: {}", known.join(", "))));
        };
        self.declared.look_with(&sets).result.map_err(RequestError::Invalid)?;
        let addresses = self.declared.addresses_of(&content);
        self.declared.sets.remove(set)?;
        self.cause = Some((Some(by), Cause::SetDeleted { set: set.clone() }));
        self.converge().await;
        let told = |address: &Address| match address.kind {
            Kind::Being => format!("{address} is no longer declared; it is stopped and its state is kept"),
            _ => format!("{address} is no longer declared"),
        };
        Ok(addresses.iter().map(told).collect())
    }

    /// Gives a person's word to a being, and tells what became of it without waiting here.
    fn pass_on(&self, being: &Name, number: u64, word: Word, reply: Reply<()>) {
        let id = format!("{being}.{number}");
        let refused = move |why: &dyn fmt::Display| RequestError::Refused(format!("the answer to {id} does not count: {why}"));
        let Some(unit) = self.units.get(being) else {
            return drop(reply.send(Err(refused(&format!("no being/{being} runs; `singularity get` lists what does")))));
        };
        let Some(ticket) = unit.answer(number, word) else {
            return drop(reply.send(Err(refused(&NotAsked::Away))));
        };
        tokio::spawn(async move {
            let taken = ticket.await.unwrap_or(Err(NotAsked::Away));
            drop(reply.send(taken.map_err(|why| refused(&why))));
        });
    }

    /// Answers the deletions whose beings are gone.
    pub(super) fn answer_parting(&mut self) {
        let (gone, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parting).into_iter().partition(|parting| !self.is_on_its_way(&parting.name));
        self.parting = staying;
        for Parting { name, purge, mut done, reply } in gone {
            let answer = self.purge(&name, purge).map(|told| {
                done.push(told);
                done
            });
            drop(reply.send(answer));
        }
    }

    /// Tells whether a being is being stopped, or waits for what is below it in its family.
    fn is_on_its_way(&self, name: &Name) -> bool {
        self.leaving.iter().any(|leaving| leaving == name || leaving.is_under(name))
    }

    /// Refuses to take away what a being needs.
    fn check_unused(&self, address: &Address) -> Result<(), RequestError> {
        let fleet = &self.declared.good.fleet;
        let uses = |name: &Name| {
            fleet.beings.get(name).is_some_and(|being| match address.kind {
                Kind::Model => being.models.contains(&address.name),
                Kind::Surface => being.las.surfaces.contains(&address.name),
                Kind::Decision => being.decision.as_ref() == Some(&address.name),
                Kind::Category => being.categories.contains(&address.name),
                Kind::Source | Kind::Cap | Kind::Being => false,
            })
        };
        let reads = |spec: &DecisionSpec| address.kind == Kind::Model && spec.model() == Some(&address.name);
        if let Some(reader) = fleet.decisions.iter().find(|(_, spec)| reads(spec)).map(|(name, _)| name) {
            let refusal = format!("decision/{reader} uses {address}; edit or delete that decision first");
            return Err(RequestError::Refused(refusal));
        }
        match fleet.beings.keys().find(|name| uses(name)) {
            Some(user) => Err(RequestError::Refused(format!("being/{user} uses {address}; edit or delete that being first"))),
            None => Ok(()),
        }
    }

    /// Says what is left of a being, or removes it.
    fn purge(&mut self, name: &Name, purge: bool) -> Result<String, RequestError> {
        let dir = self.dir_of(name);
        if self.units.contains_key(name) || self.has_family_about(name) {
            return Err(RequestError::Refused(format!(
                "being/{name} still runs, so nothing of it is removed; see `singularity get`"
            )));
        }
        if !dir.exists() {
            return Ok(format!("being/{name} has no state"));
        }
        if !purge {
            return Ok(format!("the state of being/{name} is kept in {}", dir.display()));
        }
        remove(&dir).map_err(|error| RequestError::Refused(chain(&error)))?;
        self.forget(name);
        Ok(format!("the state of being/{name} in {} is removed", dir.display()))
    }
}
