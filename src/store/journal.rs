use std::io;

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL},
    line::{self, MAX_LINE},
    scan::wide,
};
use crate::{
    being::{Event, Record},
    vocab::Timestamp,
};

/// The end of a journal, where records are added.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) folder: Box<dyn Folder>,
    /// The last acknowledged record.
    pub(super) seq: u64,
    /// Bytes of acknowledged records.
    pub(super) length: u64,
    /// A write or a sync failed: what is on disk past `length` is unknown, so nothing more is acknowledged.
    is_poisoned: bool,
    buffer: Vec<u8>,
}

/// A buffer that grew past this is given back.
const KEPT_BUFFER: usize = 1 << 20;

impl Journal {
    pub(super) const fn new(folder: Box<dyn Folder>, seq: u64, length: u64) -> Self {
        Self { folder, seq, length, is_poisoned: false, buffer: Vec::new() }
    }

    /// Makes events durable in one write and one sync. When it fails, none is acknowledged and the journal takes no more.
    pub(super) fn commit(&mut self, events: &[Event], cycle: u64, at: Timestamp) -> Result<Vec<Record>, StoreError> {
        if self.is_poisoned {
            return Err(StoreError::Poisoned { path: self.folder.path(JOURNAL) });
        }
        let first = self.seq.saturating_add(1);
        let records: Vec<Record> =
            (first..).zip(events).map(|(seq, event)| Record { seq, at, cycle, event: event.clone() }).collect();
        self.encode(&records, first)?;
        self.write()?;
        self.seq = records.last().map_or(self.seq, |record| record.seq);
        self.length = self.length.saturating_add(wide(self.buffer.len()));
        Ok(records)
    }

    fn encode(&mut self, records: &[Record], first: u64) -> Result<(), StoreError> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BUFFER);
        for record in records {
            line::encode(&mut self.buffer, record, first).map_err(StoreError::Unencodable)?;
        }
        let bytes = self.buffer.len();
        if bytes > MAX_LINE { Err(StoreError::TooLarge { bytes, max: MAX_LINE }) } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let written = self.folder.append(&self.buffer).and_then(|()| self.folder.sync_journal());
        written.map_err(|error| self.poison(error))
    }

    /// Never syncs again: after a failed sync the kernel may call pages clean that never reached the disk. What was not
    /// acknowledged is cut off, so that the next boot does not take it for durable; if even that fails, the boot judges the tail.
    fn poison(&mut self, error: io::Error) -> StoreError {
        self.is_poisoned = true;
        drop(self.folder.cut_journal(self.length));
        StoreError::write(self.folder.path(JOURNAL), error)
    }

    /// Cuts off a torn tail, durably, before anything is written after it.
    pub(super) fn cut_tail(&mut self) -> Result<(), StoreError> {
        let cut = self.folder.cut_journal(self.length).and_then(|()| self.folder.sync_journal());
        cut.map_err(|error| StoreError::write(self.folder.path(JOURNAL), error))
    }
}
