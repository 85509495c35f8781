use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::{self, Breach};
use crate::being::Usage;

/// A prompt, and a few words that may come next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreRequest {
    pub system: String,
    pub user: String,
    /// Each of them one token of the model's.
    pub answers: Vec<&'static str>,
}

/// What a model makes of the words.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// A logit for each word, in the order in which they were asked for; negative infinity where the model's server does not list it.
    pub logits: Vec<f64>,
    /// The share of probability that the words hold together in the whole vocabulary.
    pub mass: f64,
    pub usage: Usage,
    /// The model, as it names itself.
    pub model: String,
    /// Whether a server listed only its likeliest tokens, so that a word may be missing.
    pub is_partial: bool,
}

/// How many tokens a server lists at most, by the interface of OpenAI.
const MOST_LISTED: u8 = 20;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: [Message<'a>; 2],
    max_tokens: u8,
    temperature: f64,
    logprobs: bool,
    top_logprobs: u8,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

/// Writes a request for one token with the likeliest ones beside it.
pub(super) fn body(request: &ScoreRequest, model: &str) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Body {
        model,
        messages: [Message { role: "system", content: &request.system }, Message { role: "user", content: &request.user }],
        max_tokens: 1,
        temperature: 0.0,
        logprobs: true,
        top_logprobs: MOST_LISTED,
    })
}

#[derive(Deserialize)]
struct Listed {
    token: String,
    logprob: f64,
}

/// Reads the scores off a successful answer. Spellings of one word, with and without a space, count together.
pub(super) fn read(bytes: &[u8], request: &ScoreRequest, model: &str) -> Result<Scores, Breach> {
    let shapeless = |error: &serde_json::Error| format!("response is not a chat completion: {error}");
    let value: Value = serde_json::from_slice(bytes).map_err(|error| Breach { message: shapeless(&error), usage: None })?;
    let usage = wire::counted(&value);
    let breach = |message: &str| Breach { message: message.to_owned(), usage };
    let listed = value.pointer("/choices/0/logprobs/content/0/top_logprobs").filter(|listed| listed.is_array());
    let Some(listed) = listed else {
        return Err(breach("response lists no `top_logprobs`; decisions need a server that does, or the embedded model"));
    };
    let listed = Vec::<Listed>::deserialize(listed).map_err(|error| breach(&shapeless(&error)))?;
    let Some(usage) = usage else {
        return Err(breach("response does not count its tokens, so that its cost is unknown; use a server that fills `usage`"));
    };
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for Listed { token, logprob } in &listed {
        *shares.entry(token.trim()).or_default() += logprob.exp();
    }
    let of = |answer: &&str| shares.get(answer).copied().unwrap_or_default();
    let shares: Vec<f64> = request.answers.iter().map(of).collect();
    let model = value.get("model").and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or(model);
    Ok(Scores {
        mass: shares.iter().sum::<f64>().clamp(0.0, 1.0),
        logits: shares.into_iter().map(f64::ln).collect(),
        usage,
        model: model.to_owned(),
        is_partial: true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> ScoreRequest {
        ScoreRequest { system: "s".into(), user: "u".into(), answers: vec!["A", "B", "C"] }
    }

    fn answer(listed: &Value) -> Vec<u8> {
        let logprobs = json!({ "content": [{ "token": "A", "logprob": -0.1, "top_logprobs": listed }] });
        let choice = json!({ "index": 0, "message": { "role": "assistant", "content": "A" }, "logprobs": logprobs });
        json!({ "model": "q", "choices": [choice], "usage": { "prompt_tokens": 9, "completion_tokens": 1 } }).to_string().into()
    }

    #[test]
    fn one_token_is_asked_for_with_all_that_a_server_may_list() {
        let body: Value = serde_json::from_slice(&body(&request(), "q").unwrap()).unwrap();
        let messages = json!([{ "role": "system", "content": "s" }, { "role": "user", "content": "u" }]);
        let wanted = json!({ "model": "q", "messages": messages, "max_tokens": 1, "temperature": 0.0, "logprobs": true, "top_logprobs": 20 });
        assert_eq!(body, wanted);
    }

    #[test]
    fn spellings_of_a_word_count_together_and_what_is_not_listed_counts_nothing() {
        let half = 0.5_f64.ln();
        let listed = json!([{ "token": "A", "logprob": half }, { "token": " A", "logprob": -2.0 }, { "token": "The", "logprob": -3.0 }, { "token": "B", "logprob": -4.0 }]);
        let scores = read(&answer(&listed), &request(), "m").unwrap();
        assert!((scores.logits[0] - (0.5 + (-2.0_f64).exp()).ln()).abs() < 1e-9, "{scores:?}");
        assert!((scores.logits[1] + 4.0).abs() < 1e-9 && scores.logits[2] == f64::NEG_INFINITY);
        assert!((scores.mass - (0.5 + (-2.0_f64).exp() + (-4.0_f64).exp())).abs() < 1e-9);
        assert_eq!((scores.usage, scores.model.as_str(), scores.is_partial), (Usage::new(9, 1), "q", true));
    }

    #[test]
    fn an_answer_without_scores_is_told_and_paid() {
        let plain =
            json!({ "choices": [{ "message": { "content": "A" } }], "usage": { "prompt_tokens": 9, "completion_tokens": 1 } });
        let breach = read(plain.to_string().as_bytes(), &request(), "m").unwrap_err();
        assert!(breach.message.contains("lists no `top_logprobs`") && breach.usage == Some(Usage::new(9, 1)), "{breach:?}");
        for bad in [json!([{ "token": 1, "logprob": 0.0 }]), json!([{ "token": "A" }])] {
            assert!(read(&answer(&bad), &request(), "m").unwrap_err().message.contains("not a chat completion"));
        }
        assert!(read(b"{", &request(), "m").is_err());
    }
}
