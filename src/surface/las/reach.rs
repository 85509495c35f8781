use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::config::{Joined, Way};
use crate::{
    manifest::VariableSpec,
    process::{Spawn, Talk},
    surface::{
        Keyring,
        given::Given,
        session::{Reach, Shows},
    },
    vocab::Name,
};

/// The locale of every child.
const LOCALE: &str = "C.UTF-8";

/// From where a surface is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The supervisor of its process.
    pub(super) program: &'a Path,
    /// Where its process runs.
    pub(super) folder: &'a Path,
    /// Where tokens are kept.
    pub(super) tokens: &'a Path,
    /// Of this process: `PATH` is passed on, and secrets may be in it.
    pub(super) env: &'a BTreeMap<String, String>,
}

/// The way to a surface.
pub(super) fn reach(name: &Name, joined: Joined, place: Place<'_>) -> Reach {
    match joined.way {
        Way::Command(command) => {
            let (mut env, mut secrets) = (clean(place.env), BTreeMap::new());
            for (name, variable) in joined.env {
                match variable {
                    VariableSpec::Text(text) => drop(env.insert(name, text)),
                    VariableSpec::Secret(source) => drop(secrets.insert(name, source)),
                }
            }
            let spawn = Spawn {
                supervisor: place.program.to_owned(),
                command,
                env,
                cwd: Some(place.folder.to_owned()),
                confinement: joined.confinement,
                talk: Talk::Of(name.to_string()),
                veil: None,
            };
            Reach::Command { spawn, given: Given::new(secrets, place.env) }
        }
        Way::Url { url, bearer, oauth } => {
            let env = place.env.clone();
            let shows = match (oauth, bearer) {
                (Some(oauth), _) => Shows::Tokens(Arc::new(Keyring::new(name.as_str(), &url, *oauth, place.tokens, env))),
                (None, Some(bearer)) => Shows::Bearer(bearer.into(), env),
                (None, None) => Shows::Nothing,
            };
            Reach::Url { url, shows }
        }
    }
}

/// What every child sees of the environment: where programs are, and a locale that is the same everywhere.
pub(super) fn clean(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let path = env.get("PATH").map(|path| ("PATH".to_owned(), path.clone()));
    let locale = ["LANG", "LC_ALL"].map(|name| (name.to_owned(), LOCALE.to_owned()));
    path.into_iter().chain(locale).collect()
}
