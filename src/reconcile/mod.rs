//! Converging: what runs is made equal to what is declared, level-triggered (SPEC §11).
//!
//! **Flow.** A wake carries no data. Files as they were when they last were at rest, and applied sets, become a fleet or problems; what runs is
//! observed; a plan is made, judged and carried out; the status is published. One run at a time, on a change, a request, the end of a unit, and
//! every half minute.
//!
//! **Files** are read when two looks at names, sizes, times and inodes, 25 ms apart, agree, and nobody is known to hold one open for writing.
//! What is away counts as removed, and what does not validate as broken, when nothing changed for a second. Changes are heard of from
//! the kernel, on every folder and along every link; where it does not tell of them (network file systems, `serve --poll`) they are looked for.
//!
//! **Git sources** are fetched by a task each. What one brings comes into force only as a whole, once it is verified, validates together with all
//! else that is declared, and descends from what was in force; until then, and while a branch cannot be reached, what was in force goes on.
//!
//! Children are beings of the fleet too: each being's state says which it made, and a child is declared to be what its parent is, less what
//! only its parent has. A parent stops after its children.
//!
//! What people ask for is put on record, with who they are, before anything is done about it.
//!
//! Each change of what is declared is a revision in the home's history; an older one can be taken back.
//!
//! **Guarantees.** While anything does not validate, or an operator froze the fleet, the last good fleet goes on, also after a restart of
//! the daemon. A plan that its judge finds a fault in is not carried out. No being is stopped, and no error shown, because a file was away
//! for a moment. A being that stops is waited for before another process of it starts.
//!
//! **Cost.** A run whose texts did not change costs their reading and digests, and a comparison for each object.

mod act;
mod bells;
mod consent;
mod declared;
mod family;
mod freeze;
mod funds;
mod git;
mod handle;
mod notices;
mod pauses;
mod reconciler;
mod record;
mod requests;
mod revisions;
mod rollback;
mod sets;
mod sourcing;
mod status;
mod trace;
mod watch;
mod watchdog;

pub use crate::runtime::{Answer, Word};
pub use handle::{Applied, Handle, RequestError};
pub use notices::Notice;
pub use pauses::Whom;
pub use reconciler::{BeginError, Reconciler, Settings};
pub use revisions::{Cause, Revision, RevisionHead, Revisions};
pub use sets::{AppliedSet, AppliedSource, add_applied};
pub use status::{
    BeingFacts, Condition, ConditionKind, FormFacts, HoldFacts, List, ObjectStatus, QuestionFacts, SourceFacts, Status,
    SurfaceFacts, Truth,
};
