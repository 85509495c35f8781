use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::line::{self, Flaw, MAX_LINE};

/// Reads a journal line by line in flat memory.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    reader: BufReader<R>,
    offset: u64,
    line: Vec<u8>,
}

/// One line as it was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) offset: u64,
    /// Without the newline.
    pub(super) bytes: &'a [u8],
    pub(super) has_newline: bool,
}

const BUFFER: usize = 128 << 10;
/// No disk writes less than this at once.
const SECTOR: u64 = 512;

pub(super) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl<R: Read> Scanner<R> {
    /// Begins at `offset`, where `reader` stands.
    pub(super) fn new(reader: R, offset: u64) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, reader), offset, line: Vec::new() }
    }

    /// What is read.
    pub(super) fn source(&self) -> &R {
        self.reader.get_ref()
    }

    /// Where the next line begins.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line; the last one may lack its newline.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.line.clear();
        let most = wide(MAX_LINE).saturating_add(2);
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut self.line)?;
        let offset = self.offset;
        self.offset = self.offset.saturating_add(wide(read));
        let bytes = self.line.strip_suffix(b"\n");
        let piece = Piece { offset, has_newline: bytes.is_some(), bytes: bytes.unwrap_or(&self.line) };
        Ok((read > 0).then_some(piece))
    }

    /// Tells whether all that is left belongs to the write that also should have brought record `seq`.
    pub(super) fn is_rest_of_write(&mut self, seq: u64) -> io::Result<bool> {
        while let Some(piece) = self.next()? {
            if line::check(piece.bytes).is_ok_and(|frame| frame.with > seq) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<R: Read + Seek> Scanner<R> {
    /// Goes to `offset`, to read from there again.
    pub(super) fn go_to(&mut self, offset: u64) -> io::Result<()> {
        self.offset = self.reader.seek(SeekFrom::Start(offset))?;
        Ok(())
    }
}

impl Piece<'_> {
    /// Tells a line that a crash cut short from one that was changed after it had been whole; see the rule in the room's page.
    pub(super) fn torn(&self, flaw: Flaw) -> Result<(), Flaw> {
        if self.bytes.len() > MAX_LINE {
            return Err(Flaw::TooLong);
        }
        if self.has_newline {
            return if self.has_zeroed_sectors() { Ok(()) } else { Err(flaw) };
        }
        match self.bytes.split_last() {
            Some((_, whole)) if line::check(whole).is_ok() => Err(Flaw::LastByte),
            _ => Ok(()),
        }
    }

    /// Tells whether sectors of the line never reached the disk: zeros from its start or a sector's to a sector's end.
    fn has_zeroed_sectors(&self) -> bool {
        let Some(start) = self.bytes.iter().position(|byte| *byte == 0) else { return false };
        let zeros = self.bytes.iter().skip(start).take_while(|byte| **byte == 0).count();
        let is_sector = |index: usize| self.offset.saturating_add(wide(index)).is_multiple_of(SECTOR);
        (start == 0 || is_sector(start)) && is_sector(start + zeros)
    }
}
