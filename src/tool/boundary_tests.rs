use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn layout() -> Layout {
    Layout::of([Path::new("/srv/ada")])
}

fn told(value: Value) -> String {
    match screen(value, &layout(), Boundary::Reject) {
        Ok(passed) => format!("passes: {}", passed.value),
        Err(violation) => violation.to_string(),
    }
}

fn nested(levels: usize, leaf: Value) -> Value {
    (0..levels).fold(leaf, |value, _| json!([value]))
}

#[test]
fn a_key_that_names_a_secret_is_refused_however_it_is_written() {
    for key in FORBIDDEN_KEYS.into_iter().chain(["API-Key", "api key", "X_Authorization", "myToken", " password ", "Set-Cookie"]) {
        assert_eq!(told(json!({ key: 1 })), format!("forbidden_key at $.{}", shown(key)));
    }
    for key in [
        "Cookie-Token",
        "my api key",
        "\u{ff54}\u{ff4f}\u{ff4b}\u{ff45}\u{ff4e}",
        "ＡＰＩ－Ｋｅｙ",
        "ﬁle ｐａｓｓｗｏｒｄ",
        "𝐬𝐞𝐜𝐫𝐞𝐭",
        "x\u{a0}token",
    ] {
        assert!(told(json!({ key: 1 })).starts_with("forbidden_key at "), "{key}");
    }
    for key in ["tokens", "tokens_used", "ｔｏｋｅｎｓ", "secretary", "keypath2", "cookies", "author"] {
        assert!(told(json!({ key: 1 })).starts_with("passes"), "{key}");
    }
}

#[test]
fn a_string_with_a_secret_or_a_path_is_refused() {
    for (text, rule) in [
        ("a\0b", "nul"),
        ("-----BEGIN PRIVATE KEY-----", "private_key"),
        ("x -----BEGIN RSA PRIVATE KEY-----\nMII", "private_key"),
        ("-----begin ec private key-----", "private_key"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "private_key"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "private_key"),
        ("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n-----BEGIN OPENSSH PRIVATE KEY-----", "private_key"),
        ("/etc/passwd", "absolute_path"),
        ("see (/etc/passwd)", "absolute_path"),
        ("see `/etc/passwd`", "absolute_path"),
        ("a\tFILE:///x", "absolute_path"),
        ("/srv/ada2/x", "absolute_path"),
    ] {
        assert_eq!(told(json!({ "t": [text] })), format!("{rule} at $.t[0]"), "{text}");
        let key = text.replace("passwd", "hosts");
        assert_eq!(told(json!({ key: 1 })), format!("{rule} at $.?"), "{text}");
    }
    for text in ["-----BEGIN CERTIFICATE-----", "and/or", "http://a/b", "./notes.txt", "1/2", "", "ä"] {
        assert!(told(json!({ "t": text })).starts_with("passes"), "{text}");
    }
}

#[test]
fn the_limits_hold_to_the_byte_and_the_level() {
    assert_eq!((MAX_RESULT_BYTES, MAX_RESULT_DEPTH), (65_536, 8));
    let text = "a".repeat(MAX_RESULT_BYTES - 2);
    assert!(told(json!(text)).starts_with("passes"));
    assert_eq!(told(json!(format!("{text}a"))), "oversize at $");
    assert_eq!(told(json!("a".repeat(MAX_LOOKED_THROUGH))), "oversize at $");
    assert!(told(nested(MAX_RESULT_DEPTH, json!(1))).starts_with("passes"));
    assert_eq!(told(nested(MAX_RESULT_DEPTH + 1, json!(1))), "depth at $[0][0][0][0][0][0][0][0][0]");
}

#[test]
fn json_inside_a_string_hides_nothing() {
    for (text, violation) in [
        (r#"{"password":"x"}"#, "forbidden_key at $.t{json}.password"),
        (r#"  [{"a":"\/etc\/x"}]"#, "absolute_path at $.t{json}[0].a"),
        (r#"{"a":1} {"token":2}"#, "forbidden_key at $.t{json}.token"),
        (r#"{"a":"{\"secret\":1}"}"#, "forbidden_key at $.t{json}.a{json}.secret"),
        (r#""{\"secret\":1}""#, "forbidden_key at $.t{json}{json}.secret"),
        (r#"{"a":1,"password" : "hunter2", "cut"#, "forbidden_key at $.t{json}"),
        (r#"{"a":[[[[[[[1]]]]]]]}"#, "depth at $.t{json}.a[0][0][0][0][0][0]"),
    ] {
        assert_eq!(told(json!({ "t": text })), violation, "{text}");
    }
    for text in ["[a link](elsewhere)", "{ fn main() }", r#""quoted," he said"#, r#"{"a":"./x"}"#, r#"{"root":"/srv/ada","n":1}"#] {
        assert!(told(json!({ "t": text })).starts_with("passes"), "{text}");
    }
}

#[test]
fn a_token_nine_levels_down_and_behind_two_strings_is_not_seen() {
    let inner = nested(3, json!({ "token": "x" })).to_string();
    let middle = nested(2, json!({ "j": inner })).to_string();
    let value = json!({ "t": middle });
    assert!(screen(value.clone(), &layout(), Boundary::Reject).is_err());
    let redacted = screen(value, &layout(), Boundary::Redact).unwrap();
    assert!(!redacted.value.to_string().contains("token"), "{}", redacted.value);
}

#[test]
fn what_is_written_to_be_slow_to_look_through_is_not() {
    let colliding: Map<String, Value> = (0..6_000).map(|n| (format!("/{n}"), json!(1))).collect();
    let screened = screen(Value::Object(colliding), &layout(), Boundary::Redact);
    assert!(screened.is_err() || screened.is_ok_and(|screened| screened.redacted.len() == 6_000));
    let paths = "/srv/ada/:".repeat(100_000);
    assert!(screen(json!(paths), &layout(), Boundary::Reject).is_err());
    assert!(screen(json!("-----BEGIN ".repeat(90_000)), &layout(), Boundary::Reject).is_err());
    assert!(screen(json!("[".repeat(1_000_000)), &layout(), Boundary::Reject).is_err());
}

#[test]
fn redaction_replaces_only_the_offending_leaf() {
    let value = json!({
        "ok": "fine", "password": { "deep": ["x"] }, "list": ["/etc/x", "b", r#"{"token":1}"#], "/a": 1, "/b": 2,
    });
    let screened = screen(value, &layout(), Boundary::Redact).unwrap();
    assert_eq!(
        screened.value,
        json!({
            "ok": "fine",
            "password": "[redacted: forbidden_key]",
            "list": ["[redacted: absolute_path]", "b", "[redacted: forbidden_key]"],
            "[redacted: absolute_path]": 1,
            "[redacted: absolute_path] 2": 2,
        })
    );
    let places: Vec<String> = screened.redacted.iter().map(ToString::to_string).collect();
    assert_eq!(
        places,
        [
            "forbidden_key at $.password",
            "absolute_path at $.list[0]",
            "forbidden_key at $.list[2]{json}.token",
            "absolute_path at $.?",
            "absolute_path at $.?",
        ]
    );
}

/// JSON whose strings and keys are drawn from what the boundary looks for.
fn any_value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("/etc/passwd".to_owned()),
        Just("/srv/ada/notes.txt".to_owned()),
        Just("file:///x".to_owned()),
        Just("-----BEGIN RSA PRIVATE KEY-----".to_owned()),
        Just("\0".to_owned()),
        Just("API-Key".to_owned()),
        Just(r#"{"cookie":1}"#.to_owned()),
        Just("[torn".to_owned()),
        "[ -~]{0,12}",
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(11, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner.clone()), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            inner.prop_map(|value| Value::String(value.to_string())),
        ]
    })
}

/// Says anew, by other means than the walk, whether anything of a value may not be seen.
fn is_clean(value: &Value, depth: usize) -> bool {
    let clean = |text: &str| {
        let paths = text.split(char::is_whitespace).any(|word| word.starts_with('/') || word.starts_with("file://"));
        let pem = text.contains("PRIVATE KEY-----") && text.contains("-----BEGIN");
        !text.contains('\0') && !paths && !pem
    };
    let hidden = |text: &str, depth| serde_json::from_str::<Value>(text).ok().is_none_or(|inner| is_clean(&inner, depth));
    depth <= MAX_RESULT_DEPTH
        && match value {
            Value::String(text) if text.trim_start().starts_with(['{', '[', '"']) => clean(text) && hidden(text, depth + 1),
            Value::String(text) => clean(text),
            Value::Array(items) => items.iter().all(|item| is_clean(item, depth + 1)),
            Value::Object(map) => map.iter().all(|(key, value)| {
                let masked = value.as_str().is_some_and(|text| text == "[redacted: forbidden_key]");
                clean(key) && (masked || !key.to_lowercase().ends_with("key")) && is_clean(value, depth + 1)
            }),
            _ => true,
        }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_passes_is_clean_and_what_is_clean_passes_again_unchanged(value in any_value()) {
        if let Ok(passed) = screen(value, &layout(), Boundary::Reject) {
            prop_assert!(is_clean(&passed.value, 0), "{}", passed.value);
            prop_assert!(passed.redacted.is_empty());
            let again = screen(passed.value.clone(), &layout(), Boundary::Reject);
            prop_assert_eq!(again.map(|again| again.value), Ok(passed.value));
        }
    }

    #[test]
    fn redaction_never_fails_on_a_small_result_and_leaves_it_clean(value in any_value()) {
        let screened = screen(value.clone(), &layout(), Boundary::Redact).unwrap();
        prop_assert!(is_clean(&screened.value, 0), "{}", screened.value);
        let rejected = screen(value, &layout(), Boundary::Reject);
        prop_assert_eq!(rejected.is_err(), !screened.redacted.is_empty());
        if let Err(violation) = rejected {
            prop_assert_eq!(Some(&violation), screened.redacted.first());
        }
    }

    #[test]
    fn a_secret_is_found_at_any_place_and_told_without_its_value(steps in prop::collection::vec(any::<bool>(), 0..7), json in any::<bool>()) {
        let leaf = json!({ "refresh-token": "hunter2" });
        let value = steps.iter().fold(leaf, |value, keyed| if *keyed { json!({ "k": value }) } else { json!([value]) });
        let value = if json { Value::String(value.to_string()) } else { value };
        let violation = screen(value, &layout(), Boundary::Reject).unwrap_err();
        prop_assert_eq!(violation.rule, Rule::ForbiddenKey);
        prop_assert!(!violation.to_string().contains("hunter2"));
    }
}
