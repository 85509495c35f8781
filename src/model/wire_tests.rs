use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{being::Price, manifest::ProviderSpec, vocab::Span};

fn answer() -> Value {
    json!({
        "id": "x", "object": "chat.completion", "model": "served",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": "hi", "refusal": null }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "details": {} },
    })
}

/// The answer with one place changed.
fn with(pointer: &str, value: Value) -> Value {
    let mut answer = answer();
    *answer.pointer_mut(pointer).unwrap() = value;
    answer
}

fn calling(calls: Value, reason: &str) -> Value {
    let mut answer = with("/choices/0/finish_reason", json!(reason));
    answer["choices"][0]["message"] = json!({ "content": null, "tool_calls": calls });
    answer
}

fn call(id: &str, arguments: Value) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "t", "arguments": arguments } })
}

fn told(answer: &Value, dialect: Dialect) -> String {
    match read(answer.to_string().as_bytes(), "asked", dialect) {
        Ok(completion) => format!("{:?} {:?} {}", completion.finish, completion.content, completion.tool_calls.len()),
        Err(breach) => format!("{} ({})", breach.message, breach.usage.map_or(0, |usage| usage.total_tokens)),
    }
}

#[test]
fn an_ordinary_answer_is_read() {
    let completion = read(answer().to_string().as_bytes(), "asked", Dialect::Brama).unwrap();
    assert_eq!((completion.model.as_str(), completion.usage), ("served", Usage::new(3, 2)));
    let mut nameless = answer();
    nameless.as_object_mut().unwrap().remove("model");
    assert_eq!(read(nameless.to_string().as_bytes(), "asked", Dialect::OpenAi).unwrap().model, "asked");
    assert_eq!(told(&calling(json!([call("a", json!("{}"))]), "tool_calls"), Dialect::Brama), "ToolCalls None 1");
    assert_eq!(told(&calling(json!(null), "stop"), Dialect::Brama), "Stop None 0");
}

#[test]
fn an_answer_cut_off_is_kept() {
    assert_eq!(told(&with("/choices/0/finish_reason", json!("length")), Dialect::Brama), "Length Some(\"hi\") 0");
    assert_eq!(told(&with("/choices/0/finish_reason", json!("content_filter")), Dialect::Brama), "ContentFilter Some(\"hi\") 0");
    assert_eq!(told(&calling(json!([call("a", json!("{\"x"))]), "length"), Dialect::Brama), "Length None 1");
}

#[test]
fn a_breach_of_the_protocol_is_told_in_the_words_of_the_reference_and_charged() {
    let one = call("a", json!("{}"));
    for (answer, message) in [
        (with("/choices", json!([])), "response must contain exactly one choice (5)"),
        (with("/choices", json!([answer()["choices"][0], answer()["choices"][0]])), "response must contain exactly one choice (5)"),
        (with("/choices/0/finish_reason", json!("tool_calls")), "tool_calls finish reason without calls (5)"),
        (calling(json!([one]), "stop"), "stop finish reason with tool calls (5)"),
        (with("/choices/0/finish_reason", json!("eos")), "unsupported finish reason: eos (5)"),
        (with("/choices/0/finish_reason", json!(null)), "unsupported finish reason: null (5)"),
        (with("/usage/total_tokens", json!(6)), "usage total does not match prompt plus completion (5)"),
        (calling(json!([call(&"x".repeat(2_000), json!("{}"))]), "tool_calls"), "a tool call has no usable id or name (5)"),
        (calling(json!(vec![one.clone(); 129]), "tool_calls"), "response asks for more than 128 tool calls (5)"),
    ] {
        assert_eq!(told(&answer, Dialect::Brama), message);
    }
    assert_eq!(told(&calling(json!([one]), "stop"), Dialect::OpenAi), "ToolCalls None 1", "some servers write so");
}

#[test]
fn a_call_that_is_written_badly_is_kept_for_its_tools_door_to_judge() {
    let asked = |calls: Value| -> Vec<(String, String)> {
        let answer = calling(calls, "tool_calls").to_string();
        let calls = read(answer.as_bytes(), "asked", Dialect::OpenAi).unwrap().tool_calls;
        calls.into_iter().map(|call| (call.id, call.function.arguments)).collect()
    };
    let pair = |id: &str, arguments: &str| (id.to_owned(), arguments.to_owned());
    let bare = json!({ "type": "function", "function": { "name": "t" } });
    for (calls, expected) in [
        (json!([call("a", json!({ "x": 1 }))]), vec![pair("a", r#"{"x":1}"#)]),
        (json!([call("a", json!(null))]), vec![pair("a", "")]),
        (json!([call("a", json!("\"{}\""))]), vec![pair("a", "\"{}\"")]),
        (json!([bare, bare]), vec![pair("call", ""), pair("call-2", "")]),
        (
            json!([call("a", json!("1")), call("a-2", json!("2")), call("a", json!("3")), call("a", json!("4"))]),
            vec![pair("a", "1"), pair("a-2", "2"), pair("a-3", "3"), pair("a-4", "4")],
        ),
    ] {
        assert_eq!(asked(calls.clone()), expected, "{calls}");
    }
}

#[test]
fn an_answer_whose_cost_is_unknown_is_refused() {
    for (pointer, value) in [
        ("/usage", json!(null)),
        ("/usage", json!({})),
        ("/usage/prompt_tokens", json!(-1)),
        ("/usage/completion_tokens", json!(u64::MAX)),
        ("/usage/prompt_tokens", json!("3")),
    ] {
        assert!(told(&with(pointer, value), Dialect::OpenAi).starts_with("response does not count its tokens"), "{pointer}");
    }
    assert!(told(&with("/usage/total_tokens", json!(0)), Dialect::Brama).starts_with("Stop"), "a zero total is filled in");
    assert_eq!(
        read(with("/usage/total_tokens", json!(0)).to_string().as_bytes(), "m", Dialect::Brama).unwrap().usage,
        Usage::new(3, 2)
    );
}

#[test]
fn a_refusal_tells_the_servers_message_or_the_beginning_of_its_text() {
    assert_eq!(refusal(401, br#"{"error":{"message":"bad key"}}"#), "HTTP 401: bad key");
    assert_eq!(refusal(502, "<html>\nbad".as_bytes()), "HTTP 502: <html> bad");
    assert_eq!(refusal(500, "x".repeat(5_000).as_bytes()).len(), "HTTP 500: ".len() + 800);
}

#[test]
fn a_request_that_is_too_long_is_known_by_what_each_kind_of_server_says() {
    let message = |told: &str| json!({ "error": { "message": told, "type": "invalid_request_error", "code": null } });
    for (status, said) in [
        (400, json!({ "error": { "message": "Too many.", "code": "context_length_exceeded" } })),
        (400, message("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.")),
        (400, json!({ "object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400 })),
        (400, json!({ "error": { "code": 400, "message": "no", "type": "exceed_context_size_error", "n_ctx": 4096 } })),
        (500, message("the request exceeds the available context size. try increasing the context size")),
        (400, message("prompt is too long: 213462 tokens > 200000 maximum")),
        (400, message("Your input exceeds the context window of this model")),
        (400, message("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)")),
        (400, message("This model's maximum prompt length is 131072 but the request contains 537812 tokens")),
        (400, message("Please reduce the length of the messages or completion.")),
        (422, message("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048.")),
        (400, message("Prompt contains 40000 tokens, too large for model with 32768 maximum context length")),
        (413, json!("<html>413 Request Entity Too Large</html>")),
    ] {
        assert!(is_too_long(status, said.to_string().as_bytes()), "{said}");
    }
    for (status, said) in [
        (400, message("Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.")),
        (401, message("the key for this context window is wrong")),
        (429, message("Request too large on tokens per min: Limit 30000. The input must be reduced.")),
        (500, message("internal error")),
        (400, json!(null)),
    ] {
        assert!(!is_too_long(status, said.to_string().as_bytes()), "{said}");
    }
}

#[test]
fn a_request_is_written_as_servers_want_it() {
    let spec = ModelSpec {
        provider: ProviderSpec::Embedded { path: None },
        price: Price::default(),
        max_tokens: 64,
        temperature_milli: 200,
        timeout: Span::from_secs(1),
        concurrency: 1,
        context_tokens: 1_000,
    };
    let tool = ToolDefinition { name: "t".into(), description: "d".into(), parameters: json!({ "type": "object" }) };
    let messages = vec![
        ChatMessage::system("s"),
        ChatMessage::assistant(None, vec![ToolCall::new("a", "t", "{}")]),
        ChatMessage::tool("a", "t", "r"),
        ChatMessage::assistant(None, vec![]),
    ];
    let request = ChatRequest { model: "any".into(), messages, tools: Arc::new([tool]), prompt_tokens: 0 };
    let written: Value = serde_json::from_slice(&body(&request, "m", &spec, Dialect::OpenAi).unwrap()).unwrap();
    assert_eq!(
        written,
        json!({
            "model": "m", "max_tokens": 64, "temperature": 0.2, "tool_choice": "auto",
            "messages": [
                { "role": "system", "content": "s" },
                { "role": "assistant", "content": null, "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "t", "arguments": "{}" } }] },
                { "role": "tool", "content": "r", "tool_call_id": "a", "name": "t" },
                { "role": "assistant", "content": "" },
            ],
            "tools": [{ "type": "function", "function": { "name": "t", "description": "d", "parameters": { "type": "object" } } }],
        })
    );
    let narrow = ModelSpec { context_tokens: 150, max_tokens: 140, ..spec.clone() };
    let counted = ChatRequest { prompt_tokens: 40, ..request.clone() };
    let narrow: Value = serde_json::from_slice(&body(&counted, "m", &narrow, Dialect::OpenAi).unwrap()).unwrap();
    assert_eq!(narrow["max_tokens"], json!(110), "an answer is asked for no more than the prompt leaves of the window");
    let bare = ChatRequest { tools: Arc::new([]), ..request.clone() };
    let bare: Value = serde_json::from_slice(&body(&bare, "m", &spec, Dialect::OpenAi).unwrap()).unwrap();
    assert!(bare.get("tools").is_none() && bare.get("tool_choice").is_none());
    let brama: Value = serde_json::from_slice(&body(&request, "m", &spec, Dialect::Brama).unwrap()).unwrap();
    assert!(brama.get("tool_choice").is_none());
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes, "m", Dialect::OpenAi).is_err());
        prop_assert!(refusal(500, &bytes).len() < 4_000);
    }

    #[test]
    fn whatever_is_wrong_with_an_answer_what_it_counted_is_known(
        prompt in 0_u64..1_000_000, completion in 0_u64..1_000_000,
        junk in prop_oneof![Just(json!(null)), Just(json!([])), Just(json!("x")), Just(json!({ "a": 1 }))],
        place in prop_oneof![Just("/choices"), Just("/choices/0"), Just("/choices/0/message"), Just("/choices/0/finish_reason"), Just("/model")],
    ) {
        let mut answer = with(place, junk);
        answer["usage"] = json!({ "prompt_tokens": prompt, "completion_tokens": completion });
        let usage = match read(answer.to_string().as_bytes(), "m", Dialect::OpenAi) {
            Ok(completion) => Some(completion.usage),
            Err(breach) => breach.usage,
        };
        prop_assert_eq!(usage, Some(Usage::new(prompt, completion)));
    }
}
