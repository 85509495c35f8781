//! What is sent to a token endpoint, and what comes of it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::StatusCode;
use serde::Deserialize;
use url::form_urlencoded;

use super::{
    record::{Server, Token},
    web::Answered,
};
use crate::{manifest::ClientAuth, secret::Secret, surface::answer::bounded};

/// No token is longer.
const MAX_TOKEN: usize = 16 * 1024;
/// Characters of what a server says about a refusal.
const MAX_SAID: usize = 300;

/// Who asks.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) auth: ClientAuth,
    /// The secret or the key.
    pub(super) secret: Option<Secret>,
}

/// A request for a token.
#[derive(Default)]
pub(super) struct Ask {
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) authorization: Option<String>,
}

/// Why a server gives no token.
#[derive(Debug, thiserror::Error)]
#[error("the authorization server says `{code}`{said}")]
pub struct Refusal {
    /// As in RFC 6749 §5.2, or the HTTP status.
    pub(super) code: String,
    said: String,
}

impl Refusal {
    /// Tells whether what was shown counts no more, and will not.
    pub(super) fn is_spent(&self) -> bool {
        self.code == "invalid_grant"
    }

    /// Tells whether the server does not know the client (any more).
    pub(super) fn is_about_client(&self) -> bool {
        matches!(self.code.as_str(), "invalid_client" | "unauthorized_client")
    }
}

impl Ask {
    pub(super) fn new(grant: &str, resource: &str) -> Self {
        let fields = vec![("grant_type", grant.to_owned()), ("resource", resource.to_owned())];
        Self { fields, authorization: None }
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    pub(super) fn scopes(self, scopes: &[String]) -> Self {
        if scopes.is_empty() { self } else { self.with("scope", &scopes.join(" ")) }
    }

    /// Says who asks; `assertion` is what a client with a key signed.
    pub(super) fn by(mut self, client: &Client, assertion: Option<String>) -> Self {
        let secret = client.secret.as_ref().map(Secret::reveal).unwrap_or_default();
        match client.auth {
            ClientAuth::None => self.with("client_id", &client.id),
            ClientAuth::ClientSecretPost => self.with("client_id", &client.id).with("client_secret", secret),
            ClientAuth::ClientSecretBasic => {
                let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(&client.id), encoded(secret));
                self.authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(pair)));
                self
            }
            ClientAuth::PrivateKeyJwt => self
                .with("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
                .with("client_assertion", &assertion.unwrap_or_default()),
        }
    }

    /// Takes what was sent in confidence out of what was answered.
    pub(super) fn hide(&self, client: &Client, text: &str) -> String {
        let is_secret = |name: &str| ["client_assertion", "refresh_token", "code", "code_verifier"].contains(&name);
        let fields = self.fields.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.as_str());
        let shown = self.authorization.as_deref().and_then(|shown| shown.split(' ').nth(1));
        let sent = fields.chain(shown).map(Secret::new).chain(client.secret.clone());
        sent.fold(text.to_owned(), |text, secret| secret.hide(&text).into_owned())
    }
}

/// How a client with a secret says who it is, where its manifest does not say.
pub(super) fn fitting(server: &Server) -> ClientAuth {
    let takes = |method: &str| server.auth_methods.iter().any(|known| known == method);
    match takes("client_secret_post") && !takes("client_secret_basic") {
        true => ClientAuth::ClientSecretPost,
        false => ClientAuth::ClientSecretBasic,
    }
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
    token_type: String,
    /// A number; some write it as a text.
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
    error_description: Option<String>,
}

/// Reads what a token endpoint answered to who asked for `scopes` at `now`; `hide` takes what was sent out of what it says.
pub(super) fn given(answered: &Answered, scopes: &[String], now: i64, hide: impl Fn(&str) -> String) -> Result<Token, Refusal> {
    if !answered.status.is_success() {
        return Err(refused(answered, hide));
    }
    let odd = |said: &str| Refusal { code: "invalid_response".to_owned(), said: format!(": {said}") };
    let given: Given = serde_json::from_slice(&answered.body).map_err(|_| odd("its answer is no token"))?;
    if !given.token_type.eq_ignore_ascii_case("bearer") {
        return Err(odd("the token is no bearer token"));
    }
    let is_fine = |text: &String| (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_fine(&given.access_token) {
        return Err(odd("the token is too long, or cannot be sent"));
    }
    let seconds = given.expires_in.as_ref().and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
    Ok(Token {
        access: given.access_token,
        refresh: given.refresh_token.filter(|text| (1..=MAX_TOKEN).contains(&text.len())),
        given_at: now,
        expires_at: seconds.filter(|seconds| *seconds > 0).map(|seconds| now.saturating_add(seconds)),
        scopes: given.scope.map_or_else(|| scopes.to_vec(), |text| text.split_ascii_whitespace().map(str::to_owned).collect()),
    })
}

/// Reads a refusal, also one that is in no form that a standard knows. What is hidden is so before the text is cut: half a secret would
/// not be known for one.
pub(super) fn refused(answered: &Answered, hide: impl Fn(&str) -> String) -> Refusal {
    let plain = |text: &str| hide(text).chars().filter(|c| !c.is_control()).take(MAX_SAID).collect::<String>();
    match serde_json::from_slice::<Refused>(&answered.body) {
        Ok(refused) if answered.status != StatusCode::TOO_MANY_REQUESTS && !answered.status.is_server_error() => Refusal {
            code: bounded(&plain(&refused.error)),
            said: refused.error_description.map(|said| format!(": {}", plain(&said))).unwrap_or_default(),
        },
        _ => Refusal { code: format!("HTTP {}", answered.status.as_u16()), said: String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Answered {
        Answered { status: StatusCode::from_u16(status).unwrap(), body: body.as_bytes().to_vec() }
    }

    fn client(auth: ClientAuth) -> Client {
        Client { id: "my client".to_owned(), auth, secret: Some(Secret::new("s:ec+ret")) }
    }

    #[test]
    fn a_client_says_who_it_is_in_the_way_that_it_should_and_no_other() {
        let sent = |auth| {
            let Ask { fields, authorization } = Ask::default().by(&client(auth), Some("a.b.c".to_owned()));
            (fields.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(), authorization)
        };
        assert_eq!(sent(ClientAuth::None), (vec!["client_id=my client".to_owned()], None));
        let post = vec!["client_id=my client".to_owned(), "client_secret=s:ec+ret".to_owned()];
        assert_eq!(sent(ClientAuth::ClientSecretPost), (post, None));
        let pair = BASE64_STANDARD.encode("my+client:s%3Aec%2Bret");
        assert_eq!(sent(ClientAuth::ClientSecretBasic), (vec![], Some(format!("Basic {pair}"))));
        let (fields, header) = sent(ClientAuth::PrivateKeyJwt);
        assert!(fields.contains(&"client_assertion=a.b.c".to_owned()) && fields.len() == 2 && header.is_none());
    }

    #[test]
    fn a_token_is_good_for_what_it_says_or_for_what_was_asked() {
        let token = |body: &str| given(&answered(200, body), &["x".to_owned()], 100, str::to_owned);
        let full = token(r#"{"access_token":"t","token_type":"bearer","expires_in":"30","refresh_token":"r","scope":"a b"}"#)
            .ok()
            .unwrap();
        assert_eq!((full.access.as_str(), full.refresh.as_deref(), full.expires_at), ("t", Some("r"), Some(130)));
        assert_eq!(full.scopes, ["a", "b"]);
        let bare = token(r#"{"access_token":"t","token_type":"Bearer"}"#).ok().unwrap();
        assert_eq!((bare.refresh, bare.expires_at, bare.scopes), (None, None, vec!["x".to_owned()]));
        for odd in ["", "{}", r#"{"access_token":"t","token_type":"mac"}"#, r#"{"access_token":"a b","token_type":"bearer"}"#] {
            assert!(token(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_was_sent_is_in_no_error_though_the_server_says_it_back() {
        let client = client(ClientAuth::ClientSecretBasic);
        let sent = Ask::new("refresh_token", "r").with("refresh_token", "r3fresh").by(&client, None);
        let said = |text: &str| {
            let body = serde_json::json!({ "error": "invalid_grant", "error_description": text }).to_string();
            given(&answered(400, &body), &[], 0, |text| sent.hide(&client, text)).err().unwrap()
        };
        let refusal = said("no r3fresh of s:ec+ret\u{7}");
        assert!(refusal.is_spent() && !refusal.is_about_client());
        assert_eq!(refusal.to_string(), "the authorization server says `invalid_grant`: no [secret] of [secret]");
        let pair = BASE64_STANDARD.encode("my+client:s%3Aec%2Bret");
        assert!(!said(&format!("Basic {pair}?")).to_string().contains(&pair));
        let cut = said(&format!("{}r3fresh", "x".repeat(MAX_SAID - 3))).to_string();
        assert!(!cut.contains("r3f"), "half of a secret: {cut}");
    }

    #[test]
    fn a_server_that_is_not_well_does_not_spend_what_was_shown() {
        for (status, body) in [(503, r#"{"error":"invalid_grant"}"#), (429, "{}"), (400, "<html>")] {
            let refusal = refused(&answered(status, body), str::to_owned);
            assert_eq!((refusal.code.as_str(), refusal.is_spent()), (format!("HTTP {status}").as_str(), false));
        }
    }
}
