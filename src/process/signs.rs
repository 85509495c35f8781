use std::fs;

/// What the kernel shows of its means to confine processes, looked at from outside; nothing is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxSigns {
    /// `None` where the kernel does not say.
    pub landlock: Option<bool>,
    /// `None` where the kernel does not say.
    pub seccomp: Option<bool>,
}

impl SandboxSigns {
    /// Looks at what the kernel shows.
    pub fn read() -> Self {
        let landlock = fs::read_to_string("/sys/kernel/security/lsm").ok();
        let landlock = landlock.map(|modules| modules.trim().split(',').any(|module| module == "landlock"));
        let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").ok();
        Self { landlock, seccomp: actions.map(|actions| actions.split_whitespace().any(|action| action == "errno")) }
    }
}
