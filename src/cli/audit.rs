use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    args::Format,
    context::{Context, print, say},
    failure::{Class, Failure},
    history::second,
    table::table,
};
use crate::{
    store::{Audit, AuditEntry, AuditOutcome, AuditRecord, read_audit},
    vocab::Digest,
};

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct AuditArguments {
    #[command(subcommand)]
    pub verb: Option<AuditVerb>,
    /// `table` for people, `jsonl` for the lines as they are stored.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// What to do with the record.
#[derive(Debug, Subcommand)]
pub(super) enum AuditVerb {
    /// Check that each line follows the one before, and print the digest of the last.
    #[command(after_help = "Keep the digest elsewhere: with --head it shows later whether lines were taken off the end.

Examples:
  singularity audit verify
  singularity audit verify --head 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    Verify(Verify),
}

/// Arguments of `audit verify`.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// A digest that was printed before: it must be that of a line.
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pub head: Option<Digest>,
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::try_from(text.to_owned()).map_err(|error| error.to_string())
}

/// Shows who asked for what, or checks the record of it.
pub(super) fn audit(context: &Context, arguments: &AuditArguments) -> Result<(), Failure> {
    let audit = match context.existing_home()? {
        Some(home) => read_audit(&home).map_err(|error| Failure::of(Class::State, &error))?,
        None => Audit { records: Vec::new(), head: Digest::of(""), is_torn: false },
    };
    match (&arguments.verb, arguments.output) {
        (Some(AuditVerb::Verify(verify)), _) => check(&audit, verify.head),
        (None, Format::Json) => print(&format!("{:#}\n", json!(audit.records))),
        (None, Format::Jsonl) => print(&audit.records.iter().map(|record| format!("{}\n", json!(record))).collect::<String>()),
        (None, Format::Toml | Format::Name) => {
            Err(Failure::new(Class::Configuration, "the record is printed as table, json or jsonl").hinting("use `-o jsonl`"))
        }
        (None, Format::Table | Format::Wide) if audit.records.is_empty() => {
            say("nobody asked for anything yet");
            Ok(())
        }
        (None, Format::Table | Format::Wide) => print(&rows(&audit.records)),
    }
}

fn check(audit: &Audit, head: Option<Digest>) -> Result<(), Failure> {
    let is_there = |head: Digest| audit.head == head || audit.records.iter().any(|record| record.previous == head);
    if let Some(head) = head.filter(|head| !is_there(*head)) {
        let what = format!("no line has the digest {head}: lines were taken off the end, or the record is another");
        return Err(Failure::new(Class::State, what).hinting("compare with a copy of audit.jsonl"));
    }
    if audit.is_torn {
        say("a last line is being written, or was cut off by a crash and never acknowledged");
    }
    say(&format!("{} lines, each follows the one before; the last has the digest", audit.records.len()));
    print(&format!("{}\n", audit.head))
}

/// One row for each thing that was asked for, with what came of it.
fn rows(records: &[AuditRecord]) -> String {
    let mut ends = BTreeMap::new();
    for record in records {
        if let AuditEntry::Ended { of, outcome, told } = &record.entry {
            let told = told.as_deref().and_then(|told| told.lines().next());
            let word = match outcome {
                AuditOutcome::Done => "done",
                AuditOutcome::Refused => "refused",
                AuditOutcome::Failed => "failed",
            };
            ends.insert(*of, told.map_or_else(|| word.to_owned(), |told| format!("{word}: {told}")));
        }
    }
    let row = |record: &AuditRecord| {
        let AuditEntry::Asked { verb, about, because } = &record.entry else { return None };
        let about = because.as_ref().map_or_else(|| about.clone(), |because| format!("{about} because {because}"));
        let end = ends.get(&record.seq).cloned().unwrap_or_else(|| "no end is recorded".to_owned());
        Some(vec![record.seq.to_string(), second(record.at), record.by.to_string(), verb.clone(), about, end])
    };
    table(&["SEQ", "AT (UTC)", "BY", "VERB", "ABOUT", "OUTCOME"], records.iter().filter_map(row).collect())
}
