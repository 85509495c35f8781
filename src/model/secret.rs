use std::{
    collections::BTreeSet,
    fmt,
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::OFlags;

use crate::manifest::SecretSource;

const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Looks variables up; the environment itself is read at the edge of the program.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A secret, shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a secret could not be read. Never holds the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret file: cannot read {path}")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("secret file: not a regular file: {0}")]
    NotRegular(PathBuf),
    #[error("secret file: {0} is empty")]
    Empty(PathBuf),
    #[error("secret file: {0} is larger than {MAX_SECRET_BYTES} bytes or no text")]
    NotText(PathBuf),
    #[error("secret: the variable {0} is not set or empty")]
    Unset(String),
}

/// Reads secrets from where they are kept, each time anew.
#[derive(Clone)]
pub struct Secrets {
    environment: Environment,
    /// Files that others may read and that were warned of; no more than there are declared secrets.
    warned: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Secret {
    /// The secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes the secret out of a text that someone else wrote.
    pub fn hide(&self, text: &str) -> String {
        text.replace(&self.0, "[secret]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Secrets of files and of these variables.
    pub fn new(environment: Environment) -> Self {
        Self { environment, warned: Arc::default() }
    }

    /// Reads one secret, without the white space around it.
    pub async fn read(&self, source: &SecretSource) -> Result<Secret, SecretError> {
        match source {
            SecretSource::Env(name) => self.variable(name),
            SecretSource::File(path) => {
                let (path, warned) = (path.clone(), Arc::clone(&self.warned));
                let read = tokio::task::spawn_blocking(move || file(&path, &warned)).await;
                read.unwrap_or_else(|error| Err(SecretError::Unreadable { path: PathBuf::new(), source: io::Error::other(error) }))
            }
        }
    }

    fn variable(&self, name: &str) -> Result<Secret, SecretError> {
        let text = (self.environment)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        text.map(Secret).ok_or_else(|| SecretError::Unset(name.to_owned()))
    }
}

fn file(path: &Path, warned: &Mutex<BTreeSet<PathBuf>>) -> Result<Secret, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    let no_wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Err(SecretError::NotRegular(path.to_owned()));
    }
    if facts.mode() & 0o077 != 0 && warned.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        tracing::warn!(path = %path.display(), "secret file should be readable by its owner only; chmod 600 it");
    }
    let mut text = String::new();
    let read = file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text);
    match (read, text.trim()) {
        (Err(error), _) if error.kind() == io::ErrorKind::InvalidData => Err(SecretError::NotText(path.to_owned())),
        (Err(error), _) => Err(unreadable(error)),
        (Ok(size), _) if u64::try_from(size).is_ok_and(|size| size > MAX_SECRET_BYTES) => {
            Err(SecretError::NotText(path.to_owned()))
        }
        (Ok(_), "") => Err(SecretError::Empty(path.to_owned())),
        (Ok(_), secret) => Ok(Secret(secret.to_owned())),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests prepare files as anyone could")]
mod tests {
    use super::*;

    async fn read(source: SecretSource) -> Result<String, String> {
        let secrets = Secrets::new(Arc::new(|name| (name == "KEY").then(|| " k3y\n".to_owned())));
        secrets.read(&source).await.map(|secret| secret.reveal().to_owned()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_secret_is_trimmed_and_one_that_is_none_is_told_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("good"), "\ns3cret\r\n").unwrap();
        std::fs::write(at("empty"), " \n").unwrap();
        std::fs::write(at("bytes"), [0xff]).unwrap();
        std::fs::write(at("large"), "x".repeat(70_000)).unwrap();
        let file = |name: &str| SecretSource::File(at(name));
        assert_eq!(read(file("good")).await, Ok("s3cret".into()));
        assert_eq!(read(file("empty")).await, Err(format!("secret file: {} is empty", at("empty").display())));
        assert!(read(file("bytes")).await.is_err_and(|told| told.contains("no text")));
        assert!(read(file("large")).await.is_err_and(|told| told.contains("larger")));
        assert!(read(file("none")).await.is_err_and(|told| told.contains("cannot read")));
        assert!(read(SecretSource::File(folder.path().into())).await.is_err_and(|told| told.contains("not a regular file")));
        assert_eq!(read(SecretSource::Env("KEY".into())).await, Ok("k3y".into()));
        assert!(read(SecretSource::Env("NONE".into())).await.is_err_and(|told| told.contains("NONE")));
    }

    #[test]
    fn a_secret_is_not_in_its_debug_text() {
        let secret = Secret("hunter2".into());
        assert_eq!(format!("{secret:?} {}", secret.hide("key hunter2 is wrong")), "Secret key [secret] is wrong");
    }
}
