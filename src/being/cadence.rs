//! When a being's cycles begin.

use std::fmt;

use crate::vocab::{Digest, Span, Timestamp};

/// The longest span over which beings are spread where nothing else is said.
const WIDEST_SPREAD: Span = Span::from_secs(60);
/// A slot that did not begin this long after its time was missed; with slots close together, a quarter of their distance.
const LATE: Span = Span::from_secs(30);
/// How far the clock may be set back before the slots that it was ahead of are given up; with slots far apart, one distance.
const SET_BACK: Span = Span::from_secs(2 * 3_600);

/// When a being's cycles begin. It has no clock: the same schedule, past and time give the same answer.
///
/// A schedule is a row of instants, its *slots*, that follows from what is declared alone; the newest slot that a cycle took stands in the
/// being's state. Hence nothing that happens to a process resets a schedule, and an edit counts as if it had always been there.
///
/// # Guarantees
///
/// - A slot is taken at most once, ever, and slots are taken in their order, however often a process starts and however the clock jumps.
/// - Any number of slots that were missed are taken by one cycle, which takes the newest, or by none, as is declared.
/// - A being begins at most half the distance to the next slot after its own; how much is a hash of its name, the same for ever. Two
///   beings may meet by chance.
/// - A clock that is set back makes a being wait until slots come that were not taken: at most two hours or two distances of its slots. One
///   that is set back further is believed: the being goes on with the next slot, and notes none until the clock has caught up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cadence {
    beat: Beat,
    /// Whether slots that were missed are made up for, by one cycle.
    catches_up: bool,
    /// How long after its slot the being begins.
    offset: Span,
}

/// What makes up the slots.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Beat {
    /// There are none: a cycle begins so long after the one before.
    Pause(Span),
    /// Multiples of a span since the Unix epoch.
    Every(Span),
}

/// What a schedule has to know of a being.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// The newest slot that a cycle took.
    pub slot: Option<Timestamp>,
    /// Whether it has not begun any cycle.
    pub is_newborn: bool,
    /// The wall time from which on the slots count where none is known to be taken.
    pub since: Timestamp,
    /// How long this process has had it.
    pub up_for: Span,
    /// How long ago its last cycle in this process began.
    pub rested_for: Option<Span>,
}

/// The next cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// When it begins; one that is not in the future is due.
    pub at: Timestamp,
    /// The slot that it takes.
    pub slot: Option<Timestamp>,
    /// Why then, in words.
    pub because: String,
}

impl Cadence {
    /// A cycle so long after the one before; there are no slots.
    pub const fn pause(rest: Span) -> Self {
        Self::of(Beat::Pause(rest))
    }

    /// A cycle at each multiple of a span since the Unix epoch.
    pub const fn every(every: Span) -> Self {
        Self::of(Beat::Every(every))
    }

    const fn of(beat: Beat) -> Self {
        Self { beat, catches_up: true, offset: Span::ZERO }
    }

    /// The same without cycles for slots that were missed.
    #[must_use]
    pub const fn skipping_missed(mut self) -> Self {
        self.catches_up = false;
        self
    }

    /// The same for one of many beings, which begin spread over a span: a tenth of their distance and at most a minute, where nothing
    /// else is said.
    #[must_use]
    pub fn spread(mut self, name: &str, over: Option<Span>) -> Self {
        let over = over.unwrap_or_else(|| match self.beat {
            Beat::Pause(_) => Span::ZERO,
            Beat::Every(every) => Span::from(every.as_duration() / 10).min(WIDEST_SPREAD),
        });
        self.offset = share(name, over);
        self
    }

    /// The next cycle of a being, given what is known of it and what time it is; `None` is never.
    pub fn next(&self, past: &Past, now: Timestamp) -> Option<Next> {
        match self.beat {
            Beat::Pause(rest) => {
                let left = past.rested_for.map_or(Span::ZERO, |rested| rest.saturating_sub(rested));
                Some(Next { at: later(now, left), slot: None, because: format!("{rest} after the last cycle began") })
            }
            Beat::Every(every) if past.is_newborn && past.slot.is_none() => {
                Some(Next { at: now, slot: floor(every, now), because: "its first cycle".to_owned() })
            }
            Beat::Every(_) => self.next_slot(past, now),
        }
    }

    fn next_slot(&self, past: &Past, now: Timestamp) -> Option<Next> {
        let is_ahead = past.slot.is_some_and(|slot| since(now, slot) > SET_BACK.max(self.distance_after(slot)));
        let base = past.slot.filter(|_| !is_ahead).unwrap_or(past.since);
        let first = self.after(base)?;
        let on_time =
            |slot: Timestamp| Next { at: self.begin_of(slot), slot: (!is_ahead).then_some(slot), because: self.to_string() };
        if self.begin_of(first) > now {
            let because = match base > now {
                true => format!("{self}; the clock was set back, and earlier ones were taken"),
                false => self.to_string(),
            };
            return Some(Next { because, ..on_time(first) });
        }
        let newest = self.newest(first, now);
        let next = on_time(newest);
        if since(next.at, now) <= LATE.min(quarter(self.distance_after(newest))) {
            return Some(next);
        }
        if !self.catches_up {
            return self.after(now).map(on_time);
        }
        // What was missed while a process was down is spread as well: all its beings come up at once.
        let at = later(now, self.offset.saturating_sub(past.up_for));
        Some(Next { at, because: format!("{self}; {newest} was missed"), ..next })
    }

    /// The first slot after an instant.
    fn after(&self, at: Timestamp) -> Option<Timestamp> {
        match self.beat {
            Beat::Pause(_) => None,
            Beat::Every(every) => floor(every, at)?.checked_add(every.as_duration()).ok(),
        }
    }

    /// How far a slot is from the one after it.
    fn distance_after(&self, slot: Timestamp) -> Span {
        self.after(slot).map_or(SET_BACK, |next| since(slot, next))
    }

    /// When the being begins with a slot.
    fn begin_of(&self, slot: Timestamp) -> Timestamp {
        later(slot, self.offset.min(Span::from(self.distance_after(slot).as_duration() / 2)))
    }

    /// The newest slot that is not after `now`, given one that is not either. The distance between the two is halved again and again,
    /// so that a year of slots costs as little as a day.
    fn newest(&self, slot: Timestamp, now: Timestamp) -> Timestamp {
        let (mut newest, mut end) = (slot, now);
        while let Some(next) = self.after(newest).filter(|next| *next <= end) {
            let middle = later(next, Span::from(since(next, end).as_duration() / 2));
            match self.after(middle).filter(|slot| *slot <= end) {
                Some(slot) => newest = slot,
                None => (newest, end) = (next, middle),
            }
        }
        newest
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.beat {
            Beat::Pause(rest) => write!(f, "{rest} apart"),
            Beat::Every(every) => write!(f, "every {every}"),
        }
    }
}

/// The last multiple of a span since the Unix epoch that is not after an instant.
fn floor(every: Span, at: Timestamp) -> Option<Timestamp> {
    let over = at.as_nanosecond().rem_euclid(i128::from(every.as_nanos().max(1)));
    Timestamp::from_nanosecond(at.as_nanosecond() - over).ok()
}

/// An instant so much later, or the end of time.
fn later(at: Timestamp, span: Span) -> Timestamp {
    at.checked_add(span.as_duration()).unwrap_or(Timestamp::MAX)
}

/// How long it is from one instant to another; zero if that is not later.
fn since(from: Timestamp, to: Timestamp) -> Span {
    Span::from(std::time::Duration::try_from(to.duration_since(from)).unwrap_or_default())
}

fn quarter(span: Span) -> Span {
    Span::from(span.as_duration() / 4)
}

/// A part of a span that a name has for ever, exact to the microsecond.
fn share(name: &str, over: Span) -> Span {
    let [first, second, third, fourth, ..] = *Digest::of(name).as_bytes();
    let luck = u128::from(u32::from_be_bytes([first, second, third, fourth]));
    let micros = (over.as_duration().as_micros() * luck) >> 32;
    Span::from(std::time::Duration::from_micros(micros.try_into().unwrap_or(u64::MAX)))
}

#[cfg(test)]
#[path = "cadence_tests.rs"]
mod tests;
