use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use serde_json::{Map, Value, json};

use super::{
    args::Format,
    context::{Context, print, say},
    decide::{Asked, By, How, engine},
    failure::{Class, Failure},
    skill_body::{Which, accepted, at, failed, open, place, told},
};
use crate::{
    manifest::{SkillAction, SkillSpec},
    process::Veil,
    runtime::{Clock, Ids, skill_grant, skill_terms},
    secret::{self, Secrets},
    skill::{Body, Grant, Inspection, Note, Outcome, Peer, Place, Request, Run, SkillAddress, Stop, Terms, inspect, perform},
    vocab::{Ratio, Size, Span},
};

/// Where no decision is declared that says another.
const DEFAULT_TAU: Ratio = Ratio::millionths(600_000);

pub(super) const HELP: &str =
    "The body works in --folder and may write in its `data` and in what --write names. What it asks for is answered by --answer, in
order; a run that still waits is put down in the file that --keep names, and goes on from there with the same prediction.
Of a skill that the manifests of -f declare, the name is enough: they say what it may reach, and --folder is its workspace.

Examples:
  singularity skill run skills/email/compose.py --text \"Tell Ann that the roof is done\"
  singularity skill run mail.compose -f examples/skills.toml --text \"Tell Ann that the roof is done\"
  singularity skill run skills/calculator/calculate.py --text \"add them\" --answer \"3 and 4\" -o json
  singularity skill run skills/health/check --text \"is it up?\" --config url=http://127.0.0.1:8080/ --network 127.0.0.1:8080";

/// Arguments of `skill run`.
#[derive(Debug, Args)]
pub(super) struct RunSkill {
    #[command(flatten)]
    pub which: Which,
    /// What is asked of the skill.
    #[arg(long, value_name = "TEXT", required_unless_present = "keep")]
    pub text: Option<String>,
    /// A value of its configuration, over all files; JSON where it reads as such, else text.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub config: Vec<(String, Value)>,
    /// A JSON object of configuration, under the `config.json` of the category and of the skill.
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// The answer to a question; may be given more than once.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub answer: Vec<String>,
    /// Where a run that waits for an answer is put down, and taken up again.
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    #[command(flatten)]
    pub reach: Reach,
    #[command(flatten)]
    pub judging: Judging,
    /// `table` for people, `json` for all at the end, `jsonl` for each thing as it happens.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// What the body may reach and take.
#[derive(Debug, Args)]
pub(super) struct Reach {
    /// Where the body works; it may write in the folder `data` there.
    #[arg(long, default_value = ".", value_name = "DIR", help_heading = "Sandbox")]
    pub folder: PathBuf,
    /// One more folder that it may write in.
    #[arg(long, value_name = "DIR", help_heading = "Sandbox")]
    pub write: Vec<PathBuf>,
    /// One more file or folder that it may read.
    #[arg(long, value_name = "PATH", help_heading = "Sandbox")]
    pub read: Vec<PathBuf>,
    /// A host that it may connect to; without any there is no network.
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Sandbox")]
    pub network: Vec<Peer>,
    /// Time on a core.
    #[arg(long, default_value = "10s", value_name = "SPAN", help_heading = "Sandbox")]
    pub cpu_time: Span,
    /// Time on the wall, but for what the engine takes.
    #[arg(long, default_value = "1m", value_name = "SPAN", help_heading = "Sandbox")]
    pub wall_time: Span,
    /// Memory.
    #[arg(long, default_value = "256MiB", value_name = "SIZE", help_heading = "Sandbox")]
    pub memory: Size,
}

/// How the run is judged, and by which engine.
#[derive(Debug, Args)]
pub(super) struct Judging {
    /// How likely success must be for the run to be complete.
    #[arg(long, default_value_t = 0.6, value_name = "SHARE")]
    pub tau: f64,
    /// How often a run that failed is run again.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub max_reentries: u32,
    /// What the run may cost: 1 pays for 10 calls of the body, or for 20 decisions of it.
    #[arg(long, default_value_t = 1.0, value_name = "COST")]
    pub cost_budget: f64,
    /// In how many orders the options of a decision are shown.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub rotations: u8,
    #[command(flatten)]
    pub asked: Asked,
}

fn pair(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
        }
        _ => Err("write a key, `=` and its value, such as drafts=data/drafts".to_owned()),
    }
}

/// Runs a skill until it ends, or asks what nobody answered.
pub(super) async fn run(context: &Context, arguments: &RunSkill) -> Result<(), Failure> {
    let declared = declared(context, arguments)?;
    let body = match &declared {
        Some(Declared { file, name, .. }) => open(context, &Which { path: file.clone(), name: Some(name.clone()) })?,
        None => open(context, &arguments.which)?,
    };
    let mut run = begin(context, arguments, &body)?;
    let veil = declared.as_ref().map(|declared| declared.veil.clone());
    let place = Place { veil, ..place(context)? };
    let inspection = inspect(&place, &body).await.map_err(|error| failed(&error))?;
    if !inspection.accepts() {
        say(told(&body, &inspection).trim_end());
    }
    accepted(&body, &inspection)?;
    let (terms, (grant, _data)) = match &declared {
        Some(Declared { spec, tau, secrets, .. }) => {
            let over = secrets.clone().into_iter().chain(arguments.config.iter().cloned()).collect();
            let terms = skill_terms(spec, *tau, (&body, &inspection), over);
            (terms, declared_grant(spec, &at(context, &arguments.reach.folder))?)
        }
        None => (terms(context, arguments, &body, &inspection)?, grant(context, &arguments.reach)?),
    };
    let engine = {
        let how = How { rotations: arguments.judging.rotations, ..How::default() };
        engine(context, By::Readout, &arguments.judging.asked, how).await?
    };
    let mut trace = Trace { output: arguments.output, notes: Vec::new(), broken: Ok(()) };
    let mut answers = arguments.answer.iter();
    if run.question().is_some()
        && let Some(answer) = answers.next()
    {
        run.answer(answer);
    }
    let stop = loop {
        let note = |_: &Run, note: Note| trace.hear(&note);
        let stop = perform(&mut run, &terms, (&body, &inspection), (&place, &grant), &engine, note).await;
        let stop = stop.map_err(|error| failed(&error));
        keep(context, arguments, &run)?;
        match (stop?, answers.next()) {
            (Stop::Asked(_), Some(answer)) => drop(run.answer(answer)),
            (stop, _) => break stop,
        }
    };
    trace.end(&body)?;
    match stop {
        Stop::Asked(question) => {
            let hint = match &arguments.keep {
                Some(file) => format!("go on with --keep {} --answer TEXT", file.display()),
                None => "give --answer TEXT, or --keep FILE to go on later".to_owned(),
            };
            Err(Failure::new(Class::Runtime, format!("skill {} waits for an answer: {}", body.name, question.text)).hinting(hint))
        }
        Stop::Ended(Outcome { is_ok: true, .. }) => Ok(()),
        Stop::Ended(outcome) => Err(Failure::new(Class::Runtime, format!("skill {}", outcome.summary))),
    }
}

/// A skill that the manifests declare.
#[derive(Debug)]
struct Declared {
    name: SkillAddress,
    file: PathBuf,
    spec: SkillSpec,
    tau: Ratio,
    /// As the body sees them in its configuration.
    secrets: Map<String, Value>,
    /// Hides them.
    veil: Veil,
}

/// What the manifests declare of the skill, where it is named and not a path.
fn declared(context: &Context, arguments: &RunSkill) -> Result<Option<Declared>, Failure> {
    let (path, files) = (&arguments.which.path, &arguments.judging.asked.files);
    let named = path.to_str().and_then(|text| text.parse::<SkillAddress>().ok());
    let Some(name) = named.filter(|_| !files.is_empty() && !at(context, path).exists()) else { return Ok(None) };
    let fleet = context.read(files, &context.overrides())?.1.fleet;
    let mut categories = fleet.categories.iter().filter(|(category, _)| category.as_str() == name.category());
    let found = categories.next().and_then(|(_, category)| category.skills.iter().find(|(leaf, _)| leaf.as_str() == name.leaf()));
    let Some((_, spec)) = found else {
        let hint = "`singularity tree -f …` shows what they declare";
        return Err(Failure::new(Class::Configuration, format!("the manifests declare no skill {name}")).hinting(hint));
    };
    let SkillAction::Body(file) = &spec.does else {
        return Err(Failure::new(Class::Configuration, format!("skill {name} has no body that could be run")));
    };
    let variable = |name: &str| context.env().get(name).cloned();
    let mut secrets = Map::new();
    let known = Secrets::new(Arc::new(|_| None));
    for (key, source) in &spec.secrets {
        let secret = secret::read(source, &variable).map_err(|error| Failure::of(Class::Configuration, &error))?;
        known.know(&secret);
        secrets.insert(key.clone(), Value::from(secret.reveal()));
    }
    let veil = Veil::new(move |text| known.hide(text).into_owned());
    let tau = fleet.only_decision().map_or(DEFAULT_TAU, |decision| decision.tau);
    Ok(Some(Declared { file: file.clone(), spec: spec.clone(), tau, secrets, veil, name }))
}

/// What the manifest grants; folders to write in are made.
fn declared_grant(spec: &SkillSpec, workspace: &Path) -> Result<(Grant, Option<Data>), Failure> {
    let grant = skill_grant(spec, workspace);
    grant.write.iter().try_for_each(|folder| make(folder))?;
    Ok((grant, None))
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::new(Class::State, format!("cannot make the folder {}: {error}", folder.display())))
}

/// A new run, or the one that was put down.
fn begin(context: &Context, arguments: &RunSkill, body: &Body) -> Result<Run, Failure> {
    let kept = arguments.keep.as_deref().map(|file| at(context, file)).filter(|file| file.exists());
    let Some(file) = kept else {
        let text = arguments
            .text
            .clone()
            .ok_or_else(|| Failure::new(Class::Configuration, "no run was put down there; give --text to begin one"))?;
        let id = Ids::random().next().simple().to_string().chars().take(12).collect::<String>();
        let now = Clock::system().now();
        return Ok(Run::new(body.name.clone(), Request::typed(id, text, now.as_duration().as_secs_f64())));
    };
    let unreadable =
        |why: &dyn std::fmt::Display| Failure::new(Class::State, format!("{} is no run that was put down: {why}", file.display()));
    let text = fs::read_to_string(&file).map_err(|error| unreadable(&error))?;
    let run: Run = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
    if run.skill != body.name {
        return Err(unreadable(&format!("it is of {}, not of {}", run.skill, body.name)));
    }
    Ok(run)
}

/// Keeps what can be taken up again, for its owner alone; what has ended is not kept.
fn keep(context: &Context, arguments: &RunSkill, run: &Run) -> Result<(), Failure> {
    let Some(file) = arguments.keep.as_deref().map(|file| at(context, file)) else { return Ok(()) };
    let kept = match run.question() {
        Some(_) => put_down(&file, run),
        None if file.exists() => fs::remove_file(&file),
        None => Ok(()),
    };
    kept.map_err(|error| Failure::new(Class::State, format!("cannot keep the run in {}: {error}", file.display())))
}

fn put_down(file: &Path, run: &Run) -> io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(Path::new("/")))?;
    new.write_all(&serde_json::to_vec_pretty(run)?)?;
    new.as_file().sync_all()?;
    new.persist(file).map(drop).map_err(|error| error.error)
}

fn terms(context: &Context, arguments: &RunSkill, body: &Body, inspection: &Inspection) -> Result<Terms, Failure> {
    let mut config = match &arguments.config_file {
        Some(file) => object(&at(context, file))?,
        None => Map::new(),
    };
    config.extend(body.config.clone());
    config.extend(arguments.config.iter().cloned());
    let Judging { tau, max_reentries, cost_budget, .. } = arguments.judging;
    Ok(Terms { tau, max_reentries, cost_budget, contract: inspection.contract.clone(), config })
}

fn object(file: &Path) -> Result<Map<String, Value>, Failure> {
    let refused =
        |why: &dyn std::fmt::Display| Failure::new(Class::Configuration, format!("cannot read {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| refused(&error))?;
    serde_json::from_str(&text).map_err(|error| refused(&error))
}

/// The folder `data`, which is gone again where nothing was left in it.
#[derive(Debug)]
struct Data(PathBuf);

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn grant(context: &Context, reach: &Reach) -> Result<(Grant, Option<Data>), Failure> {
    let folder = at(context, &reach.folder);
    let data = folder.join("data");
    make(&data)?;
    let named = |paths: &[PathBuf]| paths.iter().map(|path| at(context, path)).collect::<Vec<_>>();
    let grant = Grant {
        read: named(&reach.read),
        write: [vec![data.clone()], named(&reach.write)].concat(),
        network: reach.network.clone(),
        cpu: reach.cpu_time,
        memory: reach.memory,
        wall: reach.wall_time,
        ..Grant::new(folder)
    };
    Ok((grant, Some(Data(data))))
}

/// What happened, as it is shown.
#[derive(Debug)]
struct Trace {
    output: Format,
    notes: Vec<Value>,
    broken: Result<(), Failure>,
}

impl Trace {
    fn hear(&mut self, note: &Note) {
        let text = match self.output {
            Format::Json => return self.notes.push(json!(note)),
            Format::Jsonl => format!("{}\n", json!(note)),
            _ => line(note),
        };
        if self.broken.is_ok() {
            self.broken = print(&text);
        }
    }

    fn end(self, body: &Body) -> Result<(), Failure> {
        self.broken?;
        match self.output {
            Format::Json => print(&format!("{:#}\n", json!({ "skill": body.name, "trace": self.notes }))),
            _ => Ok(()),
        }
    }
}

fn line(note: &Note) -> String {
    match note {
        Note::Decided { phase, request, decision } => {
            let selected = decision.selected.as_deref().unwrap_or("nothing");
            let most = decision.probabilities.iter().copied().fold(0.0, f64::max);
            format!("{phase}: {} → {selected} ({most:.2})\n", request.question)
        }
        Note::Predicted { text } => format!("predicted: {text}\n"),
        Note::Acted { action_log, new_state } => format!("acted: {action_log}\nstate: {new_state}\n"),
        Note::Printed { lines } => lines.iter().map(|line| format!("printed: {line}\n")).collect(),
        Note::Asked { question } => format!("asks: {}\n", question.text),
        Note::Requeued { reentries } => format!("again: {reentries}\n"),
        Note::Ended { outcome } => format!("{}\n", outcome.summary),
    }
}
