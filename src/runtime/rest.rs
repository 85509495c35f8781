//! How a driver waits between two cycles of its being.

use std::time::Duration;

use tokio::{sync::mpsc, time::Instant};

use super::{Command, Driver, Phase, Until, clock::Stopwatch, questions::refuse, refit::finished};
use crate::{
    being::{Closed, Effect, Input, Next, Past},
    store::StoreError,
    vocab::Timestamp,
};

/// The longest sleep at a time: the clock may be set meanwhile, and a machine may sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What ended a wait.
pub(super) enum Waited {
    /// It is time for a cycle, which takes a slot where there is one.
    Wake {
        slot: Option<Timestamp>,
    },
    /// Something holds the being that it was not told of yet.
    Hold(Closed),
    Next(Effect),
}

/// Why the being rests, and what comes next.
struct Rest {
    phase: Phase,
    /// When to look again; `None` is when somebody acts.
    look: Option<Instant>,
    /// What is then to be done; `None` is to look.
    then: Option<Waited>,
}

impl Rest {
    const fn until_an_edit(phase: Phase) -> Self {
        Self { phase, look: None, then: None }
    }

    fn over(phase: Phase, then: Waited) -> Self {
        Self { phase, look: Some(Stopwatch::start().after(Duration::ZERO)), then: Some(then) }
    }
}

impl Driver {
    /// Waits until it is time for a cycle, or a command brings something else.
    pub(super) async fn wait(
        &mut self,
        woken: Option<Stopwatch>,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Waited, StoreError> {
        loop {
            let Rest { phase, look, then } = self.rest(woken);
            self.show(phase.clone());
            if self.is_done(look, woken) {
                self.idle = Some(phase);
                return self.leave().await;
            }
            let time_passes = async {
                match look {
                    Some(look) => tokio::time::sleep_until(look).await,
                    None => std::future::pending().await,
                }
            };
            let command = tokio::select! {
                () = time_passes => match then {
                    Some(waited) => return Ok(waited),
                    None => continue,
                },
                result = finished(&mut self.building) => {
                    self.built(result).await?;
                    continue;
                }
                command = commands.recv() => command,
            };
            match command {
                Some(Command::Assign(assignment, reply)) => self.assign(*assignment, reply).await?,
                Some(Command::Answer { number, reply, .. }) => refuse(reply, self.not_asked(number)),
                Some(Command::Stop) | None => return self.leave().await,
            }
        }
    }

    async fn leave(&mut self) -> Result<Waited, StoreError> {
        Ok(self.tell(Input::Stop).await?.map_or(Waited::Wake { slot: None }, Waited::Next))
    }

    /// Why the being rests, and until when.
    fn rest(&mut self, woken: Option<Stopwatch>) -> Rest {
        let spec = &self.assignment.being;
        if self.assignment.is_paused() {
            return Rest::until_an_edit(Phase::Paused);
        }
        // What a person said, or the time that passed, is heard whatever holds the next cycle.
        if self.being.is_busy() {
            return Rest::over(Phase::Thinking, Waited::Wake { slot: None });
        }
        let now = self.ground.clock.now();
        let held = self.held();
        if let Some(held) = held.as_ref().filter(|held| self.being.told() == Some(&held.because.limit)) {
            let (phase, look) = held.rest(now);
            return Rest { phase, look, then: None };
        }
        if spec.cycle.limit.is_some_and(|limit| self.being.state().cycle >= limit) {
            return Rest::until_an_edit(Phase::Finished);
        }
        match held {
            Some(held) => Rest::over(held.rest(now).0, Waited::Hold(held.because)),
            None => {
                let next = self.next(woken, now);
                self.rest_until(next, now)
            }
        }
    }

    fn rest_until(&self, next: Option<Next>, now: Timestamp) -> Rest {
        let Some(Next { at, slot, because }) = next else {
            return Rest::until_an_edit(Phase::Resting {
                until: Timestamp::MAX,
                because: "its schedule has no more cycles".to_owned(),
            });
        };
        let phase = Phase::Resting { until: at, because };
        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        match left.is_zero() || self.until == Until::OneCycle {
            // Who asks for one cycle gets it now; it takes a slot that is there to be taken.
            true => Rest::over(phase, Waited::Wake { slot: slot.filter(|slot| *slot <= now) }),
            false => Rest { phase, look: Some(Stopwatch::start().after(left.min(LOOK_AGAIN))), then: None },
        }
    }

    /// When the next cycle begins, as the schedule says.
    fn next(&mut self, woken: Option<Stopwatch>, now: Timestamp) -> Option<Next> {
        self.since = self.since.min(now);
        let state = self.being.state();
        let past = Past {
            slot: state.slot,
            newborn: (state.cycle == 0).then_some(state.started_at),
            since: self.since,
            up_for: self.up.elapsed(),
            rested_for: woken.map(Stopwatch::elapsed),
            was_cut_off: woken.is_none() && state.was_cut_off(self.assignment.being.cycle.max_tool_rounds),
        };
        self.cadence.next(&past, now)
    }

    fn is_done(&self, look: Option<Instant>, woken: Option<Stopwatch>) -> bool {
        match self.until {
            Until::Stopped => false,
            Until::Idle => look.is_none(),
            Until::OneCycle => look.is_none() || woken.is_some(),
        }
    }
}
