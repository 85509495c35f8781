use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    Secret, SecretError,
    read::{self, MAX_SECRET_BYTES},
};

/// A file of secrets that this program keeps itself, such as tokens that it was given.
///
/// It may be shared by processes: whoever changes it holds a [`Turn`], and reads it once more when it has that.
#[derive(Debug, Clone)]
pub struct Kept {
    path: PathBuf,
}

/// The right to change a kept file, among all processes; it ends when it is dropped, and with the process.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

impl Kept {
    /// The file `name` of a folder that is this program's alone.
    pub fn new(folder: &Path, name: &str) -> Self {
        Self { path: folder.join(name) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept; `None` when nothing was yet.
    pub fn read(&self) -> Result<Option<Secret>, SecretError> {
        match read::file(&self.path) {
            Ok(secret) => Ok(Some(secret)),
            Err(SecretError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces what is kept; it is durable when this returns.
    pub fn write(&self, text: &str) -> Result<(), SecretError> {
        let unkeepable = |source| SecretError::Unkeepable { path: self.path.clone(), source };
        if u64::try_from(text.len()).map_or(true, |size| size > MAX_SECRET_BYTES) {
            return Err(SecretError::NotText(self.path.clone()));
        }
        let folder = self.folder()?;
        let replace = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            File::open(folder)?.sync_all()
        };
        replace().map_err(unkeepable)
    }

    /// Forgets what is kept, durably; nothing is there to forget where nothing was kept.
    pub fn remove(&self) -> Result<(), SecretError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let removed = fs::remove_file(&self.path).and_then(|()| File::open(folder)?.sync_all());
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(SecretError::Unkeepable { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Waits for the turn to change it. Whoever has it is soon done, or gone.
    pub fn turn(&self) -> Result<Turn, SecretError> {
        self.folder()?;
        let path = self.path.with_extension("lock");
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(&path);
        let taken = opened.and_then(|file| file.lock().map(|()| file));
        taken.map(|file| Turn { _file: file }).map_err(|source| SecretError::Unkeepable { path, source })
    }

    /// The folder, made when it is not there, and refused when others can enter it.
    fn folder(&self) -> Result<&Path, SecretError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let unkeepable = |source| SecretError::Unkeepable { path: folder.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unkeepable)?;
        let (facts, user) = (folder.symlink_metadata().map_err(unkeepable)?, rustix::process::geteuid().as_raw());
        if facts.is_dir() && facts.uid() == user && facts.mode() & 0o077 == 0 {
            Ok(folder)
        } else {
            Err(SecretError::OpenFolder { path: folder.to_owned(), user })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
        sync::mpsc::sync_channel,
        time::Duration,
    };

    use super::*;

    fn told(kept: &Kept) -> Result<Option<String>, String> {
        kept.read().map(|secret| secret.map(|secret| secret.reveal().to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_kept_is_for_its_owner_alone_and_is_read_again() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("home/oauth");
        let kept = Kept::new(&folder, "far.json");
        assert_eq!(told(&kept), Ok(None));
        kept.write("one").unwrap();
        kept.write("two").unwrap();
        assert_eq!(told(&kept), Ok(Some("two".to_owned())));
        assert_eq!(kept.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        assert!(kept.write(&"x".repeat(64 * 1024 + 1)).is_err(), "it could not be read again");
        assert_eq!(told(&kept), Ok(Some("two".to_owned())));
    }

    #[test]
    fn nothing_is_kept_where_others_could_read_or_exchange_it() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("oauth");
        let kept = Kept::new(&folder, "far.json");
        kept.write("one").unwrap();
        fs::set_permissions(kept.path(), Permissions::from_mode(0o640)).unwrap();
        assert!(told(&kept).is_err_and(|told| told.contains("chmod 600")));
        fs::set_permissions(&folder, Permissions::from_mode(0o750)).unwrap();
        let refused = [kept.write("two").map(drop), kept.turn().map(drop)].map(|refused| refused.unwrap_err().to_string());
        assert!(refused.iter().all(|told| told.contains("chmod 700")), "{refused:?}");
        symlink(&folder, around.path().join("link")).unwrap();
        assert!(Kept::new(&around.path().join("link"), "far.json").write("two").is_err());
    }

    #[test]
    fn two_that_change_it_take_turns() {
        let around = tempfile::tempdir().unwrap();
        let kept = Kept::new(&around.path().join("oauth"), "far.json");
        let first = kept.turn().unwrap();
        let (tell, told) = sync_channel(1);
        let waiting = std::thread::spawn(move || {
            let _turn = kept.turn().unwrap();
            tell.send(()).unwrap();
        });
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "the first still has it");
        drop(first);
        assert!(told.recv_timeout(Duration::from_secs(10)).is_ok());
        waiting.join().unwrap();
    }
}
