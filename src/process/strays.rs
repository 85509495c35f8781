//! What a supervisor that was killed itself leaves to its owner.

use std::{
    collections::HashSet,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, WaitOptions, getpgrp, getpid, kill_process, set_child_subreaper, waitpid};

use super::tree::{children, group};

/// How often what was killed may turn out to have left others.
const MAX_PASSES: usize = 1_000;

/// The supervisors that this process started and has not reaped yet.
static SUPERVISORS: Mutex<Option<HashSet<Pid>>> = Mutex::new(None);

fn supervisors() -> MutexGuard<'static, Option<HashSet<Pid>>> {
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a supervisor and keeps its id in mind. From the first on, this process is who adopts what a killed supervisor held.
pub(super) fn keep<T>(start: impl FnOnce() -> io::Result<T>, id: impl FnOnce(&T) -> Option<Pid>) -> io::Result<T> {
    let mut known = supervisors();
    let known = match &mut *known {
        Some(known) => known,
        none => {
            set_child_subreaper(Some(getpid()))?;
            none.insert(HashSet::new())
        }
    };
    let started = start()?;
    known.extend(id(&started));
    Ok(started)
}

/// A supervisor was reaped.
pub(super) fn forget(id: Pid) {
    if let Some(known) = &mut *supervisors() {
        known.remove(&id);
    }
}

/// Kills and reaps what was adopted: children that are no supervisors, in groups of their own. Others that this process started are in
/// its own group.
pub(super) fn sweep() {
    let mut known = supervisors();
    let Some(known) = &mut *known else { return };
    for _ in 0..MAX_PASSES {
        let children = children(getpid()).unwrap_or_default();
        known.retain(|id| children.contains(id));
        let is_stray = |id: &Pid| !known.contains(id) && group(*id).is_some_and(|group| group != getpgrp());
        let strays: Vec<Pid> = children.into_iter().filter(is_stray).collect();
        if strays.is_empty() {
            return;
        }
        for id in strays {
            let _ = kill_process(id, Signal::KILL);
            let _ = waitpid(Some(id), WaitOptions::empty());
        }
    }
}
