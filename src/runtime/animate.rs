use std::{
    collections::{BTreeMap, BTreeSet},
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet};

use super::{Assignment, Driver, Ground, Snapshot, UnitView, Until, clock::Stopwatch};
use crate::{
    being::{Being, ToolDefinition},
    manifest::SurfaceSpec,
    model::{ModelError, pull},
    process::Backoff,
    store::{Boot, KeepError, Life, StoreError, blocking, read_json, write_json},
    surface::{
        Remote, RemoteTool,
        las::{Las, LasError, LasStart, SurfaceHealth},
    },
    tool::{CatalogueError, Parts, Sightings, Toolbox},
    vocab::Name,
};

/// Why a being can't be animated.
#[derive(Debug, thiserror::Error)]
pub enum AnimateError {
    #[error(transparent)]
    State(#[from] StoreError),
    #[error(transparent)]
    Surfaces(#[from] LasError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error("the model cannot be fetched")]
    Model(#[from] ModelError),
    #[error(transparent)]
    Sightings(#[from] KeepError),
    #[error("workspace {path} can't be used; make it a folder that this user may write")]
    Workspace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("workspace {0} lies where the home keeps what no being may touch")]
    Kept(PathBuf),
}

impl AnimateError {
    /// One word for programs.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::State(_) => "StateUnusable",
            Self::Surfaces(_) => "SurfaceUnavailable",
            Self::Catalogue(_) => "CatalogueRefused",
            Self::Model(_) => "ModelUnavailable",
            Self::Sightings(_) => "StateUnusable",
            Self::Workspace { .. } | Self::Kept(_) => "WorkspaceUnusable",
        }
    }

    /// Tells whether only an operator can help. A surface may come back, a lock may be let go, a disk may get room.
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::State(error) => !matches!(
                error,
                StoreError::Held { .. } | StoreError::Full { .. } | StoreError::Unwritable { .. } | StoreError::Poisoned { .. }
            ),
            Self::Surfaces(_) | Self::Model(_) | Self::Workspace { .. } | Self::Sightings(_) => false,
            Self::Catalogue(CatalogueError::RequiredSurface(_)) => false,
            Self::Catalogue(_) | Self::Kept(_) => true,
        }
    }

    /// What to type or look at next, where there is more to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::State(error) => error.hint(),
            Self::Catalogue(error) => error.hint(),
            Self::Kept(_) => Some("put it into the home's `work` folder, or outside of the home".to_owned()),
            _ => None,
        }
    }
}

/// How a being is to be animated.
#[derive(Debug)]
pub struct Start {
    pub assignment: Assignment,
    /// What was in force before, where it ran under the same keeper.
    pub before: Option<Arc<Assignment>>,
    /// Where its state is.
    pub dir: PathBuf,
    pub boot: Boot,
    pub until: Until,
}

/// What a being acts with.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) las: Arc<Las>,
    pub(super) toolbox: Arc<Toolbox>,
    /// What Las listed when the catalogue was made.
    listed: Vec<RemoteTool>,
    /// Which of its lists was looked at last.
    edition: u64,
    /// The chain of models that it was made with: a gateway among them says which models there are.
    models: Vec<Name>,
    /// What the manifests said about the surfaces when it was made.
    surfaces: BTreeMap<Name, SurfaceSpec>,
}

/// Opens a being: the state is locked and checked, then the tools are built, and only then does the journal say that it `started`.
pub async fn animate(
    ground: Arc<Ground>,
    start: Start,
    board: watch::Sender<Option<Snapshot>>,
    in_force: Option<watch::Sender<UnitView>>,
) -> Result<(Driver, BTreeSet<String>), AnimateError> {
    let Start { assignment, before, dir, boot, until } = start;
    let opening = blocking(|| Life::open(&dir, boot))?;
    let opening = match &ground.commit_log {
        Some(log) => opening.sharing(log),
        None => opening,
    };
    prepare(&ground, &assignment).await?;
    let agent = opening.identity().map(|identity| identity.agent_id.clone()).unwrap_or_default();
    let tools = Tools::build(&ground, &assignment, &dir, &agent).await?;
    let begun = blocking(|| opening.begin(ground.clock.now()));
    let (life, state, recovered) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            tools.las.stop(GRACE).await;
            return Err(error.into());
        }
    };
    for warning in &recovered.warnings {
        tracing::warn!(being = %assignment.name, "{warning}");
    }
    let begun = recovered.open_calls.into_iter().map(|call| call.call_id).collect();
    let rules = assignment.rules(tools.toolbox.definitions(), until);
    let (cadence, since) = (assignment.cadence(), ground.clock.now());
    let driver = Driver {
        ground,
        assignment,
        being: Being::new(state),
        life,
        rules,
        tools,
        dir,
        board,
        in_force,
        until,
        paused: Arc::default(),
        pass: None,
        cadence,
        since,
        up: Stopwatch::start(),
        last_report: None,
        idle: None,
        building: None,
        retiring: JoinSet::new(),
        before,
    };
    Ok((driver, begun))
}

/// Fetches what the being's models need and this machine lacks.
pub(super) async fn prepare(ground: &Ground, assignment: &Assignment) -> Result<(), ModelError> {
    if assignment.needs_weights { ground.weights.fetch(&pull::LANGUAGE).await } else { Ok(()) }
}

/// How long tools that are not needed may take to end.
const GRACE: Duration = Duration::from_secs(5);

impl Tools {
    /// Starts the selected surfaces and makes the catalogue of a being.
    pub(super) async fn build(
        ground: &Arc<Ground>,
        assignment: &Assignment,
        dir: &Path,
        agent: &str,
    ) -> Result<Self, AnimateError> {
        let workspace = workspace(ground, assignment)?;
        let spec = &assignment.being;
        let start = LasStart {
            program: ground.program.clone(),
            surfaces: assignment.surfaces.clone(),
            required: spec.las.required.clone(),
            workspace: workspace.clone(),
            tokens: ground.tokens(),
            external: spec.las.external.clone(),
            env: ground.env.clone(),
            patience: LasStart::PATIENCE,
            pace: Backoff::default(),
            shared: ground.shared.clone(),
        };
        let las = Arc::new(Box::pin(Las::start(start)).await?);
        match Self::around(Arc::clone(&las), ground, assignment, dir, agent) {
            Ok(tools) => Ok(tools),
            Err(error) => {
                las.stop(GRACE).await;
                Err(error)
            }
        }
    }

    /// Makes the catalogue of what a running Las lists now.
    fn around(las: Arc<Las>, ground: &Arc<Ground>, assignment: &Assignment, dir: &Path, agent: &str) -> Result<Self, AnimateError> {
        let (workspace, spec) = (workspace(ground, assignment)?, &assignment.being);
        // The number first: a list that is newer than its number is looked at once more.
        let (edition, listed) = (las.edition(), las.tools());
        let remote: Arc<dyn Remote> = Arc::<Las>::clone(&las);
        let parts = Parts {
            capabilities: spec.capabilities,
            remote: Some(remote),
            surfaces: assignment.surfaces.clone(),
            required: spec.las.required.clone(),
            state_dirs: vec![ground.home.path().to_owned(), dir.to_owned()],
            workspace,
            models: knows(ground, assignment, agent),
            seen: seen(ground, &assignment.name)?,
            tokens: ground.tokens(),
            most: spec.most.clone(),
            secrets: ground.models.secrets().clone(),
        };
        let (models, surfaces) = (spec.models.clone(), assignment.surfaces.clone());
        Ok(Self { las, toolbox: Arc::new(Toolbox::new(parts)?), listed, edition, models, surfaces })
    }

    /// Keeps what the tools look like, so that a change is noticed, also by a later process.
    pub(super) fn remember(&self, ground: &Ground, name: &Name) -> Result<(), KeepError> {
        let path = ground.home.seen_tools(name);
        let before: Option<Sightings> = read_json(&path)?;
        if before.as_ref() == Some(self.toolbox.seen()) { Ok(()) } else { write_json(&path, self.toolbox.seen()) }
    }

    /// Makes the catalogue anew where Las lists other tools than it did, a surface came up late or changed its list, or where the
    /// manifests say something else about the tools. `None` where nothing changed; a list that is refused is not looked at again.
    pub(super) fn relist(
        &mut self,
        ground: &Arc<Ground>,
        assignment: &Assignment,
        dir: &Path,
        agent: &str,
    ) -> Option<Result<(), AnimateError>> {
        let says_the_same = assignment.being.models == self.models && assignment.surfaces == self.surfaces;
        let edition = self.las.edition();
        if says_the_same && edition == self.edition {
            return None;
        }
        self.edition = edition;
        let listed = self.las.tools();
        if says_the_same && listed == self.listed {
            return None;
        }
        (self.listed, self.models, self.surfaces) = (listed, assignment.being.models.clone(), assignment.surfaces.clone());
        let made = Self::around(Arc::clone(&self.las), ground, assignment, dir, agent);
        Some(made.map(|tools| *self = tools))
    }
}

fn knows(ground: &Arc<Ground>, assignment: &Assignment, agent: &str) -> crate::tool::Knows {
    let (models, chain, agent) = (ground.models.clone(), assignment.being.models.clone(), agent.to_owned());
    Arc::new(move |model: &str| {
        let (models, chain, agent, model) = (models.clone(), chain.clone(), agent.clone(), model.to_owned());
        Box::pin(async move { models.knows(&agent, &chain, &model).await.map_err(|error| error.message) })
    })
}

/// What the tools looked like when the being first saw them; a child has seen what its parent saw when it was born.
fn seen(ground: &Ground, name: &Name) -> Result<Sightings, KeepError> {
    match (read_json(&ground.home.seen_tools(name))?, name.parent()) {
        (Some(seen), _) => Ok(seen),
        (None, Some(parent)) => seen(ground, &parent),
        (None, None) => Ok(Sightings::default()),
    }
}

/// The being's folder, made where it is missing. Nothing else in the home is one: the home holds states, tokens and what was applied.
fn workspace(ground: &Ground, assignment: &Assignment) -> Result<PathBuf, AnimateError> {
    let path = assignment.being.workspace.clone().unwrap_or_else(|| ground.workspace(&assignment.name));
    // Before it is made, so that nothing is made there; and after, when it is known where links lead.
    if ground.home.keeps(&path) {
        return Err(AnimateError::Kept(path));
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path).and_then(|()| std::fs::canonicalize(&path));
    let workspace = made.map_err(|source| AnimateError::Workspace { path, source })?;
    if ground.home.keeps(&workspace) { Err(AnimateError::Kept(workspace)) } else { Ok(workspace) }
}

/// What a being would get: its catalogue, and how its surfaces are.
#[derive(Debug)]
pub struct Inspection {
    pub tools: Arc<[ToolDefinition]>,
    pub surfaces: BTreeMap<Name, SurfaceHealth>,
}

/// Starts a being's surfaces, looks at its catalogue, and stops them again. No state is written.
pub async fn inspect(ground: &Arc<Ground>, assignment: &Assignment) -> Result<Inspection, AnimateError> {
    let tools = Tools::build(ground, assignment, &ground.home.being_dir(&assignment.name), assignment.name.as_str()).await?;
    let inspection = Inspection { tools: tools.toolbox.definitions(), surfaces: tools.las.health() };
    tools.las.stop(GRACE).await;
    Ok(inspection)
}
