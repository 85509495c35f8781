use std::{
    io,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Query, State, connect_info::Connected},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
    serve::IncomingStream,
};
use serde::Deserialize;
use tokio::net::UnixListener;

use super::{
    systemone,
    wire::{
        AnswerRequest, ApplyAnswer, ApplyRequest, ConsentRequest, Daemon, DeleteRequest, Done, EventList, FreezeRequest,
        FundRequest, PauseRequest, Refusal, RefusalClass, ResumeRequest, RollbackRequest, StatusAnswer,
    },
};
use crate::{
    reconcile::{Applied, Handle, RequestError},
    runtime::Deciders,
    vocab::Operator,
};

/// Why the socket can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("the path of the socket {path} is too long for this system; use a home with a shorter path")]
    TooLong { path: String },
    #[error("another daemon listens on {path}; run `singularity down` first")]
    Taken { path: String },
    #[error("cannot listen on {path}")]
    Unusable {
        path: String,
        #[source]
        source: io::Error,
    },
}

/// Bytes of one request: a fleet's manifests.
const MAX_REQUEST_BYTES: usize = 300 << 20;
/// How long a status request waits for news.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Bytes of a unix socket's path on Linux.
const MAX_SOCKET_PATH: usize = 107;

#[derive(Clone)]
struct Shared {
    handle: Handle,
    daemon: Daemon,
}

/// Opens the socket for this user alone; one that a dead daemon left is taken over.
pub fn listen(path: &Path) -> Result<UnixListener, ListenError> {
    let shown = path.display().to_string();
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(ListenError::TooLong { path: shown });
    }
    let unusable = |source| ListenError::Unusable { path: shown.clone(), source };
    if path.exists() {
        if UnixStream::connect(path).is_ok() {
            return Err(ListenError::Taken { path: shown });
        }
        std::fs::remove_file(path).map_err(unusable)?;
    }
    let listener = UnixListener::bind(path).map_err(unusable)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(unusable)?;
    Ok(listener)
}

/// Answers requests until `ends` is ready.
pub async fn serve(
    listener: UnixListener,
    (handle, deciders): (Handle, Deciders),
    daemon: Daemon,
    ends: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let asked = Router::new()
        .route("/v1/systemone", post(systemone::systemone))
        .layer(DefaultBodyLimit::max(systemone::MAX_BYTES))
        .with_state(deciders);
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/events", get(events))
        .route("/v1/fund", post(fund))
        .route("/v1/apply", post(apply))
        .route("/v1/delete", post(delete))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/rollback", post(rollback))
        .route("/v1/freeze", post(freeze))
        .route("/v1/answer", post(answer))
        .route("/v1/consent", post(consent))
        .route("/v1/down", post(down))
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(Shared { handle, daemon })
        .merge(asked);
    let service = router.into_make_service_with_connect_info::<Peer>();
    axum::serve(listener, service).with_graceful_shutdown(ends).await
}

/// Who is at the other end of a connection, if the kernel says so.
#[derive(Debug, Clone, Copy)]
struct Peer(Option<Operator>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|peer| Operator { uid: peer.uid() }))
    }
}

impl Peer {
    fn operator(self) -> Result<Operator, RequestError> {
        let unknown = || RequestError::Refused("the system does not say who asks, so nothing is done".to_owned());
        self.0.ok_or_else(unknown)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    newer_than: Option<u64>,
}

async fn status(State(shared): State<Shared>, Query(wait): Query<Wait>) -> Json<StatusAnswer> {
    let mut status = shared.handle.status();
    if let Some(version) = wait.newer_than {
        let is_news = status.wait_for(|status| status.version > version);
        drop(tokio::time::timeout(LONGEST_WAIT, is_news).await);
    }
    let status = status.borrow().as_ref().clone();
    Json(StatusAnswer { daemon: shared.daemon, status })
}

async fn apply(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<ApplyRequest>,
) -> Result<Json<ApplyAnswer>, Refused> {
    let ApplyRequest { set, content, dry_run } = request;
    Ok(applied(&shared.handle.apply(set, content, peer.operator()?, dry_run).await?))
}

async fn rollback(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<RollbackRequest>,
) -> Result<Json<ApplyAnswer>, Refused> {
    Ok(applied(&shared.handle.roll_back(request.to, peer.operator()?, request.dry_run).await?))
}

fn applied(Applied { plan, addresses }: &Applied) -> Json<ApplyAnswer> {
    Json(ApplyAnswer { is_settled: plan.is_settled(), plan: plan.to_string(), addresses: addresses.clone() })
}

async fn delete(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<DeleteRequest>,
) -> Result<Json<Done>, Refused> {
    let by = peer.operator()?;
    let done = match request {
        DeleteRequest::Object { address, purge } => shared.handle.delete(address, by, purge).await?,
        DeleteRequest::Set { set } => shared.handle.delete_set(set, by).await?,
    };
    Ok(Json(Done { done }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    after: Option<u64>,
}

async fn events(State(shared): State<Shared>, Query(After { after }): Query<After>) -> Json<EventList> {
    let items = tokio::time::timeout(LONGEST_WAIT, shared.handle.events(after)).await;
    Json(EventList { items: items.unwrap_or_default() })
}

async fn fund(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<FundRequest>,
) -> Result<Json<Done>, Refused> {
    let FundRequest { being, id, usd, reason } = request;
    Ok(Json(Done { done: shared.handle.fund(being, id, usd, peer.operator()?, reason).await? }))
}

async fn pause(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<PauseRequest>,
) -> Result<Json<Done>, Refused> {
    let PauseRequest { whom, reason } = request;
    Ok(Json(Done { done: shared.handle.pause(whom, peer.operator()?, reason).await? }))
}

async fn resume(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<ResumeRequest>,
) -> Result<Json<Done>, Refused> {
    Ok(Json(Done { done: shared.handle.resume(request.whom, peer.operator()?).await? }))
}

async fn freeze(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<FreezeRequest>,
) -> Result<Json<Done>, Refused> {
    let by = peer.operator()?;
    let done = match request {
        FreezeRequest::Freeze { reason } => shared.handle.freeze(by, reason).await?,
        FreezeRequest::Lift {} => shared.handle.thaw(by).await?,
    };
    Ok(Json(Done { done }))
}

async fn answer(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<AnswerRequest>,
) -> Result<Json<()>, Refused> {
    let AnswerRequest { being, number, word } = request;
    shared.handle.answer(being, number, word, peer.operator()?).await?;
    Ok(Json(()))
}

async fn consent(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<ConsentRequest>,
) -> Result<Json<()>, Refused> {
    let ConsentRequest { surface, answer } = request;
    shared.handle.consent(surface, answer, peer.operator()?).await?;
    Ok(Json(()))
}

async fn down(State(shared): State<Shared>, ConnectInfo(peer): ConnectInfo<Peer>) -> Result<Json<()>, Refused> {
    shared.handle.asked_down(peer.operator()?)?;
    Ok(Json(()))
}

struct Refused(RequestError);

impl From<RequestError> for Refused {
    fn from(error: RequestError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let class = match &self.0 {
            RequestError::Invalid(_) | RequestError::Refused(_) | RequestError::Troubled(_) => RefusalClass::Configuration,
            RequestError::Keep(_) | RequestError::Audit(_) => RefusalClass::State,
            RequestError::Leaving => RefusalClass::Runtime,
        };
        let message = crate::vocab::chain(&self.0);
        (StatusCode::UNPROCESSABLE_ENTITY, Json(Refusal { class, message })).into_response()
    }
}
