use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    Allowance, Veil,
    tail::{MAX_LINE, printable},
    veil::MAX_VEILED,
};

/// Lines that may come at once, and that come back in a second.
const MAX_BURST: u32 = 50;
const LINES_PER_SECOND: u32 = 10;
/// A relay speaks for many.
const RELAYED: u32 = 20;
/// No line of a relay is longer; what is longer is no record.
const MAX_RECORD: usize = 16 * 1_024;

/// Whose stderr it is, and what becomes of it in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Talk {
    /// The log has each line under this name.
    Of(String),
    /// Another process of this program, whose log comes record by record and is taken over; this name where it says none.
    Relay(String),
}

/// Brings what a child says on stderr to the log, no faster than anyone could read it.
#[derive(Debug)]
pub(super) struct Voice {
    talk: Talk,
    veil: Option<Veil>,
    open: Vec<u8>,
    allowance: Allowance,
}

/// A record of a log, as `tracing-subscriber` writes it.
#[derive(Debug, Deserialize)]
struct Record {
    level: String,
    fields: Map<String, Value>,
}

impl Voice {
    pub(super) fn new(talk: Talk, veil: Option<Veil>, now: Instant) -> Self {
        let times = if matches!(talk, Talk::Relay(_)) { RELAYED } else { 1 };
        Self { talk, veil, open: Vec::new(), allowance: Allowance::new(MAX_BURST * times, LINES_PER_SECOND * times, now) }
    }

    /// Takes in what was read, logs whole lines as far as they are allowed, and yields them as people read them.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Instant) -> Vec<u8> {
        let mut plain = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = self.max_line().saturating_sub(self.open.len());
            self.open.extend(piece.iter().take_while(|byte| **byte != b'\n').take(room));
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.open);
                plain.extend(self.say(&line, now).into_bytes());
                plain.push(b'\n');
            }
        }
        plain
    }

    /// Says how many lines were not, when there is room to say it. True while there is more to tell later.
    pub(super) fn catch_up(&mut self, now: Instant) -> bool {
        if let Some(count) = self.allowance.owed(now) {
            self.tell_suppressed(count);
        }
        self.allowance.refused() > 0
    }

    /// The last words: a line without an end, and what is owed.
    pub(super) fn end(mut self, now: Instant) -> Vec<u8> {
        let line = std::mem::take(&mut self.open);
        let plain = if line.is_empty() { String::new() } else { self.say(&line, now) };
        if self.allowance.refused() > 0 {
            self.tell_suppressed(self.allowance.refused());
        }
        plain.into_bytes()
    }

    const fn max_line(&self) -> usize {
        match (&self.talk, &self.veil) {
            (Talk::Of(_), None) => MAX_LINE,
            (Talk::Of(_), Some(_)) => MAX_VEILED,
            (Talk::Relay(_), _) => MAX_RECORD,
        }
    }

    fn say(&mut self, line: &[u8], now: Instant) -> String {
        let (name, record) = match &self.talk {
            Talk::Of(name) => (name, None),
            Talk::Relay(name) => (name, serde_json::from_slice::<Record>(line).ok()),
        };
        let (level, surface, text) = match record {
            Some(record) => record.read(name),
            None => ("INFO".to_owned(), name.clone(), self.veil.as_ref().map_or_else(|| printable(line), |veil| veil.line(line))),
        };
        if !text.is_empty() && self.allowance.take(now) {
            if let Some(count) = self.allowance.owed(now) {
                self.tell_suppressed(count);
            }
            log(&level, &surface, &text);
        }
        text
    }

    fn tell_suppressed(&mut self, count: u64) {
        self.allowance.forgive();
        let (Talk::Of(name) | Talk::Relay(name)) = &self.talk;
        tracing::warn!(surface = name, "{count} lines of its stderr were suppressed");
    }
}

impl Record {
    fn read(mut self, name: &str) -> (String, String, String) {
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let surface = self.fields.shift_remove("surface").map_or_else(|| name.to_owned(), text);
        let mut said = self.fields.shift_remove("message").map(text).unwrap_or_default();
        for (field, value) in self.fields {
            said.push_str(&format!(" {field}={}", text(value)));
        }
        (self.level, surface, printable(said.as_bytes()))
    }
}

fn log(level: &str, surface: &str, text: &str) {
    match level {
        "ERROR" => tracing::error!(surface, "{text}"),
        "WARN" => tracing::warn!(surface, "{text}"),
        "DEBUG" => tracing::debug!(surface, "{text}"),
        "TRACE" => tracing::trace!(surface, "{text}"),
        _ => tracing::info!(surface, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_las_is_read_as_people_read_it() {
        let now = Instant::now();
        let mut voice = Voice::new(Talk::Relay("las".to_owned()), None, now);
        let record = br#"{"level":"WARN","fields":{"message":"it is down","surface":"files","restarts":3}}"#;
        assert_eq!(voice.hear(&[record.as_slice(), b"\nno rec"].concat(), now), b"it is down restarts=3\n");
        assert_eq!(voice.hear(b"ord\x1b[31m\n", now), b"no record[31m\n");
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let now = Instant::now();
        let mut voice = Voice::new(Talk::Of("files".to_owned()), None, now);
        for _ in 0..100 {
            assert_eq!(voice.hear(&[b'x'; 1_000], now), b"");
        }
        assert_eq!(voice.open.len(), MAX_LINE);
    }

    #[test]
    fn what_nobody_may_read_is_not_shown_where_a_long_line_is_cut_off() {
        let now = Instant::now();
        let veil = Veil::new(|text| text.replace("hush", "[secret]"));
        for (before, shown) in [(MAX_LINE - 2, "[s"), (MAX_LINE + 10, "")] {
            let mut voice = Voice::new(Talk::Of("files".to_owned()), Some(veil.clone()), now);
            let line = format!("{}hush\n", "x".repeat(before));
            let said =
                [&line.as_bytes()[..before + 2], &line.as_bytes()[before + 2..]].map(|piece| voice.hear(piece, now)).concat();
            let expected = format!("{}{shown}\n", "x".repeat(before.min(MAX_LINE)));
            assert_eq!(String::from_utf8(said).unwrap(), expected);
        }
        let mut voice = Voice::new(Talk::Of("files".to_owned()), Some(veil), now);
        let said = voice.hear(format!("{}hush\n", "x".repeat(MAX_VEILED - 2)).as_bytes(), now);
        assert!(String::from_utf8(said).unwrap().starts_with("a line of more than"), "half a secret is none that is found");
    }
}
