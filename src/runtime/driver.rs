use std::{collections::BTreeSet, future::Future, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinSet,
};

use super::{
    AnimateError, Assignment, Ground, Phase, Snapshot, UnitView,
    animate::Tools,
    clock::Stopwatch,
    ledger::Pass,
    questions::{NotAsked, Open, refuse},
    refit::{Building, finished},
    rest::Waited,
};
use crate::{
    being::{Being, Cadence, Effect, Ending, Event, Input, Ready, Report, Rules, ToolCall, Word},
    model::Reach,
    store::{Life, StoreError, blocking},
    tool::Stamp,
    vocab::Timestamp,
};

/// What a running being can be told from outside.
#[derive(Debug)]
pub enum Command {
    /// Begin no new effect and end; a second one gives the effect under way up at once.
    Stop,
    /// Take an edited assignment; the answer says whether it is in force.
    Assign(Box<Assignment>, oneshot::Sender<Result<(), AnimateError>>),
    /// Take what a person said about a question; the answer says whether it counts.
    Answer { number: u64, word: Word, reply: oneshot::Sender<Result<(), NotAsked>> },
}

/// When a being ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Never: it waits for money, edits or a stop.
    Stopped,
    /// When nothing is left to do: no money, or the declared number of cycles is reached.
    Idle,
    /// After one cycle.
    OneCycle,
}

/// How a being's time in this process ended.
#[derive(Debug)]
pub struct Ended {
    pub because: Ending,
    /// Why it had nothing left to do, where it ended by that.
    pub idle: Option<Phase>,
    pub last_report: Option<Report>,
    pub snapshot: Snapshot,
}

/// Why a being's time in this process was cut short: its journal can't be written.
#[derive(Debug)]
pub struct Cut {
    pub error: StoreError,
    /// Whether it had been asked to stop: then it is not started again.
    pub was_stopping: bool,
}

/// How long an effect that is under way may go on after a stop.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// One animated being and all that it needs.
#[derive(Debug)]
pub struct Driver {
    pub(super) ground: Arc<Ground>,
    pub(super) assignment: Assignment,
    pub(super) being: Being,
    pub(super) life: Life,
    pub(super) rules: Rules,
    pub(super) tools: Tools,
    /// Where its state is.
    pub(super) dir: PathBuf,
    pub(super) board: watch::Sender<Option<Snapshot>>,
    /// Where an edit that is in force is shown.
    pub(super) in_force: Option<watch::Sender<UnitView>>,
    pub(super) until: Until,
    pub(super) last_report: Option<Report>,
    /// Why it has nothing left to do.
    pub(super) idle: Option<Phase>,
    /// An edit whose tools are being built.
    pub(super) building: Option<Building>,
    /// Tools that an edit replaced and that are being stopped.
    pub(super) retiring: JoinSet<()>,
    /// What was in force when the being last ran under this keeper.
    pub(super) before: Option<Arc<Assignment>>,
    /// Rung when an edit pauses the being, for what waits before it asks a model.
    pub(super) paused: Arc<Notify>,
    /// What lets the call under way through.
    pub(super) pass: Option<Pass>,
    /// When its cycles begin.
    pub(super) cadence: Cadence,
    /// The wall time from which on slots count where none is known to be taken.
    pub(super) since: Timestamp,
    /// How long this process has had it.
    pub(super) up: Stopwatch,
}

/// Waits until a stop is said once more. Edits are let go: the being that they are for has ended.
async fn second_stop(commands: &mut mpsc::Receiver<Command>) {
    loop {
        match commands.recv().await {
            Some(Command::Assign(..) | Command::Answer { .. }) => {}
            Some(Command::Stop) => return,
            None => std::future::pending().await,
        }
    }
}

impl Driver {
    /// Steps the being until it ends. The error says that the journal can't be written: nothing acknowledged is lost, and nothing more
    /// is done.
    ///
    /// Dropping the future is like a crash: what was durable stays, an open call becomes `indeterminate`.
    pub async fn run(mut self, begun: BTreeSet<String>, commands: &mut mpsc::Receiver<Command>) -> Result<Ended, Cut> {
        let ended = Box::pin(self.live(begun, commands)).await;
        self.building = None;
        let retired = async { while self.retiring.join_next().await.is_some() {} };
        let leaving = async { tokio::join!(self.tools.las.stop(GRACE), retired) };
        tokio::select! { _ = leaving => {}, () = second_stop(commands) => {} }
        self.close(ended).await.map_err(|error| Cut { error, was_stopping: self.being.is_stopping() })
    }

    async fn close(&mut self, ended: Result<Ending, StoreError>) -> Result<Ended, StoreError> {
        let because = ended?;
        self.tell(Input::Closed { failed: matches!(because, Ending::Upstream { .. }) }).await?;
        let closed = self.life.close(self.being.state(), self.ground.clock.now()).await;
        self.unless_harmless(closed)?;
        Ok(Ended {
            because,
            idle: self.idle.take(),
            last_report: self.last_report.clone(),
            snapshot: self.snapshot(Phase::Stopping),
        })
    }

    async fn live(&mut self, begun: BTreeSet<String>, commands: &mut mpsc::Receiver<Command>) -> Result<Ending, StoreError> {
        let now = self.ground.clock.now();
        let ready = self.being.recover(&begun, now);
        self.persist(&ready.facts, now).await?;
        for edit in self.assignment.edits(self.before.take().as_deref(), self.being.state()) {
            self.tell(edit).await?;
        }
        self.count_in();
        self.tell_of_tools().await?;
        let mut woken = None;
        let mut next = None;
        let mut has_looked = false;
        loop {
            let input = match next.take() {
                None => match self.wait(woken, commands).await? {
                    Waited::Wake { slot } => {
                        (woken, self.since) = (Some(Stopwatch::start()), self.ground.clock.now());
                        self.take_stock().await?;
                        self.wake(slot)
                    }
                    Waited::Hold(because) => {
                        woken = Some(Stopwatch::start());
                        Input::Capped(because)
                    }
                    Waited::Next(effect) => {
                        next = Some(effect);
                        continue;
                    }
                },
                Some(Effect::Think { request, after, worst }) => {
                    // Once for each request, so that tools that change all the time hold nothing up.
                    if !std::mem::replace(&mut has_looked, false) && self.take_stock().await? {
                        has_looked = true;
                        next = self.tell(Input::Retooled { after }).await?;
                        continue;
                    }
                    let input = self.thought(request, after, worst, commands).await?;
                    next = self.tell(input).await?;
                    self.pass = None;
                    continue;
                }
                Some(Effect::Call(call)) => {
                    let phase = Phase::Calling { tool: call.function.name.clone() };
                    let carried_out = self.call(call);
                    self.beside(carried_out, phase, GRACE, commands).await?.map_or(Input::Abandoned, Input::Called)
                }
                Some(Effect::Ask(question)) => {
                    next = self.ask(&question, commands).await?;
                    continue;
                }
                Some(Effect::Rest(report)) => {
                    self.rested(report)?;
                    continue;
                }
                Some(Effect::End(because)) => return Ok(because),
            };
            next = self.tell(input).await?;
        }
    }

    /// Steps the being and makes the facts durable; what comes back may be carried out.
    pub(super) async fn tell(&mut self, input: Input) -> Result<Option<Effect>, StoreError> {
        let now = self.ground.clock.now();
        self.look_at_models();
        let Ready { facts, then } = self.being.step(&self.rules, input, now);
        self.persist(&facts, now).await?;
        Ok(then)
    }

    /// Takes over what the models can take now: the being may have switched to another, and one in this process may be loaded by now.
    fn look_at_models(&mut self) {
        let Reach { context_tokens, counter } =
            self.ground.models.reach(&self.assignment.being.models, &self.being.state().mind.current_model);
        self.rules.counter = counter;
        self.rules.context_tokens = context_tokens.unwrap_or(self.assignment.context_tokens);
    }

    async fn persist(&mut self, facts: &[Event], now: Timestamp) -> Result<(), StoreError> {
        for warning in facts.iter().filter_map(Event::warning) {
            tracing::warn!(being = %self.assignment.name, "{warning}");
        }
        let cycle = self.being.state().cycle;
        self.life.append(facts, cycle, now).await?;
        if facts.iter().any(|fact| matches!(fact, Event::CostDebited { .. } | Event::Labelled { .. })) {
            self.ground.ledger.record(&self.assignment.name, self.being.state());
        }
        if self.life.wants_checkpoint() { self.draw() } else { Ok(()) }
    }

    /// Shows what it does, to those who look; what they saw before is no news.
    pub(super) fn show(&self, phase: Phase) {
        let snapshot = Some(self.snapshot(phase));
        self.board.send_if_modified(|shown| {
            let is_news = *shown != snapshot;
            *shown = snapshot;
            is_news
        });
    }

    fn snapshot(&self, phase: Phase) -> Snapshot {
        Snapshot::of(self.being.state(), phase, self.last_report.clone(), self.tools.las.health())
    }

    /// Notes the end of a cycle.
    fn rested(&mut self, report: Report) -> Result<(), StoreError> {
        tracing::info!(being = %self.assignment.name, cycle = report.cycle, status = ?report.status, balance = %report.balance_usd, "cycle finished");
        self.last_report = Some(report);
        self.draw()
    }

    /// Draws the picture of the state. When that fails alone, the being goes on: its journal has everything.
    fn draw(&mut self) -> Result<(), StoreError> {
        let now = self.ground.clock.now();
        let drawn = blocking(|| self.life.checkpoint(self.being.state(), now));
        self.unless_harmless(drawn)
    }

    fn unless_harmless(&self, done: Result<(), StoreError>) -> Result<(), StoreError> {
        match done {
            Err(error) if error.is_harmless() => {
                tracing::warn!(being = %self.assignment.name, "{error}");
                Ok(())
            }
            done => done,
        }
    }

    /// Carries an effect out while commands are heard; after a stop it gets a grace. `None` when it was given up.
    pub(super) async fn beside<T>(
        &mut self,
        effect: impl Future<Output = T> + Send,
        phase: Phase,
        grace: Duration,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Option<T>, StoreError> {
        // A call goes through the tools that it began with, so they are not taken away under it.
        let may_swap = !matches!(phase, Phase::Calling { .. });
        let las = Arc::clone(&self.tools.las);
        let mut open: Option<Open> = None;
        self.show(phase.clone());
        let mut effect = std::pin::pin!(effect);
        let mut deadline = None;
        loop {
            let give_up = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let may_ask = !may_swap && open.is_none();
            tokio::select! {
                biased;
                result = &mut effect => return Ok(Some(result)),
                () = give_up => return Ok(None),
                ask = las.asked(), if may_ask => open = self.elicit(ask, &phase).await?,
                () = Open::overdue(&mut open) => {
                    self.give_up_asking(open.take(), &phase).await?;
                }
                result = finished(&mut self.building), if may_swap => self.built(result).await?,
                command = commands.recv() => match command {
                    Some(Command::Assign(assignment, reply)) => self.assign(*assignment, reply).await?,
                    Some(Command::Answer { number, word, reply }) => match open.take() {
                        Some(asked) if asked.number == number => open = self.give(asked, word, reply, &phase).await?,
                        other => {
                            open = other;
                            refuse(reply, self.not_asked(number));
                        }
                    },
                    Some(Command::Stop) if deadline.is_none() => {
                        self.tell(Input::Stop).await?;
                        self.show(Phase::Stopping);
                        deadline = Some(Stopwatch::start().after(grace));
                    }
                    Some(Command::Stop) => return Ok(None),
                    None => {
                        self.tell(Input::Stop).await?;
                        return Ok(None);
                    }
                },
            }
        }
    }

    fn call(&self, call: ToolCall) -> impl Future<Output = crate::being::Outcome> + Send + use<> {
        let (toolbox, mind) = (Arc::clone(&self.tools.toolbox), self.being.state().mind.clone());
        let stamp = Stamp { id: self.ground.ids.next(), at: self.ground.clock.now() };
        async move { toolbox.call(&call, &mind, stamp).await }
    }
}
