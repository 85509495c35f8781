use std::collections::BTreeMap;

use rmcp::model::MetaObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    surface::keeper::{Keeper, Phase},
    vocab::Name,
};

/// The key of `_meta` under which a Las tells how its surfaces are.
const META: &str = "singularity.health";

/// How a surface is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurfaceHealth {
    pub up: bool,
    /// Why it is not up: the command or address, what happened, the last lines of its stderr.
    pub reason: Option<String>,
    /// How many tools it listed last.
    pub tools: usize,
    /// It failed so often in a row that it is tried only now and then. It comes back by itself.
    #[serde(default)]
    pub stalled: bool,
    /// How often it was lost or could not be started since its Las began.
    pub restarts: u32,
    /// How many lines on its stdout were no messages.
    pub rubbish_lines: u64,
}

impl SurfaceHealth {
    pub(super) fn of(keeper: &Keeper) -> Self {
        let view = keeper.view();
        let (up, reason) = match view.phase {
            Phase::Up(_) => (true, None),
            Phase::Starting => (false, Some("it is starting".to_owned())),
            Phase::Down { because } => (false, Some(because)),
        };
        let stalled = !up && view.stalled;
        Self { up, reason, stalled, tools: view.tools.len(), restarts: view.restarts, rubbish_lines: keeper.rubbish() }
    }
}

/// Writes the healths into `_meta`.
pub(super) fn to_meta(healths: &BTreeMap<Name, SurfaceHealth>) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert(META.to_owned(), serde_json::to_value(healths).unwrap_or_default());
    meta
}

/// Reads the healths from `_meta`; a Las of another make tells none.
pub(super) fn from_meta(meta: &MetaObject) -> BTreeMap<Name, SurfaceHealth> {
    let told = meta.0.get(META).cloned().unwrap_or(Value::Null);
    serde_json::from_value(told).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_surface_is_survives_the_way_to_the_daemon() {
        let down = SurfaceHealth { reason: Some("gone".to_owned()), restarts: 3, rubbish_lines: 1, ..SurfaceHealth::default() };
        let healths = BTreeMap::from([("files".parse().unwrap(), down)]);
        assert_eq!(from_meta(&to_meta(&healths)), healths);
        assert!(from_meta(&MetaObject::new()).is_empty());
    }
}
