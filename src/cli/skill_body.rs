use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    args::Format,
    context::{Context, print, say},
    failure::{Class, Failure},
    offline::write_all,
    skill_run::{self, RunSkill},
};
use crate::skill::{self, Body, BodyError, Inspection, Place, PlaceError, Python, SkillAddress, WorkError};

/// What to do with a skill's body.
#[derive(Debug, Subcommand)]
pub(super) enum SkillBody {
    /// Judge a body by the acceptance gate: each finding with its line. It is parsed, and imported in a sandbox, and not run.
    #[command(
        after_help = "Findings that are advice refuse nothing. Exits with 2 when the body is not accepted.\n\nExamples:\n  singularity skill check skills/email/compose.py\n  singularity skill check skills/email/compose -o json"
    )]
    Check(Check),
    /// Make a new skill: a body that the gate accepts, and a test that it passes.
    #[command(after_help = "Example:\n  singularity skill new notes.keep --folder skills")]
    New(New),
    /// Run `skill.test.py` beside a body, in a sandbox.
    #[command(
        after_help = "The test reads the body's folder, writes passing files only, and reaches nothing but servers that it starts itself on this machine.\n\nExample:\n  singularity skill test skills/notes/keep"
    )]
    Test(Which),
    /// Run a skill by hand, in a sandbox, with the real engine, and show what happens.
    #[command(after_help = skill_run::HELP)]
    Run(Box<RunSkill>),
}

/// Which body is meant.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The body: `<category>/<name>.py`, or the folder `<category>/<name>/` with `skill.py`.
    pub path: PathBuf,
    /// What the skill is called, where its path does not say it.
    #[arg(long, value_name = "CATEGORY.NAME")]
    pub name: Option<SkillAddress>,
}

/// Arguments of `skill check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    pub which: Which,
    /// `table` for people, `json` for programs.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of `skill new`.
#[derive(Debug, Args)]
pub(super) struct New {
    /// What it is called: its category, a dot, and its own name.
    #[arg(value_name = "CATEGORY.NAME")]
    pub name: SkillAddress,
    /// The folder of skills.
    #[arg(long, default_value = "skills", value_name = "DIR")]
    pub folder: PathBuf,
}

/// Does what is asked with a body.
pub(super) async fn skill(context: &Context, verb: &SkillBody) -> Result<(), Failure> {
    match verb {
        SkillBody::Check(arguments) => check(context, arguments).await,
        SkillBody::New(arguments) => new(context, arguments),
        SkillBody::Test(which) => test(context, which).await,
        SkillBody::Run(arguments) => skill_run::run(context, arguments).await,
    }
}

async fn check(context: &Context, arguments: &Check) -> Result<(), Failure> {
    let body = open(context, &arguments.which)?;
    let inspection = skill::inspect(&place(context)?, &body).await.map_err(|error| failed(&error))?;
    match arguments.output {
        Format::Json | Format::Jsonl => {
            let Inspection { findings, contract, integration, is_act_only } = &inspection;
            let shown = json!({
                "skill": body.name, "accepted": inspection.accepts(), "findings": findings,
                "contract": contract, "integration": integration, "is_act_only": is_act_only,
            });
            let text = if arguments.output == Format::Json { format!("{shown:#}\n") } else { format!("{shown}\n") };
            print(&text)?;
        }
        _ => print(&told(&body, &inspection))?,
    }
    if arguments.output == Format::Table && inspection.accepts() {
        say(&format!("skill {} is accepted", body.name));
    }
    accepted(&body, &inspection)
}

/// Refuses what the gate does not accept.
pub(super) fn accepted(body: &Body, inspection: &Inspection) -> Result<(), Failure> {
    let count = inspection.findings.iter().filter(|finding| !finding.is_advice).count();
    let findings = if count == 1 { "finding" } else { "findings" };
    match count {
        0 => Ok(()),
        _ => Err(Failure::new(Class::Configuration, format!("skill {} is not accepted: {count} {findings}", body.name))),
    }
}

/// The findings as lines that editors can follow.
pub(super) fn told(body: &Body, inspection: &Inspection) -> String {
    let line = |finding: &skill::Finding| {
        let advice = if finding.is_advice { "advice: " } else { "" };
        format!("{}:{}: {}: {advice}{}\n", body.file.display(), finding.line, finding.code, finding.text)
    };
    inspection.findings.iter().map(line).collect()
}

fn new(context: &Context, arguments: &New) -> Result<(), Failure> {
    let name = &arguments.name;
    let category = context.cwd().join(&arguments.folder).join(name.category());
    let folder = category.join(name.leaf());
    for taken in [folder.clone(), category.join(format!("{}.py", name.leaf()))] {
        if taken.exists() {
            return Err(Failure::new(
                Class::Configuration,
                format!("create_skill failed: {name} already exists, as {}", taken.display()),
            ));
        }
    }
    write_all(&folder, &skill::scaffold(name)).map_err(|error| Failure::of(Class::State, &error))?;
    print(&format!("{}\n", folder.display()))
}

async fn test(context: &Context, which: &Which) -> Result<(), Failure> {
    let body = open(context, which)?;
    let tried = skill::test(&place(context)?, &body).await.map_err(|error| unreadable(&error))?;
    let trial = tried.map_err(|error| failed(&error))?;
    trial.lines.iter().for_each(|line| say(line));
    match trial.fault {
        None => print(&format!("{}: passed\n", body.name)),
        Some(fault) => Err(Failure::new(Class::Runtime, format!("the test of {} failed: {fault}", body.name))),
    }
}

/// Opens a body.
pub(super) fn open(context: &Context, which: &Which) -> Result<Body, Failure> {
    Body::open(&context.cwd().join(&which.path), which.name.clone()).map_err(|error| unreadable(&error))
}

/// Where bodies run.
pub(super) fn place(context: &Context) -> Result<Place, Failure> {
    let path = context.env().get("PATH").cloned().unwrap_or_default();
    let python = Python::find(&OsString::from(&path)).ok_or_else(|| Failure::of(Class::Runtime, &PlaceError::NoPython))?;
    Ok(Place { program: context.program().to_owned(), python, path, veil: None })
}

/// The folder that is meant, from where the command was given.
pub(super) fn at(context: &Context, path: &Path) -> PathBuf {
    context.cwd().join(path)
}

fn unreadable(error: &BodyError) -> Failure {
    Failure::of(Class::Configuration, error)
}

/// What kind of failure it is when a body cannot go on.
pub(super) fn failed(error: &WorkError) -> Failure {
    let class = match error {
        WorkError::Engine(_) => Class::Upstream,
        WorkError::Folder(_) => Class::State,
        WorkError::Fault(_) | WorkError::Place(_) => Class::Runtime,
    };
    Failure::of(class, error)
}
