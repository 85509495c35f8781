use std::{fmt, str::FromStr, sync::LazyLock};

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};
use serde::{Deserialize, Serialize};

/// A time zone of the IANA database, written `"Europe/Berlin"`. The database is part of the program, so that a zone is the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

/// A text that is not a time zone.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a time zone; write \"UTC\" or \"Europe/Berlin\"")]
pub struct BadZone(String);

static KNOWN: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

impl Zone {
    /// Every zone that there is.
    pub fn names() -> Vec<String> {
        KNOWN.available().map(|name| name.as_str().to_owned()).collect()
    }

    /// What a clock of the zone shows.
    pub fn civil(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at)
    }

    /// The first instant at which a clock of the zone shows this; where it is set forward past it, the instant at which it is.
    pub(super) fn first(&self, civil: DateTime) -> Option<Timestamp> {
        let shown = self.0.to_ambiguous_timestamp(civil);
        match shown.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                let before = after.to_timestamp(civil).ok()?;
                self.0.following(before).next().map(|change| change.timestamp())
            }
            _ => shown.earlier().ok(),
        }
    }

    /// The last instant at which a clock of the zone shows this: another one than the first only where it is set back.
    pub(super) fn last(&self, civil: DateTime) -> Option<Timestamp> {
        self.0.to_ambiguous_timestamp(civil).later().ok()
    }

    pub(super) const fn as_jiff(&self) -> &TimeZone {
        &self.0
    }
}

impl Default for Zone {
    /// UTC.
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    type Err = BadZone;

    fn from_str(text: &str) -> Result<Self, BadZone> {
        if text == "UTC" {
            return Ok(Self::default());
        }
        KNOWN.get(text).map(Self).map_err(|_| BadZone(text.to_owned()))
    }
}

impl TryFrom<String> for Zone {
    type Error = BadZone;

    fn try_from(text: String) -> Result<Self, BadZone> {
        text.parse()
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.to_string()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_reads_back_as_it_was_written() {
        for text in ["UTC", "Europe/Berlin", "America/St_Johns"] {
            assert_eq!(text.parse::<Zone>().unwrap().to_string(), text);
        }
        assert_eq!("europe/berlin".parse::<Zone>().unwrap().to_string(), "Europe/Berlin");
        for text in ["", "Berlin", "+02:00", "../Berlin"] {
            assert!(text.parse::<Zone>().is_err(), "{text}");
        }
        assert!(Zone::names().len() > 400);
    }
}
