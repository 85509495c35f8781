use std::{collections::BTreeMap, sync::Arc};

use super::{
    BeingFacts, Condition, ConditionKind, HoldFacts, List, ObjectStatus, QuestionFacts, Reconciler, SourceFacts, Status,
    SurfaceFacts,
    notices::happened,
    reconciler::{Refusal, Refused},
    status::{activity, conditions, is_idle, next_wake},
};
use crate::{
    manifest::Fleet,
    plan::{Observed, ObservedBeing, Phase, Plan, Verdict},
    runtime::{Failure, Unit, UnitPhase},
    vocab::{Address, Kind, Name, Span, chain},
};

impl Reconciler {
    /// What the runtime reports, as a plan needs it.
    pub(super) fn observe(&self) -> Observed {
        let names = self.units.keys().chain(self.born.keys()).cloned().collect::<std::collections::BTreeSet<_>>();
        let beings = names.into_iter().map(|name| (name.clone(), self.observed(&name))).collect();
        let Fleet { sources, models, surfaces, caps, decisions, categories, .. } = self.enacted.clone();
        Observed { sources, models, surfaces, caps, decisions, categories, beings }
    }

    fn observed(&self, name: &Name) -> ObservedBeing {
        let born = self.born.get(name).cloned();
        let generation = self.observed_generations.get(&Address::new(Kind::Being, name.clone())).copied().unwrap_or(0);
        let Some(unit) = self.units.get(name) else { return ObservedBeing { spec: None, generation, phase: Phase::Stopped, born } };
        let view = unit.view();
        let phase = match view.phase {
            UnitPhase::Booting | UnitPhase::Live if view.assignment.is_paused() => Phase::Held,
            UnitPhase::Booting | UnitPhase::Live => Phase::Running,
            UnitPhase::Waiting { failure, .. } => Phase::Failed { permanent: false, reason: failure.reason },
            UnitPhase::Stalled { failure } => Phase::Failed { permanent: true, reason: failure.reason },
            UnitPhase::Stopped => Phase::Stopped,
        };
        ObservedBeing { spec: Some((*view.assignment.being).clone()), generation, phase, born }
    }

    /// Carries a plan out. Nothing is chosen here: what may not happen yet is held, and the next run takes it up.
    pub(super) fn act(&mut self, plan: &Plan) {
        self.ground.models.replace(&self.fleet.models);
        self.ground.deciders.replace(&self.fleet);
        self.keep_sources();
        self.enacted.sources.clone_from(&self.fleet.sources);
        self.enacted.models.clone_from(&self.fleet.models);
        self.enacted.surfaces.clone_from(&self.fleet.surfaces);
        self.enacted.caps.clone_from(&self.fleet.caps);
        self.enacted.decisions.clone_from(&self.fleet.decisions);
        self.enacted.categories.clone_from(&self.fleet.categories);
        if !self.enacted.caps.is_empty() {
            tokio::task::block_in_place(|| self.ground.ledger.fill(&self.ground.home));
        }
        // A parent comes before its children by name, so they come first this way.
        for (address, step) in plan.steps.iter().rev().filter(|(address, _)| address.kind == Kind::Being) {
            let name = &address.name;
            match &step.verdict {
                Verdict::Refuse { changes } => {
                    let fields: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
                    let failure =
                        Failure { reason: "Refused".to_owned(), message: format!("{} ({})", step.because, fields.join(", ")) };
                    self.refuse(name, failure);
                }
                Verdict::Stop if self.has_family_about(name) => {}
                Verdict::Stop => self.leave(name),
                Verdict::Restart { .. } => {
                    self.leave(name);
                    self.refused.remove(name);
                }
                Verdict::Create => self.start(name),
                Verdict::Keep | Verdict::Update { .. } => self.hand_over(name),
            }
        }
    }

    fn refuse(&mut self, name: &Name, failure: Failure) {
        let Some(edit) = self.assignment(name) else { return };
        self.refused.insert(name.clone(), Refusal { edit, failure, is_permanent: true });
        if !self.units.contains_key(name) {
            tracing::warn!(being = %name, "its declaration is refused and nothing of it runs");
        }
    }

    fn start(&mut self, name: &Name) {
        let Some(assignment) = self.assignment(name) else { return };
        if self.leaving.contains(name) || self.units.contains_key(name) {
            return;
        }
        self.refused.remove(name);
        let unit = Unit::spawn(Arc::clone(&self.ground), assignment, self.dir_of(name));
        let (mut view, mut board) = unit.changes();
        let bell = Arc::clone(&self.bell);
        tokio::spawn(async move {
            while tokio::select! { changed = view.changed() => changed, changed = board.changed() => changed }.is_ok() {
                bell.notify_one();
            }
            bell.notify_one();
        });
        self.units.insert(name.clone(), unit);
    }

    /// Stops a being; its name is held until it is gone.
    pub(super) fn leave(&mut self, name: &Name) {
        let Some(unit) = self.units.remove(name) else { return };
        self.leaving.insert(name.clone());
        self.handed.remove(name);
        self.observed_generations.remove(&Address::new(Kind::Being, name.clone()));
        let name = name.clone();
        self.departures.spawn(async move {
            unit.stop().await;
            name
        });
    }

    /// Hands the declaration to a living being that does not have it yet, unless it refused just that.
    fn hand_over(&mut self, name: &Name) {
        let Some(wanted) = self.assignment(name) else { return };
        let Some(unit) = self.units.get(name) else { return };
        let is_in_force = *unit.view().assignment == wanted;
        let refusal = self.refused.get(name).filter(|refusal| refusal.edit == wanted);
        let is_hopeless = refusal.is_some_and(|refusal| refusal.is_permanent);
        if is_in_force {
            self.refused.remove(name);
        }
        if is_in_force || is_hopeless || self.handed.get(name) == Some(&wanted) {
            return;
        }
        // A unit that is too busy to take it is asked again by the next run.
        let Some(ticket) = unit.assign(wanted.clone()) else { return };
        self.handed.insert(name.clone(), wanted.clone());
        let (tell, name) = (self.refusals.0.clone(), name.clone());
        tokio::spawn(async move {
            let failure = match ticket.await {
                Ok(Err(error)) => {
                    let failure = Failure { reason: error.reason().to_owned(), message: chain(&error) };
                    Some((failure, error.is_permanent()))
                }
                Ok(Ok(())) | Err(_) => None,
            };
            drop(tell.send(Refused { name, edit: wanted, failure }).await);
        });
    }

    /// Notes what came of an edit, unless a newer one was handed over meanwhile.
    pub(super) fn note_refusal(&mut self, refused: Refused) {
        let Refused { name, edit, failure } = refused;
        if self.handed.get(&name) != Some(&edit) {
            return;
        }
        self.handed.remove(&name);
        match failure {
            Some((failure, is_permanent)) => drop(self.refused.insert(name, Refusal { edit, failure, is_permanent })),
            None => drop(self.refused.remove(&name)),
        }
        self.publish();
    }

    /// Shows what is known, where it changed.
    pub(super) fn publish(&mut self) {
        self.watchdog.keep(|name| self.units.contains_key(name));
        let items = self.shown().iter().map(|address| self.object(address)).collect();
        let frozen = self.freeze.hold().map(HoldFacts::from);
        let list = List { items, problems: self.declared.told(), frozen };
        let pulling = self.ground.weights.pulling().borrow().map(|pulling| (pulling.done, pulling.total));
        let now = self.ground.clock.now();
        self.status.send_if_modified(|status| {
            if status.version > 0 && status.list == list && status.pulling == pulling {
                return false;
            }
            let told = happened(&status.list, &list);
            if !told.is_empty() {
                self.notices.send_modify(|notices| notices.add(now, told));
            }
            *status = Arc::new(Status { version: status.version + 1, list, pulling });
            true
        });
    }

    fn object(&mut self, address: &Address) -> ObjectStatus {
        // A child is declared where the first of its family is.
        let declared = Address::new(address.kind, address.name.root());
        let generation = self.declared.good.generations.get(&declared).map_or(0, |generation| generation.number);
        let mut question = None;
        let (conditions, being, is_in_force) = match address.kind {
            Kind::Being => self.being(&address.name),
            Kind::Surface => {
                let (conditions, wanted) = self.wanted(&address.name);
                question = wanted;
                (conditions, None, true)
            }
            Kind::Source => {
                let (conditions, is_in_force) = self.source(&address.name);
                (conditions, None, is_in_force)
            }
            Kind::Model | Kind::Decision | Kind::Category => {
                let ready = Condition::new(ConditionKind::Ready, true, "Declared", "it is used when a being needs it");
                (vec![ready], None, true)
            }
            Kind::Cap => (self.cap(&address.name), None, true),
        };
        if is_in_force {
            self.observed_generations.insert(address.clone(), generation);
        }
        let observed_generation = self.observed_generations.get(address).copied().unwrap_or(0);
        let from = self.declared.fetched_from(&declared);
        let source = from.map(|(name, record)| SourceFacts {
            address: Address::new(Kind::Source, name).to_string(),
            commit: record.commit.clone(),
        });
        ObjectStatus { address: address.to_string(), generation, observed_generation, conditions, source, being, question }
    }

    /// How much of a cap is used.
    fn cap(&self, name: &Name) -> Vec<Condition> {
        let Some(spec) = self.fleet.caps.get(name) else { return Vec::new() };
        let used = self.ground.ledger.used(spec, self.ground.clock.now());
        let ready = Condition::new(ConditionKind::Ready, true, "Declared", "it holds the beings that its labels select");
        let reason = if used.is_left() { "Funded" } else { "CapReached" };
        vec![ready, Condition::new(ConditionKind::Solvent, used.is_left(), reason, used.to_string())]
    }

    fn being(&mut self, name: &Name) -> (Vec<Condition>, Option<BeingFacts>, bool) {
        let refused = self.refused.get(name).map(|refusal| &refusal.failure);
        let Some(unit) = self.units.get(name) else {
            let held = if self.leaving.contains(name) { "an earlier process of it ends" } else { "it is about to start" };
            let mut rows = vec![Condition::new(ConditionKind::Ready, false, "Waiting", held)];
            rows.push(Condition::new(ConditionKind::Progressing, refused.is_none(), "Waiting", held));
            rows.extend(refused.map(|failure| Condition::new(ConditionKind::Stalled, true, &failure.reason, &failure.message)));
            return (rows, None, false);
        };
        let (view, snapshot) = (unit.view(), unit.snapshot());
        let is_in_force = self.assignment(name).is_some_and(|wanted| *view.assignment == wanted);
        let wake = next_wake(&view, snapshot.as_ref());
        let now = self.ground.clock.now();
        self.watchdog.look(name, wake.as_ref().map(|(at, _)| *at), now, Span::from(self.began.elapsed()));
        let facts = BeingFacts {
            agent_id: snapshot.as_ref().map(|snapshot| snapshot.agent_id.clone()),
            activity: activity(&view, snapshot.as_ref(), now),
            next_wake: wake.as_ref().map(|(at, _)| at.to_string()),
            next_wake_because: wake.map(|(_, because)| because),
            idle: is_in_force && is_idle(&view, snapshot.as_ref()),
            status: snapshot.as_ref().map_or_else(|| "unknown".to_owned(), |snapshot| snapshot.status.to_string()),
            cycle: snapshot.as_ref().map_or(0, |snapshot| snapshot.cycle),
            model: snapshot.as_ref().map_or_else(String::new, |snapshot| snapshot.current_model.clone()),
            balance_usd: snapshot.as_ref().map_or_else(String::new, |snapshot| snapshot.remaining.to_string()),
            earned_usd: snapshot.as_ref().map_or_else(String::new, |snapshot| snapshot.earned.to_string()),
            spent_usd: snapshot.as_ref().map_or_else(String::new, |snapshot| snapshot.spent.to_string()),
            total_tokens: snapshot.as_ref().map_or(0, |snapshot| snapshot.total_tokens),
            restarts: view.restarts,
            parent: name.parent().map(|parent| Address::new(Kind::Being, parent).to_string()),
            state_dir: self.dir_of(name),
            paused: view.assignment.paused.as_ref().map(HoldFacts::from),
            question: snapshot.as_ref().and_then(|seen| Some(QuestionFacts::of(name, seen.question.as_ref()?))),
            surfaces: snapshot.as_ref().map_or_else(BTreeMap::new, surfaces),
        };
        let mut rows = conditions(&view, snapshot.as_ref(), refused, self.watchdog.failure(name).as_ref());
        if !is_in_force && refused.is_none() && view.phase == UnitPhase::Live {
            rows.retain(|row| row.kind != ConditionKind::Progressing);
            rows.push(Condition::new(ConditionKind::Progressing, true, "Updating", "an edit is being taken in"));
        }
        (rows, Some(facts), is_in_force)
    }
}

fn surfaces(snapshot: &crate::runtime::Snapshot) -> BTreeMap<String, SurfaceFacts> {
    let facts = |(name, health): (&Name, &crate::runtime::SurfaceHealth)| {
        let facts = SurfaceFacts {
            up: health.up,
            reason: health.reason.clone(),
            stalled: health.stalled,
            tools: health.tools,
            restarts: health.restarts,
        };
        (name.to_string(), facts)
    };
    snapshot.surfaces.iter().map(facts).collect()
}
