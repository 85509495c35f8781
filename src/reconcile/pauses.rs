//! Beings that operators paused, beside what manifests declare: kept in the home until somebody resumes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{Reconciler, RequestError};
use crate::{
    manifest::{BeingSpec, selects},
    store::{Home, KeepError, read_json, write_json},
    vocab::{Address, Hold, Kind, Name, Operator, Reason},
};

/// Which beings are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Whom {
    Named(BTreeSet<Name>),
    /// Those that have all of these labels.
    Labelled(BTreeMap<String, String>),
    All,
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("being/{name}")).collect();
                f.write_str(&names.join(", "))
            }
            Self::Labelled(labels) => {
                let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "beings with the labels {}", labels.join(","))
            }
            Self::All => f.write_str("all beings"),
        }
    }
}

/// The pauses of a home.
#[derive(Debug)]
pub(super) struct Pauses {
    path: PathBuf,
    held: BTreeMap<Name, Hold>,
}

impl Pauses {
    /// Begins with what an earlier daemon was told. A list that can't be read is an error: what was paused would run.
    pub(super) fn open(home: &Home) -> Result<Self, KeepError> {
        let path = home.pauses();
        let held = read_json(&path)?.unwrap_or_default();
        Ok(Self { path, held })
    }

    /// What an operator said about a being.
    pub(super) fn of(&self, name: &Name) -> Option<&Hold> {
        self.held.get(name)
    }

    /// Takes another list once it is durable.
    fn keep(&mut self, held: BTreeMap<Name, Hold>) -> Result<(), KeepError> {
        if held != self.held {
            write_json(&self.path, &held)?;
            self.held = held;
        }
        Ok(())
    }

    /// Lets go of beings of which nothing is left.
    pub(super) fn forget(&mut self, gone: &BTreeSet<Name>) -> Result<(), KeepError> {
        let held = self.held.iter().filter(|(name, _)| !gone.contains(*name));
        self.keep(held.map(|(name, hold)| (name.clone(), hold.clone())).collect())
    }
}

impl Reconciler {
    /// Pauses beings: each finishes what is under way, and asks no model any more.
    pub(super) async fn pause(&mut self, whom: &Whom, by: Operator, because: Option<Reason>) -> Result<Vec<String>, RequestError> {
        let names = self.meant(whom)?;
        let hold = Hold { by, at: self.ground.clock.now(), because };
        let mut held = self.pauses.held.clone();
        let mut done = Vec::new();
        for name in names {
            done.push(match held.get(&name) {
                Some(before) => format!("being/{name} is paused already, {before}"),
                None => format!("being/{name} is paused; it finishes what is under way"),
            });
            held.entry(name).or_insert_with(|| hold.clone());
        }
        self.pauses.keep(held)?;
        self.converge().await;
        if done.is_empty() {
            done.push("there are no beings".to_owned());
        }
        Ok(done)
    }

    /// Resumes beings that operators paused. What a manifest declares paused is resumed by an edit alone.
    pub(super) async fn resume(&mut self, whom: &Whom) -> Result<Vec<String>, RequestError> {
        let names = self.meant(whom)?;
        let mut held = self.pauses.held.clone();
        let (mut done, mut is_any, mut declared) = (Vec::new(), false, Vec::new());
        for name in names {
            let is_resumed = held.remove(&name).is_some();
            is_any |= is_resumed;
            if self.fleet.beings.get(&name).is_some_and(|spec| spec.paused) {
                let places = self.places_of(&Address::new(Kind::Being, name.root()));
                let still = format!("being/{name} is declared paused in {places}; set `paused = false` there");
                declared.push(still.clone());
                done.push(still);
            } else if is_resumed {
                done.push(format!("being/{name} is resumed"));
            } else if matches!(whom, Whom::Named(_)) {
                done.push(format!("being/{name} is not paused"));
            }
        }
        if !is_any && !declared.is_empty() {
            return Err(RequestError::Refused(declared.join("\n")));
        }
        self.pauses.keep(held)?;
        self.converge().await;
        if done.is_empty() {
            done.push("nothing is paused".to_owned());
        }
        Ok(done)
    }

    /// The names of the beings that are meant; to mean none is an error.
    fn meant(&self, whom: &Whom) -> Result<Vec<Name>, RequestError> {
        let beings = &self.fleet.beings;
        let is_known = |name: &Name| beings.contains_key(name) || self.pauses.held.contains_key(name);
        match whom {
            Whom::Named(names) => {
                let unknown = names.iter().filter(|name| !is_known(name)).map(|name| format!("being/{name}")).collect::<Vec<_>>();
                match unknown.is_empty() {
                    true => Ok(names.iter().cloned().collect()),
                    false => Err(RequestError::Refused(format!(
                        "no such being: {}; `singularity get beings` lists those that there are",
                        unknown.join(", ")
                    ))),
                }
            }
            Whom::Labelled(labels) => {
                let has_all = |(_, spec): &(&Name, &BeingSpec)| selects(labels, &spec.labels);
                let names: Vec<Name> = beings.iter().filter(has_all).map(|(name, _)| name.clone()).collect();
                let none = || RequestError::Refused(format!("there are no {whom}"));
                if names.is_empty() { Err(none()) } else { Ok(names) }
            }
            Whom::All => {
                let all: BTreeSet<Name> = beings.keys().chain(self.pauses.held.keys()).cloned().collect();
                Ok(all.into_iter().collect())
            }
        }
    }
}
