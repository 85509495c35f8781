//! The schedule in the simulated world: whatever its clock and its processes do, cycles and slots only rise.

use super::World;
use crate::{
    being::{AgentState, Cadence, Event, Input, Past, Record, Rules},
    vocab::{Span, Timestamp},
};

/// When cycles are due in a world, as a driver knows it.
pub(super) struct Schedule {
    cadence: Cadence,
    since: Timestamp,
}

/// Over how many seconds beings begin.
const SPREAD: i64 = 3;

impl Schedule {
    pub(super) fn new() -> Self {
        let cadence = Cadence::every(Span::from_secs(60)).spread("ada", Some(Span::from_secs(SPREAD.unsigned_abs())));
        Self { cadence, since: Timestamp::UNIX_EPOCH }
    }
}

impl World {
    /// Lets the time pass that there is until the next cycle.
    pub(super) fn wake(&mut self, rules: &Rules) -> Input {
        let (state, schedule) = (self.replay(), &mut self.schedule);
        schedule.since = schedule.since.min(self.now);
        let (up_for, rested_for) = (Span::from_secs(3_600), None);
        let past = Past {
            slot: state.slot,
            newborn: (state.cycle == 0).then_some(state.started_at),
            since: schedule.since,
            up_for,
            rested_for,
            was_cut_off: state.was_cut_off(rules.max_tool_rounds),
        };
        let next = schedule.cadence.next(&past, self.now).unwrap();
        let soon = self.now + jiff::Span::new().seconds(SPREAD);
        assert!(next.at <= soon || !past.was_cut_off, "what a process left under way waits for no later slot: {next:?}");
        self.now = self.now.max(next.at);
        assert!(next.slot.is_none_or(|slot| slot <= self.now), "no slot is taken before its time");
        schedule.since = self.now;
        next.slot.map_or(Input::Wake, |slot| Input::Due { slot })
    }

    pub(super) fn folds(&self) -> usize {
        self.journal.iter().filter(|record| matches!(record.event, Event::Folded { .. })).count()
    }
}

pub(super) fn check(journal: &[Record], state: &AgentState) {
    let mut newest = (0, None);
    for record in journal {
        let Event::CycleStarted { slot, .. } = &record.event else { continue };
        assert_eq!(record.cycle, newest.0 + 1, "cycles are counted one by one");
        assert!(slot.is_none() || *slot > newest.1, "{slot:?} is taken after {:?}", newest.1);
        newest = (record.cycle, newest.1.max(*slot));
    }
    assert_eq!((state.cycle, state.slot), newest, "the state has the newest");
}
