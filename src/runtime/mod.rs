//! Beings that run: the driver performs what the pure machine of [`crate::being`] asks for, one task per being.
//!
//! **Flow.** [`animate()`] opens a being's life, its Las and its toolbox; [`Driver::run`] then steps it: facts are made durable, only then
//! the effect is carried out, and its outcome is the next input. [`Unit`] keeps one being alive under a daemon: it starts it again with
//! back-off, holds it when an operator must act, and hands edits to the living being.
//!
//! **Guarantees.** Nothing is asked of a model or a tool before the facts that lead to it are durable. A stop begins no new effect; one
//! that is under way gets a grace and is then given up, which the journal says. A being whose journal can't be written ends.
//!
//! **Assumes** a multi-threaded tokio runtime: a picture blocks its thread for as long as the disk takes.

mod animate;
mod assignment;
mod clock;
mod deciders;
mod doctor;
mod driver;
mod embedded;
mod engine;
mod family;
mod ground;
mod hold;
mod ledger;
mod purse;
mod questions;
mod refit;
mod rest;
mod skilled;
mod snapshot;
mod systemone;
mod think;
mod unit;

pub use crate::{
    being::{Answer, Child, ChildStatus, Closed, Form, Limit, Question, Word},
    surface::{OauthError, las::SurfaceHealth},
    tool::CatalogueError,
};
pub use animate::{AnimateError, Inspection, Start, animate, inspect};
pub use assignment::Assignment;
pub use clock::{Clock, Ids};
pub use deciders::Deciders;
pub use doctor::{Area, Diagnosis, Finding, State as FindingState, diagnose};
pub use driver::{Command, Cut, Driver, Ended, Until};
pub use embedded::{Pulling, Weights};
pub use engine::{engine, guards, tree};
pub use family::{Fates, with_children};
pub use ground::{Ground, forget_tokens};
pub use ledger::{Ledger, Used};
pub use questions::NotAsked;
pub use skilled::{skill_grant, skill_terms};
pub use snapshot::{Phase, Snapshot};
pub use systemone::{Answered, systemone};
pub use unit::{Failure, Unit, UnitPhase, UnitView};
