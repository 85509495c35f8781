use std::{fmt, str::FromStr, time::Duration};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// A span of time, written `"5s"`, `"1m30s"`, `"250ms"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(Duration);

/// A text that is not a span of time.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a span of time; write \"5s\", \"1m30s\" or \"250ms\"")]
pub struct BadSpan(String);

impl Span {
    /// No time.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// A span of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The span in nanoseconds, capped at about 584 years.
    pub fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The span in whole milliseconds.
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// The span `factor` times over, capped.
    #[must_use]
    pub const fn saturating_mul(self, factor: u32) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// What is left of the span without another; zero if that is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The span as the standard library has it.
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan(text.to_owned());
        let signed: SignedDuration = text.parse().map_err(|_| bad())?;
        Duration::try_from(signed).map(Self).map_err(|_| bad())
    }
}

impl TryFrom<String> for Span {
    type Error = BadSpan;

    fn try_from(text: String) -> Result<Self, BadSpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(signed) = SignedDuration::try_from(self.0) else {
            return write!(f, "{}s", self.0.as_secs());
        };
        write!(f, "{signed:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_back_as_it_was_written() {
        for (text, seconds) in [("5s", 5), ("1m30s", 90), ("2h", 7_200)] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span, Span::from_secs(seconds));
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
        for text in ["", "5", "-5s", "soon"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
