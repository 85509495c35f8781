//! Drives the real binary in a home of its own, and looks at what it does and leaves behind.
#![expect(clippy::disallowed_methods, reason = "a test starts processes, waits for them and writes files")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of the support")]

pub mod conformance;
pub mod openai;
pub mod packages;
pub mod proc;
pub mod view;

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_singularity");
/// How long anything may take that should take a moment, on a machine that is busy.
pub const SOON: Duration = Duration::from_secs(30);
/// How long a command may take that fetches or builds something.
pub const PATIENT: Duration = Duration::from_secs(300);

/// Waits until `holds`; fails the test, saying `what` was waited for, when `deadline` passes.
pub fn wait_until(deadline: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(deadline, what, || holds().then_some(()));
}

/// Waits until `look` finds something, and yields it; fails the test, saying `what` was waited for, when `deadline` passes.
pub fn wait_for<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < deadline, "waited {deadline:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The exit code, or -1 for a command that a signal ended.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The same output, for commands that have to work.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{}\nstdout:\n{}\nstderr:\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON: {error}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// A fresh home with a folder for manifests beside it. Its path is short, for a unix socket's may have 107 bytes; and it is unique, so
/// whatever mentions it belongs to this test. When dropped, the processes that mention it are killed.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("sg-").tempdir_in("/tmp").expect("/tmp is writable");
        Self { folder }
    }

    /// A fresh home that holds the weights which are in `target/models` already, so that not every run fetches them.
    pub fn with_models() -> Self {
        Self::new().keeping("")
    }

    /// The same with the embedding model alone.
    pub fn with_meanings() -> Self {
        Self::new().keeping("all-MiniLM-L6-v2")
    }

    fn keeping(self, folder: &str) -> Self {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("models").join(folder);
        let models = self.path().join("models").join(folder);
        DirBuilder::new().recursive(true).mode(0o700).create(&models).expect("a folder can be made");
        for entry in fs::read_dir(kept).into_iter().flatten().flatten().filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), models.join(entry.file_name())).expect("a file can be copied");
        }
        self
    }

    /// The folder around the home: manifests, workspaces, what a test wants to be left alone.
    pub fn around(&self) -> &Path {
        self.folder.path()
    }

    /// The home itself, not yet made.
    pub fn path(&self) -> PathBuf {
        self.around().join("home")
    }

    /// Writes a file in the folder around the home, folders made as needed.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.around().join(name);
        fs::create_dir_all(path.parent().expect("a folder around it")).expect("a folder can be made");
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// The command with a clean environment, in the folder around the home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(self.around()).stdin(Stdio::null()).env_clear();
        let kept = ["PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_INDEX_URL", "HTTPS_PROXY", "https_proxy"];
        command.envs(kept.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        command.env("SINGULARITY_HOME", self.path()).env("NO_COLOR", "1");
        command
    }

    /// Runs a command to its end within [`SOON`].
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_within(SOON, args)
    }

    /// Runs a command to its end; one that has not ended by the deadline is killed and fails the test with what it said.
    #[track_caller]
    pub fn run_within(&self, deadline: Duration, args: &[&str]) -> Output {
        let mut life = self.spawn(args);
        let ended = life.ended_within(deadline);
        let (stdout, stderr) = life.said();
        let Some(status) = ended else { panic!("`{}` did not end within {deadline:?}\n{stdout}\n{stderr}", args.join(" ")) };
        Output { status, stdout, stderr }
    }

    /// Starts a command that goes on. Its output goes to files, so whoever inherits it holds nothing up.
    pub fn spawn(&self, args: &[&str]) -> Life {
        let talk = tempfile::tempdir_in(self.around()).expect("a folder can be made");
        let open = |name: &str| File::create(talk.path().join(name)).expect("a file can be made");
        let spawned = self.command(args).stdout(open("stdout")).stderr(open("stderr")).spawn();
        Life { child: spawned.expect("the binary starts"), talk }
    }

    /// The process of this home's daemon: the one that runs the binary, mentions the home and has no such parent.
    pub fn daemon(&self) -> Option<proc::Process> {
        let ours = proc::mentioning(self.around());
        let mut of_binary = ours.iter().filter(|process| process.runs(Path::new(BINARY)));
        of_binary.find(|process| !ours.iter().any(|other| other.pid == process.parent)).cloned()
    }

    pub fn being(&self, name: &str) -> PathBuf {
        self.path().join("beings").join(name)
    }

    /// The being's journal; a last line that is still being written is left out.
    #[track_caller]
    pub fn journal(&self, being: &str) -> Vec<Value> {
        let path = self.being(being).join("activity.jsonl");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))).collect()
    }

    /// The journal's events of one type.
    #[track_caller]
    pub fn events(&self, being: &str, kind: &str) -> Vec<Value> {
        self.journal(being).into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// `state.json`.
    #[track_caller]
    pub fn state(&self, being: &str) -> Value {
        let path = self.being(being).join("state.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for process in proc::mentioning(self.around()) {
            process.kill();
        }
    }
}

/// A command that goes on; killed when dropped.
#[derive(Debug)]
pub struct Life {
    child: Child,
    talk: TempDir,
}

impl Life {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// stdout and stderr so far.
    pub fn said(&self) -> (String, String) {
        let read = |name: &str| String::from_utf8_lossy(&fs::read(self.talk.path().join(name)).unwrap_or_default()).into_owned();
        (read("stdout"), read("stderr"))
    }

    /// Waits for the end; `None` when the deadline passes first.
    pub fn ended_within(&mut self, deadline: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < deadline {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
