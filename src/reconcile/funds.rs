//! Money that operators gave to beings, beside what manifests grant: kept in the home, each id counted once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{Reconciler, RequestError, notices::Told};
use crate::{
    store::{Home, KeepError, read_json, write_json},
    vocab::{Name, Usd},
};

/// The grants of operators in a home.
#[derive(Debug)]
pub(super) struct Funds {
    path: PathBuf,
    given: BTreeMap<Name, BTreeMap<String, Usd>>,
}

impl Funds {
    /// Begins with what an earlier daemon was told. A list that can't be read is an error: money would be missing.
    pub(super) fn open(home: &Home) -> Result<Self, KeepError> {
        let path = home.funds();
        let given = read_json(&path)?.unwrap_or_default();
        Ok(Self { path, given })
    }

    /// What a being was given, by id.
    pub(super) fn of(&self, name: &Name) -> BTreeMap<String, Usd> {
        self.given.get(name).cloned().unwrap_or_default()
    }

    fn keep(&mut self, given: BTreeMap<Name, BTreeMap<String, Usd>>) -> Result<(), KeepError> {
        if given != self.given {
            write_json(&self.path, &given)?;
            self.given = given;
        }
        Ok(())
    }

    /// Lets go of beings of which nothing is left.
    pub(super) fn forget(&mut self, gone: &BTreeSet<Name>) -> Result<(), KeepError> {
        let mut given = self.given.clone();
        given.retain(|name, _| !gone.contains(name));
        self.keep(given)
    }
}

impl Reconciler {
    /// Gives a being money under an id. An id that it was given before, with the same amount, changes nothing.
    pub(super) async fn fund(&mut self, name: &Name, id: &str, usd: Usd) -> Result<Vec<String>, RequestError> {
        let refused = |what: String| Err(RequestError::Refused(what));
        let Some(spec) = self.fleet.beings.get(name) else {
            return refused(format!("no such being: being/{name}; `singularity get beings` lists those that there are"));
        };
        if let Some(granted) = spec.grants.get(id) {
            return refused(format!("the manifest of being/{name} grants {granted} USD as `{id}`; take another id"));
        }
        let mut given = self.funds.given.clone();
        let own = given.entry(name.clone()).or_default();
        match own.get(id) {
            Some(before) if *before == usd => {
                return Ok(vec![format!("being/{name} was given {usd} USD as `{id}` before; nothing changes")]);
            }
            Some(before) => {
                return refused(format!(
                    "being/{name} was given {before} USD as `{id}` before, and an id counts once; take another"
                ));
            }
            None => drop(own.insert(id.to_owned(), usd)),
        }
        self.funds.keep(given)?;
        let told = format!("being/{name} is given {usd} USD as `{id}`");
        self.tell(Told::new(&format!("being/{name}"), "Funded", format!("{usd} USD as `{id}`")));
        self.converge().await;
        Ok(vec![told])
    }
}
