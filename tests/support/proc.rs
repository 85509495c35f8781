//! Processes as `/proc` shows them.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

use super::{SOON, wait_until};

/// A process at one moment; `started` tells it from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub started: u64,
    pub command: String,
}

impl Process {
    /// Reads a process; `None` when there is none, or only its zombie.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name in parentheses, which may hold anything: state, parent, …, start time as the 20th.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let (state, parent, started) = (*fields.first()?, fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        (state != "Z").then_some(Self { pid, parent, started, command })
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Whether it runs this program.
    pub fn runs(&self, program: &Path) -> bool {
        fs::read_link(format!("/proc/{}/exe", self.pid)).is_ok_and(|exe| exe == program)
    }

    /// Ends it by SIGKILL, if it still runs, and waits until it holds nothing any more: no lock, and no socket.
    pub fn kill(&self) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            let _ = kill_process(pid, Signal::KILL);
            wait_until(SOON, "a killed process is gone", || self.is_over());
        }
    }

    /// Whether all its threads have ended. One that was killed lets go of its files after its command line and its leader are gone.
    fn is_over(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, |threads| threads.flatten().count());
        !self.is_alive() && threads <= 1
    }
}

/// Every process that can be seen.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The processes below `pid`, however deep.
pub fn descendants(pid: i32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|process| process.parent == parent && !found.contains(process));
        let children: Vec<Process> = children.cloned().collect();
        parents.extend(children.iter().map(|child| child.pid));
        found.extend(children);
    }
    found
}

/// The processes whose command, environment or working folder mentions `path`, this one aside.
pub fn mentioning(path: &Path) -> Vec<Process> {
    let wanted = path.as_os_str().as_encoded_bytes();
    let holds = |text: &[u8]| text.windows(wanted.len()).any(|window| window == wanted);
    let mentions = |pid: i32| {
        ["cmdline", "environ"].iter().any(|file| fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|text| holds(&text)))
            || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(path))
    };
    let myself = i32::try_from(std::process::id()).unwrap_or_default();
    all().into_iter().filter(|process| process.pid != myself && mentions(process.pid)).collect()
}
