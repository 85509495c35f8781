use std::{
    ffi::OsString,
    fs::OpenOptions,
    io,
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A daemon that is to outlive this process.
#[derive(Debug, Clone)]
pub struct DaemonStart {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Where its talk is appended, owner-only.
    pub log: PathBuf,
    pub cwd: PathBuf,
}

/// A daemon that was started.
#[derive(Debug)]
pub struct Daemon(std::sync::Mutex<Child>);

/// Starts a daemon in a process group of its own, with the whole environment, which its secrets may come from.
///
/// It belongs to nobody: the process that started it may end first.
#[expect(clippy::disallowed_methods, reason = "the one process that is not a child to be kept: it must outlive us")]
pub fn start_daemon(start: &DaemonStart) -> io::Result<Daemon> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&start.log)?;
    let mut command = Command::new(&start.program);
    command.args(&start.args).current_dir(&start.cwd).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    Ok(Daemon(std::sync::Mutex::new(command.spawn()?)))
}

impl Daemon {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.lock().map_or(0, |child| child.id())
    }

    /// Tells whether it has ended already.
    pub fn has_ended(&self) -> bool {
        self.0.lock().is_ok_and(|mut child| child.try_wait().is_ok_and(|status| status.is_some()))
    }
}
