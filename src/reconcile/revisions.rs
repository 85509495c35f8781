//! What was declared before: each change of what is in force is a revision, kept in the home, so that it can be compared and taken back.

use std::{collections::BTreeMap, fmt, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::AppliedSet;
use crate::{
    manifest::Fleet,
    store::{Home, KeepError, read_json, write_json},
    vocab::{Address, Digest, Name, Operator, Timestamp},
};

/// What was declared from one time on, and how that came to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    pub head: RevisionHead,
    /// What was applied.
    pub sets: BTreeMap<Name, AppliedSet>,
    /// What that, and the served files, declared.
    pub fleet: Fleet,
}

/// A revision without what it declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionHead {
    /// Counts from 1 and is never used twice.
    pub number: u64,
    pub at: Timestamp,
    /// Who asked for it; nobody where served files changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Operator>,
    pub cause: Cause,
    /// What came of it at once, in words.
    pub outcome: String,
    /// Of the applied sets and of what is declared.
    pub digest: Digest,
}

/// What made a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Cause {
    /// A set was applied.
    Applied { set: Name, origin: String },
    /// An object of a set was deleted.
    Deleted { address: Address },
    /// A set was deleted.
    SetDeleted { set: Name },
    /// An older revision was taken back.
    RolledBack { to: u64 },
    /// A commit of a Git source came into force.
    Fetched { source: Name, commit: String },
    /// Served files changed, or were other than before when the daemon began.
    Served,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied { set, origin } => write!(f, "apply of set {set} from {origin}"),
            Self::Deleted { address } => write!(f, "delete of {address}"),
            Self::SetDeleted { set } => write!(f, "delete of set {set}"),
            Self::RolledBack { to } => write!(f, "rollback to {to}"),
            Self::Fetched { source, commit } => write!(f, "commit {commit} of source/{source}"),
            Self::Served => f.write_str("served files"),
        }
    }
}

/// Reads no more of a revision than how it came to be.
#[derive(Deserialize)]
struct HeadOnly {
    head: RevisionHead,
}

/// The revisions of a home, a file each.
#[derive(Debug, Clone)]
pub struct Revisions {
    folder: PathBuf,
}

/// Revisions that are kept; with one more the oldest goes.
const MAX_REVISIONS: usize = 100;

impl Revisions {
    /// Those of a home.
    pub fn of(home: &Home) -> Self {
        Self { folder: home.revisions() }
    }

    /// The numbers of those that are kept, oldest first.
    fn numbers(&self) -> Result<Vec<u64>, KeepError> {
        let unreadable = |source| KeepError::Unreadable { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// How those that are kept came to be, oldest first.
    pub fn heads(&self) -> Result<Vec<RevisionHead>, KeepError> {
        let head = |number| Ok(read_json::<HeadOnly>(&self.path(number))?.map(|revision| revision.head));
        self.numbers()?.into_iter().filter_map(|number| head(number).transpose()).collect()
    }

    /// How the newest came to be.
    pub(super) fn newest(&self) -> Result<Option<RevisionHead>, KeepError> {
        let Some(number) = self.numbers()?.last().copied() else { return Ok(None) };
        Ok(read_json::<HeadOnly>(&self.path(number))?.map(|revision| revision.head))
    }

    /// One of them; `None` where it never was or is not kept any more.
    pub fn read(&self, number: u64) -> Result<Option<Revision>, KeepError> {
        read_json(&self.path(number))
    }

    /// Keeps one more, and lets the oldest go where there are too many.
    pub(super) fn put(&self, revision: &Revision) -> Result<(), KeepError> {
        write_json(&self.path(revision.head.number), revision)?;
        let numbers = self.numbers()?;
        for number in numbers.iter().take(numbers.len().saturating_sub(MAX_REVISIONS)) {
            let path = self.path(*number);
            fs::remove_file(&path).map_err(|source| KeepError::Unwritable { path, source })?;
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_bounded_in_count_and_their_numbers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let revisions = Revisions { folder: dir.path().join("revisions") };
        assert_eq!(revisions.newest().unwrap(), None);
        let count = u64::try_from(MAX_REVISIONS).unwrap() + 5;
        for number in 1..=count {
            let head = RevisionHead {
                number,
                at: Timestamp::UNIX_EPOCH,
                by: Some(Operator { uid: 7 }),
                cause: Cause::RolledBack { to: number },
                outcome: "nothing changes".into(),
                digest: Digest::of("x"),
            };
            revisions.put(&Revision { head, sets: BTreeMap::new(), fleet: Fleet::default() }).unwrap();
        }
        let heads = revisions.heads().unwrap();
        assert_eq!((heads.len(), heads[0].number, heads.last().unwrap().number), (MAX_REVISIONS, 6, count));
        assert_eq!(revisions.newest().unwrap().as_ref(), heads.last());
        assert_eq!(revisions.read(3).unwrap(), None);
        assert_eq!(revisions.read(count).unwrap().map(|revision| revision.head), heads.last().cloned());
    }
}
