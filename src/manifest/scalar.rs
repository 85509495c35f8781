//! Texts with a rule, as documents hold them: each has a definition of its own in the schema, so that an error knows which rule was broken.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::source::fault_of_address;
use crate::vocab::{Name, Size, Span, Usd};

macro_rules! scalar {
    ($(#[doc = $doc:literal])* $name:ident, $title:literal, $schema:tt) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Deserialize)]
        pub(crate) struct $name(pub String);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = json_schema!($schema);
                schema.insert("title".into(), $title.into());
                schema.insert("description".into(), concat!($($doc),*).trim().into());
                schema
            }
        }
    };
}

scalar!(
    /// An exact amount of US dollars as a decimal string, never a float.
    Money, "Amount", { "type": "string", "format": "usd", "pattern": r"^[0-9]+(\.[0-9]+)?$", "examples": ["0.25", "10"] }
);
scalar!(
    /// A span of time.
    SpanText, "Span", { "type": "string", "format": "span", "examples": ["5s", "1m30s", "250ms"] }
);
scalar!(
    /// An amount of bytes.
    SizeText, "Size", { "type": "string", "format": "size", "examples": ["512MiB", "1GiB"] }
);
scalar!(
    /// The name of a declared object.
    ObjectName, "Name", { "type": "string", "format": "name", "pattern": Name::PATTERN }
);
scalar!(
    /// A glob over names: `*`, `?`, `[a-z]`, `{a,b}`.
    Glob, "Glob", { "type": "string", "format": "glob", "minLength": 1, "maxLength": 256, "examples": ["fin*"] }
);
scalar!(
    /// The name of a tool as models accept it: ASCII letters, digits, `-` and `_`.
    ToolName, "Tool name", { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }
);
scalar!(
    /// An http or https URL.
    HttpUrl, "URL", { "type": "string", "format": "uri", "pattern": r"^https?://[^/\s?#]+", "maxLength": 4096 }
);
scalar!(
    /// Where a Git repository is: a URL without secrets, `user@host:path`, or a path.
    GitAddress, "Repository", { "type": "string", "format": "git-address", "minLength": 1, "maxLength": 4096 }
);
scalar!(
    /// The name of a branch, without `refs/heads/`.
    GitBranch, "Branch", { "type": "string", "format": "branch", "maxLength": 200, "examples": ["main", "release/7"] }
);
scalar!(
    /// 1 to 128 of ASCII letters, digits, `-`, `_`, `.` and `:`.
    Identifier, "Identifier", { "type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$" }
);
scalar!(
    /// 64 lowercase hexadecimal characters.
    HexDigest, "Digest", { "type": "string", "pattern": "^[0-9a-f]{64}$" }
);

/// Whatever a body can make sense of: a text, a number, true or false, a list or a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct ConfigValue(pub serde_json::Value);

impl JsonSchema for ConfigValue {
    fn schema_name() -> Cow<'static, str> {
        "ConfigValue".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let inner = generator.subschema_for::<Self>();
        json_schema!({
            "title": "Value",
            "description": "Whatever a body can make sense of: a text, a number, true or false, a list or a table.",
            "type": ["string", "number", "boolean", "array", "object"],
            "items": inner,
            "additionalProperties": inner,
            "x-any": true,
        })
    }
}

/// The longest span that a manifest may name: a year.
const MAX_SPAN: Span = Span::from_secs(366 * 24 * 3_600);

/// Tells whether a text keeps a rule.
type Rule = fn(&str) -> bool;

/// The rules that a regular expression cannot hold, by the `format` that names them in the schema.
pub(crate) const FORMATS: [(&str, Rule); 7] = [
    ("usd", |text| Usd::parse(text).is_ok()),
    ("span", |text| text.parse::<Span>().is_ok_and(|span| span <= MAX_SPAN)),
    ("size", |text| text.parse::<Size>().is_ok()),
    ("name", |text| Name::try_from(text).is_ok_and(|name| name.depth() == 0)),
    ("branch", is_branch),
    ("git-address", |text| fault_of_address(text).is_none()),
    ("glob", |text| globset::Glob::new(text).is_ok()),
];

/// What `git check-ref-format` lets a branch be called, less some that nobody uses.
fn is_branch(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with('.') && !part.ends_with(".lock");
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+/#@=,".contains(c);
    text.split('/').all(is_part) && text.chars().all(is_plain) && !text.contains("..") && text != "@"
}
