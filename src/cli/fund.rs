use clap::Args;

use super::{
    context::{Context, asked, say},
    failure::{Class, Failure},
    logs::being,
    stop::needed,
};
use crate::{
    api::FundRequest,
    vocab::{Reason, Usd},
};

/// Arguments of `fund`.
#[derive(Debug, Args)]
pub(super) struct Fund {
    /// The being, such as `being/ada` or `ada`.
    pub being: String,
    /// How much, in USD, such as `25` or `0.50`.
    #[arg(value_name = "USD")]
    pub usd: String,
    /// Names the grant. An id counts once for a being, so that asking again gives nothing more.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub id: String,
    /// Why, for the record: one line.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<Reason>,
}

/// What manifests call a grant too.
fn id(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
    match is_plain && (1..=128).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("use 1 to 128 of letters, digits, `-`, `_`, `.` and `:`".to_owned()),
    }
}

/// Gives a being money.
pub(super) async fn fund(context: &Context, arguments: &Fund) -> Result<(), Failure> {
    let bad = |what: String| Failure::new(Class::Configuration, what).hinting("write a decimal above zero, such as 0.25");
    let usd = Usd::parse(&arguments.usd).map_err(|error| bad(error.to_string()))?;
    if !usd.is_positive() {
        return Err(bad(format!("{usd} USD is nothing to give")));
    }
    let request = FundRequest { being: being(&arguments.being)?, id: arguments.id.clone(), usd, reason: arguments.reason.clone() };
    let answer = needed(context)?.fund(&request).await.map_err(|error| asked(&error))?;
    answer.done.iter().for_each(|done| say(done));
    Ok(())
}
