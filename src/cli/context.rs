use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

use super::failure::{Class, Failure};
use crate::{
    api::{AskError, Client, RefusalClass},
    manifest::{Fleet, Loaded, Overrides, Problems, Sources, Variables, read},
    model::{Means, Models},
    runtime::{Clock, Ground, Ids, Weights},
    secret::Secrets,
    store::{Home, HomeError},
};

/// What the process was given: folders and environment, read once and passed on.
#[derive(Debug)]
pub(super) struct Context {
    cwd: PathBuf,
    program: PathBuf,
    env: BTreeMap<String, String>,
    home: PathBuf,
}

/// The home's name where nothing else is said.
const DEFAULT_HOME: &str = ".singularity";

impl Context {
    /// Reads the environment and finds the home.
    #[expect(clippy::disallowed_methods, reason = "the environment and the working folder are read here, once, and passed on")]
    pub(super) fn new(home: Option<PathBuf>) -> Result<Self, Failure> {
        let cwd = std::env::current_dir().map_err(|error| Failure::of(Class::State, &error))?;
        let program = std::env::current_exe().map_err(|error| Failure::of(Class::State, &error))?;
        let utf8 = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let env = std::env::vars_os().filter_map(utf8).collect();
        let home = home.map_or_else(|| Home::find(&cwd, DEFAULT_HOME), |home| cwd.join(home));
        Ok(Self { cwd, program, env, home })
    }

    /// The folder that the process was started in.
    pub(super) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// This program's own binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The environment.
    pub(super) const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// What may be logged: `RUST_LOG`, or the default.
    pub(super) fn log_filter(&self) -> Option<&str> {
        self.env.get("RUST_LOG").map(String::as_str)
    }

    /// Tells whether people may be shown colour and moving lines: on a terminal, and never with `NO_COLOR`.
    pub(super) fn is_lively(&self) -> bool {
        io::stderr().is_terminal() && !self.env.contains_key("NO_COLOR")
    }

    /// Where the home is or would be.
    pub(super) fn home_path(&self) -> &Path {
        &self.home
    }

    /// The home, made where it is missing.
    pub(super) fn home(&self) -> Result<Home, Failure> {
        Home::open(&self.home).map_err(|error| Failure::of(Class::State, &error))
    }

    /// What a look at one being stands on. No home is made for it: where there is none that can be used, a folder
    /// that goes with the value stands in.
    pub(super) fn look_ground(&self, fleet: &Fleet) -> Result<(Ground, Option<TempDir>), Failure> {
        match Home::existing(&self.home) {
            Ok(Some(home)) => return Ok((self.ground(home, fleet), None)),
            Ok(None) | Err(HomeError::Access(_)) => {}
            Err(error) => return Err(Failure::of(Class::State, &error)),
        }
        let passing = tempfile::tempdir().map_err(|error| Failure::of(Class::State, &error))?;
        Ok((self.ground(Home::unmade(&self.home), fleet).passing(passing.path()), Some(passing)))
    }

    /// The home, if it exists.
    pub(super) fn existing_home(&self) -> Result<Option<Home>, Failure> {
        Home::existing(&self.home).map_err(|error| Failure::of(Class::State, &error))
    }

    /// A connection to the home's daemon; `None` where none runs.
    pub(super) fn client(&self) -> Result<Option<Client>, Failure> {
        let Some(home) = self.existing_home()? else { return Ok(None) };
        match Client::connect(&home.socket()) {
            Ok(client) => Ok(Some(client)),
            Err(AskError::NoDaemon(_)) => Ok(None),
            Err(error) => Err(asked(&error)),
        }
    }

    /// What lies over the manifests of a fleet.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides { being: None, variables: self.variables(), flags: Variables::default(), folder: self.cwd.clone() }
    }

    /// The settings of the environment.
    pub(super) fn variables(&self) -> Variables {
        self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Reads manifests, refusing what does not validate.
    pub(super) fn read(&self, files: &[PathBuf], overrides: &Overrides) -> Result<(Sources, Loaded), Failure> {
        let sources = Sources::load(files);
        if sources.is_empty() {
            let named: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
            let what = format!("there are no manifests in {}; a manifest ends in .toml or .json", named.join(", "));
            return Err(Failure::new(Class::Configuration, what));
        }
        let loaded = read(&sources, overrides).map_err(|problems| invalid(&problems))?;
        Ok((sources, loaded))
    }

    /// The ground that beings of this process stand on.
    pub(super) fn ground(&self, home: Home, fleet: &Fleet) -> Ground {
        let weights = Weights::new(home.models());
        let (clock, embed, encode) = (Clock::system(), weights.clone(), weights.clone());
        let env = self.env.clone();
        let means = Means {
            clock: clock.as_function(),
            secrets: Secrets::new(Arc::new(move |name: &str| env.get(name).cloned())),
            embed: Arc::new(move |spec| embed.provider(spec)),
            encode: Arc::new(move || {
                let weights = encode.clone();
                Box::pin(async move { weights.encoder().await })
            }),
        };
        let models = Models::new(&fleet.models, means);
        Ground::new(home, (models, weights), (clock, Ids::random()), self.program.clone(), self.env.clone())
    }
}

/// Prints data.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::new(Class::ReaderGone, "the reader is gone")),
        result => result.map_err(|error| Failure::of(Class::State, &error)),
    }
}

/// Says something to a person.
pub(super) fn say(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// The failure of manifests that do not validate: every problem, then how many there are.
pub(super) fn invalid(problems: &Problems) -> Failure {
    say(&problems.to_string());
    Failure::new(Class::Configuration, "the manifests do not validate")
}

/// The failure of a request to the daemon.
pub(super) fn asked(error: &AskError) -> Failure {
    match error {
        AskError::Refused(refusal) => {
            let class = match refusal.class {
                RefusalClass::Configuration => Class::Configuration,
                RefusalClass::State => Class::State,
                RefusalClass::Runtime => Class::Runtime,
            };
            Failure::new(class, refusal.message.clone())
        }
        AskError::NoDaemon(_) => {
            Failure::of(Class::State, error).hinting("start one with `singularity apply -f …` or `singularity serve DIR`")
        }
        AskError::Lost(_) | AskError::OtherVersion(_) => Failure::of(Class::Runtime, error),
    }
}
