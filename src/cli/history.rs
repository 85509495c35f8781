use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;

use super::{
    apply::conclude_within,
    args::Format,
    context::{Context, asked, print, say},
    failure::{Class, Failure},
    stop::needed,
    table::table,
};
use crate::{
    api::{Revision, RevisionHead, Revisions, RollbackRequest},
    manifest::Fleet,
    plan::{Born, Observed, ObservedBeing, Phase, plan},
    store::{Home, peek},
    vocab::{Span, Timestamp},
};

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(super) struct History {
    /// How to print it.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The number of a revision.
    #[arg(value_name = "REV")]
    pub from: u64,
    /// The number of another; without it the newest.
    #[arg(value_name = "REV")]
    pub to: Option<u64>,
    /// Exit with 1 when they differ, with 0 when they do not.
    #[arg(long)]
    pub exit_code: bool,
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// The number of the revision to take back; without it the newest that was applied otherwise than what is now.
    #[arg(value_name = "REV")]
    pub to: Option<u64>,
    /// Show the plan and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not wait until all is as declared.
    #[arg(long)]
    pub detach: bool,
    /// How long to wait until all is as declared.
    #[arg(long, default_value = "5m", value_name = "SPAN")]
    pub timeout: Span,
}

/// Lists the revisions that are kept.
pub(super) fn history(context: &Context, arguments: &History) -> Result<(), Failure> {
    let heads = match context.existing_home()? {
        Some(home) => Revisions::of(&home).heads().map_err(|error| Failure::of(Class::State, &error))?,
        None => Vec::new(),
    };
    match arguments.output {
        Format::Json => print(&format!("{:#}\n", json!(heads))),
        Format::Jsonl => print(&heads.iter().map(|head| format!("{}\n", json!(head))).collect::<String>()),
        Format::Name => print(&heads.iter().map(|head| format!("{}\n", head.number)).collect::<String>()),
        Format::Toml => {
            Err(Failure::new(Class::Configuration, "the history is not printed as toml").hinting("use `-o json` or `-o jsonl`"))
        }
        Format::Table | Format::Wide if heads.is_empty() => {
            say("nothing was applied yet");
            Ok(())
        }
        Format::Table | Format::Wide => print(&rows(&heads, arguments.output == Format::Wide)),
    }
}

/// An instant as tables show it.
pub(super) fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn rows(heads: &[RevisionHead], is_wide: bool) -> String {
    let row = |head: &RevisionHead| {
        let by = head.by.map(|by| by.to_string()).unwrap_or_default();
        let mut row = vec![head.number.to_string(), second(head.at), by, head.cause.to_string(), head.outcome.clone()];
        row.extend(is_wide.then(|| head.digest.to_string()));
        row
    };
    let mut columns = vec!["REV", "AT (UTC)", "BY", "CAUSE", "OUTCOME"];
    columns.extend(is_wide.then_some("DIGEST"));
    table(&columns, heads.iter().map(row).collect())
}

/// Shows what would change between two revisions, as a plan.
pub(super) fn diff(context: &Context, arguments: &Diff) -> Result<(), Failure> {
    let unknown =
        |what: String| Failure::new(Class::Configuration, what).hinting("`singularity history` lists those that are kept");
    let home = context.existing_home()?.ok_or_else(|| unknown("nothing was applied yet".to_owned()))?;
    let revisions = Revisions::of(&home);
    let state = |error| Failure::of(Class::State, &error);
    let read = |number: u64| {
        let revision = revisions.read(number).map_err(state)?;
        revision.ok_or_else(|| unknown(format!("there is no revision {number}, or none any more")))
    };
    let newest = || revisions.heads().map_err(state).map(|heads| heads.last().map_or(0, |head| head.number));
    let (from, to) = (read(arguments.from)?, read(arguments.to.map_or_else(newest, Ok)?)?);
    let plan = between(&home, from, &to)?;
    print(&format!("{plan}\n"))?;
    match arguments.exit_code && !plan.is_settled() {
        true => Err(Failure::new(Class::Differs, "the revisions differ")),
        false => Ok(()),
    }
}

/// What would be done if all ran that one revision declares, and the other were declared.
fn between(home: &Home, from: Revision, to: &Revision) -> Result<crate::plan::Plan, Failure> {
    let Fleet { sources, models, surfaces, caps, decisions, categories, beings } = from.fleet;
    let mut observed = Observed { sources, models, surfaces, caps, decisions, categories, beings: BTreeMap::new() };
    for (name, spec) in beings {
        let state = peek(&home.being_dir(&name)).map_err(|error| Failure::of(Class::State, &error))?;
        let born = state.map(|state| Born { identity: state.identity, starting: state.budget.starting });
        observed.beings.insert(name, ObservedBeing { spec: Some(spec), generation: 0, phase: Phase::Running, born });
    }
    Ok(plan(&to.fleet, &observed))
}

/// Declares what an older revision declared, and waits until what runs is as declared.
pub(super) async fn rollback(context: &Context, arguments: &Rollback) -> Result<(), Failure> {
    let client = needed(context)?;
    let request = RollbackRequest { to: arguments.to, dry_run: arguments.dry_run };
    let answer = client.rollback(&request).await.map_err(|error| asked(&error))?;
    print(&format!("{}\n", answer.plan.trim_end()))?;
    if arguments.dry_run || arguments.detach {
        return Ok(());
    }
    conclude_within(context, &client, &answer, arguments.timeout).await
}
