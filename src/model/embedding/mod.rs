//! Meanings as vectors, in this process: all-MiniLM-L6-v2, a BERT of six layers.
//!
//! **Flow.** [`Encoder::load`] reads the weights that [`pull::EMBEDDING`](super::pull::EMBEDDING) brings and packs them in eight bits for the
//! kernels of this processor; [`Encoder::encode`] turns a text into a vector of length 1. The product of two vectors, their cosine, says how
//! near two texts are in meaning: about 0.7 for a paraphrase, about 0 for texts that have nothing to do with each other.
//!
//! **Guarantees.** The same text gives the same vector on the same kind of processor. Nothing is cut: of a text that is longer than the
//! model reads at once every window is read, and counts by its length. Text never becomes a control token. Against the weights in full
//! precision a vector is off by an angle whose cosine is above 0.999.
//!
//! **Costs.** 36 MB once; some milliseconds on one thread for a short text. `encode` blocks for that time.
//!
//! **Errors.** Weights that are missing, broken or of another shape, and a text of nothing or of more than 8,128 tokens.

mod encoder;
mod error;
mod forward;
mod weights;

pub use encoder::{Embedding, Encoder};
pub use error::EmbeddingError;

#[cfg(test)]
mod tests;
