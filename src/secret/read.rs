use std::{
    borrow::Cow,
    collections::VecDeque,
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{fs::OFlags, io::Errno};
use serde_json::Value;

use crate::manifest::SecretSource;

/// The variable in which systemd tells a service where its credentials are.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
/// No secret is longer.
pub(super) const MAX_SECRET_BYTES: u64 = 64 * 1024;
/// How many secrets are remembered to be hidden; the oldest make room.
const MAX_KNOWN: usize = 256;
/// What is shorter is no secret that could be told from words.
const MIN_HIDDEN_BYTES: usize = 4;
/// What stands in the place of a secret.
const HIDDEN: &str = "[secret]";

/// Looks variables up; the environment itself is read at the edge of the program.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A secret, shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a secret cannot be used. The secret itself is in none of the texts.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret file: cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("secret file: not a regular file: {}", .0.display())]
    NotRegular(PathBuf),
    #[error("secret file: {} is a link; name the file that it leads to", .0.display())]
    Link(PathBuf),
    #[error("secret file: {} belongs to user {owner} and not to user {user}, who runs this; chown it", path.display())]
    Foreign { path: PathBuf, owner: u32, user: u32 },
    #[error("secret file: {} must not be group/world accessible; chmod 600 it", .0.display())]
    TooOpen(PathBuf),
    #[error("secret file: {} is empty", .0.display())]
    Empty(PathBuf),
    #[error("secret file: {} is larger than {MAX_SECRET_BYTES} bytes or no text", .0.display())]
    NotText(PathBuf),
    #[error("cannot keep {}; see that its folder is this user's and has room", path.display())]
    Unkeepable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} must be a folder of user {user} that nobody else can enter, and no link; chown it, or chmod 700 it", path.display())]
    OpenFolder { path: PathBuf, user: u32 },
    #[error("secret: the variable {0} is not set or empty; set it where the program is started")]
    Unset(String),
    #[error(
        "secret: there is no credential {0}, because no service manager started this; start it as a service with LoadCredential={0}:FILE"
    )]
    NoService(String),
}

/// Reads secrets from where they are kept, each time anew, and remembers what to hide. All clones are one.
#[derive(Clone)]
pub struct Secrets {
    environment: Environment,
    known: Arc<Mutex<VecDeque<Secret>>>,
}

impl Secret {
    /// A secret that was had in another way than by reading it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes the secret out of a text that someone else wrote, also where it stands in JSON, and where only a line of it does.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let whole = hidden(text, &self.0);
        if !self.0.contains('\n') {
            return whole;
        }
        let text = self.0.lines().fold(whole.into_owned(), |text, line| hidden(&text, line).into_owned());
        Cow::Owned(text)
    }
}

fn hidden<'t>(text: &'t str, secret: &str) -> Cow<'t, str> {
    if secret.len() < MIN_HIDDEN_BYTES {
        return Cow::Borrowed(text);
    }
    let plain = replaced(text, secret);
    let quoted = Value::from(secret).to_string();
    match quoted.get(1..quoted.len().saturating_sub(1)) {
        Some(escaped) if escaped != secret => Cow::Owned(replaced(&plain, escaped).into_owned()),
        _ => plain,
    }
}

fn replaced<'t>(text: &'t str, secret: &str) -> Cow<'t, str> {
    if text.contains(secret) { Cow::Owned(text.replace(secret, HIDDEN)) } else { Cow::Borrowed(text) }
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
        Self { environment, known: Arc::default() }
    }

    /// Reads one secret.
    pub async fn read(&self, source: &SecretSource) -> Result<Secret, SecretError> {
        let (secrets, source) = (self.clone(), source.clone());
        let read = tokio::task::spawn_blocking(move || secrets.read_here(&source)).await;
        read.unwrap_or_else(|error| Err(SecretError::Unreadable { path: PathBuf::new(), source: io::Error::other(error) }))
    }

    /// Takes every secret that was read here out of a text that someone else wrote.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(Cow::Borrowed(text), |text, secret| match secret.hide(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(hidden) => Cow::Owned(hidden),
        })
    }

    /// Takes every secret that was read here out of the texts and keys of a value.
    pub fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(hidden) = self.hide(text) {
                    *text = hidden;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(map) => {
                map.values_mut().for_each(|value| self.hide_in(value));
                if map.keys().any(|key| matches!(self.hide(key), Cow::Owned(_))) {
                    *map = std::mem::take(map).into_iter().map(|(key, value)| (self.hide(&key).into_owned(), value)).collect();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn read_here(&self, source: &SecretSource) -> Result<Secret, SecretError> {
        let secret = read(source, &|name| (self.environment)(name))?;
        self.know(&secret);
        Ok(secret)
    }

    /// Remembers a secret that was had elsewhere, so that it is hidden from now on.
    pub fn know(&self, secret: &Secret) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(secret) {
            known.push_back(secret.clone());
            let surplus = known.len().saturating_sub(MAX_KNOWN);
            known.drain(..surplus);
        }
    }
}

/// Reads one secret now, without the ends of line behind it. A file may make it wait for the disk.
pub fn read(source: &SecretSource, variable: &dyn Fn(&str) -> Option<String>) -> Result<Secret, SecretError> {
    match source {
        SecretSource::Env(name) => {
            let secret = variable(name).as_deref().and_then(proper);
            secret.ok_or_else(|| SecretError::Unset(name.clone()))
        }
        SecretSource::File(path) => file(path),
        SecretSource::Credential(name) => {
            let folder = variable(CREDENTIALS).filter(|folder| !folder.is_empty());
            let path = folder.map(|folder| Path::new(&folder).join(name)).ok_or_else(|| SecretError::NoService(name.clone()))?;
            checked(&path, Keeper::ServiceManager)
        }
    }
}

/// The variable that is looked up to find a secret.
pub fn variable(source: &SecretSource) -> Option<&str> {
    match source {
        SecretSource::Env(name) => Some(name),
        SecretSource::Credential(_) => Some(CREDENTIALS),
        SecretSource::File(_) => None,
    }
}

fn proper(text: &str) -> Option<Secret> {
    let text = text.trim_end_matches(['\r', '\n']);
    (!text.trim().is_empty()).then(|| Secret(text.to_owned()))
}

/// Who put a secret where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// The user that runs this.
    User,
    /// systemd, as root or as that user.
    ServiceManager,
}

impl Keeper {
    fn may_be(self, owner: u32, user: u32) -> bool {
        owner == user || self == Self::ServiceManager && owner == 0
    }

    /// The rights that nobody may have: any but the owner's. Those of the service in an access control list show as the group's.
    const fn forbidden(self) -> u32 {
        match self {
            Self::User => 0o077,
            Self::ServiceManager => 0o037,
        }
    }
}

pub(super) fn file(path: &Path) -> Result<Secret, SecretError> {
    checked(path, Keeper::User)
}

fn checked(path: &Path, keeper: Keeper) -> Result<Secret, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    let file = open(path)?;
    let facts = file.metadata().map_err(unreadable)?;
    let user = rustix::process::geteuid().as_raw();
    if !facts.is_file() {
        return Err(SecretError::NotRegular(path.to_owned()));
    }
    if !keeper.may_be(facts.uid(), user) {
        return Err(SecretError::Foreign { path: path.to_owned(), owner: facts.uid(), user });
    }
    if facts.mode() & keeper.forbidden() != 0 {
        return Err(SecretError::TooOpen(path.to_owned()));
    }
    let mut text = String::new();
    let read = file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text);
    match read {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(SecretError::NotText(path.to_owned())),
        Err(error) => Err(unreadable(error)),
        Ok(size) if u64::try_from(size).is_ok_and(|size| size > MAX_SECRET_BYTES) => Err(SecretError::NotText(path.to_owned())),
        Ok(_) => proper(&text).ok_or_else(|| SecretError::Empty(path.to_owned())),
    }
}

/// Opens a file that is no link, and waits for nobody where it is a pipe.
fn open(path: &Path) -> Result<File, SecretError> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|source| match Errno::from_io_error(&source) {
        Some(Errno::LOOP) => SecretError::Link(path.to_owned()),
        _ => SecretError::Unreadable { path: path.to_owned(), source },
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests prepare files as anyone could")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn told(source: &SecretSource) -> Result<String, String> {
        let variable = |name: &str| match name {
            "KEY" => Some("k3y\n".to_owned()),
            "BLANK" => Some(" \n".to_owned()),
            _ => None,
        };
        read(source, &variable).map(|secret| secret.reveal().to_owned()).map_err(|error| error.to_string())
    }

    /// A folder of files, each readable by its owner alone.
    fn kept(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            open_to(folder.path().join(name), 0o600);
        }
        folder
    }

    fn open_to(path: PathBuf, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_secret_is_whole_text_without_the_end_of_its_line() {
        let large = vec![b'x'; 64 * 1024 + 1];
        let folder =
            kept(&[("good", b" s3cret \r\n"), ("empty", b" \n"), ("bytes", &[0xff]), ("large", &large), ("full", &large[1..])]);
        let at = |name: &str| folder.path().join(name);
        let file = |name: &str| told(&SecretSource::File(at(name)));
        assert_eq!(file("good"), Ok(" s3cret ".into()));
        assert_eq!(file("full").map(|secret| secret.len()), Ok(64 * 1024));
        assert_eq!(file("empty"), Err(format!("secret file: {} is empty", at("empty").display())));
        assert!(file("bytes").is_err_and(|told| told.contains("no text")));
        assert!(file("large").is_err_and(|told| told.contains("larger")));
        assert!(file("none").is_err_and(|told| told.contains("cannot read")));
        assert_eq!(told(&SecretSource::Env("KEY".into())), Ok("k3y".into()));
        for name in ["BLANK", "NONE"] {
            assert!(told(&SecretSource::Env(name.into())).is_err_and(|told| told.contains(name)));
        }
    }

    #[test]
    fn a_secret_that_others_could_read_or_exchange_is_refused() {
        let folder = kept(&[("good", b"s3cret")]);
        let at = |name: &str| folder.path().join(name);
        symlink(at("good"), at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let file = |name: &str| told(&SecretSource::File(at(name)));
        assert!(file("link").is_err_and(|told| told.contains("is a link")));
        assert!(file("pipe").is_err_and(|told| told.contains("not a regular file")));
        assert!(told(&SecretSource::File(folder.path().into())).is_err_and(|told| told.contains("not a regular file")));
        for mode in [0o640, 0o604, 0o660, 0o610, 0o601] {
            open_to(at("good"), mode);
            let expected = format!("secret file: {} must not be group/world accessible; chmod 600 it", at("good").display());
            assert_eq!(file("good"), Err(expected), "{mode:o}");
        }
        open_to(at("good"), 0o400);
        assert_eq!(file("good"), Ok("s3cret".into()));
    }

    #[test]
    fn a_credential_is_taken_as_systemd_hands_it_over_and_no_other_way() {
        let folder = kept(&[("key", b"s3cret\n")]);
        let source = SecretSource::Credential("key".into());
        let told = |folder: Option<&Path>| {
            let variable = |name: &str| (name == CREDENTIALS).then(|| folder?.to_str().map(str::to_owned)).flatten();
            read(&source, &variable).map(|secret| secret.reveal().to_owned()).map_err(|error| error.to_string())
        };
        for mode in [0o400, 0o440, 0o600] {
            open_to(folder.path().join("key"), mode);
            assert_eq!(told(Some(folder.path())), Ok("s3cret".into()), "{mode:o}");
        }
        for mode in [0o444, 0o460, 0o402] {
            open_to(folder.path().join("key"), mode);
            assert!(told(Some(folder.path())).is_err_and(|told| told.contains("group/world accessible")), "{mode:o}");
        }
        assert!(told(Some(Path::new("/no/such"))).is_err_and(|told| told.contains("cannot read /no/such/key")));
        for nowhere in [None, Some(Path::new(""))] {
            assert!(told(nowhere).is_err_and(|told| told.contains("LoadCredential=key:FILE")));
        }
        let (root, me, other) = (0, 1000, 1001);
        let may = |keeper: Keeper| [root, me, other].map(|owner| keeper.may_be(owner, me));
        assert_eq!((may(Keeper::User), may(Keeper::ServiceManager)), ([false, true, false], [true, true, false]));
    }

    #[test]
    fn a_secret_of_another_user_is_refused() {
        let folder = kept(&[("theirs", b"s3cret")]);
        let path = folder.path().join("theirs");
        // Only root can give a file away; anyone else has none to try it with.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            let refused = told(&SecretSource::File(path));
            assert!(refused.as_ref().is_err_and(|told| told.contains("belongs to user 12345")), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn what_was_read_is_hidden_wherever_it_is_said_back() {
        let folder = kept(&[("one", b"hunter2\n"), ("two", b"a\"b\\c")]);
        let secrets = Secrets::new(Arc::new(|_| None));
        assert_eq!(secrets.hide("key hunter2"), "key hunter2", "nothing was read yet");
        for name in ["one", "two"] {
            secrets.read(&SecretSource::File(folder.path().join(name))).await.unwrap();
        }
        let (one, two) = ("key hunter2 is wrong, hunter2!", r#"a"b\c and {"key":"a\"b\\c"}"#);
        assert_eq!(secrets.hide(one), "key [secret] is wrong, [secret]!");
        assert_eq!(secrets.clone().hide(two), r#"[secret] and {"key":"[secret]"}"#);
        assert_eq!(format!("{secrets:?} {:?}", Secret("hunter2".into())), "Secrets Secret");
        let key = Secret("BEGIN\nc3VyZWx5\n==\nEND\n".into());
        assert_eq!(key.hide("key: c3VyZWx5 =="), "key: [secret] ==", "a log has it line by line");
        assert_eq!(key.hide(r#"{"key":"BEGIN\nc3VyZWx5\n==\nEND\n"}"#), r#"{"key":"[secret]"}"#);
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded_and_the_newest_is_kept() {
        let secrets = Secrets::new(Arc::new(|name| Some(format!("secret-{name}-"))));
        for n in 0..=MAX_KNOWN {
            secrets.read(&SecretSource::Env(n.to_string())).await.unwrap();
        }
        assert_eq!(secrets.known.lock().unwrap_or_else(PoisonError::into_inner).len(), MAX_KNOWN);
        assert_eq!(secrets.hide(&format!("secret-{MAX_KNOWN}- secret-0-")), "[secret] secret-0-");
    }
}
