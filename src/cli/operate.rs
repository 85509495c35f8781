//! What an operator does to a fleet that lives, beside what manifests declare.

use clap::Subcommand;

use super::{
    context::Context,
    failure::Failure,
    pause::{self, Pause, Resume},
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
}

/// Does what was asked for.
pub(super) async fn operate(context: &Context, verb: &Operate) -> Result<(), Failure> {
    match verb {
        Operate::Pause(arguments) => pause::pause(context, arguments).await,
        Operate::Resume(arguments) => pause::resume(context, arguments).await,
    }
}
