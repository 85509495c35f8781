//! One way to the authorization server, made by whoever has the turn.

use rand::random;
use serde::Deserialize;
use serde_json::json;

use super::{
    challenge::Challenge,
    consent::{self, BadAnswer},
    discovery::{OFFLINE, discover},
    grant::{self, Ask, Client},
    jwt,
    keyring::{Keyring, OauthError, Why, now},
    record::{Record, Registered, Server, Token},
    web::{Web, address},
};
use crate::{
    manifest::{ClientAuth, Grant, OauthSpec},
    secret::Secret,
};

/// What the client calls itself where it is registered.
const NAME: &str = "singularity";

/// What is known, and may be changed.
pub(super) struct Errand<'k> {
    keyring: &'k Keyring,
    web: Web,
    record: Record,
}

impl<'k> Errand<'k> {
    pub(super) fn new(keyring: &'k Keyring, web: Web, record: Record) -> Self {
        Self { keyring, web, record }
    }

    /// Gets another token than the one that is kept.
    pub(super) async fn renew(mut self, why: Why<'_>) -> Result<String, OauthError> {
        if !matches!(why, Why::Narrow(_)) {
            if self.record.token.is_none() && self.record.consent.is_some() {
                return Err(self.unconsented());
            }
            if let Some(token) = self.refreshed().await? {
                return self.take(token).await;
            }
        }
        let none = Challenge::default();
        let challenge = match why {
            Why::Due => &none,
            Why::Refused(challenge) | Why::Narrow(challenge) => challenge,
        };
        let server = self.server(why, challenge).await?;
        let scopes = self.scopes(&server, why)?;
        match self.spec().grant {
            Grant::ClientCredentials => {
                let client = self.client(&server).await?;
                let ask = Ask::new("client_credentials", &server.resource).scopes(&scopes);
                let token = self.request(&server, ask, &client, &scopes).await.map_err(OauthError::from_request)?;
                self.take(token).await
            }
            Grant::AuthorizationCode => {
                self.ask(&server, &scopes, matches!(why, Why::Narrow(_))).await?;
                Err(self.unconsented())
            }
        }
    }

    /// Takes a person's answer.
    pub(super) async fn answer(mut self, text: &str) -> Result<(), OauthError> {
        let (Some(consent), Some(server)) = (self.record.consent.clone(), self.record.server.clone()) else {
            return Err(BadAnswer::NotAsked.into());
        };
        let code = consent::code(text, &consent, &server)?;
        let client = self.client(&server).await?;
        if client.id != consent.client_id {
            self.ask(&server, &consent.scopes, true).await?;
            return Err(BadAnswer::OtherState.into());
        }
        let ask = Ask::new("authorization_code", &server.resource)
            .with("code", &code)
            .with("redirect_uri", &self.spec().redirect)
            .with("code_verifier", &consent.verifier);
        match self.request(&server, ask, &client, &consent.scopes).await {
            Ok(token) => {
                self.record.consent = None;
                self.take(token).await.map(drop)
            }
            Err(Unasked::Refused(refusal)) => {
                if refusal.is_about_client() {
                    self.record.client = None;
                }
                self.record.consent = None;
                self.ask(&server, &consent.scopes, true).await?;
                Err(OauthError::CodeRefused(refusal))
            }
            Err(Unasked::Other(error)) => Err(error),
        }
    }

    fn spec(&self) -> &'k OauthSpec {
        &self.keyring.spec
    }

    fn unconsented(&self) -> OauthError {
        OauthError::Unconsented(self.keyring.surface().to_owned())
    }

    /// Keeps a token, and yields what to show.
    async fn take(&mut self, token: Token) -> Result<String, OauthError> {
        let access = token.access.clone();
        self.record.token = Some(token);
        self.keyring.keep(&self.record).await?;
        tracing::info!(surface = self.keyring.surface(), "a new token was given");
        Ok(access)
    }

    /// A token for the refresh token; `None` when there is none that counts.
    async fn refreshed(&mut self) -> Result<Option<Token>, OauthError> {
        let (Some(old), Some(server)) = (self.record.token.clone(), self.record.server.clone()) else { return Ok(None) };
        let Some(refresh) = old.refresh.clone() else { return Ok(None) };
        let client = self.client(&server).await?;
        let ask = Ask::new("refresh_token", &server.resource).with("refresh_token", &refresh);
        match self.request(&server, ask, &client, &old.scopes).await {
            Ok(token) => Ok(Some(Token { refresh: token.refresh.clone().or(Some(refresh)), ..token })),
            Err(Unasked::Refused(refusal)) if refusal.is_spent() || refusal.is_about_client() => {
                tracing::warn!(surface = self.keyring.surface(), "the refresh token counts no more: {refusal}");
                if refusal.is_about_client() {
                    self.record.client = None;
                }
                self.record.token = None;
                self.keyring.keep(&self.record).await?;
                Ok(None)
            }
            Err(error) => Err(OauthError::from_request(error)),
        }
    }

    /// Who gives tokens; found out anew when the surface refuses what that one gave.
    async fn server(&mut self, why: Why<'_>, challenge: &Challenge) -> Result<Server, OauthError> {
        if let (Some(server), Why::Due | Why::Narrow(_)) = (&self.record.server, why) {
            return Ok(server.clone());
        }
        let url = self.keyring.url()?;
        let called = self.spec().resource.as_deref().map_or_else(|| Ok(url.clone()), address)?;
        let mut server = discover(&self.web, &url, &called, challenge).await?;
        if let Some(resource) = &self.spec().resource {
            server.resource.clone_from(resource);
        }
        let is_other = self.record.server.as_ref().is_some_and(|known| known.issuer != server.issuer);
        if is_other {
            // What one server gave is never shown to another.
            (self.record.client, self.record.token, self.record.consent) = (None, None, None);
        }
        self.record.server = Some(server.clone());
        Ok(server)
    }

    /// What to ask for. What the manifest names is the limit.
    fn scopes(&self, server: &Server, why: Why<'_>) -> Result<Vec<String>, OauthError> {
        let had = || self.record.token.as_ref().map(|token| token.scopes.clone()).unwrap_or_default();
        let mut scopes = match (why, &self.spec().scopes) {
            (Why::Narrow(challenge), declared) => {
                let wants = || challenge.scopes.join(" ");
                let is_missing = |scope: &&String, among: &[String]| !among.contains(scope);
                if let Some(declared) = declared
                    && challenge.scopes.iter().any(|scope| is_missing(&scope, declared))
                {
                    return Err(OauthError::Unscoped { wants: wants() });
                }
                let mut scopes = had();
                let new: Vec<String> = challenge.scopes.iter().filter(|scope| is_missing(scope, &scopes)).cloned().collect();
                if new.is_empty() {
                    return Err(OauthError::Insatiable { wants: wants() });
                }
                scopes.extend(new);
                scopes
            }
            (_, Some(declared)) => declared.clone(),
            (Why::Refused(challenge), None) if !challenge.scopes.is_empty() => challenge.scopes.clone(),
            (Why::Due, None) if !had().is_empty() => had(),
            (_, None) => server.scopes.clone(),
        };
        let wants_refresh = self.spec().grant == Grant::AuthorizationCode && server.has_offline && self.spec().scopes.is_none();
        if wants_refresh && !scopes.is_empty() && !scopes.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        Ok(scopes)
    }

    /// Keeps a question to a person; one that asks for the same goes on waiting.
    async fn ask(&mut self, server: &Server, scopes: &[String], keeps_token: bool) -> Result<(), OauthError> {
        if !server.has_pkce {
            return Err(OauthError::NoPkce(server.issuer.clone()));
        }
        if server.authorization_endpoint.is_none() {
            return Err(OauthError::NoConsent(server.issuer.clone()));
        }
        if !keeps_token {
            self.record.token = None;
        }
        let client = self.client(server).await?;
        let is_asked = self.record.consent.as_ref().is_some_and(|asked| asked.scopes == scopes && asked.client_id == client.id);
        if !is_asked {
            let by = (client.id.as_str(), self.spec().redirect.as_str());
            self.record.consent = Some(consent::ask(server, by, scopes, (random(), random()), now())?);
        }
        self.keyring.keep(&self.record).await?;
        Ok(())
    }

    /// Who asks: the client of the manifest, a metadata document, or one that is registered, now if it must be.
    async fn client(&mut self, server: &Server) -> Result<Client, OauthError> {
        let spec = self.spec();
        if let Some(id) = spec.client_id.clone() {
            let source = spec.private_key.as_ref().or(spec.client_secret.as_ref());
            let secret = source.map(|source| self.keyring.credential(source)).transpose()?;
            let auth = match (spec.auth, &spec.private_key, &secret) {
                (Some(auth), _, _) => auth,
                (None, Some(_), _) => ClientAuth::PrivateKeyJwt,
                (None, None, Some(_)) => grant::fitting(server),
                (None, None, None) => ClientAuth::None,
            };
            return Ok(Client { id, auth, secret });
        }
        if let Some(document) = spec.client_metadata.clone().filter(|_| server.takes_metadata_documents) {
            return Ok(Client { id: document, auth: ClientAuth::None, secret: None });
        }
        let now = now().as_second();
        let known = self.record.client.clone().filter(|client| client.expires_at.is_none_or(|until| now < until));
        let client = match known {
            Some(client) => client,
            None => self.register(server).await?,
        };
        let secret = client.secret.as_deref().map(Secret::new);
        Ok(Client { id: client.id, auth: client.auth, secret })
    }

    async fn register(&mut self, server: &Server) -> Result<Registered, OauthError> {
        let Some(endpoint) = &server.registration_endpoint else {
            return Err(OauthError::NoRegistration(server.issuer.clone()));
        };
        let auth = registered_as(server);
        let asked = json!({
            "client_name": NAME,
            "redirect_uris": [self.spec().redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": auth,
        });
        let answered = self.web.post_json(&address(endpoint)?, &asked).await?;
        let told = serde_json::from_slice::<Registration>(&answered.body).ok().filter(|_| answered.status.is_success());
        let Some(told) = told else { return Err(OauthError::Unregistered(grant::refused(&answered, str::to_owned))) };
        let secret = told.client_secret.filter(|secret| !secret.is_empty());
        let auth = if secret.is_some() { told.token_endpoint_auth_method.unwrap_or(auth) } else { ClientAuth::None };
        let expires_at = told.client_secret_expires_at.filter(|until| *until > 0);
        let client = Registered { id: told.client_id, secret, auth, expires_at };
        tracing::info!(surface = self.keyring.surface(), issuer = server.issuer, "the client was registered");
        self.record.client = Some(client.clone());
        self.keyring.keep(&self.record).await?;
        Ok(client)
    }

    /// Asks for a token.
    async fn request(&self, server: &Server, ask: Ask, client: &Client, scopes: &[String]) -> Result<Token, Unasked> {
        let asked = async {
            let assertion = match (client.auth, &client.secret) {
                (ClientAuth::PrivateKeyJwt, Some(key)) => {
                    let nonce = format!("{:032x}", random::<u128>());
                    Some(jwt::assertion(key, &client.id, &server.issuer, &nonce, now().as_second())?)
                }
                _ => None,
            };
            let ask = ask.by(client, assertion);
            let at = address(&server.token_endpoint)?;
            let answered = self.web.post_form(&at, &ask.fields, ask.authorization.as_deref()).await?;
            Ok::<_, OauthError>((ask, answered))
        };
        let (ask, answered) = asked.await.map_err(Unasked::Other)?;
        grant::given(&answered, scopes, now().as_second(), |text| ask.hide(client, text)).map_err(Unasked::Refused)
    }
}

/// Why a token endpoint gave nothing.
enum Unasked {
    Refused(grant::Refusal),
    Other(OauthError),
}

impl OauthError {
    fn from_request(error: Unasked) -> Self {
        match error {
            Unasked::Refused(refusal) => Self::Refused(refusal),
            Unasked::Other(error) => error,
        }
    }
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<i64>,
    token_endpoint_auth_method: Option<ClientAuth>,
}

/// How a client asks to be registered: with a secret where that is taken.
fn registered_as(server: &Server) -> ClientAuth {
    let takes = |method: &str| server.auth_methods.iter().any(|known| known == method);
    match () {
        () if server.auth_methods.is_empty() || takes("client_secret_basic") => ClientAuth::ClientSecretBasic,
        () if takes("client_secret_post") => ClientAuth::ClientSecretPost,
        () => ClientAuth::None,
    }
}
