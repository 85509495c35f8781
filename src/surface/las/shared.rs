//! Surfaces of scope `shared`: one process or connection of each, for all beings of a daemon.

use std::{
    collections::BTreeMap,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, join_all};
use rmcp::{
    ErrorData, Peer, RoleClient,
    model::{CallToolResult, ClientCapabilities, ClientResult, ErrorCode, ServerNotification, ServerRequest},
};
use serde_json::{Map, Value};
use tokio::{runtime::Handle, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    config::Joined,
    health::SurfaceHealth,
    reach::{Place, reach},
};
use crate::{
    manifest::SurfaceSpec,
    process::Backoff,
    surface::{
        CallError, answer,
        ask::{self, Asks},
        callers::Callers,
        keeper::{Keeper, View},
        relay::Relay,
        session::{self, Aim},
    },
    vocab::Name,
};

/// How long a surface that nobody uses any more may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What shared surfaces are started with.
#[derive(Debug, Clone)]
pub struct SharedStart {
    /// This program's own binary: the supervisor of their processes.
    pub program: PathBuf,
    /// Where each has a folder of its own, in which its process runs: it is no being's workspace.
    pub folders: PathBuf,
    /// Where the tokens of surfaces are kept that are had by OAuth.
    pub tokens: PathBuf,
    /// The daemon's environment as it was read at its start. `PATH` and the bearers are taken from it.
    pub env: BTreeMap<String, String>,
    /// How long a surface may take until its tools are listed.
    pub patience: Duration,
    /// How long between two attempts to start a surface that ended or failed.
    pub pace: Backoff,
    /// How long a surface is kept that nobody uses: its one being may just be restarted.
    pub linger: Duration,
}

impl SharedStart {
    /// How long a surface is kept that nobody uses, when nothing else is said: longer than a being takes to be started again.
    pub const LINGER: Duration = Duration::from_secs(5);
}

/// The surfaces of scope `shared`, each started when the first being uses it and ended when the last no longer does.
///
/// A being uses a surface as it was declared when its tools were made. An edit is another surface beside the old one, and the old one ends
/// when the last being has changed over.
#[derive(Debug, Clone)]
pub struct SharedSurfaces(Arc<Hall>);

#[derive(Debug)]
struct Hall {
    start: SharedStart,
    kept: Mutex<Vec<Kept>>,
    guests: AtomicU64,
    /// Surfaces that nobody uses, on their way to their end.
    leaving: TaskTracker,
    /// Cancelled when all is to end.
    over: CancellationToken,
}

/// A surface, as declared, and how many use it.
#[derive(Debug)]
struct Kept {
    joined: Joined,
    server: Arc<Server>,
    users: usize,
    /// How often somebody began to use it.
    begun: u64,
}

#[derive(Debug)]
struct Server {
    name: Name,
    keeper: Keeper,
    board: Arc<Board>,
}

impl SharedSurfaces {
    /// Nothing is started before somebody uses it.
    pub fn new(start: SharedStart) -> Self {
        let (kept, guests, leaving, over) = (Mutex::default(), AtomicU64::new(0), TaskTracker::new(), CancellationToken::new());
        Self(Arc::new(Hall { start, kept, guests, leaving, over }))
    }

    /// Ends every surface, by force after a grace; whoever still uses one is told that it is not available.
    pub async fn stop(&self) {
        self.0.over.cancel();
        let kept = std::mem::take(&mut *self.lock());
        join_all(kept.iter().map(|kept| kept.server.keeper.stop(GRACE))).await;
        self.0.leaving.close();
        self.0.leaving.wait().await;
    }

    /// Uses a surface until the share is released; questions in the midst of its user's calls go to `asks`.
    pub(super) fn share(&self, name: &Name, spec: &SurfaceSpec, asks: Asks) -> Share {
        let folder = self.0.start.folders.join(name.as_str());
        let joined = Joined::new(spec, &folder);
        let (guest, timeout) = (self.0.guests.fetch_add(1, Ordering::Relaxed), joined.timeout.as_duration());
        let mut all = self.lock();
        let server = match all.iter_mut().find(|kept| kept.server.name == *name && kept.joined.is_same_server(&joined)) {
            Some(kept) => {
                kept.users += 1;
                kept.begun += 1;
                Arc::clone(&kept.server)
            }
            None => {
                // What nobody uses makes room for what is declared now.
                let idle = all.extract_if(.., |kept| kept.server.name == *name && kept.users == 0);
                idle.for_each(|kept| self.end(kept.server));
                let server = Arc::new(self.start(name, joined.clone(), &folder));
                all.push(Kept { joined, server: Arc::clone(&server), users: 1, begun: 0 });
                server
            }
        };
        drop(all);
        Share { of: self.clone(), server, guest, timeout, asks, is_released: AtomicBool::new(false) }
    }

    fn start(&self, name: &Name, joined: Joined, folder: &Path) -> Server {
        let SharedStart { program, tokens, env, patience, pace, .. } = &self.0.start;
        // Where it cannot be made, the start of the process fails and says so.
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(folder) {
            tracing::warn!(surface = %name, folder = %folder.display(), "its folder cannot be made: {error}");
        }
        let board = Arc::new(Board { name: name.clone(), callers: Callers::default() });
        let relay: Arc<dyn Relay> = Arc::<Board>::clone(&board);
        let (nobody, _) = ask::questions();
        let aim = Aim {
            name: name.to_string(),
            reach: reach(name, joined, Place { program, folder, tokens, env }),
            patience: *patience,
            pace: pace.clone(),
            asks: Asks::new(nobody),
            relay: Some(relay),
        };
        Server { name: name.clone(), keeper: Keeper::start(aim), board }
    }

    /// Somebody no longer uses a surface. The last one is waited after for a while, unless it is declared otherwise by now.
    fn release(&self, server: &Arc<Server>) {
        let mut all = self.lock();
        let is_declared_otherwise = all.iter().any(|kept| kept.server.name == server.name && !Arc::ptr_eq(&kept.server, server));
        let Some(kept) = all.iter_mut().find(|kept| Arc::ptr_eq(&kept.server, server)) else { return };
        kept.users = kept.users.saturating_sub(1);
        if kept.users > 0 {
            return;
        }
        let begun = kept.begun;
        drop(all);
        if is_declared_otherwise {
            return self.take_unused(server, begun).into_iter().for_each(|server| self.end(server));
        }
        let Ok(runtime) = Handle::try_current() else { return drop(self.take_unused(server, begun)) };
        let (shared, server) = (self.clone(), Arc::clone(server));
        let lingering = async move {
            tokio::select! {
                () = sleep(shared.0.start.linger) => {}
                () = shared.0.over.cancelled() => {}
            }
            if let Some(server) = shared.take_unused(&server, begun) {
                server.keeper.stop(GRACE).await;
            }
        };
        self.0.leaving.spawn_on(lingering, &runtime);
    }

    /// Takes a surface out, when nobody has begun to use it since.
    fn take_unused(&self, server: &Arc<Server>, begun: u64) -> Option<Arc<Server>> {
        let mut all = self.lock();
        let is_unused = |kept: &Kept| Arc::ptr_eq(&kept.server, server) && kept.users == 0 && kept.begun == begun;
        let at = all.iter().position(is_unused)?;
        Some(all.swap_remove(at).server)
    }

    /// Ends a surface that was taken out.
    fn end(&self, server: Arc<Server>) {
        if let Ok(runtime) = Handle::try_current() {
            self.0.leaving.spawn_on(async move { server.keeper.stop(GRACE).await }, &runtime);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One user's part in a shared surface; dropping it releases it.
#[derive(Debug)]
pub(super) struct Share {
    of: SharedSurfaces,
    server: Arc<Server>,
    guest: u64,
    timeout: Duration,
    asks: Asks,
    is_released: AtomicBool,
}

impl Share {
    /// Waits until the surface is up or has failed once.
    pub(super) async fn settled(&self) {
        self.server.keeper.settled().await;
    }

    /// What is known of it.
    pub(super) fn view(&self) -> View {
        self.server.keeper.view()
    }

    /// How it is.
    pub(super) fn health(&self) -> SurfaceHealth {
        SurfaceHealth::of(&self.server.keeper)
    }

    /// Calls a tool by the server's own name for it, when it is this user's turn. Dropping the future tells the server.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallToolResult, CallError> {
        let Server { name, keeper, board } = &*self.server;
        let turn = keeper.turn(self.guest).await;
        if self.is_released.load(Ordering::SeqCst) {
            return Err(answer::unavailable(name.as_str(), "it is no longer used here"));
        }
        let _open = board.callers.open(self.guest, self.asks.clone());
        keeper.call_in(turn, &self.asks, (tool, arguments, self.timeout), |_| ()).await
    }

    /// Uses it no longer.
    pub(super) fn release(&self) {
        if !self.is_released.swap(true, Ordering::SeqCst) {
            self.of.release(&self.server);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

/// Puts what one surface asks to the being whose call it belongs to.
#[derive(Debug)]
struct Board {
    name: Name,
    callers: Callers<Asks>,
}

impl Board {
    async fn ask(&self, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        let ServerRequest::ElicitRequest(request) = request else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no such request is taken here", None));
        };
        match self.callers.only() {
            Ok(asks) => Ok(ClientResult::ElicitResult(asks.ask(request.params).await)),
            Err(error) => {
                tracing::warn!(surface = %self.name, "what it asks of a person is refused: {}", error.message);
                Err(error)
            }
        }
    }
}

impl Relay for Board {
    fn capabilities(&self) -> ClientCapabilities {
        session::asks()
    }

    fn greeted<'a>(&'a self, _server: &'a Peer<RoleClient>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn heard(&self, _said: ServerNotification) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn asked(&self, request: ServerRequest) -> BoxFuture<'_, Result<ClientResult, ErrorData>> {
        Box::pin(self.ask(request))
    }
}
