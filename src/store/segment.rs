use std::io::{self, Read, Write as _};

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL},
    scan::wide,
};

/// A closed part of a journal: its records never change again. Its name tells which they are, so that a missing one is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) last: u64,
}

const START: &str = "activity-";
const PLAIN_END: &str = ".jsonl";
const COMPRESSED_END: &str = ".jsonl.gz";
/// A gzip member without a name, a time or flags, as every compressed file begins: gzip itself has no checksum of it.
const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
const TEMPORARY: &str = ".activity.tmp";

impl Segment {
    /// Every closed part in the folder, oldest first; refused if one in between is missing.
    pub(super) fn all(folder: &dyn Folder) -> Result<Vec<Self>, StoreError> {
        let (segments, gap) = Self::found(folder)?;
        match gap {
            None => Ok(segments),
            Some(at) => Err(Self::missing(folder, segments.split_at(at))),
        }
    }

    /// Every closed part that is there, oldest first, and the index before which one is missing.
    pub(super) fn found(folder: &dyn Folder) -> Result<(Vec<Self>, Option<usize>), StoreError> {
        let names = folder.names().map_err(|source| StoreError::Unreadable { path: folder.path(""), source })?;
        let mut segments: Vec<Self> = names.iter().filter_map(|name| Self::named(name)).collect();
        segments.sort_unstable();
        segments.dedup();
        let mut expected = 1;
        let is_out_of_row = |segment: &Self| {
            let is_next = segment.first == expected && segment.last >= segment.first;
            expected = segment.last.saturating_add(1);
            !is_next
        };
        let gap = segments.iter().position(is_out_of_row);
        Ok((segments, gap))
    }

    /// Says which records are missing between two rows of closed parts.
    pub(super) fn missing(folder: &dyn Folder, (before, after): (&[Self], &[Self])) -> StoreError {
        let first = before.last().map_or(0, |segment| segment.last).saturating_add(1);
        StoreError::MissingSegment { path: folder.path(""), first, next: after.first().map_or(first, |segment| segment.first) }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        let middle = name.strip_prefix(START)?;
        let middle = middle.strip_suffix(COMPRESSED_END).or_else(|| middle.strip_suffix(PLAIN_END))?;
        let (first, last) = middle.split_once('-')?;
        let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        Some(Self { first: number(first)?, last: number(last)? })
    }

    pub(super) fn plain_name(self) -> String {
        format!("{START}{:020}-{:020}{PLAIN_END}", self.first, self.last)
    }

    pub(super) fn compressed_name(self) -> String {
        format!("{START}{:020}-{:020}{COMPRESSED_END}", self.first, self.last)
    }

    /// Opens its lines: the plain file, as long as there is one, for the other may be half made.
    pub(super) fn open(self, folder: &dyn Folder) -> Result<Source, StoreError> {
        let name = self.plain_name();
        if let Some(file) = folder.open(&name)? {
            return Ok(Source { name, is_compressed: false, has_own_header: true, lines: file });
        }
        let name = self.compressed_name();
        match folder.open(&name)? {
            Some(file) => {
                let path = folder.path(&name);
                Self::unpack(name, file).map_err(|source| StoreError::Unreadable { path, source })
            }
            None => Err(StoreError::Unreadable { path: folder.path(&name), source: io::ErrorKind::NotFound.into() }),
        }
    }

    /// What the compressed file begins with is known, so that damage there costs nothing but is seen.
    fn unpack(name: String, mut file: Box<dyn Read + Send>) -> io::Result<Source> {
        let mut header = Vec::new();
        file.by_ref().take(wide(HEADER.len())).read_to_end(&mut header)?;
        let has_own_header = header == HEADER;
        Ok(Source { name, is_compressed: true, has_own_header, lines: Box::new(MultiGzDecoder::new(HEADER.chain(file))) })
    }

    /// Puts a compressed file in the place of the plain one, if there is one.
    fn compress(self, folder: &mut dyn Folder) -> io::Result<()> {
        let (plain, compressed) = (self.plain_name(), self.compressed_name());
        let Some(mut file) = folder.open(&plain).map_err(super::AccessError::into_io)? else { return Ok(()) };
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut block = vec![0; 128 << 10];
        loop {
            match file.read(&mut block)? {
                0 => break,
                read => encoder.write_all(block.get(..read).unwrap_or_default())?,
            }
        }
        let made = encoder.finish().and_then(|bytes| folder.create(TEMPORARY, &bytes));
        let placed = made.and_then(|()| folder.rename(TEMPORARY, &compressed)).and_then(|()| folder.sync_names());
        if placed.is_err() {
            drop(folder.remove(TEMPORARY));
        }
        placed.and_then(|()| folder.remove(&plain))
    }
}

/// Compresses what is closed and still plain. What cannot be compressed now stays readable as it is.
pub(super) fn compress_all(folder: &mut dyn Folder) -> io::Result<()> {
    let names = folder.names()?;
    if names.iter().any(|name| name == TEMPORARY) {
        folder.remove(TEMPORARY)?;
    }
    let plain = names.iter().filter(|name| name.ends_with(PLAIN_END) && *name != JOURNAL);
    plain.filter_map(|name| Segment::named(name)).try_for_each(|segment| segment.compress(folder))
}

/// The lines of one file of a journal.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) is_compressed: bool,
    /// Whether it begins as every file of its kind.
    pub(super) has_own_header: bool,
    pub(super) lines: Box<dyn Read + Send>,
}
