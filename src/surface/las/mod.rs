//! Las, the aggregator: one child process that joins the surfaces of one being and speaks MCP on its standard streams.
//!
//! # Expected flow
//! [`Las::start`] runs `singularity las` (or another program in its place) under a supervisor and yields a handle that is a
//! [`Remote`](super::Remote): it lists tools as `<surface>__<tool>` and calls them. In the child, [`serve`] starts every surface at
//! once, answers `tools/list` when each of them is up or has failed once, and passes calls on. [`Las::stop`] ends it all.
//!
//! # What passes between the two
//! - What to join travels in the `initialize` request, as the experimental capability `singularity.las/1`: nothing is on a command
//!   line, in a file or in the environment. Secrets do not travel: a bearer's *source* does, and Las reads it at each connection.
//! - The state of each surface comes back in `_meta` of the tool list, and a change is told by `notifications/tools/list_changed`.
//! - What became of a call that failed comes back in `data` of the JSON-RPC error, so that *no* and *unknown* stay two things.
//!
//! # Guarantees
//! - A surface that dies is started again with a back-off; its tools stay listed and answer `surface_unavailable` meanwhile; the other
//!   surfaces notice nothing. The same holds for Las itself.
//! - Every request has a deadline. Messages have a size limit. A surface's rubbish on stdout is skipped and counted.
//! - No process of a surface outlives the daemon ([`crate::process`]).
//!
//! # Caveats
//! A surface of scope `shared` runs as a process of each Las.

mod config;
mod handle;
mod health;
mod serve;

pub use handle::{Las, LasError, LasStart, Trouble};
pub use health::SurfaceHealth;
pub use serve::{ServeError, serve};
