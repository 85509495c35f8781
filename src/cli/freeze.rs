use clap::Args;

use super::{
    context::{Context, asked, say},
    failure::Failure,
    stop::needed,
};
use crate::{api::FreezeRequest, vocab::Reason};

/// Arguments of `freeze`.
#[derive(Debug, Args)]
pub(super) struct Freeze {
    /// Lift the freeze, and take what was declared meanwhile.
    #[arg(long, conflicts_with = "reason")]
    pub lift: bool,
    /// Why, for whoever is refused meanwhile: one line.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<Reason>,
}

/// Freezes the fleet, or lifts that.
pub(super) async fn freeze(context: &Context, arguments: &Freeze) -> Result<(), Failure> {
    let request = match arguments.lift {
        true => FreezeRequest::Lift {},
        false => FreezeRequest::Freeze { reason: arguments.reason.clone() },
    };
    let answer = needed(context)?.freeze(&request).await.map_err(|error| asked(&error))?;
    answer.done.iter().for_each(|done| say(done));
    Ok(())
}
