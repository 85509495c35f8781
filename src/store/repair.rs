use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{
    error::StoreError,
    folder::{Folder, JOURNAL, LOCK, OsFolder, PICTURE},
    life::Life,
    replay::Replay,
    rescue::{self, Draft, RescueError, append, aside},
    segment::Segment,
    survey::{End, Examined, Sight, Survey, examine},
};
use crate::vocab::Timestamp;

/// What a repair found, and what it did.
#[derive(Debug)]
pub struct Repair {
    /// The life as it was found.
    pub found: Survey,
    pub done: Done,
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// All was whole.
    Nothing,
    /// Nothing yet: records, or an edit, would be lost, and nobody agreed to that.
    NeedsConsent,
    /// The picture was made anew from the journal. What was there is kept under this name.
    Redrawn { original: Option<PathBuf> },
    /// A new life of all that was whole is in place. The damaged one is kept, byte for byte, as this folder.
    Rewritten { original: PathBuf },
}

/// Keeps what is whole of a life: its records up to the first that is not, and the state as far as it is known. Never changes a byte of what was
/// there; where records or an edit are lost, only with consent.
pub fn repair(dir: &Path, has_consent: bool, at: Timestamp) -> Result<Repair, RescueError> {
    let no_life = || RescueError::NoLife { dir: dir.to_owned() };
    OsFolder::look(dir)?.ok_or_else(no_life)?;
    let folder = OsFolder::lock(dir)?;
    let examined = examine(&folder)?.ok_or_else(no_life)?;
    let found = examined.survey.clone();
    let would_lose = found.damage.is_some() || matches!(found.picture, Sight::Unproven(_));
    let done = if examined.known().state.is_none() {
        return Err(RescueError::NothingWhole { dir: dir.to_owned() });
    } else if would_lose && !has_consent {
        Done::NeedsConsent
    } else if found.damage.is_some() || !found.worn.is_empty() {
        rewrite(dir, &folder, &examined, at)?
    } else if found.picture == Sight::Good {
        Done::Nothing
    } else {
        redraw(folder, &examined.replay, at)?
    };
    Ok(Repair { found, done })
}

/// Draws the picture that the journal makes.
fn redraw(mut folder: OsFolder, replay: &Replay, at: Timestamp) -> Result<Done, RescueError> {
    let Some(state) = &replay.state else { return Ok(Done::Nothing) };
    let original = put_aside(&mut folder, "damaged")?;
    Life::at_rest(Box::new(folder), replay)?.checkpoint(state, at)?;
    Ok(Done::Redrawn { original })
}

/// Gives the picture another name, durably.
pub(super) fn put_aside(folder: &mut OsFolder, word: &str) -> Result<Option<PathBuf>, RescueError> {
    let picture = folder.path(PICTURE);
    if folder.file(PICTURE).map_err(StoreError::Access)?.is_none() {
        return Ok(None);
    }
    let kept = aside(&picture, word);
    let name = kept.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let renamed = folder.rename(PICTURE, &name).and_then(|()| folder.sync_names());
    RescueError::failed("rename", &picture, renamed)?;
    Ok(Some(kept))
}

/// Makes a new life of all that is whole beside the damaged one, and exchanges the two.
fn rewrite(dir: &Path, folder: &OsFolder, examined: &Examined, at: Timestamp) -> Result<Done, RescueError> {
    let draft = Draft::new(aside(dir, "damaged"));
    let mut new = OsFolder::lock(draft.path())?;
    let path = new.path("");
    copy_records(folder, &mut new, examined).map_err(|source| StoreError::write(path, source))?;
    let kept = Replay::read_whole(&new)?;
    let mut life = Life::at_rest(Box::new(new), &kept)?;
    let known = examined.known();
    let Some(state) = &known.state else { return Err(RescueError::NothingWhole { dir: dir.to_owned() }) };
    match &examined.salvaged {
        Some(_) => life.adopt(state, &known.open_calls, at)?,
        None => life.checkpoint(state, at)?,
    }
    let is_other = |inner: &str| inner != JOURNAL && inner != PICTURE && Segment::named(inner).is_none();
    for inner in rescue::tree(dir, &is_other)? {
        rescue::write(draft.path(), &inner, &mut rescue::open(dir, &inner)?)?;
    }
    Ok(Done::Rewritten { original: draft.exchange(dir)? })
}

/// Writes every whole record, each under the kind of file that it was in.
fn copy_records(folder: &OsFolder, new: &mut OsFolder, examined: &Examined) -> std::io::Result<()> {
    let unpacked = |segment: Segment| segment.open(folder).map_err(std::io::Error::other);
    for (segment, whole) in &examined.closed {
        append(new, &segment.plain_name(), &mut unpacked(*segment)?.lines.take(*whole))?;
    }
    let whole = examined.replay.length;
    match examined.end {
        End::Missing => {}
        End::Closed(segment) => append(new, JOURNAL, &mut unpacked(segment)?.lines.take(whole))?,
        End::InUse => {
            let journal = folder.open(JOURNAL).map_err(std::io::Error::other)?;
            journal.map_or(Ok(()), |journal| append(new, JOURNAL, &mut journal.take(whole)))?;
        }
    }
    super::segment::compress_all(new)
}

/// Tells whether a folder holds nothing, its lock aside.
pub(super) fn is_empty(folder: &OsFolder) -> Result<bool, RescueError> {
    let names = RescueError::failed("read", &folder.path(""), folder.names())?;
    Ok(names.iter().all(|name| name == LOCK))
}
