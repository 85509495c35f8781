use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use super::{
    error::StoreError,
    folder::{Folder as _, JOURNAL, OsFolder},
    line::{self, Flaw},
    replay::{Replay, unreadable},
    scan::{Scanner, wide},
    segment::Segment,
};
use crate::being::{AgentState, OpenCall};

/// How often a folder is read again, when files were closed or compressed while it was read.
pub(super) const TRIES: usize = 5;

/// Reads the state of a being that may be running elsewhere: takes no lock, passes over a torn tail, writes nothing.
pub fn peek(dir: &Path) -> Result<Option<AgentState>, StoreError> {
    let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
    quietly(&folder, || Ok(Replay::read(&folder)?.state))
}

/// What a close look at a whole life found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Records of the life, each with a good checksum, in order.
    pub records: u64,
    /// Bytes of a torn write at the end, which the next start cuts off.
    pub torn: u64,
    /// What all records make, and, where there is a picture, what it and its tail make too.
    pub state: AgentState,
    /// Calls that were begun and have no recorded end.
    pub open_calls: Vec<OpenCall>,
}

/// Reads every record of a life and checks that they make its state; `None` if there is no life. Takes no lock and writes nothing.
pub fn verify(dir: &Path) -> Result<Option<Verified>, StoreError> {
    let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
    let Replay { seq, torn, state, open_calls, .. } = quietly(&folder, || Replay::read_whole(&folder))?;
    Ok(state.map(|state| Verified { records: seq, torn, state, open_calls }))
}

/// Reads, and reads again when it fails because the life went on meanwhile.
fn quietly<T>(folder: &OsFolder, mut read: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let names = || folder.names().map_err(|source| StoreError::Unreadable { path: folder.path(""), source });
    for _ in 1..TRIES {
        let before = names()?;
        match read() {
            Err(_) if names()? != before => {}
            result => return result,
        }
    }
    read()
}

/// Where to begin to read a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Beginning,
    /// After a record that was read before.
    After(u64),
    /// At the newest so many lines.
    Last(usize),
}

/// One line of a journal, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub seq: u64,
    pub json: String,
}

/// The lines of a journal, over all of its files. After `None` it may be asked again: what was written meanwhile is then told.
#[derive(Debug)]
pub struct Lines {
    folder: OsFolder,
    file: Reading,
    path: PathBuf,
    /// The record that comes next, once that is known.
    next: Option<u64>,
    is_broken: bool,
}

/// The file that is read.
enum Reading {
    /// The one that may still grow.
    InUse(Scanner<File>),
    Closed(Scanner<Box<dyn Read + Send>>),
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse(_) => "InUse",
            Self::Closed(_) => "Closed",
        })
    }
}

/// Opens a journal to read it, without a lock; `None` if there is none yet.
pub fn read_journal(dir: &Path, from: Start) -> Result<Option<Lines>, StoreError> {
    let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
    quietly(&folder, || {
        let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
        match from {
            Start::Beginning => Lines::at(folder, 1),
            Start::After(seq) => Lines::at(folder, seq.saturating_add(1)),
            Start::Last(lines) => Lines::of_last(folder, lines),
        }
    })
}

const BLOCK: usize = 64 << 10;

/// Finds where the last `lines` whole lines begin, from the end, block by block; the second number is how many there are.
fn start_of_last(file: &File, lines: usize) -> io::Result<(u64, usize)> {
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
            return Ok((start.saturating_add(wide(index)).saturating_add(1), lines));
        }
        newlines += part.iter().filter(|byte| **byte == b'\n').count();
        end = start;
    }
    Ok((0, newlines.min(lines)))
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
    /// Begins at record `next`, in whichever file it is or will be; `None` if there is none.
    fn at(folder: OsFolder, next: u64) -> Result<Option<Self>, StoreError> {
        let segments = Segment::all(&folder)?;
        let next = Some(next);
        if let Some(segment) = segments.iter().find(|segment| Some(segment.last) >= next) {
            let source = segment.open(&folder)?;
            let (file, path) = (Reading::Closed(Scanner::new(source.lines, 0)), folder.path(&source.name));
            return Ok(Some(Self { folder, file, path, next, is_broken: false }));
        }
        let file = folder.file(JOURNAL)?;
        Ok(file.map(|file| Self::in_use(folder, file, 0, next)))
    }

    fn of_last(folder: OsFolder, lines: usize) -> Result<Option<Self>, StoreError> {
        let path = folder.path(JOURNAL);
        let newest = Segment::all(&folder)?.last().map(|segment| segment.last);
        let unreadable = |source| StoreError::Unreadable { path: path.clone(), source };
        let mut missing = lines;
        if let Some(mut file) = folder.file(JOURNAL)? {
            let (offset, found) = start_of_last(&file, lines).map_err(unreadable)?;
            if found == lines || newest.is_none() {
                file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
                return Ok(Some(Self::in_use(folder, file, offset, None)));
            }
            missing -= found;
        }
        let Some(newest) = newest else { return Ok(None) };
        Self::at(folder, newest.saturating_add(1).saturating_sub(wide(missing)).clamp(1, newest))
    }

    fn in_use(folder: OsFolder, file: File, offset: u64, next: Option<u64>) -> Self {
        let path = folder.path(JOURNAL);
        Self { folder, file: Reading::InUse(Scanner::new(file, offset)), path, next, is_broken: false }
    }

    /// The next line, from the next file where this one has no more.
    fn read(&mut self) -> Result<Option<Line>, StoreError> {
        loop {
            if let Some(line) = self.take()? {
                return Ok(Some(line));
            }
            if !self.is_closed()? {
                return Ok(None);
            }
            // What was written just before it was closed comes first.
            if let Some(line) = self.take()? {
                return Ok(Some(line));
            }
            if !self.go_on()? {
                return Ok(None);
            }
        }
    }

    /// The next line of this file that was not read before.
    fn take(&mut self) -> Result<Option<Line>, StoreError> {
        while let Some(line) = self.read_file()? {
            if self.next.is_none_or(|next| line.seq >= next) {
                self.next = Some(line.seq.saturating_add(1));
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Tells whether the file that is read takes no more lines.
    fn is_closed(&self) -> Result<bool, StoreError> {
        let Reading::InUse(scanner) = &self.file else { return Ok(true) };
        let id = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
        let now = self.folder.file(JOURNAL)?;
        Ok(now.is_none_or(|now| id(&now) != id(scanner.source())))
    }

    /// Goes on to the file with the next line; false if there is none yet.
    fn go_on(&mut self) -> Result<bool, StoreError> {
        let dir = self.folder.path("");
        let further = quietly(&self.folder, || {
            let Some(folder) = OsFolder::look(&dir)? else { return Ok(None) };
            Self::at(folder, self.next.unwrap_or(u64::MAX))
        })?;
        let Some(further) = further else { return Ok(false) };
        if matches!(further.file, Reading::Closed(_)) && further.path == self.path {
            let (path, seq) = (self.path.clone(), self.next.unwrap_or_default());
            return Err(StoreError::Damaged { path, offset: 0, seq, flaw: Flaw::EndsEarly });
        }
        *self = Self { next: self.next, ..further };
        Ok(true)
    }

    fn read_file(&mut self) -> Result<Option<Line>, StoreError> {
        match &mut self.file {
            Reading::InUse(scanner) => {
                let start = scanner.offset();
                let line = read_line(scanner, &self.path, true)?;
                if line.is_none() {
                    scanner.go_to(start).map_err(|source| StoreError::Unreadable { path: self.path.clone(), source })?;
                }
                Ok(line)
            }
            Reading::Closed(scanner) => read_line(scanner, &self.path, false),
        }
    }
}

fn read_line(scanner: &mut Scanner<impl Read>, path: &Path, may_be_torn: bool) -> Result<Option<Line>, StoreError> {
    let start = scanner.offset();
    let Some(piece) = scanner.next().map_err(|source| unreadable(path, start, 0, source))? else { return Ok(None) };
    let damaged = |flaw| StoreError::Damaged { path: path.to_owned(), offset: start, seq: 0, flaw };
    let flaw = match line::check(piece.bytes) {
        Ok(frame) if piece.has_newline => {
            return Ok(Some(Line { seq: frame.seq, json: String::from_utf8_lossy(piece.bytes).into_owned() }));
        }
        Ok(_) => Flaw::Unsealed,
        Err(flaw) => flaw,
    };
    if !may_be_torn {
        return Err(damaged(flaw));
    }
    if piece.has_newline {
        piece.torn(flaw).map_err(damaged)?;
    }
    Ok(None)
}
