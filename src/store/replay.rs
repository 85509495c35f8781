use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL, PICTURE},
    line::{self, Frame},
    picture::Picture,
    scan::{Piece, Scanner, wide},
};
use crate::{being::AgentState, vocab::Digest};

/// A tool call that was begun and has no recorded end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    pub call_id: String,
    pub tool: String,
    pub cycle: u64,
}

/// What a journal says of a life.
#[derive(Debug)]
pub(super) struct Replay {
    path: PathBuf,
    /// The picture, as long as its checkpoint has not been met.
    picture: Option<Picture>,
    newest_checkpoint: Option<Digest>,
    pub(super) state: Option<AgentState>,
    pub(super) open_calls: Vec<OpenCall>,
    /// The last good record.
    pub(super) seq: u64,
    /// Bytes of good records.
    pub(super) length: u64,
    /// Bytes of good records that the picture does not cover.
    pub(super) since_picture: u64,
    /// Bytes of the torn tail that follows the good records.
    pub(super) torn: u64,
    /// The size of the picture, if there is one.
    pub(super) picture_length: Option<u64>,
}

#[derive(Deserialize)]
struct Call {
    call_id: String,
    tool: String,
}

#[derive(Deserialize)]
struct Checkpoint {
    picture: Digest,
}

impl Replay {
    /// Reads picture and journal of a folder and changes nothing. The picture comes first: a checkpoint is in the journal before it.
    pub(super) fn read(folder: &dyn Folder) -> Result<Self, StoreError> {
        let path = folder.path(PICTURE);
        let picture = folder.open(PICTURE)?.map(|file| Picture::read(file, &path)).transpose()?;
        let journal = folder.open(JOURNAL)?.unwrap_or_else(|| Box::new(io::empty()));
        let mut replay = Self::of(journal, &folder.path(JOURNAL), picture)?;
        replay.refuse_unknown_picture(&path)?;
        Ok(replay)
    }

    /// Reads a whole journal: every line is checked, what the picture does not cover is applied.
    pub(super) fn of(journal: impl Read, path: &Path, picture: Option<Picture>) -> Result<Self, StoreError> {
        let mut replay = Self {
            path: path.to_owned(),
            picture_length: picture.as_ref().map(|picture| picture.length),
            picture,
            newest_checkpoint: None,
            state: None,
            open_calls: Vec::new(),
            seq: 0,
            length: 0,
            since_picture: 0,
            torn: 0,
        };
        let mut scanner = Scanner::new(journal, 0);
        while replay.read_line(&mut scanner)? {}
        Ok(replay)
    }

    /// Takes the next line; `false` at the end or before a torn tail.
    fn read_line(&mut self, scanner: &mut Scanner<impl Read>) -> Result<bool, StoreError> {
        let unreadable = |source| StoreError::Unreadable { path: self.path.clone(), source };
        let Some(piece) = scanner.next().map_err(unreadable)? else { return Ok(false) };
        let (offset, expected) = (piece.offset, self.seq.saturating_add(1));
        let damaged = |flaw| StoreError::Damaged { path: self.path.clone(), offset, seq: expected, flaw };
        let flaw = match line::check(piece.bytes) {
            Ok(frame) if piece.has_newline => return self.take(frame, piece).map(|()| true),
            Ok(_) => line::Flaw::Unsealed,
            Err(flaw) => flaw,
        };
        piece.torn(flaw).map_err(damaged)?;
        if !scanner.is_rest_of_write(expected).map_err(unreadable)? {
            return Err(damaged(line::Flaw::Acknowledged));
        }
        self.torn = scanner.offset().saturating_sub(self.length);
        Ok(false)
    }

    fn take(&mut self, frame: Frame<'_>, piece: Piece<'_>) -> Result<(), StoreError> {
        let (offset, expected) = (piece.offset, self.seq.saturating_add(1));
        if frame.seq != expected {
            return Err(StoreError::OutOfOrder { path: self.path.clone(), offset, expected, found: frame.seq });
        }
        let understood = frame.known().and_then(|frame| self.note(frame)).and_then(|()| self.advance(frame, expected));
        understood.map_err(|source| StoreError::UnknownRecord { path: self.path.clone(), offset, seq: expected, source })?;
        if self.picture.is_none() && self.state.is_none() {
            return Err(StoreError::NoBirth { path: self.path.clone() });
        }
        let bytes = wide(piece.bytes.len()).saturating_add(1);
        self.seq = expected;
        self.length = self.length.saturating_add(bytes);
        self.since_picture = self.since_picture.saturating_add(bytes);
        Ok(())
    }

    /// Keeps account of open calls and of the picture's checkpoint, over the whole life.
    fn note(&mut self, frame: Frame<'_>) -> serde_json::Result<()> {
        match frame.kind {
            "tool_started" => {
                let Call { call_id, tool } = frame.part()?;
                self.open_calls.push(OpenCall { call_id, tool, cycle: frame.cycle });
            }
            "tool_finished" => {
                let ended: Call = frame.part()?;
                let is_it = |open: &OpenCall| open.call_id == ended.call_id && open.tool == ended.tool;
                if let Some(index) = self.open_calls.iter().position(is_it) {
                    self.open_calls.remove(index);
                }
            }
            "checkpoint" => {
                let Checkpoint { picture } = frame.part()?;
                self.newest_checkpoint = Some(picture);
                if let Some(own) = self.picture.take_if(|own| own.digest == picture) {
                    self.state = Some(own.state);
                    self.since_picture = 0;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn advance(&mut self, frame: Frame<'_>, seq: u64) -> serde_json::Result<()> {
        match &mut self.state {
            Some(state) => state.apply(&frame.decode()?),
            None if self.picture.is_none() && seq == 1 => self.state = AgentState::born(&frame.decode()?),
            None => {}
        }
        Ok(())
    }

    /// Refuses a picture that no checkpoint of the journal made.
    fn refuse_unknown_picture(&mut self, path: &Path) -> Result<(), StoreError> {
        let path = path.to_owned();
        match self.picture.take() {
            None => Ok(()),
            Some(_) if self.seq == 0 => Err(StoreError::NoJournal { picture: path, journal: self.path.clone() }),
            Some(own) => Err(StoreError::Edited { path, found: own.digest, expected: self.newest_checkpoint }),
        }
    }
}
