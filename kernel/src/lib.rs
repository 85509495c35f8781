//! The arithmetic under the model: packed weights, quantised activations, and products of both.
//!
//! Everything is cut into blocks of 32 values, and everything wide is a *panel*: `panel[(block * tokens + token) * 32 + i]`, so that one
//! layout serves a batch of tokens and, being the plain vector when there is one token, single tokens too. Eight rows of a weight are
//! interleaved so that each lane of a vector is a row and no sum runs across lanes.
//!
//! The kernels are chosen once, when a model is loaded, from what the processor offers; the portable ones are their specification.
//! All `unsafe` of the program's own code is in this crate.

mod block;
mod level;
mod portable;
mod team;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use block::{BLOCK, Eight, Four, GROUP, Matrix, Quantised, pack_rows, quantise};
pub use level::Level;
pub use team::Team;

#[cfg(test)]
mod tests;
