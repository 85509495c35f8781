use std::{io, path::PathBuf, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    time::{Instant, timeout},
};

use super::{
    body::Body,
    fault::{Fault, Phase, Wrong},
    frame::{Ask, Begin, Decided, MAX_FRAME, Made, Said},
    grant::Grant,
    python::{MODULES, Python},
};
use crate::{
    decision::{Decision, DecisionError, DecisionRequest, Engine},
    process::{Child, Spawn, SpawnError, Talk, Veil},
};

/// Where bodies run.
#[derive(Debug, Clone)]
pub struct Place {
    /// This program's own binary.
    pub program: PathBuf,
    pub python: Python,
    /// The `PATH` of the body's process.
    pub path: String,
    /// Takes the secrets that the body is given out of all that it says.
    pub veil: Option<Veil>,
}

/// Why a body's process was not started.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("no `python3` on the path is a program; install CPython 3.10 or newer")]
    NoPython,
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// Why a run does not go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The body's own doing.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// No decision could be had; nothing is guessed.
    #[error("the engine did not decide")]
    Engine(#[from] DecisionError),
    #[error("the body's process could not be started")]
    Place(#[from] PlaceError),
    #[error("no folder could be made for the body to work in")]
    Folder(#[source] io::Error),
}

/// How a decision that a body asks for is made, and how many more it may have.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub engine: &'a Engine,
    pub left: u32,
    /// Of the cost budget, for the message.
    pub budget: f64,
    pub made: Vec<(DecisionRequest, Decision)>,
}

/// A body's process.
#[derive(Debug)]
pub(super) struct Host {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    grant: Grant,
    veil: Option<Veil>,
    /// Time on the wall that is left.
    left: Duration,
    phase: Phase,
}

/// The signal by which the kernel says that time on a core is spent.
const SPENT: i32 = 128 + libc::SIGXCPU;
/// How long a process may take to end that has nothing left to do.
const GRACE: Duration = Duration::from_millis(500);
/// How long a process may take to end, once its pipe is closed.
const ENDING: Duration = Duration::from_secs(5);

impl Host {
    /// Starts the process, confined, and tells it of the body.
    pub(super) async fn start(place: &Place, body: &Body, grant: &Grant) -> Result<Self, WorkError> {
        let file = body.file.to_string_lossy();
        let hosts = grant.network.iter().map(|peer| (peer.host.as_str(), peer.port)).collect::<Vec<_>>();
        let begin = Begin {
            modules: MODULES,
            name: body.name.to_string(),
            file: &file,
            source: &body.source,
            cpu: grant.cpu_seconds(),
            hosts: (!hosts.is_empty()).then_some(hosts),
        };
        let spawn = Spawn {
            supervisor: place.program.clone(),
            command: place.python.command(),
            env: grant.env(&place.path),
            cwd: Some(grant.folder.clone()),
            confinement: grant.confinement(),
            talk: Talk::Of(body.name.to_string()),
            veil: place.veil.clone(),
        };
        let mut child = spawn.start().map_err(PlaceError::from)?;
        let Some((to, from)) = child.take_pipes() else { return Err(PlaceError::Spawn(SpawnError::Empty).into()) };
        let left = grant.wall.as_duration();
        let mut host = Self {
            child,
            to,
            from: BufReader::new(from),
            grant: grant.clone(),
            veil: place.veil.clone(),
            left,
            phase: Phase::Load,
        };
        host.send(&begin).await?;
        Ok(host)
    }

    /// Ends the process, and yields what the body printed last.
    pub(super) async fn end(mut self) -> Vec<String> {
        drop(self.to);
        let _ = self.child.stop(GRACE).await;
        self.child.stderr().lines()
    }

    /// Asks for something in which the body decides nothing.
    pub(super) async fn ask(&mut self, phase: Phase, ask: &Ask<'_>) -> Result<Said, WorkError> {
        self.phase = phase;
        self.send(ask).await?;
        match self.hear().await? {
            Said::Decide { .. } => Err(self.garbled("it asks for a decision where none is to be made").into()),
            said => Ok(said),
        }
    }

    /// Asks for something, and has the decisions made that the body asks for meanwhile.
    pub(super) async fn work(&mut self, phase: Phase, ask: &Ask<'_>, desk: &mut Desk<'_>) -> Result<Said, WorkError> {
        self.phase = phase;
        self.send(ask).await?;
        loop {
            let request = match self.hear().await? {
                Said::Decide { request } => request,
                said => return Ok(said),
            };
            let decided = match DecisionRequest::read(&request) {
                Ok(request) => self.decide(request, desk).await?,
                Err(error) => Decided::Refused { refused: error.to_string() },
            };
            self.send(&decided).await?;
        }
    }

    async fn decide(&self, request: DecisionRequest, desk: &mut Desk<'_>) -> Result<Decided, WorkError> {
        let Some(left) = desk.left.checked_sub(1) else {
            return Err(self.fault(Wrong::Budget { budget: desk.budget }, None).into());
        };
        desk.left = left;
        let began = Instant::now();
        let decision = desk.engine.decide(&request).await?;
        let extra = json!({
            "prompt_sha256": decision.prompt_sha256,
            "input_tokens": decision.input_tokens,
            "model": decision.model,
            "total_seconds": began.elapsed().as_secs_f64(),
        });
        let decided = match decision.selected {
            None => Decided::Refused { refused: "the engine abstains: the model would rather say something else".to_owned() },
            Some(_) => {
                Decided::Made { option_ids: decision.option_ids.clone(), probabilities: decision.probabilities.clone(), extra }
            }
        };
        desk.made.push((request, decision));
        Ok(decided)
    }

    async fn send(&mut self, frame: &impl Serialize) -> Result<(), WorkError> {
        let mut line = serde_json::to_vec(frame).map_err(|error| self.garbled(&error.to_string()))?;
        line.push(b'\n');
        match timeout(self.left, self.to.write_all(&line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.ended().await.into()),
            Err(_) => Err(self.fault(Wrong::Wall { limit: self.grant.wall }, None).into()),
        }
    }

    async fn hear(&mut self) -> Result<Said, WorkError> {
        let began = Instant::now();
        let mut line = Vec::new();
        let heard = timeout(self.left, (&mut self.from).take(MAX_FRAME).read_until(b'\n', &mut line)).await;
        self.left = self.left.saturating_sub(began.elapsed());
        match heard {
            Err(_) => return Err(self.fault(Wrong::Wall { limit: self.grant.wall }, None).into()),
            Ok(Ok(1..)) if line.ends_with(b"\n") => {}
            Ok(_) if line.len() > 1 << 20 => return Err(self.garbled("a line without an end").into()),
            Ok(_) => return Err(self.ended().await.into()),
        }
        if let Some(veil) = &self.veil {
            // JSON is written anew, so that a secret stands there as it is hidden, whatever Python escaped of it.
            let said = serde_json::from_slice::<Value>(&line).map(|said| said.to_string());
            line = veil.hide(&said.unwrap_or_else(|_| String::from_utf8_lossy(&line).into_owned())).into_bytes();
        }
        match serde_json::from_slice(&line) {
            Ok(Said::Fault { kind, text, line }) => Err(self.fault(self.wrong(&kind, text), line).into()),
            Ok(said) => Ok(said),
            Err(_) => Err(self.garbled(&shown(&line)).into()),
        }
    }

    /// What the process's end means.
    async fn ended(&mut self) -> Fault {
        let status = match timeout(ENDING, self.child.wait()).await {
            Ok(Ok(status)) => status.code().unwrap_or_default(),
            _ => return self.fault(Wrong::Left { status: "it closed the pipe of its results".to_owned() }, None),
        };
        let what = match status {
            SPENT => Wrong::Cpu { limit: self.grant.cpu },
            125..=127 => Wrong::Left { status: format!("it was not started: {}", self.child.stderr().lines().join("; ")) },
            signal @ 129..=192 => Wrong::Left { status: format!("signal {} ended it", signal - 128) },
            code => Wrong::Left { status: format!("exit status {code}") },
        };
        self.fault(what, None)
    }

    fn wrong(&self, kind: &str, text: String) -> Wrong {
        match kind {
            "import" => Wrong::Import { module: text },
            "file" => Wrong::File { path: text.into() },
            "network" => Wrong::Network { peer: text },
            "process" => Wrong::Process { what: text },
            "memory" => Wrong::Memory { limit: self.grant.memory },
            "file_size" => Wrong::FileSize { limit: self.grant.file_size },
            "functions" => Wrong::Functions { text },
            "type" => Wrong::Type { text },
            "test" => Wrong::Test { text },
            "left" => Wrong::Left { status: text },
            "too_long" => Wrong::TooLong { text },
            _ => Wrong::Raised { text },
        }
    }

    fn fault(&self, what: Wrong, line: Option<u32>) -> Fault {
        Fault { phase: self.phase, line, what }
    }

    pub(super) fn garbled(&self, text: &str) -> Fault {
        self.fault(Wrong::Garbled { text: text.to_owned() }, None)
    }

    /// Says which of the decisions that a body hands back was never made.
    pub(super) fn check_made(&self, handed: &[Made], desk: &Desk<'_>) -> Result<(), Fault> {
        let is_made = |made: &Made| {
            desk.made.iter().any(|(request, decision)| {
                request.id == made.id() && made.result.get("probabilities") == Some(&Value::from(decision.probabilities.clone()))
            })
        };
        match handed.iter().find(|made| !is_made(made)) {
            Some(made) => Err(self.fault(Wrong::Mocked { id: made.id().to_owned() }, None)),
            None => Ok(()),
        }
    }
}

/// What of a line may be shown.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|letter| !letter.is_control()).take(80).collect()
}
