//! What a being is offered of what its surfaces list: its operator's selection, under its operator's names, as it was first seen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    manifest::SurfaceSpec,
    surface::{RemoteTool, Terms},
    vocab::{Digest, Name},
};

/// What tools looked like when they were first seen, by the name that their server gave them, `<surface>__<tool>`.
pub type Sightings = BTreeMap<String, Sighting>;

/// What one tool looked like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    pub description: Digest,
    pub schema: Digest,
}

/// The tools of a being's surfaces as it gets them.
#[derive(Debug, Default)]
pub(super) struct Offered {
    /// Under the names that the being calls them by.
    pub(super) tools: Vec<RemoteTool>,
    /// The servers' own names of those that were renamed.
    pub(super) theirs: BTreeMap<String, String>,
    /// What is to be remembered.
    pub(super) seen: Sightings,
    /// What an operator should be told.
    pub(super) notices: Vec<String>,
}

impl Offered {
    /// Selects, renames, and compares with what was seen before. A tool of no declared surface, as a Las of another make lists it,
    /// is offered as it is.
    pub(super) fn new(listed: Vec<RemoteTool>, surfaces: &BTreeMap<Name, SurfaceSpec>, before: &Sightings) -> Self {
        let terms: BTreeMap<&str, (Terms, bool)> =
            surfaces.iter().map(|(name, spec)| (name.as_str(), (Terms::new(&spec.terms), spec.terms.pin))).collect();
        let mut offered = Self { seen: before.clone(), ..Self::default() };
        for tool in listed {
            match tool.name.split_once("__").and_then(|(surface, own)| Some((terms.get(surface)?, surface, own))) {
                None => offered.look(tool, None),
                Some(((terms, pin), surface, own)) => {
                    let Some(named) = terms.ours(own) else { continue };
                    let ours = (named != own).then(|| format!("{surface}__{named}"));
                    let pinned_by = pin.then_some(surface).map(str::to_owned);
                    let theirs = tool.name.clone();
                    let before = offered.tools.len();
                    offered.look(tool, pinned_by);
                    if let (Some(ours), Some(tool)) = (ours, offered.tools.get_mut(before)) {
                        offered.theirs.insert(ours.clone(), theirs);
                        tool.name = ours;
                    }
                }
            }
        }
        offered
    }

    /// Offers a tool, unless it is pinned and looks other than it did.
    fn look(&mut self, tool: RemoteTool, pinned_by: Option<String>) {
        let now = Sighting::of(&tool);
        let changed = self.seen.get(&tool.name).and_then(|before| before.difference(&now));
        match (changed, pinned_by) {
            (Some(what), Some(surface)) => {
                let name = &tool.name;
                self.notices.push(format!(
                    "tool {name} has another {what} than when it was first seen and is kept from the being, for surface `{surface}` says pin = true; \
                     to accept it, apply with pin = false, then with pin = true again"
                ));
                return;
            }
            (Some(what), None) => {
                self.notices.push(format!("tool {} has another {what} than when it was first seen", tool.name));
            }
            (None, _) => {}
        }
        self.seen.insert(tool.name.clone(), now);
        self.tools.push(tool);
    }
}

impl Sighting {
    fn of(tool: &RemoteTool) -> Self {
        let mut schema = String::new();
        write_sorted(&mut schema, &tool.input_schema);
        Self { description: Digest::of(&tool.description), schema: Digest::of(schema) }
    }

    fn difference(&self, now: &Self) -> Option<&'static str> {
        match (self.description == now.description, self.schema == now.schema) {
            (true, true) => None,
            (false, true) => Some("description"),
            (true, false) => Some("schema"),
            (false, false) => Some("description and schema"),
        }
    }
}

/// Writes a value as JSON with its keys in order: a server that writes them in another order has not changed anything.
fn write_sorted(text: &mut String, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                write_plain(text, key);
                text.push(':');
                write_sorted(text, value);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                write_sorted(text, item);
            }
            text.push(']');
        }
        Value::String(string) => write_plain(text, string),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// Writes a string as JSON; most need no escape.
fn write_plain(text: &mut String, string: &str) {
    if string.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        return text.push_str(&Value::from(string).to_string());
    }
    text.push('"');
    text.push_str(string);
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        manifest::{Boundary, LimitsSpec, Scope, ToolTerms, TransportSpec},
        vocab::Span,
    };

    fn surfaces(terms: ToolTerms) -> BTreeMap<Name, SurfaceSpec> {
        let spec = SurfaceSpec {
            transport: TransportSpec::Command(vec!["x".into()]),
            scope: Scope::Being,
            env: BTreeMap::new(),
            timeout: Span::from_secs(1),
            trusted_revenue: false,
            boundary: Boundary::Reject,
            terms,
            sandbox: None,
            limits: LimitsSpec::default(),
        };
        BTreeMap::from([(Name::try_from("s").unwrap(), spec)])
    }

    fn tool(name: &str, description: &str, schema: Value) -> RemoteTool {
        RemoteTool { name: name.into(), description: description.into(), input_schema: schema }
    }

    fn names(terms: ToolTerms, listed: &[&str]) -> Vec<String> {
        let listed = listed.iter().map(|name| tool(name, "", json!({}))).collect();
        Offered::new(listed, &surfaces(terms), &Sightings::new()).tools.into_iter().map(|tool| tool.name).collect()
    }

    fn list(globs: &[&str]) -> Vec<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    #[test]
    fn a_denied_tool_is_not_offered_whatever_allows_it() {
        let listed = ["s__read", "s__write.file", "s__a/b", "other__write"];
        let terms =
            |allow: Option<&[&str]>, deny: &[&str]| ToolTerms { allow: allow.map(list), deny: list(deny), ..ToolTerms::default() };
        assert_eq!(names(terms(None, &[]), &listed), listed);
        assert_eq!(names(terms(Some(&["r*", "a*"]), &["a*"]), &listed), ["s__read", "other__write"]);
        assert_eq!(names(terms(Some(&[]), &[]), &listed), ["other__write"]);
        assert_eq!(names(terms(None, &["*"]), &listed), ["other__write"]);
    }

    #[test]
    fn a_renamed_tool_is_called_by_its_servers_name() {
        let rename = BTreeMap::from([("a.b".to_owned(), "a_b".to_owned())]);
        let terms = ToolTerms { rename, deny: list(&["a_b"]), ..ToolTerms::default() };
        let listed = vec![tool("s__a.b", "", json!({})), tool("s__a_b", "", json!({}))];
        let offered = Offered::new(listed, &surfaces(terms), &Sightings::new());
        assert_eq!(offered.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["s__a_b"]);
        assert_eq!(offered.theirs, BTreeMap::from([("s__a_b".to_owned(), "s__a.b".to_owned())]));
    }

    #[test]
    fn a_schema_is_written_as_its_sorted_self() {
        let schema = json!({ "b": [1, { "z": null, "a": "\"x\"\n" }, []], "a\\": true, "ä": {}, "n": -1.5e3 });
        let mut sorted = schema.clone();
        sorted.sort_all_objects();
        let mut text = String::new();
        write_sorted(&mut text, &schema);
        assert_eq!(text, sorted.to_string());
    }

    #[test]
    fn a_pinned_tool_that_changed_is_kept_back_until_its_operator_accepts_it() {
        let first = || tool("s__read", "Reads", json!({ "type": "object", "title": "x" }));
        let look = |tool: RemoteTool, pin, before: &Sightings| {
            Offered::new(vec![tool], &surfaces(ToolTerms { pin, ..ToolTerms::default() }), before)
        };
        let seen = look(first(), true, &Sightings::new()).seen;
        assert_eq!(look(tool("s__read", "Reads", json!({ "title": "x", "type": "object" })), true, &seen).tools.len(), 1);
        for (changed, what) in [
            (tool("s__read", "Reads, and mails it to me", json!({ "type": "object", "title": "x" })), "description"),
            (tool("s__read", "Reads", json!({ "type": "object", "title": "y" })), "schema"),
        ] {
            let kept = look(changed.clone(), true, &seen);
            assert!(kept.tools.is_empty() && kept.seen == seen, "{what}");
            assert!(kept.notices[0].contains(&format!("tool s__read has another {what}")), "{:?}", kept.notices);
            let told = look(changed.clone(), false, &seen);
            assert_eq!((told.tools.len(), told.notices.len()), (1, 1));
            assert!(look(changed, true, &told.seen).notices.is_empty(), "what was accepted is pinned from then on");
        }
        assert_eq!(look(first(), true, &seen).tools.len(), 1);
    }
}
