use std::{collections::BTreeMap, fmt, process::ExitStatus, sync::Arc, time::Duration};

use rmcp::{
    ClientCacheConfig, ClientHandler, ClientLifecycleMode, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, FormElicitationCapability,
        Implementation, JsonObject, MetaObject, PaginatedRequestParams, ProtocolVersion, Tool, UrlElicitationCapability,
    },
    service::{ClientInitializeError, RequestContext, RunningService, Subscription, serve_client_with_lifecycle_and_ct},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use tokio::{sync::watch, time::timeout};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use super::{
    ask::Asks,
    given::Given,
    listen,
    oauth::{self, Caller},
    relay::{Relay, Relayed},
    wire::{Faults, Heard, Lines},
};
use crate::{
    manifest::SecretSource,
    process::{Backoff, Child, Spawn, SpawnError, Tail},
    secret::{self, SecretError},
};

/// No message of a surface is longer.
pub(super) const MAX_MESSAGE: usize = 8 * 1024 * 1024;
/// No list of tools, or of anything, has more pages, or more items.
pub(super) const MAX_PAGES: usize = 64;
pub(super) const MAX_ITEMS: usize = 4_096;
/// How long a command whose pipe has closed may take to end, so that its status can be told.
const LAST_BREATH: Duration = Duration::from_millis(500);
/// How long a connection may take to be established.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Whom to reach, and how.
#[derive(Debug, Clone)]
pub(super) struct Aim {
    /// For the log and for errors.
    pub(super) name: String,
    pub(super) reach: Reach,
    /// How long it may take until the tools are listed.
    pub(super) patience: Duration,
    /// How long between two attempts.
    pub(super) pace: Backoff,
    /// Where its questions go that a daemon answers.
    pub(super) asks: Asks,
    /// Who passes on what the server says and asks, in the place of `asks`.
    pub(super) relay: Option<Arc<dyn Relay>>,
}

/// The way to an MCP server.
#[derive(Debug, Clone)]
pub(super) enum Reach {
    /// A process that speaks on its standard streams, probed for the newest protocol, and the secrets that it is given.
    Command { spawn: Spawn, given: Given },
    /// A Las: greeted by `initialize` at once; what it joins is told in the greeting.
    Las { spawn: Spawn, joins: Option<(String, JsonObject)> },
    /// Streamable HTTP.
    Url { url: String, shows: Shows },
}

/// What a surface over HTTP is shown.
#[derive(Debug, Clone)]
pub(super) enum Shows {
    Nothing,
    /// A secret, looked up among these variables where it is one.
    Bearer(SecretSource, BTreeMap<String, String>),
    /// Tokens had by OAuth.
    Tokens(oauth::Shared),
}

/// Why a surface is not there.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the secret for `env.{variable}` holds a NUL, which no variable can")]
    Unfit { variable: String },
    #[error("{what} cannot be shown a token: {because}")]
    NoToken { what: String, because: String },
    #[error("{what} did not answer within {patience:?}{stderr}")]
    Silent { what: String, patience: Duration, stderr: LastWords },
    #[error("{what} ended before it was ready: {status}{stderr}")]
    Ended { what: String, status: ExitStatus, stderr: LastWords },
    #[error("{what} sent a message of more than {bytes} bytes{stderr}")]
    Flooded { what: String, bytes: usize, stderr: LastWords },
    #[error("{what} did not complete the handshake{stderr}")]
    Handshake {
        what: String,
        stderr: LastWords,
        #[source]
        source: Box<ClientInitializeError>,
    },
    #[error("{what} did not list its tools{stderr}")]
    NoList {
        what: String,
        stderr: LastWords,
        #[source]
        source: Box<ServiceError>,
    },
    #[error("cannot make an HTTP client")]
    NoClient(#[source] reqwest::Error),
}

/// The last lines of a child's stderr, as the end of an error's text.
#[derive(Debug, Default)]
pub struct LastWords(Vec<String>);

impl LastWords {
    fn of(tail: Option<&Tail>) -> Self {
        Self(tail.map(Tail::lines).unwrap_or_default())
    }
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str("; its last words:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// What a server tells of its tools in one go.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    pub(super) tools: Vec<Tool>,
    /// `_meta` of the first page.
    pub(super) meta: Option<MetaObject>,
    /// How many changes had been told before it was asked.
    pub(super) as_of: u64,
}

/// Hears what a server says unasked.
#[derive(Debug, Clone)]
struct Ear {
    config: ClientConfig,
    asks: Asks,
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            answered = self.asks.ask(request) => Ok(answered),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the question was withdrawn", None)),
        }
    }
}

/// What a server may ask a person for.
pub(super) fn asks() -> ClientCapabilities {
    let asks = ElicitationCapability::new().with_form(FormElicitationCapability::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(asks.with_url(UrlElicitationCapability::new()));
    capabilities
}

/// A connection that is up, and the process behind it.
#[derive(Debug)]
pub(super) struct Session {
    what: String,
    max_message: usize,
    peer: Peer<RoleClient>,
    /// Cancelled when the connection is over.
    over: CancellationToken,
    close: CancellationToken,
    child: Option<Child>,
    keyring: Option<oauth::Shared>,
    faults: Arc<Faults>,
    changes: watch::Receiver<u64>,
    /// Keeps a server telling what changes, where it has to be asked to.
    _listening: Option<AbortOnDropHandle<()>>,
    _closes: DropGuard,
}

impl Aim {
    /// The surface as people know it: its command line or its address.
    fn what(&self) -> String {
        match &self.reach {
            Reach::Command { spawn, .. } | Reach::Las { spawn, .. } => format!("`{}`", spawn.line()),
            Reach::Url { url, .. } => format!("`{url}`"),
        }
    }

    /// Takes the secrets that the server has out of a text that it may have written.
    pub(super) fn hide(&self, text: &str) -> String {
        match &self.reach {
            Reach::Command { given, .. } => given.veil().map_or_else(|| text.to_owned(), |veil| veil.hide(text)),
            Reach::Url { shows: Shows::Bearer(source, env), .. } => {
                let bearer = secret::read(source, &|name| env.get(name).cloned());
                bearer.map_or_else(|_| text.to_owned(), |bearer| bearer.hide(text).into_owned())
            }
            Reach::Url { shows: Shows::Tokens(keyring), .. } => keyring.hide(text),
            _ => text.to_owned(),
        }
    }

    /// Where the tokens are had that it is shown.
    pub(super) const fn keyring(&self) -> Option<&oauth::Shared> {
        match &self.reach {
            Reach::Url { shows: Shows::Tokens(keyring), .. } => Some(keyring),
            _ => None,
        }
    }

    /// Connects, greets and lists, all within the patience. Dropping the future leaves no process behind.
    pub(super) async fn open(&self, faults: &Arc<Faults>) -> Result<(Session, Listed), OpenError> {
        let mut child = None;
        if let Some(keyring) = self.keyring() {
            keyring.hope();
        }
        let opened = timeout(self.patience, self.greet(&mut child, faults)).await;
        let stderr = |child: &Option<Child>| LastWords::of(child.as_ref().map(Child::stderr));
        let error = match opened {
            Ok(Ok(greeted)) => return Ok(self.settle(greeted, child, faults)),
            _ if let Some(because) = self.keyring().and_then(|keyring| keyring.trouble()) => {
                return Err(OpenError::NoToken { what: self.what(), because });
            }
            Ok(Err(error)) => error,
            Err(_) => return Err(OpenError::Silent { what: self.what(), patience: self.patience, stderr: stderr(&child) }),
        };
        if faults.take_cut() {
            return Err(OpenError::Flooded { what: self.what(), bytes: self.max_message(), stderr: stderr(&child) });
        }
        let status = match &mut child {
            Some(child) => timeout(LAST_BREATH, child.wait()).await.ok().and_then(Result::ok),
            None => None,
        };
        let stderr = stderr(&child);
        Err(match (error, status) {
            (Unopened::Early(error), _) => error,
            (_, Some(status)) => OpenError::Ended { what: self.what(), status, stderr },
            (Unopened::Handshake(source), None) => OpenError::Handshake { what: self.what(), stderr, source },
            (Unopened::NoList(source), None) => OpenError::NoList { what: self.what(), stderr, source },
        })
    }

    async fn greet(&self, child: &mut Option<Child>, faults: &Arc<Faults>) -> Result<Greeted, Unopened> {
        let greeted = self.greet_by(self.lifecycle(), child, faults).await;
        let is_probe_misread = matches!(&greeted, Err(Unopened::Handshake(error)) if is_misread(error));
        if !is_probe_misread || matches!(self.reach, Reach::Las { .. }) {
            return greeted;
        }
        // A server that knows nothing of the probe should refuse it. One that answers it like anything else is greeted anew in the old way.
        *child = None;
        self.greet_by(ClientLifecycleMode::Initialize, child, faults).await
    }

    async fn greet_by(
        &self,
        lifecycle: ClientLifecycleMode,
        child: &mut Option<Child>,
        faults: &Arc<Faults>,
    ) -> Result<Greeted, Unopened> {
        let ear = Relayed { ear: Ear { config: self.config(), asks: self.asks.clone() }, relay: self.relay.clone() };
        let close = CancellationToken::new();
        let service = match &self.reach {
            Reach::Command { spawn, .. } | Reach::Las { spawn, .. } => {
                let spawn = match &self.reach {
                    Reach::Command { given, .. } => given.to(spawn).await?,
                    _ => spawn.clone(),
                };
                let started = child.insert(spawn.start().map_err(OpenError::from)?);
                let Some((stdin, stdout)) = started.take_pipes() else { return Err(OpenError::from(SpawnError::Empty).into()) };
                let lines = Lines::new(self.name.clone(), stdout, stdin, self.max_message(), Arc::clone(faults)).veiled(spawn.veil);
                let lines = Heard { inner: lines, faults: Arc::clone(faults) };
                serve_client_with_lifecycle_and_ct(ear, lines, lifecycle, close.clone()).await
            }
            Reach::Url { url, shows } => {
                let transport = Heard { inner: http(url, shows)?, faults: Arc::clone(faults) };
                serve_client_with_lifecycle_and_ct(ear, transport, lifecycle, close.clone()).await
            }
        };
        let service = service.map_err(|error| Unopened::Handshake(Box::new(error)))?;
        // A kept list would be told as the new one when it has just changed.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        // First the ear, then the list: what changes in between is not missed.
        let stream = listen::begin(&self.name, service.peer()).await;
        let mut changes = faults.changes();
        let as_of = *changes.borrow_and_update();
        let listed = list(service.peer(), as_of).await.map_err(|error| Unopened::NoList(Box::new(error)))?;
        if let Some(relay) = &self.relay {
            relay.greeted(service.peer()).await;
        }
        Ok(Greeted { service, close, changes, listed, stream })
    }

    fn settle(&self, greeted: Greeted, child: Option<Child>, faults: &Arc<Faults>) -> (Session, Listed) {
        let Greeted { service, close, changes, listed, stream } = greeted;
        let (peer, over) = (service.peer().clone(), CancellationToken::new());
        let listening = stream.map(|stream| listen::go_on(self.name.clone(), peer.clone(), stream, Arc::clone(faults)));
        let ends = over.clone().drop_guard();
        // Ends with the connection, which the session's own guard closes.
        tokio::spawn(async move {
            let _ = service.waiting().await;
            drop(ends);
        });
        let session = Session {
            what: self.what(),
            max_message: self.max_message(),
            peer,
            over,
            _closes: close.clone().drop_guard(),
            close,
            child,
            keyring: self.keyring().cloned(),
            faults: Arc::clone(faults),
            changes,
            _listening: listening.map(|listening| AbortOnDropHandle::new(tokio::spawn(listening))),
        };
        (session, listed)
    }

    fn config(&self) -> ClientConfig {
        let mut capabilities = self.relay.as_ref().map_or_else(asks, |relay| relay.capabilities());
        if let Reach::Las { joins: Some((key, joins)), .. } = &self.reach {
            capabilities.experimental = Some(BTreeMap::from([(key.clone(), joins.clone())]));
        }
        let this = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, this).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    fn lifecycle(&self) -> ClientLifecycleMode {
        match self.reach {
            Reach::Las { .. } => ClientLifecycleMode::Initialize,
            Reach::Command { .. } | Reach::Url { .. } => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        }
    }

    /// A Las passes messages of its surfaces on, and its list is theirs together.
    fn max_message(&self) -> usize {
        if matches!(self.reach, Reach::Las { .. }) { 2 * MAX_MESSAGE } else { MAX_MESSAGE }
    }
}

/// Tells whether a server answered something that is no answer to what it was asked.
const fn is_misread(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::ExpectedInitResult(_))
}

struct Greeted {
    service: RunningService<RoleClient, Relayed<Ear>>,
    close: CancellationToken,
    changes: watch::Receiver<u64>,
    listed: Listed,
    stream: Option<Subscription>,
}

enum Unopened {
    Early(OpenError),
    Handshake(Box<ClientInitializeError>),
    NoList(Box<ServiceError>),
}

impl From<OpenError> for Unopened {
    fn from(error: OpenError) -> Self {
        Self::Early(error)
    }
}

impl Session {
    /// The other end, to be asked.
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Waits until the connection or the process is gone, and says why. Cancel safe.
    pub(super) async fn ended(&mut self) -> String {
        let Some(child) = &mut self.child else {
            let lost = async {
                match &self.keyring {
                    Some(keyring) => keyring.lost().await,
                    None => std::future::pending().await,
                }
            };
            return tokio::select! {
                because = lost => format!("{} cannot be shown a token: {because}", self.what),
                () = self.over.cancelled() => format!("{} closed the connection", self.what),
            };
        };
        let status = tokio::select! {
            () = self.over.cancelled() => timeout(LAST_BREATH, child.wait()).await.ok(),
            status = child.wait() => Some(status),
        };
        let stderr = LastWords::of(Some(child.stderr()));
        if self.faults.take_cut() {
            return format!("{} sent a message of more than {} bytes and was stopped{stderr}", self.what, self.max_message);
        }
        match status {
            Some(Ok(status)) => format!("{} ended: {status}{stderr}", self.what),
            _ => format!("{} closed its stdout{stderr}", self.what),
        }
    }

    /// Waits for word that the tools have changed, and lists them anew; the error is how many changes had been told.
    ///
    /// Cancel safe while it waits; a list that is cut short is not asked for again by itself.
    pub(super) fn relisted(&self, patience: Duration) -> impl Future<Output = Result<Listed, u64>> + use<> {
        let (mut changes, peer) = (self.changes.clone(), self.peer.clone());
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let as_of = *changes.borrow();
            timeout(patience, list(&peer, as_of)).await.map_or(Err(as_of), |listed| listed.map_err(|_| as_of))
        }
    }

    /// Notes that the tools are known as they were after so many changes.
    pub(super) fn caught_up(&mut self, as_of: u64) {
        if *self.changes.borrow_and_update() != as_of {
            self.changes.mark_changed();
        }
    }

    /// Closes the connection, which ends most servers; after half of `grace` asks the process to end, after all of it kills it.
    pub(super) async fn close(mut self, grace: Duration) {
        self.close.cancel();
        let half = grace / 2;
        let Some(mut child) = self.child.take() else {
            let _ = timeout(grace, self.over.cancelled()).await;
            return;
        };
        if timeout(half, child.wait()).await.is_err() {
            let _ = child.stop(half).await;
        }
    }
}

/// Lists all tools, page by page, up to the bounds.
async fn list(peer: &Peer<RoleClient>, as_of: u64) -> Result<Listed, ServiceError> {
    let mut listed = Listed { as_of, ..Listed::default() };
    let mut cursor = None;
    for page in 0..MAX_PAGES {
        let asked = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let answer = peer.list_tools(asked).await?;
        if page == 0 {
            listed.meta = answer.meta;
        }
        listed.tools.extend(answer.tools);
        listed.tools.truncate(MAX_ITEMS);
        cursor = answer.next_cursor;
        if cursor.is_none() || listed.tools.len() == MAX_ITEMS {
            break;
        }
    }
    Ok(listed)
}

/// A streamable HTTP transport; a bearer is read now, so that each connection takes the newest.
fn http(url: &str, shows: &Shows) -> Result<StreamableHttpClientTransport<Caller>, OpenError> {
    // Fails only when another provider was chosen already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_DEADLINE)
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .build()
        .map_err(OpenError::NoClient)?;
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned())
        .max_sse_event_size(MAX_MESSAGE)
        .max_json_response_size(MAX_MESSAGE);
    let (config, keyring) = match shows {
        Shows::Nothing => (config, None),
        Shows::Bearer(source, env) => (config.auth_header(secret::read(source, &|name| env.get(name).cloned())?.reveal()), None),
        Shows::Tokens(keyring) => (config, Some(Arc::clone(keyring))),
    };
    Ok(StreamableHttpClientTransport::with_client(Caller::new(client, keyring), config))
}
