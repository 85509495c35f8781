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
//! One pass to count its bytes, one over the value, and one more over each string that looks like JSON: linear in its size. A result is
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
use super::size::bytes_within;
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
    let told = bytes_within(&value, MAX_LOOKED_THROUGH).ok_or_else(oversize)?;
    let mut walk = Walk::new(layout, mode);
    walk.value(&mut value, &Place::ROOT, 0)?;
    let shown = if walk.rewritten { bytes_within(&value, MAX_RESULT_BYTES) } else { Some(told) };
    shown.filter(|bytes| *bytes <= MAX_RESULT_BYTES).ok_or_else(oversize)?;
    Ok(Screened { value, redacted: walk.redacted })
}

/// Screens one part of a result that is to stand `depth` levels below its root.
pub(super) fn screen_at(mut value: Value, layout: &Layout, depth: usize) -> Result<Value, Violation> {
    Walk::new(layout, Boundary::Reject).value(&mut value, &Place::ROOT, depth)?;
    Ok(value)
}

/// Rewrites a value in its place.
struct Walk<'a> {
    layout: &'a Layout,
    mode: Boundary,
    redacted: Vec<Violation>,
    /// The number of the last key that had to be told apart from one beside it.
    renamed: usize,
    /// Whether the value is no longer what it was.
    rewritten: bool,
}

impl<'l> Walk<'l> {
    const fn new(layout: &'l Layout, mode: Boundary) -> Self {
        Self { layout, mode, redacted: Vec::new(), renamed: 1, rewritten: false }
    }

    fn value(&mut self, value: &mut Value, at: &Place<'_>, depth: usize) -> Result<(), Violation> {
        if depth > MAX_RESULT_DEPTH {
            *value = self.offence(Rule::Depth, at)?;
            return Ok(());
        }
        match value {
            Value::Object(map) => self.object(map, at, depth),
            Value::Array(items) => self.array(items, at, depth),
            Value::String(text) => {
                match self.text(text, at, depth)? {
                    Written::Same => {}
                    Written::Text(text) => *value = Value::String(text),
                }
                Ok(())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>, at: &Place<'_>, depth: usize) -> Result<(), Violation> {
        let mut keys = Vec::new();
        for (index, (key, value)) in map.iter_mut().enumerate() {
            let at = at.then(Step::Key(key));
            if is_forbidden(key) {
                *value = self.offence(Rule::ForbiddenKey, &at)?;
            } else {
                self.value(value, &at, depth + 1)?;
            }
            if let Written::Text(other) = self.text(key, &at, depth)? {
                keys.push((index, other));
            }
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

    fn array(&mut self, items: &mut [Value], at: &Place<'_>, depth: usize) -> Result<(), Violation> {
        items.iter_mut().enumerate().try_for_each(|(index, item)| self.value(item, &at.then(Step::Index(index)), depth + 1))
    }

    fn text(&mut self, text: &str, at: &Place<'_>, depth: usize) -> Result<Written, Violation> {
        let text = self.layout.relative(text);
        if let Some(rule) = broken_by(&text) {
            return self.offence(rule, at).map(Written::of);
        }
        match (hidden(&text, at, depth), self.mode) {
            (None, _) => Ok(match text {
                Cow::Borrowed(_) => Written::Same,
                Cow::Owned(text) => {
                    self.rewritten = true;
                    Written::Text(text)
                }
            }),
            (Some(violation), Boundary::Reject) => Err(violation),
            (Some(violation), Boundary::Redact) => Ok(Written::of(self.redact(violation))),
        }
    }

    fn offence(&mut self, rule: Rule, at: &Place<'_>) -> Result<Value, Violation> {
        let violation = Violation { rule, path: at.to_string() };
        match self.mode {
            Boundary::Reject => Err(violation),
            Boundary::Redact => Ok(self.redact(violation)),
        }
    }

    fn redact(&mut self, violation: Violation) -> Value {
        let mark = format!("[redacted: {}]", violation.rule.as_str());
        self.redacted.push(violation);
        self.rewritten = true;
        Value::String(mark)
    }
}

/// Screens JSON that a string holds, one level down. Its paths were already made relative with the string itself.
fn hidden(text: &str, at: &Place<'_>, depth: usize) -> Option<Violation> {
    let text = text.trim_start();
    if text.starts_with('"') {
        let inner = serde_json::from_str::<String>(text).ok()?;
        return inside(Value::String(inner), at, depth);
    }
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut end = 0;
    while let Some(next) = values.next() {
        let Ok(value) = next else {
            return text.get(end..).and_then(|rest| torn(rest, at));
        };
        if let Some(violation) = inside(value, at, depth) {
            return Some(violation);
        }
        end = values.byte_offset();
    }
    None
}

fn inside(mut value: Value, at: &Place<'_>, depth: usize) -> Option<Violation> {
    Walk::new(&Layout::default(), Boundary::Reject).value(&mut value, &at.then(Step::Json), depth + 1).err()
}

/// Looks for forbidden keys in what looks like JSON and does not parse: a torn answer hides nothing.
fn torn(text: &str, at: &Place<'_>) -> Option<Violation> {
    let mut pieces = text.split('"').peekable();
    while let Some(piece) = pieces.next() {
        let is_key = pieces.peek().is_some_and(|next| next.trim_start().starts_with(':'));
        if is_key && is_forbidden(piece) {
            return Some(Violation { rule: Rule::ForbiddenKey, path: at.then(Step::Json).to_string() });
        }
    }
    None
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
        end.is_some_and(|end| end.iter().zip(word).rev().all(is_same))
    };
    FORBIDDEN_KEYS.iter().any(|word| ends_in(word.as_bytes()))
}

/// The rule that a text breaks by itself, whatever it may hide.
fn broken_by(text: &str) -> Option<Rule> {
    // Whatever breaks a rule has one of these bytes, and most texts have none.
    let first = memchr::memchr3(0, b'-', b'/', text.as_bytes())?;
    if memchr::memchr(0, text.as_bytes().get(first..)?).is_some() {
        return Some(Rule::Nul);
    }
    if has_private_key(text) {
        return Some(Rule::PrivateKey);
    }
    has_path(text).then_some(Rule::AbsolutePath)
}

fn has_private_key(text: &str) -> bool {
    const BEGIN: &str = "-----begin ";
    if memchr::memmem::find(text.as_bytes(), b"-----").is_none() {
        return false;
    }
    let text = text.to_ascii_lowercase();
    text.match_indices(BEGIN)
        .filter_map(|(at, _)| text.get(at + BEGIN.len()..)?.split_once("-----"))
        .any(|(label, _)| label.contains("private key"))
}

/// Tells whether a word of the text is an absolute path or the URL of a file. Looked at from each slash, which both of them have.
fn has_path(text: &str) -> bool {
    memchr::memchr_iter(b'/', text.as_bytes()).any(|slash| {
        let (head, tail) = text.split_at(slash);
        let scheme = tail.starts_with("//").then(|| head.len().checked_sub("file:".len())).flatten();
        begins_word(head)
            || scheme
                .and_then(|at| head.split_at_checked(at))
                .is_some_and(|(head, scheme)| scheme.eq_ignore_ascii_case("file:") && begins_word(head))
    })
}

/// Tells whether a word begins after `head`, whatever opens or parts it.
#[expect(
    clippy::manual_pattern_char_comparison,
    reason = "asked at every slash, where a match is faster than a walk through an array"
)]
fn begins_word(head: &str) -> bool {
    let head = head.trim_end_matches(|c| matches!(c, ',' | ';' | ':' | '(' | ')' | '[' | ']' | '\'' | '"' | '`'));
    head.chars().next_back().is_none_or(char::is_whitespace)
}

/// A place in a result: a step from the place above it.
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
    Json,
}

impl<'a> Place<'a> {
    const ROOT: Self = Self { above: None, step: Step::Root };

    const fn then(&'a self, step: Step<'a>) -> Self {
        Self { above: Some(self), step }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Root => f.write_str("$"),
            Step::Key(key) => write!(f, ".{}", shown(key)),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Json => f.write_str("{json}"),
        }
    }
}

/// A key as it may be told: one that is no plain word may itself be what must not be seen.
fn shown(key: &str) -> &str {
    let is_plain = key.len() <= MAX_SHOWN_KEY && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if is_plain && !key.is_empty() { key } else { "?" }
}

#[cfg(test)]
#[path = "boundary_tests.rs"]
mod tests;
