//! What a check of one object has at hand, and how it says what is wrong at the right place.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

use super::{
    Problem, SecretSource,
    document::SecretDocument,
    layer::{LayerPart, Merged},
    origin::Layer,
    problem::{did_you_mean, quoted},
    read::Parsed,
    settings::{setting_at, told_of},
};
use crate::vocab::{Address, Kind, Name, Span, Usd};

/// The names of a fleet that references may lead to.
pub(crate) struct Declared {
    pub models: BTreeSet<Name>,
    pub surfaces: BTreeSet<Name>,
    pub decisions: BTreeSet<Name>,
    pub categories: BTreeSet<Name>,
    /// Whether every file could be read; if not, what is missing may stand in one that could not.
    pub is_whole: bool,
}

/// One object under check.
pub(crate) struct Cx<'a> {
    pub address: &'a Address,
    pub merged: &'a Merged,
    pub files: &'a [Parsed<'a>],
    pub declared: &'a Declared,
    /// Where relative paths of settings start from.
    pub folder: &'a Path,
    pub problems: &'a mut Vec<Problem>,
}

impl Cx<'_> {
    /// The document of all layers. It fits the schema by now, so that a failure is a gap in the schema: told, not passed over.
    pub(crate) fn extract<T: DeserializeOwned>(&mut self) -> Option<T> {
        match self.merged.extract() {
            Ok(document) => Some(document),
            Err(error) => {
                self.fault(&[], format!("`{}` cannot be read: {}", self.address, error.kind), None);
                None
            }
        }
    }

    /// Says what is wrong with the value at `path`, where its layer put it.
    pub(crate) fn fault(&mut self, path: &[&str], message: impl Into<String>, hint: Option<String>) {
        let message = message.into();
        let part = self.merged.part_of(path);
        let problem = match part {
            Some(part) if part.layer >= Layer::Variable => match setting_at(self.address.kind, &path.join(".")) {
                Some(setting) => told_of(setting, &message),
                None => Problem::of_setting(message),
            },
            part => self.at(part, path, message),
        };
        self.problems.push(Problem { hint, ..problem });
    }

    fn at(&self, part: Option<&LayerPart>, path: &[&str], message: String) -> Problem {
        let found = part.into_iter().chain(self.merged.object_part()).find_map(|part| Some((part, self.files.get(part.file?)?)));
        let Some((part, file)) = found else { return Problem::of_setting(format!("`{}`: {message}", self.address)) };
        let steps: Vec<String> = part.prefix.iter().cloned().chain(path.iter().map(|step| (*step).to_owned())).collect();
        let place = Some(file.place(&file.root.span_of(&steps, path.is_empty())));
        Problem { place, ..Problem::of_file(&file.source.path, message) }
    }

    /// Says that a key is missing, unless it was there and did not fit.
    pub(crate) fn missing(&mut self, path: &[&str], hint: &str) {
        if !self.was_there(path) {
            self.fault(&[], format!("`{}` has no `{}`", self.address, path.join(".")), Some(hint.to_owned()));
        }
    }

    /// Tells whether a key was taken out because it did not fit.
    pub(crate) fn was_there(&self, path: &[&str]) -> bool {
        self.merged.parts.iter().any(|part| {
            let steps: Vec<&str> = part.prefix.iter().map(String::as_str).chain(path.iter().copied()).collect();
            part.file.and_then(|at| self.files.get(at)).is_some_and(|file| file.maimed.contains(&steps.join(".")))
        })
    }

    /// Tells whether the object itself, and not a default, says something at `path`.
    pub(crate) fn is_own(&self, path: &[&str]) -> bool {
        self.merged.part_of(path).is_some_and(|part| part.layer >= Layer::Object)
    }

    /// Tells whether anything but the built-in defaults says something at `path`.
    pub(crate) fn is_declared(&self, path: &[&str]) -> bool {
        self.merged.part_of(path).is_some_and(|part| part.layer > Layer::BuiltIn)
    }

    /// An absolute path; a relative one starts from the folder of the file that says it.
    pub(crate) fn path(&self, path: &[&str], text: &str) -> PathBuf {
        let file = self.merged.part_of(path).and_then(|part| self.files.get(part.file?));
        file.map_or(self.folder, |file| &file.source.folder).join(text).components().collect()
    }

    /// A program: one with a `/` is a path, any other is looked up by whoever starts it.
    pub(crate) fn command(&self, path: &[&str], words: &[String]) -> Vec<String> {
        let is_path = |word: &String| word.contains('/') && !word.starts_with("{workspace}");
        let program = words
            .first()
            .map(|word| if is_path(word) { self.path(path, word).to_string_lossy().into_owned() } else { word.clone() });
        program.into_iter().chain(words.iter().skip(1).cloned()).collect()
    }

    /// Where a secret is read from.
    pub(crate) fn secret(&mut self, key: &str, secret: Option<&SecretDocument>) -> Option<SecretSource> {
        self.secret_at(&[key], secret)
    }

    /// The same, where the key stands deeper.
    pub(crate) fn secret_at(&mut self, path: &[&str], secret: Option<&SecretDocument>) -> Option<SecretSource> {
        let SecretDocument { file, env, credential } = secret?;
        let file = file.as_ref().map(|file| SecretSource::File(self.path(&[path, &["file"]].concat(), file)));
        let others = [env.clone().map(SecretSource::Env), credential.clone().map(SecretSource::Credential)];
        let mut sources = file.into_iter().chain(others.into_iter().flatten());
        let (source, another) = (sources.next(), sources.next());
        if another.is_some() {
            let message = format!("`{}` names two places for one secret; keep one of them", path.join("."));
            self.fault(path, message, None);
            return None;
        }
        source
    }

    /// A span that is longer than zero.
    pub(crate) fn span(&mut self, path: &[&str], text: Option<&str>) -> Option<Span> {
        let span: Span = text?.parse().ok()?;
        if span == Span::default() {
            self.fault(
                path,
                format!("`{}` must be longer than zero", path.join(".")),
                Some("write \"5s\", \"1m30s\" or \"250ms\"".into()),
            );
            return None;
        }
        Some(span)
    }

    /// An amount.
    pub(crate) fn usd(&mut self, path: &[&str], text: Option<&str>) -> Option<Usd> {
        match Usd::parse(text?) {
            Ok(usd) => Some(usd),
            Err(error) => {
                self.fault(path, format!("`{}`: {error}", path.join(".")), None);
                None
            }
        }
    }

    /// An amount above zero.
    pub(crate) fn positive_usd(&mut self, path: &[&str], text: Option<&str>) -> Option<Usd> {
        let usd = self.usd(path, text)?;
        if !usd.is_positive() {
            let steps = path.iter().filter(|step| step.parse::<usize>().is_err()).copied().collect::<Vec<_>>();
            let hint = Some("write more, or take it out".to_owned());
            self.fault(path, format!("`{}` must be more than zero", steps.join(".")), hint);
            return None;
        }
        Some(usd)
    }

    /// Says that a name leads nowhere; says nothing while a file that may declare it cannot be read.
    pub(crate) fn dangling(&mut self, path: &[&str], text: &str, kind: Kind, known: &BTreeSet<Name>) {
        if !self.declared.is_whole {
            return;
        }
        let what = kind.as_str();
        let name = Name::try_from(text).ok();
        let listed = known.iter().take(12).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let none = || {
            if known.is_empty() {
                format!("no {what} is declared; declare it as [{what}.{}]", name.as_ref().map_or("name", Name::as_str))
            } else {
                format!("declared are {listed}")
            }
        };
        let hint = did_you_mean(text, known.iter().map(Name::as_str)).unwrap_or_else(none);
        let message = match &name {
            Some(name) => format!("{what} `{name}`, which `{}` uses, is not declared", self.address),
            None => format!("{} matches no declared {what}", quoted(text)),
        };
        self.fault(path, message, Some(hint));
        if let Some(problem) = self.problems.last_mut() {
            problem.missing = name.map(|name| Address::new(kind, name));
        }
    }
}
