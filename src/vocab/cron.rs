use std::{fmt, str::FromStr, sync::Arc};

use croner::{
    Cron as Pattern,
    parser::{CronParser, Seconds, Year},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Zone;

/// A row of instants, written as a cron expression of five fields: minute, hour, day of month, month and day of week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    /// Shared by all that are alike.
    pattern: Arc<Pattern>,
    /// Whether it names all hours of the day.
    is_hourly: bool,
}

/// A text that is not a cron expression.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a cron expression: {why}")]
pub struct BadCron {
    text: String,
    why: String,
}

const FIELDS: [&str; 5] = ["minute", "hour", "day of month", "month", "day of week"];
const HOURS_OF_A_DAY: usize = 24;

impl Cron {
    /// The first instant after `at`, by the clocks of a zone; `None` if none ever comes.
    ///
    /// What a clock shows twice counts the first time, and what it skips counts at the instant at which it is set forward, so that nothing
    /// takes place twice and nothing is left out. What names all hours goes by hours as they pass.
    pub fn after(&self, at: Timestamp, zone: &Zone) -> Option<Timestamp> {
        if self.is_hourly {
            let shown = at.to_zoned(zone.as_jiff().clone());
            return self.pattern.find_next_occurrence(&shown, false).ok().map(|next| next.timestamp());
        }
        let mut shown = zone.civil(at);
        loop {
            shown = self.pattern.find_next_occurrence(&shown, false).ok()?;
            let next = zone.first(shown)?;
            if next > at {
                return Some(next);
            }
        }
    }
}

fn parse(text: &str) -> Result<Pattern, String> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let told = |error: String| error.split_once(": ").map_or(error.clone(), |(_, told)| told.trim_end_matches('.').to_owned());
    parser.parse(text).map_err(|error| told(error.to_string()))
}

/// Says which field of an expression is wrong.
fn why(text: &str) -> String {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return format!("it has {} fields and needs five: {}", fields.len(), FIELDS.join(", "));
    }
    let fault = |(at, (field, name)): (usize, (&&str, &str))| {
        let mut alone = ["*"; FIELDS.len()];
        *alone.get_mut(at)? = field;
        parse(&alone.join(" ")).err().map(|told| format!("the {name} `{field}` does not fit: {told}"))
    };
    let faults: Vec<String> = fields.iter().zip(FIELDS).enumerate().filter_map(fault).collect();
    if faults.is_empty() { "it can't be read".to_owned() } else { faults.join("; ") }
}

impl FromStr for Cron {
    type Err = BadCron;

    fn from_str(text: &str) -> Result<Self, BadCron> {
        let bad = |why: String| BadCron { text: text.to_owned(), why };
        let pattern = parse(text).map_err(|_| bad(why(text)))?;
        let is_hourly = pattern.pattern.hours.values().len() == HOURS_OF_A_DAY;
        let cron = Self { text: text.to_owned(), pattern: Arc::new(pattern), is_hourly };
        match cron.after(Timestamp::UNIX_EPOCH, &Zone::default()) {
            Some(_) => Ok(cron),
            None => Err(bad("no such day ever comes".to_owned())),
        }
    }
}

impl TryFrom<String> for Cron {
    type Error = BadCron;

    fn try_from(text: String) -> Result<Self, BadCron> {
        text.parse()
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> Self {
        cron.text
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{ToSpan as _, civil::date};
    use proptest::prelude::*;

    use super::*;

    /// What follows `from`, as clocks of the zone show it, the offset included.
    fn next(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let (cron, zone): (Cron, Zone) = (cron.parse().unwrap(), zone.parse().unwrap());
        let mut at: Timestamp = from.parse().unwrap();
        let mut follow = || {
            at = cron.after(at, &zone).unwrap();
            at.to_zoned(zone.as_jiff().clone()).strftime("%m-%d %H:%M%:z").to_string()
        };
        (0..count).map(|_| follow()).collect()
    }

    #[test]
    fn weekdays_at_nine_are_nine_by_the_clocks_of_the_zone() {
        let told = next("0 9 * * 1-5", "Europe/Berlin", "2026-03-27T08:00:00Z", 2);
        assert_eq!(told, ["03-30 09:00+02:00", "03-31 09:00+02:00"], "over a weekend on which clocks are set forward");
        assert_eq!(next("0 9 * * 1-5", "UTC", "2026-12-03T08:59:59.9Z", 1), ["12-03 09:00+00:00"]);
        assert_eq!(next("59 23 L 12 *", "UTC", "2026-12-03T00:00:00Z", 1), ["12-31 23:59+00:00"]);
    }

    #[test]
    fn what_clocks_skip_takes_place_when_they_are_set_forward() {
        let forward = |cron: &str, count| next(cron, "Europe/Berlin", "2026-03-28T20:00:00Z", count);
        assert_eq!(forward("30 2 * * *", 2), ["03-29 03:00+02:00", "03-30 02:30+02:00"]);
        assert_eq!(forward("0 1-3 * * *", 3), ["03-29 01:00+01:00", "03-29 03:00+02:00", "03-30 01:00+02:00"], "and once");
        assert_eq!(forward("0 */2 * * *", 4), ["03-28 22:00+01:00", "03-29 00:00+01:00", "03-29 03:00+02:00", "03-29 04:00+02:00"]);
        assert_eq!(
            forward("30 * * * *", 7)[4..],
            ["03-29 01:30+01:00", "03-29 03:30+02:00", "03-29 04:30+02:00"],
            "hours as they pass"
        );
    }

    #[test]
    fn what_clocks_show_twice_takes_place_once() {
        let back = |cron: &str, count| next(cron, "Europe/Berlin", "2026-10-24T20:00:00Z", count);
        assert_eq!(back("30 2 * * *", 2), ["10-25 02:30+02:00", "10-26 02:30+01:00"]);
        assert_eq!(back("*/20 2 * * *", 4), ["10-25 02:00+02:00", "10-25 02:20+02:00", "10-25 02:40+02:00", "10-26 02:00+01:00"]);
        assert_eq!(
            back("30 * * * *", 7)[4..],
            ["10-25 02:30+02:00", "10-25 02:30+01:00", "10-25 03:30+01:00"],
            "hours as they pass"
        );
        let within = next("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
        assert_eq!(within, ["10-26 02:30+01:00"], "seen from the hour that is shown again");
    }

    #[test]
    fn a_bad_expression_says_which_field_is_wrong() {
        let told = |text: &str| text.parse::<Cron>().unwrap_err().to_string();
        assert_eq!(
            told("0 9 * *"),
            "`0 9 * *` is not a cron expression: it has 4 fields and needs five: minute, hour, day of month, month, day of week"
        );
        assert!(told("0 25 * * *").contains("the hour `25` does not fit: "), "{}", told("0 25 * * *"));
        assert!(told("x 9 * * fry").contains("the minute `x` does not fit"), "{}", told("x 9 * * fry"));
        assert!(told("0 0 30 2 *").contains("no such day ever comes"));
        for text in ["", "0 0 9 * * 1", "0 9 * * 1-5 Europe/Berlin", "60 * * * *", "* * * * 8"] {
            assert!(text.parse::<Cron>().is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// A row of fixed times, told day by day from the calendar: slow, and plain.
        #[test]
        fn each_time_of_each_day_takes_place_exactly_once(
            minute in 0..60_i8, hours in prop::collection::btree_set(0..24_i8, 1..4), zone in prop_oneof![
                Just("Europe/Berlin"), Just("America/New_York"), Just("Australia/Lord_Howe"), Just("Pacific/Apia"), Just("UTC")
            ],
        ) {
            let list = hours.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let (cron, zone): (Cron, Zone) = (format!("{minute} {list} * * *").parse().unwrap(), zone.parse().unwrap());
            let days = (0..150).map(|day| date(2011, 9, 1) + day.days());
            let times = days.flat_map(|day| hours.iter().map(move |hour| day.at(*hour, minute, 0, 0)));
            let mut plain: Vec<Timestamp> = times.map(|time| {
                // A time that clocks skip is found by going through the minutes until one is shown that lies after it.
                let start = time.to_zoned(zone.as_jiff().clone()).unwrap().timestamp() - 26.hours();
                let mut at = start;
                while zone.civil(at) < time { at += 1.minutes(); }
                at
            }).collect();
            plain.dedup();
            let mut at = plain[0] - 1.seconds();
            let told: Vec<Timestamp> = (0..plain.len()).map(|_| { at = cron.after(at, &zone).unwrap(); at }).collect();
            prop_assert_eq!(told, plain);
        }
    }
}
