use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

/// The day that an instant is in, in UTC.
pub fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The first instant of the day after the one that `at` is in, in UTC; the end of time has none.
pub fn next_day(at: Timestamp) -> Timestamp {
    let midnight = day_of(at).checked_add(1.day()).and_then(|day| day.to_zoned(TimeZone::UTC));
    midnight.map_or(Timestamp::MAX, |midnight| midnight.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_at_midnight_utc() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(day_of(at("2026-12-31T23:59:59.999Z")).to_string(), "2026-12-31");
        assert_eq!(next_day(at("2026-12-31T23:59:59.999Z")), at("2027-01-01T00:00:00Z"));
        assert_eq!(next_day(at("2026-12-31T00:00:00Z")), at("2027-01-01T00:00:00Z"));
        assert_eq!(next_day(Timestamp::MAX), Timestamp::MAX);
    }
}
