use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use super::{access::AccessError, line::Flaw};
use crate::vocab::Digest;

/// Why a being's state cannot be used or kept. Every variant is of the exit class *state* (SPEC §3, exit 4).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("state: resume requested but no state exists")]
    NothingToResume,
    #[error("state: state already exists at {}; use --resume or a new directory", path.display())]
    AlreadyExists { path: PathBuf },
    #[error("state: resume identity does not match configuration")]
    OtherIdentity {
        /// The fields that differ, for the hint.
        fields: Vec<String>,
    },
    #[error("state: unsupported state schema {version}")]
    UnsupportedSchema { path: PathBuf, version: String },
    #[error(
        "state: {} is not understood at byte {offset}; put a good copy back, or have it made anew from the journal with `singularity state repair`",
        path.display()
    )]
    Unparsable {
        path: PathBuf,
        offset: u64,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "state: {} was changed by hand: its SHA-256 is {found}, {}; put the file back as it was, accept it with `singularity state adopt`, \
         or have it made anew from the journal with `singularity state repair`",
        path.display(), newest(expected.as_ref())
    )]
    Edited { path: PathBuf, found: Digest, expected: Option<Digest> },
    #[error("state: {} is not what the journal's records make; move it away and it is made anew from them", path.display())]
    Diverged { path: PathBuf },
    #[error(
        "state: {} has no journal beside it; put {} back, or move the picture away to begin a new life",
        picture.display(), journal.display()
    )]
    NoJournal { picture: PathBuf, journal: PathBuf },
    #[error(
        "state: {} is damaged at byte {offset}, where record {seq} should be; nothing was changed; put a good copy back, or see with \
         `singularity state verify` what is whole, and keep that with `singularity state repair`",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        offset: u64,
        seq: u64,
        #[source]
        flaw: Flaw,
    },
    #[error("state: {} has no file with the records from {first} on, though one begins with {next}; put a good copy back", path.display())]
    MissingSegment { path: PathBuf, first: u64, next: u64 },
    #[error(
        "state: {} is damaged at byte {offset}, before records that were acknowledged; put a good copy back, or move it away and give up \
         what only it has",
        path.display()
    )]
    DamagedLog { path: PathBuf, offset: u64 },
    #[error("state: {} has record {found} at byte {offset}, where record {expected} should be; put a good copy back", path.display())]
    OutOfOrder { path: PathBuf, offset: u64, expected: u64, found: u64 },
    #[error(
        "state: record {seq} at byte {offset} of {} is not understood; it may come from a newer version of this program",
        path.display()
    )]
    UnknownRecord {
        path: PathBuf,
        offset: u64,
        seq: u64,
        #[source]
        source: serde_json::Error,
    },
    #[error("state: {} does not begin with a birth; put a good copy back", path.display())]
    NoBirth { path: PathBuf },
    #[error("state: {} is animated by {}; stop that one first", path.display(), holder(*pid))]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("state: the directory is not safe to use")]
    Access(#[from] AccessError),
    #[error("state: cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("state: cannot write {}: the disk is full; nothing that was acknowledged is lost; free space, then start the being again", path.display())]
    Full {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("state: cannot make {} durable; nothing that was acknowledged is lost; look at the disk, then start the being again", path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("state: cannot draw {}; the journal has everything and the life goes on without", path.display())]
    NoPicture {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("state: cannot compress the closed journals in {}; they are whole, and the life goes on", path.display())]
    NotCompressed {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("state: {} failed before and takes no more records; start the being again", path.display())]
    Poisoned { path: PathBuf },
    #[error("state: {bytes} bytes are too many for one write, at most {max} fit; nothing was written")]
    TooLarge { bytes: usize, max: usize },
    #[error("state: what should be kept cannot be written as JSON; nothing was written")]
    Unencodable(#[source] io::Error),
}

impl StoreError {
    /// What to type or look at next, where the sentence itself must be exactly that of SPEC.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NothingToResume => Some("leave out --resume to begin a new life".to_owned()),
            Self::OtherIdentity { fields } => Some(format!(
                "an identity is fixed at birth; declared otherwise now: {}; restore it, or use a new directory",
                fields.join(", ")
            )),
            Self::UnsupportedSchema { path, .. } => {
                Some(format!("{} is of that schema; use the version of this program that wrote it", path.display()))
            }
            _ => None,
        }
    }

    /// The file, the byte and the record where a journal is damaged, if that is what it tells.
    pub(super) fn damage(&self) -> Option<(&Path, u64, u64)> {
        match self {
            Self::Damaged { path, offset, seq, .. } | Self::UnknownRecord { path, offset, seq, .. } => Some((path, *offset, *seq)),
            Self::OutOfOrder { path, offset, expected, .. } => Some((path, *offset, *expected)),
            Self::MissingSegment { path, first, .. } => Some((path, 0, *first)),
            Self::NoBirth { path } => Some((path, 0, 1)),
            _ => None,
        }
    }

    /// Tells whether a life goes on after it as if nothing had been: all records are safe.
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::NoPicture { .. } | Self::NotCompressed { .. })
    }

    /// Tells a full disk from a broken one.
    pub(super) fn write(path: PathBuf, source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::Full { path, source },
            _ => Self::Unwritable { path, source },
        }
    }
}

fn newest(expected: Option<&Digest>) -> impl fmt::Display {
    expected.map_or_else(|| "and the journal has no checkpoint".to_owned(), |digest| format!("the newest checkpoint says {digest}"))
}

pub(super) fn holder(pid: Option<u32>) -> impl fmt::Display {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
