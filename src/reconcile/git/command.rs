use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{io::AsyncReadExt as _, time::timeout};

use super::{FetchError, fetch::MAX_FILES};
use crate::{
    process::{Confinement, Limits, Spawn, Talk},
    vocab::Size,
};

/// How long one run of `git` may take.
const DEADLINE: Duration = Duration::from_secs(120);
/// The largest file that `git` may write, a pack of all commits of the branch among them.
const MAX_FILE: Size = Size::mib(1_024);
/// Bytes that `git` may answer with: the list of a commit's files.
const MAX_ANSWER: u64 = 16 << 20;
/// What a shell says where there is no such program.
const NOT_FOUND: i32 = 127;
/// Variables of the daemon that `git` sees: how programs and servers are reached.
const PASSED: [&str; 10] = [
    "PATH",
    "SSH_AUTH_SOCK",
    "GIT_SSL_CAINFO",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];
/// What holds in the place of all settings of this user and machine.
const SURROUNDINGS: [(&str, &str); 9] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=20"),
    ("GIT_ALLOW_PROTOCOL", "file:https:http:ssh"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("LC_ALL", "C"),
];
const SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.fsync=committed,reference",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    "submodule.recurse=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
];

/// The `git` program on one repository, where nothing of the user's own settings reaches it.
#[derive(Debug, Clone)]
pub(in crate::reconcile) struct Git {
    supervisor: PathBuf,
    env: BTreeMap<String, String>,
}

/// What `git` answered.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) text: String,
    /// The last lines of what it complained of.
    pub(super) words: String,
}

impl Git {
    /// `git` on a bare repository, run by this program's own binary, out of the environment of the process.
    pub(in crate::reconcile) fn new(supervisor: &Path, env: &BTreeMap<String, String>, repository: &Path) -> Self {
        let passed = PASSED.iter().filter_map(|name| Some(((*name).to_owned(), env.get(*name)?.clone())));
        let fixed = SURROUNDINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let place = repository.display().to_string();
        // Without a home of its own it would look for settings in the user's.
        let own = [("HOME".to_owned(), place.clone()), ("GIT_DIR".to_owned(), place)];
        Self { supervisor: supervisor.to_owned(), env: passed.chain(fixed).chain(own).collect() }
    }

    /// The same, with a folder that files are set down in, and what is known of it.
    pub(super) fn with_tree(&self, tree: &Path, index: &Path) -> Self {
        let mut git = self.clone();
        git.env.insert("GIT_WORK_TREE".to_owned(), tree.display().to_string());
        git.env.insert("GIT_INDEX_FILE".to_owned(), index.display().to_string());
        git
    }

    /// Runs `git` to its end, whatever that is. Dropping the future ends it and all that it started.
    pub(super) async fn ask(&self, args: &[&str]) -> Result<Said, FetchError> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let command = ["git"].into_iter().chain(settings).chain(args.iter().copied()).map(str::to_owned).collect();
        let limits = Limits { file_size: Some(MAX_FILE), ..Limits::default() };
        let spawn = Spawn {
            supervisor: self.supervisor.clone(),
            command,
            env: self.env.clone(),
            cwd: None,
            confinement: Confinement { limits, sandbox: None },
            talk: Talk::Of("git".to_owned()),
            veil: None,
        };
        let run = async {
            let mut child = spawn.start()?;
            let mut answer = Vec::new();
            if let Some((stdin, stdout)) = child.take_pipes() {
                drop(stdin);
                let _what_came_counts = stdout.take(MAX_ANSWER + 1).read_to_end(&mut answer).await;
            }
            if u64::try_from(answer.len()).unwrap_or(u64::MAX) > MAX_ANSWER {
                return Err(FetchError::TooLarge {
                    what: "a commit has too many files".to_owned(),
                    most: format!("{MAX_FILES} files"),
                });
            }
            let failed = |error: std::io::Error| FetchError::Failed { verb: verb(args), words: error.to_string() };
            let status = child.wait().await.map_err(failed)?;
            let words = child.stderr().lines();
            let last = words.iter().rev().take(3).rev().map(|line| line.trim()).collect::<Vec<_>>().join("; ");
            Ok(Said { code: status.code().unwrap_or(-1), text: String::from_utf8_lossy(&answer).into_owned(), words: last })
        };
        let late = || FetchError::Late { verb: verb(args), seconds: DEADLINE.as_secs() };
        let said: Said = timeout(DEADLINE, run).await.unwrap_or_else(|_| Err(late()))?;
        if said.code == NOT_FOUND { Err(FetchError::NoGit) } else { Ok(said) }
    }

    /// Runs `git`, and yields what it answered where it did what it was told.
    pub(super) async fn run(&self, args: &[&str]) -> Result<String, FetchError> {
        let Said { code, text, words } = self.ask(args).await?;
        match code {
            0 => Ok(text),
            _ => {
                let words = if words.is_empty() { format!("exit code {code}") } else { words };
                Err(FetchError::Failed { verb: verb(args), words })
            }
        }
    }
}

/// What `git` was told to do, behind its settings.
fn verb(args: &[&str]) -> String {
    args.iter().find(|word| !word.starts_with('-') && !word.contains('=')).copied().unwrap_or_default().to_owned()
}
