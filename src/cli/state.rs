use std::{
    fs::File,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    args::Format,
    context::{Context, print, say},
    failure::{Class, Failure},
    logs::being,
};
use crate::{
    runtime::Clock,
    store::{self, CommitLog, Damage, Done, Lost, RescueError, Sight, StoreError, Survey},
};

/// What to do about a being's state, which nobody may be animating meanwhile.
#[derive(Debug, Subcommand)]
pub(super) enum State {
    /// Read every record and tell what is whole. Changes nothing.
    #[command(after_help = "Exit code 4 says that something is damaged.

Examples:
  singularity state verify ada
  singularity state verify --state-dir backup/ada -o json")]
    Verify(VerifyState),
    /// Keep what is whole of a damaged life. The damaged one is kept too, beside it, byte for byte.
    #[command(after_help = "Examples:
  singularity state repair ada          tell what would be kept and what lost
  singularity state repair ada --yes    do it")]
    Repair(ChangeState),
    /// Write a whole life into one file, to keep or to move.
    #[command(
        after_help = "The file is a compressed tar archive; `tar -tzf` lists it. It holds all that the being said and was told.

Examples:
  singularity state export ada -o ada.tar.gz
  singularity state export ada | ssh other singularity state import - ada"
    )]
    Export(ExportState),
    /// Put the life of an export where there is none.
    #[command(after_help = "Examples:
  singularity state import ada.tar.gz ada
  singularity state import ada.tar.gz --state-dir backup/ada")]
    Import(ImportState),
    /// Accept a `state.json` that was edited by hand: the being is what it says from then on.
    #[command(after_help = "Examples:
  singularity state adopt ada          show what the edit changes
  singularity state adopt ada --yes    accept it")]
    Adopt(ChangeState),
}

/// Whose state.
#[derive(Debug, Args)]
pub(super) struct Whose {
    /// The being, such as `being/ada` or `ada`.
    #[arg(required_unless_present = "state_dir", conflicts_with = "state_dir")]
    pub being: Option<String>,
    /// A state directory in the place of a being of the home.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `state verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyState {
    #[command(flatten)]
    pub whose: Whose,
    /// `table` for people, `json` for programs.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of what changes a state, with consent.
#[derive(Debug, Args)]
pub(super) struct ChangeState {
    #[command(flatten)]
    pub whose: Whose,
    /// Do it, whatever is told to be lost or changed.
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `state export`.
#[derive(Debug, Args)]
pub(super) struct ExportState {
    #[command(flatten)]
    pub whose: Whose,
    /// The file to make; without it standard output, unless that is a terminal.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export a damaged life too, as it is.
    #[arg(long)]
    pub damaged: bool,
}

/// Arguments of `state import`.
#[derive(Debug, Args)]
pub(super) struct ImportState {
    /// The archive, or `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub whose: Whose,
}

/// Looks at a being's state, or changes it.
pub(super) fn state(context: &Context, verb: &State) -> Result<(), Failure> {
    match verb {
        State::Verify(arguments) => verify(context, arguments),
        State::Repair(arguments) => repair(context, arguments),
        State::Export(arguments) => export(context, arguments),
        State::Import(arguments) => import(context, arguments),
        State::Adopt(arguments) => adopt(context, arguments),
    }
}

/// The state directory, and how to name it on the command line.
fn whose(context: &Context, whose: &Whose) -> Result<(PathBuf, String), Failure> {
    if let Some(dir) = &whose.state_dir {
        return Ok((context.cwd().join(dir), format!("--state-dir {}", dir.display())));
    }
    let name = being(whose.being.as_deref().unwrap_or_default())?;
    if name.parent().is_some()
        && let Some(home) = context.existing_home()?
    {
        let found = store::dir_of(&home, &name).map_err(|error| stored(&error))?;
        let unknown = || Failure::new(Class::State, format!("being/{name} is no child that its parent knows"));
        return Ok((found.ok_or_else(unknown)?, name.to_string()));
    }
    Ok((context.home_path().join("beings").join(name.as_str()), name.to_string()))
}

/// The state directory, after what a daemon that is gone acknowledged was brought into its journal.
fn mended(context: &Context, arguments: &Whose) -> Result<(PathBuf, String), Failure> {
    let place = whose(context, arguments)?;
    if let Some(home) = context.existing_home()? {
        let told = CommitLog::mend(&home).map_err(|error| stored(&error))?;
        told.iter().for_each(|sentence| say(sentence));
    }
    Ok(place)
}

fn stored(error: &StoreError) -> Failure {
    let failure = Failure::of(Class::State, error);
    error.hint().map_or_else(|| failure.clone(), |hint| failure.clone().hinting(hint))
}

fn rescued(error: &RescueError) -> Failure {
    match error {
        RescueError::Store(error) => stored(error),
        _ => Failure::of(Class::State, error),
    }
}

fn verify(context: &Context, arguments: &VerifyState) -> Result<(), Failure> {
    let (dir, name) = whose(context, &arguments.whose)?;
    let no_life = || rescued(&RescueError::NoLife { dir: dir.clone() });
    let found = store::survey(&dir).map_err(|error| stored(&error))?.ok_or_else(no_life)?;
    let text = match arguments.output {
        Format::Table | Format::Wide => format!("{}\n{}", dir.display(), told(&found)),
        Format::Json => format!("{:#}\n", described(&dir, &found)),
        Format::Jsonl => format!("{}\n", described(&dir, &found)),
        Format::Toml | Format::Name => return Err(Failure::new(Class::Configuration, "a survey is printed as table or json")),
    };
    print(&text)?;
    if !found.is_damaged() {
        return Ok(());
    }
    let in_use = context.existing_home()?.map(|home| CommitLog::is_in_use(&home)).transpose().map_err(|error| stored(&error))?;
    if in_use == Some(true) && context.client()?.is_none() {
        say(
            "the home's commit log holds what its last daemon acknowledged; whatever is missing of that, `repair` or a start brings back",
        );
    }
    let hint = match found.picture {
        Sight::Unproven(_) if found.damage.is_none() => {
            format!("`singularity state adopt {name}` accepts an edit, `singularity state repair {name}` undoes it")
        }
        _ => format!("`singularity state repair {name}` keeps what is whole, and the damaged files"),
    };
    Err(Failure::new(Class::State, format!("{} is damaged", dir.display())).hinting(hint))
}

fn described(dir: &Path, found: &Survey) -> Value {
    let mut facts = json!({ "dir": dir, "is_damaged": found.is_damaged() });
    if let (Value::Object(facts), Value::Object(found)) = (&mut facts, json!(found)) {
        facts.extend(found);
    }
    facts
}

/// A survey as people read it.
fn told(found: &Survey) -> String {
    let picture = match &found.picture {
        Sight::Good => "good".to_owned(),
        Sight::Missing => "missing; it is made anew from the journal".to_owned(),
        Sight::Unproven(why) | Sight::Bad(why) => format!("refused: {}", why.trim_start_matches("state: ")),
    };
    let open: Vec<String> = found.open_calls.iter().map(|call| format!("{} {}", call.tool, call.call_id)).collect();
    let mut rows = vec![
        ("records", format!("{} whole, in {} files of {} bytes", found.records, found.files, found.bytes)),
        ("torn tail", format!("{} bytes; the next start cuts them off", found.torn)),
        ("open calls", open.join(", ")),
        ("picture", picture),
        ("state", found.state_sha256.map(|digest| format!("SHA-256 {digest}")).unwrap_or_default()),
        ("cycle", found.cycle.to_string()),
        ("balance", format!("{} USD", found.balance_usd)),
    ];
    rows.retain(|(label, text)| !text.is_empty() && (*label != "torn tail" || found.torn > 0));
    rows.extend(found.worn.iter().map(|worn| ("worn", format!("{worn}; its records are all whole"))));
    if let Some(damage) = &found.damage {
        rows.extend(["damage"].into_iter().chain(std::iter::repeat("")).zip(fate(found.records, damage)));
    }
    rows.iter().map(|(label, value)| format!("  {label:<10}  {value}\n")).collect()
}

/// What would be kept, and what lost.
fn fate(kept: u64, damage: &Damage) -> Vec<String> {
    let Damage { spot, record, state_known_to, behind } = damage;
    let mut told = vec![
        format!("{spot}; record {record} should be there"),
        format!("kept: the {kept} records before it"),
        format!("lost: record {record}, and {} whole records behind it{}", behind.records, kinds(behind)),
    ];
    match state_known_to {
        Some(seq) => {
            told.push(format!("the state is known up to record {seq} by its picture, money too: up to there only history is lost"));
        }
        None => told.push("the state goes back to what the kept records make".to_owned()),
    }
    told.extend(money(behind));
    told
}

fn kinds(behind: &Lost) -> String {
    let kinds: Vec<String> = behind.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) }
}

fn money(behind: &Lost) -> Vec<String> {
    let Lost { debited_usd: debited, credited_usd: credited, granted_usd: granted, .. } = behind;
    let mut told = Vec::new();
    if behind.kinds.keys().any(|kind| kind == "cost_debited" || kind == "revenue_credited") {
        told.push(format!("money of records that are lost: {debited} USD spent, {credited} USD earned"));
    }
    let grants = granted.iter();
    told.extend(
        grants.map(|(id, usd)| format!("the grant `{id}` of {usd} USD is lost; a manifest that still has it grants it again")),
    );
    told
}

fn repair(context: &Context, arguments: &ChangeState) -> Result<(), Failure> {
    let (dir, name) = mended(context, &arguments.whose)?;
    let repair = store::repair(&dir, arguments.yes, Clock::system().now()).map_err(|error| rescued(&error))?;
    print(&format!("{}\n{}", dir.display(), told(&repair.found)))?;
    match repair.done {
        Done::Nothing => say("nothing is damaged; nothing was changed"),
        Done::NeedsConsent => {
            let hint = format!("put a good copy back, or keep what is whole with `singularity state repair {name} --yes`");
            return Err(Failure::new(Class::State, "records or an edit would be lost, so nothing was changed").hinting(hint));
        }
        Done::Redrawn { original: None } => say("the picture was made anew from the journal; nothing is lost"),
        Done::Redrawn { original: Some(original) } => {
            say(&format!("the picture was made anew from the journal; nothing is lost, and the old one is {}", original.display()));
        }
        Done::Rewritten { original } => {
            say(&format!("what was whole is in place, and the damaged life is {} as it was", original.display()));
        }
    }
    Ok(())
}

fn export(context: &Context, arguments: &ExportState) -> Result<(), Failure> {
    let (dir, _) = mended(context, &arguments.whose)?;
    let Some(file) = &arguments.output else {
        if io::stdout().is_terminal() {
            let what = "an archive is not for a terminal";
            return Err(Failure::new(Class::Configuration, what).hinting("name a file with -o FILE, or pipe it on"));
        }
        store::export(&dir, io::stdout().lock(), arguments.damaged).map_err(|error| rescued(&error))?;
        return Ok(());
    };
    let failed = |error: io::Error| Failure::of(Class::State, &error);
    let file = context.cwd().join(file);
    let mut made = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(context.cwd())).map_err(failed)?;
    let exported = store::export(&dir, &mut made, arguments.damaged).map_err(|error| rescued(&error))?;
    made.flush().and_then(|()| made.as_file().sync_all()).map_err(failed)?;
    made.persist_noclobber(&file).map_err(|error| {
        let what = format!("cannot make {}: {}", file.display(), error.error);
        Failure::new(Class::State, what).hinting("name a file that does not exist yet")
    })?;
    say(&format!("{} records in {} files are in {}", exported.found.records, exported.members, file.display()));
    Ok(())
}

fn import(context: &Context, arguments: &ImportState) -> Result<(), Failure> {
    let (dir, _) = mended(context, &arguments.whose)?;
    let found = if arguments.file == Path::new("-") {
        store::import(io::stdin().lock(), &dir)
    } else {
        let file = context.cwd().join(&arguments.file);
        let opened = File::open(&file);
        let opened = opened.map_err(|error| Failure::new(Class::State, format!("cannot read {}: {error}", file.display())))?;
        store::import(opened, &dir)
    };
    let found = found.map_err(|error| rescued(&error))?;
    say(&format!("{} records are in {}: cycle {}, {} USD", found.records, dir.display(), found.cycle, found.balance_usd));
    Ok(())
}

fn adopt(context: &Context, arguments: &ChangeState) -> Result<(), Failure> {
    let (dir, name) = mended(context, &arguments.whose)?;
    let adoption = store::adopt(&dir, arguments.yes, Clock::system().now()).map_err(|error| rescued(&error))?;
    let lines = adoption.changes.iter().map(|(field, before, after)| format!("{field}: {} -> {}\n", brief(before), brief(after)));
    print(&lines.collect::<String>())?;
    match adoption.kept {
        None => {
            let hint = format!("accept it with `singularity state adopt {name} --yes`");
            return Err(Failure::new(Class::State, "an edit changes what the being is, so nothing was changed").hinting(hint));
        }
        Some(kept) => {
            say("the being is as edited from here on, by a record of its journal");
            say(&format!("the edit is kept as {}, what was before as {}", kept.edited.display(), kept.before.display()));
        }
    }
    Ok(())
}

/// A value on one short line.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(fields) => format!("{{{}}}", fields.keys().cloned().collect::<Vec<_>>().join(", ")),
        Value::String(text) if text.chars().count() > 80 => format!("{} characters", text.chars().count()),
        other => other.to_string(),
    }
}
