use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use super::{
    engine::Engine,
    log::DecisionLog,
    readout::{Decision, DecisionError},
    request::DecisionRequest,
    row::Made,
};
use crate::vocab::Timestamp;

/// Tells the time.
type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// An engine whose decisions are logged.
#[derive(Clone)]
pub struct Decider {
    engine: Engine,
    log: Option<(DecisionLog, Now)>,
    extra: Map<String, Value>,
}

impl Decider {
    /// Decides by an engine, and logs nothing.
    pub fn new(engine: Engine) -> Self {
        Self { engine, log: None, extra: Map::new() }
    }

    /// The same, with every decision in a log.
    #[must_use]
    pub fn logged(self, log: DecisionLog, now: Now) -> Self {
        Self { log: Some((log, now)), ..self }
    }

    /// The same, with something that rows say of whose decisions they are: `run_id`, `skill`, `being`.
    #[must_use]
    pub fn saying(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// Decides; `phase` is what the decision is about. What the log adds is one copy of the request and the decision.
    pub async fn decide(&self, phase: &str, request: &DecisionRequest) -> Result<Decision, DecisionError> {
        let Some((log, now)) = &self.log else { return self.engine.decide(request).await };
        let began_at = now();
        let decision = self.engine.decide(request).await?;
        let (request, extra) = (request.clone(), self.extra.clone());
        let made = Made { phase: phase.to_owned(), request, decision: decision.clone(), began_at, ended_at: now(), extra };
        log.record(made);
        Ok(decision)
    }
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decider").field("engine", &self.engine).field("extra", &self.extra).finish_non_exhaustive()
    }
}
