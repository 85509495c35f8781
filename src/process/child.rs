use std::{
    collections::BTreeMap,
    io,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    Confinement, Tail, Talk, Veil, sandbox_support, strays,
    supervise::{CONFINE, MODE},
    tail::spoken,
    voice::Voice,
};

/// How long a supervisor may take to kill and reap all that it holds.
const REAP_DEADLINE: Duration = Duration::from_secs(10);
/// How long stderr may stay open after the last process has ended.
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);

/// How long a flood must have ceased until it is told how much of it was not logged.
const OWED_AFTER: Duration = Duration::from_secs(1);

/// What to run, and in what surroundings.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// This program's own binary, which is run as the supervisor.
    pub supervisor: PathBuf,
    /// The program and its arguments. A bare name is looked up on the child's own `PATH`.
    pub command: Vec<String>,
    /// The whole environment; nothing else is passed.
    pub env: BTreeMap<String, String>,
    /// The working directory; `None` is the one of this process.
    pub cwd: Option<PathBuf>,
    /// How it is held.
    pub confinement: Confinement,
    /// How the log has what it says on stderr.
    pub talk: Talk,
    /// What is taken out of that, where the environment holds what nobody may read.
    pub veil: Option<Veil>,
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
    /// The command as one short line, for people.
    pub fn line(&self) -> String {
        spoken(&self.command.join(" "))
    }

    /// Starts the command under its supervisor. Must be called within a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "processes are owned here")]
    pub fn start(&self) -> Result<Child, SpawnError> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(SpawnError::Empty);
        }
        self.warn_of_gaps();
        let confinement = serde_json::to_string(&self.confinement).unwrap_or_default();
        let mut command = Command::new(&self.supervisor);
        command.args([MODE, "--parent", &std::process::id().to_string(), CONFINE, &confinement, "--"]).args(&self.command);
        command.env_clear().envs(&self.env).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &self.cwd {
            std::fs::read_dir(folder).map_err(|source| SpawnError::NoFolder { path: folder.clone(), source })?;
            command.current_dir(folder);
        }
        let started = strays::keep(|| command.spawn(), supervisor);
        let mut process = started.map_err(|source| SpawnError::NoSupervisor {
            supervisor: self.supervisor.clone(),
            command: self.line(),
            source,
        })?;
        let stderr = Tail::default();
        let drain =
            process.stderr.take().map(|pipe| tokio::spawn(drain(pipe, stderr.clone(), (self.talk.clone(), self.veil.clone()))));
        Ok(Child { stdin: process.stdin.take(), stdout: process.stdout.take(), stderr, drain, process })
    }

    /// Says, once in the life of this process, that the kernel does not keep sandboxes whole.
    fn warn_of_gaps(&self) {
        static TOLD: std::sync::Once = std::sync::Once::new();
        if self.confinement.sandbox.as_ref().is_some_and(|sandbox| !sandbox.require) && !sandbox_support().is_whole() {
            TOLD.call_once(|| tracing::warn!("sandboxes are not kept whole here: {}", sandbox_support()));
        }
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
        let id = supervisor(&self.process);
        let status = self.process.wait().await?;
        id.into_iter().for_each(strays::forget);
        if status.signal().is_some() {
            // It was killed itself: what it held is now this process's own to end.
            let _ = tokio::task::spawn_blocking(strays::sweep).await;
        }
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
        if let Some(id) = supervisor(&self.process) {
            let _ = kill_process(id, signal);
        }
    }
}

/// The supervisor's id, until it is reaped.
fn supervisor(process: &tokio::process::Child) -> Option<Pid> {
    process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

impl Drop for Child {
    /// Has everything killed; the runtime reaps the supervisor later.
    fn drop(&mut self) {
        let ended = self.process.id().and_then(|_| self.process.try_wait().ok().flatten());
        if ended.is_some_and(|status| status.signal().is_some()) {
            std::thread::spawn(strays::sweep);
            return;
        }
        self.signal(Signal::QUIT);
    }
}

/// Reads all that comes, keeps the end of it, and brings it to the log.
async fn drain(mut pipe: impl AsyncRead + Unpin, tail: Tail, (talk, veil): (Talk, Option<Veil>)) {
    // What is not kept as it comes is kept as people read it.
    let by_line = matches!(talk, Talk::Relay(_)) || veil.is_some();
    let mut voice = Voice::new(talk, veil, Instant::now());
    let mut buffer = [0_u8; 4_096];
    let mut owes = false;
    loop {
        let read = pipe.read(&mut buffer);
        let read = if owes { timeout(OWED_AFTER, read).await } else { Ok(read.await) };
        match read {
            Ok(Ok(count @ 1..)) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                let plain = voice.hear(bytes, Instant::now());
                tail.feed(if by_line { &plain } else { bytes });
            }
            Ok(_) => break,
            Err(_) => {}
        }
        owes = voice.catch_up(Instant::now());
    }
    let plain = voice.end(Instant::now());
    if by_line {
        tail.feed(&plain);
    }
}
