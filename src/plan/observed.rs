use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    being::Identity,
    manifest::{BeingSpec, CapSpec, CategorySpec, DecisionSpec, ModelSpec, SourceSpec, SurfaceSpec},
    vocab::{Address, Kind, Name, Usd},
};

/// What the runtime reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    #[serde(default)]
    pub sources: BTreeMap<Name, SourceSpec>,
    pub models: BTreeMap<Name, ModelSpec>,
    pub surfaces: BTreeMap<Name, SurfaceSpec>,
    pub caps: BTreeMap<Name, CapSpec>,
    pub decisions: BTreeMap<Name, DecisionSpec>,
    pub categories: BTreeMap<Name, CategorySpec>,
    pub beings: BTreeMap<Name, ObservedBeing>,
}

/// A being that runs, or of which state exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedBeing {
    /// The spec that was last applied; `None` when nothing but its state is there.
    pub spec: Option<BeingSpec>,
    pub generation: u64,
    pub phase: Phase,
    /// What its state on disk fixes; `None` before it was born.
    pub born: Option<Born>,
}

/// What a being was born with and keeps for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Born {
    pub identity: Identity,
    pub starting: Usd,
}

/// How it is with a being.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "lowercase")]
pub enum Phase {
    Running,
    /// It exists but is paused.
    Held,
    /// Nothing animates it.
    Stopped,
    /// Its last edit was refused; it goes on as it was.
    Stalled {
        reason: String,
    },
    /// A permanent failure waits for an edit, any other for its back-off.
    Failed {
        permanent: bool,
        reason: String,
    },
}

impl Observed {
    /// Every address that is observed.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        let of = |kind| move |name: &Name| Address::new(kind, name.clone());
        let models = self.sources.keys().map(of(Kind::Source)).chain(self.models.keys().map(of(Kind::Model)));
        let caps = self.caps.keys().map(of(Kind::Cap));
        let trees = self.decisions.keys().map(of(Kind::Decision)).chain(self.categories.keys().map(of(Kind::Category)));
        let bodiless = models.chain(self.surfaces.keys().map(of(Kind::Surface))).chain(caps).chain(trees);
        bodiless.chain(self.beings.keys().map(of(Kind::Being)))
    }
}
