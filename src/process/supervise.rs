use std::{
    ffi::OsString,
    io,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, kill_process_group, pidfd_open,
        set_child_subreaper, wait,
    },
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{
    Confinement,
    confine::{STEP, confined},
    tail::spoken,
    tree::{below, group},
};

/// The first argument that selects this mode.
pub(super) const MODE: &str = "supervise";
/// Leads how the command is held, as JSON.
pub(super) const CONFINE: &str = "--confine";

/// The command could not be found, as shells say it.
pub(super) const NOT_FOUND: u8 = 127;
/// The command could not be run, or the supervisor could not do its work.
pub(super) const NOT_RUN: u8 = 126;
/// The owner was gone before the command was started, or in its lifetime.
pub(super) const ORPHANED: u8 = 125;

/// The command had more processes than it may.
const CROWDED: u8 = 124;
/// How often the processes of a command are counted, where they are limited.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// This very binary, even when its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";

/// Runs one command for an owner and outlives neither: the hidden mode
/// `singularity supervise --parent PID [--confine CONFINEMENT] -- COMMAND…`.
///
/// The command is started by one more step of this mode, which takes what confines it and then becomes it.
///
/// Returns when the command has ended, when the owner (`PID`) is gone, or on SIGQUIT; by then every process below this one has been
/// killed and reaped. SIGTERM, SIGINT and SIGHUP are passed to the command's group as SIGTERM. The exit code is the command's.
pub fn supervise(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().peekable();
    if args.next_if(|word| word == STEP).is_some() {
        return confined(args);
    }
    let Some(Asked { owner, confinement, command }) = parse(args) else {
        return fail("usage: singularity supervise --parent PID [--confine CONFINEMENT] -- COMMAND…", NOT_RUN);
    };
    match Watch::new(owner, confinement.limits.processes.is_some()) {
        Ok(Some(mut watch)) => run(&command, &confinement, &mut watch),
        Ok(None) => ExitCode::from(ORPHANED),
        Err(error) => fail(&format!("cannot watch over `{}`: {error}", command_line(&command)), NOT_RUN),
    }
}

/// What the owner asked for.
#[derive(Debug)]
struct Asked {
    owner: Pid,
    confinement: Confinement,
    command: Vec<OsString>,
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Asked> {
    let mut args = args.into_iter().peekable();
    let named = args.next()? == "--parent";
    let owner = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    let confinement = match args.next_if(|word| word == CONFINE) {
        Some(_) => serde_json::from_str(args.next()?.to_str()?).ok()?,
        None => Confinement::default(),
    };
    let parted = args.next()? == "--";
    let command: Vec<OsString> = args.collect();
    (named && parted && !command.is_empty()).then_some(Asked { owner, confinement, command })
}

#[expect(clippy::disallowed_methods, reason = "processes are owned here")]
fn run(command: &[OsString], confinement: &Confinement, watch: &mut Watch) -> ExitCode {
    let held = serde_json::to_string(confinement).unwrap_or_default();
    let mut step = Command::new(SELF);
    step.args([MODE, STEP, &getpid().to_string(), &held, "--"]).args(command).process_group(0);
    let id = match step.spawn() {
        Ok(child) => i32::try_from(child.id()).ok().and_then(Pid::from_raw),
        Err(error) => return fail(&format!("cannot start `{}`: {error}", command_line(command)), NOT_RUN),
    };
    let Some(id) = id else { return ExitCode::from(NOT_RUN) };
    let code = follow(id, confinement.limits.processes, watch);
    sweep(id);
    code
}

/// Waits for whatever comes first, reaping orphans meanwhile.
fn follow(command: Pid, most: Option<u32>, watch: &mut Watch) -> ExitCode {
    loop {
        if let Some(status) = reap(command) {
            return ExitCode::from(code_of(status));
        }
        match watch.next() {
            Ok(Heard::OwnerGone | Heard::Quit) => return ExitCode::from(ORPHANED),
            Ok(Heard::Terminate) => {
                let _ = kill_process_group(command, Signal::TERM);
            }
            Ok(Heard::ChildEnded) => {}
            Ok(Heard::Nothing) => {
                let (count, most) = (below(getpid()).len(), most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX));
                if count > most {
                    return fail(
                        &format!("it had {count} processes, where its limits allow {most}; all of them are ended"),
                        CROWDED,
                    );
                }
            }
            Err(error) => return fail(&format!("cannot wait for the command: {error}"), NOT_RUN),
        }
    }
}

/// Reaps all that has ended; yields the command's status when it is among them.
fn reap(command: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    while let Ok(Some((id, status))) = wait(WaitOptions::NOHANG) {
        if id == command {
            ended = Some(status);
        }
    }
    ended
}

/// Kills and reaps until nothing is left below this process, at the cost of these processes alone.
///
/// The command's group goes first, and at one blow: the kernel lets no member of it fork meanwhile.
fn sweep(command: Pid) {
    loop {
        let found = below(getpid());
        if found.iter().any(|id| group(*id) == Some(command)) {
            let _ = kill_process_group(command, Signal::KILL);
        }
        for id in found {
            let _ = kill_process(id, Signal::KILL);
        }
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => drop(reap(command)),
            Err(_) => return,
        }
    }
}

fn code_of(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_RUN)
}

pub(super) fn command_line(command: &[OsString]) -> String {
    spoken(&command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
}

/// Says why on stderr, which the owner keeps the last lines of.
pub(super) fn fail(why: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "singularity: {why}");
    ExitCode::from(code)
}

/// What the supervisor can hear.
enum Heard {
    OwnerGone,
    Quit,
    Terminate,
    ChildEnded,
    /// It is time to count.
    Nothing,
}

/// All that the supervisor waits for, each as something to poll.
struct Watch {
    owner: OwnedFd,
    quit: UnixStream,
    terminate: UnixStream,
    child: UnixStream,
    counts: bool,
}

impl Watch {
    /// Becomes the reaper of orphans and listens. `None` when the owner is gone already.
    fn new(owner: Pid, counts: bool) -> io::Result<Option<Self>> {
        set_child_subreaper(Some(getpid()))?;
        let watch = Self {
            counts,
            quit: listen(&[SIGQUIT])?,
            terminate: listen(&[SIGTERM, SIGINT, SIGHUP])?,
            child: listen(&[SIGCHLD])?,
            owner: match pidfd_open(owner, PidfdFlags::empty()) {
                Ok(owner) => owner,
                Err(Errno::SRCH) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        Ok((getppid() == Some(owner)).then_some(watch))
    }

    /// Waits for the next thing, the gravest first.
    fn next(&mut self) -> io::Result<Heard> {
        let patience = if self.counts { Timespec::try_from(COUNT_EVERY).ok() } else { None };
        loop {
            let mut fds = [self.owner.as_fd(), self.quit.as_fd(), self.terminate.as_fd(), self.child.as_fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, patience.as_ref()) {
                Ok(0) => return Ok(Heard::Nothing),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [owner, quit, terminate, child] = fds.map(|fd| !fd.revents().is_empty());
            if owner {
                return Ok(Heard::OwnerGone);
            }
            if quit {
                return Ok(Heard::Quit);
            }
            if terminate {
                return empty(&mut self.terminate).map(|()| Heard::Terminate);
            }
            if child {
                return empty(&mut self.child).map(|()| Heard::ChildEnded);
            }
        }
    }
}

/// Turns signals into bytes on a stream, so that they can be waited for beside all else.
fn listen(signals: &[i32]) -> io::Result<UnixStream> {
    let (heard, sender) = UnixStream::pair()?;
    heard.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, sender.try_clone()?)?;
    }
    Ok(heard)
}

fn empty(stream: &mut UnixStream) -> io::Result<()> {
    let mut buffer = [0_u8; 64];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_keeps_its_own_dashes() {
        let asked = parse(words("--parent 7 -- sh -c -- x")).unwrap();
        assert_eq!(asked.owner.as_raw_nonzero().get(), 7);
        assert_eq!((asked.command, asked.confinement), (words("sh -c -- x"), Confinement::default()));
        for bad in ["", "--parent", "--parent 7", "--parent 7 --", "--parent x -- sh", "--parent 7 sh", "--parent 0 -- sh"] {
            assert!(parse(words(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_command_whose_confinement_cannot_be_read_is_not_run_without() {
        let confined = r#"--parent 7 --confine {"limits":{"processes":3}} -- sh"#;
        assert_eq!(parse(words(confined)).unwrap().confinement.limits.processes, Some(3));
        for bad in ["--parent 7 --confine -- sh", r#"--parent 7 --confine {"limit":{}} -- sh"#] {
            assert!(parse(words(bad)).is_none(), "{bad}");
        }
    }
}
