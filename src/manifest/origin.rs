use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{read::Loaded, schema::DEFAULTS};
use crate::vocab::Address;

/// Where a value may come from; later wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    BuiltIn,
    Defaults,
    Object,
    Variable,
    Flag,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub layer: Layer,
    pub file: Option<Arc<Path>>,
    /// From 1.
    pub line: Option<usize>,
    /// The variable, or the variable of the flag.
    pub variable: Option<&'static str>,
}

/// A value of an object, with its dotted path and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub path: String,
    pub value: Value,
    pub origin: Origin,
}

/// Where every value of a fleet came from.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// All but the built-in ones, sorted by path.
    pub(crate) fields: BTreeMap<Address, Arc<[Field]>>,
}

/// An object with every layer resolved, as a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub address: Address,
    pub fields: Vec<Field>,
}

impl Origins {
    /// Where the value at a dotted path came from, built-in defaults included.
    pub fn of(&self, address: &Address, path: &str) -> Option<Origin> {
        let fields = self.fields.get(address)?;
        let below = |field: &&Field| field.path == path || field.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        let said = fields.iter().find(below).map(|field| field.origin.clone());
        said.or_else(|| built_in(address).into_iter().find(|field| below(&field)).map(|field| field.origin))
    }

    /// Where an object stands itself, defaults and variables aside, as `file:line`.
    pub fn place(&self, address: &Address) -> Option<String> {
        let said = self.fields.get(address)?.iter().map(|field| &field.origin).filter(|origin| origin.layer == Layer::Object);
        let first = said.min_by_key(|origin| origin.line)?;
        Some(format!("{}:{}", first.file.as_ref()?.display(), first.line?))
    }

    /// The files that brought a value of an object.
    pub fn files(&self, address: &Address) -> Vec<PathBuf> {
        let fields = self.fields.get(address).into_iter().flat_map(|fields| fields.iter());
        let mut files: Vec<PathBuf> = fields.filter_map(|field| field.origin.file.as_deref().map(Path::to_owned)).collect();
        files.sort();
        files.dedup();
        files
    }
}

/// The object at `address` with all layers resolved, each value with its origin; `None` when the fleet has no such object.
pub fn resolved_document(loaded: &Loaded, address: &Address) -> Option<Resolved> {
    let said = loaded.origins.fields.get(address)?;
    let unsaid = built_in(address).into_iter().filter(|field| said.iter().all(|known| known.path != field.path));
    let mut fields: Vec<Field> = said.iter().cloned().chain(unsaid).filter(|field| field.path != "replicas").collect();
    let layer = |path: &str| fields.iter().find(|field| field.path == path).map(|field| field.origin.layer);
    // Of the two, the later layer rules; the other says nothing, and would be a fault beside it.
    if let (Some(every), Some(cron)) = (layer("cycle.every"), layer("cycle.cron")) {
        let overruled = if every > cron { "cycle.cron" } else { "cycle.every" };
        fields.retain(|field| field.path != overruled);
    }
    fields.sort_by(|a, b| (a.path.contains('.'), &a.path).cmp(&(b.path.contains('.'), &b.path)));
    Some(Resolved { address: address.clone(), fields })
}

fn built_in(address: &Address) -> Vec<Field> {
    let mut fields = Vec::new();
    leaves("", DEFAULTS.get(address.kind.as_str()).unwrap_or(&Value::Null), &mut fields);
    let origin = Origin { layer: Layer::BuiltIn, file: None, line: None, variable: None };
    fields.into_iter().map(|(path, value)| Field { path, value, origin: origin.clone() }).collect()
}

fn leaves(prefix: &str, value: &Value, into: &mut Vec<(String, Value)>) {
    let Value::Object(table) = value else { return into.push((prefix.to_owned(), value.clone())) };
    for (key, value) in table {
        leaves(&below(prefix, key), value, into);
    }
}

/// The dotted path of a key below another; one that holds a dot, as the name of a skill may, is quoted as TOML has it.
pub(crate) fn below(prefix: &str, key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let key = if is_bare { key.to_owned() } else { Value::from(key).to_string() };
    if prefix.is_empty() { key } else { format!("{prefix}.{key}") }
}

/// The keys of a dotted path.
pub(crate) fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let mut quoted = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let (step, length) = match rest.starts_with('"').then(|| quoted.next()) {
            Some(Some(Ok(step))) => (step, quoted.byte_offset()),
            _ => rest.split_once('.').map_or((rest.to_owned(), rest.len()), |(step, _)| (step.to_owned(), step.len())),
        };
        steps.push(step);
        rest = rest.get(length..).map_or("", |rest| rest.strip_prefix('.').unwrap_or(rest));
    }
    steps
}

impl Resolved {
    /// The document as JSON, `{"being": {"ada": {…}}}`.
    pub fn to_json(&self) -> Value {
        let mut body = Value::Object(Map::new());
        for field in &self.fields {
            let mut at = &mut body;
            for step in steps(&field.path) {
                let Value::Object(table) = at else { break };
                at = table.entry(step).or_insert_with(|| Value::Object(Map::new()));
            }
            *at = field.value.clone();
        }
        serde_json::json!({ self.address.kind.as_str(): { self.address.name.as_str(): body } })
    }

    /// The document as TOML, one line for each value, with its origin as a comment when that is asked for.
    pub fn to_toml(&self, show_origin: bool) -> String {
        let line = |field: &Field| format!("{} = {}", field.path, toml_of(&field.value));
        let width = self.fields.iter().map(|field| line(field).chars().count()).filter(|width| *width <= 60).max().unwrap_or(0);
        let mut text = format!("[{}.{}]\n", self.address.kind, self.address.name);
        for field in &self.fields {
            let line = line(field);
            text += &if show_origin { format!("{line:width$}  # {}\n", field.origin) } else { line + "\n" };
        }
        text
    }
}

fn toml_of(value: &Value) -> String {
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.layer {
            Layer::BuiltIn => return f.write_str("built-in default"),
            Layer::Defaults => "defaults",
            Layer::Object => "",
            Layer::Variable => return write!(f, "variable {}", self.variable.unwrap_or_default()),
            Layer::Flag => return write!(f, "flag for {}", self.variable.unwrap_or_default()),
        };
        f.write_str(name)?;
        let Some(file) = &self.file else { return Ok(()) };
        write!(f, "{}{}", if name.is_empty() { "" } else { " " }, file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_a_dot_stays_one_key() {
        for keys in [vec!["skill", "email.compose", "body"], vec!["a"], vec!["", "ä b", "\"\\", "x-1"]] {
            let path = keys.iter().fold(String::new(), |path, key| below(&path, key));
            assert_eq!(steps(&path), keys, "{path}");
        }
        assert_eq!(below("skill", "email.compose"), "skill.\"email.compose\"");
        assert_eq!(steps("cycle.every"), ["cycle", "every"]);
    }
}
