//! Las, the aggregator: one child process that joins the surfaces of one being and speaks MCP on its standard streams.
//!
//! # Expected flow
//! [`Las::start`] runs `singularity las` (or another program in its place) under a supervisor and yields a handle that is a
//! [`Remote`](super::Remote): it lists tools as `<surface>__<tool>` and calls them. In the child, [`serve`] starts every surface at
//! once, answers `tools/list` when each of them is up or has failed once, and passes calls on. [`Las::stop`] ends it all.
//!
//! # Standing alone
//! [`Standing`] is the same server without a daemon: it joins what manifests declare, on standard streams or over streamable HTTP, for
//! any client. What to join is settled before anyone is heard, so no greeting can start a process. `allow`, `deny` and `rename` of a
//! surface hold, and so do its sandbox and limits; `pin`, `boundary` and `approve` are about a being and its model, and do not. Over
//! HTTP it listens on loopback alone unless a bearer is asked for, and refuses `Host` and `Origin` of others. Names may be kept
//! without a prefix; two that are the same are then an error, at the start and whenever a surface lists anew.
//! The health of surfaces is told to nobody here; it is in the log.
//!
//! # Beside tools
//! Prompts are named as tools are; resources and their templates keep their URIs, and the first surface that lists one, or a template
//! that it begins like, is asked for it: no other is told. Completion goes the same ways, and a level of logging to all who log.
//! `allow`, `deny` and `rename` are about tools alone. A list that a surface does not give is left out, and the log says so.
//!
//! What a surface says unasked goes on too: progress to whoever made the call, under that one's token; what it logs to whoever wants to
//! hear that level; word of a changed resource to whoever follows it. What it *asks* in mid-call — elicitation, sampling, roots — is put
//! to the client that made the call, when that takes it. Where calls of several clients are under way on one surface, nothing in MCP
//! says to which of them a question belongs, so it is refused rather than shown to the wrong one.
//!
//! # Shared surfaces
//! Under a daemon, a surface of scope `shared` is in no Las: [`SharedSurfaces`] keeps one process or connection of it in the daemon, from
//! the first being that uses it to the last and a moment longer, and [`Las`] joins it with the being's own. An edit starts another beside
//! it, and it ends when the last being has changed over. It runs in a folder of its own, for it works for nobody in particular:
//! `{workspace}` in its declaration is refused. Of 32 calls at once, each being gets its turn. What it asks in mid-call is put to the
//! being whose call it belongs to by the same rule as above.
//!
//! # What passes between the two
//! - What to join travels in the `initialize` request, as the experimental capability `singularity.las/1`: nothing is on a command
//!   line, in a file or in the environment. Secrets do not travel: their *sources* do, and Las reads them at each
//!   connection and at each start of a process.
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
//! - Without a daemon, a surface of scope `shared` is one of its Las's own: `doctor` and `tools` start one of theirs beside a daemon's.
//! - A question that comes as a result which requires input, as servers of 2026-07-28 ask, is not put to anyone: the call fails.

mod config;
mod desk;
mod guests;
mod handle;
mod health;
mod http;
mod pass;
mod reach;
mod serve;
mod shared;
mod standing;
mod told;

pub use config::BadPattern;
pub use handle::{Las, LasError, LasStart, Trouble};
pub use health::SurfaceHealth;
pub use serve::{Clash, ServeError, serve};
pub use shared::{SharedStart, SharedSurfaces};
pub use standing::{Door, StandError, Standing};
