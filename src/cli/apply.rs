use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};

use super::{
    args::{Apply, Files, Plan},
    context::{Context, asked, print, say},
    failure::{Class, Failure},
    logs,
    progress::Progress,
    wait::is_ready,
};
use crate::{
    api::{AppliedSet, AppliedSource, ApplyAnswer, ApplyRequest, Client, ConditionKind, ObjectStatus, StatusAnswer},
    manifest::{Fleet, Sources},
    plan::{Born, Observed, ObservedBeing, Phase, plan as compare},
    process::{DaemonStart, start_daemon},
    store::{Home, peek},
    vocab::{Address, Name, Span},
};

/// How long a daemon may take to listen.
const START: Duration = Duration::from_secs(20);
/// How often a daemon that starts is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Shows what applying would change.
pub(super) async fn plan(context: &Context, arguments: &Plan) -> Result<(), Failure> {
    let is_settled = show_plan(context, &arguments.files, arguments.set.as_ref()).await?;
    match arguments.exit_code && !is_settled {
        true => Err(Failure::new(Class::Differs, "something would change")),
        false => Ok(()),
    }
}

/// Applies manifests and waits until what runs is as declared.
pub(super) async fn apply(context: &Context, arguments: &Apply) -> Result<(), Failure> {
    if arguments.dry_run {
        return show_plan(context, &arguments.files, arguments.set.as_ref()).await.map(drop);
    }
    let (sources, _) = context.read(&arguments.files.files, &context.overrides())?;
    let home = context.home()?;
    let deadline = Instant::now() + arguments.timeout.as_duration();
    let client = match context.client()? {
        Some(client) => client,
        None => start(context, &home).await?,
    };
    let request = request(&sources, &arguments.files.files, arguments.set.as_ref(), false);
    let asked_for = timeout_at(deadline, client.apply(&request)).await.map_err(|_| late())?;
    let answer = asked_for.map_err(|error| asked(&error))?;
    print(&format!("{}\n", answer.plan.trim_end()))?;
    if arguments.detach {
        say("applied; not waiting: `singularity get` shows how it goes");
        return Ok(());
    }
    conclude_at(context, &client, &answer, deadline).await?;
    match arguments.follow {
        true => logs::follow_all(context, &beings(&answer)).await,
        false => Ok(()),
    }
}

/// Waits for a time until what was changed is as declared, and says what came of it.
pub(super) async fn conclude_within(context: &Context, client: &Client, answer: &ApplyAnswer, within: Span) -> Result<(), Failure> {
    conclude_at(context, client, answer, Instant::now() + within.as_duration()).await
}

async fn conclude_at(context: &Context, client: &Client, answer: &ApplyAnswer, deadline: Instant) -> Result<(), Failure> {
    let settled = settle(context, client, answer, deadline).await?;
    conclude(&settled, answer)
}

/// Shows what a daemon would do with the files; without a daemon, what would be done with the states that are there. Tells whether
/// nothing would change.
async fn show_plan(context: &Context, files: &Files, set: Option<&Name>) -> Result<bool, Failure> {
    let (sources, loaded) = context.read(&files.files, &context.overrides())?;
    let (text, is_settled) = match context.client()? {
        Some(client) => {
            let request = request(&sources, &files.files, set, true);
            let answer = client.apply(&request).await.map_err(|error| asked(&error))?;
            (answer.plan, answer.is_settled)
        }
        None => {
            let plan = compare(&loaded.fleet, &at_rest(context, &loaded.fleet)?);
            (plan.to_string(), plan.is_settled())
        }
    };
    print(&format!("{}\n", text.trim_end()))?;
    if !loaded.fleet.sources.is_empty() {
        let names: Vec<String> = loaded.fleet.sources.keys().map(|name| format!("source/{name}")).collect();
        say(&format!("a plan fetches nothing: what the newest commit of {} declares is not part of it", names.join(", ")));
    }
    Ok(is_settled)
}

/// What is observed while no daemon runs: states, and nothing that animates them.
fn at_rest(context: &Context, fleet: &Fleet) -> Result<Observed, Failure> {
    let mut observed = Observed::default();
    let Some(home) = context.existing_home()? else { return Ok(observed) };
    for name in fleet.beings.keys() {
        let state = peek(&home.being_dir(name)).map_err(|error| Failure::of(Class::State, &error))?;
        observed.beings.extend(state.map(|state| {
            let born = Some(Born { identity: state.identity, starting: state.budget.starting });
            (name.clone(), ObservedBeing { spec: None, generation: 0, phase: Phase::Stopped, born })
        }));
    }
    Ok(observed)
}

fn request(sources: &Sources, files: &[PathBuf], given: Option<&Name>, dry_run: bool) -> ApplyRequest {
    let first = files.first().and_then(|file| std::path::absolute(file).ok()).unwrap_or_default();
    let origin = given.map_or_else(|| first.display().to_string(), |name| format!("the name {name}"));
    let set = set_name(files, given);
    let source = |source: &crate::manifest::Source| AppliedSource {
        // Absolute, because the daemon stands elsewhere, and two sets may both hold a `being.toml`.
        path: source.path.file_name().map_or_else(|| source.path.clone(), |name| source.folder.join(name)),
        folder: source.folder.clone(),
        text: source.text.to_string(),
    };
    let content = AppliedSet { sources: sources.files().map(source).collect(), origin, deleted: Vec::new() };
    ApplyRequest { set, content, dry_run }
}

/// The name of a set: as given, else of the first file or folder, made fit for a name.
pub(super) fn set_name(files: &[PathBuf], given: Option<&Name>) -> Name {
    let absolute = files.first().and_then(|file| std::path::absolute(file).ok()).unwrap_or_default();
    let stem = absolute.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_lowercase();
    let plain: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(63).collect();
    given.cloned().or_else(|| Name::try_from(plain.trim_matches('-')).ok()).unwrap_or_else(Name::default_set)
}

/// Starts a daemon of its own session for the home, and waits until it listens.
async fn start(context: &Context, home: &Home) -> Result<Client, Failure> {
    let start = DaemonStart {
        program: context.program().to_owned(),
        args: vec!["--home".into(), home.path().into(), "serve".into()],
        log: home.daemon_log(),
        cwd: context.cwd().to_owned(),
    };
    let daemon = start_daemon(&start).map_err(|error| Failure::of(Class::State, &error))?;
    let deadline = Instant::now() + START;
    loop {
        if let Some(client) = context.client()? {
            say(&format!("started the daemon (process {})", daemon.id()));
            return Ok(client);
        }
        if Instant::now() > deadline || daemon.has_ended() {
            let what = format!("the daemon did not start; its last words:\n{}", last_words(&home.daemon_log()));
            return Err(Failure::new(Class::Runtime, what).hinting(format!("see {}", home.daemon_log().display())));
        }
        sleep(LOOK).await;
    }
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Waits until each object of the set is ready or stalled.
async fn settle(context: &Context, client: &Client, answer: &ApplyAnswer, deadline: Instant) -> Result<StatusAnswer, Failure> {
    let progress = Progress::new(context.is_lively());
    let (mut newer_than, mut told) = (None, BTreeSet::new());
    loop {
        let asked_for = timeout_at(deadline, client.status(newer_than)).await;
        let Ok(status) = asked_for else {
            progress.clear();
            return Err(late());
        };
        let status = status.map_err(|error| asked(&error))?;
        let open: Vec<&ObjectStatus> = of_set(&status, answer).filter(|object| !is_settled(object)).collect();
        if open.is_empty() && of_set(&status, answer).count() == answer.addresses.len() {
            progress.clear();
            return Ok(status);
        }
        for object in &open {
            tell_failure(object, &mut told, &progress);
        }
        match status.status.pulling {
            Some((done, total)) => progress.fetching(done, total),
            None => {
                let names: Vec<&str> = open.iter().map(|object| object.address.as_str()).collect();
                progress.waiting(format!("waiting for {}", names.join(", ")));
            }
        }
        newer_than = Some(status.status.version);
    }
}

fn late() -> Failure {
    let hint = "`singularity get` shows how it goes; `singularity describe` says why an object waits";
    Failure::new(Class::Runtime, "not everything became ready in time").hinting(hint)
}

/// Says once why an object is not ready that is tried again by itself.
fn tell_failure(object: &ObjectStatus, told: &mut BTreeSet<String>, progress: &Progress) {
    let is_trying = object.condition(ConditionKind::Progressing).is_some_and(|progressing| progressing.reason == "BackOff");
    let Some(ready) = object.condition(ConditionKind::Ready).filter(|_| is_trying) else { return };
    let line = format!("{} is not ready yet ({}): {}", object.address, ready.reason, ready.message);
    if told.insert(line.clone()) {
        progress.above(|| say(&line));
    }
}

fn of_set<'a>(status: &'a StatusAnswer, answer: &ApplyAnswer) -> impl Iterator<Item = &'a ObjectStatus> {
    let wanted: BTreeSet<String> = answer.addresses.iter().map(ToString::to_string).collect();
    status.status.list.items.iter().filter(move |object| wanted.contains(&object.address))
}

fn is_settled(object: &ObjectStatus) -> bool {
    object.is(ConditionKind::Stalled) || is_ready(object)
}

/// Says what came of it.
fn conclude(status: &StatusAnswer, answer: &ApplyAnswer) -> Result<(), Failure> {
    let mut stalled = 0_usize;
    for object in of_set(status, answer).filter(|object| object.being.is_some() || object.is(ConditionKind::Stalled)) {
        let row = match object.condition(ConditionKind::Stalled).filter(|_| object.is(ConditionKind::Stalled)) {
            Some(condition) => {
                stalled += 1;
                format!("{} is stalled ({}): {}", object.address, condition.reason, condition.message)
            }
            None => format!("{} is ready", object.address),
        };
        say(&row);
    }
    if stalled > 0 {
        return Err(Failure::new(Class::Runtime, format!("{stalled} of the objects wait for an operator"))
            .hinting("`singularity describe` says more"));
    }
    if let Some(being) = beings(answer).first() {
        say(&format!("follow with `singularity logs -f {being}`, stop everything with `singularity down`"));
    }
    Ok(())
}

fn beings(answer: &ApplyAnswer) -> Vec<Address> {
    answer.addresses.iter().filter(|address| address.kind == crate::vocab::Kind::Being).cloned().collect()
}
