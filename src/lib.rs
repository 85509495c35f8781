//! GitOps for autonomous agents: manifests declare beings, a reconciler makes what runs equal to what is declared.
//!
//! Text becomes a typed [`manifest::Fleet`]; a pure function compares it with what is observed and yields a plan; the reconciler
//! carries it out; each running being is a pure state machine that says what must be durable and what it wants done.

pub mod being;
pub mod manifest;
pub mod plan;
pub mod surface;
pub mod vocab;
