use std::{
    fmt::Debug,
    fs::File,
    io::{self, Read, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, OFlags};

use super::{
    access::{self, AccessError},
    error::StoreError,
    lock::{Lock, LockError},
};

pub(super) const JOURNAL: &str = "activity.jsonl";
pub(super) const PICTURE: &str = "state.json";
pub(super) const LOCK: &str = "lock";

/// What the store does to files of one folder, and no more: so that a simulation can crash at each of these steps.
pub(super) trait Folder: Debug + Send {
    /// Where a file of the folder is, for messages.
    fn path(&self, name: &str) -> PathBuf;
    /// Every name in the folder.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file to read it from its start; `None` if there is none.
    fn open(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, AccessError>;
    /// Writes at the end of a file, which is made if there is none.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Writes into a file that is there, at `offset`.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes a file's content durable.
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Cuts a file to `length` bytes.
    fn cut(&mut self, name: &str, length: u64) -> io::Result<()>;
    /// Makes a new file that is durable, though its name may not be yet.
    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Makes names durable.
    fn sync_names(&mut self) -> io::Result<()>;
    /// What makes every file of the file system durable, from any thread.
    fn syncer(&self) -> io::Result<Box<dyn FnOnce() -> io::Result<()> + Send>>;
}

/// A file that is open to be written.
#[derive(Debug)]
struct Writing {
    name: String,
    /// Whether every write goes to its end.
    is_append: bool,
    file: File,
}

/// A folder of the real file system, reached through its descriptor: no symbolic link is ever followed inside it.
#[derive(Debug)]
pub(super) struct OsFolder {
    path: PathBuf,
    folder: File,
    /// The file that was last written to.
    writing: Option<Writing>,
    /// Held by whoever may write.
    _lock: Option<Lock>,
}

impl OsFolder {
    /// Opens a folder to write in it alone; it is made if there is none.
    pub(super) fn lock(path: &Path) -> Result<Self, StoreError> {
        let folder = access::make_folder(path)?;
        let lock = Lock::take(&folder, path, LOCK).map_err(|error| match error {
            LockError::Held { pid, .. } => StoreError::Held { path: path.to_owned(), pid },
            LockError::Access(source) => StoreError::Access(source),
            LockError::Unlockable { path, source } => StoreError::Unreadable { path, source },
        })?;
        Ok(Self { path: path.to_owned(), folder, writing: None, _lock: Some(lock) })
    }

    /// Opens a folder only to look; `None` if there is none.
    pub(super) fn look(path: &Path) -> Result<Option<Self>, StoreError> {
        let folder = access::folder(path)?;
        Ok(folder.map(|folder| Self { path: path.to_owned(), folder, writing: None, _lock: None }))
    }

    /// Opens a file to read it.
    pub(super) fn file(&self, name: &str) -> Result<Option<File>, AccessError> {
        access::file(&self.folder, &self.path, name, OFlags::RDONLY)
    }

    /// The file `name`, open for writing; one that is appended to is made if there is none.
    fn writer(&mut self, name: &str, is_append: bool) -> io::Result<&mut File> {
        if self.writing.as_ref().is_none_or(|open| open.name != name || open.is_append != is_append) {
            let flags = if is_append { OFlags::APPEND | OFlags::CREATE } else { OFlags::empty() };
            let file = access::file(&self.folder, &self.path, name, OFlags::WRONLY | flags).map_err(AccessError::into_io)?;
            self.writing = file.map(|file| Writing { name: name.to_owned(), is_append, file });
        }
        self.writing.as_mut().map(|open| &mut open.file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Folder for OsFolder {
    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, AccessError> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        Ok(Some(Box::new(file)))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.writer(name, true)?.write_all(bytes)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writer(name, false)?.write_all_at(bytes, offset)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        match &self.writing {
            Some(open) if open.name == name => open.file.sync_data(),
            _ => self.writer(name, true)?.sync_data(),
        }
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.writer(name, true)?.set_len(length)
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = access::file(&self.folder, &self.path, name, flags).map_err(AccessError::into_io)?;
        let mut file = file.ok_or(io::ErrorKind::NotFound)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.writing.take_if(|open| open.name == from || open.name == to);
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.writing.take_if(|open| open.name == name);
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn syncer(&self) -> io::Result<Box<dyn FnOnce() -> io::Result<()> + Send>> {
        let folder = self.folder.try_clone()?;
        Ok(Box::new(move || Ok(rustix::fs::syncfs(&folder)?)))
    }
}
