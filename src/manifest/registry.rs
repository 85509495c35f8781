//! `categories.json`, in which semif-agent keeps its tree, both ways.

use serde_json::{Map, Value, json};

use super::{Fleet, SkillAction, SkillSpec, problem::quoted};
use crate::vocab::{Name, Ratio, SkillName};

/// A manifest that came from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// TOML.
    pub manifest: String,
    /// What a reader should know of what was left out, or has to be filled in.
    pub notes: Vec<String>,
}

/// What the documented form of a skill holds beside its name, in the order in which it is written.
const TEXTS: [&str; 3] = ["decision_log_ref", "request_text", "response"];
const LISTS: [&str; 2] = ["allowed_inputs", "actions"];

/// The manifest that a `categories.json` amounts to, or all that is wrong with it. `body` finds the body of a skill by its category and
/// name. A name that leads with its category and a dot is known by the rest of it.
pub fn import_categories(registry: &Value, body: impl Fn(&str, &str) -> Option<String>) -> Result<Imported, Vec<String>> {
    let Some(registry) = registry.as_object() else { return Err(vec!["it is no object of categories by name".to_owned()]) };
    let (mut categories, mut notes, mut faults) = (Map::new(), Vec::new(), Vec::new());
    for (key, entry) in registry {
        let name = snake(key);
        if Name::try_from(name.as_str()).is_err() || SkillName::try_from(name.as_str()).is_err() || name.contains('.') {
            faults.push(format!("{} cannot name a category; use a-z, 0-9 and single `_`", quoted(key)));
            continue;
        }
        let mut reading = Reading { category: &name, body: &body, notes: &mut notes, faults: &mut faults };
        let category = reading.category(entry);
        if categories.insert(name.clone(), category).is_some() {
            faults.push(format!("category `{name}` stands there twice, written in two ways"));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    // What has come this far holds texts, lists of texts, numbers and tables alone, which TOML has words for.
    let manifest = toml::to_string(&json!({ "category": categories })).map_err(|error| vec![error.to_string()])?;
    Ok(Imported { manifest, notes })
}

/// Lowercase, with `_` for white space, as the agent itself makes names.
fn snake(text: &str) -> String {
    text.trim().to_lowercase().split_whitespace().collect::<Vec<_>>().join("_")
}

struct Reading<'a, B> {
    category: &'a str,
    body: &'a B,
    notes: &'a mut Vec<String>,
    faults: &'a mut Vec<String>,
}

impl<B: Fn(&str, &str) -> Option<String>> Reading<'_, B> {
    fn category(&mut self, entry: &Value) -> Value {
        let mut table = Map::new();
        let name = self.category;
        self.described(entry, &format!("category `{name}`"), &mut table);
        let skills = entry.get("skills").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if skills.is_empty() {
            self.notes.push(format!("category `{name}` has no skill yet; add one, or the manifest does not validate"));
        }
        let mut leaves = Map::new();
        for skill in skills {
            let Some(given) = skill.get("name").and_then(Value::as_str) else {
                self.faults.push(format!("a skill of category `{name}` has no `name`"));
                continue;
            };
            let (whole, prefix) = (snake(given), format!("{name}."));
            let leaf = whole.strip_prefix(&prefix).unwrap_or(&whole);
            if SkillName::try_from(leaf).is_err() {
                self.faults
                    .push(format!("{} of category `{name}` cannot name a skill; use a-z, 0-9, `_` and single dots", quoted(given)));
                continue;
            }
            let table = self.skill(leaf, skill);
            if leaves.insert(leaf.to_owned(), table).is_some() {
                self.faults.push(format!("skill `{leaf}` stands twice in category `{name}`"));
            }
        }
        table.insert("skill".to_owned(), Value::Object(leaves));
        Value::Object(table)
    }

    fn skill(&mut self, leaf: &str, entry: &Value) -> Value {
        let mut table = Map::new();
        let what = format!("skill `{}.{leaf}`", self.category);
        self.described(entry, &what, &mut table);
        table.extend((self.body)(self.category, leaf).map(|path| ("body".to_owned(), Value::from(path))));
        for (key, value) in entry.as_object().into_iter().flatten() {
            let fits = match value {
                Value::Null => continue,
                Value::String(text) if TEXTS.contains(&key.as_str()) && !text.is_empty() => Some(value.clone()),
                Value::String(text) if LISTS.contains(&key.as_str()) && !text.is_empty() => Some(json!([text])),
                Value::Array(items) if LISTS.contains(&key.as_str()) && items.iter().all(is_filled) => Some(value.clone()),
                Value::Number(_) if key == "cost_budget" => Some(value.clone()),
                Value::Object(answers) if key == "requirements" && answers.values().all(Value::is_string) => Some(value.clone()),
                _ => None,
            };
            match (key.as_str(), fits) {
                ("name" | "description" | "category", _) => {}
                (_, Some(value)) => drop(table.insert(key.clone(), value)),
                (_, None) => self.notes.push(format!("{} of {what} has no place in a manifest and is left out", quoted(key))),
            }
        }
        Value::Object(table)
    }

    fn described(&mut self, entry: &Value, what: &str, table: &mut Map<String, Value>) {
        match entry.get("description").and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
            Some(text) => drop(table.insert("description".to_owned(), text.into())),
            None => self.notes.push(format!("{what} has no description; write one, or the manifest does not validate")),
        }
    }
}

fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// The `categories.json` that a fleet amounts to. Bodies, their settings and what confines them stay behind.
pub fn export_categories(fleet: &Fleet) -> Value {
    let category = |(name, spec): (&Name, &super::CategorySpec)| {
        let skills: Vec<Value> = spec.skills.iter().map(|(leaf, skill)| exported(leaf, skill)).collect();
        (name.to_string(), json!({ "description": spec.description, "skills": skills }))
    };
    Value::Object(fleet.categories.iter().map(category).collect())
}

fn exported(leaf: &SkillName, skill: &SkillSpec) -> Value {
    let response = match &skill.does {
        SkillAction::Response(reply) => Some(json!(reply)),
        SkillAction::Stub | SkillAction::Body(_) => None,
    };
    let list = |items: &Vec<String>| (!items.is_empty()).then(|| json!(items));
    let said = [
        ("allowed_inputs", list(&skill.allowed_inputs)),
        ("actions", list(&skill.actions)),
        ("cost_budget", (skill.cost_budget != Ratio::ONE).then(|| json!(skill.cost_budget))),
        ("decision_log_ref", skill.decision_log_ref.as_ref().map(|text| json!(text))),
        ("response", response),
        ("request_text", skill.request_text.as_ref().map(|text| json!(text))),
        ("requirements", (!skill.requirements.is_empty()).then(|| json!(skill.requirements))),
    ];
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(leaf));
    entry.insert("description".to_owned(), json!(skill.description));
    entry.extend(said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Overrides, Sources, read};

    fn fleet(manifest: &str) -> Fleet {
        read(&Sources::of_text("x.toml", "/", manifest), &Overrides::default())
            .unwrap_or_else(|problems| panic!("{problems}"))
            .fleet
    }

    #[test]
    fn a_registry_survives_the_way_into_a_manifest_and_back() {
        let registry = json!({
            "email": { "description": "Mail.", "skills": [
                { "name": "compose", "description": "Write a draft.", "allowed_inputs": ["whom, and what"], "actions": ["write"], "cost_budget": 0.5, "decision_log_ref": "d.jsonl" },
                { "name": "read.next", "description": "Read \"the\" next\nmessage.", "request_text": "what's new?", "requirements": { "Which box?": "in" } },
            ] },
            "response": { "description": "Replies.", "skills": [{ "name": "clarify", "description": "Anything else.", "response": "What?" }] },
        });
        let imported = import_categories(&registry, |_, _| None).unwrap();
        assert_eq!(imported.notes, Vec::<String>::new());
        assert_eq!(export_categories(&fleet(&imported.manifest)), registry, "{}", imported.manifest);
    }

    #[test]
    fn names_that_others_wrote_are_made_to_fit_and_bodies_are_found() {
        let registry = json!({ "My Mail": { "description": "Mail.", "skills": [
            { "name": "my_mail.compose", "category": "my_mail", "description": "Write.", "allowed_inputs": "a text", "actions": null },
            { "name": "Read Next", "description": "Read." },
        ] } });
        let imported = import_categories(&registry, |category, leaf| Some(format!("bodies/{category}/{leaf}.py"))).unwrap();
        let fleet = fleet(&imported.manifest);
        let (name, category) = fleet.categories.first_key_value().unwrap();
        assert_eq!(name.as_str(), "my_mail");
        assert_eq!(category.skills.keys().map(SkillName::as_str).collect::<Vec<_>>(), ["compose", "read_next"]);
        assert_eq!(category.skills["compose"].does, SkillAction::Body("/bodies/my_mail/compose.py".into()));
        assert_eq!(category.skills["compose"].allowed_inputs, ["a text"]);
    }

    #[test]
    fn all_that_cannot_be_brought_over_is_told() {
        let faults = |registry: &Value| import_categories(registry, |_, _| None).unwrap_err();
        assert_eq!(faults(&json!([])), ["it is no object of categories by name"]);
        let bad = json!({
            "a-b": {}, "A": { "skills": [{}, { "name": "é" }, { "name": "x" }, { "name": "a.x" }] }, "a": {},
        });
        assert_eq!(
            faults(&bad),
            [
                "`a-b` cannot name a category; use a-z, 0-9 and single `_`",
                "a skill of category `a` has no `name`",
                "`é` of category `a` cannot name a skill; use a-z, 0-9, `_` and single dots",
                "skill `x` stands twice in category `a`",
                "category `a` stands there twice, written in two ways",
            ]
        );
        let stub = json!({ "a": { "description": "", "skills": [{ "name": "x", "description": "X.", "writing": true, "actions": [1] }] }, "b": { "description": "B." } });
        assert_eq!(
            import_categories(&stub, |_, _| None).unwrap().notes,
            [
                "category `a` has no description; write one, or the manifest does not validate",
                "`writing` of skill `a.x` has no place in a manifest and is left out",
                "`actions` of skill `a.x` has no place in a manifest and is left out",
                "category `b` has no skill yet; add one, or the manifest does not validate",
            ]
        );
    }
}
