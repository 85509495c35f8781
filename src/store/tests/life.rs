use std::path::Path;

use futures::FutureExt as _;

use crate::{
    being::{AgentState, Event, Record},
    store::{self, Boot, Opening, Recovered, StoreError, folder::Folder},
    vocab::Timestamp,
};

/// A life with the state that its records make, as whoever animates a being has both.
#[derive(Debug)]
pub(super) struct Life {
    inner: store::Life,
    state: AgentState,
}

impl Life {
    pub(super) fn open(dir: &Path, boot: Boot, at: Timestamp) -> Result<(Self, Recovered), StoreError> {
        Self::begin(store::Life::open(dir, boot)?, at)
    }

    pub(super) fn open_in(folder: Box<dyn Folder>, boot: Boot, at: Timestamp) -> Result<(Self, Recovered), StoreError> {
        Self::begin(store::Life::open_in(folder, boot)?, at)
    }

    /// A life whose journal is closed, and begun anew, whenever a picture is drawn after so many bytes.
    pub(super) fn in_files_of(
        bytes: u64,
        folder: Box<dyn Folder>,
        boot: Boot,
        at: Timestamp,
    ) -> Result<(Self, Recovered), StoreError> {
        let mut opening = store::Life::open_in(folder, boot)?;
        opening.longest_file = bytes;
        Self::begin(opening, at)
    }

    fn begin(opening: Opening, at: Timestamp) -> Result<(Self, Recovered), StoreError> {
        let (inner, state, recovered) = opening.begin(at)?;
        Ok((Self { inner, state }, recovered))
    }

    pub(super) const fn state(&self) -> &AgentState {
        &self.state
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests write the events in place")]
    pub(super) fn append(&mut self, events: Vec<Event>, cycle: u64, at: Timestamp) -> Result<Vec<Record>, StoreError> {
        let records = self.inner.append(&events, cycle, at).now_or_never().expect("a life alone waits for nobody")?;
        records.iter().for_each(|record| self.state.apply(record));
        Ok(records)
    }

    pub(super) fn wants_checkpoint(&self) -> bool {
        self.inner.wants_checkpoint()
    }

    pub(super) fn checkpoint(&mut self, at: Timestamp) -> Result<(), StoreError> {
        self.inner.checkpoint(&self.state, at)
    }

    pub(super) fn close(mut self, at: Timestamp) -> Result<(), StoreError> {
        self.inner.close(&self.state, at).now_or_never().expect("a life alone waits for nobody")
    }
}
