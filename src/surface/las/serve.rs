#![expect(deprecated, reason = "clients of today set a level of logging, and subscribe by request")]

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientResult, CompleteRequestParams, CompleteResult,
        ElicitRequest, GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams, InitializeResult,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, ServerNotification, ServerRequest,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    serve_server,
    service::{NotificationContext, RequestContext, ServerInitializeError, SubscriptionContext},
    transport::stdio_pipes,
};
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    config::{Joined, KEY, LasConfig},
    desk::Desk,
    guests::Guests,
    health::{self, SurfaceHealth},
    pass::Asked,
    reach::{Place, reach},
    told,
};
use crate::{
    surface::{
        Terms, answer,
        ask::{self, Ask, Asks, Questions},
        keeper::{Keeper, Phase},
        relay::Relay,
        session::Aim,
        wire::Lines,
    },
    vocab::{Name, chain},
};

/// This very binary, even when its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";
/// How long surfaces may take to end when Las ends.
const GRACE: Duration = Duration::from_secs(2);
/// No message of a client is longer.
const MAX_ASKED: usize = 16 * 1024 * 1024;
/// Parts a surface from its tool.
pub(super) const PARTING: &str = "__";

/// Why a Las ended in another way than by the end of its stdin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("nobody greeted this Las; it speaks MCP on stdin and stdout, to the program that starts it")]
    Ungreeted(#[source] Box<ServerInitializeError>),
}

/// Two tools or prompts of one name, where names have no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two {what} are called `{name}`: one of surface `{first}` and one of surface `{second}`")]
pub struct Clash {
    what: &'static str,
    name: String,
    first: Name,
    second: Name,
}

impl Clash {
    pub(super) fn new(what: &'static str, name: &str, first: &Name, second: &Name) -> Self {
        Self { what, name: answer::bounded(name), first: first.clone(), second: second.clone() }
    }
}

/// Runs as Las until stdin ends: joins what the greeting tells, then ends every surface.
///
/// `env` is this process's environment: `PATH` is passed on to the surfaces, `LAS_ONLY` and `LAS_SKIP` filter them, and bearers may
/// be in it.
pub async fn serve(env: BTreeMap<String, String>) -> Result<(), ServeError> {
    let (las, questions) = Aggregator::new(env, true);
    las.serve(Some(questions)).await
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

/// The surfaces, joined, as one peer sees them.
#[derive(Debug, Clone)]
pub(super) struct Aggregator {
    env: Arc<BTreeMap<String, String>>,
    joined: Arc<OnceLock<BTreeMap<Name, Member>>>,
    /// Whether a tool is called `<surface>__<tool>`; without it names are kept, and no two may be the same.
    prefixes: bool,
    /// No daemon is in front of it, so nobody is told the health of surfaces: a reason may hold what only an operator should read.
    alone: bool,
    /// Tell this peer of changes, and end with it.
    tellers: Arc<Mutex<JoinSet<()>>>,
    /// Where the questions of surfaces go that a daemon answers.
    asks: mpsc::Sender<Ask>,
    guests: Arc<Guests>,
    /// Which of the guests this peer is.
    guest: u64,
}

#[derive(Debug)]
struct Member {
    keeper: Arc<Keeper>,
    desk: Arc<Desk>,
    timeout: Duration,
    terms: Terms,
}

impl Aggregator {
    /// With it come the questions of its surfaces, for a daemon to answer.
    pub(super) fn new(env: BTreeMap<String, String>, prefixes: bool) -> (Self, Questions) {
        let (asks, questions) = ask::questions();
        let guests = Arc::<Guests>::default();
        let (env, guest, tellers) = (Arc::new(env), guests.number(), Arc::default());
        (Self { env, joined: Arc::default(), prefixes, alone: false, tellers, asks, guests, guest }, questions)
    }

    /// For clients other than a daemon.
    pub(super) fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// The same surfaces for another peer.
    pub(super) fn for_another(&self) -> Self {
        Self { tellers: Arc::default(), guest: self.guests.number(), ..self.clone() }
    }

    /// Serves the one peer at standard input and output until it is gone, then ends every surface.
    pub(super) async fn serve(&self, questions: Option<Questions>) -> Result<(), ServeError> {
        let (stdin, stdout) = stdio_pipes();
        let lines = Lines::new("las".to_owned(), stdin, stdout, MAX_ASKED, Arc::default());
        let greeted = Box::pin(serve_server(self.clone(), lines)).await;
        let ended = match greeted {
            Ok(service) => {
                let pass = questions.map(|questions| pass_on(questions, service.peer().clone()));
                let passing = pass.map(|pass| AbortOnDropHandle::new(tokio::spawn(pass)));
                let _ = service.waiting().await;
                drop(passing);
                Ok(())
            }
            Err(error) => Err(ServeError::Ungreeted(Box::new(error))),
        };
        self.stop().await;
        ended
    }

    /// Ends every surface, by force after a grace.
    pub(super) async fn stop(&self) {
        join_all(self.members().values().map(|member| member.keeper.stop(GRACE))).await;
    }

    /// What keeps the surfaces.
    pub(super) fn keepers(&self) -> impl Iterator<Item = &Arc<Keeper>> {
        self.members().values().map(|member| &member.keeper)
    }

    /// Follows what surfaces say to all clients.
    pub(super) fn heard_by_all(&self) -> broadcast::Receiver<ServerNotification> {
        self.guests.listen()
    }

    fn members(&self) -> &BTreeMap<Name, Member> {
        static NONE: BTreeMap<Name, Member> = BTreeMap::new();
        self.joined.get().unwrap_or(&NONE)
    }

    /// Starts every surface that the greeting names, unless it is settled already what is joined: then a greeting starts nothing.
    fn greet(&self, greeting: &InitializeRequestParams) -> Result<(), ErrorData> {
        let told = greeting.capabilities.experimental.as_ref().and_then(|told| told.get(KEY)).cloned();
        let (Some(told), None) = (told, self.joined.get()) else { return Ok(()) };
        let invalid = |error: &(dyn std::error::Error + 'static)| {
            ErrorData::invalid_params(format!("cannot read what to join: {}", chain(error)), None)
        };
        let mut config = LasConfig::from_capability(told).map_err(|error| invalid(&error))?;
        config.select(&self.env).map_err(|error| invalid(&error))?;
        self.join(config, BTreeMap::new(), &ClientCapabilities::default());
        Ok(())
    }

    /// Starts every surface, once and for all, and tells each what it may ask for of clients other than a daemon. A surface without terms offers all its tools by its
    /// own names for them.
    pub(super) fn join(&self, config: LasConfig, mut terms: BTreeMap<Name, Terms>, wants: &ClientCapabilities) {
        self.joined.get_or_init(|| {
            let LasConfig { surfaces, workspace, patience, pace, tokens } = config;
            let patience = patience.as_duration();
            let start = |(name, joined): (Name, Joined)| {
                let timeout = joined.timeout.as_duration();
                let desk = Arc::new(Desk::new(wants.clone(), self.alone, Arc::clone(&self.guests)));
                let relay: Arc<dyn Relay> = Arc::<Desk>::clone(&desk);
                let place = Place { program: Path::new(SELF), folder: &workspace, tokens: &tokens, env: &self.env };
                let aim = Aim {
                    name: name.to_string(),
                    reach: reach(&name, joined, place),
                    patience,
                    pace: pace.clone(),
                    asks: Asks::new(self.asks.clone()),
                    relay: self.alone.then_some(relay),
                };
                let terms = terms.remove(&name).unwrap_or_default();
                (name, Member { keeper: Arc::new(Keeper::start(aim)), desk, timeout, terms })
            };
            surfaces.into_iter().map(start).collect()
        });
    }

    /// Whose tool it is, and what its server calls it.
    fn route<'a>(&'a self, tool: &'a str) -> Result<Option<(&'a Member, &'a str)>, Clash> {
        if self.prefixes {
            let named = tool.split_once(PARTING).and_then(|(surface, ours)| Some((Name::try_from(surface).ok()?, ours)));
            let member = named.and_then(|(surface, ours)| Some((self.members().get(&surface)?, ours)));
            return Ok(member.and_then(|(member, ours)| Some((member, member.terms.theirs(ours)?))));
        }
        let lists = |member: &Member| member.keeper.view().tools.iter().any(|listed| member.terms.ours(&listed.name) == Some(tool));
        let mut theirs = self.members().iter().filter(|(_, member)| lists(member));
        match (theirs.next(), theirs.next()) {
            (Some((first, _)), Some((second, _))) => Err(Clash::new("tools", tool, first, second)),
            (found, _) => Ok(found.and_then(|(_, member)| Some((member, member.terms.theirs(tool)?)))),
        }
    }

    /// All tools, once each surface has listed its own or has failed once.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, Clash> {
        join_all(self.members().values().map(|member| member.keeper.settled())).await;
        let mut taken: BTreeMap<Cow<'static, str>, &Name> = BTreeMap::new();
        let mut tools = Vec::new();
        for (surface, member) in self.members() {
            for tool in self.listed(surface, member) {
                let first = if self.prefixes { None } else { taken.insert(tool.name.clone(), surface) };
                if let Some(first) = first {
                    return Err(Clash::new("tools", &tool.name, first, surface));
                }
                tools.push(tool);
            }
        }
        Ok(tools)
    }

    /// A surface's tools as this Las lists them.
    fn listed(&self, surface: &Name, member: &Member) -> Vec<Tool> {
        let named = |tool: &Tool| {
            let ours = member.terms.ours(&tool.name)?;
            let mut tool = tool.clone();
            tool.name = Cow::Owned(self.named(surface, ours));
            Some(tool)
        };
        member.keeper.view().tools.iter().filter_map(named).collect()
    }

    /// What this Las calls what a surface calls `own`.
    pub(super) fn named(&self, surface: &Name, own: &str) -> String {
        if self.prefixes { format!("{surface}{PARTING}{own}") } else { own.to_owned() }
    }

    /// The surfaces that are up and have what is meant, once each has settled.
    pub(super) async fn asked(&self, has: impl Fn(&ServerCapabilities) -> bool) -> Vec<Asked<'_>> {
        join_all(self.members().values().map(|member| member.keeper.settled())).await;
        let members = self.members().iter();
        members.filter_map(|(name, member)| Asked::new(name, &member.keeper, member.timeout, &has)).collect()
    }
}

/// What takes long is boxed: the library makes room in each request's task for the largest of all.
impl ServerHandler for Aggregator {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("las", env!("CARGO_PKG_VERSION")))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.greet(&request)?;
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.guests.greet(self.guest, &context.peer);
        let mut tellers = self.tellers.lock().unwrap_or_else(PoisonError::into_inner);
        // A peer that says it again is told once all the same: the earlier tellers end here.
        *tellers = JoinSet::new();
        for member in self.members().values() {
            tellers.spawn(tell(Arc::clone(&member.keeper), context.peer.clone()));
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = Box::pin(self.tools()).await.map_err(|clash| ErrorData::internal_error(clash.to_string(), None))?;
        let mut listed = ListToolsResult::with_all_items(tools);
        if !self.alone {
            let members = self.members().iter();
            let healths = members.map(|(name, member)| (name.clone(), SurfaceHealth::of(&member.keeper))).collect();
            listed.meta = Some(health::to_meta(&healths));
        }
        Ok(listed)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = Box::pin(self.prompts()).await.map_err(|clash| ErrorData::internal_error(clash.to_string(), None))?;
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Box::pin(self.fill_prompt(request)).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(Box::pin(self.resources()).await))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(Box::pin(self.templates()).await))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Box::pin(self.read(request)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Box::pin(self.completed(request)).await
    }

    async fn set_level(&self, request: SetLevelRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let level = self.guests.set_level(self.guest, &context.peer, request.level);
        Box::pin(self.level(&SetLevelRequestParams::new(level))).await
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if !self.guests.follow(self.guest, &context.peer, &request.uri) {
            return Err(ErrorData::invalid_request("too many resources are followed already; unsubscribe from some", None));
        }
        let uri = request.uri.clone();
        let followed = Box::pin(self.follow(request)).await;
        if followed.is_err() {
            self.guests.unfollow(self.guest, &context.peer, &uri);
        }
        followed
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if self.guests.unfollow(self.guest, &context.peer, &request.uri) { Box::pin(self.unfollow(request)).await } else { Ok(()) }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(told::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        Box::pin(self.tell_on(context)).await;
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let routed = self.route(&request.name).map_err(|clash| ErrorData::invalid_params(clash.to_string(), None))?;
        let Some((member, tool)) = routed else {
            return Err(ErrorData::invalid_params(format!("unknown Las tool: {}", answer::bounded(&request.name)), None));
        };
        let before = member.keeper.edition();
        let asked = (tool, request.arguments.unwrap_or_default(), member.timeout);
        let result = tokio::select! {
            result = Box::pin(member.desk.call(&member.keeper, asked, self.guest, &context)) => result,
            // Dropping the call tells the surface.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        if member.keeper.edition() != before {
            // Told before the answer, so that who reads the answer knows that there are other tools.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        match result {
            Ok(result) => Ok(result.into()),
            Err(error) => Err(answer::verdict(&error)),
        }
    }
}
