#![expect(deprecated, reason = "sampling, logging and subscriptions are asked for by today's servers and clients")]

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use rmcp::{
    ErrorData, Peer, RoleClient, RoleServer, ServiceError,
    model::{
        CallToolResult, ClientCapabilities, ClientResult, JsonObject, ProgressNotification, ProgressToken, ServerNotification,
        ServerRequest, SetLevelRequestParams, SubscribeRequestParams,
    },
    service::RequestContext,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::guests::Guests;
use crate::surface::{
    CallError,
    ask::MAX_ASKED_IN_A_CALL,
    callers::{Callers, refused},
    keeper::Keeper,
    pending::Pending,
    relay::Relay,
};

/// No more questions of a server wait at once in one call.
const MAX_QUESTIONS: usize = 16;
/// How long a server may take to take up what its clients had asked for before it was lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Passes on what one surface says and asks beside its answers.
#[derive(Debug)]
pub(super) struct Desk {
    wants: ClientCapabilities,
    /// Whether what the server asks comes here.
    is_relay: bool,
    guests: Arc<Guests>,
    callers: Callers<mpsc::Sender<Question>>,
    followers: Mutex<HashMap<ProgressToken, Follower>>,
}

#[derive(Debug)]
struct Question {
    request: ServerRequest,
    answer: oneshot::Sender<Result<ClientResult, ErrorData>>,
}

/// Whom to tell how far a call is, and by which token.
#[derive(Debug, Clone)]
struct Follower {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Desk {
    /// A desk for a surface that may ask for what `wants` names; where it is no relay, a daemon is asked in its place.
    pub(super) fn new(wants: ClientCapabilities, is_relay: bool, guests: Arc<Guests>) -> Self {
        Self { wants, is_relay, guests, callers: Callers::default(), followers: Mutex::default() }
    }

    /// Calls a tool for a client, and puts to that client what the server asks meanwhile. Dropping the future tells the server.
    pub(super) async fn call(
        &self,
        keeper: &Keeper,
        (tool, arguments, deadline): (&str, JsonObject, Duration),
        guest: u64,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, CallError> {
        let turn = keeper.turn(guest).await;
        let (questions, mut asked) = mpsc::channel(MAX_QUESTIONS);
        let _open = self.callers.open(guest, questions);
        let follower = context.meta.get_progress_token().map(|token| Follower { peer: context.peer.clone(), token });
        let follow = |token: Option<&ProgressToken>| Some(self.follow(token?.clone(), follower?));
        // What a client is asked holds up its own call alone; what a daemon is asked is counted where it is.
        let asks = if self.is_relay { keeper.asks().apart() } else { keeper.asks().clone() };
        let mut calling = pin!(keeper.call_in(turn, &asks, (tool, arguments, deadline), follow));
        let (mut answering, mut count) = (FuturesUnordered::new(), 0);
        loop {
            tokio::select! {
                result = &mut calling => return result,
                Some(question) = asked.recv(), if answering.len() < MAX_QUESTIONS => {
                    count += 1;
                    let waiting = (count <= MAX_ASKED_IN_A_CALL).then(|| asks.waiting());
                    answering.push(put(context, question, waiting));
                }
                Some(()) = answering.next(), if !answering.is_empty() => {}
            }
        }
    }

    fn follow(&self, token: ProgressToken, follower: Follower) -> impl Drop + '_ {
        lock(&self.followers).insert(token.clone(), follower);
        Closing(move || {
            lock(&self.followers).remove(&token);
        })
    }

    async fn ask(&self, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        let (answer, answered) = oneshot::channel();
        let question = Question { request, answer };
        self.callers.only()?.try_send(question).map_err(|_| refused("too many questions wait already"))?;
        answered.await.unwrap_or_else(|_| Err(refused("the call that this belongs to is over")))
    }

    async fn tell(&self, said: ServerNotification) {
        let ServerNotification::ProgressNotification(progress) = said else { return self.guests.tell(said).await };
        let follower = lock(&self.followers).get(&progress.params.progress_token).cloned();
        if let Some(Follower { peer, token }) = follower {
            let mut params = progress.params;
            params.progress_token = token;
            let said = ServerNotification::ProgressNotification(ProgressNotification::new(params));
            let _ = timeout(PATIENCE, peer.send_notification(said)).await;
        }
    }

    /// What clients had asked of a server, asked again of one that has come back.
    async fn restore(&self, server: &Peer<RoleClient>) {
        let capabilities = server.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
        if let Some(level) = self.guests.level().filter(|_| capabilities.logging.is_some()) {
            let _ = server.set_level(SetLevelRequestParams::new(level)).await;
        }
        if capabilities.resources.is_some_and(|resources| resources.subscribe == Some(true)) {
            for uri in self.guests.followed() {
                let _ = server.subscribe(SubscribeRequestParams::new(uri)).await;
            }
        }
    }
}

impl Relay for Desk {
    fn capabilities(&self) -> ClientCapabilities {
        self.wants.clone()
    }

    fn greeted<'a>(&'a self, server: &'a Peer<RoleClient>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _ = timeout(PATIENCE, self.restore(server)).await;
        })
    }

    fn heard(&self, said: ServerNotification) -> BoxFuture<'_, ()> {
        Box::pin(self.tell(said))
    }

    fn asked(&self, request: ServerRequest) -> BoxFuture<'_, Result<ClientResult, ErrorData>> {
        Box::pin(self.ask(request))
    }
}

/// Puts a question to the client, as part of the request that it belongs to. The clock of the call stands while `waits` lives; one more
/// than may hold it up is refused. What the server no longer wants to know, or nobody can give it, is withdrawn at the client too.
async fn put(context: &RequestContext<RoleServer>, question: Question, waits: Option<impl Sized>) {
    let Question { request, mut answer } = question;
    let capabilities = context.client_capabilities().unwrap_or_default();
    let (what, is_taken) = match &request {
        ServerRequest::ElicitRequest(_) => ("elicitation", capabilities.elicitation.is_some()),
        ServerRequest::CreateMessageRequest(_) => ("sampling", capabilities.sampling.is_some()),
        ServerRequest::ListRootsRequest(_) => ("roots", capabilities.roots.is_some()),
        _ => ("such requests", false),
    };
    let answered = match waits {
        _ if !is_taken => Err(refused(&format!("the client does not take {what}"))),
        None => Err(refused("the server has asked too often in one call")),
        Some(_waits) => tokio::select! {
            answered = asked(&context.peer, request) => answered,
            () = answer.closed() => return,
        },
    };
    let _ = answer.send(answered);
}

async fn asked(client: &Peer<RoleServer>, request: ServerRequest) -> Result<ClientResult, ErrorData> {
    let answered = async { Pending::ask(client, request).await?.answered().await };
    answered.await.map_err(|error| match error {
        ServiceError::McpError(error) => error,
        error => refused(&format!("the client did not answer: {error}")),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something at its end.
struct Closing<F: FnMut()>(F);

impl<F: FnMut()> Drop for Closing<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
