//! Holds a document against the schema and says in sentences what does not fit: all of it, each fault once.

use std::{collections::BTreeSet, sync::LazyLock};

use jsonschema::{
    JsonType, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::{
    problem::{did_you_mean, quoted},
    scalar::FORMATS,
    schema::manifest_schema,
    source::fault_of_address,
};
use crate::vocab::{self, Name, SkillName};

/// Something that does not fit the schema.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// From the root of the document.
    pub path: Vec<String>,
    /// Whether the key is meant, or else the value.
    pub at_key: bool,
    /// Whether the value must not be shown again.
    pub secret: bool,
    pub message: String,
    pub hint: Option<String>,
}

/// What SPEC §2 names and this version does not do yet; never passed over in silence.
const NOT_YET: [(&str, &[&str]); 3] = [("", &["platform"]), ("being.cycle", &["on"]), ("being.capabilities", &["platforms"])];
/// The definitions of a secret in the schema, and of what may be one.
const SECRET: &str = "SecretDocument";
const VARIABLE: &str = "VariableDocument";
const CATEGORY: &str = vocab::Kind::Category.as_str();
/// The option of a decision that stands for no category.
const NO_CATEGORY: &str = "none";

static VALIDATOR: LazyLock<Option<Validator>> = LazyLock::new(|| {
    let options = jsonschema::options().should_validate_formats(true);
    let options = FORMATS.iter().fold(options, |options, (name, rule)| options.with_format(*name, *rule));
    options.build(manifest_schema()).ok()
});

/// Everything in `document` that does not fit the schema of a manifest.
pub(crate) fn misfits(document: &Value) -> Vec<Misfit> {
    let Some(validator) = VALIDATOR.as_ref() else {
        let message = "the schema of manifests is broken; this is a fault of the program".to_owned();
        return vec![Misfit { path: Vec::new(), at_key: false, secret: false, message, hint: None }];
    };
    let told = validator.iter_errors(document).flat_map(|error| tell(&error));
    let mut seen = BTreeSet::new();
    told.chain(bad_names(document)).filter(|misfit| seen.insert(misfit.path.clone())).collect()
}

/// Names of objects, which are keys.
fn bad_names(document: &Value) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    for kind in vocab::Kind::ALL.map(vocab::Kind::as_str) {
        for name in document.get(kind).and_then(Value::as_object).into_iter().flat_map(|objects| objects.keys()) {
            let message = match Name::try_from(name.as_str()) {
                Ok(_) if kind == CATEGORY && !can_name_category(name) => format!(
                    "{} cannot name a category; use a-z, 0-9 and single `_`, and not `{NO_CATEGORY}`, which stands for none of them",
                    quoted(name)
                ),
                Ok(known) if known.depth() == 0 => continue,
                Ok(_) => format!(
                    "{} cannot be declared: names with a dot are those of children, which their parents spawn",
                    quoted(name)
                ),
                Err(error) => error.to_string().replacen(&format!("`{name}`"), &quoted(name), 1),
            };
            misfits.push(Misfit { path: vec![kind.into(), name.clone()], at_key: true, secret: false, message, hint: None });
        }
    }
    misfits.extend(bad_skill_names(document));
    misfits
}

/// A category's name is part of those of its skills.
fn can_name_category(name: &str) -> bool {
    name != NO_CATEGORY && !name.contains('.') && SkillName::try_from(name).is_ok()
}

fn table(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn bad_skill_names(document: &Value) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    for (category, body) in table(document.get(CATEGORY)) {
        for (leaf, _) in table(body.get("skill")) {
            let Err(error) = SkillName::try_from(leaf.as_str()) else { continue };
            let message = error.to_string().replacen(&format!("`{leaf}`"), &quoted(leaf), 1);
            let path = vec![CATEGORY.into(), category.clone(), "skill".into(), leaf.clone()];
            misfits.push(Misfit { path, at_key: true, secret: false, message, hint: None });
        }
    }
    misfits
}

fn tell(error: &ValidationError<'_>) -> Vec<Misfit> {
    let path = segments(error.instance_path().as_str());
    if let Kind::AdditionalProperties { unexpected } = error.kind() {
        return unexpected.iter().map(|key| unknown_key(error, &path, key)).collect();
    }
    let field = Field { error, label: label(&path), leaf: leaf(&path), schema: parent_schema(error) };
    let (message, hint) = field.sentence();
    let holds_secrets = [SECRET, "GitAddress"].iter().any(|name| error.schema_path().as_str().contains(name));
    let secret = holds_secrets && error.instance().is_string();
    vec![Misfit { path, at_key: false, secret, message, hint }]
}

fn unknown_key(error: &ValidationError<'_>, path: &[String], key: &str) -> Misfit {
    let kind_path = kind_path(path);
    let is_in = |keys: &(&str, &[&str])| keys.0 == kind_path && keys.1.contains(&key);
    let known = parent_schema(error).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let (message, hint) = if NOT_YET.iter().any(is_in) {
        (format!("{} is not supported by this version yet", quoted(key)), Some("take it out; it would have no effect".to_owned()))
    } else if path.is_empty() {
        let kinds = vocab::Kind::ALL.map(vocab::Kind::as_str);
        let listed = kinds.map(|kind| format!("`{kind}`")).join(", ");
        let near = did_you_mean(key, kinds.into_iter().chain(["defaults"]));
        let hint = near.unwrap_or_else(|| format!("declare {listed} or `defaults`"));
        (format!("{} is not a kind of object", quoted(key)), Some(hint))
    } else {
        let keys = known.map(|keys| keys.keys().map(String::as_str).collect::<Vec<_>>()).unwrap_or_default();
        let hint = moved(&kind_path, key).or_else(|| did_you_mean(key, keys.iter().copied()));
        (
            format!("{} is not a key of `{kind_path}`", quoted(key)),
            hint.or_else(|| Some(format!("its keys are {}", keys.join(", ")))),
        )
    };
    Misfit { path: [path, &[key.to_owned()]].concat(), at_key: true, secret: false, message, hint }
}

/// Keys that people look for in another place.
fn moved(kind_path: &str, key: &str) -> Option<String> {
    let there = match (kind_path, key) {
        ("being.identity", "specialty") => "`specialty` stands beside `identity`, not in it",
        ("being", "every" | "limit" | "max_tool_rounds") => "it stands in `cycle`: write cycle = { … }",
        ("being", "starting" | "instance_usd_per_hour" | "per_day" | "per_cycle" | "reserve" | "warn_below") => {
            "it stands in `budget`: write budget = { … }"
        }
        ("being", "only" | "skip" | "required") => "it stands in `las`: write las = { … }",
        ("being", "surfaces" | "tools") => "surfaces are selected by `las`: write las = { only = [\"files\"] }",
        ("category", "skills") => "skills are declared one by one: write [category.name.skill.leaf]",
        ("being", "category") => "did you mean `categories`?",
        ("being", "grants") => "did you mean `grant`?",
        ("being", "models") => "did you mean `model`?",
        ("surface", "args") => "arguments follow the program: write command = [\"program\", \"argument\"]",
        ("model", "input" | "output") => "it stands in `price`: write price = { input = \"…\", output = \"…\" }",
        _ => return None,
    };
    Some(there.to_owned())
}

/// One fault of one field.
struct Field<'e> {
    error: &'e ValidationError<'e>,
    label: String,
    leaf: String,
    schema: Option<&'static Value>,
}

impl Field<'_> {
    fn sentence(&self) -> (String, Option<String>) {
        let label = &self.label;
        let plain = |text: String| (text, None);
        match self.error.kind() {
            Kind::Type { kind } => self.wrong_type(kind),
            Kind::Enum { options } => self.wrong_word(options),
            Kind::Pattern { .. } | Kind::Format { .. } => self.wrong_text(),
            Kind::Minimum { .. } if self.leaf == "max_tool_rounds" => plain("max tool rounds must be positive".into()),
            Kind::Minimum { .. } | Kind::Maximum { .. } if self.leaf == "temperature" && self.definition() == "ModelDocument" => {
                plain("temperature must be finite and between zero and two".into())
            }
            Kind::Minimum { limit } => plain(format!("{label} must be at least {limit}")),
            Kind::Maximum { limit } => plain(format!("{label} must be at most {limit}")),
            Kind::MinProperties { .. } => (format!("{label} does not say where its secret is read from"), Some(SECRET_HINT.into())),
            Kind::MaxProperties { .. } => {
                (format!("{label} names two places for one secret; keep one of them"), Some(SECRET_HINT.into()))
            }
            Kind::MinLength { .. } | Kind::MinItems { .. } => {
                (format!("{label} is empty"), Some("fill it in or take it out".into()))
            }
            Kind::MaxLength { limit } => plain(format!("{label} is longer than {limit} characters")),
            Kind::MaxItems { limit } => plain(format!("{label} has more than {limit} items")),
            _ => plain(format!("{label}: {}", self.error.masked())),
        }
    }

    fn definition(&self) -> &str {
        self.error.schema_path().as_str().strip_prefix("/$defs/").and_then(|path| path.split('/').next()).unwrap_or_default()
    }

    fn wrong_type(&self, kind: &TypeKind) -> (String, Option<String>) {
        let (label, given) = (&self.label, self.error.instance().as_ref());
        let wanted: Vec<&str> = match kind {
            TypeKind::Single(one) => vec![type_name(*one)],
            TypeKind::Multiple(many) => many.iter().map(type_name).collect(),
        };
        let given_is = value_name(given);
        let (message, hint) = match (self.definition(), given) {
            (SECRET, Value::String(_)) => {
                (format!("{label} holds the secret itself; a manifest only says where it is read from"), Some(SECRET_HINT.into()))
            }
            ("Money", Value::Number(number)) => {
                (format!("{label} is money and must be a text, not a number"), Some(format!("write it as a string: \"{number}\"")))
            }
            ("SpanText", Value::Number(number)) => {
                (format!("{label} is a span of time and must be a text, not a number"), Some(format!("write \"{number}s\"")))
            }
            ("SizeText", Value::Number(number)) => {
                (format!("{label} is an amount of bytes and must be a text, not a number"), Some(format!("write \"{number}B\"")))
            }
            _ => (format!("{label} must be {}, not {given_is}", wanted.join(" or ")), type_hint(&wanted, given)),
        };
        (message, hint)
    }

    fn wrong_word(&self, options: &Value) -> (String, Option<String>) {
        let words: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let given = self.error.instance().as_str().unwrap_or_default();
        let hint = did_you_mean(given, words.iter().copied());
        let listed = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        (format!("{} is {}; it must be one of {listed}", self.label, quoted(given)), hint)
    }

    fn wrong_text(&self) -> (String, Option<String>) {
        let (label, given) = (&self.label, self.error.instance().as_str().unwrap_or_default());
        let format = self.schema.and_then(|schema| schema.get("format")).and_then(Value::as_str).unwrap_or_default();
        let spoken = self.leaf.replace('_', " ");
        match (self.definition(), format) {
            ("Money", _) if given.trim_start().starts_with('-') => {
                (format!("{label} is {}; prices and balance cannot be negative", quoted(given)), None)
            }
            ("Money", _) => (
                format!("{label} is {}, which is not an exact amount", quoted(given)),
                Some("write a decimal such as \"0.25\"".into()),
            ),
            ("SpanText", _) => (
                format!("{label} is {}, which is not a span of time up to a year", quoted(given)),
                Some("write \"5s\", \"1m30s\" or \"250ms\"".into()),
            ),
            ("SizeText", _) => (
                format!("{label} is {}, which is not an amount of bytes", quoted(given)),
                Some("write \"512MiB\" or \"1GiB\"".into()),
            ),
            ("Glob", _) => (format!("{label} is {}, which is not a glob", quoted(given)), glob_hint(given)),
            ("HttpUrl", _) => (
                format!("{label} is {}, which is not a URL; it must use http or https", quoted(given)),
                Some("write it as \"http://127.0.0.1:8000/v1\"".into()),
            ),
            ("Identifier", _) => (
                format!("{spoken} is not a valid immutable identifier"),
                Some("use 1 to 128 of letters, digits, `-`, `_`, `.` and `:`".into()),
            ),
            ("HexDigest", _) => (format!("{spoken} must be 64 lowercase hexadecimal characters"), None),
            ("GitAddress", _) => {
                let (what, hint) = fault_of_address(given).unwrap_or(("does not fit its rule", ""));
                (format!("{label} {what}"), Some(hint.into()))
            }
            ("GitBranch", _) => {
                (format!("{label} is {}, which cannot name a branch", quoted(given)), Some("write branch = \"main\"".into()))
            }
            (SECRET | VARIABLE, _) if self.leaf == "credential" => (
                format!("{label} is not the name of a credential"),
                Some("use letters, digits, `-`, `_`, `@` and `.`, not led by a `.`".into()),
            ),
            (SECRET | VARIABLE, _) => {
                (format!("{label} is not the name of an environment variable"), Some("write { env = \"MODEL_KEY\" }".into()))
            }
            (_, "name") | ("ObjectName", _) => (
                format!("{label} is {}, which cannot name an object", quoted(given)),
                Some("use 1 to 63 of a-z, 0-9, `-` and single `_`, led by a letter or digit".into()),
            ),
            _ => (format!("{label} does not fit its rule"), None),
        }
    }
}

const SECRET_HINT: &str = "write { file = \"/run/secrets/key\" }, { env = \"MODEL_KEY\" } or { credential = \"model-key\" }";

fn glob_hint(given: &str) -> Option<String> {
    globset::Glob::new(given).err().map(|error| error.kind().to_string())
}

fn type_hint(wanted: &[&str], given: &Value) -> Option<String> {
    match (wanted, given) {
        ([.., "a list"], Value::String(text)) => Some(format!("write [{:?}]", text.chars().take(40).collect::<String>())),
        (["true or false"], Value::String(text)) => {
            let meant = matches!(text.to_lowercase().as_str(), "true" | "yes" | "on" | "1");
            Some(format!("write {meant}, without quotes"))
        }
        (["a whole number" | "a number"], Value::String(text)) if text.parse::<f64>().is_ok_and(f64::is_finite) => {
            Some(format!("write {text}, without quotes"))
        }
        (["a text"] | ["a text", "a table"], Value::Number(_) | Value::Bool(_)) => Some(format!("write \"{given}\", in quotes")),
        _ => None,
    }
}

const fn type_name(json: JsonType) -> &'static str {
    match json {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "nothing",
        JsonType::Number => "a number",
        JsonType::Object => "a table",
        JsonType::String => "a text",
    }
}

fn value_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with decimals",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// The schema that holds the keyword which failed.
fn parent_schema(error: &ValidationError<'_>) -> Option<&'static Value> {
    let path = error.schema_path().as_str();
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    manifest_schema().pointer(parent)
}

fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// How a field is called in a message: its path within the object, without positions in lists.
fn label(path: &[String]) -> String {
    let skip = match path.first().map(String::as_str) {
        Some("defaults") if path.len() > 2 => 2,
        Some(kind) if path.len() > 2 && vocab::Kind::ALL.iter().any(|known| known.as_str() == kind) => 2,
        _ => 0,
    };
    let steps = path.iter().skip(skip).filter(|step| step.parse::<usize>().is_err());
    let joined = steps.map(String::as_str).collect::<Vec<_>>().join(".");
    if joined.is_empty() { "the document".into() } else { quoted(&joined) }
}

fn leaf(path: &[String]) -> String {
    path.iter().rev().find(|step| step.parse::<usize>().is_err()).cloned().unwrap_or_default()
}

/// The path with the object's name left out: `being.ada.las` and `defaults.being.las` are both `being.las`.
fn kind_path(path: &[String]) -> String {
    let steps: Vec<&str> = path.iter().map(String::as_str).filter(|step| step.parse::<usize>().is_err()).collect();
    match steps.as_slice() {
        ["defaults", "category", "skill", _, rest @ ..] | ["category", _, "skill", _, rest @ ..] => {
            [&["category", "skill"], rest].concat().join(".")
        }
        ["defaults", kind, rest @ ..] | [kind, _, rest @ ..] => [&[*kind], rest].concat().join("."),
        rest => rest.join("."),
    }
}
