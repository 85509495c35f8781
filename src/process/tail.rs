use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// How many lines are kept.
const MAX_LINES: usize = 24;
/// How many characters of a command are shown.
const MAX_COMMAND: usize = 160;
/// How many bytes of a line are kept; the rest of it is dropped.
pub(super) const MAX_LINE: usize = 400;

/// The last lines that a child wrote to stderr, in bounded memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Tail(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    open: Vec<u8>,
}

impl Tail {
    /// Takes in what was read; whole lines are kept, the oldest fall out.
    pub fn feed(&self, bytes: &[u8]) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = MAX_LINE.saturating_sub(ring.open.len());
            ring.open.extend(text.iter().take(room));
            if ends {
                ring.close();
            }
        }
    }

    /// The lines, oldest first, with one that has not ended yet as the last.
    pub fn lines(&self) -> Vec<String> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = (!ring.open.is_empty()).then(|| printable(&ring.open));
        ring.lines.iter().cloned().chain(open).collect()
    }
}

impl Ring {
    fn close(&mut self) {
        let line = printable(&self.open);
        self.open.clear();
        if line.is_empty() {
            return;
        }
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// What of a line may be shown: a child must not be able to drive the terminal of who reads its last words.
pub(super) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|letter| !letter.is_control()).collect::<String>().trim_end().to_owned()
}

/// A command as it is named in a message: one that carries a whole script must not hide what the message is about.
pub(super) fn spoken(command: &str) -> String {
    let mut letters = command.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut line: String = letters.by_ref().take(MAX_COMMAND).collect();
    if letters.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_words_are_the_last_ones() {
        let tail = Tail::default();
        for number in 0..1_000 {
            tail.feed(format!("line {number}\n").as_bytes());
        }
        tail.feed(b"half a");
        tail.feed(b" line");
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines.first().map(String::as_str), Some("line 976"));
        assert_eq!(lines.last().map(String::as_str), Some("half a line"));
    }

    #[test]
    fn a_line_cannot_drive_the_terminal() {
        let tail = Tail::default();
        tail.feed(b"\x1b[31mred\x07\r\n");
        assert_eq!(tail.lines(), ["[31mred"]);
    }

    #[test]
    fn a_script_on_a_command_line_does_not_hide_what_is_said_of_it() {
        assert_eq!(spoken("sh -c echo\nno"), "sh -c echo no");
        assert_eq!(spoken(&"x".repeat(1_000)).chars().count(), MAX_COMMAND + 1);
    }

    proptest! {
        #[test]
        fn a_flood_takes_a_bounded_amount_of_memory(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3_000), 0..40)) {
            let tail = Tail::default();
            for piece in &pieces {
                tail.feed(piece);
            }
            let lines = tail.lines();
            prop_assert!(lines.len() <= MAX_LINES + 1);
            prop_assert!(lines.iter().all(|line| line.len() <= 3 * MAX_LINE), "a lost byte is shown as three");
        }
    }
}
