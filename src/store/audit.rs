//! The record of what people asked a home's daemon for: one line each, chained by SHA-256, so that an edit of an older line shows.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{Home, access};
use crate::vocab::{Digest, Operator, Reason, Timestamp};

/// One line of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Counts from 1.
    pub seq: u64,
    pub at: Timestamp,
    /// The digest of the line before; for the first that of nothing.
    pub previous: Digest,
    pub by: Operator,
    pub entry: AuditEntry,
}

/// What a line says. It holds no answer's values, no manifest and no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuditEntry {
    /// Something was asked for; this is durable before anything is done about it.
    Asked {
        /// The verb of the command line.
        verb: String,
        /// What it is about, in words.
        about: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<Reason>,
    },
    /// What came of the line `of`. A line without such an end was cut off, by a crash or by the end of the daemon.
    Ended {
        of: u64,
        outcome: AuditOutcome,
        /// Why it was not done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    Done,
    Refused,
    Failed,
}

/// A record that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    pub records: Vec<AuditRecord>,
    /// The digest of the last line: who keeps it elsewhere sees later whether lines were taken off the end.
    pub head: Digest,
    /// Whether a last line was cut off by a crash; it was never acknowledged.
    pub is_torn: bool,
}

/// Why the record can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}, so nothing is done", path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("line {line} of {} {why}; compare with a copy of it", path.display())]
    Broken { path: PathBuf, line: u64, why: &'static str },
}

/// Appends to the record of a home. The home's daemon is the only one who does.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    tail: Mutex<Tail>,
}

#[derive(Debug)]
struct Tail {
    file: File,
    /// Bytes of whole lines.
    bytes: u64,
    lines: u64,
    head: Digest,
}

const FILE: &str = "audit.jsonl";

/// Reads the record of a home and checks that each line follows the one before.
pub fn read_audit(home: &Home) -> Result<Audit, AuditError> {
    let path = home.audit();
    let unreadable = |source| AuditError::Unreadable { path: path.clone(), source };
    let Some(mut file) = open(home, OFlags::RDONLY).map_err(unreadable)? else {
        return Ok(Audit { records: Vec::new(), head: Digest::of(""), is_torn: false });
    };
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(unreadable)?;
    check(&path, &text)
}

fn check(path: &Path, text: &[u8]) -> Result<Audit, AuditError> {
    let mut audit = Audit { records: Vec::new(), head: Digest::of(""), is_torn: false };
    for (line, seq) in text.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let broken = |why| AuditError::Broken { path: path.to_owned(), line: seq, why };
        let Some(line) = line.strip_suffix(b"\n") else {
            audit.is_torn = true;
            break;
        };
        let record: AuditRecord = serde_json::from_slice(line).map_err(|_| broken("is no record"))?;
        if record.previous != audit.head {
            return Err(broken("does not follow the line before it: one of them was changed, added or taken away"));
        }
        if record.seq != seq {
            return Err(broken("has another number than its place"));
        }
        audit.head = Digest::of(line);
        audit.records.push(record);
    }
    Ok(audit)
}

fn open(home: &Home, flags: OFlags) -> io::Result<Option<File>> {
    let folder = access::make_folder(home.path()).map_err(access::AccessError::into_io)?;
    access::file(&folder, home.path(), FILE, flags).map_err(access::AccessError::into_io)
}

impl AuditLog {
    /// Opens the record of a home, and tells what is wrong with it; what was cut off by a crash is cut off. A broken chain goes on after its
    /// last line: the break stays to be seen.
    pub fn open(home: &Home) -> Result<(Self, Option<String>), AuditError> {
        let path = home.audit();
        let unreadable = |source| AuditError::Unreadable { path: path.clone(), source };
        let missing = || unreadable(io::ErrorKind::NotFound.into());
        let mut file = open(home, OFlags::RDWR | OFlags::CREATE).map_err(unreadable)?.ok_or_else(missing)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(unreadable)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let told = match check(&path, &text) {
            Err(error) => Some(error.to_string()),
            Ok(audit) if audit.is_torn => {
                Some(format!("the last line of {} was cut off by a crash and is left out", path.display()))
            }
            Ok(_) => None,
        };
        let lines: Vec<&[u8]> = text.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n').collect();
        let head = lines.last().map_or_else(|| Digest::of(""), |line| Digest::of(line.strip_suffix(b"\n").unwrap_or(line)));
        let tail = Tail {
            file,
            bytes: u64::try_from(whole).unwrap_or(u64::MAX),
            lines: u64::try_from(lines.len()).unwrap_or(u64::MAX),
            head,
        };
        let log = Self { path, tail: Mutex::new(tail) };
        log.locked().rewind().map_err(|source| AuditError::Unwritable { path: log.path.clone(), source })?;
        Ok((log, told))
    }

    /// Appends a line and yields its number; it is durable when this returns. Blocks for as long as the disk takes.
    pub fn append(&self, at: Timestamp, by: Operator, entry: AuditEntry) -> Result<u64, AuditError> {
        let mut tail = self.locked();
        let record = AuditRecord { seq: tail.lines.saturating_add(1), at, previous: tail.head, by, entry };
        let written = tail.write(&record);
        written.map_err(|source| AuditError::Unwritable { path: self.path.clone(), source })?;
        Ok(record.seq)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn write(&mut self, record: &AuditRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        let head = Digest::of(&line);
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // What was written of it must not lead the next line.
            self.rewind()?;
            return Err(error);
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        self.lines = self.lines.saturating_add(1);
        self.head = head;
        Ok(())
    }

    /// Cuts off what is no whole line.
    fn rewind(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes)).map(drop)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests damage the file by hand")]
mod tests {
    use std::fs;

    use super::*;

    fn asked(about: &str) -> AuditEntry {
        AuditEntry::Asked { verb: "pause".into(), about: about.into(), because: None }
    }

    fn home_with(lines: &[&str]) -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let (log, told) = AuditLog::open(&home).unwrap();
        assert_eq!(told, None);
        for about in lines {
            log.append(Timestamp::UNIX_EPOCH, Operator { uid: 1 }, asked(about)).unwrap();
        }
        (dir, home)
    }

    #[test]
    fn an_edit_of_any_line_but_the_last_is_seen_and_so_is_one_taken_away() {
        let (_dir, home) = home_with(&["one", "two", "three"]);
        let whole = read_audit(&home).unwrap();
        assert_eq!(whole.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3]);
        let text = fs::read_to_string(home.audit()).unwrap();
        let without_second =
            text.lines().enumerate().filter(|(at, _)| *at != 1).map(|(_, line)| format!("{line}\n")).collect::<String>();
        let places = [
            (text.replace("one", "eno"), 2),
            (text.replace("two", "own"), 3),
            (without_second, 2),
            (text.replace("{\"seq\":2", "{"), 2),
        ];
        for (damaged, place) in places {
            fs::write(home.audit(), damaged).unwrap();
            let error = read_audit(&home).unwrap_err();
            assert!(matches!(error, AuditError::Broken { line, .. } if line == place), "{error}");
        }
        let shorter: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
        fs::write(home.audit(), shorter).unwrap();
        assert_ne!(read_audit(&home).unwrap().head, whole.head, "the head tells of lines that were taken off the end");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_is_cut_off_and_the_chain_goes_on() {
        let (_dir, home) = home_with(&["one", "two"]);
        let text = fs::read_to_string(home.audit()).unwrap();
        fs::write(home.audit(), &text[..text.len() - 9]).unwrap();
        assert!(read_audit(&home).unwrap().is_torn);
        let (log, told) = AuditLog::open(&home).unwrap();
        assert!(told.is_some_and(|told| told.contains("cut off by a crash")));
        assert_eq!(log.append(Timestamp::UNIX_EPOCH, Operator { uid: 1 }, asked("again")).unwrap(), 2);
        let audit = read_audit(&home).unwrap();
        assert_eq!((audit.records.len(), audit.is_torn), (2, false));
        assert_eq!(audit.records[1].entry, asked("again"));
    }

    #[test]
    fn a_broken_chain_is_told_and_stays_to_be_seen() {
        let (_dir, home) = home_with(&["one", "two"]);
        let text = fs::read_to_string(home.audit()).unwrap();
        fs::write(home.audit(), text.replace("one", "eno")).unwrap();
        let (log, told) = AuditLog::open(&home).unwrap();
        assert!(told.is_some_and(|told| told.contains("line 2")));
        log.append(Timestamp::UNIX_EPOCH, Operator { uid: 1 }, asked("three")).unwrap();
        assert!(matches!(read_audit(&home).unwrap_err(), AuditError::Broken { line: 2, .. }));
    }
}
