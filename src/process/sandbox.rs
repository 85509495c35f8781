use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use landlock::{
    ABI, Access, AccessFs, LandlockStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
    path_beneath_rules,
};
use rustix::thread::{CapabilitySet, clear_ambient_capability_set, remove_capability_from_bounding_set};
use serde::{Deserialize, Serialize};

use super::{filter, roots};

/// The newest rules that are asked for; an older kernel keeps those that it knows.
const NEWEST: ABI = ABI::V6;
/// The oldest rules without a gap: before them a file outside could be emptied.
const OLDEST: u32 = 3;

/// What a command may reach. All that is not named is refused: files outside, sockets, other processes, and the system calls that no
/// server needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    pub network: bool,
    /// Files and folders that may be read and run, beside the system's and the program's own.
    pub read: Vec<PathBuf>,
    /// Files and folders that may be read, written and run.
    pub write: Vec<PathBuf>,
    /// Whether it stays alone: it may start threads, and no other process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Whether a kernel that cannot keep it is an error.
    pub require: bool,
}

/// What of a sandbox this kernel can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxSupport {
    /// The version of Landlock's rules; `None` where the kernel has none, or does not let them be used.
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

/// Why a sandbox was not put up.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    #[error("the sandbox is required, but {0}; take a newer kernel, or say require = false")]
    Unsupported(SandboxSupport),
    #[error("cannot open `{}`, which the sandbox names; make it, or take it out", path.display())]
    NoPath {
        path: PathBuf,
        #[source]
        source: landlock::PathFdError,
    },
    #[error("Landlock refused the rules")]
    Rules(#[from] RulesetError),
    #[error("seccomp refused the filter")]
    Filter(#[from] seccompiler::Error),
    #[error("cannot make the filter of system calls")]
    NoFilter(#[from] seccompiler::BackendError),
}

impl SandboxSupport {
    /// Whether a sandbox holds here without a gap.
    pub const fn is_whole(self) -> bool {
        self.seccomp && matches!(self.landlock, Some(version) if version >= OLDEST)
    }
}

impl fmt::Display for SandboxSupport {
    /// What lacks, or that nothing does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = match self.landlock {
            None => Some("this kernel has no Landlock, by which files are held".to_owned()),
            Some(version) if version < OLDEST => {
                Some(format!("this kernel has Landlock {version}, which lets files outside be emptied; {OLDEST} does not"))
            }
            Some(_) => None,
        };
        let calls = (!self.seccomp).then(|| "this kernel has no seccomp, by which the network is held".to_owned());
        match (files, calls) {
            (Some(files), Some(calls)) => write!(f, "{files}, and {calls}"),
            (Some(one), None) | (None, Some(one)) => f.write_str(&one),
            (None, None) => f.write_str("this kernel keeps sandboxes whole"),
        }
    }
}

/// What of a sandbox this kernel can keep: tried once, by a thread that ends with it.
pub fn sandbox_support() -> SandboxSupport {
    static FOUND: OnceLock<SandboxSupport> = OnceLock::new();
    let none = SandboxSupport { landlock: None, seccomp: false };
    *FOUND.get_or_init(|| std::thread::spawn(probe).join().unwrap_or(none))
}

fn probe() -> SandboxSupport {
    let status = ruleset().and_then(RulesetCreated::restrict_self);
    let landlock = match status.map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => (1..=10).find(|version| ABI::from(*version) == effective_abi),
        _ => None,
    };
    let seccomp = filter::idle().is_ok_and(|idle| seccompiler::apply_filter(&idle).is_ok());
    SandboxSupport { landlock: landlock.and_then(|version| u32::try_from(version).ok()), seccomp }
}

fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?.create()
}

/// Gives up what root may beyond others, for good: with it, the memory of processes outside could be read. Any other user has none of it,
/// and gains none.
fn without_privileges() {
    for one in CapabilitySet::all().iter() {
        // The kernel may not know it, and who has no privilege has none to give up.
        let _ = remove_capability_from_bounding_set(one);
    }
    let _ = clear_ambient_capability_set();
}

impl Sandbox {
    /// Puts this thread, and all that it starts or becomes, into the sandbox, for good.
    pub(super) fn enter(&self, program: &OsStr, path: &OsStr) -> Result<(), SandboxError> {
        let support = sandbox_support();
        if self.require && !support.is_whole() {
            return Err(SandboxError::Unsupported(support));
        }
        let (read, all) = (AccessFs::from_read(NEWEST), AccessFs::from_all(NEWEST));
        for path in self.read.iter().chain(&self.write) {
            landlock::PathFd::new(path).map_err(|source| SandboxError::NoPath { path: path.clone(), source })?;
        }
        let own = roots::of_program(program, path);
        let own = own.iter().map(PathBuf::as_path).chain(roots::SYSTEM.map(Path::new));
        let write = self.write.iter().map(PathBuf::as_path).chain(roots::DEVICES.map(Path::new));
        ruleset()?
            .add_rules(path_beneath_rules(own.chain(self.read.iter().map(PathBuf::as_path)), read))?
            .add_rules(path_beneath_rules(write, all))?
            .restrict_self()?;
        without_privileges();
        if support.seccomp {
            for filter in filter::filters(self.network, self.alone)? {
                seccompiler::apply_filter(&filter)?;
            }
        }
        Ok(())
    }
}
