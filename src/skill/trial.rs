use super::{
    body::{Body, BodyError, read},
    fault::{Fault, Phase},
    frame::{Ask, Said},
    grant::{Grant, Peer},
    host::{Host, Place, WorkError},
};
use crate::vocab::Span;

/// How a skill's test went.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Why it failed; `None` where it passed.
    pub fault: Option<Fault>,
    /// What it printed: the last lines.
    pub lines: Vec<String>,
}

/// How long a test may take.
const PATIENCE: Span = Span::from_secs(30);

/// Runs `skill.test.py` beside a body, as a script in that folder: it reads the folder, writes passing files in a folder of its own, and
/// reaches nothing but servers that it starts itself on this machine.
pub async fn test(place: &Place, body: &Body) -> Result<Result<Trial, WorkError>, BodyError> {
    let file = body.test_file();
    let script = Body { source: read(&file)?, file, ..body.clone() };
    Ok(tried(place, &script).await)
}

async fn tried(place: &Place, script: &Body) -> Result<Trial, WorkError> {
    let passing = tempfile::tempdir().map_err(WorkError::Folder)?;
    let grant = Grant {
        read: vec![script.folder().to_owned()],
        write: vec![passing.path().to_owned()],
        network: vec![Peer { host: "loopback".to_owned(), port: None }],
        wall: PATIENCE,
        ..Grant::new(script.folder().to_owned())
    };
    let mut host = Host::start(place, script, &grant).await?;
    let fault = match host.ask(Phase::Test, &Ask::Script).await {
        Ok(Said::Passed) => None,
        Ok(_) => Some(host.garbled("no verdict")),
        Err(WorkError::Fault(fault)) => Some(fault),
        Err(error) => return Err(error),
    };
    Ok(Trial { fault, lines: host.end().await })
}
