//! `env` of a surface: what a process is given, written out or read from where a secret is kept.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use super::{
    VariableSpec,
    check::Cx,
    document::{SecretDocument, SurfaceDocument},
    problem::quoted,
};

/// A variable for a process: its value, or where a secret is read from whenever the process is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum VariableDocument {
    Text(String),
    Secret(SecretDocument),
}

impl VariableDocument {
    /// The value, where it is written out.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Secret(_) => None,
        }
    }
}

impl JsonSchema for VariableDocument {
    fn schema_name() -> Cow<'static, str> {
        "VariableDocument".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = SecretDocument::json_schema(generator);
        schema.insert("title".into(), "Variable".into());
        schema.insert("type".into(), ["string", "object"].as_slice().into());
        let description = "The value, or where a secret is read from whenever the process is started: a file that only its owner can \
                           read, an environment variable, or a credential of the service.";
        schema.insert("description".into(), description.into());
        schema
    }
}

/// Resolves the variables of a process; those that no process can have are faults.
pub(super) fn resolve(document: &SurfaceDocument, cx: &mut Cx<'_>) -> BTreeMap<String, VariableSpec> {
    let mut variables = BTreeMap::new();
    for (name, value) in &document.env {
        let path = ["env", name.as_str()];
        if name.is_empty() || name.contains(['=', '\0']) || value.text().is_some_and(|text| text.contains('\0')) {
            cx.fault(&path, format!("{} is not a variable that a process can have", quoted(name)), None);
        }
        let resolved = match value {
            VariableDocument::Text(text) => Some(VariableSpec::Text(text.clone())),
            VariableDocument::Secret(secret) => cx.secret_at(&path, Some(secret)).map(VariableSpec::Secret),
        };
        variables.extend(resolved.map(|variable| (name.clone(), variable)));
    }
    variables
}
