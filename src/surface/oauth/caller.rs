use std::{collections::HashMap, future::Future, sync::Arc};

use futures::stream::BoxStream;
use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
    },
};
use sse_stream::Sse;

use super::{
    challenge::Challenge,
    keyring::{OauthError, Shared, Why},
};
use crate::vocab::chain;

/// How often a request is made again with another token. The second time is for a surface that, once it takes the token, wants more scopes.
const MAX_AGAIN: usize = 2;

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// An HTTP client that shows the token of a keyring with every request, and gets another one where that is refused. Without a keyring it
/// shows what it is given.
#[derive(Clone)]
pub(in crate::surface) struct Caller {
    http: Client,
    keyring: Option<Shared>,
}

impl Caller {
    pub(in crate::surface) const fn new(http: Client, keyring: Option<Shared>) -> Self {
        Self { http, keyring }
    }

    /// Makes a request, again where another token may help: what was refused for its token did not happen.
    async fn show<T, F>(&self, fixed: Option<String>, request: impl Fn(Option<String>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let Some(keyring) = &self.keyring else { return request(fixed).await };
        let lost = |error: &OauthError| Failure::UnexpectedServerResponse(format!("HTTP 401: {}", keyring.despair(error)).into());
        let mut token = keyring.token().await.map_err(|error| lost(&error))?;
        for _ in 0..MAX_AGAIN {
            let outcome = request(token.clone()).await;
            let Some(challenge) = challenge(&outcome) else { return outcome };
            let why = if challenge.is_about_scope() { Why::Narrow(&challenge) } else { Why::Refused(&challenge) };
            token = match keyring.renew(token.as_deref(), why).await {
                Ok(token) => Some(token),
                // The token is good for other requests.
                Err(error) if challenge.is_about_scope() => return Err(too_narrow(&error)),
                Err(error) => return Err(lost(&error)),
            };
        }
        let outcome = request(token).await;
        match challenge(&outcome) {
            None => outcome,
            Some(challenge) if challenge.is_about_scope() => {
                Err(too_narrow(&OauthError::Insatiable { wants: challenge.scopes.join(" ") }))
            }
            Some(_) => Err(lost(&OauthError::StillRefused)),
        }
    }
}

fn too_narrow(error: &OauthError) -> Failure {
    Failure::UnexpectedServerResponse(format!("HTTP 403: {}", chain(error)).into())
}

/// What a surface says that does not take the token.
fn challenge<T>(outcome: &Result<T, Failure>) -> Option<Challenge> {
    match outcome {
        Err(Failure::AuthRequired(error)) => Some(Challenge::read(&error.www_authenticate_header)),
        Err(Failure::UnexpectedServerResponse(text)) if is_unauthorized(text) => Some(Challenge::default()),
        Err(Failure::Client(error)) if error.status().is_some_and(|status| status.as_u16() == 401) => Some(Challenge::default()),
        Err(Failure::InsufficientScope(error)) => {
            Some(Challenge::read(&error.www_authenticate_header)).filter(Challenge::is_about_scope)
        }
        _ => None,
    }
}

/// A surface that refuses without a challenge.
fn is_unauthorized(text: &str) -> bool {
    text.starts_with("HTTP 401")
}

impl StreamableHttpClient for Caller {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_response_limits(uri, message, session, token, headers, StreamableHttpResponseLimits::default()).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let post = |token| {
            let (uri, message, session, headers) = (uri.clone(), message.clone(), session.clone(), headers.clone());
            self.http.post_message_with_response_limits(uri, message, session, token, headers, limits)
        };
        self.show(token, post).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let token = match &self.keyring {
            Some(keyring) => keyring.secret().map(|token| token.reveal().to_owned()),
            None => token,
        };
        self.http.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let limit = crate::surface::session::MAX_MESSAGE;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let get = |token| {
            let (uri, session, last_event, headers) = (uri.clone(), session.clone(), last_event.clone(), headers.clone());
            self.http.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit)
        };
        self.show(token, get).await
    }
}
