//! What a being can do: a strict catalogue, argument checks, built-in tools, the output boundary, outcomes (SPEC §5–§7).
//!
//! # Expected flow
//! A [`Toolbox`] is made once per boot from what a being's surfaces list and what its operator left armed. A name that is not
//! plain, a schema that is no object or cannot be compiled, a name twice, or a required surface without tools fails the boot.
//! Then each [`Toolbox::call`] goes: arguments are JSON and an object → the name is in the catalogue → the arguments hold to the
//! schema → the tool is reached → its answer passes the [`boundary`] → ids and money are lifted out of what passed.
//!
//! # Guarantees
//! - A call that is refused before its tool is reached has reached nothing.
//! - Everything in an [`Outcome`](crate::being::Outcome) has passed the boundary: answers, refusals, and a being's own words.
//! - A definite answer is never `indeterminate`; a call whose effect is unknown never becomes anything else.
//! - File tools stay inside the workspace and out of every state directory, whatever happens to the folders meanwhile.
//! - A secret that this process sent to someone is in no outcome, whoever says it back.
//! - Money is taken only from the structure of a trusted tool's successful answer, and never from an echo of its arguments.
//!
//! # Assumptions
//! Whoever implements [`Remote`](crate::surface::Remote) bounds the size of answers and gives each request a deadline.

pub mod boundary;
mod builtin;
mod catalogue;
mod files;
mod form;
mod layout;
mod most;
mod offered;
mod result;
mod revenue;
mod schema;
mod size;
mod toolbox;

pub use catalogue::CatalogueError;
pub use form::filled;
pub use most::check_most;
pub use offered::{Sighting, Sightings};
pub use revenue::RevenueError;
pub use toolbox::{Knows, Parts, Stamp, Toolbox};
