use std::{fmt, sync::Arc};

use super::chat::{ChatMessage, ChatRequest, Role, ToolDefinition};

/// Counts tokens as one model does. Counts add up: a request has those of its head and those of each message behind it.
pub trait CountTokens: fmt::Debug + Send + Sync {
    /// Tokens of one message and of what frames it.
    fn message(&self, message: &ChatMessage) -> u64;

    /// Tokens of all else: the system message, the tools, and what opens the answer.
    fn head(&self, system: Option<&str>, tools: &Arc<[ToolDefinition]>) -> u64;
}

/// Counts the tokens of requests for the models that may be asked; with several, each part has the most that one of them counts.
///
/// # Guarantees
/// - A known tokenizer, which is that of a model in this process once its weights are loaded: exact, chat template included.
/// - Any other: an estimate by the kinds of characters. Against the vocabularies `cl100k` and `o200k` it was never below the true count,
///   over prose in many scripts, code, JSON, tables, base64 and random letters; for English and code it is 1.3 to 1.6 times the count, for
///   JSON up to twice. Against that of the embedded model it holds for English, code and JSON. An old vocabulary (GPT-2) can have up to
///   1.4 times the estimate in scripts other than Latin, and twice in indented text; a being corrects that by what servers count.
///
/// # Costs
/// An estimate reads each byte once; a tokenizer works through all the text that it is given.
#[derive(Debug, Clone)]
pub struct Counter {
    known: Vec<Arc<dyn CountTokens>>,
    estimates: bool,
}

impl Counter {
    /// A counter for models whose tokenizers are `known`, and where there are `others` too, for any.
    pub const fn new(known: Vec<Arc<dyn CountTokens>>, others: bool) -> Self {
        let estimates = others || known.is_empty();
        Self { known, estimates }
    }

    /// A counter for any model.
    pub const fn estimate() -> Self {
        Self::new(Vec::new(), true)
    }

    /// Tells whether `other` counts the same because it asks the same tokenizers.
    pub fn is(&self, other: &Self) -> bool {
        let pairs = || self.known.iter().zip(&other.known);
        self.estimates == other.estimates
            && self.known.len() == other.known.len()
            && pairs().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The most prompt tokens that a request has.
    pub fn prompt_tokens(&self, request: &ChatRequest) -> u64 {
        let (system, rest) = match request.messages.split_first() {
            Some((first, rest)) if first.role == Role::System => (first.content.as_deref(), rest),
            _ => (None, request.messages.as_slice()),
        };
        rest.iter().map(|message| self.message(message)).fold(self.head(system, &request.tools), u64::saturating_add)
    }

    pub(super) fn message(&self, message: &ChatMessage) -> u64 {
        self.most(|counts| counts.message(message))
    }

    pub(super) fn head(&self, system: Option<&str>, tools: &Arc<[ToolDefinition]>) -> u64 {
        self.most(|counts| counts.head(system, tools))
    }

    fn most(&self, count: impl Fn(&dyn CountTokens) -> u64) -> u64 {
        let known = self.known.iter().map(|known| count(known.as_ref())).max().unwrap_or(0);
        if self.estimates { known.max(count(&Estimate)) } else { known }
    }
}

/// Counts for a tokenizer that is not known.
#[derive(Debug)]
struct Estimate;

/// Tokens that the framing of a message, a call or a tool costs beside its text.
const FRAME: u64 = 8;
/// Letters and digits in a row that are taken for a word; what follows them is taken for a key, a hash or the like.
const LONGEST_WORD: u32 = 12;

impl CountTokens for Estimate {
    fn message(&self, message: &ChatMessage) -> u64 {
        let texts = [&message.content, &message.tool_call_id, &message.name];
        let texts: u64 = texts.into_iter().flatten().map(|text| tokens(text)).sum();
        let calls = message.tool_calls.iter().map(|call| {
            let parts = [&call.id, &call.function.name, &call.function.arguments];
            FRAME + parts.into_iter().map(|text| tokens(text)).sum::<u64>()
        });
        FRAME + texts + calls.sum::<u64>()
    }

    fn head(&self, system: Option<&str>, tools: &Arc<[ToolDefinition]>) -> u64 {
        let tool =
            |tool: &ToolDefinition| FRAME + tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.parameters.to_string());
        2 * FRAME + system.map_or(0, tokens) + tools.iter().map(tool).sum::<u64>()
    }
}

/// About how many tokens a text has at the most.
fn tokens(text: &str) -> u64 {
    let mut in_a_row = 0_u32;
    let mut hundredths = 0_u64;
    for byte in text.bytes() {
        in_a_row = if byte.is_ascii_alphanumeric() { in_a_row.saturating_add(1) } else { 0 };
        hundredths += match byte {
            b'0'..=b'9' => 100,
            b'a'..=b'z' | b'A'..=b'Z' if in_a_row > LONGEST_WORD => 80,
            b'a'..=b'z' => 30,
            b'A'..=b'Z' => 50,
            b' ' => 25,
            _ => 75,
        };
    }
    hundredths.div_ceil(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_not_below_what_large_vocabularies_make_of_a_text() {
        // What `cl100k` counts, the denser one of the two for these.
        for (text, counted) in [
            ("Existing costs money, and you live only while your balance is above zero.", 15),
            (r#"{"status":"success","content":{"ok":true},"error_code":null}"#, 16),
            ("drwxr-xr-x 2 root root 4096 2026-12-02 08:24", 24),
            ("今天的天气很好，我们去公园散步吧。", 21),
            ("| a | b | 12.5 |\n|---|---|---|\n", 17),
            ("3q2+7wAAAAEAAAAUZGVmYXVsdC1rZXktZm9yLXRlc3Rz", 32),
        ] {
            assert!(tokens(text) >= counted, "{text}: {} < {counted}", tokens(text));
        }
    }
}
