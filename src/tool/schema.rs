//! Which schemas can be used, told without compiling them.

use serde_json::{Map, Value};

/// How deep a schema may nest that is told to be usable by looking at it.
const MAX_DEPTH: usize = 32;
/// The dialects in which the known keywords mean the same.
const DIALECTS: [&str; 2] = ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"];
/// The words for types.
const TYPES: [&str; 7] = ["object", "string", "integer", "number", "boolean", "array", "null"];

/// Tells whether a schema is made only of keywords that are known here and hold what they must. Such a schema always compiles; one with a
/// regular expression, a reference to elsewhere, another dialect or any unknown word may too, but that has to be tried.
pub(super) fn is_plainly_usable(schema: &Value) -> bool {
    Look { root: schema }.is_schema(schema, 0)
}

struct Look<'a> {
    root: &'a Value,
}

impl Look<'_> {
    fn is_schema(&self, schema: &Value, depth: usize) -> bool {
        match schema {
            Value::Bool(_) => true,
            Value::Object(map) => depth < MAX_DEPTH && map.iter().all(|(word, value)| self.holds(word, value, depth + 1)),
            _ => false,
        }
    }

    /// Tells whether a keyword is known and its value is one that it may have.
    fn holds(&self, word: &str, value: &Value, depth: usize) -> bool {
        match word {
            "type" => is_type(value),
            "title" | "description" | "format" | "$comment" => value.is_string(),
            "default" | "examples" | "const" => true,
            "properties" => value.as_object().is_some_and(|map| self.are_schemas(map, depth)),
            // Those of the root alone; deeper ones may be reached by no reference that is known here.
            "$defs" | "definitions" => depth == 1 && value.as_object().is_some_and(|map| self.are_schemas(map, depth)),
            "$ref" => value.as_str().is_some_and(|reference| self.leads_somewhere(reference)),
            "items" | "additionalProperties" => self.is_schema(value, depth),
            "required" => value.as_array().is_some_and(|names| is_set_of_names(names)),
            "enum" => value.as_array().is_some_and(|options| (1..=64).contains(&options.len()) && are_distinct(options)),
            "anyOf" | "oneOf" | "allOf" => {
                value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(|one| self.is_schema(one, depth)))
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => value.is_u64(),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
            "uniqueItems" => value.is_boolean(),
            "$schema" => depth == 1 && value.as_str().is_some_and(|dialect| DIALECTS.contains(&dialect)),
            _ => false,
        }
    }

    fn are_schemas(&self, map: &Map<String, Value>, depth: usize) -> bool {
        map.values().all(|schema| self.is_schema(schema, depth))
    }

    /// A reference to a plain name among the definitions of the root.
    fn leads_somewhere(&self, reference: &str) -> bool {
        let target = ["$defs", "definitions"].into_iter().find_map(|place| {
            let name = reference.strip_prefix("#/")?.strip_prefix(place)?.strip_prefix('/')?;
            let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            self.root.get(place)?.get(name).filter(|_| is_plain)
        });
        target.is_some()
    }
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
                "node": { "$ref": "#/$defs/Node" },
                "at": { "type": "string", "format": "date-time" },
                "tags": { "type": ["array", "null"], "items": { "type": "string" }, "uniqueItems": true },
            },
            "required": ["path"], "additionalProperties": false,
            "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } },
        });
        assert!(is_plainly_usable(&schema));
        assert!(jsonschema::validator_for(&schema).is_ok());
    }

    #[test]
    fn whatever_could_fail_to_compile_is_left_to_the_compiler() {
        let leaf = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
        for doubtful in [
            json!({ "pattern": "x" }),
            json!({ "$ref": "#/$defs/none" }),
            json!({ "$ref": "#" }),
            json!({ "$ref": "https://example.com/x.json" }),
            json!({ "$defs": { "x": {} } }),
            json!({ "format": 1 }),
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
            Just(json!("#/$defs/a")),
            Just(json!("#/definitions/a")),
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
        fn a_schema_that_is_told_to_be_usable_compiles(mut schema in any_schema(), of in any_schema()) {
            if let Some(map) = schema.as_object_mut() {
                map.insert("$defs".into(), json!({ "a": of }));
                map.insert("definitions".into(), json!({ "a": of }));
            }
            if schema.is_object() && is_plainly_usable(&schema) {
                prop_assert!(jsonschema::validator_for(&schema).is_ok(), "{schema}");
            }
        }
    }
}
