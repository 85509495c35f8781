use std::{io, path::Path};

use super::{
    commit::CommitLog,
    error::StoreError,
    folder::{Folder, OsFolder, PICTURE},
    journal::{Journal, blocking},
    picture,
    replay::{self, Replay},
    scan::wide,
    segment,
};
use crate::{
    being::{AgentState, Birth, DeclaredIdentity, Event, Identity, OpenCall, Record},
    vocab::{Digest, Timestamp},
};

/// How a life may begin (SPEC §3, Boot).
#[derive(Debug, Clone)]
pub enum Boot {
    /// A new being; refused where one exists.
    Fresh { birth: Box<Birth> },
    /// The being that exists; refused where none does or its identity is not the declared one.
    Resume { declared: Box<DeclaredIdentity> },
    /// Whichever is the case: the reconciler's way.
    Either { birth: Box<Birth>, declared: Box<DeclaredIdentity> },
}

/// What came up while a life was opened.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Sentences for the operator.
    pub warnings: Vec<String>,
    /// Calls that were begun and have no recorded end: their effect is unknown and they are never made again.
    pub open_calls: Vec<OpenCall>,
}

/// A state directory that is locked and read, before anything is written.
#[derive(Debug)]
pub struct Opening {
    journal: Journal,
    stored: Option<AgentState>,
    birth: Option<Box<Birth>>,
    replay: Replay,
    /// The journal's file in use is closed when it is longer than this.
    pub(super) longest_file: u64,
}

/// One being's open state directory, held by this process alone. The state itself belongs to whoever animates the being.
#[derive(Debug)]
pub struct Life {
    journal: Journal,
    /// Calls that were begun and have no recorded end.
    open_calls: Vec<OpenCall>,
    /// Bytes of records since the last picture was drawn.
    since_picture: u64,
    picture_length: u64,
    longest_file: u64,
}

/// A journal shorter than this is replayed in no time, so no picture is drawn for it.
const SMALL_JOURNAL: u64 = 64 << 10;
/// What has to be read to go on with a life, besides the picture, is not much longer than this.
const LONGEST_FILE: u64 = 1 << 20;

impl Opening {
    /// Who the being is, or will be.
    pub fn identity(&self) -> Option<&Identity> {
        let stored = self.stored.as_ref().map(|state| &state.identity);
        stored.or_else(|| self.birth.as_ref().map(|birth| &birth.identity))
    }

    /// Makes the life's records durable together with those of others, in the log of its home.
    #[must_use]
    pub fn sharing(mut self, log: &CommitLog) -> Self {
        self.journal.share(log.share(&self.journal.folder.path("")));
        self
    }

    /// Cleans up what a crash left, and records that the being `started`.
    pub fn begin(self, at: Timestamp) -> Result<(Life, AgentState, Recovered), StoreError> {
        let Self { mut journal, stored, birth, replay, longest_file } = self;
        let mut warnings = clean_up(&mut journal, replay.torn)?;
        let cycle = stored.as_ref().map_or(0, |state| state.cycle);
        let before = journal.length;
        let started = journal.commit(&[Event::Started { birth }], cycle, at)?;
        journal.folder.sync_names().map_err(|error| StoreError::write(journal.folder.path(""), error))?;
        let state = begin(stored, &started).ok_or_else(|| StoreError::NoBirth { path: journal.folder.path(PICTURE) })?;
        let since_picture = replay.since_picture.saturating_add(journal.length.saturating_sub(before));
        let open_calls = replay.open_calls.clone();
        let picture_length = replay.picture_length.unwrap_or(0);
        let mut life = Life { journal, open_calls, since_picture, picture_length, longest_file };
        warnings.extend(life.compress().err().map(|error| error.to_string()));
        if replay.picture_length.is_none() || life.wants_checkpoint() {
            warnings.extend(life.try_checkpoint(&state, at)?);
        }
        Ok((life, state, Recovered { warnings, open_calls: replay.open_calls }))
    }
}

impl Life {
    /// Locks and reads a state directory, and decides whether a life may begin or go on. A refusal changes nothing.
    pub fn open(dir: &Path, boot: Boot) -> Result<Opening, StoreError> {
        if matches!(boot, Boot::Resume { .. }) && OsFolder::look(dir)?.is_none() {
            return Err(StoreError::NothingToResume);
        }
        Self::open_in(Box::new(OsFolder::lock(dir)?), boot)
    }

    pub(super) fn open_in(folder: Box<dyn Folder>, boot: Boot) -> Result<Opening, StoreError> {
        let mut replay = Replay::read(folder.as_ref())?;
        let stored = replay.state.take();
        let birth = admit(boot, stored.as_ref(), folder.as_ref())?;
        let journal = Journal::new(folder, replay.first, replay.seq, replay.length);
        Ok(Opening { journal, stored, birth, replay, longest_file: LONGEST_FILE })
    }

    /// A life as it was read, without anyone who animates it. A torn tail is cut off.
    pub(super) fn at_rest(folder: Box<dyn Folder>, replay: &Replay) -> Result<Self, StoreError> {
        let mut journal = Journal::new(folder, replay.first, replay.seq, replay.length);
        if replay.torn > 0 {
            journal.cut_tail()?;
        }
        let open_calls = replay.open_calls.clone();
        Ok(Self { journal, open_calls, since_picture: 0, picture_length: 0, longest_file: LONGEST_FILE })
    }

    /// Records what the being is from here on, and draws it.
    pub(super) fn adopt(&mut self, state: &AgentState, open_calls: &[OpenCall], at: Timestamp) -> Result<(), StoreError> {
        let event = Event::Adopted { state: Box::new(state.clone()), open_calls: open_calls.to_owned() };
        self.journal.commit(&[event], state.cycle, at)?;
        self.open_calls = open_calls.to_owned();
        self.checkpoint(state, at)
    }

    /// Makes facts durable: one write, and one sync that other lives may share. After an error the life takes no more of them.
    pub async fn append(&mut self, events: &[Event], cycle: u64, at: Timestamp) -> Result<Vec<Record>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let before = self.journal.length;
        let records = self.journal.commit_shared(events, cycle, at).await?;
        self.note(&records, before);
        Ok(records)
    }

    /// Keeps account of what was appended.
    fn note(&mut self, records: &[Record], length_before: u64) {
        self.since_picture = self.since_picture.saturating_add(self.journal.length.saturating_sub(length_before));
        for record in records {
            match &record.event {
                Event::ToolStarted { call_id, tool, .. } => {
                    self.open_calls.push(OpenCall { call_id: call_id.clone(), tool: tool.clone(), cycle: record.cycle });
                }
                Event::ToolFinished { call_id, tool, .. } => replay::close(&mut self.open_calls, call_id, tool),
                Event::Adopted { open_calls, .. } => self.open_calls.clone_from(open_calls),
                _ => {}
            }
        }
    }

    /// Tells whether the journal outgrew the picture, so that drawing a new one costs no more per record than writing it did.
    pub fn wants_checkpoint(&self) -> bool {
        self.since_picture > self.picture_length.max(SMALL_JOURNAL)
    }

    /// Draws the picture anew, in mid-cycle too, of the state that all records so far make, and closes the journal's file when it is
    /// long. After a harmless error the life goes on: the journal has everything.
    pub fn checkpoint(&mut self, state: &AgentState, at: Timestamp) -> Result<(), StoreError> {
        let bytes = picture::draw(state)?;
        let is_long = self.journal.length > self.longest_file;
        if is_long {
            self.journal.rotate()?;
        }
        let event = Event::Checkpoint { picture: Digest::of(&bytes), open_calls: self.open_calls.clone() };
        self.journal.commit(&[event], state.cycle, at)?;
        self.since_picture = 0;
        self.replace_picture(&bytes).map_err(|source| StoreError::NoPicture { path: self.journal.folder.path(PICTURE), source })?;
        self.picture_length = wide(bytes.len());
        if is_long { self.compress() } else { Ok(()) }
    }

    fn compress(&mut self) -> Result<(), StoreError> {
        let folder = self.journal.folder.as_mut();
        segment::compress_all(folder).map_err(|source| StoreError::NotCompressed { path: folder.path(""), source })
    }

    /// Draws the picture if that can be done; the warning, if not.
    fn try_checkpoint(&mut self, state: &AgentState, at: Timestamp) -> Result<Option<String>, StoreError> {
        match self.checkpoint(state, at) {
            Err(error) if error.is_harmless() => Ok(Some(error.to_string())),
            other => other.map(|()| None),
        }
    }

    fn replace_picture(&mut self, bytes: &[u8]) -> io::Result<()> {
        let folder = self.journal.folder.as_mut();
        let temporary = format!("{TEMPORARY_START}{}{TEMPORARY_END}", self.journal.seq);
        let replaced = folder.create(&temporary, bytes).and_then(|()| folder.rename(&temporary, PICTURE));
        if replaced.is_err() {
            drop(folder.remove(&temporary));
        }
        replaced.and_then(|()| folder.sync_names())
    }

    /// Ends the use of the directory: draws a last picture if anything came after the one before. Dropping the life lets the lock go.
    pub async fn close(&mut self, state: &AgentState, at: Timestamp) -> Result<(), StoreError> {
        let drawn = if self.since_picture > 0 { blocking(|| self.checkpoint(state, at)) } else { Ok(()) };
        if drawn.as_ref().is_err_and(|error| !error.is_harmless()) {
            return drawn;
        }
        self.journal.let_go().await.and(drawn)
    }
}

/// Removes a being's state for good. Refused while any process holds it.
pub fn remove(dir: &Path) -> Result<(), StoreError> {
    let _held = OsFolder::lock(dir)?;
    std::fs::remove_dir_all(dir).map_err(|source| StoreError::write(dir.to_owned(), source))
}

const TEMPORARY_START: &str = ".state-";
const TEMPORARY_END: &str = ".tmp";

/// Decides the four cases of SPEC §3; a birth if a life begins.
fn admit(boot: Boot, stored: Option<&AgentState>, folder: &dyn Folder) -> Result<Option<Box<Birth>>, StoreError> {
    match (boot, stored) {
        (Boot::Fresh { birth } | Boot::Either { birth, .. }, None) => Ok(Some(birth)),
        (Boot::Fresh { .. }, Some(_)) => Err(StoreError::AlreadyExists { path: folder.path(PICTURE) }),
        (Boot::Resume { .. }, None) => Err(StoreError::NothingToResume),
        (Boot::Resume { declared } | Boot::Either { declared, .. }, Some(state)) => {
            if declared.matches(&state.identity) {
                return Ok(None);
            }
            Err(StoreError::OtherIdentity { fields: differences(&declared, state) })
        }
    }
}

/// Names the declared fields that are not as they were at birth.
fn differences(declared: &DeclaredIdentity, state: &AgentState) -> Vec<String> {
    let fields = |value| match value {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let stored = fields(serde_json::to_value(&state.identity));
    let declared = fields(serde_json::to_value(declared)).into_iter();
    declared.filter(|(name, value)| !value.is_null() && stored.get(name) != Some(value)).map(|(name, _)| name).collect()
}

/// Removes what a crash left: a torn tail and half-made pictures.
fn clean_up(journal: &mut Journal, torn: u64) -> Result<Vec<String>, StoreError> {
    let mut warnings = Vec::new();
    if torn > 0 {
        journal.cut_tail()?;
        let path = journal.folder.path(super::folder::JOURNAL);
        warnings.push(format!("{} ended in a torn write: {torn} bytes at byte {} were cut off", path.display(), journal.length));
    }
    let unreadable = |source| StoreError::Unreadable { path: journal.folder.path(""), source };
    let names = journal.folder.names().map_err(unreadable)?;
    for name in names.iter().filter(|name| name.starts_with(TEMPORARY_START) && name.ends_with(TEMPORARY_END)) {
        journal.folder.remove(name).map_err(|source| StoreError::write(journal.folder.path(name), source))?;
    }
    Ok(warnings)
}

fn begin(stored: Option<AgentState>, started: &[Record]) -> Option<AgentState> {
    let record = started.first()?;
    match stored {
        None => AgentState::born(record),
        Some(mut state) => {
            state.apply(record);
            Some(state)
        }
    }
}
