use std::path::PathBuf;

/// Why the embedded model could not be loaded or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("cannot read the weights in {path}; run `singularity model pull`, or set `path` to a GGUF file")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not a sound GGUF file; fetch it again")]
    NotGguf {
        path: PathBuf,
        #[source]
        source: candle_core::Error,
    },
    #[error("{path} cannot be run here: {why}; choose a llama model with a ChatML template")]
    Unfit { path: PathBuf, why: String },
    #[error("cannot start the threads of the embedded model")]
    NoThreads(#[source] std::io::Error),
    #[error("cannot turn the request into tokens")]
    Untokenised(#[source] tokenizers::Error),
    /// Asking again with the same messages is in vain: the caller folds them, or leaves tools out.
    #[error("the request needs {needed} tokens, the model reads {context}; fold older messages or select fewer tools")]
    TooLong { needed: usize, context: usize },
    #[error("the model writes {answer:?} as other than one token of its own, so its score cannot be read; choose another model")]
    NoSlot { answer: String },
    #[error("the request has no messages; send at least one")]
    Empty,
    /// Passes by itself: requests before this one are still being answered.
    #[error("{waiting} requests wait for the embedded model already; ask again later")]
    Busy { waiting: usize },
    #[error("the embedded model has stopped; start it again")]
    Stopped,
}

impl EmbeddedError {
    /// Whether asking the same again can succeed.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}
