use std::{io, path::PathBuf};

use crate::process::SpawnError;

/// Why a branch cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(in crate::reconcile) enum FetchError {
    #[error("cannot start `git`")]
    NotStarted(#[from] SpawnError),
    #[error("there is no program `git` on the PATH of the daemon; install it")]
    NoGit,
    #[error("`git {verb}` took longer than {seconds} s")]
    Late { verb: String, seconds: u64 },
    #[error("`git {verb}` failed: {words}")]
    Failed { verb: String, words: String },
    #[error("{git} has no branch `{branch}`")]
    NoBranch { git: String, branch: String },
    #[error("commit {commit} has no folder `{path}`")]
    NoFolder { commit: String, path: String },
    #[error("commit {commit} is not signed by anyone in {}: {how}", signers.display())]
    Unsigned { commit: String, signers: PathBuf, how: &'static str },
    #[error(
        "commit {commit} does not descend from {before}: the history was rewritten; `follow_rewrites = true` would let it pass"
    )]
    Rewritten { commit: String, before: String },
    #[error("{what}; a source has at most {most}")]
    TooLarge { what: String, most: String },
    #[error("commit {commit} has files that cannot be read: {problems}")]
    Unreadable { commit: String, problems: String },
    #[error("cannot use {}", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl FetchError {
    /// One word for programs.
    pub(in crate::reconcile) const fn reason(&self) -> &'static str {
        match self {
            Self::NotStarted(_) | Self::NoGit => "NoGit",
            Self::Late { .. } => "FetchTimedOut",
            Self::Failed { .. } => "FetchFailed",
            Self::NoBranch { .. } => "NoBranch",
            Self::NoFolder { .. } => "NoFolder",
            Self::Unsigned { .. } => "Unverified",
            Self::Rewritten { .. } => "HistoryRewritten",
            Self::TooLarge { .. } => "TooLarge",
            Self::Unreadable { .. } => "Invalid",
            Self::Unusable { .. } => "HomeUnusable",
        }
    }

    /// Tells whether only people can help; anything else is tried again after a back-off.
    pub(in crate::reconcile) const fn waits_for_people(&self) -> bool {
        match self {
            Self::NotStarted(_) | Self::Late { .. } | Self::Failed { .. } | Self::Unusable { .. } => false,
            Self::NoGit
            | Self::NoBranch { .. }
            | Self::NoFolder { .. }
            | Self::Unsigned { .. }
            | Self::Rewritten { .. }
            | Self::TooLarge { .. }
            | Self::Unreadable { .. } => true,
        }
    }
}
