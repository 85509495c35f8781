use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use notify::{RecursiveMode, Watcher as _};
use reqwest::Url;
use tokio::sync::{Mutex, mpsc, watch};

use super::{
    challenge::Challenge,
    consent::BadAnswer,
    discovery::DiscoveryError,
    errand::Errand,
    grant::Refusal,
    jwt::SignError,
    record::Record,
    web::{Web, WebError, address},
};
use crate::{
    manifest::{OauthSpec, SecretSource, SurfaceSpec, TransportSpec},
    secret::{self, Kept, Secret, SecretError, Turn},
    vocab::{Digest, Name, Timestamp, chain},
};

/// How long, in seconds, a token that is still good is used after it could not be renewed, before that is tried again.
const PAUSE: i64 = 10;

/// The tokens of one surface: had, kept, renewed and shown. All keyrings of a home that are for one surface share what is kept.
pub struct Keyring {
    surface: String,
    url: String,
    pub(super) spec: OauthSpec,
    kept: Kept,
    /// Where secrets may be, beside files.
    env: BTreeMap<String, String>,
    /// What is kept counts for this alone.
    bound: String,
    /// One at a time; among processes it is the file's turn.
    turn: Mutex<()>,
    /// Why the surface cannot be reached, as long as it cannot.
    trouble: watch::Sender<Option<String>>,
    /// When a good token may be tried to be renewed again, in seconds of the epoch.
    next: AtomicI64,
}

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What they open.
    pub address: String,
    pub scopes: Vec<String>,
    pub asked_at: Timestamp,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum OauthError {
    #[error(
        "surface `{0}` waits for your consent: `singularity questions` shows the address to open, and \
         `singularity answer surface/{0} --value code=ADDRESS` takes the address that the browser is sent to then"
    )]
    Unconsented(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Web(#[from] WebError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error(transparent)]
    Answer(#[from] BadAnswer),
    #[error("no token is given; see `oauth` of the surface")]
    Refused(#[source] Refusal),
    #[error("the code is not taken, so the question is asked anew; `singularity questions` shows the new address")]
    CodeRefused(#[source] Refusal),
    #[error("the client cannot be registered; register one by hand, and give its `client_id` in `oauth`")]
    Unregistered(#[source] Refusal),
    #[error("`{0}` registers no clients; register one by hand, and give its `client_id` in `oauth`")]
    NoRegistration(String),
    #[error("`{0}` does not say that it does PKCE (S256), so no person is sent there")]
    NoPkce(String),
    #[error("`{0}` asks no person for consent; write grant = \"client_credentials\"")]
    NoConsent(String),
    #[error("it wants the scopes {wants}, and `oauth.scopes` does not name them; add them there, or do without")]
    Unscoped { wants: String },
    #[error("it wants the scopes {wants}, which were given already; nothing more can be asked for")]
    Insatiable { wants: String },
    #[error("it refuses a token that was just given for it; see that `oauth.resource` and `oauth.scopes` are what it wants")]
    StillRefused,
}

/// Why another token is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why<'c> {
    /// It expires soon.
    Due,
    /// The surface refused the one that it was shown, or wants to be shown one.
    Refused(&'c Challenge),
    /// It is good for too little.
    Narrow(&'c Challenge),
}

impl Keyring {
    /// Forgets the tokens of a surface that has no use for them any more, and what else was had for it.
    pub fn forget(name: &Name, folder: &Path) -> Result<(), SecretError> {
        kept(name.as_str(), folder).remove()
    }

    /// The keyring of a surface, whose tokens are kept in `folder`.
    pub fn new(surface: &str, url: &str, spec: OauthSpec, folder: &Path, env: BTreeMap<String, String>) -> Self {
        let OauthSpec { grant, client_id, client_metadata, scopes, resource, redirect, .. } = &spec;
        let bound = serde_json::to_vec(&(url, grant, client_id, client_metadata, scopes, resource, redirect)).unwrap_or_default();
        Self {
            surface: surface.to_owned(),
            url: url.to_owned(),
            kept: kept(surface, folder),
            env,
            bound: Digest::of(bound).to_string(),
            turn: Mutex::default(),
            trouble: watch::channel(None).0,
            next: AtomicI64::new(i64::MIN),
            spec,
        }
    }

    /// Tells whether a declared surface has a use for tokens.
    pub const fn is_for(spec: &SurfaceSpec) -> bool {
        matches!(&spec.transport, TransportSpec::Url { oauth: Some(_), .. })
    }

    /// The keyring of a declared surface; `None` where that has no use for one.
    pub fn of(name: &Name, spec: &SurfaceSpec, folder: &Path, env: BTreeMap<String, String>) -> Option<Self> {
        match &spec.transport {
            TransportSpec::Url { url, oauth: Some(oauth), .. } => {
                Some(Self::new(name.as_str(), url, OauthSpec::clone(oauth), folder, env))
            }
            _ => None,
        }
    }

    /// The question that waits for a person.
    pub fn wanted(&self) -> Result<Option<Wanted>, OauthError> {
        let consent = self.record()?.consent;
        Ok(consent.map(|consent| Wanted { address: consent.address, scopes: consent.scopes, asked_at: consent.asked_at }))
    }

    /// Takes what a person answered, and gets the first token with it.
    pub async fn answer(&self, text: &str) -> Result<(), OauthError> {
        let (_here, _turn) = (self.turn.lock().await, self.take_turn().await?);
        Errand::new(self, Web::new()?, self.record()?).answer(text).await
    }

    /// The token as it is now, which a surface may say back.
    pub fn secret(&self) -> Option<Secret> {
        self.record().ok()?.token.map(|token| Secret::new(token.access))
    }

    /// The token to show; `None` when none was had yet. One that expires soon is renewed first.
    pub(super) async fn token(&self) -> Result<Option<String>, OauthError> {
        let Some(token) = self.record()?.token else { return Ok(None) };
        let now = now();
        let is_good = !token.is_over(now.as_second());
        if !token.is_due(now.as_second()) || (is_good && now.as_second() < self.next.load(Ordering::Relaxed)) {
            return Ok(Some(token.access));
        }
        match self.renew(Some(&token.access), Why::Due).await {
            Err(error) if is_good => {
                self.next.store(now.as_second().saturating_add(PAUSE), Ordering::Relaxed);
                tracing::warn!(surface = self.surface, "the token expires soon and cannot be renewed now: {}", chain(&error));
                Ok(Some(token.access))
            }
            renewed => renewed.map(Some),
        }
    }

    /// Gets another token than the one that was shown, unless somebody did meanwhile.
    pub(super) async fn renew(&self, shown: Option<&str>, why: Why<'_>) -> Result<String, OauthError> {
        let (_here, _turn) = (self.turn.lock().await, self.take_turn().await?);
        let record = self.record()?;
        match &record.token {
            Some(token) if Some(token.access.as_str()) != shown => Ok(token.access.clone()),
            _ => Box::pin(Errand::new(self, Web::new()?, record).renew(why)).await,
        }
    }

    /// Notes that the surface cannot be reached for want of a token, which ends its session; yields the reason.
    pub(super) fn despair(&self, error: &OauthError) -> String {
        let because = chain(error);
        self.trouble.send_replace(Some(because.clone()));
        because
    }

    /// Another attempt begins.
    pub(in crate::surface) fn hope(&self) {
        self.trouble.send_replace(None);
    }

    /// Why the surface cannot be reached, where that is for want of a token.
    pub(in crate::surface) fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// Waits until the surface cannot be reached for want of a token. Cancel safe.
    pub(in crate::surface) async fn lost(&self) -> String {
        let mut trouble = self.trouble.subscribe();
        let lost = trouble.wait_for(Option::is_some).await;
        lost.map(|lost| lost.clone().unwrap_or_default()).unwrap_or_default()
    }

    /// Waits until a person has answered; for ever when none is asked. Cancel safe.
    pub(in crate::surface) async fn answered(&self) {
        let (tell, mut told) = mpsc::channel(1);
        let path = self.kept.path().to_owned();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access() && event.paths.contains(&path)) {
                let _full_holds_it_already = tell.try_send(());
            }
        });
        let folder = self.kept.path().parent().unwrap_or(Path::new("."));
        let watching = watcher.and_then(|mut watcher| watcher.watch(folder, RecursiveMode::NonRecursive).map(|()| watcher));
        if !self.is_asking() || watching.is_err() {
            std::future::pending::<()>().await;
        }
        while self.is_asking() {
            told.recv().await;
        }
    }

    /// Takes the token out of a text that the surface may have written.
    pub(in crate::surface) fn hide(&self, text: &str) -> String {
        self.secret().map_or_else(|| text.to_owned(), |token| token.hide(text).into_owned())
    }

    fn is_asking(&self) -> bool {
        self.record().is_ok_and(|record| record.consent.is_some() && record.token.is_none())
    }

    pub(super) fn surface(&self) -> &str {
        &self.surface
    }

    pub(super) fn url(&self) -> Result<Url, WebError> {
        address(&self.url)
    }

    /// A secret of the client, read anew.
    pub(super) fn credential(&self, source: &SecretSource) -> Result<Secret, SecretError> {
        secret::read(source, &|name| self.env.get(name).cloned())
    }

    /// Keeps a record, durably. Only with the turn.
    pub(super) async fn keep(&self, record: &Record) -> Result<(), SecretError> {
        let (kept, text) = (self.kept.clone(), record.to_text());
        blocking(move || kept.write(&text)).await
    }

    fn record(&self) -> Result<Record, SecretError> {
        let kept = self.kept.read()?;
        Ok(kept.map_or_else(|| Record::new(&self.bound), |kept| Record::read(kept.reveal(), &self.bound)))
    }

    async fn take_turn(&self) -> Result<Turn, SecretError> {
        let kept = self.kept.clone();
        blocking(move || kept.turn()).await
    }
}

fn kept(surface: &str, folder: &Path) -> Kept {
    Kept::new(folder, &format!("{surface}.json"))
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("surface", &self.surface).finish_non_exhaustive()
    }
}

/// A keyring that sessions and callers share.
pub(in crate::surface) type Shared = Arc<Keyring>;

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, SecretError> + Send + 'static) -> Result<T, SecretError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(SecretError::Unkeepable { path: Path::new("oauth").to_owned(), source: std::io::Error::other(error) })
    })
}

/// The instant that it is: a token outlives processes, so only the wall clock knows how old it is.
#[expect(clippy::disallowed_methods, reason = "the process that joins surfaces has no other clock")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
