//! The output boundary (SPEC §7): the one gate between what a tool answers and everything else.
//!
//! # Guarantees
//! - What passes has at most 64 KiB serialized and 8 levels, no key that names a secret, no NUL, no PEM private key and no
//!   whitespace-delimited token that starts with `/` or `file://`, in values as well as in keys, and in JSON that hides in strings.
//! - Paths inside the workspace are written relative to it first: `/srv/ada/notes.txt` and `file:///srv/ada/notes.txt` become
//!   `./notes.txt`, `/srv/ada2` stays what it is and is then refused.
//! - A [`Violation`] names the rule and the place, never the value.
//!
//! # Modes
//! [`Boundary::Reject`] stops at the first violation. [`Boundary::Redact`] replaces only the offending leaf by
//! `[redacted: <rule>]`; it rejects one thing only, a result that is too large as a whole, for that is no leaf's fault.
//!
//! # Assumptions
//! The value was parsed by `serde_json`, so its nesting is finite; its size was bounded by whoever read it.
//!
//! # Cost
//! One pass over the value, one more over each string that looks like JSON, and one to count its bytes: linear in its size. A result is
//! rewritten in its place; one that breaks nothing is not copied. `cargo bench --bench catalogue` holds it against parsing.
//!
//! ```
//! use serde_json::json;
//! use singularity::{manifest::Boundary, tool::boundary::{Layout, screen}};
//!
//! let layout = Layout::of(["/srv/ada".as_ref()]);
//! let passed = screen(json!({ "file": "/srv/ada/notes.txt" }), &layout, Boundary::Reject).unwrap();
//! assert_eq!(passed.value, json!({ "file": "./notes.txt" }));
//!
//! let refused = screen(json!({ "user": { "api-key": "k" } }), &layout, Boundary::Reject).unwrap_err();
//! assert_eq!(refused.to_string(), "forbidden_key at $.user.api-key");
//! ```

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

pub use super::layout::Layout;
use super::schema::bytes_within;
use crate::manifest::Boundary;

/// How large a serialized result may be.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;
/// How deep a result may nest; its root is level 0.
pub const MAX_RESULT_DEPTH: usize = 8;
/// What is not even looked through: rewriting paths only ever shortens a text, but not by this much.
const MAX_LOOKED_THROUGH: usize = 16 * MAX_RESULT_BYTES;
/// How much of a key a [`Violation`] shows.
const MAX_SHOWN_KEY: usize = 64;

const FORBIDDEN_KEYS: [&str; 14] = [
    "secret",
    "password",
    "passwd",
    "token",
    "access_token",
    "refresh_token",
    "api_key",
    "authorization",
    "cookie",
    "private_key",
    "privatekey",
    "credential_path",
    "secret_path",
    "key_path",
];

/// What a result may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Oversize,
    Depth,
    ForbiddenKey,
    Nul,
    PrivateKey,
    AbsolutePath,
}

impl Rule {
    /// The rule as it is logged and journaled.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oversize => "oversize",
            Self::Depth => "depth",
            Self::ForbiddenKey => "forbidden_key",
            Self::Nul => "nul",
            Self::PrivateKey => "private_key",
            Self::AbsolutePath => "absolute_path",
        }
    }
}

/// A broken rule and where in the result it was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} at {path}", rule.as_str())]
pub struct Violation {
    pub rule: Rule,
    /// `$` is the result, `{json}` a step into JSON inside a string.
    pub path: String,
}

/// A result that may be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Screened {
    pub value: Value,
    /// What was replaced; always empty under [`Boundary::Reject`].
    pub redacted: Vec<Violation>,
}

/// Screens one result; what comes back may be shown to anyone who may talk to the being.
pub fn screen(mut value: Value, layout: &Layout, mode: Boundary) -> Result<Screened, Violation> {
    let oversize = || Violation { rule: Rule::Oversize, path: "$".into() };
    if is_vast(&value) {
        return Err(oversize());
    }
    let mut walk = Walk { layout, mode, at: Place::default(), redacted: Vec::new(), renamed: 1 };
    walk.value(&mut value, 0)?;
    bytes_within(&value, MAX_RESULT_BYTES).ok_or_else(oversize)?;
    Ok(Screened { value, redacted: walk.redacted })
}

/// Screens one part of a result that is to stand `depth` levels below its root.
pub(super) fn screen_at(mut value: Value, layout: &Layout, depth: usize) -> Result<Value, Violation> {
    Walk { layout, mode: Boundary::Reject, at: Place::default(), redacted: Vec::new(), renamed: 1 }.value(&mut value, depth)?;
    Ok(value)
}

/// Rewrites a value in its place.
struct Walk<'a> {
    layout: &'a Layout,
    mode: Boundary,
    at: Place,
    redacted: Vec<Violation>,
    /// The number of the last key that had to be told apart from one beside it.
    renamed: usize,
}

impl Walk<'_> {
    fn value(&mut self, value: &mut Value, depth: usize) -> Result<(), Violation> {
        if depth > MAX_RESULT_DEPTH {
            *value = self.offence(Rule::Depth)?;
            return Ok(());
        }
        match value {
            Value::Object(map) => self.object(map, depth),
            Value::Array(items) => self.array(items, depth),
            Value::String(text) => {
                match self.text(text, depth)? {
                    Written::Same => {}
                    Written::Text(text) => *value = Value::String(text),
                }
                Ok(())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>, depth: usize) -> Result<(), Violation> {
        let mut keys = Vec::new();
        for (at, (key, value)) in map.iter_mut().enumerate() {
            self.at.enter(Step::key(key));
            if is_forbidden(key) {
                *value = self.offence(Rule::ForbiddenKey)?;
            } else {
                self.value(value, depth + 1)?;
            }
            if let Written::Text(other) = self.text(key, depth)? {
                keys.push((at, other));
            }
            self.at.leave();
        }
        if !keys.is_empty() {
            self.rename(map, keys);
        }
        Ok(())
    }

    /// Gives members other keys, by their place.
    fn rename(&mut self, map: &mut Map<String, Value>, keys: Vec<(usize, String)>) {
        let mut keys = keys.into_iter().peekable();
        for (at, (key, value)) in std::mem::take(map).into_iter().enumerate() {
            let key = keys.next_if(|(place, _)| *place == at).map_or(key, |(_, other)| other);
            let key = self.unused(&key, map);
            map.insert(key, value);
        }
    }

    /// Makes a key that was replaced differ from those beside it.
    fn unused(&mut self, key: &str, map: &Map<String, Value>) -> String {
        let mut unused = key.to_owned();
        while map.contains_key(&unused) {
            self.renamed += 1;
            unused = format!("{key} {}", self.renamed);
        }
        unused
    }

    fn array(&mut self, items: &mut [Value], depth: usize) -> Result<(), Violation> {
        for (index, item) in items.iter_mut().enumerate() {
            self.at.enter(Step::Index(index));
            self.value(item, depth + 1)?;
            self.at.leave();
        }
        Ok(())
    }

    fn text(&mut self, text: &str, depth: usize) -> Result<Written, Violation> {
        let text = self.layout.relative(text);
        if let Some(rule) = broken_by(&text) {
            return self.offence(rule).map(Written::of);
        }
        match (self.hidden(&text, depth), self.mode) {
            (None, _) => Ok(match text {
                Cow::Borrowed(_) => Written::Same,
                Cow::Owned(text) => Written::Text(text),
            }),
            (Some(violation), Boundary::Reject) => Err(violation),
            (Some(violation), Boundary::Redact) => Ok(Written::of(self.redact(violation))),
        }
    }

    /// Screens JSON that a string holds, one level down. Its paths were already made relative with the string itself.
    fn hidden(&self, text: &str, depth: usize) -> Option<Violation> {
        let text = text.trim_start();
        if text.starts_with('"') {
            let inner = serde_json::from_str::<String>(text).ok()?;
            return self.inside(Value::String(inner), depth);
        }
        if !text.starts_with(['{', '[']) {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut end = 0;
        while let Some(next) = values.next() {
            let Ok(value) = next else {
                return text.get(end..).and_then(|rest| self.torn(rest));
            };
            if let Some(violation) = self.inside(value, depth) {
                return Some(violation);
            }
            end = values.byte_offset();
        }
        None
    }

    fn inside(&self, mut value: Value, depth: usize) -> Option<Violation> {
        let mut at = self.at.clone();
        at.enter(Step::Json);
        let mut walk = Walk { layout: &Layout::default(), mode: Boundary::Reject, at, redacted: Vec::new(), renamed: 1 };
        walk.value(&mut value, depth + 1).err()
    }

    /// Looks for forbidden keys in what looks like JSON and does not parse: a torn answer hides nothing.
    fn torn(&self, text: &str) -> Option<Violation> {
        let mut pieces = text.split('"').peekable();
        while let Some(piece) = pieces.next() {
            let is_key = pieces.peek().is_some_and(|next| next.trim_start().starts_with(':'));
            if is_key && is_forbidden(piece) {
                return Some(Violation { rule: Rule::ForbiddenKey, path: format!("{}{{json}}", self.at) });
            }
        }
        None
    }

    fn offence(&mut self, rule: Rule) -> Result<Value, Violation> {
        let violation = Violation { rule, path: self.at.to_string() };
        match self.mode {
            Boundary::Reject => Err(violation),
            Boundary::Redact => Ok(self.redact(violation)),
        }
    }

    fn redact(&mut self, violation: Violation) -> Value {
        let mark = format!("[redacted: {}]", violation.rule.as_str());
        self.redacted.push(violation);
        Value::String(mark)
    }
}

/// What a text becomes.
enum Written {
    Same,
    Text(String),
}

impl Written {
    fn of(mark: Value) -> Self {
        match mark {
            Value::String(mark) => Self::Text(mark),
            _ => Self::Same,
        }
    }
}

/// Tells whether a key names a secret. It is folded by NFKC first, so that full-width and other look-alikes of plain letters are plain.
fn is_forbidden(key: &str) -> bool {
    if key.is_ascii() {
        return names_secret(key.trim().as_bytes());
    }
    let folded: String = key.nfkc().collect();
    names_secret(folded.to_lowercase().trim().as_bytes())
}

/// Tells whether bytes end in one of the words, whatever the case, with `-` and space as `_`.
fn names_secret(key: &[u8]) -> bool {
    let is_same = |(one, word): (&u8, &u8)| {
        let one = if matches!(one, b'-' | b' ') { b'_' } else { one.to_ascii_lowercase() };
        one == *word
    };
    let ends_in = |word: &[u8]| {
        let end = key.len().checked_sub(word.len()).and_then(|start| key.get(start..));
        end.is_some_and(|end| end.iter().zip(word).all(is_same))
    };
    FORBIDDEN_KEYS.iter().any(|word| ends_in(word.as_bytes()))
}

/// The rule that a text breaks by itself, whatever it may hide.
fn broken_by(text: &str) -> Option<Rule> {
    if text.contains('\0') {
        return Some(Rule::Nul);
    }
    if has_private_key(text) {
        return Some(Rule::PrivateKey);
    }
    // Both forms of a path have a slash, and most texts have none.
    (text.contains('/') && text.split_whitespace().any(is_path)).then_some(Rule::AbsolutePath)
}

fn has_private_key(text: &str) -> bool {
    const BEGIN: &str = "-----begin ";
    if !text.contains("-----") {
        return false;
    }
    let text = text.to_ascii_lowercase();
    text.match_indices(BEGIN)
        .filter_map(|(at, _)| text.get(at + BEGIN.len()..)?.split_once("-----"))
        .any(|(label, _)| label.contains("private key"))
}

fn is_path(token: &str) -> bool {
    let token = token.trim_start_matches([',', ';', ':', '(', ')', '[', ']', '\'', '"', '`']);
    token.starts_with('/') || token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file://"))
}

/// Tells whether a value is too large to be looked through: its texts alone, before any escape.
fn is_vast(value: &Value) -> bool {
    fn takes(value: &Value, left: &mut usize) -> Option<()> {
        let own = if let Value::String(text) = value { text.len() } else { 1 };
        *left = left.checked_sub(own)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| takes(item, left)),
            Value::Object(map) => map.iter().try_for_each(|(key, value)| {
                *left = left.checked_sub(key.len())?;
                takes(value, left)
            }),
            _ => Some(()),
        }
    }
    takes(value, &mut { MAX_LOOKED_THROUGH }).is_none()
}

/// A place in a result.
#[derive(Debug, Clone, Default)]
struct Place(Vec<Step>);

#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Index(usize),
    Json,
}

impl Step {
    /// A key as it may be told: one that is no plain word may itself be what must not be seen.
    fn key(key: &str) -> Self {
        let plain = key.len() <= MAX_SHOWN_KEY && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        Self::Key(if plain && !key.is_empty() { key.to_owned() } else { "?".to_owned() })
    }
}

impl Place {
    fn enter(&mut self, step: Step) {
        self.0.push(step);
    }

    fn leave(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.0.iter().try_for_each(|step| match step {
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Json => f.write_str("{json}"),
        })
    }
}

#[cfg(test)]
#[path = "boundary_tests.rs"]
mod tests;
