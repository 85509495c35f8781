use std::sync::Arc;

use super::{
    args::{Doctor, Format},
    context::{Context, print},
    failure::{Class, Failure},
    single::One,
    table::table,
};
use crate::runtime::{Area, Diagnosis, Finding, FindingState, diagnose};

/// Looks at all that a being needs, and fails by the first thing that is bad.
pub(super) async fn doctor(context: &Context, arguments: &Doctor) -> Result<(), Failure> {
    let one = One::choose(context, &arguments.single.which)?;
    let (ground, _passing) = context.look_ground(&one.fleet)?;
    let ground = Arc::new(ground);
    let diagnosis = Box::pin(diagnose(&ground, &one.assignment, &one.fleet.models)).await;
    print(&rendered(&diagnosis, arguments.output)?)?;
    let bad: Vec<&Finding> = diagnosis.findings.iter().filter(|finding| finding.state == FindingState::Bad).collect();
    let Some(first) = bad.first() else { return Ok(()) };
    let class = match first.area {
        Area::Configuration => Class::Configuration,
        Area::Upstream => Class::Upstream,
        Area::State => Class::State,
        Area::Runtime => Class::Runtime,
    };
    let others = match bad.len() {
        1 => String::new(),
        all => format!(", and {} more", all - 1),
    };
    let failure = Failure::new(class, format!("{}: {}{others}", first.subject, first.found));
    Err(match &first.hint {
        Some(hint) => failure.hinting(hint.clone()),
        None => failure,
    })
}

fn rendered(diagnosis: &Diagnosis, output: Format) -> Result<String, Failure> {
    let unwritable = |error| Failure::of(Class::Runtime, &error);
    match output {
        Format::Table | Format::Wide => Ok(told(&diagnosis.findings)),
        Format::Json => Ok(serde_json::to_string_pretty(diagnosis).map_err(unwritable)? + "\n"),
        Format::Jsonl => Ok(serde_json::to_string(diagnosis).map_err(unwritable)? + "\n"),
        Format::Toml | Format::Name => Err(Failure::new(Class::Configuration, "a diagnosis is printed as table or json")),
    }
}

/// One row for each finding, and under it what to do.
fn told(findings: &[Finding]) -> String {
    let mut rows = Vec::new();
    for finding in findings {
        let state = match finding.state {
            FindingState::Good => "good",
            FindingState::Doubtful => "doubtful",
            FindingState::Bad => "BAD",
        };
        let mut lines = finding.found.lines();
        rows.push(vec![finding.subject.clone(), state.to_owned(), lines.next().unwrap_or_default().to_owned()]);
        let more = lines.map(str::to_owned).chain(finding.hint.iter().map(|hint| format!("hint: {hint}")));
        rows.extend(more.map(|line| vec![String::new(), String::new(), line]));
    }
    table(&["CHECK", "STATE", "FOUND"], rows)
}
