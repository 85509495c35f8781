use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    args::Format,
    context::{Context, invalid, print},
    failure::{Class, Failure},
    single::show_pulling,
    table::table,
};
use crate::{
    decision::{BadRequest, Choice, Decision, DecisionError, DecisionRequest, Engine, Likeness, Nearness, OPTIONS, Readout, Terms},
    manifest::{Fleet, ModelSpec, Overrides, ProviderSpec, Sources, read},
    model::{
        Models,
        pull::{self, Package},
    },
    runtime::Weights,
    vocab::Name,
};

/// Arguments of `decide`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("evidence").required(true).args(["state", "state_file", "rows"]))]
pub(super) struct Decide {
    /// What is to be judged, as text.
    #[arg(long, value_name = "TEXT", requires = "question")]
    pub state: Option<String>,
    /// The same from a file, `-` for standard input; a JSON object or array is shown as such.
    #[arg(long, value_name = "FILE", requires = "question")]
    pub state_file: Option<PathBuf>,
    /// What is asked about it.
    #[arg(long, value_name = "TEXT", requires = "options")]
    pub question: Option<String>,
    /// An option and what it means, 2 to 16 times. The model sees the description alone.
    #[arg(long = "option", value_name = "ID=DESCRIPTION", value_parser = choice)]
    pub options: Vec<Choice>,
    /// Decide each row of a file of JSON lines, `-` for standard input: {"id", "state", "question", "options": [{"id", "description"}]}.
    /// A line of JSON is printed for each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["question", "options", "output"])]
    pub rows: Option<PathBuf>,
    /// Who decides. Comparing meanings is the better way to tell which topic fits, and the readout the only one that reads the question.
    #[arg(long, value_enum, default_value_t = By::Readout, value_name = "ENGINE")]
    pub engine: By,
    /// In how many orders the options are shown, at most one for each option; a small model likes some letters more than others.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub rotations: u8,
    /// Divides the scores: a higher one evens the options out, a lower one parts them. It changes no choice of one order. Without it 1 for
    /// `readout`, and 0.05 for `embedding`.
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// Select nothing when the letters of the options hold less than this share of all probability.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    pub min_mass: f64,
    #[command(flatten)]
    pub asked: Asked,
    /// How to print the decision.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Which model is asked.
#[derive(Debug, Default, Args)]
pub(super) struct Asked {
    /// Manifests that declare the model to ask; a server has to list `top_logprobs`. Without them the model that
    /// `singularity model pull` brings is asked.
    #[arg(short = 'f', long = "file", value_name = "PATH", conflicts_with = "model_file")]
    pub files: Vec<PathBuf>,
    /// Which of the declared models.
    #[arg(long, value_name = "NAME", requires = "files")]
    pub model: Option<Name>,
    /// The weights to ask, a GGUF file.
    #[arg(long, value_name = "FILE")]
    pub model_file: Option<PathBuf>,
}

/// Names of the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// A language model: the scores that it gives to the letters of the options.
    Readout,
    /// all-MiniLM-L6-v2: how near the description of each option is to the state. An option `none` stands for none of the others.
    Embedding,
}

fn choice(text: &str) -> Result<Choice, String> {
    match text.split_once('=') {
        Some((id, description)) if !id.is_empty() => Ok(Choice::new(id, description)),
        _ => Err("write an id, `=` and what it means, such as login=\"Trouble with signing in\"".to_owned()),
    }
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.01..=100.0).contains(number));
    number.ok_or_else(|| "write a number from 0.01 to 100".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a share from 0 to 1".to_owned())
}

/// No state and no row is longer, in bytes.
const MAX_ROW: u64 = 1 << 20;

/// Decides one request, or each of many.
pub(super) async fn decide(context: &Context, arguments: &Decide) -> Result<(), Failure> {
    let Some(rows) = &arguments.rows else {
        // What is wrong with the request is told before a model is fetched or loaded.
        let request = single(context, arguments)?;
        let decision = decider(context, arguments).await?.decide(&request).await.map_err(|error| failed(&error))?;
        return print(&rendered(&decision, arguments.output)?);
    };
    let mut lines = Lines::open(context, rows)?;
    let Some(first) = lines.next().transpose()? else {
        return Err(Failure::new(Class::Configuration, format!("{} holds no rows", rows.display())));
    };
    let engine = decider(context, arguments).await?;
    for request in std::iter::once(Ok(first)).chain(lines) {
        let decision = engine.decide(&request?).await.map_err(|error| failed(&error))?;
        print(&format!("{}\n", json!(decision)))?;
    }
    Ok(())
}

fn single(context: &Context, arguments: &Decide) -> Result<DecisionRequest, Failure> {
    let state = match (&arguments.state, &arguments.state_file) {
        (Some(text), _) => Value::from(text.as_str()),
        (None, Some(path)) => {
            let mut text = String::new();
            let file = open(context, path)?;
            let read = file.take(MAX_ROW + 1).read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
            if u64::try_from(read).is_ok_and(|read| read > MAX_ROW) {
                let what = format!("{} is longer than the {MAX_ROW} bytes that a state may have", path.display());
                return Err(Failure::new(Class::Configuration, what));
            }
            let structured = serde_json::from_str(&text).ok().filter(|value: &Value| value.is_object() || value.is_array());
            structured.unwrap_or_else(|| Value::from(text.trim_end()))
        }
        (None, None) => Value::Null,
    };
    let question = arguments.question.clone().unwrap_or_default();
    let row = json!({ "id": "cli", "state": state, "question": question, "options": arguments.options });
    DecisionRequest::read(&row).map_err(|error| refused(&error))
}

async fn decider(context: &Context, arguments: &Decide) -> Result<Engine, Failure> {
    let Decide { temperature, rotations, min_mass, .. } = *arguments;
    engine(context, arguments.engine, &arguments.asked, How { temperature, rotations, min_mass }).await
}

/// How an engine decides.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    /// `None` is what fits the engine.
    pub temperature: Option<f64>,
    pub rotations: u8,
    pub min_mass: f64,
}

/// The engine, on a model of the manifests, on weights that are named, or on the default ones.
pub(super) async fn engine(context: &Context, by: By, asked: &Asked, how: How) -> Result<Engine, Failure> {
    let How { temperature, rotations, min_mass } = how;
    if by == By::Embedding {
        let temperature = temperature.unwrap_or(Nearness::default().temperature);
        let models = meanings(context, &Fleet::default()).await?;
        return Ok(Engine::Embedding(Likeness::new(models, Nearness { temperature, min_mass })));
    }
    let (model, specs) = models(context, asked)?;
    let terms = Terms { temperature: temperature.unwrap_or(Terms::default().temperature), rotations: rotations.into(), min_mass };
    Ok(Engine::Readout(Readout::new(ready(context, &specs, &model).await?, model, terms)))
}

/// The models of a fleet, after the embedding model was fetched where it has to be.
pub(super) async fn meanings(context: &Context, fleet: &Fleet) -> Result<Models, Failure> {
    let ground = context.ground(context.home()?, fleet);
    fetched(context, &ground.weights, &pull::EMBEDDING).await?;
    Ok(ground.models)
}

/// Fetches weights and shows how far that is.
async fn fetched(context: &Context, weights: &Weights, package: &'static Package) -> Result<(), Failure> {
    let bar = tokio::spawn(show_pulling(weights.clone(), context.is_lively()));
    let fetched = weights.fetch(package).await;
    bar.abort();
    fetched.map_err(|error| Failure::new(Class::Upstream, error.message))
}

/// The models, of which one is about to be asked: its weights are fetched where they have to be.
pub(super) async fn ready(context: &Context, specs: &Specs, model: &Name) -> Result<Models, Failure> {
    let spec = specs.get(model).ok_or_else(|| undeclared(model, specs))?;
    let fetches = matches!(spec.provider, ProviderSpec::Embedded { path: None });
    let fleet = Fleet { models: specs.clone(), ..Fleet::default() };
    // Only what is fetched has to stay.
    let (ground, _passing) = if fetches { (context.ground(context.home()?, &fleet), None) } else { context.look_ground(&fleet)? };
    if fetches {
        fetched(context, &ground.weights, &pull::LANGUAGE).await?;
    }
    Ok(ground.models)
}

pub(super) type Specs = BTreeMap<Name, ModelSpec>;

/// The model that is meant, and what is declared of it.
fn models(context: &Context, arguments: &Asked) -> Result<(Name, Specs), Failure> {
    let specs = match arguments.files.is_empty() {
        true => unnamed(arguments.model_file.as_deref().map(|path| context.cwd().join(path)).as_deref())?,
        false => context.read(&arguments.files, &context.overrides())?.1.fleet.models,
    };
    match (&arguments.model, specs.keys().collect::<Vec<_>>().as_slice()) {
        (Some(model), _) => Ok((model.clone(), specs)),
        (None, [model]) => Ok(((*model).clone(), specs)),
        (None, _) => Err(Failure::new(Class::Configuration, "the manifests declare several models, or none")
            .hinting("choose one with --model NAME")),
    }
}

/// The embedded model on some weights, with the defaults of manifests.
fn unnamed(weights: Option<&Path>) -> Result<Specs, Failure> {
    let path = weights.map(|path| format!("path = {}\n", toml::Value::from(path.to_string_lossy().into_owned())));
    let text = format!("[model.embedded]\nprovider = \"embedded\"\n{}", path.unwrap_or_default());
    let mut sources = Sources::default();
    sources.add_text("decide.toml".as_ref(), "/".as_ref(), &text);
    Ok(read(&sources, &Overrides::default()).map_err(|problems| invalid(&problems))?.fleet.models)
}

fn undeclared(model: &Name, specs: &Specs) -> Failure {
    let known = specs.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Failure::new(Class::Configuration, format!("model/{model} is not declared; the manifests declare {known}"))
}

/// The rows of a file, read as they are needed.
struct Lines {
    file: BufReader<Box<dyn io::Read>>,
    path: PathBuf,
    number: u64,
}

impl Lines {
    fn open(context: &Context, path: &Path) -> Result<Self, Failure> {
        Ok(Self { file: BufReader::new(open(context, path)?), path: path.to_owned(), number: 0 })
    }

    fn read(&mut self) -> Result<Option<DecisionRequest>, Failure> {
        loop {
            let mut line = Vec::new();
            let read = self.file.by_ref().take(MAX_ROW + 1).read_until(b'\n', &mut line);
            self.number += 1;
            let what = |because: &str| {
                Failure::new(Class::Configuration, format!("{} line {}: {because}", self.path.display(), self.number))
            };
            match read.map_err(|error| unreadable(&self.path, &error))? {
                0 => return Ok(None),
                read if u64::try_from(read).is_ok_and(|read| read > MAX_ROW) => {
                    return Err(what(&format!("it is longer than the {MAX_ROW} bytes that a row may have")));
                }
                _ if line.trim_ascii().is_empty() => {}
                _ => {
                    let row: Value = serde_json::from_slice(&line).map_err(|error| what(&format!("it is no JSON: {error}")))?;
                    return DecisionRequest::read(&row).map(Some).map_err(|error| what(&error.to_string()));
                }
            }
        }
    }
}

impl Iterator for Lines {
    type Item = Result<DecisionRequest, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn open(context: &Context, path: &Path) -> Result<Box<dyn io::Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(context.cwd().join(path)).map_err(|error| unreadable(path, &error))?))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Class::Configuration, format!("cannot read {}: {error}", path.display()))
}

fn refused(error: &BadRequest) -> Failure {
    let failure = Failure::of(Class::Configuration, error);
    match error {
        BadRequest::Options => {
            failure.hinting(format!("give --option ID=DESCRIPTION {} to {} times", OPTIONS.start(), OPTIONS.end()))
        }
        _ => failure,
    }
}

fn failed(error: &DecisionError) -> Failure {
    Failure::of(Class::Upstream, error)
}

fn rendered(decision: &Decision, output: Format) -> Result<String, Failure> {
    match output {
        Format::Table | Format::Wide => Ok(told(decision, output == Format::Wide)),
        Format::Json => Ok(format!("{:#}\n", json!(decision))),
        Format::Jsonl => Ok(format!("{}\n", json!(decision))),
        Format::Name => Ok(decision.selected.iter().map(|selected| format!("{selected}\n")).collect()),
        Format::Toml => Err(Failure::new(Class::Configuration, "a decision is printed as table, wide, json, jsonl or name")),
    }
}

fn told(decision: &Decision, is_wide: bool) -> String {
    let chosen = |id: &String| if decision.selected.as_ref() == Some(id) { "selected" } else { "" };
    let numbers = decision.probabilities.iter().zip(&decision.option_logits);
    let rows = decision.option_ids.iter().zip(numbers).map(|(id, (probability, logit))| {
        let mut row = vec![id.clone(), format!("{probability:.4}")];
        row.extend(is_wide.then(|| logit.map_or_else(|| "-".to_owned(), |logit| format!("{logit:.3}"))));
        row.push(chosen(id).to_owned());
        row
    });
    let heads: &[&str] = if is_wide { &["OPTION", "PROBABILITY", "LOGIT", ""] } else { &["OPTION", "PROBABILITY", ""] };
    let mut text = table(heads, rows.collect());
    if decision.selected.is_none() {
        text.push_str(&format!("nothing is selected: the options hold {:.4} of all probability\n", decision.allowed_token_mass));
    }
    if is_wide {
        let Decision { model, input_tokens, agreement, allowed_token_mass, prompt_sha256, .. } = decision;
        text.push_str(&format!(
            "{model}, {input_tokens} tokens, {:.0}% of the orders agree, mass {allowed_token_mass:.4}, prompt {prompt_sha256}\n",
            agreement * 100.0
        ));
    }
    text
}
