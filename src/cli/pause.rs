use clap::Args;

use super::{
    context::{Context, asked, say},
    failure::Failure,
    logs::being,
    stop::needed,
};
use crate::{
    api::{PauseRequest, ResumeRequest, Whom},
    vocab::Reason,
};

/// Which beings are meant.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Chosen {
    /// Beings, such as `being/ada` or `ada`. Their children are beings of their own.
    #[arg(conflicts_with_all = ["labels", "all"])]
    pub beings: Vec<String>,
    /// All beings with these labels.
    #[arg(short = 'l', long = "label", value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label, conflicts_with = "all")]
    pub labels: Vec<(String, String)>,
    /// All beings that there are.
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `pause`.
#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    pub chosen: Chosen,
    /// Why, for whoever looks at it later: one line.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<Reason>,
}

/// Arguments of `resume`.
#[derive(Debug, Args)]
pub(super) struct Resume {
    #[command(flatten)]
    pub chosen: Chosen,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write a label and its value, such as team=lab")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl Chosen {
    fn whom(&self) -> Result<Whom, Failure> {
        if self.all {
            return Ok(Whom::All);
        }
        if !self.labels.is_empty() {
            return Ok(Whom::Labelled(self.labels.iter().cloned().collect()));
        }
        Ok(Whom::Named(self.beings.iter().map(|text| being(text)).collect::<Result<_, _>>()?))
    }
}

/// Pauses beings.
pub(super) async fn pause(context: &Context, arguments: &Pause) -> Result<(), Failure> {
    let request = PauseRequest { whom: arguments.chosen.whom()?, reason: arguments.reason.clone() };
    let answer = needed(context)?.pause(&request).await.map_err(|error| asked(&error))?;
    answer.done.iter().for_each(|done| say(done));
    Ok(())
}

/// Resumes beings that were paused.
pub(super) async fn resume(context: &Context, arguments: &Resume) -> Result<(), Failure> {
    let request = ResumeRequest { whom: arguments.chosen.whom()? };
    let answer = needed(context)?.resume(&request).await.map_err(|error| asked(&error))?;
    answer.done.iter().for_each(|done| say(done));
    Ok(())
}
