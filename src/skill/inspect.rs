use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    body::Body,
    fault::{Fault, Phase, Wrong},
    frame::{Ask, Names, Said},
    grant::Grant,
    host::{Host, Place, WorkError},
    python::GATE,
};

/// What the gate found in a body, and what the body declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    pub findings: Vec<Finding>,
    /// What the body needs to know before it can work: variables, and what each means.
    pub contract: BTreeMap<String, String>,
    pub integration: Option<Integration>,
    /// Whether it acts without predicting, as later bodies do.
    pub is_act_only: bool,
}

/// One finding of the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The criterion's name.
    pub code: String,
    /// The line of the body, from 1.
    pub line: u32,
    pub text: String,
    /// Whether the body is accepted all the same.
    pub is_advice: bool,
}

/// Which service a body works with, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integration {
    pub service: Option<String>,
    pub transport: String,
    pub config_vars: Vec<String>,
}

/// Transports that go over a network.
const REMOTE: [&str; 5] = ["http", "caldav", "imap", "smtp", "pop"];

impl Inspection {
    /// Whether the body is accepted.
    pub fn accepts(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_advice)
    }

    /// Whether a body that declares how it works leaves the network alone.
    pub(super) fn is_local(&self) -> bool {
        self.integration.as_ref().is_some_and(|declared| !REMOTE.contains(&declared.transport.as_str()))
    }
}

/// Judges a body by the acceptance gate: parses it, and where that finds nothing imports it, in a sandbox without anything to reach.
pub async fn inspect(place: &Place, body: &Body) -> Result<Inspection, WorkError> {
    let passing = tempfile::tempdir().map_err(WorkError::Folder)?;
    let grant = Grant::new(passing.path().to_owned()).bare();
    let mut host = Host::start(place, body, &grant).await?;
    let beside: Vec<PathBuf> = body.beside.clone();
    let names = Names { category: body.name.category(), leaf: body.name.leaf(), beside: &beside };
    let said = host.ask(Phase::Inspect, &Ask::Inspect { gate: GATE, names }).await?;
    let Said::Inspected(mut inspection) = said else { return Err(host.garbled("no inspection").into()) };
    inspection.contract = body.contract.clone().into_iter().chain(inspection.contract).collect();
    if inspection.accepts()
        && let Err(error) = host.ask(Phase::Load, &Ask::Load).await
    {
        let WorkError::Fault(fault) = error else { return Err(error) };
        inspection.findings.push(finding(body, &fault));
    }
    Ok(inspection)
}

fn finding(body: &Body, fault: &Fault) -> Finding {
    let text = match &fault.what {
        Wrong::Functions { text } | Wrong::Type { text } => format!("skill {} body is not complete: {text}", body.name),
        what => format!("skill {} body failed to import: {what}", body.name),
    };
    Finding { code: fault.code().to_owned(), line: fault.line.unwrap_or(1), text, is_advice: false }
}
