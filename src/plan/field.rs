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
const BEING: [(&str, Effect); 26] = [
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
    ("workspace", Effect::Restart),
    ("replicas", Effect::Hot),
];

/// What each field of a surface does. Its server need not know the first ones; any other starts it anew, and so does one that is not named.
const SURFACE: [(&str, Effect); 15] = [
    ("rename", Effect::Hot),
    ("allow", Effect::Hot),
    ("deny", Effect::Hot),
    ("pin", Effect::Hot),
    ("trusted_revenue", Effect::Hot),
    ("boundary", Effect::Hot),
    ("command", Effect::Reload),
    ("url", Effect::Reload),
    ("bearer", Effect::Reload),
    ("oauth", Effect::Reload),
    ("scope", Effect::Reload),
    ("env", Effect::Reload),
    ("timeout", Effect::Reload),
    ("sandbox", Effect::Reload),
    ("limits", Effect::Reload),
];

/// Models are asked anew for each round, and carry nothing that a change could break.
const MODEL: [(&str, Effect); 13] = [
    ("provider", Effect::Hot),
    ("path", Effect::Hot),
    ("base_url", Effect::Hot),
    ("model", Effect::Hot),
    ("api_key", Effect::Hot),
    ("hmac_secret", Effect::Hot),
    ("bearer", Effect::Hot),
    ("price", Effect::Hot),
    ("max_tokens", Effect::Hot),
    ("temperature", Effect::Hot),
    ("timeout", Effect::Hot),
    ("concurrency", Effect::Hot),
    ("context_tokens", Effect::Hot),
];

const CAP: [(&str, Effect); 3] = [("labels", Effect::Hot), ("per_day", Effect::Hot), ("total", Effect::Hot)];

/// A source is fetched anew; what came of the one before goes on meanwhile.
const SOURCE: [(&str, Effect); 8] = [
    ("git", Effect::Hot),
    ("branch", Effect::Hot),
    ("path", Effect::Hot),
    ("every", Effect::Hot),
    ("verify", Effect::Hot),
    ("allowed_signers", Effect::Hot),
    ("follow_rewrites", Effect::Hot),
    ("allow_empty", Effect::Hot),
];

/// What decides is made anew for the next decision.
const DECISION: [(&str, Effect); 8] = [
    ("engine", Effect::Hot),
    ("model", Effect::Hot),
    ("temperature", Effect::Hot),
    ("rotations", Effect::Hot),
    ("min_mass", Effect::Hot),
    ("category_tau", Effect::Hot),
    ("intent_tau", Effect::Hot),
    ("tau", Effect::Hot),
];

/// The tree is walked anew for each message.
const CATEGORY: [(&str, Effect); 13] = [
    ("description", Effect::Hot),
    ("skill", Effect::Hot),
    ("config", Effect::Hot),
    ("secret", Effect::Hot),
    ("tau", Effect::Hot),
    ("max_reentries", Effect::Hot),
    ("cost_budget", Effect::Hot),
    ("read", Effect::Hot),
    ("write", Effect::Hot),
    ("network", Effect::Hot),
    ("cpu_time", Effect::Hot),
    ("wall_time", Effect::Hot),
    ("memory", Effect::Hot),
];

/// Fields that are called otherwise once they are resolved.
const RESOLVED: [(&str, &str); 2] = [("model", "models"), ("grant", "grants")];

/// The rows of a kind, and what holds for a field that has none.
const fn rows(kind: Kind) -> (&'static [(&'static str, Effect)], Effect) {
    match kind {
        Kind::Source => (&SOURCE, Effect::Hot),
        Kind::Model => (&MODEL, Effect::Hot),
        Kind::Surface => (&SURFACE, Effect::Reload),
        Kind::Cap => (&CAP, Effect::Hot),
        Kind::Decision => (&DECISION, Effect::Hot),
        Kind::Category => (&CATEGORY, Effect::Hot),
        Kind::Being => (&BEING, Effect::Restart),
    }
}

/// What a change of the field at a dotted path does.
pub fn effect_of(kind: Kind, path: &str) -> Effect {
    let (table, otherwise) = rows(kind);
    nearest(table, path, otherwise)
}

/// What a kind's rows say, each under the name that the field has in a manifest.
pub(super) fn declared_effects(kind: Kind) -> Vec<(&'static str, Effect)> {
    let written = |resolved: &'static str| {
        let renamed = RESOLVED.iter().find(|(_, other)| kind == Kind::Being && *other == resolved);
        renamed.map_or(resolved, |(written, _)| *written)
    };
    rows(kind).0.iter().map(|(path, effect)| (written(path), *effect)).collect()
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
