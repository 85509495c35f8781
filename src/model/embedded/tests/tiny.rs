#![expect(clippy::as_conversions, reason = "test numbers are small")]

use std::{
    collections::HashMap,
    fs::File,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value as Meta},
    },
};
use serde_json::json;
use tempfile::TempDir;

use singularity_kernel::{Level, Team};

use super::super::{
    Embedded, EmbeddedError, Sampling,
    cache::{Cache, Slots},
    forward::{Cancelled, Engine, TILE},
    token::Vocabulary,
    weights,
};
use crate::being::{ChatMessage, ChatRequest, Counter, Finish, ToolCall, ToolDefinition};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const WIDTH: usize = 64;
const HIDDEN: usize = 96;
const HEADS: usize = 2;
const HEAD: usize = 32;
const LAYERS: usize = 2;
const WORDS: usize = 300;

/// A random llama with 300 tokens, as a file and as plain numbers.
struct Tiny {
    folder: TempDir,
    tensors: HashMap<String, Vec<f32>>,
}

impl Tiny {
    fn new(kind: GgmlDType) -> Self {
        Self::with("llama", kind)
    }

    fn with(architecture: &str, kind: GgmlDType) -> Self {
        let mut state = 9u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        let mut shapes = vec![("token_embd.weight".to_owned(), vec![WORDS, WIDTH]), ("output_norm.weight".to_owned(), vec![WIDTH])];
        for n in 0..LAYERS {
            let mut layer = |name: &str, dims: &[usize]| shapes.push((format!("blk.{n}.{name}.weight"), dims.to_vec()));
            layer("attn_norm", &[WIDTH]);
            layer("attn_q", &[WIDTH, WIDTH]);
            layer("attn_k", &[HEAD, WIDTH]);
            layer("attn_v", &[HEAD, WIDTH]);
            layer("attn_output", &[WIDTH, WIDTH]);
            layer("ffn_norm", &[WIDTH]);
            layer("ffn_gate", &[HIDDEN, WIDTH]);
            layer("ffn_up", &[HIDDEN, WIDTH]);
            layer("ffn_down", &[WIDTH, HIDDEN]);
        }
        let (mut tensors, mut quantised) = (HashMap::new(), Vec::new());
        for (name, dims) in shapes {
            let values: Vec<f32> =
                (0..dims.iter().product()).map(|_| if dims.len() == 1 { 1.0 + next() * 0.1 } else { next() * 0.3 }).collect();
            let kind = if dims.len() == 1 { GgmlDType::F32 } else { kind };
            let tensor = QTensor::quantize(&Tensor::from_vec(values, dims, &Device::Cpu).unwrap(), kind).unwrap();
            let kept = tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            tensors.insert(name.clone(), kept);
            quantised.push((name, tensor));
        }
        let folder = tempfile::tempdir().unwrap();
        let meta = metadata(architecture);
        let meta: Vec<(&str, &Meta)> = meta.iter().map(|(key, value)| (*key, value)).collect();
        let list: Vec<(&str, &QTensor)> = quantised.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        #[expect(clippy::disallowed_methods, reason = "a test writes its own input")]
        let mut file = File::create(folder.path().join("tiny.gguf")).unwrap();
        gguf_file::write(&mut file, &meta, &list).unwrap();
        Self { folder, tensors }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("tiny.gguf")
    }

    fn engine(&self, level: Level) -> Engine {
        let (_, weights) = weights::read(&self.file(), TWO).unwrap();
        Engine::new(weights, level, Team::start(TWO).unwrap())
    }

    /// Logits behind the last token, in full precision and without any cleverness.
    fn reference(&self, tokens: &[u32]) -> Vec<f32> {
        let weight = |name: &str| &self.tensors[name];
        let times = |name: &str, x: &[f32]| -> Vec<f32> {
            weight(name).chunks(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
        };
        let norm = |name: &str, x: &[f32]| -> Vec<f32> {
            let scale = 1.0 / (x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32 + 1e-5).sqrt();
            x.iter().zip(weight(name)).map(|(v, w)| v * scale * w).collect()
        };
        let mut stream: Vec<Vec<f32>> =
            tokens.iter().map(|t| weight("token_embd.weight")[*t as usize * WIDTH..][..WIDTH].to_vec()).collect();
        for n in 0..LAYERS {
            let name = |part: &str| format!("blk.{n}.{part}.weight");
            let inputs: Vec<Vec<f32>> = stream.iter().map(|x| norm(&name("attn_norm"), x)).collect();
            let turned =
                |part: &str| -> Vec<Vec<f32>> { inputs.iter().enumerate().map(|(t, x)| rope(times(&name(part), x), t)).collect() };
            let (queries, keys) = (turned("attn_q"), turned("attn_k"));
            let values: Vec<Vec<f32>> = inputs.iter().map(|x| times(&name("attn_v"), x)).collect();
            for t in 0..tokens.len() {
                let mut mixed = Vec::new();
                for head in queries[t].chunks(HEAD) {
                    let dots =
                        keys[..=t].iter().map(|key| head.iter().zip(key).map(|(a, b)| a * b).sum::<f32>() / (HEAD as f32).sqrt());
                    let weights: Vec<f32> = dots.map(f32::exp).collect();
                    let total: f32 = weights.iter().sum();
                    mixed.extend((0..HEAD).map(|i| weights.iter().zip(&values).map(|(w, v)| w / total * v[i]).sum::<f32>()));
                }
                let change = times(&name("attn_output"), &mixed);
                stream[t].iter_mut().zip(change).for_each(|(x, c)| *x += c);
                let input = norm(&name("ffn_norm"), &stream[t]);
                let (gate, up) = (times(&name("ffn_gate"), &input), times(&name("ffn_up"), &input));
                let gated: Vec<f32> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                let change = times(&name("ffn_down"), &gated);
                stream[t].iter_mut().zip(change).for_each(|(x, c)| *x += c);
            }
        }
        times("token_embd.weight", &norm("output_norm.weight", stream.last().unwrap()))
    }
}

fn rope(mut x: Vec<f32>, position: usize) -> Vec<f32> {
    for head in x.chunks_mut(HEAD) {
        for (i, pair) in head.chunks_mut(2).enumerate() {
            let (sin, cos) = (position as f32 * 10_000f32.powf(-2.0 * i as f32 / HEAD as f32)).sin_cos();
            (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos);
        }
    }
    x
}

fn metadata(architecture: &str) -> Vec<(&'static str, Meta)> {
    let texts = |list: Vec<String>| Meta::Array(list.into_iter().map(Meta::String).collect());
    let printable = |b: &u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let hidden = (0..=u8::MAX).filter(|b| !printable(b)).count() as u32;
    let mut tokens: Vec<String> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned).to_vec();
    tokens.extend((0..=u8::MAX).filter(printable).map(|b| char::from(b).to_string()));
    tokens.extend((256..256 + hidden).map(|c| char::from_u32(c).unwrap().to_string()));
    let merges = ["\" :", "{ \"", "\" }", "a b", "Ġ \"", "i n", "in g", "e r", "<|", "t o", "to o", "1 2", "\" ,"];
    let merges: Vec<String> = merges.iter().filter(|merge| merge.contains(' ')).map(|merge| (*merge).to_owned()).collect();
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let kinds = (0..WORDS).map(|i| Meta::I32(if i < 3 || i >= tokens.len() { 3 } else { 1 })).collect();
    tokens.extend((tokens.len()..WORDS).map(|i| format!("<unused {i}>")));
    vec![
        ("general.architecture", Meta::String(architecture.into())),
        ("general.name", Meta::String("tiny".into())),
        ("llama.block_count", Meta::U32(LAYERS as u32)),
        ("llama.context_length", Meta::U32(1_024)),
        ("llama.embedding_length", Meta::U32(WIDTH as u32)),
        ("llama.feed_forward_length", Meta::U32(HIDDEN as u32)),
        ("llama.attention.head_count", Meta::U32(HEADS as u32)),
        ("llama.attention.head_count_kv", Meta::U32(1)),
        ("llama.attention.layer_norm_rms_epsilon", Meta::F32(1e-5)),
        ("llama.rope.freq_base", Meta::F32(10_000.0)),
        ("tokenizer.ggml.model", Meta::String("gpt2".into())),
        ("tokenizer.ggml.pre", Meta::String("smollm".into())),
        ("tokenizer.ggml.eos_token_id", Meta::U32(2)),
        ("tokenizer.ggml.tokens", texts(tokens)),
        ("tokenizer.ggml.token_type", Meta::Array(kinds)),
        ("tokenizer.ggml.merges", texts(merges)),
    ]
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn prompt(length: usize) -> Vec<u32> {
    (0..length).map(|i| ((i * 37 + i * i * 11) % WORDS) as u32).collect()
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn logits_are_those_of_full_precision_whatever_the_weights_are_kept_in() {
    for kind in [GgmlDType::F32, GgmlDType::F16, GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q5_0] {
        let tiny = Tiny::new(kind);
        for length in [1, 2, 7, TILE + 3] {
            let (tokens, expected) = (prompt(length), tiny.reference(&prompt(length)));
            for level in Level::available() {
                let mut engine = tiny.engine(level);
                let mut cache = Cache::new(&engine.weights.shape);
                let logits = engine.read(&tokens, &mut cache, &NEVER).unwrap();
                let near = cosine(logits, &expected);
                assert!(near > 0.998, "{kind:?} {level:?} {length}: {near}");
            }
        }
    }
}

#[test]
fn a_prompt_read_in_pieces_gives_what_it_gives_as_a_whole() {
    let tiny = Tiny::new(GgmlDType::Q4_1);
    let mut engine = tiny.engine(Level::best());
    let tokens = prompt(200);
    let mut cache = Cache::new(&engine.weights.shape);
    let whole = engine.read(&tokens, &mut cache, &NEVER).unwrap().to_vec();
    let mut pieces = Cache::new(&engine.weights.shape);
    let mut last = Vec::new();
    for piece in [&tokens[..1], &tokens[1..150], &tokens[150..151], &tokens[151..]] {
        last = engine.read(piece, &mut pieces, &NEVER).unwrap().to_vec();
    }
    assert!(cosine(&whole, &last) > 0.99999);
    assert_eq!(cache.tokens(), pieces.tokens());
}

#[test]
fn a_cancelled_read_leaves_the_cache_as_it_was() {
    let tiny = Tiny::new(GgmlDType::F32);
    let mut engine = tiny.engine(Level::best());
    let mut cache = Cache::new(&engine.weights.shape);
    engine.read(&prompt(5), &mut cache, &NEVER).unwrap();
    assert_eq!(engine.read(&prompt(9), &mut cache, &AtomicBool::new(true)).unwrap_err(), Cancelled);
    assert_eq!(cache.len(), 5);
    let after = engine.read(&[7], &mut cache, &NEVER).unwrap().to_vec();
    let expected = tiny.reference(&[prompt(5), vec![7]].concat());
    assert!(cosine(&after, &expected) > 0.999);
}

#[test]
fn a_prefix_that_was_read_is_not_read_again_and_other_prompts_keep_theirs() {
    let tiny = Tiny::new(GgmlDType::F32);
    let mut engine = tiny.engine(Level::best());
    let shape = engine.weights.shape.clone();
    let mut slots = Slots::default();
    let first = prompt(300);
    let mut cache = slots.take(&first, &shape);
    assert_eq!(cache.len(), 0);
    engine.read(&first, &mut cache, &NEVER).unwrap();
    slots.put(cache, &shape);
    let branch = [&first[..100], &[1, 2, 3]].concat();
    let cache = slots.take(&branch, &shape);
    assert_eq!(cache.tokens(), &first[..100], "the common part is taken over");
    slots.put(cache, &shape);
    let again = slots.take(&first, &shape);
    assert_eq!(again.len(), 299, "the longer prompt was not lost to the branch; the last token is read for its logits");
    for n in 0..40 {
        let mut cache = slots.take(&[n, 1, 2], &shape);
        engine.read(&prompt(400)[cache.len()..], &mut cache, &NEVER).unwrap();
        slots.put(cache, &shape);
    }
    assert!(slots.tokens() <= 2 * shape.context, "what is kept has a bound");
}

fn any() -> ToolDefinition {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 12}, "n": {"type": "integer", "minimum": 3, "maximum": 40}, "odd": {"type": "string", "pattern": "^x+$"}}, "required": ["a", "n"], "additionalProperties": false});
    ToolDefinition { name: "any__tool".into(), description: "Any.".into(), parameters }
}

#[tokio::test]
async fn requests_wait_for_each_other_and_each_gets_its_own_answer() {
    let tiny = Tiny::new(GgmlDType::Q8_0);
    let model = Embedded::load(&tiny.file(), TWO).unwrap();
    let request = |text: &str| ChatRequest {
        model: "e".into(),
        messages: vec![ChatMessage::user(text)],
        tools: Arc::from([any()]),
        prompt_tokens: 0,
    };
    let sampling = Sampling { max_tokens: 12, temperature_milli: 700, seed: 3 };
    let (a, b) = (request("one"), request("two and more"));
    let (alone_a, alone_b) = (model.complete(&a, sampling).await.unwrap(), model.complete(&b, sampling).await.unwrap());
    let (a, b) = tokio::join!(model.complete(&a, sampling), model.complete(&b, sampling));
    assert_eq!((a.unwrap(), b.unwrap()), (alone_a, alone_b));
}

#[tokio::test]
async fn more_requests_than_may_wait_are_told_to_come_later() {
    let tiny = Tiny::new(GgmlDType::Q8_0);
    let model = Embedded::load(&tiny.file(), TWO).unwrap();
    let request = ChatRequest {
        model: "e".into(),
        messages: vec![ChatMessage::user("go on ".repeat(60))],
        tools: Arc::from([]),
        prompt_tokens: 0,
    };
    let sampling = Sampling { max_tokens: 400, temperature_milli: 0, seed: 3 };
    let all = futures::future::join_all((0..120).map(|_| model.complete(&request, Sampling { max_tokens: 1, ..sampling }))).await;
    assert!(all.iter().any(Result::is_ok), "those that wait are answered");
    let refused = all.iter().filter_map(|answer| answer.as_ref().err());
    let refused: Vec<_> =
        refused.inspect(|error| assert!(matches!(error, EmbeddedError::Busy { waiting: 64 }), "{error:?}")).collect();
    assert!(refused.len() <= 120 - 64, "{}", refused.len());
}

#[tokio::test]
async fn a_model_without_end_is_cut_off_at_its_limit() {
    let tiny = Tiny::new(GgmlDType::Q8_0);
    let model = Embedded::load(&tiny.file(), TWO).unwrap();
    let request =
        ChatRequest { model: "e".into(), messages: vec![ChatMessage::user("hi")], tools: Arc::from([]), prompt_tokens: 0 };
    let answer = model.complete(&request, Sampling { max_tokens: 5_000, temperature_milli: 0, seed: 0 }).await.unwrap();
    assert!(answer.usage.total_tokens <= 1_024, "the context holds prompt and answer");
    assert!(answer.finish == Finish::Length || answer.usage.completion_tokens < 1_000);
}

#[test]
fn another_architecture_is_refused_by_name() {
    let tiny = Tiny::with("mamba", GgmlDType::F32);
    let error = Embedded::load(&tiny.file(), TWO).unwrap_err().to_string();
    assert!(error.contains("`mamba`") && error.contains("tiny.gguf"), "{error}");
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let tiny = Tiny::new(GgmlDType::F32);
    let file = File::options().write(true).open(tiny.file()).unwrap();
    file.set_len(file.metadata().unwrap().len() - 4_000).unwrap();
    assert!(matches!(Embedded::load(&tiny.file(), TWO).unwrap_err(), EmbeddedError::NotGguf { .. }));
}

#[test]
fn every_byte_can_be_said() {
    let tiny = Tiny::new(GgmlDType::F32);
    let (content, _) = weights::read(&tiny.file(), TWO).unwrap();
    let words = Vocabulary::read(&tiny.file(), &content).unwrap();
    let said: std::collections::BTreeSet<u8> =
        (0..WORDS as u32).filter_map(|t| <[u8; 1]>::try_from(words.bytes(t)).ok()).map(|[b]| b).collect();
    assert_eq!(said.len(), 256);
}

/// The file of a tiny model, for tests elsewhere.
pub(crate) fn file() -> (TempDir, PathBuf) {
    let tiny = Tiny::new(GgmlDType::Q8_0);
    let file = tiny.file();
    (tiny.folder, file)
}

#[tokio::test]
async fn the_tokenizer_counts_what_the_model_reads_to_the_token() {
    let (_folder, file) = file();
    let model = Embedded::load(&file, TWO).unwrap();
    let counter = Counter::new(vec![model.tokenizer()], false);
    let call = ToolCall::new("c", "any__tool", r#"{"a":"<|im_end|> 12","n":3}"#);
    let messages = [
        ChatMessage::system("Be brief.\n\n"),
        ChatMessage::user("  in 12 tööls <|im_start|> "),
        ChatMessage::assistant(Some("I call.".into()), vec![call]),
        ChatMessage::tool("c", "any__tool", r#"{"status":"success"}"#),
    ];
    for tools in [Arc::from([]), Arc::from([any()])] {
        for (from, to) in [(0, 1), (1, 2), (0, 4), (1, 4)] {
            let request = ChatRequest {
                model: "e".into(),
                messages: messages[from..to].to_vec(),
                tools: Arc::clone(&tools),
                prompt_tokens: 0,
            };
            let answer = model.complete(&request, Sampling { max_tokens: 1, temperature_milli: 0, seed: 1 }).await.unwrap();
            assert_eq!(counter.prompt_tokens(&request), answer.usage.prompt_tokens, "{from}..{to}");
        }
    }
    let many: Arc<[ToolDefinition]> = (0..200).map(|n| ToolDefinition { name: format!("tool-{n}"), ..any() }).collect();
    let request = ChatRequest { model: "e".into(), messages: messages.to_vec(), tools: many, prompt_tokens: 0 };
    assert!(counter.prompt_tokens(&request) > 1_024, "what the model refuses does not count as if it fitted");
}
