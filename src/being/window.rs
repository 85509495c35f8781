use serde_json::{Map, Value, json};

use super::{
    chat::{ChatMessage, ChatRequest, FunctionCall, Role, ToolDefinition},
    rules::Rules,
    state::AgentState,
};

/// What part of a conversation a model is shown: the newest messages verbatim, older ones folded (SPEC §4).
///
/// The start moves in big steps, so that the messages of one request begin with those of the last and a model's prefix cache holds.
/// One request costs what the window holds, however long the life.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// Messages before this index are folded.
    start: usize,
    /// Halvings of the room, after a model said that a request was too long.
    shrinks: u32,
}

/// Bytes of text that a token stands for at the least, on average: a cautious bound for many languages and tokenizers.
const BYTES_PER_TOKEN: usize = 3;
/// Tokens that the framing of a message costs beside its text.
const TOKENS_PER_MESSAGE: usize = 8;
/// Tokens that the conversation gets, however large the rest is.
const LEAST_ROOM: usize = 256;
/// How often the room may be halved.
const MAX_SHRINKS: u32 = 4;

impl Window {
    /// A window on everything.
    pub(super) const fn new() -> Self {
        Self { start: 0, shrinks: 0 }
    }

    /// Halves the room; false when it was halved often enough.
    pub(super) const fn shrink(&mut self) -> bool {
        let may = self.shrinks < MAX_SHRINKS;
        if may {
            self.shrinks += 1;
        }
        may
    }

    /// Gives the room back that was halved away.
    pub(super) const fn widen(&mut self) {
        self.shrinks = 0;
    }

    /// Makes the request for the next round: system message, a note about what is folded, the newest messages.
    pub(super) fn request(&mut self, state: &AgentState, rules: &Rules) -> ChatRequest {
        let window = usize::try_from(rules.context_tokens).unwrap_or(usize::MAX);
        let longest_system = (window / 2).saturating_mul(BYTES_PER_TOKEN);
        let system = ChatMessage::system(cut_middle(state.mind.system_message(), longest_system));
        let room = self.room(&system, rules);
        self.start = fold(&state.conversation, self.start, room);
        let shown = state.conversation.get(self.start..).unwrap_or_default();
        let longest = (room / 2).max(LEAST_ROOM / 2) * BYTES_PER_TOKEN;
        let mut messages = vec![system];
        messages.extend((self.start > 0).then(|| note(self.start)));
        messages.extend(shown.iter().map(|message| shorten(message, longest)));
        ChatRequest { model: state.mind.current_model.clone(), messages, tools: rules.tools.clone() }
    }

    fn room(&self, system: &ChatMessage, rules: &Rules) -> usize {
        let window = usize::try_from(rules.context_tokens).unwrap_or(usize::MAX);
        let answer = usize::try_from(rules.max_tokens).unwrap_or(usize::MAX).min(window / 2);
        let tools: usize = rules.tools.iter().map(tool_tokens).sum();
        let taken = answer.saturating_add(tokens(system)).saturating_add(tools);
        (window.saturating_sub(taken) >> self.shrinks).max(LEAST_ROOM)
    }
}

/// Where to start so that the rest fits `room`: where it started if that still fits, else so that half the room is free.
fn fold(conversation: &[ChatMessage], start: usize, room: usize) -> usize {
    let longest = room / 2;
    let sizes = || conversation.iter().enumerate().skip(start).map(|(at, message)| (at, message, tokens(message).min(longest)));
    let total: usize = sizes().map(|(.., size)| size).sum();
    if total <= room {
        return start;
    }
    let mut left = total;
    let mut latest = start;
    for (at, message, size) in sizes() {
        if message.role != Role::Tool {
            latest = at;
            if left <= room / 2 {
                return at;
            }
        }
        left -= size;
    }
    latest
}

fn note(folded: usize) -> ChatMessage {
    ChatMessage::user(format!(
        "[{folded} older messages of this conversation are folded away. Your rules, learnings and memories above hold what you kept of them.]"
    ))
}

/// The message as a model is shown it, with at most about `longest` bytes in each of its texts. The middle of a longer text is left
/// out; a call that is no sound one (a name that is none, arguments that are no JSON object) is shown as one that servers accept.
fn shorten(message: &ChatMessage, longest: usize) -> ChatMessage {
    let mut message = message.clone();
    message.content = message.content.map(|text| cut_middle(text, longest));
    for call in &mut message.tool_calls {
        let FunctionCall { name, arguments } = &mut call.function;
        if !is_name(name) {
            *name = "unknown".to_owned();
        }
        if serde_json::from_str::<Map<String, Value>>(arguments).is_err() {
            *arguments = "{}".to_owned();
        } else if arguments.len() > longest {
            *arguments = json!({ "bytes_left_out": arguments.len() }).to_string();
        }
    }
    message
}

/// What chat completions take for the name of a function.
fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn cut_middle(text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let head = text.floor_char_boundary(longest * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - longest / 3);
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{head}\n[… {} bytes left out …]\n{tail}", text.len() - head.len() - tail.len())
}

fn tokens(message: &ChatMessage) -> usize {
    let calls: usize = message.tool_calls.iter().map(|call| call.function.name.len() + call.function.arguments.len()).sum();
    (message.content.as_deref().map_or(0, str::len) + calls) / BYTES_PER_TOKEN + TOKENS_PER_MESSAGE
}

/// Tokens that a request may be counted as, at the most.
pub(super) fn prompt_tokens(request: &ChatRequest) -> u64 {
    let messages: usize = request.messages.iter().map(tokens).sum();
    let tools: usize = request.tools.iter().map(tool_tokens).sum();
    u64::try_from(messages.saturating_add(tools)).unwrap_or(u64::MAX)
}

fn tool_tokens(tool: &ToolDefinition) -> usize {
    (tool.name.len() + tool.description.len() + tool.parameters.to_string().len()) / BYTES_PER_TOKEN + TOKENS_PER_MESSAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::being::{Retry, ToolCall, testing};
    use crate::vocab::Usd;

    fn rules(context_tokens: u32) -> Rules {
        Rules {
            max_tool_rounds: 8,
            instance_usd_per_hour: Usd::ZERO,
            stimulus: None,
            tools: Vec::new().into(),
            context_tokens,
            max_tokens: 64,
            retry: Retry::default(),
            limits: crate::being::Limits::default(),
            offers: Vec::new().into(),
        }
    }

    #[test]
    fn a_call_that_no_server_accepts_is_kept_in_the_state_and_shown_as_one_that_is_accepted() {
        let mut state = testing::state();
        let long = json!({ "content": "x".repeat(1 << 20) }).to_string();
        let calls = [("a b", "{}"), ("", "{\"cut"), ("ok", "[1]"), ("ok", long.as_str())];
        let calls: Vec<ToolCall> = calls.into_iter().map(|(name, arguments)| ToolCall::new("c", name, arguments)).collect();
        state.conversation.push(ChatMessage::assistant(None, calls.clone()));
        let shown = Window::new().request(&state, &rules(8_192)).messages.pop().unwrap().tool_calls;
        let told: Vec<_> = shown.iter().map(|call| (call.function.name.as_str(), call.function.arguments.as_str())).collect();
        assert_eq!(told[..3], [("unknown", "{}"), ("unknown", "{}"), ("ok", "{}")]);
        assert!(told[3].1.len() < 64, "{}", told[3].1);
        assert_eq!(state.conversation[0].tool_calls, calls, "the state keeps what was said");
    }

    #[test]
    fn a_mind_that_outgrew_the_window_can_still_think() {
        let mut state = testing::state();
        state.mind.rules = vec!["Never forget this rule.".repeat(100); 200];
        state.conversation.push(ChatMessage::user("Begin."));
        let request = Window::new().request(&state, &rules(2_048));
        let bytes: usize = request.messages.iter().filter_map(|message| message.content.as_deref().map(str::len)).sum();
        assert!(bytes < 2_048 * BYTES_PER_TOKEN, "{bytes}");
        assert_eq!(request.messages.last().and_then(|message| message.content.as_deref()), Some("Begin."));
    }
}
