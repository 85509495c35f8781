use serde_json::{Value, json};
use uuid::Uuid;

/// An MCP result as the being may come to see it, still to be screened.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    pub(super) content: Value,
    /// Whether `content` is what the server said in structure, which alone is evidence of money.
    pub(super) is_structured: bool,
}

/// What the tool itself said of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    Refused,
    /// The answer is no MCP result.
    Malformed,
}

/// Reads a raw MCP result: its structure where it has one, else its texts; of pictures and blobs only kind and size.
pub(super) fn read(raw: Value) -> Answer {
    let Value::Object(mut raw) = raw else {
        return malformed("the tool's answer is not an object");
    };
    let verdict = match raw.get("isError") {
        None | Some(Value::Bool(false) | Value::Null) => Verdict::Done,
        Some(Value::Bool(true)) => Verdict::Refused,
        Some(_) => return malformed("the tool's answer has an `isError` that is not a boolean"),
    };
    if let Some(content) = raw.remove("structuredContent").filter(|content| !content.is_null()) {
        return Answer { verdict, content, is_structured: true };
    }
    let items = match raw.remove("content") {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return malformed("the tool's answer has a `content` that is not an array"),
    };
    Answer { verdict, content: join(items), is_structured: false }
}

fn malformed(message: &str) -> Answer {
    Answer { verdict: Verdict::Malformed, content: json!({ "message": message }), is_structured: false }
}

fn join(items: Vec<Value>) -> Value {
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for mut item in items {
        let text = item.get_mut("text").map(Value::take);
        let text = text.or_else(|| item.pointer_mut("/resource/text").map(Value::take));
        match text {
            Some(Value::String(text)) => texts.push(text),
            _ => attachments.push(summary(&item)),
        }
    }
    let text = texts.join("\n");
    match (texts.is_empty(), attachments.is_empty()) {
        (true, true) => Value::Null,
        (false, true) => Value::String(text),
        (true, false) => json!({ "attachments": attachments }),
        (false, false) => json!({ "text": text, "attachments": attachments }),
    }
}

fn summary(item: &Value) -> Value {
    let kind = item.get("type").and_then(Value::as_str);
    let kind = kind.filter(|kind| matches!(*kind, "image" | "audio" | "resource" | "resource_link")).unwrap_or("unknown");
    let data = item.get("data").or_else(|| item.pointer("/resource/blob")).and_then(Value::as_str);
    json!({ "type": kind, "bytes": data.map(decoded_length) })
}

/// How many bytes base64 text stands for.
fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// An id that a result carries at its top.
pub(super) fn lift(content: &Value, key: &str) -> Option<Uuid> {
    content.get(key).and_then(Value::as_str).and_then(|text| Uuid::try_parse(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_is_preferred_to_text() {
        let answer = read(json!({ "content": [{ "type": "text", "text": "{}" }], "structuredContent": { "a": 1 } }));
        assert_eq!(answer, Answer { verdict: Verdict::Done, content: json!({ "a": 1 }), is_structured: true });
    }

    #[test]
    fn texts_are_joined_and_of_blobs_only_kind_and_size_is_kept() {
        let content = |items: Value| read(json!({ "content": items })).content;
        let (one, two) = (
            json!({ "type": "text", "text": "one" }),
            json!({ "type": "resource", "resource": { "uri": "file:///x", "text": "two" } }),
        );
        let image = json!({ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" });
        assert_eq!(content(json!([one, two])), json!("one\ntwo"));
        assert_eq!(content(json!([one, image])), json!({ "text": "one", "attachments": [{ "type": "image", "bytes": 5 }] }));
        assert_eq!(content(json!([{ "type": "/etc/x" }])), json!({ "attachments": [{ "type": "unknown", "bytes": null }] }));
        assert_eq!(content(json!([])), Value::Null);
        assert_eq!(read(json!({})).content, Value::Null);
    }

    #[test]
    fn an_answer_that_is_no_result_is_told_apart_from_a_refusal() {
        assert_eq!(read(json!({ "isError": true, "content": [] })).verdict, Verdict::Refused);
        for raw in [json!(1), json!({ "isError": "yes" }), json!({ "content": "text" })] {
            assert_eq!(read(raw).verdict, Verdict::Malformed);
        }
    }

    #[test]
    fn only_a_uuid_is_lifted() {
        let id = "6f2c1f0e-3b55-4a35-9a39-0d8a2f6d7f11";
        assert_eq!(lift(&json!({ "chat_id": id }), "chat_id").map(|id| id.to_string()).as_deref(), Some(id));
        assert_eq!(lift(&json!({ "chat_id": "town" }), "chat_id"), None);
        assert_eq!(lift(&json!([]), "chat_id"), None);
    }
}
