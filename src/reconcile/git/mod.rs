//! Git as a source of manifests: a branch is fetched, verified, and set down in the home.
//!
//! **Flow.** [`Fetcher::fetch`] asks where the branch is; where it is elsewhere than it was, its commits are fetched into a repository of the source's own,
//! and what the newest one holds is bounded, verified where that is asked, and read. Nothing that runs knows of it yet: the reconciler decides whether the texts validate,
//! then [`Fetcher::place`] sets the files down in `tree`, and a [`Record`] of them is kept. What is in force is what the record says, so a
//! daemon that cannot reach the repository begins with it.
//!
//! **Guarantees.** `git` sees none of the settings of this user or machine: no hooks, no credential helpers, no filters. It asks nobody
//! anything, speaks only known protocols, and ends with the daemon. Links of a commit are set down as plain files. A commit that does not descend from the
//! one in force is taken only where the source says so. A fetch that was killed leaves nothing that a later one stands on.
//!
//! **Assumptions.** `git` 2.34 or later on the daemon's `PATH`, `ssh` for addresses that need it, `ssh-keygen` where commits are verified.

mod command;
mod error;
mod fetch;
mod record;

pub(super) use command::Git;
pub(super) use error::FetchError;
pub(super) use fetch::{Fetched, Fetcher, short};
pub(super) use record::{Record, Records, is_same_place};
