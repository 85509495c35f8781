use std::{collections::BTreeMap, sync::Arc};

use super::session::OpenError;
use crate::{
    manifest::SecretSource,
    process::{Spawn, Veil},
    secret::{self, Secrets},
};

/// The secrets that a process is given in its environment: read anew whenever it is started, and remembered, so that they are hidden in
/// what it says.
#[derive(Debug, Clone)]
pub(super) struct Given {
    variables: BTreeMap<String, SecretSource>,
    secrets: Secrets,
}

impl Given {
    /// Secrets by the variables that they are given in; those that are in variables themselves are looked up in `env`.
    pub(super) fn new(variables: BTreeMap<String, SecretSource>, env: &BTreeMap<String, String>) -> Self {
        // Nothing is looked up that no source names.
        let named = |name: &str| env.get(name).map(|value| (name.to_owned(), value.clone()));
        let names = variables.values().filter_map(secret::variable);
        let env: BTreeMap<String, String> = names.filter_map(named).collect();
        Self { variables, secrets: Secrets::new(Arc::new(move |name| env.get(name).cloned())) }
    }

    /// The process with its secrets, and without them in what the log has of it.
    pub(super) async fn to(&self, spawn: &Spawn) -> Result<Spawn, OpenError> {
        let mut spawn = spawn.clone();
        for (name, source) in &self.variables {
            let secret = self.secrets.read(source).await?;
            if secret.reveal().contains('\0') {
                return Err(OpenError::Unfit { variable: name.clone() });
            }
            spawn.env.insert(name.clone(), secret.reveal().to_owned());
        }
        spawn.veil = self.veil();
        Ok(spawn)
    }

    /// Takes what was given out of a text; `None` where nothing is.
    pub(super) fn veil(&self) -> Option<Veil> {
        let secrets = self.secrets.clone();
        (!self.variables.is_empty()).then(|| Veil::new(move |text| secrets.hide(text).into_owned()))
    }
}
