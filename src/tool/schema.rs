//! Which schemas can be used, told without compiling them.

use std::io;

use serde_json::{Map, Value};

/// How deep a schema may nest that is told to be usable by looking at it.
const MAX_DEPTH: usize = 32;
/// The words for types.
const TYPES: [&str; 7] = ["object", "string", "integer", "number", "boolean", "array", "null"];

/// The length of a value as JSON, if it is no longer than `limit`.
pub(super) fn bytes_within(value: &Value, limit: usize) -> Option<usize> {
    struct Bounded(usize);
    impl io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut left = Bounded(limit);
    serde_json::to_writer(&mut left, value).ok().map(|()| limit - left.0)
}

/// Tells whether a schema is made only of keywords that are known here and hold what they must. Such a schema always compiles; one with a
/// regular expression, a reference, another dialect or any unknown word may too, but that has to be tried.
pub(super) fn is_plainly_usable(schema: &Value) -> bool {
    is_schema(schema, 0)
}

fn is_schema(schema: &Value, depth: usize) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(map) => depth < MAX_DEPTH && map.iter().all(|(word, value)| holds(word, value, depth + 1)),
        _ => false,
    }
}

/// Tells whether a keyword is known and its value is one that it may have.
fn holds(word: &str, value: &Value, depth: usize) -> bool {
    match word {
        "type" => is_type(value),
        "title" | "description" => value.is_string(),
        "default" | "examples" | "const" => true,
        "properties" => value.as_object().is_some_and(|map| are_schemas(map, depth)),
        "items" | "additionalProperties" => is_schema(value, depth),
        "required" => value.as_array().is_some_and(|names| is_set_of_names(names)),
        "enum" => value.as_array().is_some_and(|options| !options.is_empty() && options.len() <= 64 && are_distinct(options)),
        "anyOf" | "oneOf" | "allOf" => {
            value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(|one| is_schema(one, depth)))
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => value.is_u64(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "uniqueItems" => value.is_boolean(),
        "$schema" => value == "http://json-schema.org/draft-07/schema#" || value == "https://json-schema.org/draft/2020-12/schema",
        _ => false,
    }
}

fn are_schemas(map: &Map<String, Value>, depth: usize) -> bool {
    map.values().all(|schema| is_schema(schema, depth))
}

fn is_type(value: &Value) -> bool {
    let is_word = |value: &Value| value.as_str().is_some_and(|word| TYPES.contains(&word));
    match value {
        Value::Array(words) => !words.is_empty() && words.len() <= TYPES.len() && words.iter().all(is_word) && are_distinct(words),
        word => is_word(word),
    }
}

fn is_set_of_names(names: &[Value]) -> bool {
    names.len() <= 64 && names.iter().all(Value::is_string) && are_distinct(names)
}

fn are_distinct(values: &[Value]) -> bool {
    values.iter().enumerate().all(|(at, value)| values.iter().take(at).all(|earlier| earlier != value))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "helpers take what `json!` makes")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schemas_of_ordinary_servers_are_known_without_compiling_them() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "title": "read", "description": "d", "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 1, "default": null },
                "lines": { "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "null" }] },
                "kind": { "enum": ["a", "b", 1] },
                "tags": { "type": ["array", "null"], "items": { "type": "string" }, "uniqueItems": true },
            },
            "required": ["path"], "additionalProperties": false,
        });
        assert!(is_plainly_usable(&schema));
        assert!(jsonschema::validator_for(&schema).is_ok());
    }

    #[test]
    fn whatever_could_fail_to_compile_is_left_to_the_compiler() {
        let leaf = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
        for doubtful in [
            json!({ "pattern": "x" }),
            json!({ "$ref": "#/$defs/x" }),
            json!({ "format": "uri" }),
            json!({ "type": "text" }),
            json!({ "type": [] }),
            json!({ "type": ["string", "string"] }),
            json!({ "enum": [] }),
            json!({ "required": ["a", "a"] }),
            json!({ "required": "a" }),
            json!({ "minLength": -1 }),
            json!({ "minimum": "0" }),
            json!({ "anyOf": [] }),
            json!({ "items": [] }),
            json!({ "title": 1 }),
            json!({ "$schema": "https://example.com" }),
            json!({ "x-own": 1 }),
            json!(1),
        ] {
            assert!(!is_plainly_usable(&leaf(doubtful.clone())), "{doubtful}");
        }
        let deep = (0..40).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(!is_plainly_usable(&deep));
    }

    #[test]
    fn a_size_is_counted_to_the_byte_and_no_further_than_asked() {
        let value = json!({ "a": "é\n", "b": [1, 2.5, null] });
        let length = value.to_string().len();
        assert_eq!((bytes_within(&value, length), bytes_within(&value, length - 1)), (Some(length), None));
    }

    /// Schemas of known and unknown words, right and wrong.
    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!("string")),
            Just(json!(["string", "null"])),
            Just(json!(["a", "a"])),
            Just(json!([])),
            Just(json!(3)),
            Just(json!(-1.5)),
            Just(json!("http://json-schema.org/draft-07/schema#")),
            Just(json!({})),
        ];
        let word = prop::sample::select(vec![
            "type",
            "title",
            "default",
            "properties",
            "items",
            "additionalProperties",
            "required",
            "enum",
            "anyOf",
            "allOf",
            "minLength",
            "maximum",
            "uniqueItems",
            "$schema",
            "const",
            "pattern",
            "$ref",
            "format",
            "x-own",
            "exclusiveMinimum",
        ]);
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec((word.clone(), inner.clone()), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().map(|(word, value)| (word.to_owned(), value)).collect())),
                prop::collection::vec(inner, 1..3).prop_map(Value::from),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn a_schema_that_is_told_to_be_usable_compiles(schema in any_schema()) {
            if schema.is_object() && is_plainly_usable(&schema) {
                prop_assert!(jsonschema::validator_for(&schema).is_ok(), "{schema}");
            }
        }
    }
}
