use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::{
    error::StoreError,
    folder::{Folder as _, JOURNAL, OsFolder},
    line::{self, Flaw},
    replay::Replay,
    scan::{Scanner, wide},
};
use crate::being::AgentState;

/// Reads the state of a being that may be running elsewhere: takes no lock, passes over a torn tail, writes nothing.
pub fn peek(dir: &Path) -> Result<Option<AgentState>, StoreError> {
    let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
    Ok(Replay::read(&folder)?.state)
}

/// Where to begin to read a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Beginning,
    /// After a line that was read before.
    Offset(u64),
    /// At the newest so many lines.
    Last(usize),
}

/// One line of a journal, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where the next line begins.
    pub end: u64,
    pub json: String,
}

/// The lines of a journal. After `None` it may be asked again: what was written meanwhile is then told.
#[derive(Debug)]
pub struct Lines {
    scanner: Scanner<File>,
    path: PathBuf,
    is_broken: bool,
}

/// Opens a journal to read it, without a lock; `None` if there is none yet.
pub fn read_journal(dir: &Path, from: Start) -> Result<Option<Lines>, StoreError> {
    let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
    let path = folder.path(JOURNAL);
    let Some(mut file) = folder.file(JOURNAL)? else { return Ok(None) };
    let offset = match from {
        Start::Beginning => Ok(0),
        Start::Offset(offset) => Ok(offset),
        Start::Last(lines) => start_of_last(&file, lines),
    };
    let offset = offset.and_then(|offset| file.seek(SeekFrom::Start(offset)));
    let offset = offset.map_err(|source| StoreError::Unreadable { path: path.clone(), source })?;
    Ok(Some(Lines { scanner: Scanner::new(file, offset), path, is_broken: false }))
}

const BLOCK: usize = 64 << 10;

/// Finds where the last `lines` whole lines begin, from the end, block by block.
fn start_of_last(file: &File, lines: usize) -> io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let mut end = file.metadata()?.len();
    let mut newlines = 0;
    while end > 0 {
        let start = end.saturating_sub(wide(BLOCK));
        let length = usize::try_from(end - start).unwrap_or(BLOCK);
        let part = block.get_mut(..length).unwrap_or_default();
        file.read_exact_at(part, start)?;
        let mut found = part.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index);
        if let Some(index) = found.by_ref().nth(lines.saturating_sub(newlines)) {
            return Ok(start.saturating_add(wide(index)).saturating_add(1));
        }
        newlines += part.iter().filter(|byte| **byte == b'\n').count();
        end = start;
    }
    Ok(0)
}

impl Iterator for Lines {
    type Item = Result<Line, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_broken {
            return None;
        }
        let line = self.read().transpose();
        self.is_broken = matches!(line, Some(Err(_)));
        line
    }
}

impl Lines {
    /// Where the next line begins, to go on from there another time.
    pub const fn offset(&self) -> u64 {
        self.scanner.offset()
    }

    fn read(&mut self) -> Result<Option<Line>, StoreError> {
        let path = &self.path;
        let unreadable = |source| StoreError::Unreadable { path: path.clone(), source };
        let start = self.scanner.offset();
        let Some(piece) = self.scanner.next().map_err(unreadable)? else { return Ok(None) };
        let damaged = |flaw| StoreError::Damaged { path: path.clone(), offset: start, seq: 0, flaw };
        let end = start.saturating_add(wide(piece.bytes.len())).saturating_add(1);
        let flaw = match line::check(piece.bytes) {
            Ok(_) if piece.has_newline => {
                let json = String::from_utf8_lossy(piece.bytes).into_owned();
                return Ok(Some(Line { end, json }));
            }
            Ok(_) => Flaw::Unsealed,
            Err(flaw) => flaw,
        };
        if piece.has_newline {
            piece.torn(flaw).map_err(damaged)?;
        }
        self.scanner.go_to(start).map_err(unreadable)?;
        Ok(None)
    }
}
