use std::{
    error::Error,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::{
    Limits, Sandbox,
    supervise::{NOT_FOUND, NOT_RUN, ORPHANED, command_line, fail},
};
use crate::vocab::chain;

/// The first word that selects this step of the supervisor's mode.
pub(super) const STEP: &str = "--become";

/// How a command is held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Confinement {
    pub limits: Limits,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Becomes the command, confined: `--become SUPERVISOR CONFINEMENT -- COMMAND…`.
///
/// A process of its own, between the supervisor and the command, because what it does cannot be undone: it asks to be killed when the
/// supervisor is, takes the limits, enters the sandbox, and makes way for the command.
pub(super) fn confined(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let supervisor = args.next().and_then(|id| id.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let confinement = args.next().and_then(|text| serde_json::from_str::<Confinement>(text.to_str()?).ok());
    let (parted, command) = (args.next().is_some_and(|word| word == "--"), args.collect::<Vec<_>>());
    let (Some(supervisor), Some(confinement), true, Some((program, args))) =
        (supervisor, confinement, parted, command.split_first())
    else {
        return fail("this step is the supervisor's own", NOT_RUN);
    };
    let asked = set_parent_process_death_signal(Some(Signal::KILL));
    if asked.is_err() || getppid() != Some(supervisor) {
        return ExitCode::from(ORPHANED);
    }
    if let Err(error) = confinement.take(program) {
        return refuse(&command, &*error, NOT_RUN);
    }
    #[expect(clippy::disallowed_methods, reason = "processes are owned here")]
    let error = Command::new(program).args(args).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
    refuse(&command, &error, code)
}

fn refuse(command: &[OsString], error: &(dyn Error + 'static), code: u8) -> ExitCode {
    fail(&format!("cannot start `{}`: {}", command_line(command), chain(error)), code)
}

impl Confinement {
    fn take(&self, program: &OsStr) -> Result<(), Box<dyn Error>> {
        if let Some(sandbox) = &self.sandbox {
            #[expect(clippy::disallowed_methods, reason = "the command's own environment: the program is looked for as it will be")]
            let path = std::env::var_os("PATH").unwrap_or_default();
            sandbox.enter(program, &path)?;
        }
        Ok(self.limits.impose()?)
    }
}
