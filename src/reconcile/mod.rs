//! Converging: what runs is made equal to what is declared, level-triggered (SPEC §11).
//!
//! **Flow.** A wake carries no data. Files and applied sets are read afresh, become a fleet or problems; what runs is observed; a plan is
//! made, judged and carried out; the status is published. One run at a time, on a change, a request, the end of a unit, and every half
//! minute.
//!
//! Children are beings of the fleet too: each being's state says which it made, and a child is declared to be what its parent is, less what
//! only its parent has. A parent stops after its children.
//!
//! **Guarantees.** While anything does not validate, the last good fleet goes on, also after a restart of the daemon. A plan that its judge
//! finds a fault in is not carried out. What vanished counts as removed only when it is still gone after a second look. A being that stops is
//! waited for before another process of it starts.
//!
//! **Cost.** A run whose texts did not change costs their reading and digests, and a comparison for each object.

mod act;
mod consent;
mod declared;
mod family;
mod handle;
mod reconciler;
mod requests;
mod sets;
mod status;
mod watch;

pub use crate::runtime::{Answer, Word};
pub use handle::{Applied, Handle, RequestError};
pub use reconciler::{Reconciler, Settings};
pub use sets::{AppliedSet, AppliedSource, add_applied};
pub use status::{BeingFacts, Condition, ConditionKind, FormFacts, List, ObjectStatus, QuestionFacts, Status, SurfaceFacts, Truth};
