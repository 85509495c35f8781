use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL, PICTURE},
    line::{self, Flaw, Frame},
    picture::Picture,
    scan::{Piece, Scanner, wide},
    segment::Segment,
};
use crate::{
    being::{AgentState, OpenCall},
    vocab::Digest,
};

/// What a journal says of a life.
#[derive(Debug)]
pub(super) struct Replay {
    /// The file that is read.
    pub(super) path: PathBuf,
    /// The picture, as long as its checkpoint has not been met.
    picture: Option<Picture>,
    /// The picture that all records from the birth on have to make, as long as they have not.
    pub(super) witness: Option<Picture>,
    newest_checkpoint: Option<Digest>,
    pub(super) state: Option<AgentState>,
    pub(super) open_calls: Vec<OpenCall>,
    /// Whether `open_calls` is right: from the birth on, or from a checkpoint on.
    knows_open_calls: bool,
    /// The first record of the file in use, or the one that will be.
    pub(super) first: u64,
    /// The last good record.
    pub(super) seq: u64,
    /// Bytes of good records in the file in use.
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
    #[serde(default)]
    open_calls: Vec<OpenCall>,
}

#[derive(Deserialize)]
struct Adopted {
    #[serde(default)]
    open_calls: Vec<OpenCall>,
}

impl Replay {
    /// Reads picture and journal of a folder and changes nothing: of the journal the file in use, and of the closed ones as many as lie
    /// behind the picture. The picture is read first: its checkpoint is in the journal before it.
    pub(super) fn read(folder: &dyn Folder) -> Result<Self, StoreError> {
        let path = folder.path(PICTURE);
        let mut picture = folder.open(PICTURE)?.map(|file| Picture::read(file, &path)).transpose()?;
        let segments = Segment::all(folder)?;
        let mut closed = if picture.is_some() { 0 } else { segments.len() };
        loop {
            let from = segments.len().saturating_sub(closed);
            let mut replay = Self::read_from(folder, segments.split_at(from), picture.take())?;
            match replay.picture.take() {
                None => return Ok(replay),
                Some(unmet) if from == 0 => return Err(replay.unknown_picture(path, &unmet)),
                unmet => picture = unmet,
            }
            closed = closed.saturating_mul(4).max(1);
        }
    }

    /// Reads every record of the life, and checks that it makes the picture.
    pub(super) fn read_whole(folder: &dyn Folder) -> Result<Self, StoreError> {
        let path = folder.path(PICTURE);
        let picture = folder.open(PICTURE)?.map(|file| Picture::read(file, &path)).transpose()?;
        let mut replay = Self::witnessed_by(picture);
        replay.read_all(folder, &Segment::all(folder)?)?;
        match replay.witness.take() {
            Some(own) if replay.newest_checkpoint == Some(own.digest) => Err(StoreError::Diverged { path }),
            Some(own) => Err(replay.unknown_picture(path, &own)),
            None => Ok(replay),
        }
    }

    /// Begins at the birth; the picture has to be what the records make at one of its checkpoints.
    pub(super) fn witnessed_by(picture: Option<Picture>) -> Self {
        let mut replay = Self::after(0, None);
        replay.picture_length = picture.as_ref().map(|picture| picture.length);
        replay.witness = picture;
        replay
    }

    fn read_from(
        folder: &dyn Folder,
        (before, segments): (&[Segment], &[Segment]),
        picture: Option<Picture>,
    ) -> Result<Self, StoreError> {
        let mut replay = Self::after(before.last().map_or(0, |segment| segment.last), picture);
        replay.read_all(folder, segments)?;
        Ok(replay)
    }

    fn read_all(&mut self, folder: &dyn Folder, segments: &[Segment]) -> Result<(), StoreError> {
        segments.iter().try_for_each(|segment| self.read_closed(folder, *segment))?;
        self.read_in_use(folder)
    }

    /// Reads a closed file.
    pub(super) fn read_closed(&mut self, folder: &dyn Folder, segment: Segment) -> Result<(), StoreError> {
        let source = segment.open(folder)?;
        self.read_file(source.lines, folder.path(&source.name))?;
        self.refuse_incomplete(segment, (source.is_compressed, source.has_own_header))
    }

    /// Reads the file in use.
    pub(super) fn read_in_use(&mut self, folder: &dyn Folder) -> Result<(), StoreError> {
        let journal = folder.open(JOURNAL)?.unwrap_or_else(|| Box::new(io::empty()));
        self.read_file(journal, folder.path(JOURNAL))
    }

    /// Reads a journal of one file from its first line.
    #[cfg(test)]
    pub(super) fn of(journal: impl Read, path: &Path, picture: Option<Picture>) -> Result<Self, StoreError> {
        let mut replay = Self::after(0, picture);
        replay.read_file(journal, path.to_owned())?;
        Ok(replay)
    }

    pub(super) fn after(seq: u64, picture: Option<Picture>) -> Self {
        Self {
            path: PathBuf::new(),
            picture_length: picture.as_ref().map(|picture| picture.length),
            picture,
            witness: None,
            newest_checkpoint: None,
            state: None,
            open_calls: Vec::new(),
            knows_open_calls: seq == 0,
            first: seq.saturating_add(1),
            seq,
            length: 0,
            since_picture: 0,
            torn: 0,
        }
    }

    /// Reads one file: every line is checked, what the picture does not cover is applied.
    fn read_file(&mut self, lines: impl Read, path: PathBuf) -> Result<(), StoreError> {
        (self.path, self.first, self.length) = (path, self.seq.saturating_add(1), 0);
        let mut scanner = Scanner::new(lines, 0);
        while self.read_line(&mut scanner)? {}
        Ok(())
    }

    /// A closed file was made durable before it was closed: it has no torn tail and no record too few.
    fn refuse_incomplete(&self, segment: Segment, (is_compressed, has_own_header): (bool, bool)) -> Result<(), StoreError> {
        let flaw = match self.seq == segment.last {
            true if self.torn == 0 && has_own_header => return Ok(()),
            true if self.torn == 0 => Flaw::Header,
            true => Flaw::Trailing,
            false if is_compressed => Flaw::Compression,
            false => Flaw::EndsEarly,
        };
        let offset = if flaw == Flaw::Header { 0 } else { self.length };
        Err(StoreError::Damaged { path: self.path.clone(), offset, seq: self.seq.saturating_add(1), flaw })
    }

    /// Takes the next line; `false` at the end or before a torn tail.
    fn read_line(&mut self, scanner: &mut Scanner<impl Read>) -> Result<bool, StoreError> {
        let unreadable = |source| unreadable(&self.path, self.length, self.seq.saturating_add(1), source);
        let Some(piece) = scanner.next().map_err(unreadable)? else { return Ok(false) };
        let (offset, expected) = (piece.offset, self.seq.saturating_add(1));
        let damaged = |flaw| StoreError::Damaged { path: self.path.clone(), offset, seq: expected, flaw };
        let flaw = match line::check(piece.bytes) {
            Ok(frame) if piece.has_newline => return self.take(frame, piece).map(|()| true),
            Ok(_) => Flaw::Unsealed,
            Err(flaw) => flaw,
        };
        piece.torn(flaw).map_err(damaged)?;
        if !scanner.is_rest_of_write(expected).map_err(unreadable)? {
            return Err(damaged(Flaw::Acknowledged));
        }
        self.torn = scanner.offset().saturating_sub(self.length);
        Ok(false)
    }

    pub(super) fn take(&mut self, frame: Frame<'_>, piece: Piece<'_>) -> Result<(), StoreError> {
        let (offset, expected) = (piece.offset, self.seq.saturating_add(1));
        if frame.seq != expected {
            return Err(StoreError::OutOfOrder { path: self.path.clone(), offset, expected, found: frame.seq });
        }
        let understood = frame.known().and_then(|frame| self.advance(frame, expected)).and_then(|()| self.note(frame));
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

    /// Keeps account of open calls and of the picture's checkpoint.
    fn note(&mut self, frame: Frame<'_>) -> serde_json::Result<()> {
        match frame.kind {
            "tool_started" => {
                let Call { call_id, tool } = frame.part()?;
                self.open_calls.push(OpenCall { call_id, tool, cycle: frame.cycle });
            }
            "tool_finished" => {
                let ended: Call = frame.part()?;
                close(&mut self.open_calls, &ended.call_id, &ended.tool);
            }
            "checkpoint" => {
                let Checkpoint { picture, open_calls } = frame.part()?;
                self.newest_checkpoint = Some(picture);
                let state = self.state.as_ref();
                self.witness.take_if(|own| own.digest == picture && state == Some(&own.state));
                if !self.knows_open_calls {
                    (self.open_calls, self.knows_open_calls) = (open_calls, true);
                }
                if let Some(own) = self.picture.take_if(|own| own.digest == picture) {
                    self.state = Some(own.state);
                    self.since_picture = 0;
                }
            }
            "adopted" => {
                let Adopted { open_calls } = frame.part()?;
                (self.open_calls, self.knows_open_calls) = (open_calls, true);
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

    /// Says that no checkpoint of the whole journal made the picture.
    pub(super) fn unknown_picture(&self, path: PathBuf, own: &Picture) -> StoreError {
        match self.seq {
            0 => StoreError::NoJournal { picture: path, journal: self.path.clone() },
            _ => StoreError::Edited { path, found: own.digest, expected: self.newest_checkpoint },
        }
    }
}

/// Strikes a call off the open ones.
pub(super) fn close(open_calls: &mut Vec<OpenCall>, call_id: &str, tool: &str) {
    if let Some(index) = open_calls.iter().position(|open| open.call_id == call_id && open.tool == tool) {
        open_calls.remove(index);
    }
}

/// Tells a compressed file that is damaged from one that cannot be read.
pub(super) fn unreadable(path: &Path, offset: u64, seq: u64, source: io::Error) -> StoreError {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match source.kind() {
        InvalidData | InvalidInput | UnexpectedEof => {
            StoreError::Damaged { path: path.to_owned(), offset, seq, flaw: Flaw::Compression }
        }
        _ => StoreError::Unreadable { path: path.to_owned(), source },
    }
}
