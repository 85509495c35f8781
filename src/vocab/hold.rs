use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who asks: the user of the process at the other end of the daemon's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    pub uid: u32,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}", self.uid)
    }
}

/// Why an operator does something, in their words: one line of 1–512 bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reason(String);

/// A text that is no reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a reason is one line of 1 to {} bytes without control characters", Reason::MAX_BYTES)]
pub struct BadReason;

impl Reason {
    const MAX_BYTES: usize = 512;
}

impl FromStr for Reason {
    type Err = BadReason;

    fn from_str(text: &str) -> Result<Self, BadReason> {
        let text = text.trim();
        let fits = (1..=Self::MAX_BYTES).contains(&text.len()) && !text.contains(char::is_control);
        if fits { Ok(Self(text.to_owned())) } else { Err(BadReason) }
    }
}

impl TryFrom<String> for Reason {
    type Error = BadReason;

    fn try_from(text: String) -> Result<Self, BadReason> {
        text.parse()
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator holds until they let it go: who did so, when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    pub by: Operator,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Reason>,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {} since {}", self.by, self.at.strftime("%Y-%m-%d %H:%M:%SZ"))?;
        self.because.iter().try_for_each(|reason| write!(f, " because {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_says_who_when_and_why_on_one_line() {
        let at = "2026-12-03T05:40:28Z".parse().unwrap();
        let hold = Hold { by: Operator { uid: 1000 }, at, because: "  it spends too much ".parse().ok() };
        assert_eq!(hold.to_string(), "by uid 1000 since 2026-12-03 05:40:28Z because it spends too much");
        let json = serde_json::to_string(&hold).unwrap();
        assert_eq!(serde_json::from_str::<Hold>(&json).unwrap(), hold);
        for bad in ["", "  ", "two\nlines", "a\u{1b}[31m", &"x".repeat(513)] {
            assert_eq!(bad.parse::<Reason>(), Err(BadReason), "{bad:?}");
        }
    }
}
