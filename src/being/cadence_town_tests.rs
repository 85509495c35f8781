//! Many beings with schedules, on a clock that runs as fast as they live.

use super::*;
use crate::being::{
    AgentState, Being, Completion, Effect, Event, Finish, Input, Limits, Price, Record, Rules, Thought, Usage, simulation, testing,
};

/// Beings of the real machine in one process, on a clock that runs as fast as they live.
struct Town {
    now: Timestamp,
    residents: Vec<Resident>,
}

struct Resident {
    being: Being,
    cadence: Cadence,
    up_since: Timestamp,
    /// How long its cycles take.
    thinks_for: Span,
    /// Its answer under way is there then.
    busy_until: Option<Timestamp>,
    journal: Vec<Record>,
}

impl Town {
    fn new(now: Timestamp, residents: impl IntoIterator<Item = (String, Cadence, Span)>) -> Self {
        let resident = |(name, cadence, thinks_for): (String, Cadence, Span)| {
            let cadence = cadence.spread(&name, None);
            let (being, journal) = (Being::new(testing::state()), Vec::new());
            Resident { being, cadence, up_since: now, thinks_for, busy_until: None, journal }
        };
        Self { now, residents: residents.into_iter().map(resident).collect() }
    }

    fn alike(now: Timestamp, count: usize, cadence: &Cadence) -> Self {
        Self::new(now, (0..count).map(|n| (format!("ada-{n}"), cadence.clone(), secs(20))))
    }

    /// Lives until an instant, from one timer to the next; `hours` pass in a moment.
    fn live_until(&mut self, end: Timestamp) {
        let rules = simulation::rules(2_000, Limits::default());
        while self.now < end {
            let now = self.now;
            let timers = self.residents.iter_mut().map(|resident| resident.step(&rules, now));
            self.now = timers.min().unwrap().min(end).max(now);
        }
    }

    /// Every process dies and starts again.
    fn restart(&mut self) {
        for resident in &mut self.residents {
            resident.being = Being::new(resident.being.state().clone());
            (resident.up_since, resident.busy_until) = (self.now, None);
        }
    }

    fn wakes(&self, of: usize) -> Vec<(String, String)> {
        let time = |at: Timestamp| at.strftime("%H:%M:%S").to_string();
        let wake = |record: &Record| match &record.event {
            Event::CycleStarted { slot, .. } => Some((time(record.at), slot.map(time).unwrap_or_default())),
            _ => None,
        };
        self.residents[of].journal.iter().filter_map(wake).collect()
    }

    fn slots(&self, of: usize) -> Vec<String> {
        self.wakes(of).into_iter().map(|(_, slot)| slot).collect()
    }
}

impl Resident {
    /// Does what is to be done now and tells its next timer.
    fn step(&mut self, rules: &Rules, now: Timestamp) -> Timestamp {
        loop {
            if let Some(until) = self.busy_until {
                if until > now {
                    return until;
                }
                self.busy_until = None;
                let completion = Completion {
                    model: "smol".into(),
                    content: Some("…".into()),
                    tool_calls: Vec::new(),
                    finish: Finish::Stop,
                    usage: Usage::new(1, 1),
                };
                let thought = Thought { completion, price: Price::default(), passed_over: Vec::new() };
                self.tell(rules, Input::Thought { result: Ok(thought), elapsed: Span::ZERO }, now);
                continue;
            }
            let state = self.being.state();
            let newborn = (state.cycle == 0).then_some(state.started_at);
            let past = Past { newborn, up_for: since(self.up_since, now), ..past(state.slot, self.up_since.min(now)) };
            let next = self.cadence.next(&past, now).unwrap();
            if next.at > now {
                return next.at;
            }
            self.tell(rules, Input::Due { slot: next.slot.unwrap() }, now);
        }
    }

    fn tell(&mut self, rules: &Rules, input: Input, now: Timestamp) {
        let ready = self.being.step(rules, input, now);
        let cycle = self.being.state().cycle;
        self.journal.extend(ready.facts.into_iter().map(|event| Record { seq: 1, at: now, cycle, event }));
        self.busy_until = matches!(ready.then, Some(Effect::Think { .. })).then(|| later(now, self.thinks_for));
    }
}

#[test]
fn fifteen_restarts_in_a_morning_leave_every_two_hours_at_the_even_hours() {
    let mut town = Town::alike(utc("06:00:00"), 1, &Cadence::every(secs(2 * HOUR)));
    for restart in 1..=15_i64 {
        town.live_until(at(utc("06:00:00").as_second() + restart * 25 * 60));
        town.restart();
    }
    town.live_until(utc("13:00:00"));
    assert_eq!(town.slots(0), ["06:00:00", "08:00:00", "10:00:00", "12:00:00"]);
    let offset = town.residents[0].cadence.offset;
    let begins: Vec<Timestamp> = ["08:00:00", "10:00:00", "12:00:00"].iter().map(|slot| later(utc(slot), offset)).collect();
    let told: Vec<String> = begins.iter().map(|at| at.strftime("%H:%M:%S").to_string()).collect();
    assert_eq!(town.wakes(0).into_iter().skip(1).map(|(begin, _)| begin).collect::<Vec<_>>(), told, "each on time");
}

#[test]
fn a_restart_in_the_midst_of_a_slot_does_not_take_it_again() {
    let mut town = Town::alike(utc("06:00:00"), 1, &Cadence::every(secs(HOUR)));
    town.live_until(utc("07:01:10"));
    town.restart();
    town.live_until(utc("07:59:00"));
    assert_eq!(town.slots(0), ["06:00:00", "07:00:00"]);
}

#[test]
fn a_slot_that_comes_again_is_not_noted_again() {
    let (rules, slot) = (simulation::rules(2_000, Limits::default()), utc("08:00:00"));
    let mut being = Being::new(AgentState { slot: Some(slot), ..testing::state() });
    let ready = being.step(&rules, Input::Due { slot }, slot);
    assert!(matches!(ready.facts.as_slice(), [Event::CycleStarted { slot: None, .. }]), "{ready:?}");
    assert_eq!(being.state().slot, Some(slot));
}

#[test]
fn eight_beings_that_are_quiet_for_ten_hours_all_wake_on_time() {
    let mut town = Town::alike(utc("01:00:00"), 8, &Cadence::every(secs(12 * HOUR)));
    town.live_until(utc("13:00:00"));
    for of in 0..8 {
        assert_eq!(town.slots(of), ["00:00:00", "12:00:00"], "being {of}");
        let begin =
            town.residents[of].journal.iter().rfind(|record| matches!(record.event, Event::CycleStarted { .. })).unwrap().at;
        assert_eq!(begin, later(utc("12:00:00"), town.residents[of].cadence.offset));
    }
}

#[test]
fn fifteen_beings_with_one_cadence_never_begin_at_once() {
    let mut town = Town::alike(utc("00:59:00"), 15, &Cadence::every(secs(HOUR)));
    town.live_until(utc("05:30:00"));
    let begun = town.residents.iter().flat_map(|resident| &resident.journal).filter(|record| record.at > utc("01:00:00"));
    let begun: Vec<Timestamp> =
        begun.filter(|record| matches!(record.event, Event::CycleStarted { .. })).map(|record| record.at).collect();
    assert_eq!((begun.len(), begun.iter().collect::<BTreeSet<_>>().len()), (15 * 5, 15 * 5));
}

#[test]
fn a_cycle_that_hangs_for_a_day_is_not_noticed_by_the_others() {
    let tenth = Cadence::every(secs(600));
    let day = secs(24 * HOUR);
    let mut town = Town::new(
        utc("00:00:00"),
        [("stuck".into(), tenth.clone(), day), ("ada".into(), tenth.clone(), secs(5)), ("eve".into(), tenth, secs(5))],
    );
    town.live_until(later(utc("00:00:00"), secs(25 * HOUR)));
    assert_eq!((town.slots(1).len(), town.slots(2).len()), (25 * 6, 25 * 6));
    assert_eq!(town.slots(0), ["00:00:00", "00:00:00"], "a day later it makes up for what it missed once, with the newest");
}

#[test]
fn a_clock_that_is_set_back_an_hour_runs_no_being_again() {
    let mut town = Town::alike(utc("06:00:00"), 4, &Cadence::every(secs(600)));
    town.live_until(utc("09:05:00"));
    let before = town.slots(0).len();
    town.now = utc("08:05:00");
    town.live_until(utc("09:09:00"));
    assert!((0..4).all(|of| town.slots(of).len() == before), "what was taken is not taken again");
    town.live_until(utc("09:35:00"));
    for of in 0..4 {
        assert_eq!(town.slots(of)[before..], ["09:10:00", "09:20:00", "09:30:00"], "and it goes on");
    }
}
