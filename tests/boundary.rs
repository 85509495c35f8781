//! The output boundary against a slow, obvious second one, on values that are made to be let through or not, and on values made of any bytes.
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[path = "support/screen.rs"]
#[expect(unreachable_pub, reason = "the fuzz target uses it too")]
mod screen;

use proptest::prelude::*;
use serde_json::{Value, json};
use singularity::{
    manifest::Boundary,
    tool::boundary::{Layout, Screened, Violation, screen as boundary},
};

fn screened(value: &Value, mode: Boundary) -> Result<Screened, Violation> {
    boundary(value.clone(), &Layout::default(), mode)
}

/// Words of which some must not be seen, some look so, and some are plain.
fn word() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "token",
        "tokens_used",
        "Cookie-Token",
        "my api key",
        "API_KEY",
        "apikey",
        "ｔｏｋｅｎ",
        "ｔｏｋｅｎｓ",
        "Set-Cookie",
        "key_path",
        " passwd ",
        "private key",
        "/etc/passwd",
        "and/or",
        "x /y",
        "(/z",
        "`/z",
        "file://x",
        "FILE://x",
        "profile://x",
        "http://a/b",
        "\0",
        "a\0b",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----begin private key-----",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY",
        "-----BEGIN X-----BEGIN PRIVATE KEY-----",
        "[link](x)",
        "{not json",
        "{\"token\" :1",
        "[1,{\"a\":2}] {\"secret\":",
        "\"quoted\"",
        "\"{\\\"cookie\\\":1}\"",
        "{\"a\":1}{\"b\":[\"/x\"]}",
        "[] trailing",
        "",
        " ",
        "ä\u{a0}/x",
        "\u{2028}/x",
        "authorization",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[ -~]{0,10}", 1 => any::<String>()]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from)
    ];
    leaf.prop_recursive(12, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word(), inner.clone()), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
            inner.clone().prop_map(|value| Value::String(value.to_string())),
            (inner, any::<prop::sample::Index>()).prop_map(|(value, at)| torn(&value, at)),
        ]
    })
}

/// A value as a text that ends too early.
fn torn(value: &Value, at: prop::sample::Index) -> Value {
    let text = value.to_string();
    let end = text.floor_char_boundary(at.index(text.len()));
    Value::from(&text[..end])
}

/// Holds both against each other. What is let through is let through unchanged, and what is redacted may then be seen.
fn agree(value: &Value) -> Result<(), TestCaseError> {
    let expected = screen::may_be_seen(value);
    match screened(value, Boundary::Reject) {
        Ok(passed) => {
            prop_assert!(expected, "let through: {value}");
            prop_assert_eq!(&passed.value, value);
            prop_assert!(passed.redacted.is_empty());
        }
        Err(violation) => prop_assert!(!expected, "refused by {violation}: {value}"),
    }
    if let Ok(redacted) = screened(value, Boundary::Redact) {
        prop_assert_eq!(redacted.redacted.is_empty(), expected, "{}", value);
        let again = without_marks(redacted.value);
        prop_assert!(screen::may_be_seen(&again), "still there: {again}");
    }
    Ok(())
}

/// What was redacted under the name of a secret keeps its name.
fn without_marks(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_marks).collect(),
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| value != "[redacted: forbidden_key]")
            .map(|(key, value)| (key, without_marks(value)))
            .collect(),
        plain => plain,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn what_the_obvious_boundary_lets_through_the_fast_one_does_and_nothing_else(value in any_value()) {
        agree(&value)?;
    }

    /// What the fuzz target does, with bytes that are mostly JSON.
    #[test]
    fn no_text_is_judged_otherwise_by_the_two(text in "([\\[\\]{}\",:/ \\\\a-z-]|token|\\\\u0000|-----BEGIN |PRIVATE KEY-----){0,60}") {
        agree(&Value::from(text.as_str()))?;
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            agree(&value)?;
        }
    }
}

#[test]
fn the_cases_from_the_field_are_judged_as_they_were() {
    let levels = |n: usize, leaf: Value| (0..n).fold(leaf, |inner, _| json!([inner]));
    let text = |length: usize| json!("x".repeat(length - 2));
    let behind = |value: &Value| Value::String(value.to_string());
    for (value, may_be_seen) in [
        (text(65_536), true),
        (text(65_537), false),
        (levels(8, json!(1)), true),
        (levels(9, json!(1)), false),
        (behind(&json!({ "a": behind(&levels(7, json!({ "token": 1 }))) })), false),
        (behind(&json!({ "a": behind(&json!({ "b": "c" })) })), true),
        (json!({ "Cookie-Token": 1 }), false),
        (json!({ "my api key": 1 }), false),
        (json!({ "ｍｙ ａｐｉ ｋｅｙ": 1 }), false),
        (json!({ "tokens_used": 1 }), true),
    ] {
        assert_eq!(screened(&value, Boundary::Reject).is_ok(), may_be_seen);
        assert_eq!(screen::may_be_seen(&value), may_be_seen);
    }
}
