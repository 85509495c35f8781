//! How a surface's tokens are had by OAuth.

use url::Url;

use super::{
    ClientAuth, Grant, OauthSpec,
    check::Cx,
    document::{ClientAuthName, GrantName, OauthDocument, SurfaceDocument},
    problem::quoted,
};

/// Nothing needs to listen there: the operator copies the address that the browser was sent to.
const REDIRECT: &str = "http://127.0.0.1:8976/callback";

/// Resolves what a surface with a URL says of OAuth.
pub(super) fn resolve(surface: &SurfaceDocument, cx: &mut Cx<'_>) -> Option<OauthSpec> {
    let document = surface.oauth.as_ref()?;
    if surface.bearer.is_some() {
        let message = "`oauth` and `bearer` are both there, but one request shows one token; keep one of them";
        cx.fault(&["oauth"], message, None);
    }
    let is_open = surface.url.as_ref().and_then(|url| Url::parse(&url.0).ok()).is_some_and(|url| !OauthSpec::may_go_to(&url));
    if is_open {
        let message = "`url` is neither https nor on this machine, so no token is sent there";
        cx.fault(&["url"], message, Some("write https://…".into()));
    }
    let grant = match document.grant {
        Some(GrantName::ClientCredentials) => Grant::ClientCredentials,
        Some(GrantName::AuthorizationCode) | None => Grant::AuthorizationCode,
    };
    let spec = OauthSpec {
        grant,
        client_id: document.client_id.clone(),
        client_secret: cx.secret_at(&["oauth", "client_secret"], document.client_secret.as_ref()),
        private_key: cx.secret_at(&["oauth", "private_key"], document.private_key.as_ref()),
        auth: document.auth.map(auth),
        client_metadata: document.client_metadata.as_ref().map(|url| url.0.clone()),
        scopes: document.scopes.clone(),
        resource: document.resource.as_ref().map(|url| url.0.clone()),
        redirect: document.redirect.as_ref().map_or_else(|| REDIRECT.to_owned(), |url| url.0.clone()),
    };
    credentials(document, &spec, cx);
    scopes(&spec, cx);
    if spec.client_metadata.as_ref().is_some_and(|url| !url.starts_with("https://")) {
        cx.fault(&["oauth", "client_metadata"], "`oauth.client_metadata` must begin with `https://`", None);
    }
    Some(spec)
}

/// What a client shows must be there, and be one thing.
fn credentials(document: &OauthDocument, spec: &OauthSpec, cx: &mut Cx<'_>) {
    let (has_secret, has_key) = (document.client_secret.is_some(), document.private_key.is_some());
    if has_secret && has_key {
        cx.fault(&["oauth", "private_key"], "`oauth` has both `client_secret` and `private_key`; keep one of them", None);
    }
    if spec.client_id.is_none() && (has_secret || has_key || spec.grant == Grant::ClientCredentials) {
        cx.missing(&["oauth", "client_id"], "write oauth = { client_id = \"…\" }, as the authorization server knows this client");
    }
    if spec.grant == Grant::ClientCredentials && !has_secret && !has_key && !cx.was_there(&["oauth", "client_secret"]) {
        let hint = "write client_secret = { file = \"…\" } or private_key = { file = \"…\" }";
        cx.missing(&["oauth", "client_secret"], hint);
    }
    let wanted = match spec.auth {
        Some(ClientAuth::ClientSecretBasic | ClientAuth::ClientSecretPost) if !has_secret => "client_secret",
        Some(ClientAuth::PrivateKeyJwt) if !has_key => "private_key",
        _ => return,
    };
    let message = format!("`oauth.auth` needs `{wanted}`, which is not there");
    cx.fault(&["oauth", "auth"], message, Some(format!("write {wanted} = {{ file = \"…\" }}, or take `auth` out")));
}

/// Scopes are parted by spaces when they are sent.
fn scopes(spec: &OauthSpec, cx: &mut Cx<'_>) {
    for (at, scope) in spec.scopes.iter().flatten().enumerate() {
        if !scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\') {
            let message = format!("{} is not one scope", quoted(scope));
            cx.fault(&["oauth", "scopes", &at.to_string()], message, Some("write scopes = [\"one\", \"two\"]".into()));
        }
    }
}

const fn auth(name: ClientAuthName) -> ClientAuth {
    match name {
        ClientAuthName::ClientSecretBasic => ClientAuth::ClientSecretBasic,
        ClientAuthName::ClientSecretPost => ClientAuth::ClientSecretPost,
        ClientAuthName::PrivateKeyJwt => ClientAuth::PrivateKeyJwt,
        ClientAuthName::None => ClientAuth::None,
    }
}
