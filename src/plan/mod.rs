//! What is declared and what is observed become a [`Plan`] so exact that nothing is left to choose.
//!
//! # Guarantees
//!
//! - [`plan`] is pure and total: every address in either gets one [`Verdict`] with its `because`. The same values give the same plan.
//! - A being's identity and starting balance are never changed: a spec that would is refused, and the being goes on as it was.
//! - [`judge`] checks a plan against the same values by rules of its own; a plan with a fault is not to be acted on.
//!
//! # Assumptions
//!
//! [`Observed`] was read after the last action ended; what runs is named by the spec that was last applied.

mod field;
mod judge;
mod observed;
mod page;
mod planner;
mod render;

pub use field::{Change, Effect, effect_of};
pub use judge::{Fault, judge};
pub use observed::{Born, Observed, ObservedBeing, Phase};
pub use page::{FieldRow, field_rows, fields_page};
pub use planner::{Plan, Step, Verdict, plan};
pub use render::Summary;
