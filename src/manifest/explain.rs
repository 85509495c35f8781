use std::fmt;

use serde_json::Value;

use super::{
    problem::{did_you_mean, quoted},
    schema::manifest_schema,
};

/// What a key of a manifest is.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub path: String,
    /// What may stand there, in words.
    pub kind: String,
    pub description: String,
    pub default: Option<Value>,
    /// The keys below it, each with its kind and description.
    pub children: Vec<(String, String, String)>,
}

/// A path that leads to no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a key of a manifest{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct UnknownPath {
    pub path: String,
    pub hint: Option<String>,
}

/// Explains a dotted path such as `being.las.only`, names of objects left out; the empty path is the whole manifest.
pub fn explain(path: &str) -> Result<Explanation, UnknownPath> {
    let root = manifest_schema();
    let mut at = root;
    let mut default = None;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let body = object_below(root, at);
        let known = body.get("properties").and_then(Value::as_object);
        let Some(next) = known.and_then(|known| known.get(step)) else {
            let keys: Vec<&str> = known.into_iter().flat_map(|known| known.keys()).map(String::as_str).collect();
            let listed = || (!keys.is_empty()).then(|| format!("there are {}", keys.join(", ")));
            let hint = did_you_mean(step, keys.iter().copied()).or_else(listed);
            return Err(UnknownPath { path: quoted(path).trim_matches('`').to_owned(), hint });
        };
        default = next.get("default").cloned().or_else(|| default.as_ref().and_then(|table: &Value| table.get(step)).cloned());
        at = next;
    }
    let children = object_below(root, at).get("properties").and_then(Value::as_object);
    let child = |(key, schema): (&String, &Value)| (key.clone(), kind(root, schema), description(root, schema));
    Ok(Explanation {
        path: path.to_owned(),
        kind: kind(root, at),
        description: description(root, at),
        default,
        children: children.into_iter().flatten().map(child).collect(),
    })
}

/// Follows references.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    reference.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// The table that keys are looked up in: below a map of named objects, or a list, that of each of them.
fn object_below<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let table = resolved(root, schema);
    let inner = table.get("additionalProperties").filter(|inner| inner.is_object()).or_else(|| table.get("items"));
    inner.map_or(table, |inner| resolved(root, inner))
}

fn description(root: &Value, schema: &Value) -> String {
    let said = schema.get("description").or_else(|| resolved(root, schema).get("description"));
    said.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn kind(root: &Value, schema: &Value) -> String {
    let table = resolved(root, schema);
    let words =
        |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    if table.get("x-any").is_some() {
        return "any value".to_owned();
    }
    if let Some(options) = table.get("enum") {
        return words(options).iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ");
    }
    let types =
        table.get("type").map(|name| name.as_str().map_or_else(|| words(name), |name| vec![name.to_owned()])).unwrap_or_default();
    let named = |name: &String| match name.as_str() {
        "string" => table
            .get("title")
            .filter(|_| schema.get("$ref").is_some())
            .and_then(Value::as_str)
            .map_or("text".into(), str::to_lowercase),
        "integer" => "whole number".to_owned(),
        "array" => table.get("items").map_or("list".into(), |items| format!("list of {}", kind(root, items))),
        "object" if table.get("x-named").is_some() => "tables by name".to_owned(),
        "object" => table
            .get("additionalProperties")
            .filter(|inner| inner.is_object())
            .map_or("table".into(), |inner| format!("table of {}", kind(root, inner))),
        other => other.to_owned(),
    };
    let bounds = match (table.get("minimum"), table.get("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        _ => String::new(),
    };
    types.iter().map(named).collect::<Vec<_>>().join(" or ") + &bounds
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "manifest" } else { &self.path };
        writeln!(f, "{path}: {}", self.kind)?;
        writeln!(f, "  {}", self.description)?;
        if let Some(default) = &self.default {
            writeln!(f, "  default: {}", toml::Value::try_from(default).map(|value| value.to_string()).unwrap_or_default())?;
        }
        let width = self.children.iter().map(|(key, ..)| key.len()).max().unwrap_or(0);
        for (key, kind, description) in &self.children {
            write!(f, "\n  {key:width$}  {kind}\n  {:width$}  {description}\n", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_explained_with_its_type_default_and_children() {
        let every = explain("being.cycle.every").unwrap();
        assert_eq!((every.kind.as_str(), every.default), ("span", Some(Value::from("5s"))));
        assert_eq!(explain("being.las.only").unwrap().kind, "list of glob");
        assert_eq!(explain("model.provider").unwrap().kind, "\"embedded\" | \"openai\" | \"brama\"");
        assert!(explain("being").unwrap().children.iter().any(|(key, ..)| key == "budget"));
        assert!(explain("being.grant.usd").is_ok(), "lists are looked through");
        assert!(!explain("").unwrap().children.is_empty());
        assert_eq!(explain("category.config").unwrap().kind, "table of any value", "what holds itself is not followed for ever");
    }

    #[test]
    fn a_path_that_leads_nowhere_says_what_was_meant() {
        assert_eq!(
            explain("being.las.onyl").unwrap_err().to_string(),
            "`being.las.onyl` is not a key of a manifest; did you mean `only`?"
        );
    }
}
