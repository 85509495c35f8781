//! SemIf: a semantic `if`. A state, a question and described options in; a probability for each option out (SPEC §8).
//!
//! # Expected flow
//! A [`DecisionRequest`] is read from a row or put together and checked; an [`Engine`] decides it and yields a [`Decision`]. [`Readout`]
//! shows the options as letters to a declared model and reads the scores of the letters off one forward pass: no text is parsed.
//! A [`Walk`] takes a request down a [`Tree`] by such decisions; [`navigate`] drives it. A [`Decider`] is an engine whose decisions are
//! kept in a [`DecisionLog`], which [`report`] measures. [`Systemone`] reads questions in the form that other programs ask them in.
//!
//! [`Likeness`] compares meanings instead: it is the engine that routes, and knows nothing of questions that are about more than a topic.
//!
//! # Guarantees
//! - The same request, terms and weights give the same decision on the same kind of processor.
//! - Probabilities sum to one, over the options alone; how much the model cared for them at all is
//!   [`allowed_token_mass`](Decision::allowed_token_mass), and below [`min_mass`](Terms::min_mass) nothing is selected.
//! - With as many [`rotations`](Terms::rotations) as there are options, no letter and no place is favoured.
//! - An engine that cannot load or read is an error, never a guess; nothing is cut to fit.
//!
//! # Costs
//! One pass for each rotation. What comes before the options is read once for all requests over one state.

mod bench;
mod decider;
mod engine;
mod kept;
mod likeness;
mod log;
mod navigate;
mod prompt;
mod readout;
mod report;
mod request;
mod row;
mod systemone;
mod tree;
mod walk;

pub use bench::{Score, Sets};
pub use decider::Decider;
pub use engine::Engine;
pub use kept::{Kept, LogError, kept, relabel};
pub use likeness::{Likeness, MEANING_VERSION, Nearness};
pub use log::{DecisionLog, LogBounds};
pub use navigate::{Step, Trail, navigate};
pub use prompt::{PROMPT_VERSION, Prompt};
pub use readout::{Decision, DecisionError, Readout, Terms};
pub use report::{Costly, Measure, Report, report};
pub use request::{BadRequest, Choice, DecisionRequest, OPTIONS};
pub use row::{LabelSource, Row};
pub use systemone::{Refusal, Systemone};
pub use tree::{Branch, Leaf, Tree};
pub use walk::{Guards, Move, Outcome, Phase, Walk};
