use std::{collections::BTreeSet, fs, path::PathBuf};

use proptest::{prelude::*, strategy::ValueTree as _};

use super::life::Life;
use super::samples::{at, debited, decode, fold, fresh, granted, record, seal, thought, tool_finished, tool_started};
use crate::{
    being::{BeingStatus, Event, MindChange},
    store::{
        line,
        line::{Flaw, KNOWN},
        replay::Replay,
    },
    vocab::{Digest, Timestamp},
};

proptest! {
    #[test]
    fn every_record_reads_back_as_it_was_written((record, with) in record()) {
        let mut bytes = Vec::new();
        line::encode(&mut bytes, &record, with).unwrap();
        let line = bytes.strip_suffix(b"\n").unwrap();
        prop_assert!(!line.contains(&b'\n') && !line.contains(&0), "a newline or a zero inside a line would be taken for its end");
        let frame = line::check(line).unwrap();
        prop_assert_eq!(frame.with, with);
        prop_assert_eq!(frame.known().unwrap().decode().unwrap(), record);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok());
    }

    #[test]
    fn a_changed_byte_is_never_accepted((record, with) in record(), place in any::<prop::sample::Index>(), change in 1_u8..) {
        let mut bytes = Vec::new();
        line::encode(&mut bytes, &record, with).unwrap();
        bytes.pop();
        let index = place.index(bytes.len());
        bytes[index] ^= change;
        prop_assert!(line::check(&bytes).is_err());
    }

    #[test]
    fn rubbish_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(line::check(&bytes).is_err());
    }
}

#[test]
fn unknown_types_and_fields_are_refused() {
    let head = r#"{"seq":1,"at":"2026-12-02T00:00:00Z","cycle":0,"#;
    for (event, is_known) in [
        (r#""type":"told","message":"hi""#, true),
        (r#""type":"told","message":"hi","mood":1"#, false),
        (r#""type":"exhausted""#, true),
        (r#""type":"exhausted","mood":1"#, false),
        (r#""type":"stopping","mood":1"#, false),
        (r#""type":"danced""#, false),
        (r#""type":"mind_changed","change":{"change":"add_rule","rule":"r","mood":1}"#, false),
    ] {
        let line = seal(&format!("{head}{event}"));
        let decoded = line::check(&line).unwrap().decode();
        assert_eq!(decoded.is_ok(), is_known, "{event}: {decoded:?}");
    }
    assert!(line::check(&seal(&format!(r#"{head}"type":"danced""#))).unwrap().known().is_err());
}

#[test]
fn a_sealed_line_without_a_head_is_refused() {
    for text in [
        "{}",
        r#"{"at":"x","seq":1"#,
        r#"{"seq":-1,"at":"x","cycle":0,"type":"told""#,
        r#"{"seq":1,"at":"x","cycle":0,"with":2,"type":"told""#,
    ] {
        assert_eq!(line::check(&seal(text)), Err(Flaw::NotARecord), "{text}");
    }
}

#[test]
fn an_unknown_type_is_refused_even_where_the_picture_covers_it() {
    let mut journal = Vec::new();
    let birth = Event::Started { birth: Some(Box::new(crate::being::testing::birth())) };
    line::encode(&mut journal, &crate::being::Record { seq: 1, at: at(0), cycle: 0, event: birth }, 1).unwrap();
    journal.extend(seal(r#"{"seq":2,"at":"2026-12-02T00:00:00Z","cycle":0,"type":"danced""#));
    journal.push(b'\n');
    let state = fold(&decode(&journal[..journal.iter().position(|b| *b == b'\n').unwrap() + 1])).unwrap();
    let picture = crate::store::picture::Picture { state, digest: Digest::of("later"), length: 1 };
    let error = Replay::of(journal.as_slice(), "j".as_ref(), Some(picture)).unwrap_err();
    assert!(error.to_string().starts_with("state: record 2 at byte "), "{error}");
}

#[test]
fn every_type_of_event_is_known() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let kinds: BTreeSet<String> = (0..2_000)
        .map(|_| super::samples::event().new_tree(&mut runner).unwrap().current())
        .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, KNOWN.iter().map(|kind| (*kind).to_owned()).collect());
}

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/being-v1")
}

/// The golden lives that this version writes: without a schedule, as ever, and with one.
fn written() -> [(PathBuf, Option<Timestamp>); 2] {
    [(golden(), None), (golden().with_file_name("being-v1-with-slots"), Some(at(0)))]
}

/// A short life with one event of nearly every kind.
fn write_golden_life(dir: &std::path::Path, slot: Option<Timestamp>) {
    let (mut life, _) = Life::open(dir, fresh(), at(0)).unwrap();
    life.append(
        vec![Event::CycleStarted { framing: "Begin autonomous cycle 1.".into(), stimulus: Some("It rains.".into()), slot }],
        1,
        at(1),
    )
    .unwrap();
    life.append(vec![thought("I write."), debited(25), tool_started("c")], 1, at(2)).unwrap();
    life.append(vec![tool_finished("c"), super::samples::credited("t1")], 1, at(3)).unwrap();
    life.append(vec![granted("2026-12"), Event::MindChanged { change: MindChange::SwitchModel { model: "big".into() } }], 1, at(4))
        .unwrap();
    life.append(vec![super::samples::told("Rest."), Event::Warning { message: "maximum tool rounds reached".into() }], 1, at(5))
        .unwrap();
    life.append(vec![Event::Folded { messages: 2, summary: "Cycle 1:".into() }], 1, at(5)).unwrap();
    life.append(vec![Event::Exhausted, Event::Stopping, Event::Stopped { status: BeingStatus::Exhausted }], 1, at(6)).unwrap();
    life.close(at(7)).unwrap();
}

/// If this fails, lives that people have cannot be read any more, or old programs cannot read new ones: make a new version instead.
#[test]
fn lives_of_being_v1_are_read_and_written_as_ever() {
    for (kept, slot) in written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("life");
        write_golden_life(&path, slot);
        for name in ["activity.jsonl", "state.json"] {
            let (is, was) = (fs::read_to_string(path.join(name)).unwrap(), fs::read_to_string(kept.join(name)).unwrap());
            assert_eq!(is, was, "{}/{name}", kept.display());
        }
    }
    let journal = fs::read(golden().join("activity.jsonl")).unwrap();
    let picture = fs::read(golden().join("state.json")).unwrap();
    let picture = crate::store::picture::Picture::read(picture.as_slice(), "state.json".as_ref()).unwrap();
    let from_picture = Replay::of(journal.as_slice(), "j".as_ref(), Some(picture)).unwrap();
    assert_eq!(from_picture.state, fold(&decode(&journal)));
    assert_eq!(from_picture.state.unwrap().budget.remaining.to_string(), "13");
}

#[test]
fn lives_from_before_days_were_counted_are_read() {
    let old = golden().with_file_name("being-v1-without-days");
    let journal = fs::read(old.join("activity.jsonl")).unwrap();
    let picture = fs::read(old.join("state.json")).unwrap();
    let picture = crate::store::picture::Picture::read(picture.as_slice(), "state.json".as_ref()).unwrap();
    let read = Replay::of(journal.as_slice(), "j".as_ref(), Some(picture)).unwrap().state.unwrap();
    let mut told = fold(&decode(&journal)).unwrap();
    assert_eq!(
        (read.budget.days.is_empty(), told.budget.days.is_empty()),
        (true, false),
        "what a picture covers was not counted by days"
    );
    (told.budget.days, told.budget.cycle_spent) = (read.budget.days.clone(), read.budget.cycle_spent);
    assert_eq!(read, told);
}

#[test]
#[ignore = "writes the golden files anew, for a new version of the format"]
fn write_the_golden_files() {
    for (kept, slot) in written() {
        let dir = tempfile::tempdir().unwrap();
        write_golden_life(&dir.path().join("life"), slot);
        fs::create_dir_all(&kept).unwrap();
        for name in ["activity.jsonl", "state.json"] {
            fs::copy(dir.path().join("life").join(name), kept.join(name)).unwrap();
        }
    }
}
