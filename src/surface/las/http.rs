use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use hmac::{Hmac, KeyInit, Mac};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

use super::serve::Aggregator;
use crate::{
    manifest::SecretSource,
    secret::{self, Secret, SecretError},
    surface::session::MAX_MESSAGE,
    vocab::chain,
};

/// Where the server is.
pub(super) const PATH: &str = "/mcp";
/// No more sessions are kept at once; one that is not used for five minutes ends.
const MAX_SESSIONS: usize = 256;
/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// The surfaces as an HTTP service. Whoever is not admitted reaches none of them.
pub(super) fn router(las: &Aggregator, address: SocketAddr, bearer: Option<Bearer>, over: CancellationToken) -> Router {
    let sessions = Arc::new(LocalSessionManager::default());
    let las = las.clone();
    let service = StreamableHttpService::new(move || Ok(las.for_another()), Arc::clone(&sessions), config(address, over));
    let guard = Guard { bearer, sessions };
    Router::new().route_service(PATH, service).layer(from_fn_with_state(guard, admit))
}

/// A page of a browser may not reach a server on this machine by a name that it had resolved to it. Where a bearer is asked for from
/// other machines, they may know this one by any name, and a page does not know the bearer.
fn config(address: SocketAddr, over: CancellationToken) -> StreamableHttpServerConfig {
    let port = address.port();
    let config = StreamableHttpServerConfig::default()
        .with_cancellation_token(over)
        .with_max_request_body_bytes(MAX_MESSAGE)
        .with_allowed_origins(["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}")))
        .enforce_origin_validation();
    if address.ip().is_loopback() { config } else { config.disable_allowed_hosts() }
}

/// What callers must show, and where it is looked up.
#[derive(Debug, Clone)]
pub(super) struct Bearer {
    source: SecretSource,
    /// The variable that it is in, or that tells where it is.
    variable: Option<String>,
}

impl Bearer {
    pub(super) fn new(source: SecretSource, env: &BTreeMap<String, String>) -> Self {
        let variable = secret::variable(&source).and_then(|name| env.get(name).cloned());
        Self { source, variable }
    }

    /// The bearer as it is now.
    pub(super) fn read(&self) -> Result<Secret, SecretError> {
        secret::read(&self.source, &|_| self.variable.clone())
    }
}

#[derive(Clone)]
struct Guard {
    bearer: Option<Bearer>,
    sessions: Arc<LocalSessionManager>,
}

async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.check_bearer(request.headers()) {
        Ok(true) => {}
        Ok(false) => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            return (StatusCode::UNAUTHORIZED, challenge, "show the right bearer").into_response();
        }
        Err(error) => {
            tracing::error!(because = chain(&error), "the bearer cannot be read, so nobody is admitted");
            return (StatusCode::SERVICE_UNAVAILABLE, "the server cannot read its bearer").into_response();
        }
    }
    let known = request.headers().contains_key(SESSION);
    if !known && guard.sessions.sessions.read().await.len() >= MAX_SESSIONS {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many sessions are open; end one, or wait until one has expired")
            .into_response();
    }
    next.run(request).await
}

impl Guard {
    /// Whether the right bearer is shown. It is read anew, so that one that was exchanged is taken up.
    fn check_bearer(&self, headers: &HeaderMap) -> Result<bool, SecretError> {
        let Some(wanted) = &self.bearer else { return Ok(true) };
        let secret = wanted.read()?;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        Ok(given.is_some_and(|given| is_same(given, secret.reveal().as_bytes())))
    }
}

/// What follows the scheme, whose letters may be of either case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(rest)
}

/// Compares in a time that tells nothing of where the two part: their digests are compared, and that in constant time.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    let digest = |text: &[u8]| Hmac::<Sha256>::new_from_slice(b"bearer").map(|mac| mac.chain_update(text));
    match (digest(given), digest(wanted)) {
        (Ok(given), Ok(wanted)) => given.verify(&wanted.finalize().into_bytes()).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_bearer_opens() {
        assert!(is_same(b"hush", b"hush"));
        for wrong in ["", "hus", "hush ", "Hush", "hushh"] {
            assert!(!is_same(wrong.as_bytes(), b"hush"), "{wrong:?}");
        }
        assert_eq!(bearer(b"bearer hush"), Some(&b"hush"[..]));
        assert_eq!((bearer(b"Basic hush"), bearer(b"Bearer"), bearer(b"")), (None, None, None));
    }
}
