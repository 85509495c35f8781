use serde_json::json;

use super::{
    args::{Format, Get},
    context::{Context, asked, print, say},
    events::rows as rows_of,
    failure::{Class, Failure},
    table::table,
};
use crate::{
    api::{BeingFacts, Condition, ConditionKind, HoldFacts, List, ObjectStatus, QuestionFacts, SourceFacts},
    being::AgentState,
    manifest::resolved_document,
    store::{Lying, lives},
    vocab::{Address, Kind, Name, chain},
};

/// Lists objects, or shows one.
pub(super) async fn get(context: &Context, arguments: &Get) -> Result<(), Failure> {
    let address = arguments.what.contains('/').then(|| arguments.what.parse::<Address>());
    let address = address.transpose().map_err(|error| Failure::of(Class::Configuration, &error))?;
    let wants_declaration = arguments.output == Format::Toml || arguments.show_origin || !arguments.files.is_empty();
    if wants_declaration && address.is_none() && arguments.output != Format::Toml {
        let what = "--show-origin and -f are about one object; name it, such as being/ada";
        return Err(Failure::new(Class::Configuration, what));
    }
    if let Some(address) = address.as_ref().filter(|_| wants_declaration) {
        return declaration(context, address, arguments).await;
    }
    let mut list = list(context).await?;
    list.items.retain(|object| match &address {
        Some(address) => object.address == address.to_string(),
        None => arguments.what == "all" || object.address.split('/').next().is_some_and(|kind| is_kind(&arguments.what, kind)),
    });
    if address.is_none() && arguments.what != "all" && !Kind::ALL.iter().any(|kind| is_kind(&arguments.what, kind.as_str())) {
        let what = format!(
            "`{}` is nothing to get; write {}, all, or an address such as being/ada",
            arguments.what,
            Kind::ALL.map(Kind::plural).join(", ")
        );
        return Err(Failure::new(Class::Configuration, what));
    }
    if let Some(address) = address.filter(|_| list.items.is_empty()) {
        return Err(
            Failure::new(Class::Configuration, format!("{address} is not declared")).hinting("`singularity get` lists what is")
        );
    }
    show(&list, arguments.output)
}

fn is_kind(what: &str, kind: &str) -> bool {
    let known = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
    known.is_some_and(|known| what == known.as_str() || what == known.plural())
}

/// Shows everything about one object.
pub(super) async fn describe(context: &Context, address: &Address) -> Result<(), Failure> {
    let list = list(context).await?;
    let Some(object) = list.items.iter().find(|object| object.address == address.to_string()) else {
        return Err(
            Failure::new(Class::Configuration, format!("{address} is not declared")).hinting("`singularity get` lists what is")
        );
    };
    let mut text =
        format!("{}\n  generation  {} declared, {} in force\n", object.address, object.generation, object.observed_generation);
    if let Some(SourceFacts { address, commit }) = &object.source {
        text.push_str(&format!("  source      {address} at commit {commit}\n"));
    }
    if let Some(being) = &object.being {
        text.push_str(&facts(being));
        text.push_str(&family(&list, object));
    }
    let rows = object.conditions.iter().map(|condition| {
        vec![
            format!("{:?}", condition.kind),
            format!("{:?}", condition.status),
            condition.reason.clone(),
            condition.message.clone(),
        ]
    });
    text.push_str("conditions\n");
    text.extend(table(&["TYPE", "STATUS", "REASON", "MESSAGE"], rows.collect()).lines().map(|line| format!("  {line}\n")));
    text.push_str(&last_events(context, address).await?);
    print(&text)?;
    say_problems(&list);
    Ok(())
}

/// How many events a description shows.
const SHOWN_EVENTS: usize = 8;

/// What happened to an object last, where a daemon knows.
async fn last_events(context: &Context, address: &Address) -> Result<String, Failure> {
    let Some(client) = context.client()? else { return Ok(String::new()) };
    let mut list = client.events(None).await.map_err(|error| asked(&error))?;
    list.items.retain(|notice| notice.object == address.to_string());
    list.items.drain(..list.items.len().saturating_sub(SHOWN_EVENTS));
    let rows: String = rows_of(&list).lines().map(|line| format!("  {line}\n")).collect();
    Ok(if rows.is_empty() { rows } else { format!("events\n{rows}") })
}

/// The parent and the children of a being.
fn family(list: &List, object: &ObjectStatus) -> String {
    let parent = object.being.iter().flat_map(|being| &being.parent).map(|parent| format!("  parent      {parent}\n"));
    let is_child = |other: &&ObjectStatus| other.being.as_ref().is_some_and(|being| being.parent.as_ref() == Some(&object.address));
    let children = list.items.iter().filter(is_child).filter_map(|child| Some((child, child.being.as_ref()?)));
    let children =
        children.map(|(child, being)| format!("  child       {}: {} USD, {}\n", child.address, being.balance_usd, being.activity));
    parent.chain(children).collect()
}

fn facts(being: &BeingFacts) -> String {
    let rows = [
        ("activity", being.activity.clone()),
        ("status", being.status.clone()),
        ("agent id", being.agent_id.clone().unwrap_or_default()),
        ("model", being.model.clone()),
        ("cycle", being.cycle.to_string()),
        ("balance", format!("{} USD", being.balance_usd)),
        ("earned", format!("{} USD", being.earned_usd)),
        ("spent", format!("{} USD, {} tokens", being.spent_usd, being.total_tokens)),
        ("restarts", being.restarts.to_string()),
        (
            "question",
            being.question.as_ref().map(|asked| format!("{}: {} {}", asked.id, asked.tool, asked.arguments)).unwrap_or_default(),
        ),
        ("state", being.state_dir.display().to_string()),
    ];
    let is_known = being.agent_id.is_some();
    let mut text: String = rows
        .iter()
        .filter(|(label, value)| *label != "question" || !value.is_empty())
        .filter(|(label, _)| is_known || matches!(*label, "activity" | "restarts" | "state"))
        .map(|(label, value)| format!("  {label:<10}  {value}\n"))
        .collect();
    for (name, surface) in &being.surfaces {
        let how = match &surface.reason {
            Some(reason) if !surface.up && surface.stalled => format!("stalled, tried now and then: {reason}"),
            Some(reason) if !surface.up => format!("down: {reason}"),
            _ => format!("up, {} tools, {} restarts", surface.tools, surface.restarts),
        };
        text.push_str(&format!("  surface     {name}: {how}\n"));
    }
    text
}

/// What the daemon knows; without one, what the states on disk say.
pub(super) async fn list(context: &Context) -> Result<List, Failure> {
    if let Some(client) = context.client()? {
        return Ok(client.status(None).await.map_err(|error| asked(&error))?.status.list);
    }
    let Some(home) = context.existing_home()? else {
        say(&format!("there is no home at {}", context.home_path().display()));
        return Ok(List::default());
    };
    say("no daemon runs; this is what the states on disk say");
    let lives = lives(&home).map_err(|error| Failure::of(Class::State, &error))?;
    Ok(List { items: lives.iter().map(at_rest).collect(), problems: Vec::new(), frozen: None })
}

fn at_rest(Lying { name, dir, state }: &Lying) -> ObjectStatus {
    let address = Address::new(Kind::Being, name.clone()).to_string();
    let (message, being) = match state {
        Ok(state) => ("no daemon runs".to_owned(), state.as_ref().map(|state| of_state(state, name, dir))),
        Err(error) => (chain(error), None),
    };
    let ready = Condition::new(ConditionKind::Ready, false, "DaemonDown", message);
    ObjectStatus { address, generation: 0, observed_generation: 0, conditions: vec![ready], source: None, being, question: None }
}

fn of_state(state: &AgentState, name: &Name, dir: &std::path::Path) -> BeingFacts {
    let budget = &state.budget;
    BeingFacts {
        parent: name.parent().map(|parent| Address::new(Kind::Being, parent).to_string()),
        agent_id: Some(state.identity.agent_id.clone()),
        activity: "at rest".to_owned(),
        next_wake: None,
        next_wake_because: None,
        idle: true,
        status: state.status.to_string(),
        cycle: state.cycle,
        model: state.mind.current_model.clone(),
        balance_usd: budget.remaining.to_string(),
        earned_usd: budget.earned.to_string(),
        spent_usd: (budget.api_spent + budget.instance_spent).to_string(),
        total_tokens: budget.total_tokens,
        restarts: 0,
        state_dir: dir.to_owned(),
        paused: None,
        question: state.questions.waiting().map(|question| QuestionFacts::of(name, question)),
        surfaces: std::collections::BTreeMap::new(),
    }
}

fn show(list: &List, output: Format) -> Result<(), Failure> {
    let text = match output {
        Format::Json => format!("{:#}\n", json!(list)),
        Format::Jsonl => list.items.iter().map(|object| format!("{}\n", json!(object))).collect(),
        Format::Name => list.items.iter().map(|object| format!("{}\n", object.address)).collect(),
        Format::Toml => toml::to_string_pretty(list).map_err(|error| Failure::of(Class::Runtime, &error))?,
        Format::Table | Format::Wide => rows(list, output == Format::Wide),
    };
    print(&text)?;
    if !matches!(output, Format::Json | Format::Toml) {
        say_problems(list);
    }
    Ok(())
}

fn rows(list: &List, is_wide: bool) -> String {
    if list.items.is_empty() {
        say("nothing is declared");
        return String::new();
    }
    let mut head = vec!["ADDRESS", "READY", "REASON", "CYCLE", "BALANCE", "ACTIVITY"];
    head.extend(is_wide.then_some(["MODEL", "EARNED", "SPENT", "TOKENS", "RESTARTS", "SOURCE"]).into_iter().flatten());
    let row = |object: &ObjectStatus| {
        let ready = object.condition(ConditionKind::Ready);
        let stalled = object.condition(ConditionKind::Stalled).filter(|_| object.is(ConditionKind::Stalled));
        let being = |pick: fn(&BeingFacts) -> String| object.being.as_ref().map(pick).unwrap_or_default();
        let mut row = vec![
            format!("{:indent$}{}", "", object.address, indent = 2 * object.address.matches('.').count()),
            ready.map(|ready| format!("{:?}", ready.status)).unwrap_or_default(),
            stalled.or(ready).map(|condition| condition.reason.clone()).unwrap_or_default(),
            being(|being| being.cycle.to_string()),
            being(|being| being.balance_usd.clone()),
            being(|being| being.activity.clone()),
        ];
        if is_wide {
            row.push(being(|being| being.model.clone()));
            row.push(being(|being| being.earned_usd.clone()));
            row.push(being(|being| being.spent_usd.clone()));
            row.push(being(|being| being.total_tokens.to_string()));
            row.push(being(|being| being.restarts.to_string()));
            row.push(object.source.as_ref().map(at_commit).unwrap_or_default());
        }
        row
    };
    table(&head, list.items.iter().map(row).collect())
}

/// A source and the start of its commit, such as `source/fleet@1a2b3c4d5e6f`.
fn at_commit(SourceFacts { address, commit }: &SourceFacts) -> String {
    format!("{address}@{}", commit.chars().take(12).collect::<String>())
}

fn say_problems(list: &List) {
    if let Some(HoldFacts { uid, since, because }) = &list.frozen {
        let because = because.as_ref().map(|reason| format!(" because {reason}")).unwrap_or_default();
        say(&format!("the fleet is frozen by uid {uid} since {since}{because}; `singularity freeze --lift` lifts that"));
    }
    if !list.problems.is_empty() {
        say("the manifests have problems, so the last good fleet goes on:");
        list.problems.iter().for_each(|problem| say(&format!("  {problem}")));
    }
}

/// Shows one object as it is declared, all layers resolved.
async fn declaration(context: &Context, address: &Address, arguments: &Get) -> Result<(), Failure> {
    let sources = match arguments.files.is_empty() {
        false => crate::manifest::Sources::load(&arguments.files),
        true => applied(context).await?,
    };
    let loaded = crate::manifest::read(&sources, &context.overrides()).map_err(|problems| super::context::invalid(&problems))?;
    let Some(resolved) = resolved_document(&loaded, address) else {
        return Err(
            Failure::new(Class::Configuration, format!("{address} is not declared")).hinting("`singularity get` lists what is")
        );
    };
    match arguments.output {
        Format::Json | Format::Jsonl if !arguments.show_origin => print(&format!("{:#}\n", resolved.to_json())),
        _ => print(&resolved.to_toml(arguments.show_origin)),
    }
}

/// What was applied, and what the daemon serves.
pub(super) async fn applied(context: &Context) -> Result<crate::manifest::Sources, Failure> {
    let folders = match context.client()? {
        Some(client) => client.status(None).await.map_err(|error| asked(&error))?.daemon.folders,
        None => Vec::new(),
    };
    let mut sources = crate::manifest::Sources::load(&folders);
    if let Some(home) = context.existing_home()? {
        crate::api::add_applied(&home, &mut sources).map_err(|error| Failure::of(Class::State, &error))?;
    }
    Ok(sources)
}
