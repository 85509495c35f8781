use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use singularity_kernel::Level;
use tokenizers::Tokenizer;

use super::{
    error::EmbeddingError,
    forward::pooled,
    weights::{self, Weights},
};
use crate::vocab::Digest;

/// Tokens of a text that are read at once, without the two that open and close it: what the model was trained on.
const WINDOW: usize = 254;
/// Windows that a text has at most.
const MAX_WINDOWS: usize = 32;
/// Texts whose meaning is kept, 7 MB; when there is one more, all are forgotten.
const MAX_KEPT: usize = 4_096;

/// A loaded embedding model. Clones share it; any number of threads may ask it at once.
#[derive(Debug, Clone)]
pub struct Encoder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    weights: Weights,
    level: Level,
    tokenizer: Tokenizer,
    open: u32,
    close: u32,
    kept: Mutex<HashMap<Digest, Arc<Embedding>>>,
}

impl Encoder {
    /// Reads the weights in `path` and the `tokenizer.json` beside it. Blocks for some tenths of a second.
    pub fn load(path: &Path) -> Result<Self, EmbeddingError> {
        let beside = path.with_file_name("tokenizer.json");
        let weights = weights::read(path)?;
        let bytes = std::fs::read(&beside).map_err(|source| EmbeddingError::Unreadable { path: beside.clone(), source })?;
        let broken = |source| EmbeddingError::NotTokenizer { path: beside.clone(), source };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(broken)?;
        tokenizer.with_truncation(None).map_err(broken)?.with_padding(None);
        tokenizer.set_encode_special_tokens(true);
        let mark = |token: &str| {
            let why = || format!("it has no `{token}`");
            tokenizer.token_to_id(token).ok_or_else(|| EmbeddingError::Unfit { path: beside.clone(), why: why() })
        };
        let (open, close) = (mark("[CLS]")?, mark("[SEP]")?);
        if tokenizer.get_vocab_size(true) != weights::WORDS {
            return Err(EmbeddingError::Unfit { path: beside, why: "it has another number of words than the weights".into() });
        }
        Ok(Self { inner: Arc::new(Inner { weights, level: Level::best(), tokenizer, open, close, kept: Mutex::default() }) })
    }

    /// The model, as decisions name it.
    pub const fn name(&self) -> &'static str {
        "all-MiniLM-L6-v2"
    }

    /// The meaning of a text: 384 values whose squares sum to 1. Blocks for some milliseconds a window.
    pub fn encode(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let Inner { weights, level, open, close, .. } = &*self.inner;
        let tokens = self.tokens(text)?;
        let mut sums = vec![0.0; weights::WIDTH];
        for window in tokens.chunks(WINDOW) {
            let window: Vec<u32> = std::iter::once(*open).chain(window.iter().copied()).chain([*close]).collect();
            let seen = pooled(weights, *level, &window);
            sums.iter_mut().zip(seen).for_each(|(sum, value)| *sum += value);
        }
        let length = sums.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        let vector = sums.into_iter().map(|value| value / length).collect();
        let windows = tokens.len().div_ceil(WINDOW);
        Ok(Embedding { vector, tokens: tokens.len() + 2 * windows })
    }

    /// The same, kept: who asks again, for the options of decisions are mostly the same ones, gets it at once.
    pub fn meaning(&self, text: &str) -> Result<Arc<Embedding>, EmbeddingError> {
        let key = Digest::of(text);
        let kept = || self.inner.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(&key) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(self.encode(text)?);
        let mut kept = kept();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// The tokens of a text, without those that open and close it.
    pub(super) fn tokens(&self, text: &str) -> Result<Vec<u32>, EmbeddingError> {
        let most = WINDOW * MAX_WINDOWS;
        let encoding = self.inner.tokenizer.encode(text, false).map_err(EmbeddingError::Untokenised)?;
        let tokens = encoding.get_ids();
        match tokens.len() {
            0 => Err(EmbeddingError::Empty),
            needed if needed > most => Err(EmbeddingError::TooLong { needed, most }),
            _ => Ok(tokens.to_vec()),
        }
    }
}

/// The meaning of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    vector: Vec<f32>,
    /// Tokens that were read.
    pub tokens: usize,
}

impl Embedding {
    /// A meaning of values whose squares sum to 1.
    #[cfg(test)]
    pub(crate) const fn of(vector: Vec<f32>) -> Self {
        Self { vector, tokens: 0 }
    }

    /// How near two meanings are: the cosine of the angle between them, from -1 to 1.
    pub fn cosine(&self, other: &Self) -> f64 {
        f64::from(self.vector.iter().zip(&other.vector).map(|(a, b)| a * b).sum::<f32>()).clamp(-1.0, 1.0)
    }
}
