use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{
    args::{Format, Logs},
    context::{Context, print},
    failure::{Class, Failure},
};
use crate::{
    store::{Home, Lines, Start, dir_of, read_journal},
    vocab::{Address, Kind, Name},
};

/// How often a journal that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Characters of a text that a line for people shows.
const SHOWN: usize = 160;

/// Shows a being's journal.
pub(super) async fn logs(context: &Context, arguments: &Logs) -> Result<(), Failure> {
    let name = being(&arguments.being)?;
    let is_raw = match arguments.output {
        Format::Table | Format::Wide => false,
        Format::Jsonl => true,
        Format::Json | Format::Toml | Format::Name => {
            return Err(Failure::new(Class::Configuration, "a journal is printed as table or jsonl").hinting("use `-o jsonl`"));
        }
    };
    let Some(home) = context.existing_home()? else {
        return Err(Failure::new(Class::State, format!("there is no home at {}", context.home_path().display())));
    };
    let Some(mut lines) = open(&home, &name, Start::Last(arguments.tail))? else {
        return Err(
            Failure::new(Class::State, format!("being/{name} has no journal")).hinting("`singularity get beings` lists beings")
        );
    };
    loop {
        show(&mut lines, None, is_raw)?;
        if !arguments.follow {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// Follows the journals of several beings, each line under its being's name, until interrupted.
pub(super) async fn follow_all(context: &Context, beings: &[Address]) -> Result<(), Failure> {
    let home = context.home()?;
    let mut journals = Vec::new();
    for being in beings {
        journals.extend(open(&home, &being.name, Start::Last(20))?.map(|lines| (being.name.clone(), lines)));
    }
    loop {
        for (name, lines) in &mut journals {
            show(lines, Some(name), false)?;
        }
        sleep(LOOK).await;
    }
}

pub(super) fn being(text: &str) -> Result<Name, Failure> {
    let bad = |error: &dyn std::error::Error| Failure::of(Class::Configuration, error);
    if !text.contains('/') {
        return Name::try_from(text).map_err(|error| bad(&error));
    }
    let address: Address = text.parse().map_err(|error| bad(&error))?;
    match address.kind {
        Kind::Being => Ok(address.name),
        _ => Err(Failure::new(Class::Configuration, format!("{address} has no journal; only beings have one"))),
    }
}

fn open(home: &Home, name: &Name, from: Start) -> Result<Option<Lines>, Failure> {
    let Some(dir) = dir_of(home, name).map_err(|error| Failure::of(Class::State, &error))? else { return Ok(None) };
    read_journal(&dir, from).map_err(|error| Failure::of(Class::State, &error))
}

fn show(lines: &mut Lines, name: Option<&Name>, is_raw: bool) -> Result<(), Failure> {
    let mut text = String::new();
    for line in lines {
        let line = line.map_err(|error| Failure::of(Class::State, &error))?;
        let shown = if is_raw { line.json } else { told(&line.json) };
        name.iter().for_each(|name| text.push_str(&format!("{name}  ")));
        text.push_str(&shown);
        text.push('\n');
    }
    if text.is_empty() { Ok(()) } else { print(&text) }
}

/// A record as people read it: when, in which cycle, what, and the gist.
fn told(json: &str) -> String {
    let record: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    let time = text("at").split('.').next().unwrap_or_default().replace('T', " ");
    let cycle = record.get("cycle").and_then(Value::as_u64).unwrap_or_default();
    let gist = match text("type") {
        "model_completed" => {
            let calls = record.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
            let said = text("content").to_owned();
            let asked = if calls == 0 { String::new() } else { format!(" [asks for {calls} calls]") };
            format!("{}: {said}{asked}", text("model"))
        }
        "cost_debited" => format!("{} USD for {} tokens", text("amount"), record.get("tokens").cloned().unwrap_or_default()),
        "tool_started" => format!("{} {}", text("tool"), text("arguments")),
        "tool_finished" => format!("{} {} {}", text("tool"), text("status"), text("error_code")),
        "input_requested" => {
            let asked = |key: &str| record.pointer(&format!("/question/{key}")).and_then(Value::as_str).unwrap_or_default();
            format!("{} {}", asked("tool"), asked("arguments"))
        }
        "input_answered" => {
            let said = |key: &str| record.pointer(&format!("/answer/{key}")).and_then(Value::as_str).unwrap_or_default();
            format!("{} {}", said("is"), said("reason"))
        }
        "revenue_credited" => format!("{} USD from {}", text("amount"), text("source")),
        "child_spawned" => {
            let child = |key: &str| record.pointer(&format!("/child/{key}")).and_then(Value::as_str).unwrap_or_default();
            format!("{} with {} USD", child("called"), child("usd"))
        }
        "child_changed" => format!("{} is {}", text("id"), text("status")),
        "funds_granted" => format!("{} USD as {}", text("usd"), text("id")),
        "cycle_started" => text("slot").to_owned(),
        "warning" | "told" => text("message").to_owned(),
        "folded" => format!("{} messages", record.get("messages").cloned().unwrap_or_default()),
        "stopped" => text("status").to_owned(),
        _ => String::new(),
    };
    let gist = gist.replace('\n', " ");
    let short: String = gist.chars().take(SHOWN).collect();
    let more = if gist.chars().nth(SHOWN).is_some() { "…" } else { "" };
    format!("{time}  {cycle:>4}  {:<16}  {short}{more}", text("type")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_record_is_told_on_one_short_line() {
        let record = r#"{"seq":4,"at":"2026-12-01T10:00:00.5Z","cycle":2,"type":"tool_started","call_id":"c","tool":"files__read","arguments":"{\"a\":\n1}"}"#;
        assert_eq!(told(record), r#"2026-12-01 10:00:00     2  tool_started      files__read {"a": 1}"#);
        assert!(told(&record.replace("files__read", &"x".repeat(500))).chars().count() < 220);
        assert_eq!(told("rubbish").trim(), "0");
    }
}
