use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::future::join_all;
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, ClientResult, ElicitRequest, Implementation, InitializeRequestParams,
        InitializeResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, ServerRequest, Tool,
    },
    serve_server,
    service::{RequestContext, ServerInitializeError},
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    config::{Joined, KEY, LasConfig, Way},
    health::{self, SurfaceHealth},
};
use crate::{
    process::{Backoff, Spawn, Talk},
    surface::{
        answer,
        ask::{self, Ask, Asks, Questions},
        keeper::{Keeper, Phase, chain},
        session::{Aim, Reach},
    },
    vocab::Name,
};

/// This very binary, even when its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";
/// How long surfaces may take to end when Las ends.
const GRACE: Duration = Duration::from_secs(2);
/// The locale of every child.
pub(super) const LOCALE: &str = "C.UTF-8";
/// Parts a surface from its tool.
pub(super) const PARTING: &str = "__";

/// Why a Las ended in another way than by the end of its stdin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("nobody greeted this Las; it is started by the daemon and speaks MCP on stdin and stdout")]
    Ungreeted(#[source] Box<ServerInitializeError>),
}

/// Runs as Las until stdin ends: joins what the greeting tells, then ends every surface.
///
/// `env` is this process's environment: `PATH` is passed on to the surfaces, `LAS_ONLY` and `LAS_SKIP` filter them, and bearers may
/// be in it.
pub async fn serve(env: BTreeMap<String, String>) -> Result<(), ServeError> {
    let (asks, questions) = ask::questions();
    let las = Aggregator { env: Arc::new(env), joined: Arc::default(), asks };
    let (stdin, stdout) = stdio_pipes();
    let greeted = Box::pin(serve_server(las.clone(), AsyncRwTransport::new_server(stdin, stdout))).await;
    let service = greeted.map_err(|error| ServeError::Ungreeted(Box::new(error)))?;
    let mut tellers = JoinSet::new();
    tellers.spawn(pass_on(questions, service.peer().clone()));
    for member in las.members().values() {
        tellers.spawn(tell(Arc::clone(&member.keeper), service.peer().clone()));
    }
    let _ = service.waiting().await;
    tellers.shutdown().await;
    join_all(las.members().values().map(|member| member.keeper.stop(GRACE))).await;
    Ok(())
}

/// Tells the other end whenever a surface changes after its first attempt.
async fn tell(keeper: Arc<Keeper>, peer: Peer<RoleServer>) {
    let mut view = keeper.watch();
    let settled = view.wait_for(|view| !matches!(view.phase, Phase::Starting)).await.is_ok();
    while settled && view.changed().await.is_ok() {
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// Passes what surfaces ask on to the other end, and the answers back.
async fn pass_on(mut questions: Questions, peer: Peer<RoleServer>) {
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            ask = questions.recv() => match ask {
                Some(ask) => drop(asking.spawn(pass_on_one(ask, peer.clone()))),
                None => return,
            },
            Some(_) = asking.join_next() => {}
        }
    }
}

/// A question that finds no answer is dropped, which cancels it.
async fn pass_on_one(mut ask: Ask, peer: Peer<RoleServer>) {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(ask.params().clone()));
    let answered = tokio::select! {
        answered = peer.send_request(request) => answered,
        () = ask.withdrawn() => return,
    };
    if let Ok(ClientResult::ElicitResult(result)) = answered {
        ask.answer(result);
    }
}

#[derive(Debug, Clone)]
struct Aggregator {
    env: Arc<BTreeMap<String, String>>,
    joined: Arc<OnceLock<BTreeMap<Name, Member>>>,
    asks: mpsc::Sender<Ask>,
}

#[derive(Debug)]
struct Member {
    keeper: Arc<Keeper>,
    timeout: Duration,
}

impl Aggregator {
    fn members(&self) -> &BTreeMap<Name, Member> {
        static NONE: BTreeMap<Name, Member> = BTreeMap::new();
        self.joined.get().unwrap_or(&NONE)
    }

    /// Starts every surface that the greeting names.
    fn join(&self, greeting: &InitializeRequestParams) -> Result<(), ErrorData> {
        let told = greeting.capabilities.experimental.as_ref().and_then(|told| told.get(KEY)).cloned();
        let Some(told) = told else { return Ok(()) };
        let invalid = |error: &(dyn std::error::Error + 'static)| {
            ErrorData::invalid_params(format!("cannot read what to join: {}", chain(error)), None)
        };
        let mut config = LasConfig::from_capability(told).map_err(|error| invalid(&error))?;
        config.select(&self.env).map_err(|error| invalid(&error))?;
        self.joined.get_or_init(|| {
            let LasConfig { surfaces, workspace, patience, pace } = config;
            let patience = patience.as_duration();
            let start = |(name, joined): (Name, Joined)| {
                let timeout = joined.timeout.as_duration();
                let aim = self.aim(&name, joined, &workspace, (patience, pace.clone()));
                (name, Member { keeper: Arc::new(Keeper::start(aim)), timeout })
            };
            surfaces.into_iter().map(start).collect()
        });
        Ok(())
    }

    fn aim(&self, name: &Name, joined: Joined, workspace: &std::path::Path, (patience, pace): (Duration, Backoff)) -> Aim {
        let reach = match joined.way {
            Way::Command(command) => {
                let mut env = clean(&self.env);
                env.extend(joined.env);
                Reach::Command(Spawn {
                    supervisor: PathBuf::from(SELF),
                    command,
                    env,
                    cwd: Some(workspace.to_owned()),
                    confinement: joined.confinement,
                    talk: Talk::Of(name.to_string()),
                })
            }
            Way::Url { url, bearer } => Reach::Url { url, bearer: bearer.map(Into::into), env: BTreeMap::clone(&self.env) },
        };
        Aim { name: name.to_string(), reach, patience, pace, asks: Asks::new(self.asks.clone()) }
    }
}

/// What every child sees of the environment: where programs are, and a locale that is the same everywhere.
pub(super) fn clean(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let path = env.get("PATH").map(|path| ("PATH".to_owned(), path.clone()));
    let locale = ["LANG", "LC_ALL"].map(|name| (name.to_owned(), LOCALE.to_owned()));
    path.into_iter().chain(locale).collect()
}

impl ServerHandler for Aggregator {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("las", env!("CARGO_PKG_VERSION")))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.join(&request)?;
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        join_all(self.members().values().map(|member| member.keeper.settled())).await;
        let tools = self.members().iter().flat_map(|(name, member)| prefixed(name, &member.keeper.view().tools)).collect();
        let healths = self.members().iter().map(|(name, member)| (name.clone(), SurfaceHealth::of(&member.keeper))).collect();
        let mut listed = ListToolsResult::with_all_items(tools);
        listed.meta = Some(health::to_meta(&healths));
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let routed = request.name.split_once(PARTING).and_then(|(surface, tool)| {
            let surface = Name::try_from(surface).ok()?;
            Some((self.members().get(&surface)?, tool))
        });
        let Some((member, tool)) = routed else {
            return Err(ErrorData::invalid_params(format!("unknown Las tool: {}", answer::bounded(&request.name)), None));
        };
        let before = member.keeper.view().edition;
        let result = tokio::select! {
            result = member.keeper.call(tool, request.arguments.unwrap_or_default(), member.timeout) => result,
            // Dropping the call tells the surface.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        if member.keeper.view().edition != before {
            // Told before the answer, so that who reads the answer knows that there are other tools.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        match result {
            Ok(result) => Ok(result.into()),
            Err(error) => Err(answer::verdict(&error)),
        }
    }
}

fn prefixed(surface: &Name, tools: &[Tool]) -> Vec<Tool> {
    let prefix = |tool: &Tool| {
        let mut tool = tool.clone();
        tool.name = Cow::Owned(format!("{surface}{PARTING}{}", tool.name));
        tool
    };
    tools.iter().map(prefix).collect()
}
