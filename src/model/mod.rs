//! The model gateway: whatever answers chat completions, behind one door (SPEC §4, §5).
//!
//! # Expected flow
//! One [`Models`] per process holds every declared model and is cheap to clone; specs may be replaced while requests are under way.
//! [`Models::complete`] tries a being's chain once, in order, and gives back the first answer. It never waits to try again: an error
//! says by its [`Class`] whether that would help, and when.
//!
//! # Guarantees
//! - What a server counted is charged: an answer that is refused, or that came from a model later passed over, leaves its
//!   [`Spent`] in the [`ModelError`]. An answer that counts nothing is refused, because what it cost cannot be known.
//! - Secrets are read for each request and are in no error, log or `Debug`.
//! - Answers are bounded, requests have a deadline, each model has a bounded number of requests under way; redirects are not followed.
//!
//! # Errors
//! [`Class::Transient`] for 429, 5xx, a lost connection and a passed deadline; [`Class::Permanent`] for every other refusal and for
//! an answer that breaks the protocol. An answer that its token limit cut off is no error.

mod chain;
pub mod embedded;
pub mod embedding;
mod error;
mod http;
mod pool;
mod provider;
pub mod pull;
mod score;
mod sign;
mod wire;

pub use error::{Class, ModelError, Spent};
pub use pool::{Answer, Checkup, Clock, Counted, Embed, Encode, Means, Models, Reach};
pub use provider::{Provider, Scoring, Thinking};
pub use score::{ScoreRequest, Scores};

#[cfg(test)]
#[path = "../../tests/support/openai.rs"]
#[expect(dead_code, unreachable_pub, reason = "the end-to-end tests share the file and use the rest")]
mod scripted;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests prepare files as anyone could")]
mod tests;
