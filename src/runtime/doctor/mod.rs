//! What a being needs, looked at without running it: each thing is found good, doubtful or bad, with what to do about it (SPEC §12).
//!
//! No state is written and no model is asked to think; surfaces are started and stopped again. Every look has a deadline of its own, and
//! one that fails keeps no other from being taken.

mod diagnosis;
mod machine;
mod upstream;

pub use diagnosis::{Area, Diagnosis, Finding, State, diagnose};
