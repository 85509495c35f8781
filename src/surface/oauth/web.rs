//! Requests to whoever tells of, or gives, tokens: bounded, and never in the clear.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, Url, header, redirect::Policy};
use url::form_urlencoded;

use crate::{manifest::OauthSpec, surface::answer::bounded};

/// No answer is longer.
const MAX_BODY: usize = 256 * 1024;
/// How long a connection, and a whole request, may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const DEADLINE: Duration = Duration::from_secs(20);
/// No more redirects are followed.
const MAX_REDIRECTS: usize = 3;

/// A client for such requests.
#[derive(Debug)]
pub(super) struct Web(Client);

/// What was answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("`{0}` is neither https nor on this machine, so nothing is sent there")]
    Insecure(String),
    #[error("`{0}` is no address")]
    NoAddress(String),
    #[error("`{at}` did not answer")]
    Unanswered {
        at: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("`{from}` redirects to `{to}`, which is elsewhere, or redirects too often")]
    Elsewhere { from: String, to: String },
    #[error("`{0}` answers with more than {MAX_BODY} bytes")]
    TooLong(String),
    #[error("cannot make an HTTP client")]
    NoClient(#[source] reqwest::Error),
}

impl Web {
    pub(super) fn new() -> Result<Self, WebError> {
        // Fails only when another provider was chosen already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().connect_timeout(CONNECT_DEADLINE).timeout(DEADLINE).redirect(Policy::none());
        client.build().map(Self).map_err(WebError::NoClient)
    }

    /// Reads what stands at an address; redirects are followed within its origin.
    pub(super) async fn get(&self, at: &Url) -> Result<Answered, WebError> {
        let mut here = at.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.0.get(here.clone()).header(header::ACCEPT, "application/json");
            match self.send(&here, request).await? {
                Sent::Answered(answered) => return Ok(answered),
                Sent::Redirected(there) if there.origin() == here.origin() => here = there,
                Sent::Redirected(there) => return Err(elsewhere(at, &there)),
            }
        }
        Err(elsewhere(at, &here))
    }

    /// Posts a form; a redirect is refused, for the form holds secrets.
    pub(super) async fn post_form(
        &self,
        at: &Url,
        fields: &[(&str, String)],
        authorization: Option<&str>,
    ) -> Result<Answered, WebError> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self.0.post(at.clone()).header(header::ACCEPT, "application/json").body(body);
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        self.posted(at, request).await
    }

    /// Posts JSON; a redirect is refused.
    pub(super) async fn post_json(&self, at: &Url, body: &serde_json::Value) -> Result<Answered, WebError> {
        self.posted(at, self.0.post(at.clone()).header(header::ACCEPT, "application/json").json(body)).await
    }

    async fn posted(&self, at: &Url, request: RequestBuilder) -> Result<Answered, WebError> {
        match self.send(at, request).await? {
            Sent::Answered(answered) => Ok(answered),
            Sent::Redirected(there) => Err(elsewhere(at, &there)),
        }
    }

    async fn send(&self, at: &Url, request: RequestBuilder) -> Result<Sent, WebError> {
        if !OauthSpec::may_go_to(at) {
            return Err(WebError::Insecure(plain(at)));
        }
        let unanswered = |source: reqwest::Error| WebError::Unanswered { at: plain(at), source: source.without_url() };
        let mut response = request.send().await.map_err(unanswered)?;
        let status = response.status();
        let location = response.headers().get(header::LOCATION).and_then(|to| at.join(to.to_str().ok()?).ok());
        if let (true, Some(there)) = (status.is_redirection(), location) {
            return Ok(Sent::Redirected(there));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY {
                return Err(WebError::TooLong(plain(at)));
            }
        }
        Ok(Sent::Answered(Answered { status, body }))
    }
}

enum Sent {
    Answered(Answered),
    Redirected(Url),
}

fn elsewhere(from: &Url, to: &Url) -> WebError {
    WebError::Elsewhere { from: plain(from), to: plain(to) }
}

/// Reads an address.
pub(super) fn address(text: &str) -> Result<Url, WebError> {
    Url::parse(text).map_err(|_| WebError::NoAddress(bounded(text)))
}

/// An address without what may be secret in it.
fn plain(at: &Url) -> String {
    let mut plain = at.clone();
    plain.set_query(None);
    plain.set_fragment(None);
    let _ = plain.set_password(None);
    let _ = plain.set_username("");
    bounded(plain.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_in_the_clear_but_to_this_machine() {
        let is_safe = |text: &str| OauthSpec::may_go_to(&text.parse().unwrap());
        for safe in ["https://a.example/x", "http://127.0.0.1:1/x", "http://127.8.8.8/", "http://[::1]:5/", "http://localhost:9/"] {
            assert!(is_safe(safe), "{safe}");
        }
        for open in
            ["http://a.example/", "http://10.0.0.1/", "http://localhost.example/", "ftp://127.0.0.1/", "file:///etc/x", "data:x"]
        {
            assert!(!is_safe(open), "{open}");
        }
    }

    #[test]
    fn an_error_shows_no_query_and_no_password() {
        let shown = plain(&"https://me:hunter2@a.example/x?code=hunter2#hunter2".parse().unwrap());
        assert_eq!(shown, "https://a.example/x");
    }
}
