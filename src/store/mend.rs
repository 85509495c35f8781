//! Brings journals up to what the commit log made durable.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
};

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL},
    line::{self, Flaw},
    log,
    scan::{Scanner, wide},
    segment::Segment,
};

/// Opens the folder of a life, alone; `None` if it is gone.
pub(super) type OpenLife<'a> = dyn FnMut(&str) -> Result<Option<Box<dyn Folder>>, StoreError> + 'a;

/// The newest records of a life that a log holds, without a gap.
#[derive(Debug, Default)]
struct Tail {
    first: u64,
    lines: Vec<Vec<u8>>,
}

impl Tail {
    fn next(&self) -> u64 {
        self.first + wide(self.lines.len())
    }

    /// Takes a line. One that is there again stands for all from it on: those before had not been acknowledged.
    fn take(&mut self, seq: u64, line: &[u8]) {
        if (self.first..=self.next()).contains(&seq) && self.first > 0 {
            self.lines.truncate(usize::try_from(seq - self.first).unwrap_or(usize::MAX));
        } else {
            *self = Self { first: seq, lines: Vec::new() };
        }
        self.lines.push(line.to_owned());
    }

    /// The line of record `seq`, if it is here.
    fn line(&self, seq: u64) -> Option<&[u8]> {
        let index = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.lines.get(index).map(Vec::as_slice)
    }

    /// The lines from record `seq` on.
    fn from(&self, seq: u64) -> Vec<u8> {
        let skipped = usize::try_from(seq.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.lines.iter().skip(skipped).flatten().copied().collect()
    }
}

/// Writes into each journal what the log has and it lacks, durably; then the log is empty. Doing it again changes nothing, so that a
/// crash in between loses nothing. The sentences tell what was mended.
pub(super) fn mend(folder: &mut dyn Folder, open: &mut OpenLife<'_>) -> Result<Vec<String>, StoreError> {
    let unreadable = |source| StoreError::Unreadable { path: folder.path(""), source };
    let names = log::segments(folder).map_err(unreadable)?;
    let mut told = Vec::new();
    for (life, tail) in &tails(folder, &names)? {
        if let Some(mut life) = open(life)? {
            told.extend(bring_up(life.as_mut(), tail)?);
        }
    }
    for name in &names {
        folder.remove(name).map_err(|source| StoreError::write(folder.path(name), source))?;
    }
    folder.sync_names().map_err(|source| StoreError::write(folder.path(""), source))?;
    Ok(told)
}

fn tails(folder: &dyn Folder, names: &[String]) -> Result<BTreeMap<String, Tail>, StoreError> {
    let mut tails: BTreeMap<String, Tail> = BTreeMap::new();
    for name in names {
        let mut segment = Vec::new();
        let file = folder.open(name)?.unwrap_or_else(|| Box::new(io::empty()));
        let read = file.take(wide(log::SEGMENT).saturating_mul(2)).read_to_end(&mut segment);
        read.map_err(|source| StoreError::Unreadable { path: folder.path(name), source })?;
        let damaged = |offset| StoreError::DamagedLog { path: folder.path(name), offset };
        for entry in log::read(name, &segment).map_err(damaged)? {
            if entry.lines.is_empty() {
                tails.remove(entry.life);
                continue;
            }
            let tail = tails.entry(entry.life.to_owned()).or_default();
            for line in entry.lines.split_inclusive(|byte| *byte == b'\n') {
                if let Ok(frame) = line::check(line.strip_suffix(b"\n").unwrap_or(line)) {
                    tail.take(frame.seq, line);
                }
            }
        }
    }
    Ok(tails)
}

/// Where a journal's good records end.
struct Good {
    /// The record that is missing or bad.
    next: u64,
    /// Where it would begin.
    offset: u64,
    /// The line before it.
    before: Vec<u8>,
    /// Where the newest write began of which something good stands after it.
    newest: u64,
}

/// Writes the records into a journal that it lacks from its first missing or bad one on. Good records stay as they are; what the log
/// does not reach is left to whoever opens the life. What was written behind the log's last record had not been acknowledged, unless it was more
/// than one write: then the journal had been synced since, and its bad record is damage.
fn bring_up(life: &mut dyn Folder, tail: &Tail) -> Result<Option<String>, StoreError> {
    let good = good(life)?;
    // A journal that went another way since, under whoever repaired it, is not continued.
    let is_same = tail.line(good.next.saturating_sub(1)).is_none_or(|line| line == good.before);
    let is_reached = (tail.first..tail.next()).contains(&good.next) && good.newest <= tail.next() && is_same;
    let path = life.path(JOURNAL);
    let write = |life: &mut dyn Folder| {
        if is_reached {
            life.cut(JOURNAL, good.offset)?;
            life.append(JOURNAL, &tail.from(good.next))?;
        }
        if good.offset == 0 && !is_reached {
            return Ok(());
        }
        life.sync(JOURNAL)?;
        life.sync_names()
    };
    write(life).map_err(|source| StoreError::write(path.clone(), source))?;
    let count = tail.next().saturating_sub(good.next);
    Ok(is_reached.then(|| format!("{} lacked {count} records that had been acknowledged; the commit log had them", path.display())))
}

fn good(life: &dyn Folder) -> Result<Good, StoreError> {
    let closed = Segment::all(life)?.last().map_or(0, |segment| segment.last);
    let mut good = Good { next: closed.saturating_add(1), offset: 0, before: Vec::new(), newest: 0 };
    let Some(journal) = life.open(JOURNAL)? else { return Ok(good) };
    let (mut scanner, mut is_good) = (Scanner::new(journal, 0), true);
    let unreadable = |source| StoreError::Unreadable { path: life.path(JOURNAL), source };
    while let Some(piece) = scanner.next().map_err(unreadable)? {
        let frame = line::check(piece.bytes).and_then(|frame| if piece.has_newline { Ok(frame) } else { Err(Flaw::Unsealed) });
        is_good = is_good && frame.is_ok_and(|frame| frame.seq == good.next);
        if is_good {
            good.next = good.next.saturating_add(1);
            good.offset = piece.offset.saturating_add(wide(piece.bytes.len())).saturating_add(1);
            good.before.clear();
            good.before.extend(piece.bytes);
            good.before.push(b'\n');
        } else if let Ok(frame) = frame {
            good.newest = good.newest.max(frame.with);
        }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn a_record_that_comes_again_stands_for_all_after_it_and_a_gap_for_all_before_it() {
        let mut tail = Tail::default();
        for (seq, line) in [(3, "c"), (4, "d"), (5, "e"), (4, "D")] {
            tail.take(seq, line.as_bytes());
        }
        assert_eq!((tail.first, tail.next(), tail.from(3)), (3, 5, b"cD".to_vec()));
        tail.take(9, b"i");
        assert_eq!((tail.first, tail.next(), tail.from(9)), (9, 10, b"i".to_vec()));
    }
}
