//! The question whether this client may act for a person, and what they answer.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use reqwest::Url;
use sha2::{Digest as _, Sha256};

use super::{
    record::{Consent, Server},
    web::{WebError, address},
};
use crate::{manifest::OauthSpec, surface::answer::bounded, vocab::Timestamp};

/// No code is longer.
const MAX_CODE: usize = 4_096;

/// Why what was answered is not taken. The question still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    #[error("nothing is asked, or it was answered already")]
    NotAsked,
    #[error("give the whole address that the browser was sent to, or the code alone: --value code='http://…?code=…&state=…'")]
    NoCode,
    #[error("the address is not of this question: its `state` is another; open the address that `singularity questions` shows now")]
    OtherState,
    #[error("the address comes from another authorization server, `{0}`, so its code is not sent anywhere")]
    OtherIssuer(String),
    #[error("the address does not say which authorization server it comes from, and this one always does")]
    NoIssuer,
    #[error("the authorization server refused: {0}")]
    Denied(String),
}

/// What of a question comes by chance: 32 bytes for its state, and 32 for its verifier.
pub(super) type Luck = ([u8; 32], [u8; 32]);

/// Makes the question.
pub(super) fn ask(
    server: &Server,
    (client_id, redirect): (&str, &str),
    scopes: &[String],
    (state, verifier): Luck,
    now: Timestamp,
) -> Result<Consent, WebError> {
    let [state, verifier] = [state, verifier].map(|luck| BASE64_URL_SAFE_NO_PAD.encode(luck));
    let endpoint = server.authorization_endpoint.as_deref().unwrap_or_default();
    let mut at = address(endpoint)?;
    if !OauthSpec::may_go_to(&at) {
        return Err(WebError::Insecure(bounded(endpoint)));
    }
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    at.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", client_id)
        .append_pair("redirect_uri", redirect)
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &server.resource);
    if !scopes.is_empty() {
        at.query_pairs_mut().append_pair("scope", &scopes.join(" "));
    }
    if scopes.iter().any(|scope| scope == super::discovery::OFFLINE) {
        at.query_pairs_mut().append_pair("prompt", "consent");
    }
    let (address, client_id, scopes) = (at.to_string(), client_id.to_owned(), scopes.to_vec());
    Ok(Consent { address, state, verifier, client_id, scopes, asked_at: now })
}

/// Reads the code out of an answer: the address that the browser was sent to, which has to belong to the question, or a bare code,
/// which PKCE holds to it.
pub(super) fn code(answer: &str, consent: &Consent, server: &Server) -> Result<String, BadAnswer> {
    let answer = answer.trim();
    let Some(query) = query(answer) else {
        let is_code = (1..=MAX_CODE).contains(&answer.len()) && answer.bytes().all(|byte| byte.is_ascii_graphic());
        return if is_code { Ok(answer.to_owned()) } else { Err(BadAnswer::NoCode) };
    };
    let field = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if field("state") != Some(&consent.state) {
        return Err(BadAnswer::OtherState);
    }
    match field("iss") {
        Some(issuer) if issuer != server.issuer => return Err(BadAnswer::OtherIssuer(bounded(issuer))),
        None if server.names_itself => return Err(BadAnswer::NoIssuer),
        _ => {}
    }
    if let Some(error) = field("error") {
        let said = field("error_description").map(|said| format!(" ({said})")).unwrap_or_default();
        return Err(BadAnswer::Denied(bounded(&format!("{error}{said}"))));
    }
    field("code").filter(|code| (1..=MAX_CODE).contains(&code.len())).map(str::to_owned).ok_or(BadAnswer::NoCode)
}

/// The fields of an address, or of its query alone.
fn query(answer: &str) -> Option<Vec<(String, String)>> {
    let url = match answer.starts_with("http://") || answer.starts_with("https://") {
        true => Url::parse(answer).ok()?,
        false if answer.contains("code=") || answer.contains("error=") => {
            Url::parse(&format!("http://x/?{}", answer.trim_start_matches('?'))).ok()?
        }
        false => return None,
    };
    Some(url.query_pairs().into_owned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(names_itself: bool) -> Server {
        Server {
            issuer: "https://as".to_owned(),
            authorization_endpoint: Some("https://as/authorize?tenant=1".to_owned()),
            token_endpoint: "https://as/token".to_owned(),
            registration_endpoint: None,
            resource: "https://far/mcp".to_owned(),
            scopes: vec![],
            has_offline: false,
            auth_methods: vec![],
            has_pkce: true,
            takes_metadata_documents: false,
            names_itself,
        }
    }

    fn question(scopes: &[&str]) -> Consent {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        ask(&server(false), ("me", "http://127.0.0.1:8976/callback"), &scopes, ([1; 32], [2; 32]), Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn the_address_asks_for_one_resource_with_a_challenge_and_not_its_verifier() {
        let Consent { address, state, verifier, .. } = question(&["a", "offline_access"]);
        let url: Url = address.parse().unwrap();
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!((value("tenant"), value("response_type"), value("client_id")), (Some("1"), Some("code"), Some("me")));
        assert_eq!((value("resource"), value("scope")), (Some("https://far/mcp"), Some("a offline_access")));
        assert_eq!((value("state"), value("prompt")), (Some(state.as_str()), Some("consent")));
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        assert_eq!(value("code_challenge"), Some(challenge.as_str()));
        assert!(!address.contains(&verifier) && verifier.len() == 43);
        assert!(!question(&[]).address.contains("scope="));
    }

    #[test]
    fn a_code_counts_only_with_the_state_and_the_issuer_of_its_question() {
        let consent = question(&[]);
        let state = &consent.state;
        let read = |answer: &str| code(answer, &consent, &server(false));
        let given = |query: &str| format!("http://127.0.0.1:8976/callback?{query}");
        assert_eq!(read(&given(&format!("code=a%2Bb&state={state}"))), Ok("a+b".to_owned()));
        assert_eq!(read(&format!(" ?code=x&state={state}\n")), Ok("x".to_owned()));
        assert_eq!(read("4/abc-def"), Ok("4/abc-def".to_owned()));
        assert_eq!(read(&given(&format!("code=x&iss=https%3A%2F%2Fas&state={state}"))), Ok("x".to_owned()));
        assert_eq!(read(&given("code=x&state=other")), Err(BadAnswer::OtherState));
        assert_eq!(read(&given("code=x")), Err(BadAnswer::OtherState));
        assert_eq!(
            read(&given(&format!("code=x&iss=https://b&state={state}"))),
            Err(BadAnswer::OtherIssuer("https://b".to_owned()))
        );
        let denied = given(&format!("error=access_denied&error_description=no&state={state}"));
        assert_eq!(read(&denied), Err(BadAnswer::Denied("access_denied (no)".to_owned())));
        for odd in ["", " ", "two words", given(&format!("state={state}")).as_str()] {
            assert_eq!(read(odd), Err(BadAnswer::NoCode), "{odd}");
        }
        let unnamed = given(&format!("code=x&state={state}"));
        assert_eq!(code(&unnamed, &consent, &server(true)), Err(BadAnswer::NoIssuer));
    }
}
