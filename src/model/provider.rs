use std::sync::Arc;

use futures::future::BoxFuture;

use super::{ModelError, ScoreRequest, Scores};
use crate::being::{ChatRequest, Completion, CountTokens};

/// A completion under way. Dropping it gives the request up.
pub type Thinking<'a> = BoxFuture<'a, Result<Completion, ModelError>>;

/// Scores under way. Dropping it gives the request up.
pub type Scoring<'a> = BoxFuture<'a, Result<Scores, ModelError>>;

/// A model that answers in this process.
pub trait Provider: Send + Sync {
    /// Answers one request, once.
    fn complete<'a>(&'a self, request: &'a ChatRequest) -> Thinking<'a>;

    /// Reads the scores of words that may come next, once; nothing is written. A provider that shows no scores refuses.
    fn score<'a>(&'a self, _request: &'a ScoreRequest) -> Scoring<'a> {
        Box::pin(std::future::ready(Err(ModelError::permanent("this model shows no scores to decide by"))))
    }

    /// What counts the tokens of a request, where that is known now. It never loads or waits for anything, and once it is known it stays
    /// the same one.
    fn tokenizer(&self) -> Option<Arc<dyn CountTokens>> {
        None
    }
}
