//! Where lives are kept: the [`Home`], its locks, and for each being a journal with its newest picture.
//!
//! # Expected flow
//!
//! [`Life::open`] takes the lock of a state directory and reads the picture and what the journal has beyond it; [`Opening::begin`] records
//! `started` and hands the state over. [`Life::append`] makes facts durable; only then may their effects follow. [`Life::checkpoint`] draws a new
//! picture, when [`Life::wants_checkpoint`] says that the journal outgrew the old one. [`peek`], [`read_journal`], [`verify`] and [`survey`] only look.
//!
//! The journal is `activity.jsonl`. When that is long, a checkpoint closes it as `activity-<first>-<last>.jsonl`, which is then
//! compressed (`.gz`, for `zcat` and the like), and begins a new one: to go on with a life, only the picture and what lies behind it are
//! read.
//!
//! # Guarantees
//!
//! - What was acknowledged outlives a crash of the process, of the machine, and a full disk; nothing is applied twice.
//! - The journal is the truth. `state.json` is made from it and is accepted only if a `checkpoint` in it carries its SHA-256, so a
//!   picture may be older than the newest checkpoint (a crash in between), may be missing, but may not be edited. A picture without a
//!   journal is refused: to go on from it would drop every id that made a grant or a credit count once.
//! - A call that was begun and has no recorded end is told at every opening until its end is recorded, whatever checkpoints lie between.
//! - A refusal to open changes nothing.
//!
//! # One sync for many lives
//!
//! A daemon's lives share a [`CommitLog`]: whoever appends writes its journal without a sync and waits until its lines are durable in the
//! log, which takes all that wait with one write and one `fdatasync`. Journals are synced when a picture is drawn, when a life ends, and
//! all at once (`syncfs`) before a segment of the log is used again. After a crash the journals are brought up to the log before any life is
//! opened; a life alone (`run`, `once`) syncs its journal itself. What a log holds of a life that has let go is not looked at any more.
//!
//! # What a torn tail is
//!
//! A record is acknowledged once the write that brought it was synced, and the next write begins only then. So a power cut can hurt
//! the last write only: cut it anywhere, or leave any of its sectors zero, in any order. Its first bad line is taken for torn, and cut
//! off with all that follows, if
//!
//! - it has no newline; unless all of it but the last byte is a whole record, for then that byte was a newline that was changed; or
//! - it has zeros from its beginning, or from where a sector begins, to where a sector ends;
//!
//! and if no record follows that was written later. To know that, a record that was not the first of its write names the first:
//! `"with":7`. Everything else is damage of an acknowledged record and is refused with its byte: a wrong sum in a line that ends as it
//! should, a gap, a repeat. Records that the picture covers have their sum, order and type checked; they are not decoded again.
//!
//! # Rescue
//!
//! [`survey`] reads on where the others refuse, and tells what is whole before and behind the damage. [`repair`] keeps the records before it in a
//! new folder, which takes the place of the damaged one in one step; that one stays beside it. Where a whole checkpoint behind the damage names
//! the picture, the state is known though its history is not, and an `adopted` record carries it over. [`adopt`] writes the same record for a picture
//! that was edited on purpose. [`export`] and [`import`] move a life in one file.
//!
//! # Assumptions
//!
//! The file system does not show another file's old content after a power cut (ext4 in its default mode, XFS, btrfs and others), and a
//! sector is written whole. Whoever opens a life has the only clock.
//!
//! # Costs
//!
//! One write and one `fdatasync` for each `append`, or a part of one where a log is shared. Opening reads the picture and the file in use, at most about 1 MiB, in flat memory;
//! damage of a closed file is told when it is read: by [`verify`], by [`read_journal`], or where the picture is missing.
//!
//! # Errors
//!
//! After a failed write or sync a life is poisoned: a second sync could succeed without the data, so nothing more is acknowledged, the
//! unacknowledged bytes are cut off if that can be done, and the being must be opened anew. A failed picture loses nothing.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use singularity::{being::{Birth, Event, Identity, Mind}, store::{Boot, Life, peek}, vocab::{Timestamp, Usd}};
//! # let place = tempfile::tempdir()?;
//! # let (dir, now) = (place.path().join("ada"), Timestamp::UNIX_EPOCH);
//! # let text = |text: &str| text.to_owned();
//! # let hex = "0".repeat(64);
//! # let identity = Identity { agent_id: text("ada"), name: text("ada"), ticker: text("ADA"), agent_type: text("being"),
//! #     specialty: text("art"), role: text("worker"), environment: text("test"), host: text("here"), workload_id: text("w"),
//! #     workload_public_key: hex.clone(), executable_digest: hex.clone(), code_digest: hex.clone(), policy_digest: hex, policy_sequence: 1 };
//! # let birth = Birth { identity, mind: Mind::new(text("Be."), text("smol")), starting: Usd::ZERO };
//! let opening = Life::open(&dir, Boot::Fresh { birth: Box::new(birth) })?;
//! let (mut life, mut state, recovered) = opening.begin(now)?;
//! assert!(recovered.open_calls.is_empty());
//! let granted = Event::FundsGranted { id: "2026-12".into(), usd: "25".parse()? };
//! for record in life.append(&[granted], 0, now).await? {
//!     state.apply(&record);
//! }
//! life.close(&state, now).await?;
//! assert_eq!(peek(&dir)?.map(|state| state.budget.remaining.to_string()), Some("25".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod adopt;
mod archive;
mod audit;
mod commit;
mod error;
mod folder;
mod home;
mod journal;
mod keep;
mod kin;
mod life;
mod line;
mod lock;
mod log;
mod mend;
mod observe;
mod picture;
mod repair;
mod replay;
mod rescue;
mod scan;
mod segment;
mod survey;

pub use access::AccessError;
pub use adopt::{Adoption, Kept, adopt};
pub use archive::{Exported, export, import};
pub use audit::{Audit, AuditEntry, AuditError, AuditLog, AuditOutcome, AuditRecord, read_audit};
pub use commit::CommitLog;
pub use error::StoreError;
pub use home::{Home, HomeError};
pub use journal::blocking;
pub use keep::{KeepError, read_json, write_json};
pub use kin::{Lying, child_dir, dir_of, lives};
pub use life::{Boot, Life, Opening, Recovered, remove};
pub use line::Flaw;
pub use lock::{Lock, LockError};
pub use observe::{Line, Lines, Start, Verified, peek, read_journal, verify};
pub use repair::{Done, Repair, repair};
pub use rescue::RescueError;
pub use survey::{Damage, Lost, Sight, Spot, Survey, survey};

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::as_conversions,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests damage files by hand, count small things and tell why they are skipped"
)]
mod tests;
