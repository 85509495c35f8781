//! Beings that should have woken and did not.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    runtime::Failure,
    vocab::{Name, Span, Timestamp},
};

/// How long after its time a being that still rests is suspect: twice as long as a driver sleeps at a time.
const SUSPECT_AFTER: Span = Span::from_secs(60);
/// How long it has to stay so, by a clock that nobody sets: where the wall clock was set ahead, a driver finds out meanwhile.
const PATIENCE: Span = Span::from_secs(45);

/// Watches that beings wake when they said that they would. A timer that is lost is a fault of this program, which nobody would see
/// otherwise: a being at rest looks the same, however long it rests.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    suspects: BTreeMap<Name, Suspect>,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    should_have: Timestamp,
    /// When it was first seen, as the time that this process had been up.
    seen: Span,
    is_overdue: bool,
}

impl Watchdog {
    /// Looks at a being, which rests until an instant or does something else. `up` is how long this process has been up.
    pub(super) fn look(&mut self, name: &Name, until: Option<Timestamp>, now: Timestamp, up: Span) {
        let late =
            |until: &Timestamp| Duration::try_from(now.duration_since(*until)).is_ok_and(|late| late > SUSPECT_AFTER.as_duration());
        let Some(should_have) = until.filter(late) else {
            self.suspects.remove(name);
            return;
        };
        let fresh = Suspect { should_have, seen: up, is_overdue: false };
        let suspect = self.suspects.entry(name.clone()).or_insert(fresh);
        if suspect.should_have != should_have {
            *suspect = fresh;
        }
        if !suspect.is_overdue && up.saturating_sub(suspect.seen) >= PATIENCE {
            suspect.is_overdue = true;
            tracing::error!(being = %name, "it should have woken at {should_have} and did not");
        }
    }

    /// Forgets those that are no longer kept alive.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&Name) -> bool) {
        self.suspects.retain(|name, _| is_kept(name));
    }

    /// Why a being is stalled, if it is.
    pub(super) fn failure(&self, name: &Name) -> Option<Failure> {
        let Suspect { should_have, .. } = self.suspects.get(name).filter(|suspect| suspect.is_overdue)?;
        let message = format!("it should have woken at {should_have} and did not; `singularity down` and `apply` start it anew");
        Some(Failure { reason: "Overslept".to_owned(), message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Looks every thirty seconds at a being that rests until `until(now)`, with a wall clock that is `ahead` from a second on.
    fn watch(until: impl Fn(i64) -> Option<i64>, ahead: (i64, i64)) -> Vec<i64> {
        let (mut watchdog, name) = (Watchdog::default(), Name::try_from("ada").unwrap());
        let told = |up: &i64| {
            let wall = up + if *up >= ahead.0 { ahead.1 } else { 0 };
            watchdog.look(&name, until(*up).map(at), at(wall), Span::from_secs(u64::try_from(*up).unwrap()));
            watchdog.failure(&name).is_some()
        };
        (0..1_200).step_by(30).filter(told).collect()
    }

    const NEVER: (i64, i64) = (i64::MAX, 0);

    #[test]
    fn a_being_whose_timer_is_lost_is_found_and_one_that_wakes_late_is_not() {
        let lost = watch(|_| Some(300), NEVER);
        assert_eq!(lost.first(), Some(&450), "a minute after its time, and then for a while");
        assert_eq!(lost.last(), Some(&1_170), "until it does something");
        assert_eq!(watch(|now| Some(now - now % 300 + 300), NEVER), [0; 0], "it wakes each time");
        assert_eq!(watch(|now| Some(if now < 390 { 300 } else { 3_000 }), NEVER), [0; 0], "a minute and a half late");
        assert_eq!(watch(|now| Some(now - 90), NEVER), [0; 0], "late each time, and yet awake in between");
        assert_eq!(watch(|now| (now < 600).then_some(300), NEVER).last(), Some(&570), "and forgotten when it goes on");
    }

    #[test]
    fn a_clock_that_is_set_ahead_accuses_nobody_who_finds_out() {
        assert_eq!(watch(|now| Some(if now < 330 { 10_000 } else { 30_000 }), (300, 15_000)), [0; 0]);
    }

    #[test]
    fn what_is_overdue_says_when_it_should_have_woken_and_what_to_do() {
        let (mut watchdog, name) = (Watchdog::default(), Name::try_from("ada").unwrap());
        for up in [0, 60] {
            watchdog.look(&name, Some(at(0)), at(1_000), Span::from_secs(up));
        }
        let failure = watchdog.failure(&name).unwrap();
        assert_eq!(failure.reason, "Overslept");
        assert!(
            failure.message.contains("1970-01-01T00:00:00Z") && failure.message.contains("singularity down"),
            "{}",
            failure.message
        );
        watchdog.keep(|_| false);
        assert_eq!(watchdog.failure(&name), None);
    }
}
