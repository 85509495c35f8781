//! Words that every other room speaks: checked names, money, digests, ratios, sizes, spans of time, hours and rows of instants. Nothing here acts.

mod chain;
mod cron;
mod day;
mod digest;
mod hold;
mod hours;
mod money;
mod name;
mod ratio;
mod size;
mod skill_name;
mod span;
mod zone;

pub use chain::chain;
pub use cron::{BadCron, Cron};
pub use day::{day_of, next_day};
pub use digest::{BadDigest, Digest};
pub use hold::{BadReason, Hold, Operator, Reason};
pub use hours::{BadHours, Hours};
pub use money::{BadUsd, Usd};
pub use name::{Address, BadAddress, BadName, Kind, Name};
pub use ratio::{BadRatio, Ratio};
pub use size::{BadSize, Size};
pub use skill_name::{BadSkillName, SkillName};
pub use span::{BadSpan, Span};
pub use zone::{BadZone, Zone};

/// An instant, in UTC, written as RFC 3339.
pub use jiff::Timestamp;
/// A day of the calendar, written as `2026-12-31`.
pub use jiff::civil::Date;
