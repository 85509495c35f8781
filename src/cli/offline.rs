use std::{io, path::Path};

use clap::CommandFactory as _;

use super::{
    args::{Cli, Completion, Explain, Files, Schema},
    context::{Context, print, say},
    failure::{Class, Failure},
};
use crate::{api, manifest, plan};

/// Checks manifests and says what they declare.
pub(super) fn validate(context: &Context, files: &Files) -> Result<(), Failure> {
    let (_, loaded) = context.read(&files.files, &context.overrides())?;
    let fleet = &loaded.fleet;
    say(&format!("valid: {} models, {} surfaces, {} beings", fleet.models.len(), fleet.surfaces.len(), fleet.beings.len()));
    Ok(())
}

/// Prints a schema, or writes all of them.
pub(super) fn schema(arguments: &Schema) -> Result<(), Failure> {
    let schemas = api::schemas();
    let Some(folder) = &arguments.write else {
        let file = format!("{}.schema.json", arguments.name);
        let Some((_, schema)) = schemas.iter().find(|(name, _)| *name == file) else {
            let known: Vec<&str> = schemas.iter().filter_map(|(name, _)| name.strip_suffix(".schema.json")).collect();
            let what = format!("no schema is called `{}`; there are {}", arguments.name, known.join(", "));
            return Err(Failure::new(Class::Configuration, what));
        };
        return print(&format!("{schema:#}\n"));
    };
    let texts: Vec<(String, String)> = schemas.iter().map(|(name, schema)| (name.clone(), format!("{schema:#}\n"))).collect();
    write_all(folder, &texts).map_err(|error| Failure::of(Class::State, &error))?;
    say(&format!("{} schemas are in {}", schemas.len(), folder.display()));
    Ok(())
}

/// Writes files for everyone to read, each as a whole.
pub(super) fn write_all(folder: &Path, files: &[(String, String)]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, text) in files {
        let mut file = tempfile::Builder::new().permissions(world_readable()).tempfile_in(folder)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(folder.join(name)).map_err(|error| error.error)?;
    }
    Ok(())
}

fn world_readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

/// Explains a key of a manifest.
pub(super) fn explain(arguments: &Explain) -> Result<(), Failure> {
    let Some(path) = &arguments.path else { return print(&plan::fields_page()) };
    let explanation = manifest::explain(path).map_err(|error| Failure::of(Class::Configuration, &error))?;
    print(&format!("{explanation}\n"))
}

/// Prints a completion script.
pub(super) fn completion(arguments: &Completion) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "singularity", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the version.
pub(super) fn version() -> Result<(), Failure> {
    print(concat!("singularity ", env!("CARGO_PKG_VERSION"), "\n"))
}
