use super::samples::{bytes, fold, records, writes};
use crate::{
    being::Record,
    store::{StoreError, replay::Replay},
};

struct Journal {
    records: Vec<Record>,
    bytes: Vec<u8>,
    /// Where the last write begins.
    last_write: usize,
    /// The last record before it.
    acknowledged: u64,
}

fn journal() -> Journal {
    let records = records(&writes());
    let bytes = bytes(&records);
    let before: Vec<u8> = bytes[..bytes.len() - 1].concat();
    let acknowledged = records[..records.len() - 1].concat().len() as u64;
    Journal { records: records.concat(), bytes: bytes.concat(), last_write: before.len(), acknowledged }
}

fn replay(bytes: &[u8]) -> Result<Replay, StoreError> {
    Replay::of(bytes, "activity.jsonl".as_ref(), None)
}

/// What was recovered must be what the first so many records make, and nothing else.
fn assert_is_prefix(replay: &Replay, journal: &Journal, what: &str) {
    let count = usize::try_from(replay.seq).unwrap();
    assert_eq!(replay.state, fold(&journal.records[..count]), "{what}");
}

#[test]
fn a_journal_cut_at_any_byte_keeps_every_whole_record_before_it() {
    let journal = journal();
    for length in 0..=journal.bytes.len() {
        let cut = &journal.bytes[..length];
        let replay = replay(cut).unwrap();
        let whole = cut.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((replay.seq, replay.length + replay.torn), (whole as u64, length as u64), "cut at {length}");
        assert_is_prefix(&replay, &journal, "cut");
    }
}

#[test]
fn a_changed_byte_is_refused_or_cut_off_with_the_last_write_but_never_believed() {
    let journal = journal();
    let mut cut_off = 0;
    for index in 0..journal.bytes.len() {
        for change in [1, 0x20, 0x80, journal.bytes[index], journal.bytes[index] ^ b'\n'] {
            let mut bytes = journal.bytes.clone();
            bytes[index] ^= change;
            if change == 0 {
                continue;
            }
            let Ok(replay) = replay(&bytes) else { continue };
            cut_off += 1;
            assert!(replay.torn > 0 && index >= journal.last_write, "byte {index} ^ {change} was believed");
            assert!(replay.seq >= journal.acknowledged, "byte {index} ^ {change} lost an acknowledged record");
            assert_is_prefix(&replay, &journal, "changed");
        }
    }
    assert_eq!(cut_off, 0, "a whole line with a wrong sum is rot, and a cut would hide it");
}

#[test]
fn sectors_of_the_last_write_that_never_reached_the_disk_are_cut_off() {
    let journal = journal();
    let first = journal.last_write / 512;
    let sectors: Vec<usize> = (first..=journal.bytes.len() / 512).collect();
    assert!(sectors.len() > 4, "the last write must span sectors: {}", sectors.len());
    for lost in 1_u32..1 << sectors.len() {
        let mut bytes = journal.bytes.clone();
        for (bit, sector) in sectors.iter().enumerate().filter(|(bit, _)| lost & 1 << bit != 0) {
            let _ = bit;
            let end = bytes.len().min((sector + 1) * 512);
            bytes[journal.last_write.max(sector * 512)..end].fill(0);
        }
        let replay = replay(&bytes).unwrap_or_else(|error| panic!("lost sectors {lost:b}: {error}"));
        assert!(replay.seq >= journal.acknowledged && replay.torn > 0, "lost sectors {lost:b}");
        assert_is_prefix(&replay, &journal, "sectors");
    }
}

#[test]
fn a_file_that_grew_before_its_content_came_is_cut_back() {
    let journal = journal();
    for zeros in [1, 511, 512, 5_000] {
        let bytes = [journal.bytes.as_slice(), &vec![0; zeros]].concat();
        let replay = replay(&bytes).unwrap();
        assert_eq!((replay.seq, replay.torn), (journal.records.len() as u64, zeros as u64));
    }
}

#[test]
fn a_lost_sector_of_an_acknowledged_write_is_refused() {
    let journal = journal();
    for sector in 0..journal.last_write / 512 {
        let mut bytes = journal.bytes.clone();
        bytes[sector * 512..(sector + 1) * 512].fill(0);
        let error = replay(&bytes).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}

#[test]
fn damage_is_told_with_its_byte_and_its_record() {
    let journal = journal();
    let second = journal.bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut bytes = journal.bytes;
    bytes[second + 30] ^= 1;
    let told = replay(&bytes).unwrap_err().to_string();
    assert!(told.starts_with(&format!("state: activity.jsonl is damaged at byte {second}, where record 2 should be")), "{told}");
}

#[test]
fn a_gap_and_a_repeat_are_refused() {
    let writes = bytes(&records(&writes()));
    for (order, expected) in [([0, 2], "has record 3 at byte"), ([0, 0], "has record 1 at byte")] {
        let told = replay(&order.map(|write| writes[write].clone()).concat()).unwrap_err().to_string();
        assert!(told.contains(expected) && told.contains("where record 2 should be"), "{told}");
    }
}

#[test]
fn a_life_that_does_not_begin_with_a_birth_is_refused() {
    let mut writes = writes();
    writes[0] = vec![super::samples::told("hello")];
    assert!(matches!(replay(&bytes(&records(&writes)).concat()), Err(StoreError::NoBirth { .. })));
}
