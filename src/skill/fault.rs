use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::vocab::{Size, Span};

/// Where in its work a body was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It was parsed, and not run.
    Inspect,
    /// Its module was run.
    Load,
    Predict,
    Act,
    /// Its test was run.
    Test,
}

/// What a body did that ended its run, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{what}", Whereabouts(*phase, *line))]
pub struct Fault {
    pub phase: Phase,
    /// The line of the body, from 1, where that is known.
    pub line: Option<u32>,
    pub what: Wrong,
}

/// The ways in which a body can go wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum Wrong {
    #[error("it imports `{module}`, which is neither of the standard library nor the agent package")]
    Import { module: String },
    #[error("it opens `{}`, which is outside of what it may reach; grant the folder, or keep to a configured one", path.display())]
    File { path: PathBuf },
    #[error("it connects where it may not: {peer}; declare the host, or leave the network alone")]
    Network { peer: String },
    #[error("it starts a process or native code, which no skill may: {what}")]
    Process { what: String },
    #[error("it used more than {limit} of time on a core")]
    Cpu { limit: Span },
    #[error("it wanted more than {limit} of memory")]
    Memory { limit: Size },
    #[error("it took longer than {limit}")]
    Wall { limit: Span },
    #[error("it writes a file of more than {limit}")]
    FileSize { limit: Size },
    #[error("it wants to decide more often than its cost budget of {budget} allows")]
    Budget { budget: f64 },
    #[error("{text}")]
    Functions { text: String },
    #[error("{text}")]
    Type { text: String },
    #[error("it hands back decision `{id}`, which the engine never made")]
    Mocked { id: String },
    #[error("it raised {text}")]
    Raised { text: String },
    #[error("it ended its own process, without a result: {status}")]
    Left { status: String },
    #[error("its test failed: {text}")]
    Test { text: String },
    #[error("its result is too long: {text}; no more than 1 MiB is taken")]
    TooLong { text: String },
    #[error("it wrote to the pipe of its results, which is not its own: {text}")]
    Garbled { text: String },
}

impl Fault {
    /// The finding's name, for programs.
    pub const fn code(&self) -> &'static str {
        match self.what {
            Wrong::Import { .. } => "import",
            Wrong::File { .. } => "file",
            Wrong::Network { .. } => "network",
            Wrong::Process { .. } => "process",
            Wrong::Cpu { .. } => "cpu",
            Wrong::Memory { .. } => "memory",
            Wrong::Wall { .. } => "wall",
            Wrong::FileSize { .. } => "file_size",
            Wrong::Budget { .. } => "budget",
            Wrong::Functions { .. } => "functions",
            Wrong::Type { .. } => "type",
            Wrong::Mocked { .. } => "mocked",
            Wrong::Raised { .. } => "raised",
            Wrong::Left { .. } => "left",
            Wrong::Test { .. } => "test",
            Wrong::TooLong { .. } => "too_long",
            Wrong::Garbled { .. } => "garbled",
        }
    }
}

struct Whereabouts(Phase, Option<u32>);

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.0 {
            Phase::Inspect => "while it is parsed",
            Phase::Load => "while it is imported",
            Phase::Predict => "in `predict`",
            Phase::Act => "in `act`",
            Phase::Test => "in its test",
        };
        match self.1 {
            Some(line) => write!(f, "line {line}, {phase}: "),
            None => write!(f, "{phase}: "),
        }
    }
}
