use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::{Id, MAX_DIGITS, MAX_ENTRIES, MAX_ITEMS, MAX_NODES, MAX_TEXT, Member, Node, PLACES};

/// Turns schemas into nodes.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    pub(super) nodes: Vec<Node>,
    anything: Option<Id>,
}

/// One schema document while it is compiled.
struct Document<'a> {
    root: &'a Value,
    known: HashMap<String, Id>,
    /// Nodes that the document may fill.
    end: usize,
    /// How deep in the document, or in merging its parts, the compiler is.
    level: usize,
}

/// Levels of one document; what is beyond is any JSON.
const MAX_LEVELS: usize = 64;

impl Compiler {
    /// Compiles a schema that stands by itself.
    pub(super) fn compile(&mut self, root: &Value) -> Id {
        let mut document = Document { root, known: HashMap::new(), end: self.nodes.len() + MAX_NODES, level: 0 };
        if is_bare_object(root) {
            return self.push(Node::Object(Vec::new()));
        }
        self.value(root, &mut document)
    }

    pub(super) fn push(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn fill(&mut self, id: Id, node: Node) {
        if let Some(slot) = self.nodes.get_mut(id) {
            *slot = node;
        }
    }

    /// Any JSON at all.
    fn anything(&mut self) -> Id {
        if let Some(id) = self.anything {
            return id;
        }
        let id = self.push(Node::Never);
        self.anything = Some(id);
        let text = self.push(Node::Text { min: 0, max: MAX_TEXT });
        let number = self.push(number(&Map::new(), PLACES));
        let word = self.push(words(&["false", "null", "true"]));
        let map = self.push(Node::Map { value: id, min: 0, max: MAX_ENTRIES });
        let list = self.push(Node::List { first: Vec::new(), item: id, min: 0, max: MAX_ITEMS });
        self.fill(id, Node::Any(vec![text, number, word, map, list]));
        id
    }

    fn value(&mut self, schema: &Value, document: &mut Document<'_>) -> Id {
        if self.nodes.len() >= document.end {
            return self.anything();
        }
        match schema {
            Value::Bool(false) => self.push(Node::Never),
            Value::Object(schema) => self.object(schema, document),
            _ => self.anything(),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, document: &mut Document<'_>) -> Id {
        if document.level >= MAX_LEVELS {
            return self.anything();
        }
        document.level += 1;
        let id = self.known(schema, document);
        document.level -= 1;
        id
    }

    fn known(&mut self, schema: &Map<String, Value>, document: &mut Document<'_>) -> Id {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            return self.reference(target, document);
        }
        if let Some(only) = schema.get("const") {
            return self.push(literals(std::slice::from_ref(only), schema));
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return self.push(literals(values, schema));
        }
        for word in ["allOf", "anyOf", "oneOf"] {
            if let Some(Value::Array(parts)) = schema.get(word) {
                return self.combined(word, parts, schema, document);
            }
        }
        self.typed(schema, document)
    }

    fn reference(&mut self, target: &str, document: &mut Document<'_>) -> Id {
        if let Some(id) = document.known.get(target) {
            return *id;
        }
        let found = target.strip_prefix('#').and_then(|pointer| document.root.pointer(pointer));
        let Some(found) = found else { return self.anything() };
        let id = self.push(Node::Never);
        document.known.insert(target.to_owned(), id);
        let value = self.value(found, document);
        self.fill(id, Node::Any(vec![value]));
        id
    }

    /// `allOf` merges its parts, the others offer them; what stands beside them holds for each part.
    fn combined(&mut self, word: &str, parts: &[Value], schema: &Map<String, Value>, document: &mut Document<'_>) -> Id {
        let mut base = schema.clone();
        base.remove(word);
        let resolved = parts.iter().map(|part| follow(part, document.root));
        if word == "allOf" {
            let merged = resolved.fold(base, |all, part| merge(&all, part));
            return self.object(&merged, document);
        }
        let plain = base.keys().all(|key| is_remark(key));
        let alternatives = parts.iter().zip(resolved).map(|(part, found)| match plain {
            true => self.value(part, document),
            false => self.object(&merge(&base, found), document),
        });
        let alternatives = alternatives.collect();
        self.push(Node::Any(alternatives))
    }

    fn typed(&mut self, schema: &Map<String, Value>, document: &mut Document<'_>) -> Id {
        let kinds: Vec<&str> = match schema.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => implied(schema).into_iter().collect(),
        };
        match kinds.as_slice() {
            [] => self.anything(),
            [kind] => self.kind(kind, schema, document),
            several => {
                let alternatives = several.iter().map(|kind| self.kind(kind, schema, document)).collect();
                self.push(Node::Any(alternatives))
            }
        }
    }

    fn kind(&mut self, kind: &str, schema: &Map<String, Value>, document: &mut Document<'_>) -> Id {
        let node = match kind {
            "string" => text(schema),
            "integer" => number(schema, 0),
            "number" => number(schema, PLACES),
            "boolean" => words(&["false", "true"]),
            "null" => words(&["null"]),
            "array" => self.list(schema, document),
            "object" => self.members(schema, document),
            _ => Node::Never,
        };
        self.push(node)
    }

    fn list(&mut self, schema: &Map<String, Value>, document: &mut Document<'_>) -> Node {
        let min = count(schema, "minItems").unwrap_or(0);
        let max = count(schema, "maxItems").unwrap_or(MAX_ITEMS.max(min));
        let first = schema.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default();
        let first = first.iter().map(|item| self.value(item, document)).collect();
        let item = match schema.get("items") {
            Some(items @ (Value::Object(_) | Value::Bool(_))) => self.value(items, document),
            _ => self.anything(),
        };
        Node::List { first, item, min, max }
    }

    fn members(&mut self, schema: &Map<String, Value>, document: &mut Document<'_>) -> Node {
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let rest = schema.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
        let properties = schema.get("properties").and_then(Value::as_object);
        if required.is_empty()
            && properties.is_none_or(Map::is_empty)
            && rest != Value::Bool(false)
            && schema.get("properties").is_none()
        {
            let min = count(schema, "minProperties").unwrap_or(0);
            let max = count(schema, "maxProperties").unwrap_or(MAX_ENTRIES.max(min));
            return Node::Map { value: self.value(&rest, document), min, max };
        }
        let mut members = Vec::new();
        for (name, value) in properties.into_iter().flatten() {
            let required = required.contains(&name.as_str());
            members.push(Member { key: key(name), value: self.value(value, document), required });
        }
        let unlisted = required.iter().filter(|name| properties.is_none_or(|p| !p.contains_key(**name)));
        for name in unlisted {
            members.push(Member { key: key(name), value: self.value(&rest, document), required: true });
        }
        Node::Object(members)
    }
}

/// An object without declared properties takes no arguments.
fn is_bare_object(schema: &Value) -> bool {
    let Value::Object(schema) = schema else { return false };
    let free = |key: &String| key == "type" || key == "additionalProperties" || is_remark(key);
    schema.keys().all(free) && schema.get("type").is_none_or(|kind| kind == "object")
}

/// Keywords that allow and forbid nothing.
fn is_remark(key: &str) -> bool {
    matches!(
        key,
        "title"
            | "description"
            | "default"
            | "examples"
            | "$schema"
            | "$id"
            | "$comment"
            | "$defs"
            | "definitions"
            | "deprecated"
            | "format"
    ) || key.starts_with("x-")
}

/// Follows references to what they stand for, as far as ten of them.
fn follow<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..10 {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        let Some(found) = target.and_then(|pointer| root.pointer(pointer)) else { break };
        schema = found;
    }
    schema
}

/// Both schemas at once, as far as that can be written as one.
fn merge(base: &Map<String, Value>, part: &Value) -> Map<String, Value> {
    let mut merged = base.clone();
    for (key, value) in part.as_object().into_iter().flatten() {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if key == "properties" => {
                old.extend(new.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            (Some(Value::Array(old)), Value::Array(new)) if key == "required" => old.extend(new.iter().cloned()),
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    merged
}

/// The type that other keywords speak of.
fn implied(schema: &Map<String, Value>) -> Option<&'static str> {
    let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    if has(&["properties", "required", "additionalProperties", "minProperties", "maxProperties"]) {
        Some("object")
    } else if has(&["items", "prefixItems", "minItems", "maxItems"]) {
        Some("array")
    } else if has(&["minLength", "maxLength", "pattern"]) {
        Some("string")
    } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
        Some("number")
    } else {
        None
    }
}

fn count(schema: &Map<String, Value>, key: &str) -> Option<u32> {
    let number = schema.get(key)?.as_f64()?;
    (0.0..=1e6).contains(&number).then(|| format!("{number:.0}").parse().unwrap_or(0))
}

fn text(schema: &Map<String, Value>) -> Node {
    let min = count(schema, "minLength").unwrap_or(0);
    Node::Text { min, max: count(schema, "maxLength").unwrap_or(MAX_TEXT).min(MAX_TEXT.max(min)) }
}

/// A number between the bounds of its schema, all in units of 10^-`places`; bounds beyond the digits that are written do not bind.
fn number(schema: &Map<String, Value>, places: u32) -> Node {
    let unit = 10f64.powi(i32::try_from(places).unwrap_or(0));
    let widest = 10i128.pow(MAX_DIGITS + places) - 1;
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64).map(|bound| bound * unit);
    let (mut low, mut high) = (-widest, widest);
    if let Some(bound) = bound("minimum") {
        low = low.max(whole(bound.ceil()));
    }
    if let Some(bound) = bound("exclusiveMinimum") {
        low = low.max(whole(bound.floor()) + 1);
    }
    if let Some(bound) = bound("maximum") {
        high = high.min(whole(bound.floor()));
    }
    if let Some(bound) = bound("exclusiveMaximum") {
        high = high.min(whole(bound.ceil()) - 1);
    }
    Node::Number { low, high, places }
}

#[expect(clippy::as_conversions, reason = "the float is whole, and saturates far beyond every bound")]
const fn whole(float: f64) -> i128 {
    float.clamp(-1e30, 1e30) as i128
}

fn words(words: &[&str]) -> Node {
    Node::Choice(words.iter().map(|word| (word.as_bytes().into(), None)).collect())
}

/// The values as they are written, those that their own `type` allows.
fn literals(values: &[Value], schema: &Map<String, Value>) -> Node {
    let fits = |value: &&Value| match schema.get("type") {
        Some(Value::String(kind)) => is_kind(value, kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(|kind| is_kind(value, kind)),
        _ => true,
    };
    let written: BTreeMap<Box<[u8]>, Option<Id>> =
        values.iter().filter(fits).map(|value| (spell(value).into_bytes().into(), None)).collect();
    if written.is_empty() { Node::Never } else { Node::Choice(written.into_iter().collect()) }
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(number) => {
            kind == "number"
                || kind == "integer" && (number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0))
        }
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
    }
}

/// `"key": `, as it is written.
fn key(name: &str) -> Box<[u8]> {
    format!("{}: ", Value::from(name)).into_bytes().into()
}

/// Writes a value in the one spelling of this grammar.
pub(super) fn spell(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spell).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spell(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}
