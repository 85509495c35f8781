use std::{io, path::PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;

use super::{
    args::Cli,
    context::{print, say},
    failure::{Class, Failure},
    offline::write_all,
};

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(super) struct ManPages {
    /// The command; without it the program itself.
    #[arg(conflicts_with = "write")]
    pub command: Vec<String>,
    /// Write every page into this folder in the place of printing one.
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
}

/// Prints the page of a command, or writes those of all commands.
pub(super) fn man(arguments: &ManPages) -> Result<(), Failure> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let Some(folder) = &arguments.write else {
        let found = arguments.command.iter().try_fold(&program, |command, word| command.find_subcommand(word));
        let Some(command) = found else {
            let what = format!("there is no command `singularity {}`", arguments.command.join(" "));
            return Err(Failure::new(Class::Configuration, what).hinting("`singularity --help` lists the commands"));
        };
        let (_, page) = page(command).map_err(|error| Failure::of(Class::Runtime, &error))?;
        return print(&page);
    };
    let pages = pages(&program).map_err(|error| Failure::of(Class::Runtime, &error))?;
    write_all(folder, &pages).map_err(|error| Failure::of(Class::State, &error))?;
    say(&format!("{} pages are in {}", pages.len(), folder.display()));
    Ok(())
}

/// The pages of a command and of all below it, by file name. What is hidden has none.
fn pages(command: &Command) -> io::Result<Vec<(String, String)>> {
    let mut all = vec![page(command)?];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(pages(below)?);
    }
    Ok(all)
}

fn page(command: &Command) -> io::Result<(String, String)> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let page = Man::new(command.clone()).title(name.to_uppercase()).source(concat!("singularity ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.manual("Singularity").render(&mut text)?;
    Ok((format!("{name}.1"), String::from_utf8_lossy(&text).into_owned()))
}
