use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{
    args::Format,
    context::{Context, invalid, print},
    decide::{meanings, ready},
    failure::{Class, Failure},
    get::applied,
    table::table,
};
use crate::{
    decision::{Decider, DecisionError, Outcome, Step, Trail, Walk, navigate},
    manifest::{BeingSpec, CategorySpec, DecisionSpec, Fleet, SkillAction, read},
    model::Models,
    runtime::{engine, guards, tree as tree_of},
    vocab::{Name, SkillName},
};

/// Arguments of `tree`.
#[derive(Debug, Args)]
pub(super) struct Tree {
    /// Manifests, files or folders; without them, those that were applied and that the daemon serves.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Only what this being may walk, as it decides.
    #[arg(long, value_name = "NAME")]
    pub being: Option<Name>,
    /// Show each decision that leads this message through the tree, with its probabilities. No skill is run, and nothing is written.
    #[arg(long, value_name = "MESSAGE")]
    pub why: Option<String>,
    /// Which of the declared decisions decides; a being's own, or the only one, unless said otherwise.
    #[arg(long, value_name = "NAME", requires = "why")]
    pub decision: Option<Name>,
    /// How to print it.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Draws the tree, or shows a walk through it.
pub(super) async fn tree(context: &Context, arguments: &Tree) -> Result<(), Failure> {
    let fleet = declared(context, &arguments.files).await?;
    let being = arguments.being.as_ref().map(|name| being(&fleet, name)).transpose()?;
    let categories = being.map_or_else(|| fleet.categories.keys().cloned().collect(), |being| being.categories.clone());
    if categories.is_empty() {
        let whose = arguments.being.as_ref().map_or_else(|| "the manifests declare".to_owned(), |name| format!("being/{name} has"));
        return Err(Failure::new(Class::Configuration, format!("{whose} no categories"))
            .hinting("declare [category.NAME] with skills, and name it in a being's `categories`"));
    }
    let Some(message) = &arguments.why else {
        return print(&drawn(&fleet, &categories, arguments.output)?);
    };
    if message.trim().is_empty() {
        return Err(Failure::new(Class::Configuration, "--why has no message"));
    }
    let spec = deciding(&fleet, being, arguments.decision.as_ref())?;
    let models = match spec.model() {
        Some(model) => ready(context, &fleet.models, model).await?,
        None => meanings(context, &fleet).await?,
    };
    let trail = walked(&models, &spec, &fleet, &categories, message).await.map_err(|error| Failure::of(Class::Upstream, &error))?;
    print(&shown(&trail, &fleet, arguments.output)?)
}

/// The fleet of manifests, or of what was applied.
pub(super) async fn declared(context: &Context, files: &[PathBuf]) -> Result<Fleet, Failure> {
    if !files.is_empty() {
        return Ok(context.read(files, &context.overrides())?.1.fleet);
    }
    let sources = applied(context).await?;
    Ok(read(&sources, &context.overrides()).map_err(|problems| invalid(&problems))?.fleet)
}

fn being<'a>(fleet: &'a Fleet, name: &Name) -> Result<&'a BeingSpec, Failure> {
    let unknown = || {
        let known: Vec<&str> = fleet.beings.keys().map(Name::as_str).collect();
        Failure::new(Class::Configuration, format!("being/{name} is not declared; there are {}", known.join(", ")))
    };
    fleet.beings.get(name).ok_or_else(unknown)
}

/// What decides: what is named, or else a being's own, or else the only one.
fn deciding(fleet: &Fleet, being: Option<&BeingSpec>, named: Option<&Name>) -> Result<DecisionSpec, Failure> {
    let known = || fleet.decisions.keys().map(Name::as_str).collect::<Vec<_>>().join(", ");
    if let Some(name) = named {
        let missing = || Failure::new(Class::Configuration, format!("decision/{name} is not declared; there are {}", known()));
        return fleet.decisions.get(name).cloned().ok_or_else(missing);
    }
    if let Some(spec) = being.and_then(|being| fleet.decision_of(being)) {
        return Ok(spec);
    }
    fleet.only_decision().ok_or_else(|| {
        Failure::new(Class::Configuration, "the manifests declare several decisions, or none")
            .hinting("choose one with --decision NAME, or a being with --being NAME")
    })
}

async fn walked(
    models: &Models,
    spec: &DecisionSpec,
    fleet: &Fleet,
    categories: &[Name],
    message: &str,
) -> Result<Trail, DecisionError> {
    let decider = Decider::new(engine(models, spec));
    navigate(&decider, Walk::begin(tree_of(fleet, categories), guards(spec), "why", message)).await
}

fn drawn(fleet: &Fleet, categories: &[Name], output: Format) -> Result<String, Failure> {
    let found = || categories.iter().filter_map(|name| Some((name, fleet.categories.get(name)?)));
    match output {
        Format::Table | Format::Wide => {
            Ok(table(&["SKILL", "DOES", "BY"], found().flat_map(|(name, spec)| rows(name, spec)).collect()))
        }
        Format::Json => {
            Ok(format!("{:#}\n", json!({ "categories": found().map(|(name, spec)| as_json(name, spec)).collect::<Vec<_>>() })))
        }
        Format::Jsonl => Ok(found().map(|(name, spec)| format!("{}\n", as_json(name, spec))).collect()),
        Format::Name => {
            let names = |(name, spec): (&Name, &CategorySpec)| {
                spec.skills.keys().map(|leaf| format!("{name}.{leaf}\n")).collect::<Vec<_>>()
            };
            Ok(found().flat_map(names).collect())
        }
        Format::Toml => Err(Failure::new(Class::Configuration, "a tree is printed as table, wide, json, jsonl or name")
            .hinting("`singularity get category/NAME -o toml` prints a declaration")),
    }
}

fn rows(name: &Name, spec: &CategorySpec) -> Vec<Vec<String>> {
    let mut rows = vec![vec![name.to_string(), spec.description.clone(), String::new()]];
    let last = spec.skills.len();
    for (at, (leaf, skill)) in spec.skills.iter().enumerate() {
        let limb = if at + 1 == last { "└─" } else { "├─" };
        rows.push(vec![format!("{limb} {leaf}"), skill.description.clone(), by(&skill.does)]);
    }
    rows
}

fn by(does: &SkillAction) -> String {
    match does {
        SkillAction::Stub => "nothing yet".to_owned(),
        SkillAction::Body(path) => path.display().to_string(),
        SkillAction::Response(reply) => format!("{reply:?}"),
    }
}

fn as_json(name: &Name, spec: &CategorySpec) -> Value {
    let skill = |(leaf, skill): (&SkillName, &_)| json!({ "name": leaf, "skill": skill });
    json!({ "name": name, "description": spec.description, "skills": spec.skills.iter().map(skill).collect::<Vec<_>>() })
}

fn shown(trail: &Trail, fleet: &Fleet, output: Format) -> Result<String, Failure> {
    let whole = || json!({ "outcome": trail.outcome, "steps": trail.steps.iter().map(step_json).collect::<Vec<_>>() });
    match output {
        Format::Table | Format::Wide => Ok(told(trail, fleet)),
        Format::Json => Ok(format!("{:#}\n", whole())),
        Format::Jsonl => Ok(format!("{}\n", whole())),
        Format::Name => Ok(format!("{}\n", ended(&trail.outcome))),
        Format::Toml => Err(Failure::new(Class::Configuration, "a walk is printed as table, wide, json, jsonl or name")),
    }
}

fn step_json(step: &Step) -> Value {
    json!({ "phase": step.phase, "request": step.request, "decision": step.decision })
}

fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Skill { category, skill } => format!("{category}.{skill}"),
        Outcome::Response { skill } => format!("{}.{skill}", CategorySpec::REPLIES),
        Outcome::NoSkill => "no_skill".to_owned(),
    }
}

fn told(trail: &Trail, fleet: &Fleet) -> String {
    let mut text = String::new();
    for Step { phase, request, decision } in &trail.steps {
        text.push_str(&format!("{phase}: {}\n", request.question));
        let chosen = |id: &String| if decision.selected.as_ref() == Some(id) { "selected" } else { "" };
        let options = request.options.iter().zip(&decision.probabilities);
        let row = |(option, probability): (&crate::decision::Choice, &f64)| {
            vec![format!("  {}", option.id), format!("{probability:.4}"), chosen(&option.id).to_owned()]
        };
        text.push_str(&table(&["  OPTION", "PROBABILITY", ""], options.map(row).collect()));
        text.push('\n');
    }
    let (category, skill) = match &trail.outcome {
        Outcome::Skill { category, skill } => (category.as_str(), skill.as_str()),
        Outcome::Response { skill } => (CategorySpec::REPLIES, skill.as_str()),
        Outcome::NoSkill => return text + "no_skill: nothing in the tree fits\n",
    };
    let spec = Name::try_from(category).ok().and_then(|category| fleet.categories.get(&category)?.skills.get(skill));
    text + &format!("{}: {}\n", ended(&trail.outcome), spec.map(|skill| by(&skill.does)).unwrap_or_default())
}
