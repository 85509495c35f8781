use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, kill_process_group, pidfd_open,
        set_child_subreaper, wait,
    },
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The first argument that selects this mode.
pub(super) const MODE: &str = "supervise";

/// The command could not be found, as shells say it.
const NOT_FOUND: u8 = 127;
/// The command could not be run, or the supervisor could not do its work.
const NOT_RUN: u8 = 126;
/// The owner was gone before the command was started, or in its lifetime.
const ORPHANED: u8 = 125;

/// Runs one command for an owner and outlives neither: the hidden mode `singularity supervise --parent PID -- COMMAND…`.
///
/// Returns when the command has ended, when the owner (`PID`) is gone, or on SIGQUIT; by then every process below this one has been
/// killed and reaped. SIGTERM, SIGINT and SIGHUP are passed to the command's group as SIGTERM. The exit code is the command's.
pub fn supervise(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some((owner, command)) = parse(args) else {
        return fail("usage: singularity supervise --parent PID -- COMMAND…", NOT_RUN);
    };
    match Watch::new(owner) {
        Ok(Some(mut watch)) => run(&command, &mut watch),
        Ok(None) => ExitCode::from(ORPHANED),
        Err(error) => fail(&format!("cannot watch over `{}`: {error}", command_line(&command)), NOT_RUN),
    }
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Option<(Pid, Vec<OsString>)> {
    let mut args = args.into_iter();
    let named = args.next()? == "--parent";
    let owner = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    let parted = args.next()? == "--";
    let command: Vec<OsString> = args.collect();
    (named && parted && !command.is_empty()).then_some((owner, command))
}

#[expect(clippy::disallowed_methods, reason = "processes are owned here")]
fn run(command: &[OsString], watch: &mut Watch) -> ExitCode {
    let Some((program, args)) = command.split_first() else { return ExitCode::from(NOT_RUN) };
    let started = Command::new(program).args(args).process_group(0).spawn();
    let id = match started {
        Ok(child) => i32::try_from(child.id()).ok().and_then(Pid::from_raw),
        Err(error) => {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
            return fail(&format!("cannot start `{}`: {error}", command_line(command)), code);
        }
    };
    let Some(id) = id else { return ExitCode::from(NOT_RUN) };
    let code = follow(id, watch);
    sweep();
    code
}

/// Waits for whatever comes first, reaping orphans meanwhile.
fn follow(command: Pid, watch: &mut Watch) -> ExitCode {
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

/// Kills and reaps until nothing is left below this process.
fn sweep() {
    loop {
        for id in descendants() {
            let _ = kill_process(id, Signal::KILL);
        }
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Every process below this one, by a walk through `/proc`.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(id) = id else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
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

/// The parent's id in a line of `/proc/PID/stat`, where the name before it may hold anything.
fn parent_in(stat: &str) -> Option<Pid> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
}

fn code_of(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_RUN)
}

fn command_line(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Says why on stderr, which the owner keeps the last lines of.
fn fail(why: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "singularity: {why}");
    ExitCode::from(code)
}

/// What the supervisor can hear.
enum Heard {
    OwnerGone,
    Quit,
    Terminate,
    ChildEnded,
}

/// All that the supervisor waits for, each as something to poll.
struct Watch {
    owner: OwnedFd,
    quit: UnixStream,
    terminate: UnixStream,
    child: UnixStream,
}

impl Watch {
    /// Becomes the reaper of orphans and listens. `None` when the owner is gone already.
    fn new(owner: Pid) -> io::Result<Option<Self>> {
        set_child_subreaper(Some(getpid()))?;
        let watch = Self {
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
        loop {
            let mut fds = [self.owner.as_fd(), self.quit.as_fd(), self.terminate.as_fd(), self.child.as_fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, None) {
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
        let (owner, command) = parse(words("--parent 7 -- sh -c -- x")).unwrap();
        assert_eq!(owner.as_raw_nonzero().get(), 7);
        assert_eq!(command, words("sh -c -- x"));
        for bad in ["", "--parent", "--parent 7", "--parent 7 --", "--parent x -- sh", "--parent 7 sh", "--parent 0 -- sh"] {
            assert!(parse(words(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_process_cannot_hide_its_parent_behind_its_name() {
        let stat = "42 (evil) R 1 (x)) S 7 42 42 0 -1 4194560";
        assert_eq!(parent_in(stat), Pid::from_raw(7));
        assert_eq!(parent_in(""), None);
    }
}
