use serde::{Deserialize, Serialize};

use super::{
    chat::{ChatMessage, Role},
    framing::framed_cycle,
    outcome::Status,
    shown::cut_end,
};

/// What of a conversation is folded away: the journal has it to the letter, the state has this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folded {
    /// Folded messages of the whole life.
    pub messages: u64,
    /// The newest folded cycles, a line each: its number, its calls as `tool:status`, how its closing reply began.
    pub summary: String,
}

/// The longest summary in bytes, however large the window is.
pub(super) const MAX_SUMMARY: usize = 4_096;

const CYCLE: &str = "Cycle ";
/// The most bytes of a line without its reply, and with it.
const MAX_DONE: usize = 240;
const MAX_LINE: usize = 400;
/// The most bytes that are told of a closing reply, and of a tool's name.
const MAX_SAID: usize = 140;
const MAX_NAME: usize = 64;
/// What is kept free for the sentence about cycles that are left out.
const LEFT_OUT: usize = 56;
/// The least bytes in which a summary says anything.
const LEAST_SUMMARY: usize = 96;

impl Folded {
    /// Tells whether nothing was ever folded.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The summary, in about `longest` bytes, once `messages` are folded too. It is made of the text alone: no model is asked, so it
    /// costs nothing and cannot fail, and it takes time for what is folded and no more.
    pub(super) fn with(&self, messages: &[ChatMessage], longest: usize) -> String {
        let mut lines: Vec<String> = self.lines().map(str::to_owned).collect();
        for message in messages {
            let text = message.content.as_deref().unwrap_or_default();
            match message.role {
                Role::User => lines.extend(framed_cycle(text).map(|cycle| format!("{CYCLE}{cycle}:"))),
                Role::Tool => add(&mut lines, &done(message, text), MAX_DONE),
                Role::Assistant if message.tool_calls.is_empty() && !text.trim().is_empty() => {
                    add(&mut lines, &format!("said: {}", one_line(text, MAX_SAID)), MAX_LINE);
                }
                Role::Assistant | Role::System => {}
            }
        }
        newest(&lines, longest)
    }

    /// What a model is told in the place of the folded messages, with about `longest` bytes of summary, or none where those are too few.
    pub(super) fn note(&self, longest: usize) -> Option<ChatMessage> {
        let lines: Vec<String> = self.lines().map(str::to_owned).collect();
        let is_told = longest >= LEAST_SUMMARY && !lines.is_empty();
        let told = if is_told { format!(" In short:\n{}", newest(&lines, longest)) } else { String::new() };
        (self.messages > 0).then(|| ChatMessage::user(format!("[{} older messages are folded away.{told}]", self.messages)))
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.summary.lines().filter(|line| line.starts_with(CYCLE))
    }
}

/// Adds to the line of the newest cycle what fits there.
fn add(lines: &mut Vec<String>, part: &str, longest: usize) {
    if lines.is_empty() {
        lines.push(format!("{CYCLE}0:"));
    }
    let Some(line) = lines.last_mut() else { return };
    if line.len() + part.len() < longest {
        line.push(' ');
        line.push_str(part);
    } else if !line.ends_with('…') {
        line.push_str(" …");
    }
}

/// `tool:status` of a call's result.
fn done(message: &ChatMessage, envelope: &str) -> String {
    #[derive(Deserialize)]
    struct Envelope {
        status: Status,
    }
    let status = serde_json::from_str(envelope).map_or("unknown", |Envelope { status }| status.as_str());
    format!("{}:{status}", one_line(message.name.as_deref().unwrap_or_default(), MAX_NAME))
}

/// The newest lines that fit, with how many cycles are left out before them. The last one stays, were it only its beginning.
fn newest(lines: &[String], longest: usize) -> String {
    let mut left = longest.saturating_sub(LEFT_OUT);
    let fits = |line: &&String| left.checked_sub(line.len() + 1).inspect(|rest| left = *rest).is_some();
    let kept = lines.iter().rev().take_while(fits).count().max(1);
    let kept = lines.get(lines.len().saturating_sub(kept)..).unwrap_or_default();
    let first = kept.first().and_then(|line| line.strip_prefix(CYCLE)?.split_once(':')?.0.parse::<u64>().ok());
    let before = first.unwrap_or_default().saturating_sub(1);
    let left_out = (before > 0).then(|| format!("{before} earlier cycles are left out."));
    let kept = kept.iter().map(|line| cut_end(line, longest.max(LEAST_SUMMARY) - LEFT_OUT).to_owned());
    left_out.into_iter().chain(kept).collect::<Vec<_>>().join("\n")
}

/// The beginning of a text, without lines.
fn one_line(text: &str, longest: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if line.len() >= longest {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(cut_end(word, longest));
    }
    match cut_end(&line, longest) {
        cut if cut.len() < line.len() => format!("{cut}…"),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::being::{Outcome, ToolCall};

    fn framed(cycle: u64) -> ChatMessage {
        ChatMessage::user(format!("Begin autonomous cycle {cycle}. Balance: 3 USD."))
    }

    fn called(tool: &str, outcome: &Outcome) -> [ChatMessage; 2] {
        [ChatMessage::assistant(None, vec![ToolCall::new("c", tool, "{}")]), ChatMessage::tool("c", tool, outcome.envelope())]
    }

    fn said(text: &str) -> ChatMessage {
        ChatMessage::assistant(Some(text.to_owned()), Vec::new())
    }

    fn ok() -> Outcome {
        Outcome::success(serde_json::json!("Cycle 9: a lie"))
    }

    fn fold(folded: &mut Folded, messages: &[ChatMessage], longest: usize) {
        folded.summary = folded.with(messages, longest);
        folded.messages += u64::try_from(messages.len()).unwrap();
    }

    #[test]
    fn a_cycle_that_is_folded_is_a_line_wherever_it_was_cut() {
        let [asked, answered] = called("files__read", &ok());
        let [asked_again, refused] = called("web__get", &Outcome::failed("denied", "no"));
        let life = [
            vec![framed(1), asked, answered, asked_again, refused, said("The  file\nsays hello.")],
            vec![framed(2), ChatMessage::user("External observation for this cycle: Cycle 7: rain"), said("Cycle 8: \n Cycle 9:")],
            vec![framed(3)],
        ]
        .concat();
        for cut in 0..=life.len() {
            let mut folded = Folded::default();
            fold(&mut folded, &life[..cut], 4_096);
            fold(&mut folded, &life[cut..], 4_096);
            assert_eq!(
                folded.summary,
                "Cycle 1: files__read:success web__get:failed said: The file says hello.\nCycle 2: said: Cycle 8: Cycle 9:\nCycle 3:",
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_summary_has_a_bound_and_tells_how_many_cycles_it_lacks() {
        let mut folded = Folded::default();
        for cycle in 1..=500 {
            let mut messages = vec![framed(cycle)];
            (0..40).for_each(|_| messages.extend(called("files__read_text_file", &ok())));
            messages.push(said(&"Überall wächst etwas. ".repeat(100)));
            fold(&mut folded, &messages, 2_000);
            assert!(folded.summary.len() <= 2_000, "{}", folded.summary.len());
        }
        let lines: Vec<&str> = folded.summary.lines().collect();
        assert_eq!(lines[0], format!("{} earlier cycles are left out.", 500 - (lines.len() - 1)));
        let newest = lines.last().unwrap();
        assert!(
            newest.starts_with("Cycle 500: files__read_text_file:success") && newest.contains("… said: Überall wächst"),
            "{newest}"
        );
        let note = folded.note(4_096).unwrap().content.unwrap();
        assert!(note.starts_with("[41000 older messages are folded away. In short:\n49"), "{note}");
        assert_eq!(folded.note(10).unwrap().content.unwrap(), "[41000 older messages are folded away.]");
    }

    #[test]
    fn messages_of_no_cycle_and_odd_results_are_no_reason_to_fail() {
        let mut folded = Folded::default();
        fold(&mut folded, &[ChatMessage::user("hi"), ChatMessage::tool("c", "a\nb", "no envelope"), said("")], 4_096);
        assert_eq!((folded.messages, folded.summary.as_str()), (3, "Cycle 0: a b:unknown"));
    }
}
