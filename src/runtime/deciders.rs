use std::sync::{Arc, PoisonError, RwLock};

use super::{Clock, Ids, engine};
use crate::{
    decision::{Decider, DecisionLog},
    manifest::{DecisionSpec, Fleet},
    model::Models,
    vocab::Name,
};

/// Makes what decides, as it is declared now. Cheap to clone; all clones see the same declarations.
#[derive(Debug, Clone)]
pub struct Deciders {
    models: Models,
    clock: Clock,
    ids: Ids,
    log: Option<DecisionLog>,
    /// What may decide: decisions and models alone.
    declared: Arc<RwLock<Fleet>>,
}

impl Deciders {
    /// Makes deciders on models; nothing is declared yet, and nothing logged.
    pub(super) fn new(models: Models, clock: Clock, ids: Ids) -> Self {
        Self { models, clock, ids, log: None, declared: Arc::default() }
    }

    /// The same, with every decision in a log.
    pub(super) fn logged(self, log: DecisionLog) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Replaces what is declared.
    pub fn replace(&self, fleet: &Fleet) {
        let mut declared = self.declared.write().unwrap_or_else(PoisonError::into_inner);
        *declared = Fleet { decisions: fleet.decisions.clone(), models: fleet.models.clone(), ..Fleet::default() };
    }

    /// What decides by a declaration.
    pub fn decider(&self, spec: &DecisionSpec) -> Decider {
        let decider = Decider::new(engine(&self.models, spec));
        match &self.log {
            Some(log) => decider.logged(log.clone(), self.clock.as_function()),
            None => decider,
        }
    }

    /// The declaration of a name: a decision, or else a model that is read. Without a name it is the only decision, or the only model
    /// where there is no decision. The error tells what there is.
    pub fn named(&self, name: Option<&str>) -> Result<DecisionSpec, Vec<Name>> {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        let found = match name {
            Some(name) => {
                let read = || declared.models.keys().find(|model| model.as_str() == name).cloned().map(DecisionSpec::of_model);
                declared.decisions.iter().find(|(known, _)| known.as_str() == name).map(|(_, spec)| spec.clone()).or_else(read)
            }
            None => declared.only_decision(),
        };
        found.ok_or_else(|| declared.decisions.keys().chain(declared.models.keys()).cloned().collect())
    }

    /// A fresh id.
    pub fn id(&self) -> String {
        self.ids.next().to_string()
    }
}
