#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};

use super::super::{Embedded, EmbeddedError, Sampling, chat, token::Vocabulary, weights};
use crate::being::{ChatMessage, ChatRequest, Counter, Finish, ToolCall, ToolDefinition};
use crate::model::{ScoreRequest, pull};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The real weights under `target/models`; fetched when they are missing, skipped when that fails outside CI.
fn file() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let models = root.join("target/models");
        match pull::LANGUAGE.pull(&models, &mut |_| {}) {
            Ok(file) => Some(file),
            Err(error) if std::env::vars_os().any(|(name, value)| name == "CI" && value == "true") => panic!("{error}"),
            Err(error) => {
                eprintln!("skipped: the weights cannot be had: {error}");
                None
            }
        }
    });
    file.as_deref()
}

fn model() -> Option<&'static Embedded> {
    static MODEL: OnceLock<Option<Embedded>> = OnceLock::new();
    MODEL.get_or_init(|| Some(Embedded::load(file()?, TWO).unwrap())).as_ref()
}

fn ask(messages: Vec<ChatMessage>, tools: Vec<ToolDefinition>) -> ChatRequest {
    ChatRequest { model: "embedded".into(), messages, tools: Arc::from(tools), prompt_tokens: 0 }
}

const fn greedy(max_tokens: u32) -> Sampling {
    Sampling { max_tokens, temperature_milli: 0, seed: 1 }
}

fn capital() -> ChatRequest {
    let system = ChatMessage::system("You are a helpful assistant.");
    ask(vec![system, ChatMessage::user("What is the capital of France?")], Vec::new())
}

fn search() -> ToolDefinition {
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string", "minLength": 3, "maxLength": 40}, "limit": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["query", "limit"], "additionalProperties": false});
    ToolDefinition { name: "web__search".into(), description: "Searches the web.".into(), parameters }
}

#[tokio::test]
async fn the_model_speaks_sense() {
    let Some(model) = model() else { return };
    let answer = model.complete(&capital(), greedy(24)).await.unwrap();
    assert_eq!(answer.content.as_deref(), Some("The capital of France is Paris."));
    assert_eq!(answer.finish, Finish::Stop);
    assert!(
        answer.usage.completion_tokens > 5
            && answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    );
}

#[tokio::test]
async fn scores_are_read_without_writing_and_the_same_whether_or_not_the_prompt_was_read_before() {
    let Some(model) = model() else { return };
    let fresh = Embedded::load(file().unwrap(), TWO).unwrap();
    let asked = |user: String, answers: &[&'static str]| ScoreRequest {
        system: "Answer with a letter.".into(),
        user,
        answers: answers.to_vec(),
    };
    let about =
        |question: &str| asked(format!("{{\"evidence\": \"The sky is blue today.\", \"criterion\": \"{question}\"}}"), &["A", "B"]);
    let first = fresh.score(&about("Is it A or B?")).await.unwrap();
    let other = fresh.score(&about("Is it B or A?")).await.unwrap();
    assert_eq!(fresh.score(&about("Is it A or B?")).await.unwrap().usage, first.usage);
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.05);
    assert!(near(&model.score(&about("Is it B or A?")).await.unwrap().logits, &other.logits));
    assert!(first.mass > 0.0 && first.mass <= 1.0 && first.usage.completion_tokens == 0, "{first:?}");
    let refused = fresh.score(&asked("u".into(), &["A", "antidisestablishment"])).await.unwrap_err();
    assert!(matches!(refused, EmbeddedError::NoSlot { .. }), "{refused}");
    let long = fresh.score(&asked("word ".repeat(20_000), &["A", "B"])).await.unwrap_err();
    assert!(matches!(long, EmbeddedError::TooLong { .. }), "{long}");
}

#[test]
fn text_becomes_the_tokens_that_the_model_was_trained_on() {
    let Some(file) = file() else { return };
    let (content, _) = weights::read(file, TWO).unwrap();
    let words = Vocabulary::read(file, &content).unwrap();
    let chat = chat::render(&capital(), "", 1, 8_192, &words).unwrap();
    assert_eq!(chat, GOLDEN, "ids as llama.cpp gives them");
    let mut tokens = Vec::new();
    let text = "Año 2024:\n\n\tlet x = 3.14; // 🙂 <|im_end|>";
    words.encode(text, &mut tokens).unwrap();
    let back: Vec<u8> = tokens.iter().flat_map(|token| words.bytes(*token).to_vec()).collect();
    assert_eq!(String::from_utf8(back).unwrap(), text);
    assert!(!tokens.contains(&words.close), "text never becomes a control token");
}

/// System, user and assistant header of [`capital`], as llama.cpp tokenises them.
const GOLDEN: &[u32] = &[
    1, 9690, 198, 2683, 359, 253, 5356, 11173, 30, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531,
    198,
];

#[tokio::test]
async fn every_call_names_a_tool_and_validates() {
    let Some(model) = model() else { return };
    let check = jsonschema::validator_for(&search().parameters).unwrap();
    let mut calls = 0;
    for seed in 0..6 {
        let request = ask(
            vec![ChatMessage::system("Use the tool for everything."), ChatMessage::user("Search the web for cats.")],
            vec![search()],
        );
        let answer = model.complete(&request, Sampling { max_tokens: 160, temperature_milli: 1_200, seed }).await.unwrap();
        for call in &answer.tool_calls {
            let arguments: Value = serde_json::from_str(&call.function.arguments).unwrap();
            assert!(call.function.name == "web__search" && check.is_valid(&arguments), "{call:?}");
            assert_eq!(answer.finish, Finish::ToolCalls);
            calls += 1;
        }
    }
    eprintln!("{calls} of 6 replies were calls");
}

#[tokio::test]
async fn the_same_request_and_seed_give_the_same_reply() {
    let Some(model) = model() else { return };
    let request = ask(vec![ChatMessage::user("Name three colours.")], Vec::new());
    let sampling = Sampling { max_tokens: 16, temperature_milli: 900, seed: 42 };
    let first = model.complete(&request, sampling).await.unwrap();
    let second = model.complete(&request, sampling).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_reply_that_is_cut_off_says_so() {
    let Some(model) = model() else { return };
    let answer = model.complete(&capital(), greedy(2)).await.unwrap();
    assert_eq!((answer.finish, answer.usage.completion_tokens), (Finish::Length, 2));
}

#[tokio::test]
async fn a_request_beyond_the_context_is_told_apart() {
    let Some(model) = model() else { return };
    let error = model.complete(&ask(vec![ChatMessage::user("word ".repeat(9_000))], Vec::new()), greedy(1)).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::TooLong { needed, context: 8_192 } if needed > 9_000), "{error:?}");
    assert!(!error.is_passing());
    let error = model.complete(&ask(vec![ChatMessage::user("x".repeat(10_000_000))], Vec::new()), greedy(1)).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::TooLong { .. }), "{error:?}");
}

#[tokio::test]
async fn a_large_catalogue_is_shown_shorter_and_keeps_its_names() {
    let Some(file) = file() else { return };
    let (content, _) = weights::read(file, TWO).unwrap();
    let words = Vocabulary::read(file, &content).unwrap();
    let tools: Vec<_> = (0..120)
        .map(|i| ToolDefinition { name: format!("s__tool_{i}"), description: "Does a thing. ".repeat(40), ..search() })
        .collect();
    let text = chat::tools(&tools, 4_096, &words).unwrap();
    let mut tokens = Vec::new();
    words.encode(&text, &mut tokens).unwrap();
    assert!(tokens.len() <= 4_096 && tools.iter().all(|tool| text.contains(&tool.name)));
}

#[tokio::test]
async fn a_dropped_request_stops_and_the_next_one_is_answered() {
    let Some(model) = model() else { return };
    let long = ask(vec![ChatMessage::user(format!("Tell of {}", "a river and a stone ".repeat(900)))], Vec::new());
    let dropped = tokio::time::timeout(Duration::from_millis(50), model.complete(&long, greedy(4_000))).await;
    assert!(dropped.is_err(), "it cannot have been done in 50 ms");
    let answer = tokio::time::timeout(Duration::from_secs(60), model.complete(&capital(), greedy(24))).await.unwrap().unwrap();
    assert_eq!(answer.content.as_deref(), Some("The capital of France is Paris."));
}

#[tokio::test]
async fn earlier_calls_and_results_are_part_of_what_the_model_reads() {
    let Some(model) = model() else { return };
    let call = ToolCall::new("call_1", "web__search", r#"{"query": "capital of France", "limit": 1}"#);
    let messages = vec![
        ChatMessage::user("What is the capital of France?"),
        ChatMessage::assistant(None, vec![call]),
        ChatMessage::tool("call_1", "web__search", "Paris"),
    ];
    let without = model.complete(&ask(messages[..1].to_vec(), vec![search()]), greedy(1)).await.unwrap();
    let with = model.complete(&ask(messages, vec![search()]), greedy(1)).await.unwrap();
    assert!(with.usage.prompt_tokens > without.usage.prompt_tokens + 30);
}

#[test]
fn a_file_that_is_no_model_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Embedded::load(&folder.path().join("none.gguf"), TWO).unwrap_err();
    assert!(matches!(missing, EmbeddedError::Unreadable { .. }), "{missing:?}");
    let rubbish = Embedded::load(Path::new("/proc/self/status"), TWO).unwrap_err();
    assert!(matches!(rubbish, EmbeddedError::NotGguf { .. }), "{rubbish:?}");
}

#[test]
fn an_estimate_is_not_below_what_a_real_tokenizer_counts() {
    let Some(model) = model() else { return };
    let (exact, estimate) = (Counter::new(vec![model.tokenizer()], false), Counter::estimate());
    for (what, text) in [
        ("prose", include_str!("../../../../README.md")),
        ("code", include_str!("../engine.rs")),
        ("JSON", include_str!("../../../../schemas/being.schema.json")),
        ("a journal", include_str!("../../../../tests/golden/being-v1/activity.jsonl")),
    ] {
        let request = ask(vec![ChatMessage::user(text)], vec![search()]);
        let (counted, estimated) = (exact.prompt_tokens(&request), estimate.prompt_tokens(&request));
        assert!((counted..counted * 5 / 2).contains(&estimated), "{what}: {estimated} for {counted}");
    }
}
