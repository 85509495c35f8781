//! What an operator does to a fleet that lives, beside what manifests declare.

use clap::Subcommand;

use super::{
    audit::{self, AuditArguments},
    context::Context,
    events::{self, Events},
    failure::Failure,
    freeze::{self, Freeze},
    fund::{self, Fund},
    history::{self, Diff, History, Rollback},
    pause::{self, Pause, Resume},
    wait::{self, Wait},
};

/// The verbs of an operator.
#[derive(Debug, Subcommand)]
pub(super) enum Operate {
    /// Hold beings: each finishes what is under way and asks no model until it is resumed, also through restarts.
    #[command(
        after_help = "Examples:\n  singularity pause being/ada --reason \"spends too much\"\n  singularity pause -l team=lab\n  singularity pause --all"
    )]
    Pause(Pause),
    /// Let beings that were paused go on.
    #[command(after_help = "Examples:\n  singularity resume being/ada\n  singularity resume --all")]
    Resume(Resume),
    /// Give a being money beside what its manifest grants, once for each id.
    #[command(
        after_help = "Examples:\n  singularity fund being/ada 25 --id 2026-12\n  singularity fund ada 0.50 --id tip-7 --reason \"well done\""
    )]
    Fund(Fund),
    /// Show what happened to objects since the daemon runs: applied, alive, stalled, restarted, paused, fetched, refused.
    #[command(
        after_help = "The last 1000 are kept, until the daemon ends.\n\nExamples:\n  singularity events\n  singularity events -w being/ada\n  singularity events -o json"
    )]
    Events(Events),
    /// Wait until objects are ready, idle or gone.
    #[command(
        after_help = "Exits with 5 when the time is over, or an object is stalled.\n\nExamples:\n  singularity wait --for ready being/ada --timeout 2m\n  singularity pause ada && singularity wait --for idle being/ada\n  singularity wait --for gone being/ada"
    )]
    Wait(Wait),
    /// Freeze the fleet: beings live on, and no file, apply, delete or rollback changes what is declared until that is lifted.
    #[command(after_help = "Examples:\n  singularity freeze --reason \"we move house\"\n  singularity freeze --lift")]
    Freeze(Freeze),
    /// List what was declared before: each change with who asked for it, where it came from and what came of it.
    #[command(after_help = "Examples:\n  singularity history\n  singularity history -o json")]
    History(History),
    /// Show what changed between two revisions, as a plan.
    #[command(after_help = "Examples:\n  singularity diff 3\n  singularity diff 3 5 --exit-code")]
    Diff(Diff),
    /// Declare again what an older revision declared, as a new revision. Nothing is changed where that would break a promise.
    #[command(
        after_help = "What served files declare is taken back in those files.\n\nExamples:\n  singularity rollback --dry-run\n  singularity rollback 3"
    )]
    Rollback(Rollback),
    /// Show who asked the daemon for what, when, and what came of it.
    #[command(after_help = "Examples:\n  singularity audit\n  singularity audit -o jsonl\n  singularity audit verify")]
    Audit(AuditArguments),
}

/// Does what was asked for.
pub(super) async fn operate(context: &Context, verb: &Operate) -> Result<(), Failure> {
    match verb {
        Operate::Pause(arguments) => pause::pause(context, arguments).await,
        Operate::Resume(arguments) => pause::resume(context, arguments).await,
        Operate::Fund(arguments) => fund::fund(context, arguments).await,
        Operate::Events(arguments) => events::events(context, arguments).await,
        Operate::Wait(arguments) => wait::wait(context, arguments).await,
        Operate::Freeze(arguments) => freeze::freeze(context, arguments).await,
        Operate::History(arguments) => history::history(context, arguments),
        Operate::Diff(arguments) => history::diff(context, arguments),
        Operate::Audit(arguments) => audit::audit(context, arguments),
        Operate::Rollback(arguments) => history::rollback(context, arguments).await,
    }
}
