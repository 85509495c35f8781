use std::path::PathBuf;

/// Why the embedding model could not be loaded, or yields no vector.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    #[error("cannot read the embedding model in {path}; run `singularity model pull embedding`")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is no sound safetensors file; remove it and run `singularity model pull embedding`")]
    NotSafetensors {
        path: PathBuf,
        #[source]
        source: candle_core::Error,
    },
    #[error("{path} is no sound tokenizer; remove it and run `singularity model pull embedding`")]
    NotTokenizer {
        path: PathBuf,
        #[source]
        source: tokenizers::Error,
    },
    #[error("{path} is not all-MiniLM-L6-v2: {why}; remove it and run `singularity model pull embedding`")]
    Unfit { path: PathBuf, why: String },
    #[error("cannot turn the text into tokens")]
    Untokenised(#[source] tokenizers::Error),
    #[error("a text without a word has no meaning to compare; give it at least one")]
    Empty,
    #[error("the text has {needed} tokens, the embedding model compares {most}; give it a shorter one")]
    TooLong { needed: usize, most: usize },
}
