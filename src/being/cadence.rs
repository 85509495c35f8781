//! When a being's cycles begin.

use std::{fmt, time::Duration};

use crate::vocab::{Cron, Digest, Hours, Span, Timestamp, Zone};

/// The longest span over which beings are spread where nothing else is said.
const WIDEST_SPREAD: Span = Span::from_secs(60);
/// A slot that did not begin this long after its time was missed; with slots close together, a quarter of their distance.
const LATE: Span = Span::from_secs(30);
/// The span over which beings with one cron expression are spread where nothing else is said: a tenth of its shortest distance.
const CRON_SPREAD: Span = Span::from_secs(6);
/// How many closed times are looked through for a slot: about four years of nights.
const LOOKED_THROUGH: u32 = 1_500;
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
/// - A cycle that a process left under way is made up for at once, by one that takes no slot.
/// - No cycle begins outside of the active hours. What would have is no slot, so that it is not missed either.
/// - A being begins at most half the distance to the next slot after its own; how much is a hash of its name, the same for ever. Two
///   beings may meet by chance.
/// - A clock that is set back makes a being wait until slots come that were not taken: at most two hours or two distances of its slots. One
///   that is set back further is believed: the being goes on with the next slot, and notes none until the clock has caught up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cadence {
    beat: Beat,
    /// The hours in which alone a cycle begins.
    active: Option<(Hours, Zone)>,
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
    /// What a cron expression names, by the clocks of a zone.
    Cron(Cron, Zone),
}

/// What a schedule has to know of a being.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// The newest slot that a cycle took.
    pub slot: Option<Timestamp>,
    /// When it was born, if it has not begun any cycle.
    pub newborn: Option<Timestamp>,
    /// The wall time from which on the slots count where none is known to be taken.
    pub since: Timestamp,
    /// How long this process has had it.
    pub up_for: Span,
    /// How long ago its last cycle in this process began.
    pub rested_for: Option<Span>,
    /// Whether an earlier process left its last cycle under way.
    pub was_cut_off: bool,
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

    /// A cycle at each instant that a cron expression names.
    pub const fn cron(cron: Cron, zone: Zone) -> Self {
        Self::of(Beat::Cron(cron, zone))
    }

    const fn of(beat: Beat) -> Self {
        Self { beat, active: None, catches_up: true, offset: Span::ZERO }
    }

    /// The same within these hours alone.
    #[must_use]
    pub fn active(mut self, hours: Hours, zone: Zone) -> Self {
        self.active = Some((hours, zone));
        self
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
            Beat::Cron(..) => CRON_SPREAD,
        });
        self.offset = share(name, over);
        self
    }

    /// The next cycle of a being, given what is known of it and what time it is; `None` is never.
    pub fn next(&self, past: &Past, now: Timestamp) -> Option<Next> {
        let next = self.next_in_order(past, now);
        let is_due = next.as_ref().is_some_and(|next| next.at <= now || next.slot.is_some_and(|slot| slot <= now));
        if past.was_cut_off && past.rested_for.is_none() && !is_due {
            return self.once_open(Next { at: now, slot: None, because: "its last cycle was cut off".to_owned() });
        }
        next
    }

    fn next_in_order(&self, past: &Past, now: Timestamp) -> Option<Next> {
        match self.beat {
            Beat::Pause(rest) => {
                let at = later(now, past.rested_for.map_or(Span::ZERO, |rested| rest.saturating_sub(rested)));
                self.once_open(Next { at, slot: None, because: format!("{rest} after the last cycle began") })
            }
            Beat::Every(every) if past.newborn.is_some() && past.slot.is_none() => {
                self.once_open(Next { at: now, slot: floor(every, now), because: "its first cycle".to_owned() })
            }
            _ => self.next_slot(past, now),
        }
    }

    /// The same cycle, when the hours that are active have come.
    fn once_open(&self, next: Next) -> Option<Next> {
        if self.is_open(next.at) {
            return Some(next);
        }
        let at = self.opens_after(next.at)?;
        Some(Next { at, because: format!("{}; not active before", next.because), ..next })
    }

    fn is_open(&self, at: Timestamp) -> bool {
        self.active.as_ref().is_none_or(|(hours, zone)| hours.includes(at, zone))
    }

    fn opens_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.active.as_ref().and_then(|(hours, zone)| hours.begins_after(at, zone))
    }

    fn next_slot(&self, past: &Past, now: Timestamp) -> Option<Next> {
        let is_ahead = past.slot.is_some_and(|slot| since(now, slot) > SET_BACK.max(self.distance_after(slot)));
        let begun = past.newborn.map_or(past.since, |born| born.min(past.since));
        let base = past.slot.filter(|_| !is_ahead).unwrap_or(begun);
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
            return if next.at > now { Some(next) } else { self.once_open(Next { at: now, ..next }) };
        }
        if !self.catches_up {
            return self.after(now).map(on_time);
        }
        // What was missed while a process was down is spread as well: all its beings come up at once.
        let at = later(now, self.offset.saturating_sub(past.up_for));
        let late = self.once_open(Next { at, because: format!("{self}; {newest} was missed"), ..next });
        // Near the end of the active hours the next slot may come before that.
        let in_time = self.after(newest).map(on_time);
        late.into_iter().chain(in_time).reduce(|late, in_time| if in_time.at <= late.at { in_time } else { late })
    }

    /// Tells whether there is any slot at all; a pause has none, and needs none.
    pub fn has_slots(&self) -> bool {
        matches!(self.beat, Beat::Pause(_)) || self.after(Timestamp::UNIX_EPOCH).is_some()
    }

    /// The first slot after an instant.
    fn after(&self, at: Timestamp) -> Option<Timestamp> {
        let mut slot = self.beat.after(at)?;
        for _ in 0..LOOKED_THROUGH {
            if self.is_open(slot) {
                return Some(slot);
            }
            let just_before = self.opens_after(slot)?.checked_sub(Duration::from_nanos(1)).ok()?;
            slot = self.beat.after(just_before)?;
        }
        None
    }

    /// How far a slot is from the one after it.
    fn distance_after(&self, slot: Timestamp) -> Span {
        self.after(slot).map_or(SET_BACK, |next| since(slot, next))
    }

    /// When the being begins with a slot.
    fn begin_of(&self, slot: Timestamp) -> Timestamp {
        let begin = later(slot, self.offset.min(Span::from(self.distance_after(slot).as_duration() / 2)));
        if self.is_open(begin) { begin } else { slot }
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

impl Beat {
    /// The first slot after an instant, whatever the hour.
    fn after(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Pause(_) => None,
            Self::Every(every) => floor(*every, at)?.checked_add(every.as_duration()).ok(),
            Self::Cron(cron, zone) => cron.after(at, zone),
        }
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.beat {
            Beat::Pause(rest) => write!(f, "{rest} apart")?,
            Beat::Every(every) => write!(f, "every {every}")?,
            Beat::Cron(cron, zone) => write!(f, "cron {cron}, {zone}")?,
        }
        self.active.as_ref().map_or(Ok(()), |(hours, _)| write!(f, ", {hours}"))
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
    Span::from(Duration::try_from(to.duration_since(from)).unwrap_or_default())
}

fn quarter(span: Span) -> Span {
    Span::from(span.as_duration() / 4)
}

/// A part of a span that a name has for ever, exact to the microsecond.
fn share(name: &str, over: Span) -> Span {
    let [first, second, third, fourth, ..] = *Digest::of(name).as_bytes();
    let luck = u128::from(u32::from_be_bytes([first, second, third, fourth]));
    let micros = (over.as_duration().as_micros() * luck) >> 32;
    Span::from(Duration::from_micros(micros.try_into().unwrap_or(u64::MAX)))
}

#[cfg(test)]
#[path = "cadence_tests.rs"]
mod tests;
