//! What all rescues share: how they fail, and how whole folders are read, copied and put in place.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags};

use super::{
    access,
    error::StoreError,
    folder::{Folder, LOCK, OsFolder},
};
use crate::vocab::Usd;

/// Why a life was not rescued, taken out, put in or adopted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("state: there is no life in {}", dir.display())]
    NoLife { dir: PathBuf },
    #[error("state: nothing in {} is whole, neither the first record nor a picture that a checkpoint names; put a good copy back", dir.display())]
    NothingWhole { dir: PathBuf },
    #[error("state: {} already holds a life or other files; name another being or directory", dir.display())]
    Exists { dir: PathBuf },
    #[error("state: {} is damaged; keep what is whole with `singularity state repair` first", dir.display())]
    Damaged { dir: PathBuf },
    #[error("state: {} says what the journal makes; there is nothing to adopt, and `singularity state repair` draws it anew where it is refused", path.display())]
    NothingToAdopt { path: PathBuf },
    #[error("state: {} is another being than the journal tells of: {} differ", path.display(), fields.join(", "))]
    OtherBeing { path: PathBuf, fields: Vec<String> },
    #[error("state: {} takes back {}; what happened cannot be undone by an edit", path.display(), what.join(", "))]
    TakesBack { path: PathBuf, what: Vec<String> },
    #[error("state: the money in {} does not add up: `remaining` is {found}, and starting + granted + earned - spent are {expected}", path.display())]
    Unbalanced { path: PathBuf, found: Usd, expected: Usd },
    #[error("state: {} says that {given} USD went to children, who were born with {children}; set `budget.given` to that", path.display())]
    OtherGifts { path: PathBuf, given: Usd, children: Usd },
    #[error("state: {} is no file or folder that a life has; move it away", path.display())]
    Foreign { path: PathBuf },
    #[error("state: the archive is refused: {0}")]
    BadArchive(String),
    #[error("state: cannot {what} {}", path.display())]
    Failed {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl RescueError {
    pub(super) fn failed<T>(what: &'static str, path: &Path, result: io::Result<T>) -> Result<T, Self> {
        result.map_err(|source| Self::Failed { what, path: path.to_owned(), source })
    }
}

/// Folders in folders are followed no deeper.
const DEEPEST: usize = 16;

/// Every file below `dir` that `wants` wants by its path from there, sorted; locks and half-made files aside. Links and devices are refused.
pub(super) fn tree(dir: &Path, wants: &dyn Fn(&str) -> bool) -> Result<Vec<String>, RescueError> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), 0)];
    while let Some((above, depth)) = folders.pop() {
        let path = dir.join(&above);
        let opened = access::folder(&path).map_err(StoreError::Access)?;
        if opened.is_none() || depth > DEEPEST {
            return Err(RescueError::Foreign { path });
        }
        for entry in RescueError::failed("read", &path, std::fs::read_dir(&path))? {
            let entry = RescueError::failed("read", &path, entry)?;
            let kind = RescueError::failed("read", &path, entry.file_type())?;
            let foreign = || RescueError::Foreign { path: entry.path() };
            let name = entry.file_name().into_string().map_err(|_| foreign())?;
            let inner = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
            if name == LOCK || name.starts_with('.') || !wants(&inner) {
                continue;
            }
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => folders.push((inner, depth + 1)),
                (_, true) => found.push(inner),
                _ => return Err(foreign()),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The folder and the name of a file below `dir`.
fn split<'a>(dir: &Path, inner: &'a str) -> (PathBuf, &'a str) {
    inner.rsplit_once('/').map_or_else(|| (dir.to_owned(), inner), |(above, name)| (dir.join(above), name))
}

/// Opens a file below `dir` by its path from there; only the owner may have had access to any part of it.
pub(super) fn open(dir: &Path, inner: &str) -> Result<File, RescueError> {
    let missing = || RescueError::Foreign { path: dir.join(inner) };
    let (folder, name) = split(dir, inner);
    let file = OsFolder::look(&folder)?.ok_or_else(missing)?.file(name).map_err(StoreError::Access)?;
    file.ok_or_else(missing)
}

/// Writes a new file below `dir`, durably; folders are made as needed.
pub(super) fn write(dir: &Path, inner: &str, from: &mut dyn Read) -> Result<(), RescueError> {
    let foreign = || RescueError::Foreign { path: dir.join(inner) };
    let (folder, name) = split(dir, inner);
    access::make_folder(&folder).map_err(StoreError::Access)?;
    let mut to = OsFolder::look(&folder)?.ok_or_else(foreign)?;
    let written = to.create(name, b"").and_then(|()| append(&mut to, name, from));
    written.map_err(|source| StoreError::write(folder.join(name), source).into())
}

/// Writes at the end of a file, durably.
pub(super) fn append(to: &mut dyn Folder, name: &str, from: &mut dyn Read) -> io::Result<()> {
    let mut block = vec![0; 128 << 10];
    loop {
        match from.read(&mut block)? {
            0 => break,
            read => to.append(name, block.get(..read).unwrap_or_default())?,
        }
    }
    to.sync(name)?;
    to.sync_names()
}

/// The first name of the row `<path>.<word>-1`, `-2`, … that is free.
pub(super) fn aside(path: &Path, word: &str) -> PathBuf {
    let named = |number: u32| {
        let mut name = OsString::from(path);
        name.push(format!(".{word}-{number}"));
        PathBuf::from(name)
    };
    (1..u32::MAX).map(named).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| named(u32::MAX))
}

/// A folder that is made beside a life to take its place; removed if that does not happen.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
    is_placed: bool,
}

impl Draft {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, is_placed: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Exchanges the two folders in one step that is durable: a crash leaves either the old one or the new one, whole.
    pub(super) fn exchange(mut self, dir: &Path) -> Result<PathBuf, RescueError> {
        let exchanged = rustix::fs::renameat_with(CWD, &self.path, CWD, dir, RenameFlags::EXCHANGE);
        RescueError::failed("exchange", &self.path, exchanged.map_err(Into::into))?;
        self.is_placed = true;
        let above = dir.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        RescueError::failed("make durable", above, File::open(above).and_then(|above| above.sync_all()))?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}
