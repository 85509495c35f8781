use futures::future::BoxFuture;

use super::ModelError;
use crate::being::{ChatRequest, Completion};

/// A completion under way. Dropping it gives the request up.
pub type Thinking<'a> = BoxFuture<'a, Result<Completion, ModelError>>;

/// A model that answers in this process.
pub trait Provider: Send + Sync {
    /// Answers one request, once.
    fn complete<'a>(&'a self, request: &'a ChatRequest) -> Thinking<'a>;
}
