use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    context::{Context, print, say},
    failure::{Class, Failure},
    skill_body::{self, SkillBody},
    tree::declared,
};
use crate::manifest::{export_categories, import_categories};

/// What to do about skills.
#[derive(Debug, Subcommand)]
pub(super) enum Skill {
    #[command(flatten)]
    Body(SkillBody),
    /// Print the manifest that a `categories.json` of semif-agent amounts to.
    #[command(after_help = "Examples:
  singularity skill import data/categories.json > manifests/skills.toml
  singularity skill import data/categories.json --bodies data/skills > manifests/skills.toml")]
    Import(ImportSkills),
    /// Print the `categories.json` that manifests amount to.
    #[command(after_help = "Example:\n  singularity skill export -f manifests/ > data/categories.json")]
    Export(ExportSkills),
}

/// Arguments of `skill import`.
#[derive(Debug, Args)]
pub(super) struct ImportSkills {
    /// The file, `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The folder of the bodies: `<category>/<skill>/skill.py` or `<category>/<skill>.py`. Without it every skill is a stub.
    #[arg(long, value_name = "DIR")]
    pub bodies: Option<PathBuf>,
}

/// Arguments of `skill export`.
#[derive(Debug, Args)]
pub(super) struct ExportSkills {
    /// Manifests, files or folders; without them, those that were applied and that the daemon serves.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
}

/// No `categories.json` is longer, in bytes.
const MAX_FILE: u64 = 32 << 20;

/// Brings skills over, or takes them away.
pub(super) async fn skill(context: &Context, verb: &Skill) -> Result<(), Failure> {
    match verb {
        Skill::Body(verb) => skill_body::skill(context, verb).await,
        Skill::Import(arguments) => import(context, arguments),
        Skill::Export(arguments) => {
            let fleet = declared(context, &arguments.files).await?;
            print(&format!("{:#}\n", export_categories(&fleet)))
        }
    }
}

fn import(context: &Context, arguments: &ImportSkills) -> Result<(), Failure> {
    let path = &arguments.file;
    let fault = |what: String| Failure::new(Class::Configuration, format!("{}: {what}", path.display()));
    let text = text(context, path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let json = serde_json::from_str(&text).map_err(|error| fault(format!("it is no JSON: {error}")))?;
    let body = |category: &str, skill: &str| {
        let folder = arguments.bodies.as_ref()?;
        let places = [folder.join(category).join(skill).join("skill.py"), folder.join(category).join(format!("{skill}.py"))];
        places.into_iter().find(|place| context.cwd().join(place).is_file()).map(|place| place.to_string_lossy().into_owned())
    };
    let imported = import_categories(&json, body).map_err(|faults| fault(faults.join("\n  ")))?;
    imported.notes.iter().for_each(|note| say(note));
    print(&imported.manifest)
}

fn text(context: &Context, path: &std::path::Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = match path == std::path::Path::new("-") {
        true => std::io::stdin().take(MAX_FILE + 1).read_to_string(&mut text)?,
        false => std::fs::File::open(context.cwd().join(path))?.take(MAX_FILE + 1).read_to_string(&mut text)?,
    };
    match u64::try_from(read).is_ok_and(|read| read > MAX_FILE) {
        true => Err(std::io::Error::other(format!("it is longer than {MAX_FILE} bytes"))),
        false => Ok(text),
    }
}
