use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

/// Why a file or folder is not safe to keep a being in (SPEC §3: only the owner).
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("{} belongs to user {owner} and this runs as user {me}; run it as that user, or `chown -R {me} {}`", path.display(), path.display())]
    NotOurs { path: PathBuf, owner: u32, me: u32 },
    #[error("{} is open to others (mode {mode:04o}); close it with `chmod {wanted:o} {}`", path.display(), path.display())]
    OpenToOthers { path: PathBuf, mode: u32, wanted: u32 },
    #[error("{} is a symbolic link; use the real path, or put a real {wanted} there", path.display())]
    Link { path: PathBuf, wanted: &'static str },
    #[error("{} is not a {wanted}; move it away", path.display())]
    NotA { path: PathBuf, wanted: &'static str },
    #[error("cannot open {}", path.display())]
    Unopenable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot make the folder {}", path.display())]
    Unmakeable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl AccessError {
    /// The error of the system where there is one, so that its kind is seen.
    pub(super) fn into_io(self) -> io::Error {
        match self {
            Self::Unopenable { source, .. } | Self::Unmakeable { source, .. } => source,
            other => io::Error::other(other),
        }
    }
}

const OWNER_ONLY_FILE: u32 = 0o600;
const OWNER_ONLY_FOLDER: u32 = 0o700;

/// Opens a folder that is ours alone; `None` if there is none.
pub(super) fn folder(path: &Path) -> Result<Option<File>, AccessError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, Mode::empty());
    let Some(file) = opened_or_absent(opened.map(File::from), path, "folder")? else { return Ok(None) };
    check(&file, path, "folder", OWNER_ONLY_FOLDER)?;
    Ok(Some(file))
}

/// Makes a folder and what is missing above it, owner-only and durable, and opens it.
pub(super) fn make_folder(path: &Path) -> Result<File, AccessError> {
    if let Some(folder) = folder(path)? {
        return Ok(folder);
    }
    make(path).map_err(|source| AccessError::Unmakeable { path: path.to_owned(), source })?;
    folder(path)?.ok_or_else(|| AccessError::Unopenable { path: path.to_owned(), source: io::ErrorKind::NotFound.into() })
}

fn make(path: &Path) -> io::Result<()> {
    let above = match path.parent() {
        None => return Ok(()),
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
    };
    if !above.exists() {
        make(above)?;
    }
    match DirBuilder::new().mode(OWNER_ONLY_FOLDER).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => File::open(above)?.sync_all(),
    }
}

/// Opens a file of `folder` that is ours alone; `None` if there is none and `flags` do not create it.
pub(super) fn file(folder: &File, folder_path: &Path, name: &str, flags: OFlags) -> Result<Option<File>, AccessError> {
    let path = folder_path.join(name);
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(OWNER_ONLY_FILE));
    let Some(file) = opened_or_absent(opened.map(File::from), &path, "file")? else { return Ok(None) };
    check(&file, &path, "file", OWNER_ONLY_FILE)?;
    Ok(Some(file))
}

fn opened_or_absent(opened: Result<File, Errno>, path: &Path, wanted: &'static str) -> Result<Option<File>, AccessError> {
    let path = path.to_owned();
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) if path.is_symlink() => Err(AccessError::Link { path, wanted }),
        Err(Errno::NOTDIR | Errno::ISDIR | Errno::NXIO) => Err(AccessError::NotA { path, wanted }),
        Err(errno) => Err(AccessError::Unopenable { path, source: errno.into() }),
    }
}

fn check(file: &File, path: &Path, wanted: &'static str, mode: u32) -> Result<(), AccessError> {
    let path = path.to_owned();
    let found = match file.metadata() {
        Ok(found) => found,
        Err(source) => return Err(AccessError::Unopenable { path, source }),
    };
    let me = rustix::process::geteuid().as_raw();
    let is_wanted = if wanted == "folder" { found.is_dir() } else { found.is_file() };
    if !is_wanted {
        return Err(AccessError::NotA { path, wanted });
    }
    if found.uid() != me {
        return Err(AccessError::NotOurs { path, owner: found.uid(), me });
    }
    if found.mode() & 0o077 != 0 {
        return Err(AccessError::OpenToOthers { path, mode: found.mode() & 0o7777, wanted: mode });
    }
    Ok(())
}
