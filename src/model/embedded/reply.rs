use super::{
    chat::CALL_OPEN,
    forward::{Cancelled, Engine},
    grammar::{Machine, State},
    sample::Sampler,
    token::Vocabulary,
};
use crate::model::embedded::cache::Cache;
use std::sync::atomic::AtomicBool;

/// With so few tokens left, a call is brought to its end.
const CLOSING: usize = 48;

/// What the model wrote.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) text: Vec<u8>,
    pub(super) tokens: u64,
    pub(super) end: End,
}

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Plain text, ended by the model.
    Text,
    /// A whole call; the text is what follows the opener, as far as the end of the arguments.
    Call,
    /// Cut off.
    Length,
}

/// What may be written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bounds<'a> {
    /// Anything.
    Free,
    /// Text that does not begin like a call.
    NoCall,
    /// Text, or a call that the machine allows; the first token decides.
    Calls(&'a Machine),
}

/// Where a reply stands.
#[derive(Debug, Clone)]
enum Stage {
    /// So many bytes of the opener were written, and nothing else.
    Open(usize),
    Text,
    Call(State),
}

/// Writes one reply behind what `cache` holds.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) words: &'a Vocabulary,
    pub(super) cache: &'a mut Cache,
    pub(super) cancel: &'a AtomicBool,
    pub(super) most: usize,
}

impl Writer<'_> {
    /// Writes from `logits` on, until the reply ends or is cut off.
    pub(super) fn write(&mut self, logits: Vec<f32>, bounds: Bounds<'_>, sampler: &mut Sampler) -> Result<Reply, Cancelled> {
        let mut logits = logits;
        let mut reply = Reply { text: Vec::new(), tokens: 0, end: End::Length };
        let mut stage = Stage::Open(0);
        for left in (0..self.most).rev() {
            let drawn = draw(&logits, self.words, bounds, &stage, left < CLOSING, sampler);
            reply.tokens += 1;
            let Some((token, next)) = drawn else { break };
            let Some(next) = next else {
                reply.end = End::Text;
                break;
            };
            reply.text.extend_from_slice(self.words.bytes(token));
            if matches!(&next, Stage::Call(state) if state.is_over()) {
                reply.end = End::Call;
                reply.text.drain(..CALL_OPEN.len().min(reply.text.len()));
                break;
            }
            stage = next;
            if left > 0 {
                logits = self.engine.read(&[token], self.cache, self.cancel)?.to_vec();
            }
        }
        Ok(reply)
    }
}

type Drawn = (u32, Option<Stage>);

/// Draws the next token and says where the reply then stands; `None` as stage is the end of the reply, `None` at all is a dead end.
fn draw(
    logits: &[f32],
    words: &Vocabulary,
    bounds: Bounds<'_>,
    stage: &Stage,
    closing: bool,
    sampler: &mut Sampler,
) -> Option<Drawn> {
    let Stage::Call(state) = stage else {
        let possible = |token| !words.bytes(token).is_empty() || (words.ends(token) && !matches!(stage, Stage::Open(0)));
        return sampler.draw(logits, possible, |token| match words.ends(token) {
            true => Some(None),
            false => advance(stage, words.bytes(token), bounds).map(Some),
        });
    };
    let Bounds::Calls(machine) = bounds else { return None };
    let first = first_bytes(machine, state, closing);
    let possible = |token| words.bytes(token).first().is_some_and(|byte| first.get(usize::from(*byte)).copied().unwrap_or(false));
    sampler.draw(logits, possible, |token| machine.steps(state, words.bytes(token)).map(|state| Some(Stage::Call(state))))
}

/// The bytes with which a call can go on: all, or when it is to end, the one that ends most.
fn first_bytes(machine: &Machine, state: &State, closing: bool) -> [bool; 256] {
    let first: [bool; 256] = std::array::from_fn(|i| u8::try_from(i).is_ok_and(|byte| machine.step(state, byte).is_some()));
    let may = |byte: &&u8| first.get(usize::from(**byte)).copied().unwrap_or(false);
    let within_text = may(&&b'a');
    let ends: &[u8] = if within_text { b"\"" } else { b"}]\"" };
    match ends.iter().find(may) {
        Some(byte) if closing => std::array::from_fn(|i| i == usize::from(*byte)),
        _ => first,
    }
}

/// Where the reply stands after `bytes`, when they may be written.
fn advance(stage: &Stage, bytes: &[u8], bounds: Bounds<'_>) -> Option<Stage> {
    let mut stage = stage.clone();
    for (i, byte) in bytes.iter().enumerate() {
        stage = match stage {
            Stage::Text => return Some(Stage::Text),
            Stage::Open(matched) if CALL_OPEN.as_bytes().get(matched) != Some(byte) => return Some(Stage::Text),
            Stage::Open(matched) if matched + 1 < CALL_OPEN.len() => Stage::Open(matched + 1),
            Stage::Open(_) => match bounds {
                Bounds::Free => return Some(Stage::Text),
                Bounds::NoCall => return None,
                Bounds::Calls(machine) => Stage::Call(machine.start()),
            },
            Stage::Call(state) => match bounds {
                Bounds::Calls(machine) => return machine.steps(&state, bytes.get(i..)?).map(Stage::Call),
                _ => return None,
            },
        };
    }
    Some(stage)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::model::embedded::weights;
    use serde_json::{Value, json};

    /// Lets chance write calls: whatever is drawn, the call is whole and validates, and few tokens left bring it to its end.
    #[test]
    fn whatever_is_drawn_a_call_is_whole_and_validates() {
        let file = crate::model::embedded::tests::tiny::file();
        let (content, _) = weights::read(&file.1, NonZeroUsize::MIN).unwrap();
        let words = Vocabulary::read(&file.1, &content).unwrap();
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer", "minimum": 5, "maximum": 12}, "tags": {"type": "array", "items": {"enum": ["ab", "too"]}}}, "required": ["path", "n"], "additionalProperties": false});
        let machine = Machine::of_calls([("files__write", &schema)].into_iter(), "[{\"name\": ", ", \"arguments\": ").unwrap();
        let check = jsonschema::validator_for(&schema).unwrap();
        for seed in 0..60 {
            let mut sampler = Sampler::new(1_000, seed);
            let (mut stage, mut text) = (Stage::Call(machine.start()), Vec::new());
            let logits = vec![0.0; words.len()];
            for written in 0..400 {
                let (token, next) = draw(&logits, &words, Bounds::Calls(&machine), &stage, written > 60, &mut sampler).unwrap();
                text.extend_from_slice(words.bytes(token));
                stage = next.unwrap();
                if matches!(&stage, Stage::Call(state) if state.is_over()) {
                    break;
                }
            }
            let text = format!("{}}}]", String::from_utf8(text).unwrap());
            let calls: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(check.is_valid(&calls[0]["arguments"]) && calls[0]["name"] == "files__write", "{text}");
        }
    }

    #[test]
    fn only_text_that_is_exactly_the_opener_becomes_a_call() {
        let schema = json!({"type": "object"});
        let machine = Machine::of_calls([("t", &schema)].into_iter(), "[{\"name\": ", ", \"arguments\": ").unwrap();
        let after = |text: &str, bounds| advance(&Stage::Open(0), text.as_bytes(), bounds);
        assert!(matches!(after("<tool", Bounds::Calls(&machine)), Some(Stage::Open(5))));
        assert!(matches!(after("<tool_call>", Bounds::Calls(&machine)), Some(Stage::Call(_))));
        assert!(matches!(after("<tool_call>[{", Bounds::Calls(&machine)), Some(Stage::Call(_))));
        assert!(after("<tool_call>x", Bounds::Calls(&machine)).is_none());
        assert!(matches!(after("<toolbox>", Bounds::Calls(&machine)), Some(Stage::Text)));
        assert!(after("<tool_call>", Bounds::NoCall).is_none());
        assert!(matches!(after("<tool_call>x", Bounds::Free), Some(Stage::Text)));
    }
}
