use std::{error::Error, fmt};

use crate::vocab::chain;

/// Why a command failed: a class that programs see, a chain of causes and a hint that people see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub class: Class,
    pub what: String,
    /// What to do next.
    pub hint: Option<String>,
}

/// The classes of SPEC §12, each with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Configuration,
    Upstream,
    State,
    Runtime,
    /// What was asked about differs, as the output says: no failure, and nothing more is said.
    Differs,
    /// Whoever read our output had enough: no failure, and nothing is said.
    ReaderGone,
}

/// Words that a message begins with when it already names its class.
const NAMED: [&str; 8] = ["configuration: ", "secret file: ", "brama: ", "mcp: ", "most: ", "state: ", "tool: ", "runtime: "];

impl Failure {
    /// A failure of a class.
    pub(super) fn new(class: Class, what: impl Into<String>) -> Self {
        Self { class, what: what.into(), hint: None }
    }

    /// A failure with the chain of its causes.
    pub(super) fn of(class: Class, error: &dyn Error) -> Self {
        Self::new(class, chain(error))
    }

    /// The same failure with what to do next.
    #[must_use]
    pub(super) fn hinting(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tells whether there is nothing to say beside what was printed.
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.class, Class::Differs | Class::ReaderGone)
    }

    /// The exit code of SPEC §12.
    pub(super) const fn code(&self) -> u8 {
        match self.class {
            Class::Configuration => 2,
            Class::Upstream => 3,
            Class::State => 4,
            Class::Runtime => 5,
            Class::Differs => 1,
            Class::ReaderGone => 0,
        }
    }
}

impl Class {
    const fn word(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Upstream => "upstream",
            Self::State => "state",
            Self::Runtime | Self::Differs | Self::ReaderGone => "runtime",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("singularity: ")?;
        if !NAMED.iter().any(|named| self.what.starts_with(named)) {
            write!(f, "{}: ", self.class.word())?;
        }
        f.write_str(&self.what)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_once_and_the_hint_stands_on_its_own_line() {
        let failure = Failure::new(Class::State, "state: resume requested but no state exists").hinting("leave out --resume");
        assert_eq!(failure.to_string(), "singularity: state: resume requested but no state exists\n  hint: leave out --resume");
        assert_eq!(Failure::new(Class::Configuration, "x").to_string(), "singularity: configuration: x");
        assert_eq!(failure.code(), 4);
    }
}
