use std::{collections::BTreeMap, io, path::PathBuf, process::ExitStatus, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use super::{Tail, supervise::MODE};

/// How long a supervisor may take to kill and reap all that it holds.
const REAP_DEADLINE: Duration = Duration::from_secs(10);
/// How long stderr may stay open after the last process has ended.
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);

/// What to run, and in what surroundings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// This program's own binary, which is run as the supervisor.
    pub supervisor: PathBuf,
    /// The program and its arguments. A bare name is looked up on the child's own `PATH`.
    pub command: Vec<String>,
    /// The whole environment; nothing else is passed.
    pub env: BTreeMap<String, String>,
    /// The working directory; `None` is the one of this process.
    pub cwd: Option<PathBuf>,
}

/// Why a child was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("the command is empty; name a program")]
    Empty,
    #[error("cannot use {} as the working directory", path.display())]
    NoFolder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the supervisor {} of `{command}`", supervisor.display())]
    NoSupervisor {
        supervisor: PathBuf,
        command: String,
        #[source]
        source: io::Error,
    },
}

/// A running command, owned: dropping the handle kills it and all that descends from it.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Tail,
    drain: Option<JoinHandle<()>>,
}

impl Spawn {
    /// The command as one line, for people.
    pub fn line(&self) -> String {
        self.command.join(" ")
    }

    /// Starts the command under its supervisor. Must be called within a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "processes are owned here")]
    pub fn start(&self) -> Result<Child, SpawnError> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(SpawnError::Empty);
        }
        let mut command = Command::new(&self.supervisor);
        command.args([MODE, "--parent", &std::process::id().to_string(), "--"]).args(&self.command);
        command.env_clear().envs(&self.env).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &self.cwd {
            std::fs::read_dir(folder).map_err(|source| SpawnError::NoFolder { path: folder.clone(), source })?;
            command.current_dir(folder);
        }
        let started = command.spawn();
        let mut process = started.map_err(|source| SpawnError::NoSupervisor {
            supervisor: self.supervisor.clone(),
            command: self.line(),
            source,
        })?;
        let stderr = Tail::default();
        let drain = process.stderr.take().map(|pipe| tokio::spawn(drain(pipe, stderr.clone())));
        Ok(Child { stdin: process.stdin.take(), stdout: process.stdout.take(), stderr, drain, process })
    }
}

impl Child {
    /// Takes the pipes: what the command reads, and what it writes. `None` when they were taken before.
    pub fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.stdin.take()?, self.stdout.take()?))
    }

    /// The supervisor's process id; `None` once it has been reaped.
    pub fn supervisor_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// The last lines of stderr, kept up to date.
    pub fn stderr(&self) -> &Tail {
        &self.stderr
    }

    /// Waits until the command and all that descends from it have ended. The status is the command's own; death by a signal reads as
    /// 128 + its number. Cancel safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await?;
        if let Some(drain) = &mut self.drain {
            let _ = timeout(DRAIN_DEADLINE, drain).await;
            self.drain = None;
        }
        Ok(status)
    }

    /// Closes stdin, asks the command's group to end (SIGTERM), and kills all of it when `grace` has passed. Reaps.
    ///
    /// Cancel safe in that a dropped stop is completed by dropping the handle.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.stdin = None;
        self.signal(Signal::TERM);
        if let Ok(ended) = timeout(grace, self.wait()).await {
            return ended;
        }
        self.signal(Signal::QUIT);
        if let Ok(ended) = timeout(REAP_DEADLINE, self.wait()).await {
            return ended;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }

    /// Sends a signal to the supervisor, whose id cannot have been reused: it is gone only once this handle has reaped it.
    fn signal(&self, signal: Signal) {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process(id, signal);
        }
    }
}

impl Drop for Child {
    /// Has everything killed; the runtime reaps the supervisor later.
    fn drop(&mut self) {
        self.signal(Signal::QUIT);
    }
}

async fn drain(mut pipe: impl AsyncRead + Unpin, tail: Tail) {
    let mut buffer = [0_u8; 4_096];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        tail.feed(buffer.get(..count).unwrap_or_default());
    }
}
