//! A small language model in this process: SmolLM2, or any llama model with a ChatML template in a GGUF file.
//!
//! **Flow.** [`Embedded::load`] reads the weights and packs them for the kernels of this processor; [`Embedded::complete`] renders a request
//! as tokens, reads those that no earlier prompt shares, and writes a reply. [`pull`](super::pull) fetches the default weights.
//!
//! **Guarantees.** A reply is plain text or one tool call. A call names a tool of the request and its arguments validate under that tool's
//! schema: they are written under a grammar of it, and checked where a grammar is not enough. The same request with the same seed gives the
//! same reply on the same kind of processor. Dropping the future of a request stops the work on it within one token. [`Usage`] is what was
//! really read and written, tries that failed their check included.
//!
//! **Assumptions.** The file is trusted to be a model, not to be well: what does not fit is an error. Text in messages never becomes a control
//! token.
//!
//! [`Embedded::score`] writes nothing: it reads a prompt once and tells what the model makes of a few words that may come next.
//!
//! [`Embedded::tokenizer`] counts a request to the token, so that the caller knows beforehand whether it fits.
//!
//! **Costs.** The weights once in memory as they are in the file, 23 kB per remembered token, at most two contexts of them. One request at a
//! time; up to 64 wait.
//!
//! **Errors.** [`EmbeddedError::TooLong`] is permanent until the caller folds; [`EmbeddedError::Busy`] passes.
//!
//! [`Usage`]: crate::being::Usage

mod cache;
mod chat;
mod count;
mod engine;
mod error;
mod forward;
mod grammar;
mod reply;
mod sample;
mod score;
mod token;
mod weights;

pub use engine::{Embedded, Sampling};
pub use error::EmbeddedError;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::tiny_file;
