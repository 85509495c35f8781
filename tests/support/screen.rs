//! The output boundary once more, written from SPEC §7 alone: slow, obvious, and sharing nothing with the program's.

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

const WORDS: [&str; 14] = [
    "secret",
    "password",
    "passwd",
    "token",
    "access_token",
    "refresh_token",
    "api_key",
    "authorization",
    "cookie",
    "private_key",
    "privatekey",
    "credential_path",
    "secret_path",
    "key_path",
];

/// Tells whether a result may be seen, by the rules as they are written. There is no workspace here, so no path is relative to one.
pub fn may_be_seen(value: &Value) -> bool {
    value.to_string().len() <= 64 * 1024 && is_clean(value, 0)
}

fn is_clean(value: &Value, level: usize) -> bool {
    if level > 8 {
        return false;
    }
    match value {
        Value::String(text) => is_clean_text(text, level),
        Value::Array(items) => items.iter().all(|item| is_clean(item, level + 1)),
        Value::Object(members) => {
            members.iter().all(|(key, value)| !names_a_secret(key) && is_clean_text(key, level) && is_clean(value, level + 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn names_a_secret(key: &str) -> bool {
    let folded = key.nfkc().collect::<String>();
    let lower = folded.to_lowercase();
    let plain: String = lower.trim().chars().map(|c| if c == '-' || c == ' ' { '_' } else { c }).collect();
    WORDS.iter().any(|word| plain == *word || plain.ends_with(word))
}

fn is_clean_text(text: &str, level: usize) -> bool {
    !text.chars().any(|c| c == '\0') && !has_private_key(text) && !has_path(text) && !hides_something(text, level)
}

/// `-----BEGIN …PRIVATE KEY…-----`, in any case.
fn has_private_key(text: &str) -> bool {
    let lower: Vec<char> = text.chars().map(|c| c.to_ascii_lowercase()).collect();
    let begin: Vec<char> = "-----begin ".chars().collect();
    let dashes = ['-'; 5];
    for start in 0..lower.len() {
        if !lower[start..].starts_with(&begin) {
            continue;
        }
        let rest = &lower[start + begin.len()..];
        let Some(end) = (0..rest.len()).find(|at| rest[*at..].starts_with(&dashes)) else { continue };
        let label: String = rest[..end].iter().collect();
        if label.contains("private key") {
            return true;
        }
    }
    false
}

fn has_path(text: &str) -> bool {
    let mut word = String::new();
    let mut words = Vec::new();
    for c in text.chars() {
        if c.is_whitespace() {
            words.push(std::mem::take(&mut word));
        } else {
            word.push(c);
        }
    }
    words.push(word);
    words.iter().any(|word| {
        let word: String = word.chars().skip_while(|c| ",;:()[]'\"`".contains(*c)).collect();
        word.starts_with('/') || word.to_ascii_lowercase().starts_with("file://")
    })
}

/// JSON in a text stands one level below it: one string, or values in a row, of which the last may be torn.
fn hides_something(text: &str, level: usize) -> bool {
    let text = text.trim_start();
    if text.starts_with('"') {
        return serde_json::from_str::<String>(text).is_ok_and(|inner| !is_clean_text(&inner, level + 1) || level + 1 > 8);
    }
    if !text.starts_with('{') && !text.starts_with('[') {
        return false;
    }
    let mut rest = text;
    loop {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            None => return false,
            Some(Ok(value)) => {
                if !is_clean(&value, level + 1) {
                    return true;
                }
                rest = &rest[values.byte_offset()..];
            }
            Some(Err(_)) => return has_torn_key(rest),
        }
    }
}

/// What stands between two quotes and before a colon may be a key.
fn has_torn_key(text: &str) -> bool {
    let quotes: Vec<usize> = text.match_indices('"').map(|(at, _)| at).collect();
    let mut start = 0;
    for (number, quote) in quotes.iter().enumerate() {
        let end = quotes.get(number + 1).copied().unwrap_or(text.len());
        if text[quote + 1..end].trim_start().starts_with(':') && names_a_secret(&text[start..*quote]) {
            return true;
        }
        start = quote + 1;
    }
    false
}
