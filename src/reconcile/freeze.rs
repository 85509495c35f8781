//! A freeze of the fleet: while it lasts, no file and no request changes what is declared. Kept in the home.

use std::path::PathBuf;

use super::{Reconciler, RequestError};
use crate::{
    store::{Home, KeepError, read_json, write_json},
    vocab::{Hold, Operator, Reason},
};

/// Whether a home's fleet is frozen.
#[derive(Debug)]
pub(super) struct Freeze {
    path: PathBuf,
    hold: Option<Hold>,
}

impl Freeze {
    /// Begins with what an earlier daemon was told. A freeze that can't be read is an error: the fleet would change.
    pub(super) fn open(home: &Home) -> Result<Self, KeepError> {
        let path = home.freeze();
        let hold = read_json::<Option<Hold>>(&path)?.flatten();
        Ok(Self { path, hold })
    }

    /// Who froze it, if anybody did.
    pub(super) const fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    fn keep(&mut self, hold: Option<Hold>) -> Result<(), KeepError> {
        write_json(&self.path, &hold)?;
        self.hold = hold;
        Ok(())
    }
}

impl Reconciler {
    /// Freezes the fleet until that is lifted.
    pub(super) fn freeze(&mut self, by: Operator, because: Option<Reason>) -> Result<Vec<String>, RequestError> {
        if let Some(hold) = self.freeze.hold() {
            return Ok(vec![format!("the fleet is frozen already, {hold}")]);
        }
        self.freeze.keep(Some(Hold { by, at: self.ground.clock.now(), because }))?;
        self.publish();
        Ok(vec!["the fleet is frozen: beings live on, and nothing that is declared changes until it is lifted".to_owned()])
    }

    /// Lifts a freeze, and takes what was declared meanwhile.
    pub(super) async fn thaw(&mut self) -> Result<Vec<String>, RequestError> {
        let Some(hold) = self.freeze.hold().cloned() else {
            return Ok(vec!["the fleet is not frozen".to_owned()]);
        };
        self.freeze.keep(None)?;
        self.converge().await;
        Ok(vec![format!("the freeze {hold} is lifted")])
    }

    /// Refuses a change of what is declared while the fleet is frozen.
    pub(super) fn check_thawed(&self) -> Result<(), RequestError> {
        match self.freeze.hold() {
            None => Ok(()),
            Some(hold) => Err(RequestError::Refused(format!(
                "the fleet is frozen {hold}, so nothing is changed; `singularity freeze --lift` lifts that"
            ))),
        }
    }
}
