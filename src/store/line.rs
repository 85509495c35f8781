use std::io::{self, Write as _};

use serde::de::Error as _;

use crate::being::{Event, Record};

/// The most bytes of one line, and of one write.
pub(super) const MAX_LINE: usize = 64 << 20;

/// `,"sum":"` + eight hexadecimal characters + `"}`.
const SEAL_LENGTH: usize = 18;

/// The types of events that this version knows.
pub(super) const KNOWN: [&str; 22] = [
    "started",
    "cycle_started",
    "model_completed",
    "cost_debited",
    "tool_started",
    "tool_finished",
    "input_requested",
    "input_answered",
    "revenue_credited",
    "funds_granted",
    "child_spawned",
    "child_changed",
    "mind_changed",
    "labelled",
    "warning",
    "told",
    "folded",
    "exhausted",
    "stopping",
    "stopped",
    "checkpoint",
    "adopted",
];

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("the line does not end as a record does")]
    Unsealed,
    #[error("the checksum does not match")]
    WrongSum,
    #[error("the line does not begin with seq, at, cycle and type")]
    NotARecord,
    #[error("the line is longer than {MAX_LINE} bytes")]
    TooLong,
    #[error("records that were written later follow it, so it had been acknowledged")]
    Acknowledged,
    #[error("its last byte was changed")]
    LastByte,
    #[error("the compressed file cannot be unpacked from there on")]
    Compression,
    #[error("the compressed file does not begin as it was written")]
    Header,
    #[error("the file ends before the records that its name promises")]
    EndsEarly,
    #[error("something follows the last of the records that its name promises")]
    Trailing,
}

/// A line whose checksum holds and whose head was read; its event is not decoded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) seq: u64,
    at: &'a str,
    pub(super) cycle: u64,
    /// The first record of the write that brought this one.
    pub(super) with: u64,
    pub(super) kind: &'a str,
    /// From `"type":` to before the seal.
    body: &'a [u8],
}

/// Appends the line of one record, with its newline. `with` is the first record of the same write.
pub(super) fn encode(out: &mut Vec<u8>, record: &Record, with: u64) -> io::Result<()> {
    let start = out.len();
    write!(out, r#"{{"seq":{},"at":"{}","cycle":{}"#, record.seq, record.at, record.cycle)?;
    if with != record.seq {
        write!(out, r#","with":{with}"#)?;
    }
    let joint = out.len();
    serde_json::to_writer(&mut *out, &record.event)?;
    if let Some(brace) = out.get_mut(joint) {
        *brace = b',';
    }
    out.pop();
    let sum = crc32fast::hash(out.get(start..).unwrap_or_default());
    writeln!(out, r#","sum":"{sum:08x}"}}"#)
}

/// Checks the seal and the head of a line that was read without its newline.
pub(super) fn check(line: &[u8]) -> Result<Frame<'_>, Flaw> {
    let (sealed, seal) = line.split_at_checked(line.len().wrapping_sub(SEAL_LENGTH)).ok_or(Flaw::Unsealed)?;
    let hex = seal.strip_prefix(br#","sum":""#).and_then(|rest| rest.strip_suffix(br#""}"#)).ok_or(Flaw::Unsealed)?;
    let sum = hex.iter().try_fold(0, |sum: u32, digit| Some(sum << 4 | nibble(*digit)?)).ok_or(Flaw::Unsealed)?;
    if crc32fast::hash(sealed) != sum {
        return Err(Flaw::WrongSum);
    }
    head(sealed).ok_or(Flaw::NotARecord)
}

fn nibble(digit: u8) -> Option<u32> {
    match digit {
        b'0'..=b'9' => Some(u32::from(digit - b'0')),
        b'a'..=b'f' => Some(u32::from(digit - b'a' + 10)),
        _ => None,
    }
}

fn head(sealed: &[u8]) -> Option<Frame<'_>> {
    let (seq, rest) = number(sealed.strip_prefix(br#"{"seq":"#)?)?;
    let (at, rest) = text(rest.strip_prefix(br#","at":""#)?)?;
    let (cycle, rest) = number(rest.strip_prefix(br#","cycle":"#)?)?;
    let (with, rest) = match rest.strip_prefix(br#","with":"#) {
        None => (seq, rest),
        Some(rest) => number(rest)?,
    };
    let body = rest.strip_prefix(b",")?;
    let (kind, _) = text(body.strip_prefix(br#""type":""#)?)?;
    (with <= seq).then_some(Frame { seq, at, cycle, with, kind, body })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at_checked(length)?;
    Some((str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let length = bytes.iter().position(|byte| *byte == b'"')?;
    let (text, rest) = bytes.split_at_checked(length)?;
    Some((str::from_utf8(text).ok()?, rest.strip_prefix(b"\"")?))
}

impl Frame<'_> {
    /// Refuses an event that this version has never heard of.
    pub(super) fn known(self) -> serde_json::Result<Self> {
        if KNOWN.contains(&self.kind) { Ok(self) } else { Err(serde_json::Error::unknown_variant(self.kind, &KNOWN)) }
    }

    /// Decodes the event; unknown types and fields are refused.
    pub(super) fn decode(self) -> serde_json::Result<Record> {
        let at = self.at.parse().map_err(serde_json::Error::custom)?;
        let event: Event = self.part()?;
        let has_fields = self.body.len() > self.kind.len() + r#""type":"""#.len();
        if matches!(event, Event::Exhausted | Event::Stopping) && has_fields {
            return Err(serde_json::Error::custom(format!("unknown fields in `{}`, which has none", self.kind)));
        }
        Ok(Record { seq: self.seq, at, cycle: self.cycle, event })
    }

    /// Decodes what `T` wants of the event.
    pub(super) fn part<T: serde::de::DeserializeOwned>(self) -> serde_json::Result<T> {
        let object = [b"{", self.body, b"}"].concat();
        serde_json::from_slice(&object)
    }
}
