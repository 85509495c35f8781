use std::{borrow::Borrow, fmt};

use serde::{Deserialize, Serialize};

/// The name of a category or a skill, as the contract of skills has it: words of `a-z`, `0-9` and `_`, parted by dots.
///
/// A skill is called `<category>.<leaf>` where it has to be told from those of other categories.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillName(String);

/// A text that cannot name a skill.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` cannot name a skill; use 1 to 128 of a-z, 0-9 and `_`, in words parted by single dots")]
pub struct BadSkillName(String);

impl SkillName {
    /// The rule as a regular expression.
    pub const PATTERN: &str = r"^[a-z0-9_]+(?:\.[a-z0-9_]+)*$";

    const MAX_BYTES: usize = 128;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for SkillName {
    type Error = BadSkillName;

    fn try_from(text: &str) -> Result<Self, BadSkillName> {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        let fits = text.len() <= Self::MAX_BYTES && text.split('.').all(is_word);
        if fits { Ok(Self(text.to_owned())) } else { Err(BadSkillName(text.to_owned())) }
    }
}

impl TryFrom<String> for SkillName {
    type Error = BadSkillName;

    fn try_from(text: String) -> Result<Self, BadSkillName> {
        Self::try_from(text.as_str())
    }
}

impl From<SkillName> for String {
    fn from(name: SkillName) -> Self {
        name.0
    }
}

impl Borrow<str> for SkillName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_other_agents_gave_a_skill_is_taken_and_no_path_is() {
        for good in ["now", "email.compose", "a_b.c_1", "_", "9", "a.b.c"] {
            assert!(SkillName::try_from(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "A", "a-b", "a/b", "a b", "ä", &"a".repeat(129)] {
            assert!(SkillName::try_from(bad).is_err(), "{bad}");
        }
    }
}
