//! Who gives tokens for a surface: RFC 9728, RFC 8414, OpenID Connect, and what was before them.

use reqwest::Url;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    challenge::Challenge,
    record::Server,
    web::{Answered, Web, WebError, address},
};
use crate::{manifest::OauthSpec, surface::answer::bounded};

/// The scope by which some servers give refresh tokens.
pub(super) const OFFLINE: &str = "offline_access";

/// Why it is not known who gives tokens.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("`{at}` answers HTTP {status}; it is asked again")]
    Unwell { at: String, status: u16 },
    #[error("the surface says that it is `{says}`, which `{url}` is not, so no token is asked for")]
    OtherResource { says: String, url: String },
    #[error("the authorization server `{issuer}` tells nothing of itself; see that it has RFC 8414 metadata")]
    Silent { issuer: String },
    #[error("`{issuer}` tells of an authorization server that is called otherwise, `{says}`, so no token is asked for")]
    OtherIssuer { issuer: String, says: String },
}

/// What a surface says of itself.
#[derive(Debug, Default, Deserialize)]
struct ResourceMetadata {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// What an authorization server says of itself.
#[derive(Debug, Deserialize)]
struct ServerMetadata {
    issuer: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Finds out who gives tokens for the surface at `url`, which may be `called` otherwise.
pub(super) async fn discover(web: &Web, url: &Url, called: &Url, challenge: &Challenge) -> Result<Server, DiscoveryError> {
    let resource = resource(web, url, challenge).await?;
    if let Some(says) = resource.as_ref().and_then(|told| told.resource.as_ref())
        && !address(says).is_ok_and(|says| covers(&says, called))
    {
        return Err(DiscoveryError::OtherResource { says: bounded(says), url: called.to_string() });
    }
    let resource = resource.unwrap_or_default();
    let named = resource.authorization_servers.first();
    let issuer = named.map_or_else(|| Ok(root(url)), |issuer| address(issuer))?;
    let told = server(web, &issuer, named.map(String::as_str)).await?;
    let is_modern = named.is_some();
    let called = resource.resource.unwrap_or_else(|| called.to_string());
    match told {
        Some(told) => Ok(described(told, &issuer, called, resource.scopes_supported, is_modern)),
        None if is_modern => Err(DiscoveryError::Silent { issuer: issuer.to_string() }),
        None => Ok(undescribed(&issuer, called, resource.scopes_supported)),
    }
}

/// What the surface says of itself, where it says so.
async fn resource(web: &Web, url: &Url, challenge: &Challenge) -> Result<Option<ResourceMetadata>, DiscoveryError> {
    for at in resource_addresses(url, challenge) {
        if let Some(told) = document(&at, web.get(&at).await?)? {
            return Ok(Some(told));
        }
    }
    Ok(None)
}

/// What the authorization server says of itself. One that a surface named must be called so; one that stands where the surface does may
/// have any name.
async fn server(web: &Web, issuer: &Url, named: Option<&str>) -> Result<Option<ServerMetadata>, DiscoveryError> {
    for at in server_addresses(issuer) {
        let Some(told) = document::<ServerMetadata>(&at, web.get(&at).await?)? else { continue };
        let bare = |text: &str| text.trim_end_matches('/').to_owned();
        return match (named, &told.issuer) {
            (Some(named), Some(says)) if bare(named) != bare(says) => {
                Err(DiscoveryError::OtherIssuer { issuer: named.to_owned(), says: bounded(says) })
            }
            _ => Ok(Some(told)),
        };
    }
    Ok(None)
}

/// A document, where there is one. A server that is not well is no server without a document.
fn document<T: DeserializeOwned>(at: &Url, answered: Answered) -> Result<Option<T>, DiscoveryError> {
    let Answered { status, body } = answered;
    if status.is_server_error() || status.as_u16() == 429 {
        return Err(DiscoveryError::Unwell { at: at.to_string(), status: status.as_u16() });
    }
    Ok(status.is_success().then(|| serde_json::from_slice(&body).ok()).flatten())
}

fn described(told: ServerMetadata, issuer: &Url, resource: String, scopes: Vec<String>, is_modern: bool) -> Server {
    // Before there was metadata of resources, a server that did PKCE needed not say so.
    let has_pkce =
        told.code_challenge_methods_supported.map_or(!is_modern, |methods| methods.iter().any(|method| method == "S256"));
    Server {
        issuer: told.issuer.unwrap_or_else(|| issuer.to_string()),
        authorization_endpoint: told.authorization_endpoint,
        token_endpoint: told.token_endpoint,
        registration_endpoint: told.registration_endpoint,
        resource,
        scopes,
        has_offline: told.scopes_supported.iter().any(|scope| scope == OFFLINE),
        auth_methods: told.token_endpoint_auth_methods_supported,
        has_pkce,
        takes_metadata_documents: told.client_id_metadata_document_supported,
        names_itself: told.authorization_response_iss_parameter_supported,
    }
}

/// Where the endpoints are when nobody says (MCP 2025-03-26).
fn undescribed(issuer: &Url, resource: String, scopes: Vec<String>) -> Server {
    let at = |path: &str| with_path(issuer, path).to_string();
    Server {
        issuer: issuer.to_string(),
        authorization_endpoint: Some(at("/authorize")),
        token_endpoint: at("/token"),
        registration_endpoint: Some(at("/register")),
        resource,
        scopes,
        has_offline: false,
        auth_methods: vec!["none".to_owned()],
        has_pkce: true,
        takes_metadata_documents: false,
        names_itself: false,
    }
}

/// Where a surface may say who gives tokens for it: where its challenge says, else at the well-known places.
fn resource_addresses(url: &Url, challenge: &Challenge) -> Vec<Url> {
    let named = challenge.resource_metadata.as_deref().and_then(|text| url.join(text).ok()).filter(OauthSpec::may_go_to);
    let path = url.path().trim_end_matches('/');
    let mut at = Vec::from_iter(named);
    if !path.is_empty() {
        at.push(with_path(url, &format!("/.well-known/oauth-protected-resource{path}")));
    }
    at.push(with_path(url, "/.well-known/oauth-protected-resource"));
    at
}

/// Where an authorization server may say who it is (RFC 8414 §3.1, and both ways of OpenID Connect).
fn server_addresses(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut at = ["oauth-authorization-server", "openid-configuration"]
        .map(|what| with_path(issuer, &format!("/.well-known/{what}{path}")))
        .to_vec();
    if !path.is_empty() {
        at.push(with_path(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    at
}

/// Tells whether what a resource calls itself is `url`, or what that is a part of.
fn covers(resource: &Url, url: &Url) -> bool {
    let (whole, part) = (resource.path().trim_end_matches('/'), url.path());
    let is_below = part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == url.origin() && is_below
}

fn root(url: &Url) -> Url {
    with_path(url, "/")
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut at = url.clone();
    at.set_path(path);
    at.set_query(None);
    at.set_fragment(None);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn texts(addresses: &[Url]) -> Vec<&str> {
        addresses.iter().map(Url::as_str).collect()
    }

    #[test]
    fn a_surface_is_asked_where_its_challenge_says_and_at_the_well_known_places() {
        let challenge = |at: &str| Challenge { resource_metadata: Some(at.to_owned()), ..Challenge::default() };
        let known = ["https://a/.well-known/oauth-protected-resource/x/mcp", "https://a/.well-known/oauth-protected-resource"];
        let surface = url("https://a/x/mcp?q=1");
        assert_eq!(texts(&resource_addresses(&surface, &Challenge::default())), known);
        let named = resource_addresses(&surface, &challenge("https://b/meta"));
        assert_eq!(texts(&named), [&["https://b/meta"][..], &known].concat());
        assert_eq!(texts(&resource_addresses(&surface, &challenge("/meta")))[0], "https://a/meta");
        let in_the_clear = resource_addresses(&surface, &challenge("http://b/meta"));
        assert_eq!(texts(&in_the_clear), known);
        assert_eq!(texts(&resource_addresses(&url("https://a"), &Challenge::default())), [known[1]]);
    }

    #[test]
    fn a_server_below_a_path_is_asked_in_all_three_ways() {
        let plain = ["https://a/.well-known/oauth-authorization-server", "https://a/.well-known/openid-configuration"];
        assert_eq!(texts(&server_addresses(&url("https://a"))), plain);
        let below = [
            "https://a/.well-known/oauth-authorization-server/t/1",
            "https://a/.well-known/openid-configuration/t/1",
            "https://a/t/1/.well-known/openid-configuration",
        ];
        assert_eq!(texts(&server_addresses(&url("https://a/t/1/"))), below);
    }

    #[test]
    fn a_token_is_asked_for_nobody_but_the_surface() {
        let covers = |resource: &str, surface: &str| covers(&url(resource), &url(surface));
        assert!(
            covers("https://a/", "https://a/mcp") && covers("https://a", "https://a") && covers("https://a/mcp", "https://a/mcp")
        );
        assert!(covers("https://a/mcp/", "https://a/mcp") && covers("https://a/x", "https://a/x/y"));
        for other in ["https://b/mcp", "http://a/mcp", "https://a:8/mcp", "https://a/mc", "https://a/mcp/deeper"] {
            assert!(!covers(other, "https://a/mcp"), "{other}");
        }
    }
}
