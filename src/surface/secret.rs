use std::{
    collections::BTreeMap,
    fs::File,
    io,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::manifest::SecretSource;

/// No secret is longer.
const MAX_SECRET: u64 = 64 * 1024;

/// Why a secret cannot be used. The secret itself is in none of the texts.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret file: not a regular file: {}", path.display())]
    NotAFile {
        path: PathBuf,
        #[source]
        source: Option<io::Error>,
    },
    #[error("secret file: {} must not be group/world accessible", path.display())]
    TooOpen { path: PathBuf },
    #[error("secret file: {} is empty", path.display())]
    Empty { path: PathBuf },
    #[error("secret file: {} is longer than 64 KiB", path.display())]
    TooLong { path: PathBuf },
    #[error("secret file: cannot read {} as UTF-8", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the environment variable {name} holds no secret; set it where the daemon is started")]
    Unset { name: String },
}

/// Reads a secret anew, so that one that was exchanged is taken up.
pub(super) fn read(source: &SecretSource, env: &BTreeMap<String, String>) -> Result<String, SecretError> {
    match source {
        SecretSource::Env(name) => {
            let value = env.get(name).filter(|value| !value.is_empty()).cloned();
            value.ok_or_else(|| SecretError::Unset { name: name.clone() })
        }
        SecretSource::File(path) => read_file(path),
    }
}

fn read_file(path: &Path) -> Result<String, SecretError> {
    let path = path.to_owned();
    let known = std::fs::metadata(&path);
    match known {
        Err(source) => return Err(SecretError::NotAFile { path, source: Some(source) }),
        Ok(data) if !data.is_file() => return Err(SecretError::NotAFile { path, source: None }),
        Ok(data) if data.permissions().mode() & 0o077 != 0 => return Err(SecretError::TooOpen { path }),
        Ok(_) => {}
    }
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_SECRET + 1).read_to_string(&mut text));
    if let Err(source) = read {
        return Err(SecretError::Unreadable { path, source });
    }
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_SECRET {
        return Err(SecretError::TooLong { path });
    }
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() { Err(SecretError::Empty { path }) } else { Ok(secret.to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt};

    use super::*;

    fn kept(text: &str, mode: u32) -> (tempfile::TempDir, SecretSource) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        (folder, SecretSource::File(path))
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let (_folder, source) = kept("hush\r\n", 0o600);
        assert_eq!(read(&source, &BTreeMap::new()).unwrap(), "hush");
        let (_folder, source) = kept("hush", 0o640);
        assert!(matches!(read(&source, &BTreeMap::new()), Err(SecretError::TooOpen { .. })));
    }

    #[test]
    fn nothing_is_never_a_secret() {
        let (folder, source) = kept("\n", 0o600);
        assert!(matches!(read(&source, &BTreeMap::new()), Err(SecretError::Empty { .. })));
        let source = SecretSource::File(folder.path().to_owned());
        assert!(matches!(read(&source, &BTreeMap::new()), Err(SecretError::NotAFile { .. })));
        let env = BTreeMap::from([("SET".to_owned(), "x".to_owned()), ("BLANK".to_owned(), String::new())]);
        let of = |name: &str| read(&SecretSource::Env(name.to_owned()), &env);
        assert_eq!(of("SET").unwrap(), "x");
        assert!(matches!(of("BLANK"), Err(SecretError::Unset { .. })));
        assert!(matches!(of("UNSET"), Err(SecretError::Unset { .. })));
    }
}
