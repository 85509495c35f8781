use clap::Args;
use serde_json::json;

use super::{
    args::Format,
    context::{Context, asked, print},
    failure::{Class, Failure},
    stop::needed,
    table::table,
};
use crate::{
    api::{EventList, Notice},
    vocab::Address,
};

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(super) struct Events {
    /// One object, such as `being/ada`; without it all.
    pub address: Option<Address>,
    /// Go on with what comes.
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// How many of the newest to begin with.
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    pub tail: usize,
    /// `table` for people, `json` or `jsonl` for programs; watched, both are a line each.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Shows what happened to objects.
pub(super) async fn events(context: &Context, arguments: &Events) -> Result<(), Failure> {
    if matches!(arguments.output, Format::Toml | Format::Name) {
        return Err(Failure::new(Class::Configuration, "events are printed as table, wide, json or jsonl"));
    }
    let client = needed(context)?;
    let mut list = client.events(None).await.map_err(|error| asked(&error))?;
    let mut newest = list.items.last().map_or(0, |notice| notice.number);
    list.items.retain(|notice| is_about(arguments, notice));
    list.items.drain(..list.items.len().saturating_sub(arguments.tail));
    print(&shown(&list, arguments))?;
    if !arguments.watch {
        return Ok(());
    }
    loop {
        let mut list = client.events(Some(newest)).await.map_err(|error| asked(&error))?;
        newest = list.items.last().map_or(newest, |notice| notice.number);
        list.items.retain(|notice| is_about(arguments, notice));
        print(&lines(&list, arguments.output))?;
    }
}

fn is_about(arguments: &Events, notice: &Notice) -> bool {
    arguments.address.as_ref().is_none_or(|address| notice.object == address.to_string())
}

fn shown(list: &EventList, arguments: &Events) -> String {
    match arguments.output {
        Format::Json if !arguments.watch => format!("{:#}\n", json!(list)),
        _ if arguments.watch => lines(list, arguments.output),
        Format::Json | Format::Jsonl => lines(list, arguments.output),
        _ => rows(list),
    }
}

/// A line each, as it comes.
fn lines(list: &EventList, output: Format) -> String {
    let line = |notice: &Notice| match output {
        Format::Json | Format::Jsonl => format!("{}\n", json!(notice)),
        _ => format!("{} {} {} {}\n", notice.at, notice.object, notice.reason, notice.message),
    };
    list.items.iter().map(line).collect()
}

/// The events as a table.
pub(super) fn rows(list: &EventList) -> String {
    let row = |notice: &Notice| vec![notice.at.clone(), notice.object.clone(), notice.reason.clone(), notice.message.clone()];
    match list.items.is_empty() {
        true => String::new(),
        false => table(&["AT", "OBJECT", "REASON", "MESSAGE"], list.items.iter().map(row).collect()),
    }
}
