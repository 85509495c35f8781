use std::{
    fs::{File, TryLockError},
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    access::{self, AccessError},
    error::holder,
};

/// A lock that one process holds; it ends with the process, however that ends, so a file left behind is no obstacle.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is held by {}; stop that one first", path.display(), holder(*pid))]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("the lock is not safe to use")]
    Access(#[from] AccessError),
    #[error("cannot lock {}", path.display())]
    Unlockable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// No pid is longer.
const MAX_PID_LENGTH: u64 = 20;

impl Lock {
    /// Takes the lock `name` of a folder, or tells who has it.
    pub(super) fn take(folder: &File, folder_path: &Path, name: &str) -> Result<Self, LockError> {
        let path = folder_path.join(name);
        let absent = || AccessError::Unopenable { path: path.clone(), source: io::ErrorKind::NotFound.into() };
        let file = access::file(folder, folder_path, name, OFlags::RDWR | OFlags::CREATE)?.ok_or_else(absent)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held { path, pid: read_pid(&file) }),
            Err(TryLockError::Error(source)) => return Err(LockError::Unlockable { path, source }),
        }
        let lock = Self { file };
        lock.tell_people();
        Ok(lock)
    }

    /// Writes the pid for people; a full disk must not keep the lock from being had.
    fn tell_people(&self) {
        let told = self.file.set_len(0).and_then(|()| self.file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
        drop(told);
    }
}

impl Drop for Lock {
    /// Unlocks at once, even while a child that is just being started shares the descriptor.
    fn drop(&mut self) {
        drop(self.file.set_len(0));
        drop(self.file.unlock());
    }
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_PID_LENGTH).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
