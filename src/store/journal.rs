use std::io;

use super::{
    commit::{LONGEST_SHARED, Share},
    error::StoreError,
    folder::{Folder, JOURNAL},
    line::{self, MAX_LINE},
    scan::wide,
    segment::Segment,
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
    /// The first record of the file in use, or the one that will be.
    first: u64,
    /// Bytes of acknowledged records in the file in use.
    pub(super) length: u64,
    /// A write or a sync failed: what is on disk past `length` is unknown, so nothing more is acknowledged.
    is_poisoned: bool,
    buffer: Vec<u8>,
    /// Where records of many lives are made durable together.
    share: Option<Share>,
}

/// A buffer that grew past this is given back.
const KEPT_BUFFER: usize = 1 << 20;

impl Journal {
    pub(super) const fn new(folder: Box<dyn Folder>, first: u64, seq: u64, length: u64) -> Self {
        Self { folder, seq, first, length, is_poisoned: false, buffer: Vec::new(), share: None }
    }

    /// Makes records durable in a log from now on.
    pub(super) fn share(&mut self, share: Option<Share>) {
        self.share = share;
    }

    /// Makes what a log vouched for durable in the journal itself, and lets the log forget it.
    pub(super) async fn let_go(&mut self) -> Result<(), StoreError> {
        let Some(share) = self.share.take() else { return Ok(()) };
        let synced = blocking(|| self.folder.sync(JOURNAL));
        let done = match synced {
            Ok(()) => share.let_go().await,
            Err(error) => Err(error),
        };
        done.map_err(|source| StoreError::write(self.folder.path(JOURNAL), source))
    }

    /// Closes the file in use, durably: the next record begins a new one. After an error it is still in use.
    pub(super) fn rotate(&mut self) -> Result<(), StoreError> {
        let segment = Segment { first: self.first, last: self.seq };
        self.folder.sync(JOURNAL).map_err(|error| self.poison(error))?;
        let renamed = self.folder.rename(JOURNAL, &segment.plain_name());
        renamed.map_err(|source| StoreError::write(self.folder.path(JOURNAL), source))?;
        (self.first, self.length) = (self.seq.saturating_add(1), 0);
        Ok(())
    }

    /// Makes events durable in the journal itself, in one write and one sync. When it fails, none is acknowledged and the journal takes no more.
    pub(super) fn commit(&mut self, events: &[Event], cycle: u64, at: Timestamp) -> Result<Vec<Record>, StoreError> {
        let records = self.prepare(events, cycle, at)?;
        self.write()?;
        Ok(self.acknowledge(records))
    }

    /// Makes events durable together with those of other lives, where a log is shared. When it fails, none is acknowledged.
    pub(super) async fn commit_shared(&mut self, events: &[Event], cycle: u64, at: Timestamp) -> Result<Vec<Record>, StoreError> {
        // A new file's name has to be made durable too, and what is long gains nothing.
        let share = self.share.clone().filter(|_| self.length > 0);
        let records = self.prepare(events, cycle, at)?;
        match share.filter(|_| self.buffer.len() <= LONGEST_SHARED) {
            None => blocking(|| self.write())?,
            Some(share) => {
                self.folder.append(JOURNAL, &self.buffer).map_err(|error| self.poison(error))?;
                share.commit(self.buffer.clone()).await.map_err(|error| self.poison(error))?;
            }
        }
        Ok(self.acknowledge(records))
    }

    fn prepare(&mut self, events: &[Event], cycle: u64, at: Timestamp) -> Result<Vec<Record>, StoreError> {
        if self.is_poisoned {
            return Err(StoreError::Poisoned { path: self.folder.path(JOURNAL) });
        }
        let first = self.seq.saturating_add(1);
        let records: Vec<Record> =
            (first..).zip(events).map(|(seq, event)| Record { seq, at, cycle, event: event.clone() }).collect();
        self.encode(&records, first)?;
        Ok(records)
    }

    fn acknowledge(&mut self, records: Vec<Record>) -> Vec<Record> {
        self.seq = records.last().map_or(self.seq, |record| record.seq);
        self.length = self.length.saturating_add(wide(self.buffer.len()));
        records
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
        let written = self.folder.append(JOURNAL, &self.buffer).and_then(|()| self.folder.sync(JOURNAL));
        let named = if self.length == 0 { written.and_then(|()| self.folder.sync_names()) } else { written };
        named.map_err(|error| self.poison(error))
    }

    /// Never syncs again: after a failed sync the kernel may call pages clean that never reached the disk. What was not
    /// acknowledged is cut off, so that the next boot does not take it for durable; if even that fails, the boot judges the tail.
    fn poison(&mut self, error: io::Error) -> StoreError {
        self.is_poisoned = true;
        drop(self.folder.cut(JOURNAL, self.length));
        StoreError::write(self.folder.path(JOURNAL), error)
    }

    /// Cuts off a torn tail, durably, before anything is written after it.
    pub(super) fn cut_tail(&mut self) -> Result<(), StoreError> {
        let cut = self.folder.cut(JOURNAL, self.length).and_then(|()| self.folder.sync(JOURNAL));
        cut.map_err(|error| StoreError::write(self.folder.path(JOURNAL), error))
    }
}

/// Lets other tasks of the thread go on while files are waited for, where a runtime has other threads.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
