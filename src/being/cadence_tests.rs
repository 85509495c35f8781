use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::*;

#[path = "cadence_town_tests.rs"]
mod town;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn utc(text: &str) -> Timestamp {
    format!("2026-12-03T{text}Z").parse().unwrap()
}

fn secs(seconds: i64) -> Span {
    Span::from_secs(u64::try_from(seconds).unwrap())
}

const HOUR: i64 = 3_600;

/// A schedule whose being begins `offset` seconds after its slots.
fn every(seconds: i64, offset: i64) -> Cadence {
    Cadence { offset: secs(offset), ..Cadence::every(secs(seconds)) }
}

/// A being that lives since `since` and took a slot, in a process that has long been up.
fn past(slot: Option<Timestamp>, since: Timestamp) -> Past {
    Past { slot, newborn: None, since, up_for: secs(HOUR), rested_for: None, was_cut_off: false }
}

fn told(cadence: &Cadence, past: &Past, now: &str) -> (String, Option<String>, String) {
    let next = cadence.next(past, utc(now)).unwrap();
    let time = |at: Timestamp| at.strftime("%H:%M:%S").to_string();
    (time(next.at), next.slot.map(time), next.because)
}

#[test]
fn a_pause_follows_the_cycle_before_and_what_is_anchored_stands_on_the_wall_clock() {
    let resting = Past { rested_for: Some(secs(2)), ..past(None, utc("10:00:00")) };
    assert_eq!(
        told(&Cadence::pause(secs(5)), &resting, "10:00:02"),
        ("10:00:05".into(), None, "5s after the last cycle began".into())
    );
    let anchored = told(&Cadence::every(secs(10)), &resting, "10:00:02");
    assert_eq!(anchored, ("10:00:10".into(), Some("10:00:10".into()), "every 10s".into()));
}

#[test]
fn every_two_hours_is_at_even_hours() {
    let cadence = every(2 * HOUR, 7);
    let slot = Some(utc("10:00:00"));
    for now in ["10:00:30", "11:59:59", "12:00:06"] {
        let next = told(&cadence, &past(slot, utc("10:00:00")), now);
        assert_eq!(next, ("12:00:07".into(), Some("12:00:00".into()), "every 2h".into()), "{now}");
    }
    assert_eq!(cadence.next(&past(slot, utc("10:00:00")), utc("12:00:07")).map(|next| next.at), Some(utc("12:00:07")), "it is due");
}

#[test]
fn a_newborn_begins_at_once_and_again_at_the_next_slot() {
    let newborn = Past { newborn: Some(utc("09:30:00")), ..past(None, utc("09:30:00")) };
    let first = told(&every(2 * HOUR, 7), &newborn, "09:30:00");
    assert_eq!(first, ("09:30:00".into(), Some("08:00:00".into()), "its first cycle".into()));
}

#[test]
fn a_cycle_that_was_cut_off_is_made_up_for_at_once_and_takes_no_slot_from_anyone() {
    let cut = |slot: &str| Past { was_cut_off: true, ..past(Some(utc(slot)), utc("09:30:00")) };
    let on = told(&every(2 * HOUR, 7), &cut("08:00:00"), "09:30:00");
    assert_eq!(on, ("09:30:00".into(), None, "its last cycle was cut off".into()));
    let missed = told(&every(HOUR, 7), &cut("07:00:00"), "09:30:00");
    assert_eq!(missed.1, Some("09:00:00".into()), "what was missed makes up for it: {missed:?}");
    let lived = Past { rested_for: Some(secs(1)), ..cut("08:00:00") };
    assert_eq!(told(&every(2 * HOUR, 7), &lived, "09:30:00").1, Some("10:00:00".into()), "once");
}

#[test]
fn what_was_missed_runs_once_or_not_at_all() {
    let (cadence, slept) = (every(HOUR, 20), Past { up_for: secs(5), ..past(Some(utc("02:00:00")), utc("09:30:00")) });
    let once = told(&cadence, &slept, "09:30:05");
    let because = "every 1h; 2026-12-03T09:00:00Z was missed".into();
    assert_eq!(once, ("09:30:20".into(), Some("09:00:00".into()), because), "spread over the start as over a slot");
    let skipped = told(&cadence.clone().skipping_missed(), &slept, "09:30:05");
    assert_eq!(skipped, ("10:00:20".into(), Some("10:00:00".into()), "every 1h".into()));
    let late = told(&cadence.skipping_missed(), &slept, "09:00:45");
    assert_eq!(late.1, Some("09:00:00".into()), "a moment late is not missed");
}

#[test]
fn a_clock_that_is_set_back_neither_runs_a_slot_again_nor_stops_the_being() {
    let cadence = every(600, 0);
    let ahead = past(Some(utc("10:00:00")), utc("09:01:00"));
    let waits = told(&cadence, &ahead, "09:01:00");
    let because = "every 10m; the clock was set back, and earlier ones were taken".into();
    assert_eq!(waits, ("10:10:00".into(), Some("10:10:00".into()), because));
    let far = past(Some(utc("23:00:00")), utc("09:01:00"));
    assert_eq!(told(&cadence, &far, "09:05:00"), ("09:10:00".into(), None, "every 10m".into()), "it goes on, and notes no slot");
}

fn cron(text: &str, zone: &str) -> Cadence {
    Cadence::cron(text.parse().unwrap(), zone.parse().unwrap())
}

#[test]
fn a_cron_expression_has_slots_by_the_clocks_of_its_zone() {
    let nine = cron("0 9 * * 1-5", "Europe/Berlin");
    let taken = past(Some(utc("08:00:00")), utc("08:00:00"));
    let friday = "2026-12-04T08:00:00Z".parse().unwrap();
    let next = nine.next(&taken, utc("12:00:00")).unwrap();
    assert_eq!((next.at, next.slot, next.because.as_str()), (friday, Some(friday), "cron 0 9 * * 1-5, Europe/Berlin"));
    let monday = "2026-12-07T13:00:00Z".parse().unwrap();
    let next = nine.next(&past(Some(friday), friday), monday).unwrap();
    assert_eq!(next.slot, Some("2026-12-07T08:00:00Z".parse().unwrap()), "a Monday that was missed is made up for");
    assert_eq!((next.at, next.because.as_str()), (monday, "cron 0 9 * * 1-5, Europe/Berlin; 2026-12-07T08:00:00Z was missed"));
}

#[test]
fn no_cycle_begins_at_night_and_none_of_the_night_is_missed() {
    let day = every(HOUR, 20).active("07:00-23:00".parse().unwrap(), Zone::default());
    let late = told(&day, &past(Some(utc("22:00:00")), utc("22:00:00")), "23:30:00");
    assert_eq!(late, ("07:00:20".into(), Some("07:00:00".into()), "every 1h, 07:00-23:00".into()));
    let owed = told(&day, &past(Some(utc("20:00:00")), utc("23:30:00")), "23:30:00");
    let because = "every 1h, 07:00-23:00; 2026-12-03T22:00:00Z was missed; not active before".into();
    assert_eq!(owed, ("07:00:00".into(), Some("22:00:00".into()), because), "what was missed by day waits for the day");
    let pause = Cadence::pause(secs(5)).active("07:00-23:00".parse().unwrap(), Zone::default());
    assert_eq!(told(&pause, &past(None, utc("03:00:00")), "03:00:00").0, "07:00:00");
    let newborn = Past { newborn: Some(utc("03:00:00")), ..past(None, utc("03:00:00")) };
    assert_eq!(told(&day, &newborn, "03:00:00").0, "07:00:00", "not even the first");
    let edge = every(HOUR, 1_200).active("07:00-22:10".parse().unwrap(), Zone::default());
    assert_eq!(told(&edge, &past(Some(utc("21:00:00")), utc("21:00:00")), "21:50:00").0, "22:00:00", "not spread out of its hours");
    assert!(!every(24 * HOUR, 0).active("07:00-23:00".parse().unwrap(), Zone::default()).has_slots());
}

#[test]
fn a_newborn_with_a_cron_expression_waits_for_its_time_however_often_its_process_starts() {
    let nine = cron("0 9 * * *", "UTC");
    let newborn = |since: &str| Past { newborn: Some(utc("08:00:00")), ..past(None, utc(since)) };
    assert_eq!(nine.next(&newborn("08:30:00"), utc("08:30:00")).unwrap().slot, Some(utc("09:00:00")));
    let missed = nine.next(&newborn("10:00:00"), utc("10:00:00")).unwrap();
    assert_eq!((missed.slot, missed.at), (Some(utc("09:00:00")), utc("10:00:00")), "it lived at nine, and was not up");
}

#[test]
fn a_daily_slot_is_taken_once_on_each_day_of_a_year_with_its_changes_of_clocks() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let cadence = cron("30 2 * * *", zone).spread("ada", None);
        let (mut slot, mut days, zone) = (Some(utc("00:00:00")), BTreeSet::new(), zone.parse::<Zone>().unwrap());
        let mut now = utc("00:00:00");
        for _ in 0..365 {
            let next = cadence.next(&past(slot, now), now).unwrap();
            (now, slot) = (later(next.at, secs(1)), next.slot);
            assert!(days.insert(zone.civil(next.slot.unwrap()).date()), "{slot:?} is of a day that had its cycle");
        }
        let (first, last) = (days.first().unwrap(), days.last().unwrap());
        assert_eq!(last.duration_since(*first).as_hours() / 24 + 1, 365, "no day is left out");
    }
}

#[test]
fn the_longest_spans_and_the_ends_of_time_are_no_trouble() {
    let year = Cadence::every(secs(366 * 24 * HOUR)).spread("ada", Some(secs(366 * 24 * HOUR)));
    for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, utc("00:00:00"), Timestamp::MAX] {
        for slot in [None, Some(Timestamp::MIN), Some(Timestamp::MAX)] {
            let next = year.next(&past(slot, now), now);
            assert!(next.is_none_or(|next| next.slot.is_none_or(|taken| Some(taken) > slot)), "{now} {slot:?}");
        }
    }
}

#[test]
fn beings_with_one_cadence_are_spread_and_each_keeps_its_place() {
    let names: Vec<String> = (0..15).map(|n| format!("ada-{n}")).collect();
    let offset = |name: &String| Cadence::every(secs(2 * HOUR)).spread(name, None).offset;
    let offsets: BTreeSet<Span> = names.iter().map(offset).collect();
    assert_eq!(offsets.len(), 15, "no two at once");
    assert!(offsets.iter().all(|offset| *offset < WIDEST_SPREAD));
    assert!(offsets.iter().filter(|offset| **offset < secs(30)).count() >= 4, "{offsets:?}");
    assert!(offsets.iter().filter(|offset| **offset >= secs(30)).count() >= 4, "{offsets:?}");
    assert_eq!(offset(&names[3]), Span::from(Duration::from_micros(652_801)), "the same in every process, of every version");
    assert!(Cadence::every(secs(100)).spread("ada-3", None).offset < secs(10), "a tenth");
    assert_eq!(Cadence::pause(secs(5)).spread("ada-3", None).offset, Span::ZERO);
}

/// What happens to a process: it is up for so long, then away for so long, in seconds.
type Days = Vec<(i64, i64)>;

/// The terms of a schedule, in seconds; hours from and to in minutes of the day.
#[derive(Debug, Clone, Copy)]
struct Terms {
    span: i64,
    offset: i64,
    catches_up: bool,
    active: Option<(i64, i64)>,
}

impl Terms {
    fn cadence(&self) -> Cadence {
        let cadence = Cadence { catches_up: self.catches_up, ..every(self.span, self.offset) };
        let time = |minutes: i64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let hours = |(from, to)| format!("{}-{}", time(from), time(to)).parse().unwrap();
        self.active.map_or(cadence.clone(), |active| cadence.clone().active(hours(active), Zone::default()))
    }

    fn is_open(&self, second: i64) -> bool {
        let minute = second / 60 % 1_440;
        self.active.is_none_or(|(from, to)| if from < to { from <= minute && minute < to } else { minute >= from || minute < to })
    }
}

/// The cycles of a life, as begin and slot in seconds, told second by second: slow, and plain.
fn plain(terms: &Terms, days: &Days, busy: &[i64]) -> Vec<(i64, i64)> {
    let Terms { span, offset, catches_up, .. } = *terms;
    let (mut begun, mut now, mut last, mut lasts) = (Vec::new(), 0, 0, busy.iter().cycle());
    for (up, away) in days {
        let (came_up, mut free_from) = (now, now);
        while now < came_up + up {
            let slot = (0..).map(|back| now - now % span - back * span).find(|slot| terms.is_open(*slot) || *slot <= last).unwrap();
            let after = (1..).map(|ahead| slot + ahead * span).find(|slot| terms.is_open(*slot)).unwrap();
            let begin = if terms.is_open(slot + offset) { slot + offset } else { slot };
            let late = now - begin > 30.min((after - slot) / 4);
            let may = if late { catches_up && now >= came_up + offset } else { now >= begin };
            if slot > last && may && now >= free_from && terms.is_open(now) {
                last = slot;
                begun.push((now, slot));
                free_from = now + lasts.next().unwrap();
            }
            now += 1;
        }
        now += away;
    }
    begun
}

/// The same by the schedule, from one wake to the next.
fn scheduled(cadence: &Cadence, days: &Days, busy: &[i64]) -> Vec<(i64, i64)> {
    let (mut begun, mut now, mut slot, mut lasts) = (Vec::new(), 0, Timestamp::UNIX_EPOCH, busy.iter().cycle());
    for (up, away) in days {
        let came_up = now;
        while now < came_up + up {
            let up_for = secs(now - came_up);
            let next = cadence.next(&Past { up_for, ..past(Some(slot), at(came_up)) }, at(now)).unwrap();
            if next.at > at(now) {
                now = next.at.as_second();
                continue;
            }
            slot = next.slot.unwrap();
            begun.push((now, slot.as_second()));
            now += lasts.next().unwrap();
        }
        now = came_up + up + away;
    }
    begun
}

/// What may happen to a being, its process and its clock.
#[derive(Debug, Clone)]
enum Happening {
    Passes(i64),
    Restarts,
    ClockSet(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (1..3 * HOUR).prop_map(Happening::Passes),
        1 => Just(Happening::Restarts),
        1 => (-3 * HOUR..3 * HOUR).prop_map(Happening::ClockSet),
        1 => (-400 * 24 * HOUR..400 * 24 * HOUR).prop_map(Happening::ClockSet),
    ]
}

/// A being that is driven as [`crate::runtime::Driver`] does it, by a clock that may be set.
struct Driven {
    cadence: Cadence,
    wall: Timestamp,
    up_for: Duration,
    since: Timestamp,
    slot: Option<Timestamp>,
    /// Each cycle's begin and slot.
    begun: Vec<(Timestamp, Option<Timestamp>)>,
}

impl Driven {
    fn new(cadence: Cadence) -> Self {
        let wall = utc("00:00:00");
        Self { cadence, wall, up_for: Duration::ZERO, since: wall, slot: Some(wall), begun: Vec::new() }
    }

    fn pass(&mut self, seconds: i64) {
        let mut left = secs(seconds).as_duration();
        loop {
            self.since = self.since.min(self.wall);
            let past = Past { up_for: Span::from(self.up_for), ..past(self.slot, self.since) };
            let next = self.cadence.next(&past, self.wall).unwrap();
            if next.at <= self.wall {
                assert!(next.slot.is_none_or(|slot| Some(slot) > self.slot), "{next:?} after {:?}", self.slot);
                self.slot = self.slot.max(next.slot);
                self.since = self.wall;
                self.begun.push((self.wall, next.slot));
                continue;
            }
            let rest = since(self.wall, next.at).as_duration().min(left);
            self.wall = later(self.wall, Span::from(rest));
            self.up_for += rest;
            left -= rest;
            if left.is_zero() {
                return;
            }
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Passes(seconds) => self.pass(*seconds),
            Happening::Restarts => (self.up_for, self.since) = (Duration::ZERO, self.wall),
            Happening::ClockSet(by) => self.wall = at(self.wall.as_second() + by),
        }
    }
}

#[test]
fn a_slot_that_can_be_taken_in_time_is_not_left_for_one_that_was_missed() {
    let terms = Terms { span: 192, offset: 72, catches_up: true, active: Some((0, 77)) };
    let slept = Past { up_for: secs(8), ..past(Some(at(3_456)), at(4_592)) };
    let next = terms.cadence().next(&slept, at(4_600)).unwrap();
    assert_eq!((next.at, next.slot), (at(4_608), Some(at(4_608))), "what was missed would begin after 01:17, when nothing may");
}

proptest! {
    #[test]
    fn a_schedule_is_what_a_slow_and_plain_one_says(
        span in 10..400_i64, offset in 0..100_i64, catches_up in any::<bool>(),
        active in prop::option::of((0..120_i64, 0..120_i64)),
        days in prop::collection::vec((1..2_000_i64, 0..2_000_i64), 1..6), busy in prop::collection::vec(1..600_i64, 1..5),
    ) {
        let active = active.filter(|(from, to)| from != to && to - from != 1_440).map(|(from, to)| if (to - from).abs() < 10 { (from, from + 10) } else { (from, to) });
        let terms = Terms { span, offset: offset.min(span / 2), catches_up, active };
        let begun = scheduled(&terms.cadence(), &days, &busy);
        prop_assert!(begun.iter().all(|(begin, slot)| terms.is_open(*begin) && terms.is_open(*slot)));
        prop_assert_eq!(begun, plain(&terms, &days, &busy));
    }

    #[test]
    fn no_clock_and_no_restart_runs_a_slot_twice_or_brings_a_burst_or_stops_a_being(
        span in 10..9_000_i64, offset in 0..60_i64, catches_up in any::<bool>(), happenings in prop::collection::vec(happening(), 1..30),
    ) {
        let mut driven = Driven::new(Cadence { catches_up, ..every(span, offset.min(span / 2)) });
        for happening in &happenings {
            let before = driven.begun.len();
            driven.happen(happening);
            let most = if let Happening::Passes(seconds) = happening { seconds / span + 2 } else { 0 };
            prop_assert!(i64::try_from(driven.begun.len() - before).unwrap() <= most, "{happening:?}");
        }
        let taken: Vec<Timestamp> = driven.begun.iter().filter_map(|(_, slot)| *slot).collect();
        prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "{taken:?}");
        for (begin, slot) in driven.begun.iter().filter_map(|(begin, slot)| Some((begin, (*slot)?))) {
            prop_assert!(slot.as_second() % span == 0 && slot <= *begin && since(slot, *begin) <= secs(span + 60), "{slot} at {begin}");
        }
        let before = driven.begun.len();
        driven.pass(2 * HOUR + 3 * span);
        prop_assert!(driven.begun.len() > before, "it goes on");
    }

    #[test]
    fn one_cycle_takes_the_newest_of_what_was_missed(span in 10..9_000_i64, missed in 1..40_000_i64, extra in 0..10_i64) {
        let cadence = every(span, 0);
        let now = at(span * missed + extra);
        prop_assert_eq!(cadence.newest(cadence.after(at(0)).unwrap(), now), at(span * missed));
    }
}
