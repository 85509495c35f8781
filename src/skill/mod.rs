//! Skills with a Python body: what a body may be, where it runs, and the loop around it (SPEC §9).
//!
//! # Expected flow
//! A [`Body`] is opened by its path. [`inspect`] parses it with CPython's own parser and yields what the acceptance gate finds, and what the
//! body declares. [`perform`] carries a [`Run`] on until it ends or asks something: observe → predict → act → observe → assess. A run that
//! asks is put down as the value that it is, and taken up again with [`Run::answer`], in another process and days later.
//!
//! # Guarantees
//! - A body runs in a process of its own, alone in a sandbox: it reads the standard library and what is granted, writes only where that is
//!   granted, has no network but what is granted, starts no process, and ends with its owner.
//! - Time on a core, memory, time on the wall, the size of files and the cost of a run are bounded; a [`Fault`] says which bound was met,
//!   and where in the body.
//! - What a body prints is talk, kept as the last lines; results come over a pipe that the body does not print to.
//! - Decisions are made by the engine alone; a decision that a body hands back and the engine never made is a fault.
//! - The prediction of a run that was put down is the one that it goes on with.
//!
//! # Assumptions
//! A CPython 3.10 or newer as `python3` on the path, as a program and not as a script that starts one.
//!
//! # Costs
//! A process for each inspection and each stretch of a run, about 50 ms and 12 MB, and a pass of the model for each decision.

mod body;
mod fault;
mod frame;
mod grant;
mod host;
mod inspect;
mod perform;
mod python;
mod run;
#[cfg(test)]
mod run_tests;
mod scaffold;
mod trial;

pub use body::{BadSkillAddress, Body, BodyError, SkillAddress};
pub use fault::{Fault, Phase, Wrong};
pub use frame::{ActionResult, Prediction, Request};
pub use grant::{BadPeer, Grant, Peer};
pub use host::{Place, PlaceError, WorkError};
pub use inspect::{Finding, Inspection, Integration, inspect};
pub use perform::{Note, Stop, perform};
pub use python::Python;
pub use run::{Outcome, Question, Run, Terms};
pub use scaffold::scaffold;
pub use trial::{Trial, test};
