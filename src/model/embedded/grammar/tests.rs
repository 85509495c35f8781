#![expect(clippy::as_conversions, reason = "test numbers are small")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Machine, schema::spell};

/// Writes something that the machine allows, by chance; after a while by the shortest way out.
fn write(machine: &Machine, seed: u64) -> String {
    let mut random = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = |n: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % n
    };
    let (mut state, mut text) = (machine.start(), Vec::new());
    for length in 0..200_000 {
        let possible: Vec<u8> = (0..=u8::MAX).filter(|byte| machine.step(&state, *byte).is_some()).collect();
        let wants_to_end = length > 300 || next(8) == 0;
        if state.may_end() && (possible.is_empty() || wants_to_end) {
            return String::from_utf8(text).unwrap();
        }
        assert!(!possible.is_empty(), "a dead end behind {}", String::from_utf8_lossy(&text));
        let closer = b"}]\"".iter().find(|byte| possible.contains(byte)).filter(|_| wants_to_end);
        let byte = closer.copied().unwrap_or_else(|| possible[next(possible.len())]);
        text.push(byte);
        state = machine.step(&state, byte).unwrap();
    }
    panic!("no end after {} bytes", text.len());
}

/// Follows a text to its end.
fn takes(schema: &Value, text: &str) -> bool {
    let machine = Machine::of(schema);
    machine.steps(&machine.start(), text.as_bytes()).is_some_and(|state| state.may_end())
}

/// Schemas that the grammar keeps by itself, those of public MCP servers among them.
fn schemas() -> Vec<Value> {
    vec![
        // filesystem
        json!({"type": "object", "properties": {"path": {"type": "string"}, "tail": {"type": "number", "description": "last lines"}, "head": {"type": "number"}}, "required": ["path"], "$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}, "minItems": 1}}, "required": ["paths"]}),
        json!({"type": "object", "properties": {"path": {"type": "string"}, "edits": {"type": "array", "items": {"type": "object", "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}}, "required": ["oldText", "newText"], "additionalProperties": false}}, "dryRun": {"type": "boolean", "default": false}}, "required": ["path", "edits"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"path": {"type": "string"}, "sortBy": {"type": "string", "enum": ["name", "size"], "default": "name"}}, "required": ["path"]}),
        json!({"type": "object", "properties": {}, "required": []}),
        // git
        json!({"properties": {"repo_path": {"title": "Repo Path", "type": "string"}, "max_count": {"default": 10, "type": "integer"}, "start_timestamp": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}, "required": ["repo_path"], "title": "GitLog", "type": "object"}),
        json!({"type": "object", "properties": {"repo_path": {"type": "string"}, "files": {"items": {"type": "string"}, "type": "array"}, "context_lines": {"type": "integer", "minimum": 0, "maximum": 20}}, "required": ["repo_path", "files"]}),
        // time
        json!({"type": "object", "properties": {"source_timezone": {"type": "string"}, "time": {"type": "string", "minLength": 4, "maxLength": 5}, "target_timezone": {"type": "string"}}, "required": ["source_timezone", "time", "target_timezone"]}),
        // memory
        json!({"type": "object", "properties": {"entities": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "entityType": {"type": "string"}, "observations": {"type": "array", "items": {"type": "string"}}}, "required": ["name", "entityType", "observations"], "additionalProperties": false}}}, "required": ["entities"], "additionalProperties": false}),
        // everything
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number", "exclusiveMinimum": -0.5, "maximum": 0.25}}, "required": ["a", "b"]}),
        json!({"type": "object", "properties": {"level": {"const": 7}, "mode": {"enum": ["a", "ab", 1, 12, null, {"k": [true, "x"]}]}}, "required": ["level", "mode"]}),
        // alternatives, references, recursion
        json!({"type": "object", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["v", "next"]}}, "properties": {"tree": {"$ref": "#/$defs/node"}}, "required": ["tree"]}),
        json!({"type": "object", "properties": {"left": {"$ref": "#"}, "name": {"type": "string", "maxLength": 3}}}),
        json!({"type": "object", "properties": {"x": {"type": ["string", "integer", "null"]}, "y": {"oneOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer", "minimum": -3, "maximum": 3}, "maxItems": 2}]}}, "required": ["x", "y"]}),
        json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}], "properties": {"c": {"type": "boolean"}}}),
        json!({"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
        json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}, "any": {}, "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}}, "required": ["m", "any", "pair"]}),
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 95, "maximum": 1005}, "z": {"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 1}, "neg": {"type": "integer", "maximum": -100, "minimum": -120}}, "required": ["n", "z", "neg"]}),
        json!({"type": "object", "properties": {"id": {"type": "string", "minLength": 2, "maxLength": 2}}, "required": ["id", "unlisted"]}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "never": false, "b": {"type": "integer"}}}),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_the_grammar_lets_through_parses_and_validates(seed in any::<u64>()) {
        for schema in schemas() {
            let text = write(&Machine::of(&schema), seed);
            let value: Value = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text} under {schema}")))?;
            let check = jsonschema::validator_for(&schema).unwrap();
            let faults: Vec<String> = check.iter_errors(&value).map(|error| error.to_string()).collect();
            prop_assert!(faults.is_empty(), "{faults:?}: {text} under {schema}");
        }
    }

    #[test]
    fn whole_numbers_keep_their_bounds(low in -1_000i64..1_000, more in 0i64..500, seed in any::<u64>()) {
        let schema = json!({"type": "integer", "minimum": low, "maximum": low + more});
        let number: i64 = write(&Machine::of(&schema), seed).parse().unwrap();
        prop_assert!((low..=low + more).contains(&number));
        for inside in [low, low + more / 2, low + more] {
            prop_assert!(takes(&schema, &inside.to_string()), "{inside}");
        }
        prop_assert!(!takes(&schema, &(low - 1).to_string()) && !takes(&schema, &(low + more + 1).to_string()));
    }

    #[test]
    fn any_text_can_be_said(text in "[^\\x00-\\x1f\\x7f]{0,40}") {
        let schema = json!({"type": "string"});
        prop_assert!(takes(&schema, &spell(&Value::from(text))));
    }

    #[test]
    fn strings_of_other_lengths_are_refused(text in "[a-zé✓😀]{0,9}", min in 0usize..5, more in 0usize..4) {
        let schema = json!({"type": "string", "minLength": min, "maxLength": min + more});
        prop_assert_eq!(takes(&schema, &format!("\"{text}\"")), (min..=min + more).contains(&text.chars().count()));
    }
}

#[test]
fn a_call_names_a_tool_and_its_arguments_follow_that_tools_schema() {
    let tools = [
        ("add", json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})),
        ("add_all", json!({"type": "object"})),
    ];
    let machine =
        Machine::of_calls(tools.iter().map(|(name, schema)| (*name, schema)), "[{\"name\": ", ", \"arguments\": ").unwrap();
    let over = |text: &str| machine.steps(&machine.start(), text.as_bytes()).map(|state| state.is_over());
    assert_eq!(over(r#"[{"name": "add", "arguments": {"n": 12}"#), Some(true));
    assert_eq!(over(r#"[{"name": "add_all", "arguments": {}"#), Some(true));
    assert_eq!(over(r#"[{"name": "add", "arguments": {"n": 12"#), Some(false));
    assert_eq!(over(r#"[{"name": "add", "arguments": {}"#), None);
    assert_eq!(over(r#"[{"name": "sub"#), None);
}

#[test]
fn a_tool_that_nothing_satisfies_is_not_offered() {
    let impossible = json!({"type": "object", "properties": {"n": {"enum": []}}, "required": ["n"]});
    assert!(Machine::of_calls([("no", &impossible)].into_iter(), "", "").is_none());
}

#[test]
fn schemas_that_turn_in_circles_end_all_the_same() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"anyOf": [{"$ref": "#"}], "type": "object", "properties": {"a": {"type": "null"}}}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"allOf": [{"$ref": "#"}], "type": "object"}),
        json!({"type": "object", "properties": {"again": {"$ref": "#"}}, "required": ["again"]}),
    ] {
        let machine = Machine::of(&schema);
        assert!(machine.step(&machine.start(), b'x').is_none(), "{schema}");
    }
}
