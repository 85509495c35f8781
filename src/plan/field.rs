use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::vocab::Kind;

/// What a change of one field does to what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Told, and changes nothing that lives.
    Told,
    /// Takes effect in place.
    Hot,
    /// Takes effect in place, once the being's surfaces were started anew.
    Reload,
    /// The being is stopped and started again.
    Restart,
    /// It would break a promise.
    Refuse,
}

/// One field that is declared otherwise than it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Dotted, within the object; for something that a being uses, its address.
    pub path: String,
    pub before: Value,
    pub after: Value,
    pub effect: Effect,
}

/// What each field of a being does when it changes (SPEC §11). The longest prefix counts; a field that is not named restarts.
const BEING: [(&str, Effect); 24] = [
    ("identity", Effect::Refuse),
    ("specialty", Effect::Refuse),
    ("budget.starting", Effect::Refuse),
    ("budget.instance_usd_per_hour", Effect::Hot),
    ("budget.per_day", Effect::Hot),
    ("budget.per_cycle", Effect::Hot),
    ("budget.reserve", Effect::Hot),
    ("budget.warn_below", Effect::Hot),
    ("prompt", Effect::Told),
    ("prompt_policy", Effect::Hot),
    ("stimulus", Effect::Hot),
    ("las", Effect::Reload),
    ("models", Effect::Hot),
    ("cycle", Effect::Hot),
    ("capabilities", Effect::Hot),
    ("approve", Effect::Hot),
    ("approve_within", Effect::Hot),
    ("paused", Effect::Hot),
    ("grants", Effect::Hot),
    ("labels", Effect::Hot),
    ("most", Effect::Hot),
    ("categories", Effect::Hot),
    ("decision", Effect::Hot),
    ("route", Effect::Hot),
];

/// The fields of a surface that its server need not know; all others start the surface anew.
const SURFACE: [(&str, Effect); 6] = [
    ("rename", Effect::Hot),
    ("allow", Effect::Hot),
    ("deny", Effect::Hot),
    ("pin", Effect::Hot),
    ("trusted_revenue", Effect::Hot),
    ("boundary", Effect::Hot),
];

/// What a change of the field at a dotted path does. A being alone carries what a change could break.
pub fn effect_of(kind: Kind, path: &str) -> Effect {
    match kind {
        Kind::Source | Kind::Model | Kind::Cap | Kind::Decision | Kind::Category => Effect::Hot,
        Kind::Surface => nearest(&SURFACE, path, Effect::Reload),
        Kind::Being => nearest(&BEING, path, Effect::Restart),
    }
}

/// What the longest prefix of a path says.
fn nearest(table: &[(&str, Effect)], path: &str, otherwise: Effect) -> Effect {
    let is_above = |above: &str| path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    let nearest = table.iter().filter(|(above, _)| is_above(above)).max_by_key(|(above, _)| above.len());
    nearest.map_or(otherwise, |(_, effect)| *effect)
}

/// Every leaf that differs; lists are leaves.
pub(crate) fn changes(kind: Kind, before: &impl Serialize, after: &impl Serialize) -> Vec<Change> {
    let (before, after) = (serde_json::to_value(before).unwrap_or_default(), serde_json::to_value(after).unwrap_or_default());
    let mut found = Vec::new();
    compare("", &before, &after, &mut found);
    found.into_iter().map(|(path, before, after)| Change { effect: effect_of(kind, &path), path, before, after }).collect()
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<(String, Value, Value)>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            found.push((path.to_owned(), before.clone(), after.clone()));
        }
        return;
    };
    let added = new.keys().filter(|key| !old.contains_key(*key));
    for key in old.keys().chain(added) {
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        compare(&below, old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null), found);
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Told => "changes no living being",
            Self::Hot => "in place",
            Self::Reload => "its surfaces are started anew",
            Self::Restart => "restarts",
            Self::Refuse => "refused",
        })
    }
}
