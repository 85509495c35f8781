//! Processes below this one, as `/proc` shows them.

use std::{collections::HashMap, fs};

use rustix::process::{Pid, getpid};

/// Every process below this one, by a walk through all of `/proc`.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(id) = id else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some((parent, _)) = kin_in(&stat) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = children.remove(&getpid()).unwrap_or_default();
    let mut seen = 0;
    while let Some(id) = found.get(seen) {
        found.extend(children.remove(id).unwrap_or_default());
        seen += 1;
    }
    found
}

/// The processes below one, at the cost of these alone. A kernel that lists no children has the whole of `/proc` walked.
pub(super) fn below(id: Pid) -> Vec<Pid> {
    let Some(mut found) = children(id) else { return descendants() };
    let mut seen = 0;
    while let Some(id) = found.get(seen) {
        found.extend(children(*id).unwrap_or_default());
        seen += 1;
    }
    found
}

/// The children of a process, of all its threads.
pub(super) fn children(id: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{}/task", id.as_raw_nonzero())).ok()?.flatten() {
        // A thread may have ended meanwhile; its children are then another's.
        let listed = fs::read_to_string(thread.path().join("children")).ok()?;
        found.extend(listed.split_ascii_whitespace().filter_map(|id| id.parse().ok().and_then(Pid::from_raw)));
    }
    Some(found)
}

/// The group of a process.
pub(super) fn group(id: Pid) -> Option<Pid> {
    kin_in(&fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).ok()?).map(|(_, group)| group)
}

/// The parent's id and the group's in a line of `/proc/PID/stat`, where the name before them may hold anything.
fn kin_in(stat: &str) -> Option<(Pid, Pid)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(1);
    let mut id = || fields.next()?.parse().ok().and_then(Pid::from_raw);
    Some((id()?, id()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_hide_its_parent_behind_its_name() {
        let stat = "42 (evil) R 1 (x)) S 7 43 42 0 -1 4194560";
        assert_eq!(kin_in(stat), Pid::from_raw(7).zip(Pid::from_raw(43)));
        assert_eq!(kin_in(""), None);
    }
}
