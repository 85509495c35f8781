//! What holds a being's spending, seen by its driver: its own limits, and the caps that it shares with others.

use std::time::Duration;

use tokio::{sync::mpsc, time::Instant};

use super::{Command, Driver, Phase, clock::Stopwatch, ledger::NoPass};
use crate::{
    being::{Closed, Input, Limit},
    store::{StoreError, blocking},
    vocab::{Timestamp, Usd, next_day},
};

/// How often it is looked again whether a being is held: a day may come earlier or later than it seemed, and others may free a cap.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What holds a being at rest.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) because: Closed,
    /// When it may go on by itself.
    until: Option<Timestamp>,
}

impl Held {
    /// How the being rests, and when to look again; `None` is when somebody acts.
    pub(super) fn rest(&self, now: Timestamp) -> (Phase, Option<Instant>) {
        let Self { because, until } = self.clone();
        let left = until.and_then(|until| Duration::try_from(until.duration_since(now)).ok());
        let soon = || Some(Stopwatch::start().after(left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)));
        match because.limit {
            Limit::Balance => (Phase::Exhausted { because }, None),
            Limit::Cycle => (Phase::Limited { because, until: None }, None),
            Limit::Day | Limit::Cap(_) => (Phase::Limited { because, until }, soon()),
        }
    }
}

impl Driver {
    /// What holds the being from its next cycle, its own limits first.
    pub(super) fn held(&self) -> Option<Held> {
        let now = self.ground.clock.now();
        if let Some(because) = self.being.closed(&self.rules, now) {
            let until = (because.limit == Limit::Day).then(|| next_day(now));
            return Some(Held { because, until });
        }
        let caps = &self.assignment.caps;
        if caps.is_empty() {
            return None;
        }
        let (because, until) = self.ground.ledger.closed(caps, self.being.foreseen(&self.rules), now)?;
        Some(Held { because, until })
    }

    /// What a being is told when it is time for a cycle.
    pub(super) fn wake(&self, slot: Option<Timestamp>) -> Input {
        match self.held() {
            _ if self.being.is_busy() => Input::Wake,
            Some(Held { because, .. }) => Input::Capped(because),
            _ => slot.map_or(Input::Wake, |slot| Input::Due { slot }),
        }
    }

    /// Gets a call that may cost up to `worst` through the caps, once it is known what others leave. The input is what comes instead.
    pub(super) async fn pass(
        &mut self,
        worst: Usd,
        phase: &Phase,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Option<Input>, StoreError> {
        let mut freed = self.ground.ledger.freed();
        loop {
            let now = self.ground.clock.now();
            match self.ground.ledger.admit(&self.assignment.name, &self.assignment.caps, worst, now) {
                Ok(pass) => {
                    self.pass = Some(pass);
                    return Ok(None);
                }
                Err(NoPass::Closed(because, _)) => return Ok(Some(Input::Capped(because))),
                Err(NoPass::Busy) => {
                    let wait = async move {
                        drop(freed.changed().await);
                        freed
                    };
                    match self.beside(wait, phase.clone(), Duration::ZERO, commands).await? {
                        Some(again) => freed = again,
                        None => return Ok(Some(Input::Abandoned)),
                    }
                }
            }
        }
    }

    /// Lets what the being spent, and where a cap holds it also what all others did, count under the caps.
    pub(super) fn count_in(&self) {
        self.ground.ledger.record(&self.assignment.name, self.being.state());
        if !self.assignment.caps.is_empty() {
            blocking(|| self.ground.ledger.fill(&self.ground.home));
        }
    }
}
