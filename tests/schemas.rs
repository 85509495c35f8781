//! The committed schemas are those of the program. `UPDATE=1 cargo test --test schemas` writes them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;
use singularity::api::schemas;

#[test]
#[expect(clippy::disallowed_methods, reason = "this test is the one that writes the committed schemas")]
fn the_committed_schemas_are_not_stale() {
    for (file, schema) in schemas() {
        let path = format!("schemas/{file}");
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(committed, text, "{path} is stale; run UPDATE=1 cargo test --test schemas");
    }
}

#[test]
fn every_schema_is_valid_and_every_field_says_what_it_is() {
    for (file, schema) in schemas() {
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{file}");
        assert_eq!(schema["$id"], Value::from(file.clone()));
        fields(&schema, &mut |name, field| {
            for key in ["title", "description"] {
                assert!(field[key].as_str().is_some_and(|text| !text.is_empty()), "{file}: {name} has no {key}");
            }
        });
    }
}

fn fields(schema: &Value, seen: &mut impl FnMut(&str, &Value)) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| fields(item, seen)),
        Value::Object(object) => {
            for (key, value) in object {
                if key == "properties" {
                    value.as_object().unwrap().iter().for_each(|(name, field)| seen(name, field));
                }
                fields(value, seen);
            }
        }
        _ => {}
    }
}
