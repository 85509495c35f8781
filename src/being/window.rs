use super::{
    chat::{ChatMessage, ChatRequest, Role, ToolDefinition},
    rules::Rules,
    state::AgentState,
};

/// What part of a conversation a model is shown: the newest messages verbatim, older ones folded (SPEC §4).
///
/// The start moves in big steps, so that the messages of one request begin with those of the last and a model's prefix cache holds.
/// One request costs what the window holds, however long the life.
#[derive(Debug)]
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

    /// Makes the request for the next round: system message, a note about what is folded, the newest messages.
    pub(super) fn request(&mut self, state: &AgentState, rules: &Rules) -> ChatRequest {
        let system = ChatMessage::system(state.mind.system_message());
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

/// The message with at most about `longest` bytes of text: of a longer one the middle is left out.
fn shorten(message: &ChatMessage, longest: usize) -> ChatMessage {
    let mut message = message.clone();
    message.content = message.content.map(|text| cut_middle(text, longest));
    message
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

fn tool_tokens(tool: &ToolDefinition) -> usize {
    (tool.name.len() + tool.description.len() + tool.parameters.to_string().len()) / BYTES_PER_TOKEN + TOKENS_PER_MESSAGE
}
