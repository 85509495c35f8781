//! JSON Schemas, draft 2020-12, generated from the types; the same ones that judge a manifest (`shape`), so that an editor and the program agree.

use std::sync::LazyLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    category::CategoryDocument,
    decision::DecisionDocument,
    document::{BeingDocument, CapDocument, ManifestDocument, ModelDocument, SurfaceDocument},
    source::SourceDocument,
    text,
};

/// The built-in defaults as they are written, a manifest like any other.
pub(crate) const BUILT_IN: &str = include_str!("defaults.toml");

/// The built-in defaults of each kind: `{"model": {…}, "surface": {…}, …}`.
pub(crate) static DEFAULTS: LazyLock<Value> =
    LazyLock::new(|| text::read_toml(BUILT_IN).0.value().get("defaults").cloned().unwrap_or_default());

static MANIFEST: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = schema_of::<ManifestDocument>("manifest").1;
    for kind in ["Model", "Surface", "Decision", "Category", "Being"] {
        let path = format!("/$defs/{kind}Document");
        let definition = schema.pointer(&path).cloned().unwrap_or_default();
        let with_defaults = place_defaults(definition, DEFAULTS.get(kind.to_lowercase()).unwrap_or(&Value::Null));
        schema.pointer_mut(&path).into_iter().for_each(|place| *place = with_defaults.clone());
    }
    schema
});

/// The schema of a whole manifest.
pub fn manifest_schema() -> &'static Value {
    &MANIFEST
}

/// The schemas of this room by file name: a whole manifest, and what stands under one name of each kind.
pub fn schemas() -> Vec<(String, Value)> {
    let of_kind = |kind: &str, (file, mut schema): (String, Value)| {
        if let Some(body) = manifest_schema().pointer(&format!("/$defs/{kind}Document")).and_then(Value::as_object) {
            schema.as_object_mut().into_iter().for_each(|into| into.extend(body.clone()));
        }
        (file, schema)
    };
    vec![
        ("manifest.schema.json".into(), manifest_schema().clone()),
        of_kind("Source", schema_of::<SourceDocument>("source")),
        of_kind("Model", schema_of::<ModelDocument>("model")),
        of_kind("Surface", schema_of::<SurfaceDocument>("surface")),
        of_kind("Cap", schema_of::<CapDocument>("cap")),
        of_kind("Decision", schema_of::<DecisionDocument>("decision")),
        of_kind("Category", schema_of::<CategoryDocument>("category")),
        of_kind("Being", schema_of::<BeingDocument>("being")),
    ]
}

/// The schema of a type under the file name `<name>.schema.json`, in the form that all schemas of the program have. Other rooms add theirs with it.
pub fn schema_of<T: JsonSchema>(name: &str) -> (String, Value) {
    let file = format!("{name}.schema.json");
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    let mut whole = Map::new();
    whole.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    whole.insert("$id".into(), json!(file));
    whole.extend(schema.as_object().cloned().unwrap_or_default().into_iter().filter(|(key, _)| key != "$schema" && key != "$id"));
    (file, Value::Object(whole))
}

/// Takes out what `Option` and the number types leave behind, and titles every field.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(object) => {
            tidy_object(object);
            object.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn tidy_object(object: &mut Map<String, Value>) {
    let some = object.get("anyOf").and_then(Value::as_array).and_then(|any| match any.as_slice() {
        [some, null] if null == &json!({"type": "null"}) => some.as_object().cloned(),
        _ => None,
    });
    if let Some(some) = some {
        object.shift_remove("anyOf");
        object.extend(some);
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(options)) = object.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    let left_behind = |key: &str, value: &Value| match key {
        "default" => value.is_null() || value.as_object().is_some_and(Map::is_empty),
        "format" => value.as_str().is_some_and(|format| format.starts_with("uint") || format == "double"),
        _ => false,
    };
    object.retain(|key, value| !left_behind(key, value));
    for (key, field) in object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(field) = field.as_object_mut() else { continue };
        field.insert("title".into(), json!(title(key)));
    }
}

fn title(key: &str) -> String {
    let words = key.trim_start_matches('$').replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Writes built-in defaults into a schema as `default`, a table's as a whole.
fn place_defaults(mut schema: Value, defaults: &Value) -> Value {
    for (key, default) in defaults.as_object().into_iter().flatten() {
        if let Some(field) = schema.pointer_mut(&format!("/properties/{key}")).and_then(Value::as_object_mut) {
            field.insert("default".into(), default.clone());
        }
    }
    schema
}
