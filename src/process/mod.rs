//! Owned children: processes that nobody forgets.
//!
//! # Expected flow
//! [`Spawn`] says what to run; [`Spawn::start`] runs it under a *supervisor* and yields a [`Child`] with its pipes and the last lines
//! of its stderr. [`Child::stop`] ends it politely, dropping the handle ends it at once. [`Backoff`] says how long to wait before
//! the next attempt.
//!
//! # Guarantees
//! - The command sees exactly the environment that was given, and is led by a process group of its own.
//! - When the command ends, is stopped, or its owner dies (SIGKILL included), every process that descends from it ends too, whatever
//!   groups and sessions it made, and none is left as a zombie.
//! - What a child writes to stderr takes a bounded amount of memory.
//!
//! # How
//! The supervisor is this same binary in another mode ([`supervise`]), one small process per command. It declares itself the reaper
//! of orphans below it (`PR_SET_CHILD_SUBREAPER`) and holds a *pidfd* of its owner, which becomes readable when the owner is gone.
//! `PR_SET_PDEATHSIG` is not used: it fires when the *thread* that forked ends, and a runtime ends threads as it likes. A pidfd is of
//! the whole process, is inherited by nobody and cannot be held open by a third. The owner's pid is compared with `getppid` after the
//! pidfd was opened, so an owner that died in between is noticed too.
//!
//! # Assumptions
//! Linux 5.3 or newer with `/proc`. The supervisor itself is not killed by SIGKILL on its own: what it held then falls to the next
//! supervisor above (that of Las), or sees its stdin close.
//!
//! # Costs
//! One more exec of this binary and about 2 MB per command; nothing ticks.

mod backoff;
mod child;
mod daemon;
mod signs;
mod supervise;
mod tail;

pub use backoff::Backoff;
pub use child::{Child, Spawn, SpawnError};
pub use daemon::{Daemon, DaemonStart, start_daemon};
pub use signs::SandboxSigns;
pub use supervise::supervise;
pub use tail::Tail;
