use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinSet,
    time::MissedTickBehavior,
};

use super::{
    AppliedSet, Status,
    declared::{Declared, Reading},
    family::Families,
    watch::Watch,
};
use crate::{
    manifest::{Fleet, Overrides, Problems},
    plan::{Born, judge, plan},
    runtime::{Assignment, Failure, Ground, NotAsked, Unit, UnitPhase, Word},
    store::{KeepError, remove},
    vocab::{Address, Kind, Name, chain},
};

/// What a reconciler is told at its start.
#[derive(Debug)]
pub struct Settings {
    /// Folders of manifests that are served, beside the applied sets.
    pub folders: Vec<PathBuf>,
    /// What lies over the manifests.
    pub overrides: Overrides,
}

/// The one who converges. It owns every unit of the process.
pub struct Reconciler {
    pub(super) ground: Arc<Ground>,
    pub(super) declared: Declared,
    pub(super) units: BTreeMap<Name, Unit>,
    /// Beings that are being stopped; nothing of their names is started until they are gone.
    pub(super) leaving: BTreeSet<Name>,
    pub(super) departures: JoinSet<Name>,
    /// What an edit was refused for, by being, with the edit.
    pub(super) refused: BTreeMap<Name, Refusal>,
    /// Edits that were handed over and not answered yet.
    pub(super) handed: BTreeMap<Name, Assignment>,
    /// Deletions that are answered once their being is gone.
    parting: Vec<Parting>,
    pub(super) refusals: (mpsc::Sender<Refused>, mpsc::Receiver<Refused>),
    pub(super) born: BTreeMap<Name, Born>,
    pub(super) families: Families,
    /// What is to run: what is declared, and its children.
    pub(super) fleet: Fleet,
    /// What the models and surfaces in force are.
    pub(super) enacted: Fleet,
    pub(super) observed_generations: BTreeMap<Address, u64>,
    /// Rung when something of a unit changed.
    pub(super) bell: Arc<Notify>,
    pub(super) status: watch::Sender<Arc<Status>>,
    requests: mpsc::Receiver<Request>,
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciler").field("units", &self.units).field("leaving", &self.leaving).finish_non_exhaustive()
    }
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

/// A deletion whose being is not gone yet.
struct Parting {
    name: Name,
    purge: bool,
    done: Vec<String>,
    reply: Reply<Vec<String>>,
}

/// Asks the reconciler for changes, and shows what it knows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    status: watch::Receiver<Arc<Status>>,
    down: Arc<Notify>,
}

#[derive(Debug)]
enum Request {
    Apply { set: Name, content: AppliedSet, dry_run: bool, reply: Reply<Applied> },
    Delete { address: Address, purge: bool, reply: Reply<Vec<String>> },
    DeleteSet { set: Name, reply: Reply<Vec<String>> },
    Answer { being: Name, number: u64, word: Word, reply: Reply<()> },
    Consent { surface: Name, answer: String, reply: Reply<()> },
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, RequestError>>;

/// What applying a set changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The plan as people read it.
    pub plan: String,
    /// The objects of the set.
    pub addresses: Vec<Address>,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Invalid(Problems),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error("the daemon is stopping")]
    Leaving,
}

/// Requests that may wait.
const MAX_WAITING_REQUESTS: usize = 16;
/// How often everything is looked at without a reason.
const PERIOD: Duration = Duration::from_secs(30);
/// How long something that vanished gets to come back: an editor may be between two steps.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// How often in a row a reading may differ from the one before.
const MAX_LOOKS: u32 = 8;

impl Handle {
    /// What is known now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// Applies a set in the place of what had its name, or only tells what that would change.
    pub async fn apply(&self, set: Name, content: AppliedSet, dry_run: bool) -> Result<Applied, RequestError> {
        self.ask(|reply| Request::Apply { set, content, dry_run, reply }).await
    }

    /// Takes an applied object away; `purge` removes a being's state too.
    pub async fn delete(&self, address: Address, purge: bool) -> Result<Vec<String>, RequestError> {
        self.ask(|reply| Request::Delete { address, purge, reply }).await
    }

    /// Takes an applied set away.
    pub async fn delete_set(&self, set: Name) -> Result<Vec<String>, RequestError> {
        self.ask(|reply| Request::DeleteSet { set, reply }).await
    }

    /// Hands a person's word about a question to its being; done once it is durable.
    pub async fn answer(&self, being: Name, number: u64, word: Word) -> Result<(), RequestError> {
        self.ask(|reply| Request::Answer { being, number, word, reply }).await
    }

    /// Hands over what a person brought from the authorization server of a surface; done once there is a token.
    pub async fn consent(&self, surface: Name, answer: String) -> Result<(), RequestError> {
        self.ask(|reply| Request::Consent { surface, answer, reply }).await
    }

    /// Ends the reconciler once all beings are stopped.
    pub fn down(&self) {
        self.down.notify_one();
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| RequestError::Leaving)?;
        answer.await.map_err(|_| RequestError::Leaving)?
    }
}

impl Reconciler {
    /// Makes a reconciler and the handle to it. Nothing is started before [`Reconciler::run`].
    pub fn new(ground: Arc<Ground>, settings: Settings) -> (Self, Handle) {
        let declared = Declared::new(&ground.home, settings.folders, settings.overrides);
        let families = Families::new(&ground.home);
        let (sender, requests) = mpsc::channel(MAX_WAITING_REQUESTS);
        let (status, shown) = watch::channel(Arc::new(Status::default()));
        let reconciler = Self {
            ground,
            declared,
            units: BTreeMap::new(),
            leaving: BTreeSet::new(),
            departures: JoinSet::new(),
            refused: BTreeMap::new(),
            handed: BTreeMap::new(),
            parting: Vec::new(),
            refusals: mpsc::channel(MAX_WAITING_REQUESTS),
            born: BTreeMap::new(),
            families,
            fleet: Fleet::default(),
            enacted: Fleet::default(),
            observed_generations: BTreeMap::new(),
            bell: Arc::new(Notify::new()),
            status,
            requests,
        };
        let handle = Handle { requests: sender, status: shown, down: Arc::new(Notify::new()) };
        (reconciler, handle)
    }

    /// Converges until `handle` says down, then stops every being and ends.
    pub async fn run(mut self, handle: Handle) {
        let mut changes = self.watch();
        let mut pulling = self.ground.weights.pulling();
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = handle.down.notified() => break,
                Some(request) = self.requests.recv() => self.answer(request).await,
                Some(()) = changes.recv() => self.converge().await,
                Some(gone) = self.departures.join_next() => {
                    self.leaving.retain(|name| !gone.as_ref().is_ok_and(|gone| gone == name));
                    self.converge().await;
                    self.answer_parting();
                }
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
    }

    /// A task that tells of changes in what is served. A folder that can't be watched is still looked at each period.
    fn watch(&self) -> mpsc::Receiver<()> {
        let (tell, told) = mpsc::channel(1);
        if self.declared.watched().is_empty() {
            return told;
        }
        match Watch::on(self.declared.watched()) {
            Ok(mut watch) => drop(tokio::spawn(async move {
                loop {
                    watch.changed().await;
                    if tell.send(()).await.is_err() {
                        return;
                    }
                }
            })),
            Err(error) => tracing::warn!("cannot watch the served folders, so they are read every {PERIOD:?}: {error}"),
        }
        told
    }

    /// One run: read, observe, plan, judge, act, publish.
    pub(super) async fn converge(&mut self) {
        let taken = match self.steady_reading().await {
            Ok(reading) => self.declared.take(reading),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            self.declared.note_problems(vec![chain(&error)]);
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
        self.publish();
    }

    /// Reads what is declared; what lacks a being is read again until two readings agree.
    async fn steady_reading(&self) -> Result<Reading, KeepError> {
        let mut reading = self.declared.look()?;
        for _ in 0..MAX_LOOKS {
            if !self.declared.lacks_a_being(&reading) {
                break;
            }
            tokio::time::sleep(SECOND_LOOK).await;
            let again = self.declared.look()?;
            let agrees = again.agrees_with(&reading);
            reading = again;
            if agrees {
                break;
            }
        }
        Ok(reading)
    }

    async fn answer(&mut self, request: Request) {
        match request {
            Request::Apply { set, content, dry_run, reply } => drop(reply.send(self.apply(&set, &content, dry_run).await)),
            Request::Delete { address, purge, reply } => match self.delete(&address).await {
                Ok(done) if address.kind == Kind::Being => {
                    self.parting.push(Parting { name: address.name, purge, done, reply });
                    self.answer_parting();
                }
                answer => drop(reply.send(answer)),
            },
            Request::DeleteSet { set, reply } => drop(reply.send(self.delete_set(&set).await)),
            Request::Answer { being, number, word, reply } => self.pass_on(&being, number, word, reply),
            Request::Consent { surface, answer, reply } => self.consent(&surface, answer, reply),
        }
    }

    async fn apply(&mut self, set: &Name, content: &AppliedSet, dry_run: bool) -> Result<Applied, RequestError> {
        let mut sets = self.declared.sets.all()?;
        if let Some(old) = sets.insert(set.clone(), content.clone()).filter(|old| old.origin != content.origin) {
            return Err(RequestError::Refused(format!(
                "a set called `{set}` was applied from {} before; give this one another name with --set",
                old.origin
            )));
        }
        let reading = self.declared.look_with(&sets);
        let addresses = reading.addresses_of(content);
        let fleet = self.with_known_children(reading.result.map_err(RequestError::Invalid)?);
        let plan = plan(&fleet, &self.observe());
        if dry_run {
            return Ok(Applied { plan: plan.to_string(), addresses });
        }
        self.declared.sets.put(set, content)?;
        for address in &addresses {
            self.try_again(&address.name);
        }
        self.converge().await;
        match self.declared.problems.is_empty() {
            true => Ok(Applied { plan: plan.to_string(), addresses }),
            false => Err(RequestError::Refused(self.declared.problems.join("\n"))),
        }
    }

    /// Gives what failed for good another chance: whoever applies may have repaired what was wrong.
    fn try_again(&mut self, name: &Name) {
        self.refused.remove(name);
        let is_stalled = self.units.get(name).is_some_and(|unit| matches!(unit.view().phase, UnitPhase::Stalled { .. }));
        if is_stalled {
            self.leave(name);
        }
    }

    async fn delete(&mut self, address: &Address) -> Result<Vec<String>, RequestError> {
        if let Some(parent) = address.name.parent().filter(|_| address.kind == Kind::Being) {
            return self.delete_child(address, &parent).await;
        }
        self.check_unused(address)?;
        let is_declared = self.declared.good.fleet.addresses().any(|declared| declared == *address);
        match self.declared.set_of(address)? {
            Some((name, mut set)) => {
                set.deleted.push(address.clone());
                let mut sets = self.declared.sets.all()?;
                sets.insert(name.clone(), set.clone());
                self.declared.look_with(&sets).result.map_err(RequestError::Invalid)?;
                self.declared.sets.put(&name, &set)?;
                self.converge().await;
                Ok(vec![format!("{address} is no longer declared")])
            }
            None if is_declared => {
                let files: Vec<String> =
                    self.declared.files_of(address).iter().map(|file| format!("`{}`", file.display())).collect();
                let files = if files.is_empty() { "a served folder".to_owned() } else { files.join(", ") };
                Err(RequestError::Refused(format!("{address} is declared in {files}, which the daemon serves; remove it there")))
            }
            None if address.kind == Kind::Being && self.ground.home.being_dir(&address.name).exists() => Ok(Vec::new()),
            None => Err(RequestError::Refused(format!("{address} is not declared; `singularity get` lists what is"))),
        }
    }

    async fn delete_set(&mut self, set: &Name) -> Result<Vec<String>, RequestError> {
        let mut sets = self.declared.sets.all()?;
        let Some(content) = sets.remove(set) else {
            let known: Vec<String> = sets.keys().map(ToString::to_string).collect();
            return Err(RequestError::Refused(format!("no set `{set}` was applied; there are: {}", known.join(", "))));
        };
        self.declared.look_with(&sets).result.map_err(RequestError::Invalid)?;
        let addresses = self.declared.addresses_of(&content);
        self.declared.sets.remove(set)?;
        self.converge().await;
        let told = |address: &Address| match address.kind {
            Kind::Being => format!("{address} is no longer declared; it is stopped and its state is kept"),
            Kind::Model | Kind::Surface | Kind::Cap => format!("{address} is no longer declared"),
        };
        Ok(addresses.iter().map(told).collect())
    }

    /// Gives a person's word to a being, and tells what became of it without waiting here.
    fn pass_on(&self, being: &Name, number: u64, word: Word, reply: Reply<()>) {
        let id = format!("{being}.{number}");
        let refused = move |why: &dyn fmt::Display| RequestError::Refused(format!("the answer to {id} does not count: {why}"));
        let Some(unit) = self.units.get(being) else {
            return drop(reply.send(Err(refused(&format!("no being/{being} runs; `singularity get` lists what does")))));
        };
        let Some(ticket) = unit.answer(number, word) else {
            return drop(reply.send(Err(refused(&NotAsked::Away))));
        };
        tokio::spawn(async move {
            let taken = ticket.await.unwrap_or(Err(NotAsked::Away));
            drop(reply.send(taken.map_err(|why| refused(&why))));
        });
    }

    /// Answers the deletions whose beings are gone.
    fn answer_parting(&mut self) {
        let (gone, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parting).into_iter().partition(|parting| !self.is_on_its_way(&parting.name));
        self.parting = staying;
        for Parting { name, purge, mut done, reply } in gone {
            let answer = self.purge(&name, purge).map(|told| {
                done.push(told);
                done
            });
            drop(reply.send(answer));
        }
    }

    /// Tells whether a being is being stopped, or waits for what is below it in its family.
    fn is_on_its_way(&self, name: &Name) -> bool {
        self.leaving.iter().any(|leaving| leaving == name || leaving.is_under(name))
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

    /// Refuses to take away what a being needs.
    fn check_unused(&self, address: &Address) -> Result<(), RequestError> {
        let fleet = &self.declared.good.fleet;
        let uses = |name: &Name| {
            fleet.beings.get(name).is_some_and(|being| match address.kind {
                Kind::Model => being.models.contains(&address.name),
                Kind::Surface => being.las.surfaces.contains(&address.name),
                Kind::Cap | Kind::Being => false,
            })
        };
        match fleet.beings.keys().find(|name| uses(name)) {
            Some(user) => Err(RequestError::Refused(format!("being/{user} uses {address}; edit or delete that being first"))),
            None => Ok(()),
        }
    }

    /// Says what is left of a being, or removes it.
    fn purge(&mut self, name: &Name, purge: bool) -> Result<String, RequestError> {
        let dir = self.dir_of(name);
        if self.units.contains_key(name) || self.has_family_about(name) {
            return Err(RequestError::Refused(format!(
                "being/{name} still runs, so nothing of it is removed; see `singularity get`"
            )));
        }
        if !dir.exists() {
            return Ok(format!("being/{name} has no state"));
        }
        if !purge {
            return Ok(format!("the state of being/{name} is kept in {}", dir.display()));
        }
        remove(&dir).map_err(|error| RequestError::Refused(chain(&error)))?;
        self.forget(name);
        Ok(format!("the state of being/{name} in {} is removed", dir.display()))
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
