use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::vocab::{Size, Span};

/// What a command may take of the machine. What is `None` is not limited; core dumps are off in any case, for memory holds secrets.
///
/// All but `processes` are the kernel's own and hold for each process by itself, also for those that it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory of its own that a process can write (`RLIMIT_DATA`): address space that is only reserved, as Node does, is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Time on a core in a process's whole life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Span>,
    /// Files and connections that a process has open at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u32>,
    /// The largest file that a process may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Size>,
    /// Processes of the command and all that descends from it. The kernel counts by user, so the supervisor counts instead, and ends
    /// a command that has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
}

impl Limits {
    /// Puts them on this process, for good.
    pub(super) fn impose(&self) -> rustix::io::Result<()> {
        let seconds = self.cpu.map(|span| span.as_millis().div_ceil(1_000).max(1));
        let wanted = [
            (Resource::Core, Some(0)),
            (Resource::Data, self.memory.map(Size::as_bytes)),
            (Resource::Cpu, seconds),
            (Resource::Nofile, self.open_files.map(u64::from)),
            (Resource::Fsize, self.file_size.map(Size::as_bytes)),
        ];
        for (resource, most) in wanted.into_iter().filter_map(|(resource, most)| Some((resource, most?))) {
            // A hard limit that is lower already stays: raising it needs a right that most users lack.
            let most = rustix::process::getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        Ok(())
    }
}
