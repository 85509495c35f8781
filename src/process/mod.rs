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
//! - What a child writes to stderr takes a bounded amount of memory, and of the log: bursts of lines, then a few a second.
//! - A command is held by its [`Confinement`] from its first instruction on: [`Limits`], and a [`Sandbox`] where one is given.
//!
//! # How
//! The supervisor is this same binary in another mode ([`supervise`]), one small process per command. It declares itself the reaper
//! of orphans below it (`PR_SET_CHILD_SUBREAPER`) and holds a *pidfd* of its owner, which becomes readable when the owner is gone.
//! `PR_SET_PDEATHSIG` is not used: it fires when the *thread* that forked ends, and a runtime ends threads as it likes. A pidfd is of
//! the whole process, is inherited by nobody and cannot be held open by a third. The owner's pid is compared with `getppid` after the
//! pidfd was opened, so an owner that died in between is noticed too.
//!
//! The command is started by a step in between, again this binary, which does to itself what cannot be undone (`PR_SET_PDEATHSIG`, limits,
//! Landlock, seccomp) and then becomes the command: so nothing has to be done between `fork` and `exec`, where little may be.
//!
//! A supervisor that is killed itself takes the command along (`PR_SET_PDEATHSIG`, whose sender has one thread), and what descends from
//! it falls to the owner, which is a reaper of orphans too, and ends them. When owner and supervisors are all killed in one moment, the
//! command ends, and what it started sees its stdin close.
//!
//! # Assumptions
//! Linux 5.3 or newer with `/proc`; for a whole sandbox 6.2 with Landlock and seccomp ([`sandbox_support`]).
//!
//! # Costs
//! Two more execs of this binary and about 2 MB per command. Nothing ticks, but for a command whose processes are limited: these are
//! counted four times a second.

mod allowance;
mod backoff;
mod child;
mod confine;
mod daemon;
mod filter;
mod limits;
mod roots;
mod sandbox;
mod strays;
mod supervise;
mod tail;
mod tree;
mod veil;
mod voice;

pub use allowance::Allowance;
pub use backoff::Backoff;
pub use child::{Child, Spawn, SpawnError};
pub use confine::Confinement;
pub use daemon::{Daemon, DaemonStart, start_daemon};
pub use limits::Limits;
pub use sandbox::{Sandbox, SandboxSupport, sandbox_support};
pub use supervise::supervise;
pub use tail::Tail;
pub use veil::Veil;
pub use voice::Talk;
