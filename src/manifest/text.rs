//! TOML and JSON as one tree whose every key and value knows its place in the text.

use std::{borrow::Cow, ops::Range};

use super::problem::quoted;
use jsonc_parser::{ParseOptions, ast, common::Ranged as _};
use serde_json::{Map, Number, Value};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub span: Range<usize>,
    pub shape: Shape,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Sorted by key.
    Table(Vec<Entry>),
    Array(Vec<Node>),
    Leaf(Value),
    /// A date or a time of TOML; no key of a manifest holds one.
    Datetime,
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: String,
    pub key_span: Range<usize>,
    pub node: Node,
}

/// A fault of the text itself.
#[derive(Debug)]
pub(crate) struct Fault {
    pub span: Range<usize>,
    pub message: String,
}

impl Node {
    /// The entry of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        let entries = self.entries();
        entries.binary_search_by(|entry| entry.key.as_str().cmp(key)).ok().and_then(|at| entries.get(at))
    }

    /// The entries of a table, none for anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.shape {
            Shape::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The span of what `path` leads to, as far as it goes: the value, or the key when that is meant or the value is a table.
    pub(crate) fn span_of(&self, path: &[String], at_key: bool) -> Range<usize> {
        let mut at = self;
        let mut key_span = self.span.clone();
        for step in path {
            let Some((next, span)) = at.child(step) else { break };
            (at, key_span) = (next, span);
        }
        if at_key || matches!(at.shape, Shape::Table(_)) { key_span } else { at.span.clone() }
    }

    fn child(&self, step: &str) -> Option<(&Self, Range<usize>)> {
        match &self.shape {
            Shape::Array(items) => items.get(step.parse::<usize>().ok()?).map(|item| (item, item.span.clone())),
            _ => self.get(step).map(|entry| (&entry.node, entry.key_span.clone())),
        }
    }

    /// Takes out what `path` leads to; an item of an array takes the whole array with it.
    pub(crate) fn prune(&mut self, path: &[&str]) {
        let [step, rest @ ..] = path else { return };
        let Shape::Table(entries) = &mut self.shape else { return };
        let Ok(at) = entries.binary_search_by(|entry| entry.key.as_str().cmp(step)) else { return };
        match entries.get_mut(at) {
            Some(Entry { node: inner @ Self { shape: Shape::Table(_), .. }, .. }) if !rest.is_empty() => inner.prune(rest),
            _ => drop(entries.remove(at)),
        }
    }

    /// The value without places.
    pub(crate) fn value(&self) -> Value {
        match &self.shape {
            Shape::Table(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.node.value())).collect::<Map<_, _>>().into()
            }
            Shape::Array(items) => items.iter().map(Self::value).collect::<Vec<_>>().into(),
            Shape::Leaf(value) => value.clone(),
            Shape::Datetime => Value::Null,
        }
    }
}

/// Reads TOML. With faults, the tree holds what could be read nevertheless.
pub(crate) fn read_toml(text: &str) -> (Node, Vec<Fault>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let fault = |error: toml::de::Error| Fault { span: error.span().unwrap_or_default(), message: error.message().to_owned() };
    let mut faults = told_once(text, errors.into_iter().map(fault));
    let node = toml_table(table.get_ref(), table.span(), &mut faults);
    (node, faults)
}

/// Names the key of each duplicate. A table that is there twice is told once, and not again for each of its keys.
fn told_once(text: &str, faults: impl Iterator<Item = Fault>) -> Vec<Fault> {
    let mut is_in_twin = false;
    let mut told = Vec::new();
    for mut fault in faults {
        if fault.message == "duplicate key" {
            let line = text.get(..fault.span.start).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
            let is_header = line.trim_start().starts_with('[');
            if is_in_twin && !is_header {
                continue;
            }
            is_in_twin = is_header;
            fault.message = format!("{} is declared twice in this file", quoted(text.get(fault.span.clone()).unwrap_or_default()));
        }
        told.push(fault);
    }
    told
}

fn toml_table(table: &DeTable<'_>, span: Range<usize>, faults: &mut Vec<Fault>) -> Node {
    let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| Entry {
        key: key.get_ref().clone().into_owned(),
        key_span: key.span(),
        node: toml_value(value, faults),
    };
    Node { span, shape: sorted(table.iter().map(entry).collect()) }
}

fn sorted(mut entries: Vec<Entry>) -> Shape {
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    Shape::Table(entries)
}

fn toml_value(value: &Spanned<DeValue<'_>>, faults: &mut Vec<Fault>) -> Node {
    let span = value.span();
    let mut number = |read: Option<Number>, text: &str| {
        let fault = || Fault { span: span.clone(), message: format!("`{text}` is not a number that can be held") };
        Shape::Leaf(read.map(Value::Number).unwrap_or_else(|| {
            faults.push(fault());
            Value::Null
        }))
    };
    let shape = match value.get_ref() {
        DeValue::Table(table) => return toml_table(table, span, faults),
        DeValue::Array(items) => Shape::Array(items.iter().map(|item| toml_value(item, faults)).collect()),
        DeValue::String(text) => Shape::Leaf(Value::String(text.clone().into_owned())),
        DeValue::Boolean(flag) => Shape::Leaf(Value::Bool(*flag)),
        DeValue::Integer(digits) => number(integer(digits.as_str(), digits.radix()), digits.as_str()),
        DeValue::Float(digits) => number(digits.as_str().parse().ok().and_then(Number::from_f64), digits.as_str()),
        DeValue::Datetime(_) => Shape::Datetime,
    };
    Node { span, shape }
}

fn integer(digits: &str, radix: u32) -> Option<Number> {
    let unsigned = u64::from_str_radix(digits, radix).map(Number::from);
    unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Number::from)).ok()
}

/// Reads JSON. `serde_json` judges the text and bounds its depth; the second parser only tells places.
pub(crate) fn read_json(text: &str) -> (Node, Vec<Fault>) {
    let nothing = || Node { span: 0..text.len(), shape: Shape::Table(Vec::new()) };
    if let Err(error) = serde_json::from_str::<Value>(text) {
        let at = offset(text, error.line(), error.column());
        let said = error.to_string();
        let message = said.split(" at line ").next().unwrap_or(&said).replace("EOF while parsing", "the text ends inside");
        return (nothing(), vec![Fault { span: at..at + 1, message }]);
    }
    match jsonc_parser::parse_to_ast(text, &Default::default(), &ParseOptions::default()) {
        Ok(jsonc_parser::ParseResult { value: Some(value), .. }) => {
            let mut faults = Vec::new();
            let node = json_value(&value, &mut faults);
            (node, faults)
        }
        Ok(_) => (nothing(), Vec::new()),
        Err(error) => (nothing(), vec![Fault { span: error.range().start..error.range().end, message: error.kind().to_string() }]),
    }
}

fn json_value(value: &ast::Value<'_>, faults: &mut Vec<Fault>) -> Node {
    let range = value.range();
    let shape = match value {
        ast::Value::Object(object) => sorted(json_entries(object, faults)),
        ast::Value::Array(array) => Shape::Array(array.elements.iter().map(|item| json_value(item, faults)).collect()),
        ast::Value::StringLit(text) => Shape::Leaf(Value::String(text.value.clone().into_owned())),
        ast::Value::NumberLit(digits) => Shape::Leaf(digits.value.parse().map_or(Value::Null, Value::Number)),
        ast::Value::BooleanLit(flag) => Shape::Leaf(Value::Bool(flag.value)),
        ast::Value::NullKeyword(_) => Shape::Leaf(Value::Null),
    };
    Node { span: range.start..range.end, shape }
}

fn json_entries(object: &ast::Object<'_>, faults: &mut Vec<Fault>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
    let mut seen = std::collections::HashSet::new();
    for property in &object.properties {
        let key = property.name.as_str();
        let range = match &property.name {
            ast::ObjectPropName::String(text) => text.range,
            ast::ObjectPropName::Word(word) => word.range,
        };
        if !seen.insert(key) {
            faults.push(Fault { span: range.start..range.end, message: format!("{} is declared twice in this file", quoted(key)) });
            continue;
        }
        let node = json_value(&property.value, faults);
        entries.push(Entry { key: key.to_owned(), key_span: range.start..range.end, node });
    }
    entries
}

/// The byte that `serde_json` means by a line and a column, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len().saturating_sub(1))
}
