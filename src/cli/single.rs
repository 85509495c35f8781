use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use serde_json::json;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};

use super::{
    args::{Single, ToolFormat, Tools, Which},
    context::{Context, invalid, print, say},
    failure::{Class, Failure},
    progress::Progress,
};
use crate::{
    being::Ending,
    manifest::{Fleet, Loaded, Overrides, from_variables},
    runtime::{
        AnimateError, Assignment, CatalogueError, Command, Ended, Ground, Inspection, Phase, Start, Until, Weights, animate,
        inspect,
    },
    store::{Boot, CommitLog},
    vocab::Name,
};

/// Runs one being until it is stopped or has nothing left to do.
pub(super) async fn run(context: &Context, arguments: &Single) -> Result<(), Failure> {
    let ended = Box::pin(live(context, arguments, Until::Idle)).await?;
    if let Some(Phase::Asking { number, tool, .. }) = &ended.idle {
        say(&format!("{}; {ASKING}", asking(*number, tool)));
    }
    let snapshot = &ended.snapshot;
    say(&format!("stopped after cycle {} with {} USD left", snapshot.cycle, snapshot.remaining));
    Ok(())
}

/// Runs one cycle and prints its report.
pub(super) async fn once(context: &Context, arguments: &Single) -> Result<(), Failure> {
    let ended = Box::pin(live(context, arguments, Until::OneCycle)).await?;
    match ended.last_report {
        Some(report) => print(&format!("{:#}\n", json!(report))),
        None => Err(no_cycle(ended.idle)),
    }
}

/// Where a question can be answered.
const ASKING: &str = "apply the manifest, so that a daemon animates it, then `singularity questions` and `singularity approve ID`";

fn asking(number: u64, tool: &str) -> String {
    format!("question {number}, a call of {tool}, waits for approval in the being's state, and nobody can answer it here")
}

/// Why no cycle was lived.
fn no_cycle(idle: Option<Phase>) -> Failure {
    match idle {
        Some(Phase::Paused) => {
            Failure::new(Class::Configuration, "the being is paused, so it lived no cycle").hinting("set `paused = false`")
        }
        Some(Phase::Finished) => {
            Failure::new(Class::Configuration, "the being's life has reached its `cycle.limit`, so it lived no cycle")
                .hinting("raise `cycle.limit` or leave it out")
        }
        Some(Phase::Limited { because, .. } | Phase::Exhausted { because }) => {
            Failure::new(Class::Runtime, format!("the being lived no cycle: {because}"))
        }
        Some(Phase::Asking { number, tool, .. }) => Failure::new(Class::Runtime, asking(number, &tool)).hinting(ASKING),
        _ => Failure::new(Class::Runtime, "stopped before the cycle ended"),
    }
}

/// Prints the catalogue of a being.
pub(super) async fn tools(context: &Context, arguments: &Tools) -> Result<(), Failure> {
    let one = One::choose(context, &arguments.which)?;
    let (ground, _passing) = context.look_ground(&one.fleet)?;
    let ground = Arc::new(ground);
    let Inspection { tools, .. } = inspect(&ground, &one.assignment).await.map_err(|error| refused(&error))?;
    let text = match arguments.format {
        ToolFormat::Table => tools.iter().map(|tool| format!("{}\t{}\n", tool.name, first_line(&tool.description))).collect(),
        ToolFormat::Json => {
            let functions: Vec<_> = tools.iter().map(|tool| json!({ "type": "function", "function": tool })).collect();
            format!("{:#}\n", json!(functions))
        }
    };
    print(&text)
}

/// One being of a manifest, or of variables alone.
pub(super) struct One {
    pub(super) fleet: Fleet,
    pub(super) assignment: Assignment,
    /// Whether it is declared by variables and flags alone.
    is_bare: bool,
}

impl One {
    /// The one that is meant.
    pub(super) fn choose(context: &Context, which: &Which) -> Result<Self, Failure> {
        let overrides = |being| Overrides {
            being,
            variables: context.variables(),
            flags: which.settings.0.clone(),
            folder: context.cwd().to_owned(),
        };
        if which.files.is_empty() {
            let loaded = from_variables(&overrides(None)).map_err(|problems| invalid(&problems))?;
            return Self::only(loaded, None, true);
        }
        let name = match &which.being {
            Some(name) => name.clone(),
            None => Self::only(context.read(&which.files, &overrides(None))?.1, None, false)?.assignment.name,
        };
        let (_, loaded) = context.read(&which.files, &overrides(Some(name.clone())))?;
        Self::only(loaded, Some(&name), false)
    }

    fn only(loaded: Loaded, wanted: Option<&Name>, is_bare: bool) -> Result<Self, Failure> {
        let fleet = loaded.fleet;
        let names: Vec<&Name> = fleet.beings.keys().collect();
        let name = match (wanted, names.as_slice()) {
            (Some(name), _) => name.clone(),
            (None, [name]) => (*name).clone(),
            (None, []) => return Err(Failure::new(Class::Configuration, "the manifests declare no being")),
            (None, names) => {
                let all = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let what = format!("the manifests declare {} beings: {all}", names.len());
                return Err(Failure::new(Class::Configuration, what).hinting("choose one with --being NAME"));
            }
        };
        match Assignment::of(&fleet, &name) {
            Some(assignment) => Ok(Self { fleet, assignment, is_bare }),
            None => {
                let all = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                Err(Failure::new(Class::Configuration, format!("being/{name} is not declared; the manifests declare {all}")))
            }
        }
    }
}

/// Animates one being in this process, from boot to end, and hears signals meanwhile.
async fn live(context: &Context, arguments: &Single, until: Until) -> Result<Ended, Failure> {
    let one = One::choose(context, &arguments.which)?;
    let home = context.home()?;
    let dir = state_dir(context, arguments, &one, &home);
    for mended in CommitLog::mend(&home).map_err(|error| Failure::of(Class::State, &error))? {
        tracing::warn!("{mended}");
    }
    let ground = Arc::new(context.ground(home, &one.fleet));
    let is_parent = one.assignment.being.capabilities.children.is_some();
    if is_parent {
        say("a being spawns children only under a daemon, so it has no tool for that here; `singularity apply` starts one");
    }
    let assignment = one.assignment.clone().alone();
    let declared = Box::new(assignment.declared());
    let boot = match arguments.resume {
        true => Boot::Resume { declared },
        false => Boot::Fresh { birth: Box::new(assignment.birth(&ground)) },
    };
    let bar = tokio::spawn(show_pulling(ground.weights.clone(), context.is_lively()));
    let (commands, mut orders) = mpsc::channel(4);
    let mut heard = Signals::new(commands)?;
    let start = Start { assignment, before: None, dir, boot, until };
    let ended = tokio::select! {
        ended = Box::pin(animated(ground, start, &mut orders)) => ended,
        never = heard.pass_on() => match never {},
    };
    bar.abort();
    let ended = ended?;
    match &ended.because {
        Ending::Stopped => Ok(ended),
        Ending::Upstream { message, .. } => Err(Failure::new(Class::Upstream, message.clone())),
    }
}

async fn animated(ground: Arc<Ground>, start: Start, orders: &mut mpsc::Receiver<Command>) -> Result<Ended, Failure> {
    let (board, _) = watch::channel(None);
    let booted = tokio::select! {
        booted = Box::pin(animate(ground, start, board, None)) => booted,
        _ = orders.recv() => return Err(Failure::new(Class::Runtime, "stopped before the being was started")),
    };
    let (driver, begun): (_, BTreeSet<String>) = booted.map_err(|error| refused(&error))?;
    driver.run(begun, orders).await.map_err(|cut| Failure::of(Class::State, &cut.error))
}

fn state_dir(context: &Context, arguments: &Single, one: &One, home: &crate::store::Home) -> PathBuf {
    match &arguments.state_dir {
        Some(dir) => context.cwd().join(dir),
        None if one.is_bare => home.path().to_owned(),
        None => home.being_dir(&one.assignment.name),
    }
}

/// SIGINT and SIGTERM, each passed on as a stop: the first is polite, the second gives up what is under way.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    commands: mpsc::Sender<Command>,
}

impl Signals {
    fn new(commands: mpsc::Sender<Command>) -> Result<Self, Failure> {
        let unusable = |error| Failure::of(Class::Runtime, &error);
        let interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
        let terminate = signal(SignalKind::terminate()).map_err(unusable)?;
        Ok(Self { interrupt, terminate, commands })
    }

    async fn pass_on(&mut self) -> std::convert::Infallible {
        loop {
            tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
            drop(self.commands.try_send(Command::Stop));
        }
    }
}

pub(super) async fn show_pulling(weights: Weights, is_lively: bool) {
    let mut pulling = weights.pulling();
    let bar = Progress::new(is_lively);
    while pulling.changed().await.is_ok() {
        match *pulling.borrow_and_update() {
            Some(pulling) => bar.fetching(pulling.done, pulling.total),
            None => bar.clear(),
        }
    }
}

fn refused(error: &AnimateError) -> Failure {
    let class = match error {
        AnimateError::State(_) | AnimateError::Workspace { .. } | AnimateError::Sightings(_) => Class::State,
        AnimateError::Kept(_) => Class::Configuration,
        AnimateError::Surfaces(_) | AnimateError::Model(_) => Class::Upstream,
        AnimateError::Catalogue(CatalogueError::RequiredSurface(_)) => Class::Upstream,
        AnimateError::Catalogue(_) => Class::Runtime,
    };
    let failure = Failure::of(class, error);
    match error.hint() {
        Some(hint) => failure.hinting(hint),
        None => failure,
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
