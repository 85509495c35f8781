use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    access::{self, AccessError},
    lock::{Lock, LockError},
};
use crate::vocab::Name;

/// The folder in which everything lives that one operator runs; only its owner may enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

/// Why a home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("the home is not safe to use")]
    Access(#[from] AccessError),
    #[error("{} is of format `{found}`, this program knows `{FORMAT}`; use the version of the program that made it", path.display())]
    OtherFormat { path: PathBuf, found: String },
    #[error("cannot use {}", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

const FORMAT: &str = "singularity-home-v1";
const FORMAT_FILE: &str = "format";
const MAX_FORMAT_LENGTH: u64 = 128;

impl Home {
    /// Finds the home for work in `cwd`: the nearest folder named `default`, upward as with `.git`, else the one to be made in `cwd`.
    pub fn find(cwd: &Path, default: &str) -> PathBuf {
        let nearest = cwd.ancestors().map(|above| above.join(default)).find(|path| path.is_dir());
        nearest.unwrap_or_else(|| cwd.join(default))
    }

    /// Opens a home; it is made if there is none.
    pub fn open(path: &Path) -> Result<Self, HomeError> {
        let folder = access::make_folder(path)?;
        let home = Self { path: path.to_owned() };
        if !home.has_known_format(&folder)? {
            home.write_format(&folder)?;
        }
        Ok(home)
    }

    /// Opens a home only if there is one, and writes nothing.
    pub fn existing(path: &Path) -> Result<Option<Self>, HomeError> {
        let Some(folder) = access::folder(path)? else { return Ok(None) };
        let home = Self { path: path.to_owned() };
        home.has_known_format(&folder)?;
        Ok(Some(home))
    }

    /// A home that may not be there, for those who only look: nothing is made.
    pub fn unmade(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Tells whether the format is written down; refuses one that is not ours.
    fn has_known_format(&self, folder: &File) -> Result<bool, HomeError> {
        let Some(file) = access::file(folder, &self.path, FORMAT_FILE, OFlags::RDONLY)? else { return Ok(false) };
        let mut text = String::new();
        file.take(MAX_FORMAT_LENGTH).read_to_string(&mut text).map_err(|source| self.unusable(FORMAT_FILE, source))?;
        match text.trim_end() {
            FORMAT => Ok(true),
            "" => Ok(false),
            found => Err(HomeError::OtherFormat { path: self.path.clone(), found: found.to_owned() }),
        }
    }

    /// Writes the format in one write; one that a crash left empty is written again.
    fn write_format(&self, folder: &File) -> Result<(), HomeError> {
        let Some(mut file) = access::file(folder, &self.path, FORMAT_FILE, OFlags::WRONLY | OFlags::CREATE)? else { return Ok(()) };
        let written =
            file.write_all(format!("{FORMAT}\n").as_bytes()).and_then(|()| file.sync_all()).and_then(|()| folder.sync_all());
        written.map_err(|source| self.unusable(FORMAT_FILE, source))
    }

    fn unusable(&self, name: &str, source: io::Error) -> HomeError {
        HomeError::Unusable { path: self.path.join(name), source }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state directory of a declared being. That of a child is in its parent's: [`dir_of`](super::dir_of) finds both.
    pub fn being_dir(&self, name: &Name) -> PathBuf {
        self.path.join("beings").join(name.as_str())
    }

    /// The names of the declared beings that have a state directory, sorted; [`lives`](super::lives) has their children too.
    pub fn beings(&self) -> Result<Vec<Name>, HomeError> {
        let entries = match std::fs::read_dir(self.path.join("beings")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|source| self.unusable("beings", source))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| self.unusable("beings", source))?;
            let name = entry.file_name().to_str().and_then(|name| Name::try_from(name).ok());
            names.extend(name.filter(|name| name.depth() == 0));
        }
        names.sort();
        Ok(names)
    }

    /// Where a being works on files unless its manifest says otherwise; never inside a state directory. A family has one.
    pub fn workspace(&self, name: &Name) -> PathBuf {
        self.works().join(name.root().as_str())
    }

    fn works(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Tells whether a folder, by its real path, is one of those in which the program keeps its own: all that lie in the home and not
    /// among the workspaces. One that is not named anywhere yet is among them.
    pub fn keeps(&self, folder: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (home, works) = (real(&self.path), real(&self.works()));
        folder != home && folder.starts_with(home) && !folder.starts_with(works)
    }

    /// Where each shared surface has a folder of its own, in which its process runs.
    pub fn shared(&self) -> PathBuf {
        self.path.join("shared")
    }

    /// The daemon's unix socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("daemon.sock")
    }

    /// The daemon's log.
    pub fn daemon_log(&self) -> PathBuf {
        self.path.join("daemon.log")
    }

    /// What tools looked like when they were first seen.
    pub fn tools(&self) -> PathBuf {
        self.path.join("tools")
    }

    /// What the tools of one being's surfaces looked like.
    pub fn seen_tools(&self, name: &Name) -> PathBuf {
        self.tools().join(format!("{name}.json"))
    }

    /// The tokens that surfaces were given by OAuth, and the clients that were registered for them: a file each, for this user alone.
    pub fn oauth(&self) -> PathBuf {
        self.path.join("oauth")
    }

    /// The sets of manifests that were applied.
    pub fn sets(&self) -> PathBuf {
        self.path.join("sets")
    }

    /// What Git sources brought: a folder each.
    pub fn sources(&self) -> PathBuf {
        self.path.join("sources")
    }

    /// What operators said about children, until their parents know.
    pub fn fates(&self) -> PathBuf {
        self.history().join("children.json")
    }

    /// Beings that operators paused.
    pub fn pauses(&self) -> PathBuf {
        self.history().join("pauses.json")
    }

    /// Money that operators gave.
    pub fn funds(&self) -> PathBuf {
        self.history().join("funds.json")
    }

    /// What was declared at each change of it.
    pub fn revisions(&self) -> PathBuf {
        self.history().join("revisions")
    }

    /// The record of what people asked for.
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit.jsonl")
    }

    /// Whether an operator froze the fleet.
    pub fn freeze(&self) -> PathBuf {
        self.history().join("freeze.json")
    }

    /// What was declared before.
    pub fn history(&self) -> PathBuf {
        self.path.join("history")
    }

    /// The commit log of the home's daemon.
    pub fn commit(&self) -> PathBuf {
        self.path.join("commit")
    }

    /// Weights of embedded models.
    pub fn models(&self) -> PathBuf {
        self.path.join("models")
    }

    /// Makes this process the home's daemon, or tells which one is.
    pub fn lock_daemon(&self) -> Result<Lock, LockError> {
        let folder = access::make_folder(&self.path)?;
        Lock::take(&folder, &self.path, "daemon.lock")
    }
}
