use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

use super::{
    Handle, Status,
    declared::Declared,
    family::Families,
    freeze::Freeze,
    funds::Funds,
    handle::Request,
    notices::{Notices, Told},
    pauses::Pauses,
    record::Record,
    requests::Parting,
    revisions::{Cause, Revisions},
    sourcing::Sourcing,
    watch::Watched,
    watchdog::Watchdog,
};
use crate::{
    manifest::{Fleet, Overrides},
    plan::{Born, judge, plan},
    runtime::{Assignment, Failure, Ground, Unit},
    store::{AuditError, KeepError},
    vocab::{Address, Name, Operator, Span, chain},
};

/// What a reconciler is told at its start.
#[derive(Debug)]
pub struct Settings {
    /// Folders of manifests that are served, beside the applied sets.
    pub folders: Vec<PathBuf>,
    /// What lies over the manifests.
    pub overrides: Overrides,
    /// Whether a folder that declares nothing any more takes away what it declared.
    pub allow_empty: bool,
    /// How often the folders are looked at, where no event of the file system is to be relied on.
    pub poll: Option<Span>,
}

/// The one who converges. It owns every unit of the process.
pub struct Reconciler {
    pub(super) ground: Arc<Ground>,
    pub(super) declared: Declared,
    pub(super) watched: Watched,
    pub(super) units: BTreeMap<Name, Unit>,
    /// Beings that are being stopped; nothing of their names is started until they are gone.
    pub(super) leaving: BTreeSet<Name>,
    pub(super) departures: JoinSet<Name>,
    /// What an edit was refused for, by being, with the edit.
    pub(super) refused: BTreeMap<Name, Refusal>,
    /// Edits that were handed over and not answered yet.
    pub(super) handed: BTreeMap<Name, Assignment>,
    /// Deletions that are answered once their being is gone.
    pub(super) parting: Vec<Parting>,
    pub(super) refusals: (mpsc::Sender<Refused>, mpsc::Receiver<Refused>),
    pub(super) born: BTreeMap<Name, Born>,
    pub(super) families: Families,
    pub(super) pauses: Pauses,
    pub(super) funds: Funds,
    pub(super) freeze: Freeze,
    pub(super) sourcing: Sourcing,
    pub(super) revisions: Revisions,
    /// Who asked for the change that is converged next.
    pub(super) cause: Option<(Option<Operator>, Cause)>,
    pub(super) watchdog: Watchdog,
    /// When this process began to converge.
    pub(super) began: Instant,
    /// What is to run: what is declared, and its children.
    pub(super) fleet: Fleet,
    /// What the models and surfaces in force are.
    pub(super) enacted: Fleet,
    pub(super) observed_generations: BTreeMap<Address, u64>,
    /// Rung when something of a unit changed.
    pub(super) bell: Arc<Notify>,
    pub(super) status: watch::Sender<Arc<Status>>,
    pub(super) notices: watch::Sender<Notices>,
    requests: mpsc::Receiver<Request>,
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciler").field("units", &self.units).field("leaving", &self.leaving).finish_non_exhaustive()
    }
}

/// Why a reconciler can't begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// Why an edit is not in force.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) edit: Assignment,
    pub(super) failure: Failure,
    /// Whether only another edit can help; any other is tried again at each period.
    pub(super) is_permanent: bool,
}

/// An edit that a living being could not take.
pub(super) struct Refused {
    pub(super) name: Name,
    pub(super) edit: Assignment,
    pub(super) failure: Option<(Failure, bool)>,
}

/// Refused edits that may wait.
const MAX_WAITING_REFUSALS: usize = 16;
/// How often everything is looked at without a reason.
const PERIOD: Duration = Duration::from_secs(30);

impl Reconciler {
    /// Makes a reconciler and the handle to it, within a runtime. No being is started before [`Reconciler::run`]. The error says that it
    /// can't be read what operators hold back, or that nothing could be put on record.
    pub fn new(ground: Arc<Ground>, settings: Settings) -> Result<(Self, Handle), BeginError> {
        let guarded = if settings.allow_empty { Vec::new() } else { settings.folders.clone() };
        let declared = Declared::new(&ground.home, settings.overrides, guarded);
        let watched = Watched::on(settings.folders, settings.poll);
        let families = Families::new(&ground.home);
        let pauses = Pauses::open(&ground.home)?;
        let funds = Funds::open(&ground.home)?;
        let freeze = Freeze::open(&ground.home)?;
        let revisions = Revisions::of(&ground.home);
        let (status, shown) = watch::channel(Arc::new(Status::default()));
        let (notices, told) = watch::channel(Notices::default());
        let (handle, requests) = Handle::new((shown, told), Record::open(&ground)?);
        let reconciler = Self {
            ground,
            declared,
            watched,
            units: BTreeMap::new(),
            leaving: BTreeSet::new(),
            departures: JoinSet::new(),
            refused: BTreeMap::new(),
            handed: BTreeMap::new(),
            parting: Vec::new(),
            refusals: mpsc::channel(MAX_WAITING_REFUSALS),
            born: BTreeMap::new(),
            families,
            pauses,
            funds,
            freeze,
            sourcing: Sourcing::default(),
            revisions,
            cause: None,
            watchdog: Watchdog::default(),
            began: Instant::now(),
            fleet: Fleet::default(),
            enacted: Fleet::default(),
            observed_generations: BTreeMap::new(),
            bell: Arc::new(Notify::new()),
            status,
            notices,
            requests,
        };
        Ok((reconciler, handle))
    }

    /// Converges until `handle` says down, then stops every being and what they shared, and ends.
    pub async fn run(mut self, handle: Handle) {
        tokio::select! {
            () = handle.down.cancelled() => return,
            () = self.watched.begun() => drop(self.take_served()),
        }
        let mut pulling = self.ground.weights.pulling();
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A plan compares with what runs, so what is declared runs again before the first request is answered.
        period.tick().await;
        self.converge().await;
        loop {
            tokio::select! {
                () = handle.down.cancelled() => break,
                Some(request) = self.requests.recv() => self.answer(request).await,
                () = self.watched.changed() => match self.take_served() {
                    true => self.converge().await,
                    false => self.publish(),
                },
                Some(gone) = self.departures.join_next() => {
                    self.leaving.retain(|name| !gone.as_ref().is_ok_and(|gone| gone == name));
                    self.converge().await;
                    self.answer_parting();
                }
                Some(news) = self.sourcing.next() => match self.note_news(news) {
                    true => self.converge().await,
                    false => self.publish(),
                },
                Some(refused) = self.refusals.1.recv() => self.note_refusal(refused),
                () = self.bell.notified() => match self.is_family_news() {
                    true => self.converge().await,
                    false => self.publish(),
                },
                Ok(()) = pulling.changed() => self.publish(),
                _ = period.tick() => {
                    self.forget_the_dead();
                    self.converge().await;
                }
            }
        }
        self.stop_all().await;
        if let Some(shared) = &self.ground.shared {
            shared.stop().await;
        }
    }

    /// Takes the served files as they were when they last were at rest. Yields whether they are others than before.
    pub(super) fn take_served(&mut self) -> bool {
        let newest = self.watched.newest();
        self.declared.offer(newest).unwrap_or_else(|error| {
            self.declared.note_problems(vec![chain(&error)]);
            false
        })
    }

    /// One run: read, observe, plan, judge, act, publish.
    pub(super) async fn converge(&mut self) {
        if self.freeze.hold().is_none() {
            self.take_fetched().await;
            if let Err(error) = self.declared.refresh() {
                self.declared.note_problems(vec![chain(&error)]);
            }
        }
        self.gather();
        let observed = self.observe();
        let plan = plan(&self.fleet, &observed);
        let faults = judge(&plan, &self.fleet, &observed);
        if faults.is_empty() {
            self.act(&plan);
        }
        if !faults.is_empty() {
            let told = faults.iter().map(|fault| format!("a plan is not carried out, because of a fault in it: {fault:?}"));
            self.declared.note_problems(told.collect());
        }
        self.note_revision(&plan);
        self.publish();
    }

    /// Tells people of something that the status does not show.
    pub(super) fn tell(&self, told: Told) {
        let now = self.ground.clock.now();
        self.notices.send_modify(|notices| notices.add(now, [told]));
    }

    /// Lets go of units whose task ended by itself, so that they are started again.
    fn forget_the_dead(&mut self) {
        self.units.retain(|name, unit| {
            if unit.is_over() {
                tracing::error!(being = %name, "its task ended by itself; it is started again");
            }
            !unit.is_over()
        });
    }

    async fn stop_all(&mut self) {
        loop {
            let ready = |name: &&Name| !self.has_family_about(name);
            for name in self.units.keys().filter(ready).cloned().collect::<Vec<_>>() {
                self.leave(&name);
            }
            self.publish();
            match self.departures.join_next().await {
                Some(Ok(gone)) => drop(self.leaving.remove(&gone)),
                Some(Err(_)) => {}
                None => return,
            }
        }
    }
}
