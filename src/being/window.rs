use std::{collections::VecDeque, sync::Arc};

use super::{
    chat::{ChatMessage, ChatRequest, Role, ToolDefinition},
    event::Event,
    folded::{Folded, MAX_SUMMARY},
    rules::Rules,
    shown::{cut_middle, fitting_tools, shorten},
    state::AgentState,
    tokens::Counter,
};

/// What a model is sent always fits its window: the newest messages verbatim, older ones folded into a summary (SPEC §4).
///
/// **Flow.** Before each request [`Window::fold`] says which messages leave the conversation; once that fact is applied,
/// [`Window::request`] makes the request: system message, note of what is folded, conversation.
///
/// **Guarantees.** The prompt has, as the [`Counter`] of the rules counts it, no more tokens than the window leaves beside an answer, from
/// windows of some 300 tokens on. A call and its results are folded together or not at all. What is folded makes about half the room free,
/// so that the requests between two folds begin alike and a model's prefix cache holds. Where the newest exchange alone is too long, the
/// middle of its longest texts is left out; where a mind or a catalogue is, the same is done to them.
///
/// **Learns** from the models, for this process: that a request was too long halves the room; where a server counts more tokens than
/// [`Counter`] does, the room shrinks by that ratio.
///
/// **Costs.** Each message is counted once; a request costs what the window holds, however long the life.
#[derive(Debug, Clone)]
pub(super) struct Window {
    counts: Counts,
    opening: Option<Arc<Opening>>,
    /// The most prompt tokens that are tried, since a model said that more is too long.
    most: u64,
    /// Tokens that a server counts for a thousand that are counted here.
    per_thousand: u64,
    /// The tokens of the newest request, as they are counted here.
    asked: u64,
}

/// The least prompt that is tried after a model said that one was too long.
const LEAST_PROMPT: u64 = 64;
/// The least bytes of a text that is cut.
const LEAST_TEXT: usize = 16;
/// Servers that count more than this many tokens for a thousand are not believed.
const MAX_PER_THOUSAND: u64 = 4_000;
/// In what steps the ratio is kept, so that it rests.
const STEP_PER_THOUSAND: u64 = 50;

/// What stands before the conversation, cut where it would not leave room, with the tokens of head and note.
#[derive(Debug)]
struct Opening {
    made_of: Making,
    system: String,
    tools: Arc<[ToolDefinition]>,
    head: u64,
    note: Option<ChatMessage>,
    noted: u64,
}

/// What an opening is made of; while it stays the same, nothing is made or counted anew.
#[derive(Debug)]
struct Making {
    mind: String,
    tools: Arc<[ToolDefinition]>,
    counter: Counter,
    /// Tokens that the prompt may have.
    room: u64,
    /// Messages of the life that are folded.
    folded: u64,
}

/// The tokens of each message of the conversation, as it is shown.
#[derive(Debug, Clone)]
struct Counts {
    counter: Counter,
    /// The most bytes of a text that is shown.
    longest: usize,
    /// How many messages of the life were folded before the first.
    folded: u64,
    each: VecDeque<u64>,
    total: u64,
}

impl Window {
    /// A window of which nothing is learnt yet.
    pub(super) const fn new() -> Self {
        Self { counts: Counts::new(Counter::estimate(), 0), opening: None, most: u64::MAX, per_thousand: 1_000, asked: 0 }
    }

    /// Learns that the newest request was too long; false when no shorter one is worth a try.
    pub(super) fn shrink(&mut self, rules: &Rules) -> bool {
        let half = self.room(rules).min(self.asked) / 2;
        let may = half >= LEAST_PROMPT;
        if may {
            self.most = half;
        }
        may
    }

    /// Gives back a quarter of what [`Self::shrink`] took: the model may be another by now.
    pub(super) const fn widen(&mut self) {
        self.most = self.most.saturating_add(self.most / 4);
    }

    /// The most tokens that a server may count in the newest request, by what is learnt of it.
    pub(super) fn most_counted(&self) -> u64 {
        self.asked.saturating_mul(self.per_thousand).div_ceil(1_000)
    }

    /// Learns how many tokens a server counted in the newest request. What it had more than was counted here is believed at once,
    /// that it had less by halves and never below what is counted here.
    pub(super) fn learn(&mut self, prompt_tokens: u64) {
        let measured = prompt_tokens.saturating_mul(1_000) / self.asked.max(1);
        let measured = measured.clamp(1_000, MAX_PER_THOUSAND).next_multiple_of(STEP_PER_THOUSAND);
        let half_way = u64::midpoint(measured, self.per_thousand) / STEP_PER_THOUSAND * STEP_PER_THOUSAND;
        self.per_thousand = measured.max(half_way);
    }

    /// Says which messages must leave the conversation before the next request; `None` while everything fits.
    pub(super) fn fold(&mut self, state: &AgentState, rules: &Rules) -> Option<Event> {
        let opening = self.open(state, rules);
        if self.counts.total <= opening.left() {
            return None;
        }
        let left = opening.made_of.room.saturating_sub(opening.head).saturating_sub(most_of_note(opening.made_of.room));
        let leaving = self.leaving(&state.conversation, left);
        let messages = state.conversation.get(..leaving).filter(|leaving| !leaving.is_empty())?;
        let longest = bytes(u64::from(rules.context_tokens) / 2).min(MAX_SUMMARY);
        Some(Event::Folded { messages: wide(leaving), summary: state.folded.with(messages, longest) })
    }

    /// How many of the oldest messages leave, so that the rest takes half of `left`: whole exchanges, and all but the newest one, as long as
    /// that can be cut to fit.
    fn leaving(&self, conversation: &[ChatMessage], left: u64) -> usize {
        let mut rest = self.counts.total;
        let mut newest = 0;
        for (at, (message, count)) in conversation.iter().zip(&self.counts.each).enumerate() {
            if message.role != Role::Tool {
                newest = at;
                if rest <= left / 2 {
                    return at;
                }
            }
            rest = rest.saturating_sub(*count);
        }
        let exchange = conversation.get(newest..).unwrap_or_default();
        let least: u64 = exchange.iter().map(|message| self.counts.counter.message(&shorten(message, LEAST_TEXT))).sum();
        if least <= left { newest } else { conversation.len() }
    }

    /// Makes the request for the next round, of the state alone.
    pub(super) fn request(&mut self, state: &AgentState, rules: &Rules) -> ChatRequest {
        let opening = self.open(state, rules);
        let (shown, tokens) = self.counts.shown(&state.conversation, opening.left());
        self.asked = opening.head.saturating_add(opening.noted).saturating_add(tokens);
        let system = ChatMessage::system(&opening.system);
        let messages = [system].into_iter().chain(opening.note.clone()).chain(shown).collect();
        let (model, tools) = (state.mind.current_model.clone(), Arc::clone(&opening.tools));
        ChatRequest { model, messages, tools, prompt_tokens: self.most_counted() }
    }

    /// Counts what is new, and yields what stands before it.
    fn open(&mut self, state: &AgentState, rules: &Rules) -> Arc<Opening> {
        let room = self.room(rules);
        self.counts.follow(state, &rules.counter, bytes(room.saturating_add(room / 2)));
        let (counter, tools) = (rules.counter.clone(), Arc::clone(&rules.tools));
        let made_of = Making { mind: state.mind.system_message(), tools, counter, room, folded: state.folded.messages };
        let opening = match self.opening.take().filter(|opening| opening.made_of.is(&made_of)) {
            Some(opening) => opening,
            None => Arc::new(Opening::of(made_of, &state.folded)),
        };
        Arc::clone(self.opening.insert(opening))
    }

    /// Tokens that a prompt may have, as they are counted here.
    fn room(&self, rules: &Rules) -> u64 {
        let window = u64::from(rules.context_tokens);
        let answer = u64::from(rules.max_tokens).min(window / 2);
        ((window - answer) * 1_000 / self.per_thousand).min(self.most)
    }
}

/// Tokens that the note of what is folded may have.
const fn most_of_note(room: u64) -> u64 {
    room / 8 + 32
}

impl Making {
    fn is(&self, other: &Self) -> bool {
        (self.room, self.folded, &self.mind) == (other.room, other.folded, &other.mind)
            && Arc::ptr_eq(&self.tools, &other.tools)
            && self.counter.is(&other.counter)
    }

    /// The catalogue in half of the room.
    fn catalogue(&self) -> Arc<[ToolDefinition]> {
        fitting_tools(&self.tools, |tools| self.counter.head(None, tools) <= self.room / 2)
    }

    /// The mind beside `tools` in five eighths of the room.
    fn system(&self, tools: &Arc<[ToolDefinition]>) -> (String, u64) {
        let mut longest = self.mind.len();
        loop {
            let system = cut_middle(&self.mind, longest);
            let tokens = self.counter.head(Some(&system), tools);
            if tokens <= self.room / 8 * 5 || longest <= LEAST_TEXT {
                return (system, tokens);
            }
            longest -= longest / 4;
        }
    }

    /// What stands in the place of the folded messages, in its part of the room.
    fn note(&self, folded: &Folded) -> Option<(ChatMessage, u64)> {
        let mut longest = MAX_SUMMARY;
        loop {
            let note = folded.note(longest)?;
            let tokens = self.counter.message(&note);
            if tokens <= most_of_note(self.room) || longest <= LEAST_TEXT {
                return Some((note, tokens));
            }
            longest -= longest / 4;
        }
    }
}

impl Opening {
    fn of(made_of: Making, folded: &Folded) -> Self {
        let tools = made_of.catalogue();
        let (system, head) = made_of.system(&tools);
        let (note, noted) = made_of.note(folded).unzip();
        Self { made_of, system, tools, head, note, noted: noted.unwrap_or(0) }
    }

    /// Tokens that are left for the conversation.
    fn left(&self) -> u64 {
        self.made_of.room.saturating_sub(self.head).saturating_sub(self.noted)
    }
}

impl Counts {
    const fn new(counter: Counter, longest: usize) -> Self {
        Self { counter, longest, folded: 0, each: VecDeque::new(), total: 0 }
    }

    /// Forgets what was folded since and counts what was said since; everything anew, when it is counted or shown otherwise.
    fn follow(&mut self, state: &AgentState, counter: &Counter, longest: usize) {
        if !self.counter.is(counter) || self.longest != longest {
            *self = Self::new(counter.clone(), longest);
        }
        let gone = state.folded.messages.saturating_sub(self.folded);
        let gone = usize::try_from(gone).unwrap_or(usize::MAX).min(self.each.len());
        self.folded = state.folded.messages;
        self.total = self.total.saturating_sub(self.each.drain(..gone).sum());
        for message in state.conversation.iter().skip(self.each.len()) {
            let count = counter.message(&shorten(message, longest));
            self.each.push_back(count);
            self.total = self.total.saturating_add(count);
        }
    }

    /// The conversation as a model is shown it in `left` tokens, and how many it has.
    fn shown(&self, conversation: &[ChatMessage], left: u64) -> (Vec<ChatMessage>, u64) {
        let (mut longest, mut total) = (self.longest, self.total);
        loop {
            let shown: Vec<_> = conversation.iter().map(|message| shorten(message, longest)).collect();
            if longest < self.longest {
                total = shown.iter().map(|message| self.counter.message(message)).fold(0, u64::saturating_add);
            }
            if total <= left || longest <= LEAST_TEXT {
                return (shown, total);
            }
            longest = (longest - longest / 4).max(LEAST_TEXT);
        }
    }
}

fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
