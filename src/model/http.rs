use std::{
    borrow::Cow,
    error::Error,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect,
};

use super::{ModelError, pool::Clock, wire};
use crate::{
    being::Price,
    secret::Secrets,
    vocab::{Span, Timestamp},
};

/// How large an answer may be: a written file of 2 MiB with its escapes fits.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// How much of a refusal is read.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
/// The longest wait that a server may ask for.
const MAX_RETRY_AFTER: Span = Span::from_secs(3_600);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP clients of the process, made when they are first needed.
#[derive(Clone, Default)]
pub(super) struct Http {
    /// Goes past every proxy, for addresses of this machine.
    loopback: Arc<OnceLock<Result<Client, String>>>,
    outward: Arc<OnceLock<Result<Client, String>>>,
}

/// One request.
pub(super) struct Post {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// What is taken out of anything that the server writes back.
    pub(super) secrets: Secrets,
    /// What tokens cost that a refusal counts all the same.
    pub(super) price: Price,
}

impl Http {
    /// Sends one request, once, and reads a successful answer whole. Cancel safe: dropping it closes the connection.
    pub(super) async fn send(&self, post: Post, clock: &Clock) -> Result<Vec<u8>, ModelError> {
        let Post { method, url, headers, body, secrets, price } = post;
        let client = self.client(&url)?;
        let shown = shown(&url);
        let lost = |error: &reqwest::Error| lost(&shown, error);
        let request = client.request(method, url).headers(headers);
        let request = if body.is_empty() { request } else { request.header(CONTENT_TYPE, "application/json").body(body) };
        let response = request.send().await.map_err(|error| lost(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(hidden(whole(response, &lost).await?, &secrets));
        }
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, clock()));
        // Hidden before anything is cut, so that no half of a secret is left.
        let said = secrets.hide(&String::from_utf8_lossy(&beginning(response).await)).into_owned().into_bytes();
        let counted = serde_json::from_slice(&said).ok().and_then(|said| wire::counted(&said));
        Err(refused(status, wait, &said).charging(counted, price))
    }

    fn client(&self, url: &Url) -> Result<&Client, ModelError> {
        let cell = if is_loopback(url) { &self.loopback } else { &self.outward };
        let client = cell.get_or_init(|| build(is_loopback(url)).map_err(|error| deepest(&error)));
        client.as_ref().map_err(|error| ModelError::permanent(format!("cannot set up the HTTP client: {error}")))
    }
}

fn build(loopback: bool) -> Result<Client, reqwest::Error> {
    // Someone else may have installed a provider already; either serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder =
        Client::builder().redirect(redirect::Policy::none()).retry(reqwest::retry::never()).connect_timeout(CONNECT_TIMEOUT);
    if loopback { builder.no_proxy().build() } else { builder.build() }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Joins a base URL, with or without a slash at its end, and a path.
pub(super) fn join(base: &str, path: &str) -> Result<Url, ModelError> {
    let url = Url::parse(&format!("{}/{path}", base.trim_end_matches('/')));
    let invalid = |why: &str| ModelError::permanent(format!("invalid endpoint: {why}"));
    let url = url.map_err(|error| invalid(&error.to_string()))?;
    if matches!(url.scheme(), "http" | "https") { Ok(url) } else { Err(invalid("the URL must use http or https")) }
}

/// A header that is kept out of logs.
pub(super) fn sensitive(value: &str) -> Result<HeaderValue, ModelError> {
    let header = HeaderValue::from_str(value);
    let mut header = header.map_err(|_| ModelError::permanent("a credential has characters that no header may have"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// A URL without whatever credentials it may hold.
fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn lost(url: &str, error: &reqwest::Error) -> ModelError {
    let message = format!("error sending request for url ({url}): {}", deepest(error));
    if error.is_builder() { ModelError::permanent(message) } else { ModelError::transient(message, None) }
}

fn deepest(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

async fn whole(mut response: Response, lost: &impl Fn(&reqwest::Error) -> ModelError) -> Result<Vec<u8>, ModelError> {
    let too_large = || ModelError::permanent(format!("answer is larger than {MAX_ANSWER_BYTES} bytes"));
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error))? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// An answer without the secrets that its server may say back: what a model says is kept, and shown to models.
fn hidden(answer: Vec<u8>, secrets: &Secrets) -> Vec<u8> {
    match std::str::from_utf8(&answer).map(|text| secrets.hide(text)) {
        Ok(Cow::Owned(hidden)) => hidden.into_bytes(),
        _ => answer,
    }
}

/// What can be had of a refusal; that its end is lost changes nothing.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend(chunk.iter().take(MAX_REFUSAL_BYTES - bytes.len()));
        if bytes.len() == MAX_REFUSAL_BYTES {
            break;
        }
    }
    bytes
}

fn refused(status: StatusCode, wait: Option<Span>, said: &[u8]) -> ModelError {
    let told = wire::refusal(status.as_u16(), said);
    // A gateway knows better than its status whether asking again can help.
    let is_passing = wire::retryable(said).unwrap_or(status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error());
    if wire::is_too_long(status.as_u16(), said) {
        return ModelError::too_long(told);
    }
    if is_passing { ModelError::transient(told, wait) } else { ModelError::permanent(told) }
}

/// Reads `Retry-After`: seconds or an HTTP date.
fn retry_after(value: &str, now: Timestamp) -> Option<Span> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Span::from_secs(seconds),
        Err(_) if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => MAX_RETRY_AFTER,
        Err(_) => {
            let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
            let at = parser.parse_timestamp(value).ok()?;
            Span::from(Duration::try_from(at.duration_since(now)).unwrap_or_default())
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_when_to_come_again_in_seconds_or_by_date() {
        let now: Timestamp = "1994-11-06T08:49:30Z".parse().unwrap();
        for (value, wait) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("Mon, 07 Nov 1994 08:49:07 GMT", Some(3_600)),
            ("99999999999999999999999", Some(3_600)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), wait.map(Span::from_secs), "{value}");
        }
    }

    #[test]
    fn a_base_url_keeps_its_last_segment_and_shows_no_credentials() {
        let url = |base| join(base, "chat/completions").map(|url| shown(&url)).map_err(|error| error.to_string());
        for base in ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/", "http://me:pass@127.0.0.1:8000/v1"] {
            assert_eq!(url(base), Ok("http://127.0.0.1:8000/v1/chat/completions".into()));
        }
        assert_eq!(url("ftp://x"), Err("brama: invalid endpoint: the URL must use http or https".into()));
        assert!(url("nonsense").is_err_and(|told| told.starts_with("brama: invalid endpoint: ")));
    }

    #[test]
    fn only_addresses_of_this_machine_go_past_the_proxies() {
        for (url, expected) in [
            ("http://127.0.0.1:1/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:1/", true),
            ("http://localhost/", true),
            ("http://10.0.0.1/", false),
            ("http://localhost.example/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
