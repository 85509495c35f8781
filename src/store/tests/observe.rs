use std::{fs, io::Write as _};

use super::life::Life;
use super::samples::{at, decode, fresh, told};
use crate::store::{Start, StoreError, peek, read_journal};

#[test]
fn what_is_written_while_one_reads_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("life");
    assert!(read_journal(&path, Start::Beginning).unwrap().is_none() && peek(&path).unwrap().is_none());
    let (mut life, _) = Life::open(&path, fresh(), at(0)).unwrap();
    let mut lines = read_journal(&path, Start::Beginning).unwrap().unwrap();
    assert_eq!(lines.by_ref().count(), 2);
    life.append(vec![told("one"), told("two")], 1, at(1)).unwrap();
    let seen: Vec<String> = lines.by_ref().map(|line| line.unwrap().json).collect();
    assert_eq!((seen.len(), decode(format!("{}\n", seen[1]).as_bytes())[0].event.clone()), (2, told("two")));
    life.append(vec![told("three")], 1, at(2)).unwrap();
    assert_eq!(read_journal(&path, Start::After(4)).unwrap().unwrap().count(), 1);
}

#[test]
fn a_reader_waits_before_a_line_that_is_not_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("life");
    let (mut life, _) = Life::open(&path, fresh(), at(0)).unwrap();
    life.append(vec![told("whole")], 1, at(1)).unwrap();
    drop(life);
    let journal = path.join("activity.jsonl");
    let whole = fs::read(&journal).unwrap();
    let start = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&journal, &whole[..start + 20]).unwrap();
    let mut lines = read_journal(&path, Start::Beginning).unwrap().unwrap();
    assert_eq!(lines.by_ref().count(), 2);
    fs::OpenOptions::new().append(true).open(&journal).unwrap().write_all(&whole[start + 20..]).unwrap();
    assert!(lines.next().unwrap().unwrap().json.contains("whole"));
    assert!(lines.next().is_none());
}

#[test]
fn the_newest_lines_are_found_from_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("life");
    let (mut life, _) = Life::open(&path, fresh(), at(0)).unwrap();
    life.append((0..500).map(|n| told(format!("{n} {}", "y".repeat(400)))).collect(), 1, at(1)).unwrap();
    for wanted in [0, 1, 3, 160, 500, 502, 900] {
        let lines = read_journal(&path, Start::Last(wanted)).unwrap().unwrap();
        assert_eq!(lines.map(Result::unwrap).count(), wanted.min(502), "{wanted}");
    }
}

#[test]
fn a_reader_is_told_of_damage_once_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("life");
    drop(Life::open(&path, fresh(), at(0)).unwrap());
    let mut bytes = fs::read(path.join("activity.jsonl")).unwrap();
    bytes[10] ^= 1;
    fs::write(path.join("activity.jsonl"), bytes).unwrap();
    let mut lines = read_journal(&path, Start::Beginning).unwrap().unwrap();
    assert!(matches!(lines.next(), Some(Err(StoreError::Damaged { offset: 0, .. }))));
    assert!(lines.next().is_none());
}
