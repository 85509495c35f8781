use std::{fmt, str::FromStr};

use jiff::{Timestamp, ToSpan as _, civil::DateTime};
use serde::{Deserialize, Serialize};

use super::Zone;

/// A part of each day, by the clock, written `"07:00-23:00"`; one that begins later than it ends goes over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hours {
    /// Minutes of the day; the last is not part of it.
    from: i16,
    to: i16,
}

/// A text that is not a part of a day.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a part of the day; write \"07:00-23:00\", or \"22:00-06:00\" for one that goes over midnight")]
pub struct BadHours(String);

const DAY: i16 = 24 * 60;
/// Days that are looked through for the next opening: more than any clock skips.
const LOOKED_THROUGH: i32 = 4;

impl Hours {
    /// Tells whether an instant lies in it, by the clocks of a zone.
    pub fn includes(&self, at: Timestamp, zone: &Zone) -> bool {
        let shown = zone.civil(at);
        let minute = i16::from(shown.hour()) * 60 + i16::from(shown.minute());
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }

    /// The first instant after `at` at which it begins, by the clocks of a zone.
    pub fn begins_after(&self, at: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let today = zone.civil(at).date();
        let begin = |days: i32| -> Option<DateTime> {
            let day = today.checked_add(days.days()).ok()?;
            Some(day.at(i8::try_from(self.from / 60).ok()?, i8::try_from(self.from % 60).ok()?, 0, 0))
        };
        let begins = (0..LOOKED_THROUGH).filter_map(begin).flat_map(|shown| [zone.first(shown), zone.last(shown)]);
        begins.flatten().filter(|begin| *begin > at && self.includes(*begin, zone)).min()
    }
}

impl FromStr for Hours {
    type Err = BadHours;

    fn from_str(text: &str) -> Result<Self, BadHours> {
        let minutes = |time: &str| {
            let (hour, minute) = time.trim().split_once(':')?;
            let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            let (hour, minute): (i16, i16) =
                (digits(hour) && digits(minute)).then(|| Some((hour.parse().ok()?, minute.parse().ok()?)))??;
            (minute < 60).then_some(hour * 60 + minute).filter(|minutes| *minutes <= DAY)
        };
        let hours = text.split_once('-').and_then(|(from, to)| Some(Self { from: minutes(from)?, to: minutes(to)? }));
        hours.filter(|hours| hours.from < DAY && hours.from != hours.to).ok_or_else(|| BadHours(text.to_owned()))
    }
}

impl TryFrom<String> for Hours {
    type Error = BadHours;

    fn try_from(text: String) -> Result<Self, BadHours> {
        text.parse()
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> Self {
        hours.to_string()
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_part_of_the_day_reads_back_as_it_was_written_and_knows_its_ends() {
        for text in ["07:00-23:00", "22:30-06:00", "00:00-24:00", "18:00-00:00"] {
            assert_eq!(text.parse::<Hours>().unwrap().to_string(), text);
        }
        for text in ["", "7-23", "07:00", "07:00-07:00", "24:00-07:00", "07:60-08:00", "07:00-24:01", "+7:00-08:00"] {
            assert!(text.parse::<Hours>().is_err(), "{text}");
        }
        let (day, night, utc): (Hours, Hours, _) =
            ("07:00-23:00".parse().unwrap(), "23:00-07:00".parse().unwrap(), Zone::default());
        for (time, is_day) in
            [("06:59:59.9", false), ("07:00:00", true), ("22:59:59.9", true), ("23:00:00", false), ("00:00:00", false)]
        {
            let at = at(&format!("2026-12-03T{time}Z"));
            assert_eq!((day.includes(at, &utc), night.includes(at, &utc)), (is_day, !is_day), "{time}");
        }
    }

    #[test]
    fn it_begins_when_the_clocks_of_its_zone_say_so() {
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        let begins = |hours: &str, from: &str| hours.parse::<Hours>().unwrap().begins_after(at(from), &berlin).unwrap().to_string();
        assert_eq!(begins("07:00-23:00", "2026-12-03T06:00:00Z"), "2026-12-04T06:00:00Z");
        assert_eq!(begins("07:00-23:00", "2026-07-03T04:59:59Z"), "2026-07-03T05:00:00Z", "in summer");
        assert_eq!(begins("02:30-05:00", "2026-03-29T00:00:00Z"), "2026-03-29T01:00:00Z", "clocks skip its beginning");
        assert_eq!(begins("02:15-02:45", "2026-03-29T00:00:00Z"), "2026-03-30T00:15:00Z", "clocks skip it");
        assert_eq!(begins("02:30-05:00", "2026-10-25T01:10:00Z"), "2026-10-25T01:30:00Z", "clocks show its beginning twice");
    }
}
