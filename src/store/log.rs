//! The format of the commit log, and its one writer.
//!
//! A log is a row of segments, files of one size that are filled with zeros beforehand, so that a sync has no new size to commit. A
//! segment is named after the first batch in it and begins with [`MAGIC`], that number and a checksum of both. A batch is what one sync made durable: entries, each
//! `magic, length and flag, batch, checksum, lines`, with the flag on the last of a batch. An entry belongs to the log if its batch is not
//! below the segment's first: a segment that is used again needs no new zeros.

use std::io;

use super::{folder::Folder, scan::wide};

const MAGIC: &[u8; 8] = b"sglog\0v1";
const ENTRY: [u8; 4] = *b"\xA7ent";
const HEADER: usize = 20;
/// Magic, length with flag, batch, checksum.
const ENTRY_HEADER: usize = 4 + 4 + 8 + 4;
const LAST_OF_BATCH: u32 = 1 << 31;
const END: &str = ".log";

/// Bytes of a segment.
pub(super) const SEGMENT: usize = 4 << 20;

/// Lines of one life that one write brought. No lines: the life's journal was made durable and its folder let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The life's folder, from the home.
    pub(super) life: &'a str,
    pub(super) lines: &'a [u8],
}

impl Entry<'_> {
    /// Bytes that it takes in a segment.
    pub(super) const fn size(&self) -> usize {
        (ENTRY_HEADER + 2 + self.life.len() + self.lines.len()).next_multiple_of(4)
    }
}

/// The most bytes of entries that one batch takes.
pub(super) const fn room(segment: usize) -> usize {
    segment - HEADER
}

/// The end of a log, where batches are added.
#[derive(Debug)]
pub(super) struct Log {
    folder: Box<dyn Folder>,
    segment: usize,
    /// The segment in use, and where it ends.
    current: Option<(String, usize)>,
    batch: u64,
    /// Segments whose records some journals may not hold durably yet.
    full: Vec<String>,
    /// Segments that can be used again.
    free: Vec<String>,
    buffer: Vec<u8>,
}

impl Log {
    /// A log in a folder that has none.
    pub(super) const fn new(folder: Box<dyn Folder>, segment: usize) -> Self {
        Self { folder, segment, current: None, batch: 1, full: Vec::new(), free: Vec::new(), buffer: Vec::new() }
    }

    /// Makes entries durable with one write and one sync. After an error none of them is acknowledged, and the next go to another segment.
    pub(super) fn write<'a>(&mut self, entries: impl IntoIterator<Item = Entry<'a>>) -> io::Result<()> {
        self.encode(entries);
        let written = self.write_buffer();
        if written.is_err() {
            self.full.extend(self.current.take().map(|(name, _)| name));
        }
        self.batch = self.batch.saturating_add(1);
        written
    }

    fn encode<'a>(&mut self, entries: impl IntoIterator<Item = Entry<'a>>) {
        self.buffer.clear();
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            encode(&mut self.buffer, self.batch, entry, entries.peek().is_none());
        }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let fits = |end: usize| end.saturating_add(self.buffer.len()) <= self.segment;
        if !self.current.as_ref().is_some_and(|(_, end)| fits(*end)) {
            self.begin_segment()?;
        }
        let Some((name, end)) = &mut self.current else { return Ok(()) };
        self.folder.write_at(name, wide(*end), &self.buffer)?;
        self.folder.sync(name)?;
        *end += self.buffer.len();
        Ok(())
    }

    /// Closes the segment in use and begins one: a free one, or a new one.
    fn begin_segment(&mut self) -> io::Result<()> {
        self.full.extend(self.current.take().map(|(name, _)| name));
        let name = format!("{:020}{END}", self.batch);
        let header = header(self.batch);
        if let Some(free) = self.free.pop() {
            // The new name first: what the old one still holds is then below the batches that it promises.
            self.folder.rename(&free, &name)?;
            self.folder.sync_names()?;
            self.folder.write_at(&name, 0, &header)?;
            self.folder.sync(&name)?;
        } else {
            let mut zeros = vec![0; self.segment];
            zeros.get_mut(..HEADER).into_iter().for_each(|start| start.copy_from_slice(&header));
            self.folder.create(&name, &zeros)?;
            self.folder.sync_names()?;
        }
        self.current = Some((name, HEADER));
        Ok(())
    }

    /// The segments that are full; they may be used again once every journal is synced that they tell of.
    pub(super) fn take_full(&mut self) -> Vec<String> {
        std::mem::take(&mut self.full)
    }

    /// How many segments wait to be taken.
    pub(super) const fn full(&self) -> usize {
        self.full.len()
    }

    /// Gives segments back to be used again.
    pub(super) fn give_back(&mut self, segments: Vec<String>) {
        self.free.extend(segments);
    }

    /// Gives segments back whose journals could not be synced.
    pub(super) fn keep(&mut self, segments: Vec<String>) {
        self.full.extend(segments);
    }

    /// What makes every file of the log's file system durable, from any thread.
    pub(super) fn syncer(&self) -> io::Result<Box<dyn FnOnce() -> io::Result<()> + Send>> {
        self.folder.syncer()
    }
}

fn header(first: u64) -> Vec<u8> {
    let mut header = [MAGIC.as_slice(), &first.to_le_bytes()].concat();
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

/// The first batch that a segment says to hold, if it says anything.
fn first_batch(segment: &[u8]) -> Option<u64> {
    let first = u64::from_le_bytes(*segment.get(8..16)?.first_chunk()?);
    segment.starts_with(&header(first)).then_some(first)
}

fn encode(out: &mut Vec<u8>, batch: u64, entry: Entry<'_>, is_last: bool) {
    let name = u16::try_from(entry.life.len()).unwrap_or(u16::MAX);
    let length = u32::try_from(2 + entry.life.len() + entry.lines.len()).unwrap_or(u32::MAX);
    let length = if is_last { length | LAST_OF_BATCH } else { length };
    let start = out.len();
    out.extend(ENTRY);
    out.extend(length.to_le_bytes());
    out.extend(batch.to_le_bytes());
    out.extend([0; 4]);
    out.extend(name.to_le_bytes());
    out.extend(entry.life.as_bytes());
    out.extend(entry.lines);
    let sum = checksum(out.get(start..).unwrap_or_default()).to_le_bytes();
    out.get_mut(start + ENTRY_HEADER - 4..start + ENTRY_HEADER).into_iter().for_each(|place| place.copy_from_slice(&sum));
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Over all of an entry but the checksum itself.
fn checksum(entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(entry.get(..ENTRY_HEADER - 4).unwrap_or_default());
    hasher.update(entry.get(ENTRY_HEADER..).unwrap_or_default());
    hasher.finalize()
}

/// An entry as it was found.
#[derive(Debug, Clone, Copy)]
struct Found<'a> {
    batch: u64,
    is_last: bool,
    entry: Entry<'a>,
}

/// The segments of a log, in order.
pub(super) fn segments(folder: &dyn Folder) -> io::Result<Vec<String>> {
    let mut names = folder.names()?;
    names.retain(|name| name.strip_suffix(END).is_some_and(|first| first.len() == 20));
    names.sort_unstable();
    Ok(names)
}

/// The entries of one segment, up to the end of what was acknowledged. The error is where an acknowledged entry is damaged.
pub(super) fn read<'a>(name: &str, segment: &'a [u8]) -> Result<Vec<Entry<'a>>, u64> {
    let named = name.strip_suffix(END).and_then(|first| first.parse().ok()).unwrap_or(u64::MAX);
    let first = match first_batch(segment) {
        Some(first) if first == named => first,
        // It was free, and a crash came while it was taken to be used again: its old name or its old start outlived that.
        Some(_) => return Ok(Vec::new()),
        None if follows(segment, HEADER, named) => return Err(0),
        None => return Ok(Vec::new()),
    };
    let mut entries = Vec::new();
    let (mut at, mut batch, mut is_whole) = (HEADER, first, true);
    while let Some(found) = entry_at(segment, at).filter(|found| found.batch >= batch) {
        entries.push(found.entry);
        (batch, is_whole) = (found.batch, found.is_last);
        at += found.entry.size();
    }
    // The next batch is written only once this one is durable: one that is there shows that this one had been whole.
    let torn = if is_whole && !entries.is_empty() { batch.saturating_add(1) } else { batch };
    if follows(segment, at, torn.saturating_add(1)) { Err(wide(at)) } else { Ok(entries) }
}

/// Tells whether an entry of `batch` or a later one stands anywhere after `at`.
fn follows(segment: &[u8], at: usize, batch: u64) -> bool {
    let rest = segment.get(at..).unwrap_or_default();
    let starts = rest.chunks_exact(4).enumerate().filter(|(_, word)| **word == ENTRY).map(|(index, _)| at + index * 4);
    starts.filter_map(|start| entry_at(segment, start)).any(|found| found.batch >= batch)
}

fn entry_at(segment: &[u8], at: usize) -> Option<Found<'_>> {
    let rest = segment.get(at..)?;
    let word = |start: usize| rest.get(start..start + 4)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let batch = u64::from_le_bytes(*rest.get(8..16)?.first_chunk()?);
    let (flagged, sum) = (word(4)?, word(16)?);
    let length = usize::try_from(flagged & !LAST_OF_BATCH).ok()?;
    let whole = rest.get(..ENTRY_HEADER.checked_add(length)?)?;
    if !whole.starts_with(&ENTRY) || checksum(whole) != sum {
        return None;
    }
    let (name, body) = whole.get(ENTRY_HEADER..)?.split_first_chunk::<2>()?;
    let (life, lines) = body.split_at_checked(u16::from_le_bytes(*name).into())?;
    let entry = Entry { life: str::from_utf8(life).ok()?, lines };
    Some(Found { batch, is_last: flagged & LAST_OF_BATCH != 0, entry })
}
