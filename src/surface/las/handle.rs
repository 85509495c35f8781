use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};

use super::{
    config::{KEY, LasConfig},
    health::{self, SurfaceHealth},
    serve::{PARTING, clean},
};
use crate::{
    manifest::{ExternalLas, SurfaceSpec},
    process::{Backoff, Confinement, Spawn, Talk},
    surface::{
        Ask, Call, CallError, OpenError, Remote, RemoteTool,
        answer::{self, REMOTE_TOOL},
        ask::{self, Asks, Questions},
        keeper::{Keeper, Phase},
        session::{Aim, Reach},
    },
    vocab::{Name, Span},
};

/// How long a request to a Las of another make may take.
const DEADLINE: Duration = Duration::from_secs(120);
/// By how much Las may be later than its surfaces' own deadlines, so that it is Las who says what happened.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a Las may take to end when it cannot be used.
const GRACE: Duration = Duration::from_secs(5);

/// What a Las is started with.
#[derive(Debug, Clone)]
pub struct LasStart {
    /// This program's own binary: the supervisor, and the Las unless `external` is given.
    pub program: PathBuf,
    /// The surfaces that the being selected.
    pub surfaces: BTreeMap<Name, SurfaceSpec>,
    /// Surfaces that must expose a tool at once.
    pub required: Vec<Name>,
    /// The being's own folder: `{workspace}`, and where Las and its surfaces run.
    pub workspace: PathBuf,
    /// Where the tokens of surfaces are kept that are had by OAuth.
    pub tokens: PathBuf,
    /// Another program in the place of the built-in Las.
    pub external: Option<ExternalLas>,
    /// The daemon's environment as it was read at its start. Only `PATH` and the variables that hold bearers are taken from it.
    pub env: BTreeMap<String, String>,
    /// How long a surface may take until its tools are listed.
    pub patience: Duration,
    /// How long between two attempts to start a surface that ended or failed.
    pub pace: Backoff,
}

impl LasStart {
    /// How long a surface may take when nothing else is said.
    pub const PATIENCE: Duration = Duration::from_secs(30);
}

/// Why a Las cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LasError {
    #[error("mcp: cannot start Las")]
    NotStarted(#[source] Box<OpenError>),
    #[error("mcp: required Las surface unavailable: {surface}")]
    RequiredUnavailable {
        surface: Name,
        #[source]
        because: Trouble,
    },
}

/// What is the matter with a surface, as Las tells it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// A Las that runs, kept alive. Dropping it kills it and its surfaces; [`Las::stop`] is polite.
#[derive(Debug)]
pub struct Las {
    /// `None` when nothing was selected: then no process is needed.
    keeper: Option<Keeper>,
    timeouts: BTreeMap<Name, Duration>,
    questions: Mutex<Questions>,
}

impl Las {
    /// Starts a Las and waits until each of its surfaces is up or has failed once.
    pub async fn start(start: LasStart) -> Result<Self, LasError> {
        let timeouts = start.surfaces.iter().map(|(name, spec)| (name.clone(), spec.timeout.as_duration())).collect();
        let (asks, questions) = ask::questions();
        let keeper = match start.aim(asks) {
            Some(aim) => Some(Keeper::open(aim).await.map_err(|error| LasError::NotStarted(Box::new(error)))?),
            None => None,
        };
        let las = Self { keeper, timeouts, questions: Mutex::new(questions) };
        let missing = start.required.iter().find(|surface| !las.exposes(surface));
        if let Some(surface) = missing {
            let because = las.trouble(surface);
            las.stop(GRACE).await;
            return Err(LasError::RequiredUnavailable { surface: surface.clone(), because });
        }
        Ok(las)
    }

    /// Ends Las and its surfaces, by force when `grace` has passed.
    pub async fn stop(&self, grace: Duration) {
        if let Some(keeper) = &self.keeper {
            keeper.stop(grace).await;
        }
    }

    /// How each surface is. While Las itself is away, none of them is up.
    pub fn health(&self) -> BTreeMap<Name, SurfaceHealth> {
        let Some(keeper) = &self.keeper else { return BTreeMap::new() };
        let view = keeper.view();
        let mut healths = view.meta.as_deref().map(health::from_meta).unwrap_or_default();
        if let Phase::Down { because } = view.phase {
            for health in healths.values_mut() {
                health.up = false;
                health.reason = Some(format!("Las is away: {because}"));
            }
        }
        healths
    }

    /// Waits for what a server asks of a person in the midst of a call. Cancel safe.
    pub async fn asked(&self) -> Ask {
        match self.questions.lock().await.recv().await {
            Some(ask) => ask,
            None => std::future::pending().await,
        }
    }

    /// Which of its lists [`Remote::tools`] yields now: the same number, the same list.
    pub fn edition(&self) -> u64 {
        self.keeper.as_ref().map_or(0, |keeper| keeper.edition())
    }

    /// How often Las itself was lost since it was started.
    pub fn restarts(&self) -> u32 {
        self.keeper.as_ref().map_or(0, |keeper| keeper.view().restarts)
    }

    fn exposes(&self, surface: &Name) -> bool {
        let prefix = format!("{surface}{PARTING}");
        self.tools().iter().any(|tool| tool.name.starts_with(&prefix))
    }

    fn trouble(&self, surface: &Name) -> Trouble {
        let health = self.health().remove(surface);
        Trouble(match health {
            None => format!("nothing of Las is called `{surface}`"),
            Some(SurfaceHealth { reason: Some(reason), .. }) => reason,
            Some(_) => format!("`{surface}` is up but lists no tool"),
        })
    }

    async fn ask(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, CallError> {
        let surface = tool.split_once(PARTING).and_then(|(surface, _)| Name::try_from(surface).ok());
        let own = surface.and_then(|surface| self.timeouts.get(&surface)).map(|timeout| timeout.saturating_add(MARGIN));
        let Some(keeper) = &self.keeper else { return Err(answer::unavailable("las", "no surface is selected")) };
        let result = keeper.call(tool, arguments, own.unwrap_or(DEADLINE)).await?;
        serde_json::to_value(result).map_err(|error| CallError::Failed { code: REMOTE_TOOL, message: error.to_string() })
    }
}

impl Remote for Las {
    fn tools(&self) -> Vec<RemoteTool> {
        let Some(keeper) = &self.keeper else { return Vec::new() };
        let remote = |tool: &rmcp::model::Tool| RemoteTool {
            name: tool.name.clone().into_owned(),
            description: tool.description.clone().unwrap_or_default().into_owned(),
            input_schema: Value::Object(tool.input_schema.as_ref().clone()),
        };
        keeper.view().tools.iter().map(remote).collect()
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Map<String, Value>) -> Call<'a> {
        Box::pin(self.ask(tool, arguments))
    }
}

impl LasStart {
    fn aim(&self, asks: mpsc::Sender<Ask>) -> Option<Aim> {
        let mut env = clean(&self.env);
        let (command, joins) = match &self.external {
            Some(external) => {
                let told = [("LAS_ONLY", &external.only), ("LAS_SKIP", &external.skip)];
                env.extend(told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))));
                (external.command.clone(), None)
            }
            None if self.surfaces.is_empty() => return None,
            None => {
                let config =
                    LasConfig::new(&self.surfaces, (&self.workspace, &self.tokens), Span::from(self.patience), self.pace.clone());
                let bearers = config.bearer_variables().into_iter();
                env.extend(bearers.filter_map(|name| Some((name.to_owned(), self.env.get(name)?.clone()))));
                let command = vec![self.program.to_string_lossy().into_owned(), "las".to_owned()];
                (command, Some((KEY.to_owned(), config.to_capability())))
            }
        };
        let talk = if joins.is_some() { Talk::Relay } else { Talk::Of };
        let spawn = Spawn {
            supervisor: self.program.clone(),
            command,
            env,
            cwd: Some(self.workspace.clone()),
            confinement: Confinement::default(),
            talk: talk("las".to_owned()),
        };
        let patience = self.patience.saturating_add(MARGIN);
        let (reach, pace, asks) = (Reach::Las { spawn, joins }, self.pace.clone(), Asks::new(asks));
        Some(Aim { name: "las".to_owned(), reach, patience, pace, asks, relay: None })
    }
}
