//! The two file tools: inside the workspace, whatever the being or anything beside it does to the folder meanwhile.
//!
//! Each path is resolved by the kernel below an open workspace folder (`openat2` with `RESOLVE_BENEATH`), and what was opened is
//! looked at by its descriptor, never by name again: there is no moment between check and use.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, openat, openat2, readlinkat, renameat, statat,
        unlinkat,
    },
    io::Errno,
};
use uuid::Uuid;

use super::builtin::MAX_FILE_BYTES;

/// How often a resolution that raced with a rename is tried again.
const MAX_RACES: usize = 16;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("path leaves the workspace or enters what is kept from it; use a path relative to the workspace, without `..`")]
    Boundary,
    #[error("there is no such file")]
    Absent,
    #[error("path is not a bounded regular file; it must be a file of at most 2 MiB")]
    NotRegular,
    #[error("the file is not UTF-8 text")]
    NotText,
    #[error("destination is not a regular file")]
    BadDestination,
    #[error("{0}")]
    Io(io::Error),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::XDEV | Errno::LOOP => Self::Boundary,
            Errno::NOENT | Errno::NOTDIR => Self::Absent,
            other => Self::Io(other.into()),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Errno::from_raw_os_error(code).into(),
            None => Self::Io(error),
        }
    }
}

/// A being's workspace, and the folders inside it that no file tool reaches.
#[derive(Debug, Clone)]
pub(super) struct Workspace {
    pub(super) root: PathBuf,
    pub(super) state_dirs: Vec<PathBuf>,
}

impl Workspace {
    /// Reads one bounded UTF-8 file. Never waits: a FIFO or a device is refused unread.
    pub(super) fn read(&self, path: &str) -> Result<(String, String), FileError> {
        let steps = steps(path)?;
        let root = Root::open(self)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = root.open_beneath(&steps.join("/"), flags)?;
        let stat = fstat(&file)?;
        let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            || u64::try_from(stat.st_size).is_ok_and(|size| size > limit)
        {
            return Err(FileError::NotRegular);
        }
        let mut bytes = Vec::new();
        File::from(file).take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(FileError::NotRegular);
        }
        let text = String::from_utf8(bytes).map_err(|_| FileError::NotText)?;
        Ok((steps.join("/"), text))
    }

    /// Creates or replaces one file, whole or not at all. Folders on the way are made.
    pub(super) fn write(&self, path: &str, content: &str, id: Uuid) -> Result<String, FileError> {
        let steps = steps(path)?;
        let Some((name, folders)) = steps.split_last() else { return Err(FileError::Boundary) };
        let folder = Root::open(self)?.make_folders(folders)?;
        let mode = match statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Some(Mode::from_raw_mode(stat.st_mode & 0o777))
            }
            Ok(_) => return Err(FileError::BadDestination),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        let draft = format!(".singularity-{id}.tmp");
        let written = fill(&folder, &draft, content, mode).and_then(|()| Ok(renameat(&folder, &draft, &folder, *name)?));
        if written.is_err() {
            // The draft may not even exist; the first error is the one to tell.
            let _ = unlinkat(&folder, &draft, AtFlags::empty());
        }
        written.map(|()| steps.join("/"))
    }
}

fn fill(folder: &OwnedFd, draft: &str, content: &str, mode: Option<Mode>) -> Result<(), FileError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, draft, flags, Mode::from_raw_mode(0o644))?);
    if let Some(mode) = mode {
        fchmod(&file, mode)?;
    }
    file.write_all(content.as_bytes())?;
    Ok(file.sync_all()?)
}

/// The plain steps of a relative path.
fn steps(path: &str) -> Result<Vec<&str>, FileError> {
    let steps: Option<Vec<&str>> = Path::new(path)
        .components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| match component {
            Component::Normal(step) => step.to_str(),
            _ => None,
        })
        .collect();
    steps.filter(|steps| !steps.is_empty()).ok_or(FileError::Boundary)
}

/// An open workspace.
struct Root {
    folder: OwnedFd,
    /// Where the kept folders really are.
    kept: Vec<PathBuf>,
}

impl Root {
    fn open(workspace: &Workspace) -> Result<Self, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &workspace.root, flags, Mode::empty())?;
        let at = real_path(&folder)?;
        // A workspace below a state directory is kept from the rest of it by RESOLVE_BENEATH already.
        let kept = workspace.state_dirs.iter().filter_map(|dir| fs::canonicalize(dir).ok()).filter(|dir| dir.starts_with(&at));
        Ok(Self { kept: kept.collect(), folder })
    }

    /// Opens what a path leads to, if that is beneath the workspace and not in a kept folder.
    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, FileError> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut opened = Err(Errno::AGAIN);
        for _ in 0..MAX_RACES {
            opened = openat2(&self.folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
            if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        let opened = opened?;
        let at = real_path(&opened)?;
        if self.kept.iter().any(|dir| at.starts_with(dir)) { Err(FileError::Boundary) } else { Ok(opened) }
    }

    fn make_folders(&self, folders: &[&str]) -> Result<OwnedFd, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut folder = self.open_beneath(".", flags)?;
        let mut path = String::from(".");
        for step in folders {
            path = format!("{path}/{step}");
            folder = match self.open_beneath(&path, flags) {
                Err(FileError::Absent) => {
                    match mkdirat(&folder, *step, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    self.open_beneath(&path, flags).map_err(|error| match error {
                        FileError::Absent => FileError::BadDestination,
                        other => other,
                    })?
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }
}

/// Where an open file really is, as the kernel knows it.
fn real_path(file: impl AsFd) -> Result<PathBuf, FileError> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let path = readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(String::from_utf8(path.into_bytes()).map_err(|_| FileError::Boundary)?))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests prepare files as anyone could")]
#[path = "files_tests.rs"]
mod tests;
