#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde::Deserialize;

use super::{Embedding, EmbeddingError, Encoder};
use crate::model::pull;

/// The real weights under `target/models`; fetched when they are missing, skipped when that fails outside CI.
fn file() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/models");
        match pull::EMBEDDING.pull(&models, &mut |_| {}) {
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

fn encoder() -> Option<&'static Encoder> {
    static ENCODER: OnceLock<Option<Encoder>> = OnceLock::new();
    ENCODER.get_or_init(|| Some(Encoder::load(file()?).unwrap())).as_ref()
}

/// What `reference.py` computed from the same weights in full precision.
#[derive(Deserialize)]
struct Reference {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

fn references() -> Vec<Reference> {
    serde_json::from_str(include_str!("tests/reference.json")).unwrap()
}

#[test]
fn a_text_has_the_tokens_and_the_meaning_that_the_model_was_trained_to_give() {
    let Some(encoder) = encoder() else { return };
    for Reference { text, ids, vector } in references() {
        assert_eq!(encoder.tokens(&text).unwrap(), ids[1..ids.len() - 1], "{text}");
        let found = encoder.encode(&text).unwrap();
        assert_eq!(found.tokens, ids.len());
        let cosine = found.cosine(&Embedding::of(vector));
        eprintln!("{cosine:.6} {text}");
        assert!(cosine > 0.999, "{cosine} {text}");
        assert!((found.cosine(&found) - 1.0).abs() < 1e-6, "a vector has the length 1");
    }
}

#[test]
fn near_meanings_are_near_and_far_ones_far() {
    let Some(encoder) = encoder() else { return };
    let [said, meant, other, ..] = &references()[..] else { panic!("three texts") };
    let of = |text: &str| encoder.encode(text).unwrap();
    let (near, far) = (of(&said.text).cosine(&of(&meant.text)), of(&said.text).cosine(&of(&other.text)));
    assert!((near - 0.712).abs() < 0.02 && (far - 0.030).abs() < 0.02, "{near} {far}");
}

#[test]
fn the_end_of_a_long_text_counts_and_one_without_end_is_refused() {
    let Some(encoder) = encoder() else { return };
    let start = "The harbour lies still in the morning fog. ".repeat(40);
    let (calm, storm) = (encoder.encode(&start).unwrap(), encoder.encode(&format!("{start}Refund my invoice!")).unwrap());
    assert!(calm.tokens > 256 && calm.cosine(&storm) < 0.999_9, "{} tokens, {}", calm.tokens, calm.cosine(&storm));
    let endless = encoder.encode(&"word ".repeat(9_000)).unwrap_err();
    assert!(matches!(endless, EmbeddingError::TooLong { needed: 9_000, most: 8_128 }), "{endless}");
    assert!(matches!(encoder.encode(" \n").unwrap_err(), EmbeddingError::Empty));
}

#[test]
fn text_never_becomes_a_control_token() {
    let Some(encoder) = encoder() else { return };
    let marks = encoder.tokens("a [SEP] b [CLS] [PAD]").unwrap();
    assert!(!marks.iter().any(|token| [0, 101, 102].contains(token)), "{marks:?}");
}

#[test]
fn files_that_are_no_model_are_refused_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    assert!(matches!(Encoder::load(&path).unwrap_err(), EmbeddingError::Unreadable { .. }));
    fs::copy("/proc/self/status", &path).unwrap();
    assert!(matches!(Encoder::load(&path).unwrap_err(), EmbeddingError::NotSafetensors { .. }));
    let none = candle_core::safetensors::save(&std::collections::HashMap::<&str, candle_core::Tensor>::new(), &path);
    none.unwrap();
    let unfit = Encoder::load(&path).unwrap_err();
    assert!(matches!(&unfit, EmbeddingError::Unfit { why, .. } if why.contains("word_embeddings")), "{unfit}");
    let Some(file) = file() else { return };
    let lonely = folder.path().join("lonely.safetensors");
    std::os::unix::fs::symlink(file, &lonely).unwrap();
    let unread = Encoder::load(&lonely).unwrap_err();
    assert!(matches!(&unread, EmbeddingError::Unreadable { path, .. } if path.ends_with("tokenizer.json")), "{unread}");
}
