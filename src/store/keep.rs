use std::{
    fs::{self, DirBuilder},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

/// Why what a home keeps beside its beings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("cannot read {}; put a good copy back, or remove it and apply again", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}; what was there before goes on", path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Reads a file that [`write_json`] wrote; `None` if there is none.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, KeepError> {
    let unreadable = |source| KeepError::Unreadable { path: path.to_owned(), source };
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.into())),
    }
}

/// Replaces a file, owner-only and durable: a temporary beside it, `fsync`, rename.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), KeepError> {
    let write = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(file.as_file_mut(), value)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|source| KeepError::Unwritable { path: path.to_owned(), source })
}
