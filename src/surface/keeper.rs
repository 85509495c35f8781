use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, DEFAULT_MRTR_MAX_ROUNDS, MetaObject, ProgressToken,
        ProtocolVersion, Tool,
    },
};
use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    CallError, answer,
    ask::Asks,
    pending::Pending,
    session::{Aim, Listed, OpenError, Reach, Session},
    turns::{Turn, Turns},
    wire::Faults,
};
use crate::{process::Backoff, vocab::chain};

/// A server that ended or failed so often in a row is `stalled`: what helps now is probably not another attempt.
const MAX_FAILURES: u32 = 8;
/// How many calls of one server are under way at once; those beyond wait their turn, one of each guest, and only then does
/// their deadline begin.
const MAX_UNDER_WAY: usize = 32;
/// How long the answer to a call waits for the tools that changed before it came.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// One MCP server, kept alive: connected, listed, called, and started again with a back-off when it is lost.
///
/// Dropping it ends the server at once; [`Keeper::stop`] ends it politely.
#[derive(Debug)]
pub(super) struct Keeper {
    name: String,
    /// The peer is a Las of this make.
    relays: bool,
    faults: Arc<Faults>,
    asks: Asks,
    turns: Turns,
    view: watch::Receiver<View>,
    stop: watch::Sender<Option<Duration>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What is known of a server now.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) phase: Phase,
    /// As last listed; kept while the server is away.
    pub(super) tools: Arc<Vec<Tool>>,
    /// How often they were listed.
    pub(super) edition: u64,
    /// How many changes had been told before they were last listed.
    as_of: u64,
    pub(super) meta: Option<Arc<MetaObject>>,
    pub(super) restarts: u32,
    /// It failed [`MAX_FAILURES`] times in a row, and waits the longest between two attempts.
    pub(super) stalled: bool,
}

/// Whether a server can be asked.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// The first attempt is under way.
    Starting,
    Up(Peer<RoleClient>),
    Down {
        because: String,
    },
}

impl Keeper {
    /// Starts to keep; the first attempt goes on in the background.
    pub(super) fn start(aim: Aim) -> Self {
        Self::run(aim, Arc::default(), None)
    }

    /// Connects once, and keeps only when that succeeds.
    pub(super) async fn open(aim: Aim) -> Result<Self, OpenError> {
        let faults = Arc::default();
        let opened = aim.open(&faults).await?;
        let keeper = Self::run(aim, faults, Some(opened));
        keeper.settled().await;
        Ok(keeper)
    }

    fn run(aim: Aim, faults: Arc<Faults>, opened: Option<(Session, Listed)>) -> Self {
        let (view, seen) = watch::channel(View {
            phase: Phase::Starting,
            tools: Arc::default(),
            edition: 0,
            as_of: 0,
            meta: None,
            restarts: 0,
            stalled: false,
        });
        let (stop, stopped) = watch::channel(None);
        Self {
            name: aim.name.clone(),
            relays: matches!(aim.reach, Reach::Las { joins: Some(_), .. }),
            faults: Arc::clone(&faults),
            asks: aim.asks.clone(),
            turns: Turns::new(MAX_UNDER_WAY),
            view: seen,
            stop,
            task: Mutex::new(Some(AbortOnDropHandle::new(tokio::spawn(keep(aim, faults, opened, view, stopped))))),
        }
    }

    /// What is known now.
    pub(super) fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// How often the tools were listed.
    pub(super) fn edition(&self) -> u64 {
        self.view.borrow().edition
    }

    /// Follows what is known.
    pub(super) fn watch(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// How many lines were no messages.
    pub(super) fn rubbish(&self) -> u64 {
        self.faults.rubbish()
    }

    /// Waits until the first attempt has come to an end, good or bad.
    pub(super) async fn settled(&self) {
        let _ = self.view.clone().wait_for(|view| !matches!(view.phase, Phase::Starting)).await;
    }

    /// Where questions go that belong to no caller in particular.
    pub(super) const fn asks(&self) -> &Asks {
        &self.asks
    }

    /// Waits for the turn of a call, among those of all guests.
    pub(super) async fn turn(&self, guest: u64) -> Turn {
        self.turns.take(guest).await
    }

    /// Calls a tool by the server's own name for it, where there is one guest. Dropping the future tells the server.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        deadline: Duration,
    ) -> Result<CallToolResult, CallError> {
        let turn = self.turn(0).await;
        self.call_in(turn, &self.asks, (tool, arguments, deadline), |_| ()).await
    }

    /// The same in a turn that was waited for; what the server asks in an answer goes to `asks`, by whose clock the deadline is.
    ///
    /// `follow` is told by which token the server tells how far it is, and what it yields is kept until the answer is there.
    pub(super) async fn call_in<F>(
        &self,
        _turn: Turn,
        asks: &Asks,
        (tool, arguments, deadline): (&str, Map<String, Value>, Duration),
        follow: impl FnOnce(Option<&ProgressToken>) -> F,
    ) -> Result<CallToolResult, CallError> {
        let peer = self.peer()?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match asks.within(deadline, rounds(asks, &peer, params, follow)).await {
            Some(answered) => {
                self.catch_up().await;
                answer::judge(tool, answered, self.relays)
            }
            None => Err(answer::late(tool, deadline)),
        }
    }

    /// Waits, for a moment, until the tools are listed as they are after every change that was told so far.
    async fn catch_up(&self) {
        let told = self.faults.told();
        let mut view = self.view.clone();
        let known = view.wait_for(|view| view.as_of >= told || !matches!(view.phase, Phase::Up(_)));
        let _ = timeout(CATCHING_UP, known).await;
    }

    /// The server, to be asked.
    pub(super) fn peer(&self) -> Result<Peer<RoleClient>, CallError> {
        match self.view.borrow().phase.clone() {
            Phase::Up(peer) if !peer.is_transport_closed() => Ok(peer),
            Phase::Up(_) => Err(answer::unavailable(&self.name, "its connection has just closed")),
            Phase::Starting => Err(answer::unavailable(&self.name, "it is starting")),
            // The reason may hold what nobody but an operator should read; it is in the log and in the health.
            Phase::Down { .. } => Err(answer::unavailable(&self.name, "it was lost and is started again")),
        }
    }

    /// Ends the server: closes the connection, asks, and kills when `grace` has passed. Dropping the future kills at once.
    pub(super) async fn stop(&self, grace: Duration) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.stop.send_replace(Some(grace));
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}

/// Calls until the server has all that it wants to know; one that always wants more is judged by what it wants.
async fn rounds<F>(
    asks: &Asks,
    peer: &Peer<RoleClient>,
    params: CallToolRequestParams,
    follow: impl FnOnce(Option<&ProgressToken>) -> F,
) -> Result<CallToolResponse, ServiceError> {
    // Before this version no server asks in an answer, and what was sent is not needed again.
    let may_ask = peer.peer_info().is_none_or(|server| server.protocol_version >= ProtocolVersion::V_2026_07_28);
    let again = may_ask.then(|| params.clone());
    let pending = Pending::send(peer, params).await?;
    let _following = follow(pending.token());
    let mut answered = pending.answer().await;
    let Some(mut params) = again else { return answered };
    for _ in 0..DEFAULT_MRTR_MAX_ROUNDS {
        let Ok(CallToolResponse::InputRequired(wanted)) = &answered else { break };
        let Some((responses, state)) = asks.fulfil(wanted.clone()).await else { break };
        (params.input_responses, params.request_state) = (responses, state);
        answered = peer.call_tool_once(params.clone()).await;
    }
    answered
}

async fn keep(
    aim: Aim,
    faults: Arc<Faults>,
    mut ready: Option<(Session, Listed)>,
    view: watch::Sender<View>,
    mut stop: watch::Receiver<Option<Duration>>,
) {
    let mut backoff = aim.pace.clone();
    loop {
        let began = Instant::now();
        let opened = match ready.take() {
            Some(ready) => Ok(ready),
            None => tokio::select! {
                _ = asked(&mut stop) => return,
                opened = aim.open(&faults) => opened,
            },
        };
        let because = match opened {
            Ok((session, listed)) => {
                publish(&aim.name, &view, &session, listed);
                attend(session, &aim, &view, &mut stop).await
            }
            Err(error) => Some(aim.hide(&chain(&error))),
        };
        let Some(because) = because else { return };
        let wait = backoff.after(began.elapsed());
        let stalled = backoff.in_a_row() >= MAX_FAILURES;
        lose(&aim.name, &view, &because, stalled);
        // What failed together does not come back together; what stalled has long parted ways.
        let wait = if stalled { backoff.cap() } else { Backoff::spread(wait, rand::random()) };
        if !rest(wait, &aim, &mut stop).await {
            return;
        }
    }
}

/// Stays with a session until it is lost, and says why; `None` when it was closed on request.
async fn attend(
    mut session: Session,
    aim: &Aim,
    view: &watch::Sender<View>,
    stop: &mut watch::Receiver<Option<Duration>>,
) -> Option<String> {
    loop {
        let relisted = session.relisted(aim.patience);
        let said = tokio::select! {
            biased;
            grace = asked(stop) => Said::Stop(grace),
            because = session.ended() => Said::Lost(because),
            // Only the arms that end the loop cut this one short.
            listed = relisted => Said::Listed(listed),
        };
        match said {
            Said::Stop(grace) => {
                session.close(grace).await;
                return None;
            }
            Said::Lost(because) => return Some(because),
            Said::Listed(Ok(listed)) => {
                session.caught_up(listed.as_of);
                publish(&aim.name, view, &session, listed);
            }
            Said::Listed(Err(as_of)) => {
                session.caught_up(as_of);
                view.send_modify(|view| view.as_of = as_of);
                tracing::warn!(surface = %aim.name, "the tools changed but could not be listed");
            }
        }
    }
}

enum Said {
    Stop(Duration),
    Lost(String),
    Listed(Result<Listed, u64>),
}

/// Waits until someone asks to stop; a keeper that is gone asks too.
async fn asked(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match stop.wait_for(Option::is_some).await {
        Ok(grace) => grace.unwrap_or_default(),
        Err(_) => Duration::ZERO,
    }
}

/// Rests, until a person has answered where that was wanted; false when it was asked to stop meanwhile.
async fn rest(span: Duration, aim: &Aim, stop: &mut watch::Receiver<Option<Duration>>) -> bool {
    let answered = async {
        match aim.keyring() {
            Some(keyring) => keyring.answered().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sleep(span) => true,
        () = answered => true,
        _ = asked(stop) => false,
    }
}

fn publish(name: &str, view: &watch::Sender<View>, session: &Session, listed: Listed) {
    for (at, tool) in listed.tools.iter().enumerate() {
        if listed.tools.iter().take(at).any(|earlier| earlier.name == tool.name) {
            tracing::warn!(surface = name, tool = %tool.name, "a tool is listed twice");
        }
    }
    if matches!(view.borrow().phase, Phase::Up(_)) {
        tracing::debug!(surface = name, tools = listed.tools.len(), "the tools were listed anew");
    } else {
        tracing::info!(surface = name, tools = listed.tools.len(), "the surface is up");
    }
    view.send_modify(|view| {
        view.phase = Phase::Up(session.peer().clone());
        view.stalled = false;
        view.tools = Arc::new(listed.tools);
        view.edition += 1;
        view.as_of = listed.as_of;
        view.meta = listed.meta.map(Arc::new);
    });
}

fn lose(name: &str, view: &watch::Sender<View>, because: &str, stalled: bool) {
    if stalled && !view.borrow().stalled {
        tracing::error!(surface = name, because, "the surface failed {MAX_FAILURES} times in a row; it is tried only now and then");
    } else {
        tracing::warn!(surface = name, because, "the surface is down; it is started again");
    }
    view.send_modify(|view| {
        view.phase = Phase::Down { because: answer::bounded(because) };
        view.restarts = view.restarts.saturating_add(1);
        view.stalled = stalled;
    });
}
