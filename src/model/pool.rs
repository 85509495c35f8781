use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use futures::future::BoxFuture;
use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{
    ModelError, Provider, ScoreRequest, Scores, Spent,
    chain::{self, Kind, Route},
    embedding::Encoder,
    http::{Http, Post, join, sensitive},
    score,
    sign::sign,
    wire::{self, Dialect, Listed},
};
use crate::{
    being::{ChatRequest, Completion, CountTokens, Counter, Price},
    manifest::{ModelSpec, ProviderSpec, SecretSource},
    secret::{Secret, Secrets},
    vocab::{Name, Span, Timestamp},
};

/// How long a request may wait for the ones before it.
const MAX_QUEUED_FOR: Duration = Duration::from_secs(1_800);

/// What tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// What yields the model of an `embedded` spec; called once per spec, before any request, so it must not load weights itself.
pub type Embed = Arc<dyn Fn(&ModelSpec) -> Arc<dyn Provider> + Send + Sync>;
/// What yields the embedding model; called when it is first needed, and again for as long as that failed.
pub type Encode = Arc<dyn Fn() -> BoxFuture<'static, Result<Encoder, ModelError>> + Send + Sync>;

/// What models need from the program around them.
#[derive(Clone)]
pub struct Means {
    pub clock: Clock,
    pub secrets: Secrets,
    pub embed: Embed,
    pub encode: Encode,
}

/// What a model answered, and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub completion: Completion,
    /// The declared model that answered.
    pub by: Name,
    pub price: Price,
    /// Why models before it in the chain did not answer; what they spent has to be paid too.
    pub passed_over: Vec<(Name, ModelError)>,
}

/// What models counted that did not answer.
#[derive(Debug, Clone, Default)]
pub struct Counted(Arc<Mutex<Vec<Spent>>>);

impl Counted {
    fn add(&self, spent: &[Spent]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(spent);
    }

    /// What was counted so far; it is then no longer held here.
    pub fn take(&self) -> Vec<Spent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a look at a model found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// Where it answered; `None` in this process.
    pub at: Option<String>,
    /// Whether its server lists it, or takes it as a selector; `None` where nothing is listed.
    pub is_listed: Option<bool>,
    /// How many tokens it takes, as its server says.
    pub context_tokens: Option<u64>,
}

/// What every model that may answer a being can take.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The least of their context windows; `None` when no model is declared.
    pub context_tokens: Option<u32>,
    pub counter: Counter,
}

/// Every declared model of the process. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Models {
    doors: Arc<RwLock<BTreeMap<Name, Arc<Door>>>>,
    http: Http,
    means: Means,
}

/// One declared model.
struct Door {
    spec: ModelSpec,
    /// How many more requests may be under way.
    slots: Semaphore,
    behind: Behind,
}

enum Behind {
    Local(Arc<dyn Provider>),
    Remote(Remote),
}

struct Remote {
    dialect: Dialect,
    base_url: String,
    model: String,
    bearer: Option<SecretSource>,
    hmac: Option<SecretSource>,
    price: Price,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.doors().keys()).finish()
    }
}

impl fmt::Debug for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Means")
    }
}

impl Models {
    /// Opens a door to each declared model. Nothing is connected or loaded yet.
    pub fn new(specs: &BTreeMap<Name, ModelSpec>, means: Means) -> Self {
        let models = Self { doors: Arc::default(), http: Http::default(), means };
        models.replace(specs);
        models
    }

    /// The embedding model of this process, fetched and loaded when it is first asked for. Cancel safe.
    pub async fn encoder(&self) -> Result<Encoder, ModelError> {
        (self.means.encode)().await
    }

    /// Takes other specs. A model whose spec stays the same keeps its slots; requests under way are not disturbed.
    pub fn replace(&self, specs: &BTreeMap<Name, ModelSpec>) {
        let old = self.doors().clone();
        let kept = |name: &Name, spec: &ModelSpec| old.get(name).filter(|door| door.spec == *spec).cloned();
        let open = |name, spec: &ModelSpec| kept(name, spec).unwrap_or_else(|| Arc::new(Door::new(spec, &self.means.embed)));
        let doors = specs.iter().map(|(name, spec)| (name.clone(), open(name, spec))).collect();
        *self.doors.write().unwrap_or_else(PoisonError::into_inner) = doors;
    }

    /// Asks each model of a chain once, in turn, until one answers. `request.model` says which is wanted first: a declared model, or
    /// a selector or listed name for the Brama gateways of the chain. `agent` is who signs there.
    ///
    /// Cancel safe: a dropped request is given up; what its server had counted by then is not known.
    pub async fn complete(&self, agent: &str, chain: &[Name], request: &ChatRequest) -> Result<Answer, ModelError> {
        self.complete_counting(agent, chain, request, &Counted::default()).await
    }

    /// The same, where `counted` holds what models before the one under way counted, should the request be given up.
    pub async fn complete_counting(
        &self,
        agent: &str,
        chain: &[Name],
        request: &ChatRequest,
        counted: &Counted,
    ) -> Result<Answer, ModelError> {
        let doors = self.doors().clone();
        let find = |name: &str| doors.iter().find(|(known, _)| known.as_str() == name).map(|(name, door)| (name, door.kind()));
        let mut passed_over = Vec::new();
        for Route { model, served } in chain::routes(chain, &request.model, find) {
            let asked = match doors.get(model) {
                Some(door) => door.complete(self, agent, request, served).await.map(|completion| (completion, door.spec.price)),
                None => Err(ModelError::permanent(format!("no model `{model}` is declared"))),
            };
            match asked {
                Ok((completion, price)) => return Ok(Answer { completion, by: model.clone(), price, passed_over }),
                Err(error) => {
                    counted.add(&error.spent);
                    passed_over.push((model.clone(), error));
                }
            }
        }
        Err(ModelError::of_chain(passed_over))
    }

    /// Reads what a declared model makes of words that may come next, and what its tokens cost. It is asked once, and no other is asked
    /// in its place: scores of two models cannot be compared. Cancel safe like [`Models::complete`].
    pub async fn score(&self, agent: &str, model: &Name, request: &ScoreRequest) -> Result<(Scores, Price), ModelError> {
        let door = self.doors().get(model).cloned();
        let Some(door) = door else { return Err(ModelError::permanent(format!("no model `{model}` is declared"))) };
        Ok((door.score(self, agent, request).await?, door.spec.price))
    }

    /// What can be sent to whichever model of a chain answers a being that thinks with `wanted`. Nothing is loaded for it: a model in this
    /// process that is not loaded yet is estimated like one elsewhere.
    pub fn reach(&self, chain: &[Name], wanted: &str) -> Reach {
        let doors = self.doors();
        let find = |name: &str| doors.iter().find(|(known, _)| known.as_str() == name).map(|(name, door)| (name, door.kind()));
        let routes = chain::routes(chain, wanted, find);
        let asked: Vec<&Arc<Door>> = routes.iter().filter_map(|route| doors.get(route.model)).collect();
        let tokenizers: Vec<_> = asked.iter().map(|door| door.tokenizer()).collect();
        let others = tokenizers.iter().any(Option::is_none);
        let context_tokens = asked.iter().map(|door| door.spec.context_tokens).min();
        Reach { context_tokens, counter: Counter::new(tokenizers.into_iter().flatten().collect(), others) }
    }

    /// Tells whether a being with this chain may think with `model`: a declared model, a selector, or one that a Brama of the
    /// chain lists. An error says why no gateway could be asked.
    pub async fn knows(&self, agent: &str, chain: &[Name], model: &str) -> Result<bool, ModelError> {
        let doors = self.doors().clone();
        if doors.keys().any(|name| name.as_str() == model) || chain::is_selector(model) {
            return Ok(true);
        }
        let mut failed = Vec::new();
        let gateways = chain.iter().filter_map(|name| doors.get_key_value(name)).filter(|(_, door)| door.kind() == Kind::Brama);
        for (name, door) in gateways {
            match door.list(self, agent).await {
                Ok(listed) if listed.iter().any(|listed| listed.id == model) => return Ok(true),
                Ok(_) => {}
                Err(error) => failed.push((name.clone(), error)),
            }
        }
        if failed.is_empty() { Ok(false) } else { Err(ModelError::of_chain(failed)) }
    }

    /// Looks whether a model can be asked, at no cost: a gateway tells its health, and whatever is remote lists its models, which it
    /// does only for whoever has the right credentials. One in this process is asked nothing.
    pub async fn check(&self, agent: &str, name: &Name) -> Result<Checkup, ModelError> {
        let door = self.doors().get(name).cloned();
        let Some(door) = door else { return Err(ModelError::permanent(format!("no model `{name}` is declared"))) };
        match &door.behind {
            Behind::Local(_) => Ok(Checkup { at: None, is_listed: None, context_tokens: None }),
            Behind::Remote(remote) => {
                if remote.dialect == Dialect::Brama {
                    let health = door.within("health", remote.ask(self, Method::GET, "health")).await?;
                    wire::is_well(&health).then_some(()).ok_or_else(|| ModelError::permanent("health response is not ok"))?;
                }
                Ok(remote.look_up(&door.list(self, agent).await?))
            }
        }
    }

    /// What models are asked with.
    pub const fn secrets(&self) -> &Secrets {
        &self.means.secrets
    }

    fn doors(&self) -> RwLockReadGuard<'_, BTreeMap<Name, Arc<Door>>> {
        self.doors.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    fn new(spec: &ModelSpec, embed: &Embed) -> Self {
        let behind = match &spec.provider {
            ProviderSpec::Embedded { .. } => Behind::Local(embed(spec)),
            ProviderSpec::OpenAi { base_url, model, api_key } => Behind::Remote(Remote {
                dialect: Dialect::OpenAi,
                base_url: base_url.clone(),
                model: model.clone(),
                bearer: api_key.clone(),
                hmac: None,
                price: spec.price,
            }),
            ProviderSpec::Brama { base_url, model, hmac_secret, bearer } => Behind::Remote(Remote {
                dialect: Dialect::Brama,
                base_url: base_url.clone(),
                model: model.clone(),
                bearer: bearer.clone(),
                hmac: Some(hmac_secret.clone()),
                price: spec.price,
            }),
        };
        Self { spec: spec.clone(), slots: Semaphore::new(usize::from(spec.concurrency.max(1))), behind }
    }

    const fn kind(&self) -> Kind {
        match &self.behind {
            Behind::Remote(Remote { dialect: Dialect::Brama, .. }) => Kind::Brama,
            _ => Kind::Plain,
        }
    }

    fn tokenizer(&self) -> Option<Arc<dyn CountTokens>> {
        match &self.behind {
            Behind::Local(provider) => provider.tokenizer(),
            Behind::Remote(_) => None,
        }
    }

    async fn complete(
        &self,
        models: &Models,
        agent: &str,
        request: &ChatRequest,
        served: Option<&str>,
    ) -> Result<Completion, ModelError> {
        let _slot = self.slot().await?;
        match &self.behind {
            Behind::Local(provider) => self.within("answer", provider.complete(request)).await,
            Behind::Remote(remote) => {
                let model = served.unwrap_or(&remote.model);
                let body = wire::body(request, model, &self.spec, remote.dialect);
                let body = body.map_err(|error| ModelError::permanent(format!("request cannot be written: {error}")))?;
                let sent = remote.send(models, agent, Method::POST, remote.completions(), body);
                let bytes = self.within("answer", sent).await?;
                let breach = |breach: wire::Breach| ModelError::permanent(breach.message).charging(breach.usage, self.spec.price);
                wire::read(&bytes, model, remote.dialect).map_err(breach)
            }
        }
    }

    async fn score(&self, models: &Models, agent: &str, request: &ScoreRequest) -> Result<Scores, ModelError> {
        let _slot = self.slot().await?;
        match &self.behind {
            Behind::Local(provider) => self.within("scores", provider.score(request)).await,
            Behind::Remote(remote) => {
                let body = score::body(request, &remote.model);
                let body = body.map_err(|error| ModelError::permanent(format!("request cannot be written: {error}")))?;
                let bytes = self.within("scores", remote.send(models, agent, Method::POST, remote.completions(), body)).await?;
                let breach = |breach: wire::Breach| ModelError::permanent(breach.message).charging(breach.usage, self.spec.price);
                score::read(&bytes, request, &remote.model).map_err(breach)
            }
        }
    }

    /// Waits in line. Whoever gave up would only come back behind everyone else, so the wait may be long.
    async fn slot(&self) -> Result<SemaphorePermit<'_>, ModelError> {
        let busy = || ModelError::transient(format!("no free slot within {}", Span::from(MAX_QUEUED_FOR)), None);
        timeout(MAX_QUEUED_FOR, self.slots.acquire()).await.ok().and_then(Result::ok).ok_or_else(busy)
    }

    /// What a server lists.
    async fn list(&self, models: &Models, agent: &str) -> Result<Vec<Listed>, ModelError> {
        let Behind::Remote(remote) = &self.behind else { return Ok(Vec::new()) };
        let path = if remote.dialect == Dialect::Brama { "v1/models" } else { "models" };
        let sent = remote.send(models, agent, Method::GET, path, Vec::new());
        let bytes = self.within("list of models", sent).await?;
        wire::listed(&bytes).map_err(ModelError::permanent)
    }

    async fn within<T>(&self, what: &str, work: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
        let late = |_| ModelError::transient(format!("no {what} within {}", self.spec.timeout), None);
        timeout(self.spec.timeout.as_duration(), work).await.map_err(late)?
    }
}

impl Remote {
    const fn completions(&self) -> &'static str {
        match self.dialect {
            Dialect::OpenAi => "chat/completions",
            Dialect::Brama => "v1/chat/completions",
        }
    }

    /// Asks without a credential.
    async fn ask(&self, models: &Models, method: Method, path: &str) -> Result<Vec<u8>, ModelError> {
        let (headers, secrets, url) = (HeaderMap::new(), models.means.secrets.clone(), join(&self.base_url, path)?);
        let post = Post { method, url, headers, body: Vec::new(), secrets, price: self.price };
        models.http.send(post, &models.means.clock).await
    }

    fn look_up(&self, listed: &[Listed]) -> Checkup {
        let own = listed.iter().find(|listed| listed.id == self.model);
        let is_selected = self.dialect == Dialect::Brama && chain::is_selector(&self.model);
        Checkup {
            at: Some(self.base_url.clone()),
            is_listed: (!listed.is_empty() || self.dialect == Dialect::Brama).then_some(own.is_some() || is_selected),
            context_tokens: own.and_then(|own| own.max_model_len),
        }
    }

    async fn send(&self, models: &Models, agent: &str, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>, ModelError> {
        let url = join(&self.base_url, path)?;
        let mut headers = HeaderMap::new();
        if let Some(source) = &self.bearer {
            let secret = read(models, source).await?;
            headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", secret.reveal()))?);
        }
        if let Some(source) = &self.hmac {
            let secret = read(models, source).await?;
            headers.extend(signature(&secret, agent, (models.means.clock)(), &body)?);
        }
        let secrets = models.means.secrets.clone();
        models.http.send(Post { method, url, headers, body, secrets, price: self.price }, &models.means.clock).await
    }
}

async fn read(models: &Models, source: &SecretSource) -> Result<Secret, ModelError> {
    models.means.secrets.read(source).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        ModelError::permanent(format!("{error}{cause}"))
    })
}

fn signature(secret: &Secret, agent: &str, now: Timestamp, body: &[u8]) -> Result<HeaderMap, ModelError> {
    let unsigned = || ModelError::permanent("cannot initialize signer: the secret cannot be a key");
    let signed = sign(secret.reveal(), agent, now, body).ok_or_else(unsigned)?;
    let plain = |text: &str| HeaderValue::from_str(text).map_err(|_| ModelError::permanent("the agent id cannot be a header"));
    Ok(HeaderMap::from_iter([
        (HeaderName::from_static("x-agent-id"), plain(agent)?),
        (HeaderName::from_static("x-agent-timestamp"), plain(&signed.timestamp)?),
        (HeaderName::from_static("x-agent-body-sha256"), plain(&signed.body_sha256)?),
        (HeaderName::from_static("x-agent-signature"), sensitive(&signed.signature)?),
    ]))
}
