use std::{path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::{
    AnimateError, Assignment, Command, Cut, Driver, Ground, NotAsked, Snapshot, Start, Until, animate::animate, clock::Stopwatch,
    questions::refuse,
};
use crate::{
    being::{Ending, Word},
    process::Backoff,
    store::{Boot, blocking},
    vocab::{Timestamp, chain},
};

/// One being kept alive under a daemon: its owner starts it, hands edits to it, and joins it at the end.
#[derive(Debug)]
pub struct Unit {
    commands: mpsc::Sender<Command>,
    view: watch::Receiver<UnitView>,
    board: watch::Receiver<Option<Snapshot>>,
    task: JoinHandle<()>,
}

/// What observers see of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitView {
    /// What is in force.
    pub assignment: Arc<Assignment>,
    pub phase: UnitPhase,
    /// How often it was started again after a failure.
    pub restarts: u32,
}

/// Where a unit is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum UnitPhase {
    /// Its surfaces start, its state is read.
    Booting,
    /// It is animated; the snapshot says more.
    Live,
    /// It failed and is started again by itself.
    Waiting { until: Timestamp, failure: Failure },
    /// It failed and waits for an edit.
    Stalled { failure: Failure },
    /// It was stopped.
    Stopped,
}

/// Why a being does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One word for programs.
    pub reason: String,
    pub message: String,
}

/// Waits before a failed being is started again: doubled from the first to the longest, and from the start after a quiet time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
const QUIET: Duration = Duration::from_secs(600);
/// Commands that may wait for a unit; a sender waits when it is full.
const MAX_WAITING_COMMANDS: usize = 16;

impl Unit {
    /// Starts to keep a being alive.
    pub fn spawn(ground: Arc<Ground>, assignment: Assignment, dir: PathBuf) -> Self {
        let (commands, orders) = mpsc::channel(MAX_WAITING_COMMANDS);
        let first = UnitView { assignment: Arc::new(assignment), phase: UnitPhase::Booting, restarts: 0 };
        let (shown, view) = watch::channel(first);
        let (board, snapshots) = watch::channel(None);
        let keeper = Keeper { ground, dir, shown, board, orders, ran: None };
        Self { commands, view, board: snapshots, task: tokio::spawn(keeper.keep()) }
    }

    /// What is in force, and how it is.
    pub fn view(&self) -> UnitView {
        self.view.borrow().clone()
    }

    /// What the being does, once it is animated.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.board.borrow().clone()
    }

    /// Tells whenever something changed.
    pub fn changes(&self) -> (watch::Receiver<UnitView>, watch::Receiver<Option<Snapshot>>) {
        (self.view.clone(), self.board.clone())
    }

    /// Hands an edit over; the ticket tells whether it is in force. `None` when the unit is too busy to take it now.
    pub fn assign(&self, assignment: Assignment) -> Option<oneshot::Receiver<Result<(), AnimateError>>> {
        let (reply, ticket) = oneshot::channel();
        self.commands.try_send(Command::Assign(Box::new(assignment), reply)).ok()?;
        Some(ticket)
    }

    /// What has a being that waits after a failure started again at once; nothing where it does not wait.
    pub fn again(&self) -> impl FnOnce() + Send + use<> {
        let (view, commands) = (self.view.borrow().clone(), self.commands.clone());
        let is_waiting = matches!(view.phase, UnitPhase::Waiting { .. });
        move || {
            if is_waiting {
                let (reply, _nobody_waits) = oneshot::channel();
                drop(commands.try_send(Command::Assign(Box::new((*view.assignment).clone()), reply)));
            }
        }
    }

    /// Hands over what a person said about a question; the ticket tells whether it counts. `None` when the unit is too busy to take it now.
    pub fn answer(&self, number: u64, word: Word) -> Option<oneshot::Receiver<Result<(), NotAsked>>> {
        let (reply, ticket) = oneshot::channel();
        self.commands.try_send(Command::Answer { number, word, reply }).ok()?;
        Some(ticket)
    }

    /// Tells whether nothing keeps the being alive any more.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Asks the being to stop and waits until everything of it is closed.
    pub async fn stop(self) {
        drop(self.commands.send(Command::Stop).await);
        drop(self.task.await);
    }
}

/// The task behind a [`Unit`].
struct Keeper {
    ground: Arc<Ground>,
    dir: PathBuf,
    shown: watch::Sender<UnitView>,
    board: watch::Sender<Option<Snapshot>>,
    orders: mpsc::Receiver<Command>,
    /// What was in force when the being last ran.
    ran: Option<Arc<Assignment>>,
}

/// How one life of a unit ended.
enum Over {
    Stopped,
    /// Start again at once, with what is now in force.
    Again,
    Failed {
        permanent: bool,
        failure: Failure,
    },
}

impl Keeper {
    async fn keep(mut self) {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT, QUIET);
        loop {
            let watch = Stopwatch::start();
            self.show(UnitPhase::Booting);
            let over = match self.boot().await {
                Ok(Some((driver, begun))) => {
                    self.show(UnitPhase::Live);
                    self.ran = Some(self.assignment());
                    over(Box::pin(driver.run(begun, &mut self.orders)).await)
                }
                Ok(None) => Over::Again,
                Err(over) => over,
            };
            match over {
                Over::Stopped => return self.show(UnitPhase::Stopped),
                Over::Again => {}
                Over::Failed { permanent, failure } => {
                    tracing::warn!(being = %self.assignment().name, reason = failure.reason, "{}", failure.message);
                    let wait = (!permanent).then(|| self.spread(backoff.after(watch.elapsed().as_duration())));
                    if !self.hold(failure, wait).await {
                        return self.show(UnitPhase::Stopped);
                    }
                    self.shown.send_modify(|view| view.restarts += 1);
                }
            }
        }
    }

    /// Animates the being. `Ok(None)` when an edit came meanwhile, and it has to be begun anew.
    async fn boot(&mut self) -> Result<Option<(Driver, std::collections::BTreeSet<String>)>, Over> {
        let assignment = self.assignment();
        let birth = blocking(|| assignment.birth(&self.ground));
        let boot = Boot::Either { birth: Box::new(birth), declared: Box::new(assignment.declared()) };
        let start = Start {
            assignment: (*assignment).clone(),
            before: self.ran.clone(),
            dir: self.dir.clone(),
            boot,
            until: Until::Stopped,
        };
        let animated = Box::pin(animate(Arc::clone(&self.ground), start, self.board.clone(), Some(self.shown.clone())));
        tokio::select! {
            animated = animated => animated.map(Some).map_err(|error| failed(&error)),
            command = self.orders.recv() => match command {
                Some(Command::Assign(assignment, reply)) => {
                    self.take(*assignment, reply);
                    Ok(None)
                }
                Some(Command::Answer { reply, .. }) => {
                    refuse(reply, NotAsked::Away);
                    Ok(None)
                }
                Some(Command::Stop) | None => Err(Over::Stopped),
            },
        }
    }

    /// Holds a failed being until its wait is over or an edit comes. False when it was told to stop.
    async fn hold(&mut self, failure: Failure, wait: Option<Duration>) -> bool {
        let deadline = wait.map(|wait| Stopwatch::start().after(wait));
        self.show(match wait {
            Some(wait) => {
                let until = self.ground.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
                UnitPhase::Waiting { until, failure }
            }
            None => UnitPhase::Stalled { failure },
        });
        let command = match deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, self.orders.recv()).await {
                Ok(command) => command,
                Err(_elapsed) => return true,
            },
            None => self.orders.recv().await,
        };
        match command {
            Some(Command::Assign(assignment, reply)) => {
                self.take(*assignment, reply);
                true
            }
            Some(Command::Answer { reply, .. }) => {
                refuse(reply, NotAsked::Away);
                true
            }
            Some(Command::Stop) | None => false,
        }
    }

    /// The wait and up to a quarter more, so that what failed together does not come back together.
    fn spread(&self, wait: Duration) -> Duration {
        let luck = self.ground.ids.next().as_bytes().first().copied().unwrap_or_default();
        wait + wait / 1024 * u32::from(luck)
    }

    fn take(&self, assignment: Assignment, reply: oneshot::Sender<Result<(), AnimateError>>) {
        self.shown.send_modify(|view| view.assignment = Arc::new(assignment));
        drop(reply.send(Ok(())));
    }

    fn assignment(&self) -> Arc<Assignment> {
        Arc::clone(&self.shown.borrow().assignment)
    }

    fn show(&self, phase: UnitPhase) {
        self.shown.send_modify(|view| view.phase = phase);
    }
}

fn over(ended: Result<super::Ended, Cut>) -> Over {
    match ended {
        Ok(super::Ended { because: Ending::Stopped, .. }) => Over::Stopped,
        Ok(super::Ended { because: Ending::Upstream { permanent, message }, .. }) => {
            Over::Failed { permanent, failure: Failure { reason: "ModelUnavailable".to_owned(), message } }
        }
        Err(cut) if cut.was_stopping => {
            tracing::error!("{}", chain(&cut.error));
            Over::Stopped
        }
        Err(cut) => failed(&AnimateError::State(cut.error)),
    }
}

fn failed(error: &AnimateError) -> Over {
    let message = [Some(chain(error)), error.hint()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let failure = Failure { reason: error.reason().to_owned(), message };
    Over::Failed { permanent: error.is_permanent(), failure }
}
