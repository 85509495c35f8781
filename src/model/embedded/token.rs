use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value};
use tokenizers::{
    Tokenizer,
    models::bpe::{BPE, Vocab},
    pre_tokenizers::{PreTokenizerWrapper, byte_level::ByteLevel, digits::Digits, sequence::Sequence},
};

use super::error::EmbeddedError;

/// The vocabulary of a model: text to tokens, tokens to bytes.
///
/// Control tokens are never found in text: a message that spells one out is read as the characters it has.
#[derive(Debug)]
pub(super) struct Vocabulary {
    bpe: Tokenizer,
    /// What each token writes; empty for control tokens.
    bytes: Vec<Box<[u8]>>,
    /// Opens a message.
    pub(super) open: u32,
    /// Closes a message, and an answer.
    pub(super) close: u32,
    /// Ends an answer as well.
    pub(super) end: u32,
}

impl Vocabulary {
    pub(super) fn read(path: &Path, content: &Content) -> Result<Self, EmbeddedError> {
        let unfit = |why: String| EmbeddedError::Unfit { path: path.to_owned(), why };
        let text = |key: &str| content.metadata.get(key).and_then(|value| value.to_string().ok()).map(String::as_str);
        if text("tokenizer.ggml.model") != Some("gpt2") {
            return Err(unfit("its tokenizer is not byte-level BPE (`gpt2`)".into()));
        }
        let kind = text("tokenizer.ggml.pre").unwrap_or("default");
        let Some(split) = split(kind) else { return Err(unfit(format!("its pre-tokenizer `{kind}` is not known here"))) };
        let tokens = strings(content, "tokenizer.ggml.tokens").map_err(unfit)?;
        let merges = strings(content, "tokenizer.ggml.merges").map_err(unfit)?;
        let find = |token: &str| tokens.iter().position(|t| t == token).and_then(|i| u32::try_from(i).ok());
        let marks = (find("<|im_start|>"), find("<|im_end|>"));
        let (Some(open), Some(close)) = marks else { return Err(unfit("its chat format is not ChatML".into())) };
        let end = content.metadata.get("tokenizer.ggml.eos_token_id").and_then(|id| id.to_u32().ok());
        let end = end.or_else(|| find("<|endoftext|>")).unwrap_or(close);
        let bytes = spellings(content, &tokens);
        let pairs = merges.iter().filter_map(|merge| merge.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        let vocabulary: Vocab = (0..).zip(tokens).map(|(id, token)| (token, id)).collect();
        let bpe = BPE::builder().vocab_and_merges(vocabulary, pairs).build();
        let mut bpe = Tokenizer::new(bpe.map_err(|error| unfit(format!("its merges do not fit its tokens ({error})")))?);
        bpe.with_pre_tokenizer(Some(split));
        Ok(Self { bpe, bytes, open, close, end })
    }

    /// Turns text into tokens and appends them.
    pub(super) fn encode(&self, text: &str, into: &mut Vec<u32>) -> Result<(), EmbeddedError> {
        let encoding = self.bpe.encode(text, false).map_err(EmbeddedError::Untokenised)?;
        into.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// What a token writes; nothing for control tokens.
    pub(super) fn bytes(&self, token: u32) -> &[u8] {
        usize::try_from(token).ok().and_then(|i| self.bytes.get(i)).map_or(&[], |bytes| bytes)
    }

    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a token ends an answer.
    pub(super) const fn ends(&self, token: u32) -> bool {
        token == self.close || token == self.end
    }
}

/// How text is cut before the merges, by the name that GGUF files use.
fn split(kind: &str) -> Option<PreTokenizerWrapper> {
    let bytes = ByteLevel::new(false, true, true);
    match kind {
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => {
            Some(Sequence::new(vec![Digits::new(true).into(), bytes.into()]).into())
        }
        "gpt-2" | "gpt2" | "mpt" | "olmo" => Some(bytes.into()),
        _ => None,
    }
}

fn strings(content: &Content, key: &str) -> Result<Vec<String>, String> {
    let list =
        content.metadata.get(key).and_then(|value| value.to_vec().ok()).ok_or_else(|| format!("it does not list `{key}`"))?;
    list.iter().map(|item| item.to_string().cloned().map_err(|_| format!("`{key}` holds something other than text"))).collect()
}

/// What each token writes: byte-level BPE spells every byte as one printable character.
fn spellings(content: &Content, tokens: &[String]) -> Vec<Box<[u8]>> {
    let kinds = content.metadata.get("tokenizer.ggml.token_type").and_then(|value| value.to_vec().ok());
    let normal = |i: usize| {
        let kind = kinds.and_then(|kinds| kinds.get(i));
        kind.is_none_or(|kind| matches!(kind, Value::I32(1) | Value::U32(1) | Value::I32(6) | Value::U32(6)))
    };
    let spell = |(i, token): (usize, &String)| match normal(i) {
        true => token.chars().filter_map(byte_of).collect(),
        false => Box::default(),
    };
    tokens.iter().enumerate().map(spell).collect()
}

/// The byte that a character stands for: itself where printable, else the nth other byte is 256 + n.
fn byte_of(c: char) -> Option<u8> {
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    match u8::try_from(u32::from(c)) {
        Ok(byte) => printable(byte).then_some(byte),
        Err(_) => {
            let n = usize::try_from(u32::from(c).checked_sub(256)?).ok()?;
            (0..=u8::MAX).filter(|b| !printable(*b)).nth(n)
        }
    }
}
