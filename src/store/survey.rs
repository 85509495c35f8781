use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL, OsFolder, PICTURE},
    line::{self, Frame},
    observe::TRIES,
    picture::{self, Picture},
    replay::Replay,
    scan::{Piece, Scanner},
    segment::Segment,
};
use crate::{
    being::{Event, OpenCall},
    vocab::{Digest, Usd, chain},
};

/// What a close look at every record of a life found, in order or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Records that are whole and in order, from the first on.
    pub records: u64,
    /// Files of the journal.
    pub files: usize,
    /// Their bytes on disk.
    pub bytes: u64,
    /// Bytes of a torn write at the end, which the next start cuts off.
    pub torn: u64,
    /// Calls that were begun and have no recorded end.
    pub open_calls: Vec<OpenCall>,
    /// What the life is by what is whole of it: of its picture as that would be drawn, its cycle and its balance.
    pub state_sha256: Option<Digest>,
    pub cycle: u64,
    pub balance_usd: Usd,
    pub picture: Sight,
    /// Where the whole records end, if anything that was acknowledged is damaged.
    pub damage: Option<Damage>,
    /// Files that are damaged though each of their records is whole.
    pub worn: Vec<Spot>,
}

/// What was found of `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    Good,
    /// There is none; it is made anew from the journal.
    Missing,
    /// No whole record names it: it was edited, or the journal lost the one that did.
    Unproven(String),
    /// It is not understood, or not as it was written though it says the same.
    Bad(String),
}

/// A place that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spot {
    pub file: PathBuf,
    /// In the unpacked lines, where the file is compressed.
    pub offset: u64,
    pub what: String,
}

/// Where a journal is damaged, and what lies behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    #[serde(flatten)]
    pub spot: Spot,
    /// The first record that is not whole.
    pub record: u64,
    /// The record whose state is known all the same, by a picture of it: up to there only history is lost.
    pub state_known_to: Option<u64>,
    /// Whole records behind the damage.
    pub behind: Lost,
}

/// Whole records that follow damage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    pub records: u64,
    pub last: u64,
    /// How many there are of each type.
    pub kinds: BTreeMap<String, u64>,
    /// Money that no known state has.
    pub debited_usd: Usd,
    pub credited_usd: Usd,
    pub granted_usd: BTreeMap<String, Usd>,
}

impl Survey {
    /// Tells whether anything is not as it was written.
    pub fn is_damaged(&self) -> bool {
        self.faults().next().is_some()
    }

    /// Everything that is not as it was written.
    pub fn faults(&self) -> impl Iterator<Item = String> {
        let spots = self.damage.iter().map(|damage| &damage.spot).chain(&self.worn);
        let picture = match &self.picture {
            Sight::Unproven(why) | Sight::Bad(why) => Some(why.clone()),
            Sight::Good | Sight::Missing => None,
        };
        spots.map(Spot::to_string).chain(picture)
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at byte {}: {}", self.file.display(), self.offset, self.what)
    }
}

/// Looks closely at a whole life, whatever its shape; `None` if there is none. Takes no lock and writes nothing.
pub fn survey(dir: &Path) -> Result<Option<Survey>, StoreError> {
    let Some(folder) = OsFolder::look(dir)? else { return Ok(None) };
    let names = || folder.names().map_err(|source| StoreError::Unreadable { path: dir.to_owned(), source });
    for _ in 1..TRIES {
        let before = names()?;
        let found = examine(&folder)?.map(|examined| examined.survey);
        // A file that was closed or compressed meanwhile looks like a missing one.
        if !found.as_ref().is_some_and(Survey::is_damaged) || names()? == before {
            return Ok(found);
        }
    }
    Ok(examine(&folder)?.map(|examined| examined.survey))
}

/// A survey, and what it was made from.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) survey: Survey,
    /// The whole records.
    pub(super) replay: Replay,
    /// The closed files whose records are all whole, and how many bytes these are.
    pub(super) closed: Vec<(Segment, u64)>,
    /// The file in which the whole records end.
    pub(super) end: End,
    /// What the being is, if the whole records do not say.
    pub(super) salvaged: Option<Replay>,
}

/// Where whole records end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    InUse,
    Closed(Segment),
    /// Before a file that is missing.
    Missing,
}

impl Examined {
    /// What the being is by all that is whole.
    pub(super) const fn known(&self) -> &Replay {
        match &self.salvaged {
            Some(salvaged) => salvaged,
            None => &self.replay,
        }
    }
}

/// Reads a life as far as it is whole, and looks at what lies behind.
pub(super) fn examine(folder: &OsFolder) -> Result<Option<Examined>, StoreError> {
    let path = folder.path(PICTURE);
    let picture = folder.open(PICTURE)?.map(|file| Picture::read(file, &path)).transpose();
    let has_picture = !matches!(picture, Ok(None));
    let (picture, refused) = match picture {
        Ok(picture) => (picture, None),
        Err(error @ (StoreError::Unparsable { .. } | StoreError::UnsupportedSchema { .. })) => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let mut reading = Reading { replay: Replay::witnessed_by(picture), closed: Vec::new(), worn: Vec::new(), end: End::InUse };
    let (segments, gap) = Segment::found(folder)?;
    let stop = reading.read(folder, (&segments, gap))?;
    let Reading { mut replay, closed, worn, end } = reading;
    let unmet = replay.witness.take();
    let mut behind = Behind { sound: replay.seq, ..Behind::default() };
    let sight = match (&stop, unmet, refused) {
        (.., Some(refused)) => {
            Sight::Bad([Some(chain(&refused)), refused.hint()].into_iter().flatten().collect::<Vec<_>>().join("; "))
        }
        // Other bytes for the same state: nothing is lost with them.
        (None, Some(own), None) if replay.state.as_ref() == Some(&own.state) => {
            Sight::Bad(chain(&replay.unknown_picture(path, &own)))
        }
        (None, Some(own), None) => Sight::Unproven(unproven(&replay, path, &own)),
        (Some(_), Some(own), None) => {
            behind.picture = Some(own);
            Sight::Unproven(format!("no whole record names {}", path.display()))
        }
        (_, None, None) if has_picture => Sight::Good,
        (_, None, None) => Sight::Missing,
    };
    let damage = match &stop {
        None => None,
        Some(stop) => {
            replay.torn = 0;
            behind.read(folder, segments.iter().skip(closed.len()), (end, stop))?;
            Some(behind.damage(stop))
        }
    };
    let salvaged = behind.salvaged;
    let picture = if salvaged.is_some() { Sight::Good } else { sight };
    let known = salvaged.as_ref().unwrap_or(&replay);
    if known.state.is_none() && damage.is_none() && !has_picture {
        return Ok(None);
    }
    let state_sha256 = known.state.as_ref().map(|state| picture::draw(state).map(Digest::of)).transpose()?;
    let sizes = sizes(folder, &segments)?;
    let survey = Survey {
        records: replay.seq,
        files: sizes.len(),
        bytes: sizes.iter().sum(),
        torn: replay.torn,
        open_calls: known.open_calls.clone(),
        state_sha256,
        cycle: known.state.as_ref().map_or(0, |state| state.cycle),
        balance_usd: known.state.as_ref().map_or(Usd::ZERO, |state| state.budget.remaining),
        picture,
        damage,
        worn,
    };
    Ok(Some(Examined { survey, replay, closed, end, salvaged }))
}

/// Says why the picture is not the journal's. One that is newer was hardly edited: a cut at the end of a record is seen by nothing else.
fn unproven(replay: &Replay, path: PathBuf, own: &Picture) -> String {
    let newest = replay.state.as_ref().map(|state| state.updated_at).filter(|at| *at < own.state.updated_at);
    let told = chain(&replay.unknown_picture(path, own));
    match newest {
        None => told,
        Some(at) => format!(
            "{told}; it is of {} and the last record of {at}, so the journal may have lost its end, and `adopt` keeps what the picture has",
            own.state.updated_at
        ),
    }
}

/// The sizes of the journal's files.
fn sizes(folder: &OsFolder, segments: &[Segment]) -> Result<Vec<u64>, StoreError> {
    let names = segments.iter().flat_map(|segment| [segment.plain_name(), segment.compressed_name()]).chain([JOURNAL.to_owned()]);
    let mut sizes = Vec::new();
    for name in names {
        let unreadable = |source| StoreError::Unreadable { path: folder.path(&name), source };
        sizes.extend(folder.file(&name)?.map(|file| file.metadata().map(|found| found.len())).transpose().map_err(unreadable)?);
    }
    Ok(sizes)
}

/// A journal that is read as far as it is whole.
struct Reading {
    replay: Replay,
    closed: Vec<(Segment, u64)>,
    worn: Vec<Spot>,
    end: End,
}

impl Reading {
    /// Yields the damage that ended it. A closed file of which every record is whole is worn, and ends nothing.
    fn read(&mut self, folder: &OsFolder, (segments, gap): (&[Segment], Option<usize>)) -> Result<Option<StoreError>, StoreError> {
        let (row, after) = segments.split_at(gap.unwrap_or(segments.len()));
        for segment in row {
            match self.replay.read_closed(folder, *segment) {
                Ok(()) => {}
                Err(error) if error.damage().is_none() => return Err(error),
                Err(error) if self.replay.seq == segment.last => self.worn.push(spot(&error)),
                Err(error) => {
                    self.end = End::Closed(*segment);
                    return Ok(Some(error));
                }
            }
            self.replay.torn = 0;
            self.closed.push((*segment, self.replay.length));
        }
        if gap.is_some() {
            self.end = End::Missing;
            return Ok(Some(Segment::missing(folder, (row, after))));
        }
        match self.replay.read_in_use(folder) {
            Err(error) if error.damage().is_some() => Ok(Some(error)),
            read => read.map(|()| None),
        }
    }
}

fn spot(error: &StoreError) -> Spot {
    let (file, offset, _) = error.damage().unwrap_or((Path::new(""), 0, 0));
    let what = match error {
        StoreError::Damaged { flaw, .. } => flaw.to_string(),
        other => chain(other),
    };
    Spot { file: file.to_owned(), offset, what }
}

/// What lies behind damage.
#[derive(Debug, Default)]
struct Behind {
    /// The last record before it.
    sound: u64,
    lost: Lost,
    /// The picture, as long as no whole checkpoint names it.
    picture: Option<Picture>,
    salvaged: Option<Replay>,
    /// Whether a record is missing after what was salvaged.
    has_gap: bool,
}

impl Behind {
    fn read<'a>(
        &mut self,
        folder: &OsFolder,
        segments: impl Iterator<Item = &'a Segment>,
        (end, stop): (End, &StoreError),
    ) -> Result<(), StoreError> {
        let mut from = stop.damage().map_or(0, |(_, offset, _)| if end == End::Missing { 0 } else { offset });
        for segment in segments {
            self.scan(segment.open(folder)?.lines, std::mem::take(&mut from));
        }
        let journal = folder.open(JOURNAL)?.unwrap_or_else(|| Box::new(io::empty()));
        self.scan(journal, from);
        Ok(())
    }

    /// Takes every whole line from `from` on, as far as the file can be read.
    fn scan(&mut self, lines: impl Read, from: u64) {
        let mut scanner = Scanner::new(lines, 0);
        while let Ok(Some(piece)) = scanner.next() {
            let frame = line::check(piece.bytes).ok().filter(|_| piece.has_newline && piece.offset >= from);
            if let Some(frame) = frame.filter(|frame| frame.seq > self.sound) {
                self.take(frame, piece);
            }
        }
    }

    fn take(&mut self, frame: Frame<'_>, piece: Piece<'_>) {
        let Ok(record) = frame.known().and_then(Frame::decode) else { return self.lost.count(frame.seq, "unknown") };
        self.lost.count(frame.seq, frame.kind);
        if let Event::Checkpoint { picture, .. } = &record.event
            && let Some(own) = self.picture.take_if(|own| own.digest == *picture)
        {
            self.salvaged = Some(Replay::after(frame.seq.saturating_sub(1), Some(own)));
            self.lost.forget_money();
        }
        let salvaged = self.salvaged.as_mut().filter(|_| !self.has_gap);
        let is_taken = salvaged.map(|salvaged| salvaged.take(frame, piece).is_ok());
        self.has_gap |= is_taken == Some(false);
        if is_taken != Some(true) {
            self.lost.count_money(&record.event);
        }
    }

    fn damage(&self, stop: &StoreError) -> Damage {
        let record = stop.damage().map_or(0, |(.., record)| record);
        let state_known_to = self.salvaged.as_ref().map(|salvaged| salvaged.seq);
        Damage { spot: spot(stop), record, state_known_to, behind: self.lost.clone() }
    }
}

impl Lost {
    fn count(&mut self, seq: u64, kind: &str) {
        self.records = self.records.saturating_add(1);
        self.last = self.last.max(seq);
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
    }

    fn count_money(&mut self, event: &Event) {
        match event {
            Event::CostDebited { amount, .. } => self.debited_usd += *amount,
            Event::RevenueCredited { amount, .. } => self.credited_usd += *amount,
            Event::FundsGranted { id, usd } => *self.granted_usd.entry(id.clone()).or_default() += *usd,
            _ => {}
        }
    }

    fn forget_money(&mut self) {
        (self.debited_usd, self.credited_usd, self.granted_usd) = (Usd::ZERO, Usd::ZERO, BTreeMap::new());
    }
}
