use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use futures::future::join_all;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};

use super::{
    config::{KEY, LasConfig},
    health::{self, SurfaceHealth},
    reach::clean,
    serve::PARTING,
    shared::{Share, SharedSurfaces},
};
use crate::{
    manifest::{ExternalLas, Scope, SurfaceSpec},
    process::{Backoff, Confinement, Spawn, Talk},
    surface::{
        Ask, Call, CallError, OpenError, Remote, RemoteTool,
        answer::{self, REMOTE_TOOL},
        ask::{self, Asks, Questions},
        keeper::{Keeper, Phase, View},
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
    /// Where surfaces of scope `shared` are kept for all; without it they run in this Las.
    pub shared: Option<SharedSurfaces>,
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

/// A Las that runs, kept alive, and the shared surfaces beside it. Dropping it kills it and its own surfaces; [`Las::stop`] is polite.
#[derive(Debug)]
pub struct Las {
    /// `None` when nothing was selected that runs in it: then no process is needed.
    keeper: Option<Keeper>,
    timeouts: BTreeMap<Name, Duration>,
    shares: BTreeMap<Name, Share>,
    questions: Mutex<Questions>,
}

impl Las {
    /// Starts a Las and waits until each of its surfaces is up or has failed once.
    pub async fn start(mut start: LasStart) -> Result<Self, LasError> {
        let timeouts = start.surfaces.iter().map(|(name, spec)| (name.clone(), spec.timeout.as_duration())).collect();
        let (asks, questions) = ask::questions();
        let shares = start.share(&asks);
        let keeper = match start.aim(asks) {
            Some(aim) => Some(Keeper::open(aim).await.map_err(|error| LasError::NotStarted(Box::new(error)))?),
            None => None,
        };
        let las = Self { keeper, timeouts, shares, questions: Mutex::new(questions) };
        join_all(las.shares.values().map(Share::settled)).await;
        let missing = start.required.iter().find(|surface| !las.exposes(surface));
        if let Some(surface) = missing {
            let because = las.trouble(surface);
            las.stop(GRACE).await;
            return Err(LasError::RequiredUnavailable { surface: surface.clone(), because });
        }
        Ok(las)
    }

    /// Ends Las and its surfaces, by force when `grace` has passed, and uses shared ones no longer.
    pub async fn stop(&self, grace: Duration) {
        if let Some(keeper) = &self.keeper {
            keeper.stop(grace).await;
        }
        self.shares.values().for_each(Share::release);
    }

    /// How each surface is. While Las itself is away, none of its own is up.
    pub fn health(&self) -> BTreeMap<Name, SurfaceHealth> {
        let mut healths = self.own_health();
        healths.extend(self.shares.iter().map(|(name, share)| (name.clone(), share.health())));
        healths
    }

    fn own_health(&self) -> BTreeMap<Name, SurfaceHealth> {
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
        let mut questions = self.questions.lock().await;
        while let Some(ask) = questions.recv().await {
            // It came in a call that has ended.
            if !ask.is_withdrawn() {
                return ask;
            }
        }
        std::future::pending().await
    }

    /// Which of its lists [`Remote::tools`] yields now: the same number, the same list.
    pub fn edition(&self) -> u64 {
        let own = self.keeper.as_ref().map_or(0, Keeper::edition);
        // None of them ever goes back, so no two lists have one sum.
        own + self.shares.values().map(|share| share.view().edition).sum::<u64>()
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
        let named = tool.split_once(PARTING).and_then(|(surface, own)| Some((Name::try_from(surface).ok()?, own)));
        let share = named.as_ref().and_then(|(surface, own)| Some((self.shares.get(surface)?, *own)));
        let result = match (share, &self.keeper) {
            (Some((share, own)), _) => share.call(own, arguments).await?,
            (None, Some(keeper)) => {
                let timeout = named.and_then(|(surface, _)| self.timeouts.get(&surface));
                keeper.call(tool, arguments, timeout.map_or(DEADLINE, |timeout| timeout.saturating_add(MARGIN))).await?
            }
            (None, None) => return Err(answer::unavailable("las", "no surface is selected")),
        };
        serde_json::to_value(result).map_err(|error| CallError::Failed { code: REMOTE_TOOL, message: error.to_string() })
    }
}

impl Remote for Las {
    fn tools(&self) -> Vec<RemoteTool> {
        let own = self.keeper.iter().flat_map(|keeper| remote_tools(&keeper.view(), str::to_owned));
        let shared = self.shares.iter().flat_map(|(surface, share)| {
            let named = |own: &str| format!("{surface}{PARTING}{own}");
            remote_tools(&share.view(), named)
        });
        let mut tools: Vec<RemoteTool> = own.chain(shared).collect();
        if !self.shares.is_empty() {
            // As one Las lists them.
            tools.sort_by(|a, b| surface_of(a).cmp(surface_of(b)));
        }
        tools
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Map<String, Value>) -> Call<'a> {
        Box::pin(self.ask(tool, arguments))
    }
}

fn remote_tools(view: &View, named: impl Fn(&str) -> String) -> Vec<RemoteTool> {
    let remote = |tool: &rmcp::model::Tool| RemoteTool {
        name: named(&tool.name),
        description: tool.description.clone().unwrap_or_default().into_owned(),
        input_schema: Value::Object(tool.input_schema.as_ref().clone()),
    };
    view.tools.iter().map(remote).collect()
}

fn surface_of(tool: &RemoteTool) -> &str {
    tool.name.split_once(PARTING).map_or("", |(surface, _)| surface)
}

impl LasStart {
    /// Takes the shared surfaces out, and uses them where they are kept. A Las of another make joins what it knows itself.
    fn share(&mut self, asks: &mpsc::Sender<Ask>) -> BTreeMap<Name, Share> {
        let Some(kept) = self.shared.as_ref().filter(|_| self.external.is_none()) else { return BTreeMap::new() };
        let (shared, own): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.surfaces).into_iter().partition(|(_, spec): &(Name, SurfaceSpec)| spec.scope == Scope::Shared);
        self.surfaces = own;
        let share = |(name, spec): (&Name, &SurfaceSpec)| (name.clone(), kept.share(name, spec, Asks::new(asks.clone())));
        shared.iter().map(share).collect()
    }

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
                let secret = config.secret_variables().into_iter();
                env.extend(secret.filter_map(|name| self.env.get(&name).map(|value| (name, value.clone()))));
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
            veil: None,
        };
        let patience = self.patience.saturating_add(MARGIN);
        let (reach, pace, asks) = (Reach::Las { spawn, joins }, self.pace.clone(), Asks::new(asks));
        Some(Aim { name: "las".to_owned(), reach, patience, pace, asks, relay: None })
    }
}
