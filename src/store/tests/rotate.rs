use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::life::Life;
use super::samples::{at, either, fresh, thought, told, tool_started};
use crate::store::{Start, StoreError, folder::OsFolder, line::Flaw, peek, read_journal, verify};

/// Opens a life in small files.
fn open(dir: &Path) -> Life {
    Life::in_files_of(2_000, Box::new(OsFolder::lock(dir).unwrap()), either(), at(0)).unwrap().0
}

/// Lives `turns` turns, with a picture after every third.
fn live(life: &mut Life, turns: usize) {
    for turn in 0..turns {
        life.append(vec![told(format!("{turn} {}", "z".repeat(300)))], 1, at(1)).unwrap();
        if turn % 3 == 2 {
            life.checkpoint(at(2)).unwrap();
        }
    }
}

fn closed(dir: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut closed: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|end| end == "gz")).collect();
    closed.sort();
    closed
}

fn seqs(dir: &Path, from: Start) -> Vec<u64> {
    read_journal(dir, from).unwrap().unwrap().map(|line| line.unwrap().seq).collect()
}

#[test]
fn a_long_life_is_told_whole_across_its_files() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let mut life = open(&dir);
    live(&mut life, 40);
    assert!(closed(&dir).len() > 3, "{:?}", closed(&dir));
    let all = seqs(&dir, Start::Beginning);
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    for wanted in [1, 2, 5, 17, all.len() - 1, all.len(), all.len() + 5] {
        assert_eq!(seqs(&dir, Start::Last(wanted)), all[all.len().saturating_sub(wanted)..], "the last {wanted}");
        assert_eq!(seqs(&dir, Start::After(wanted as u64)), all[wanted.min(all.len())..], "after {wanted}");
    }
}

#[test]
fn whoever_follows_a_journal_misses_nothing_when_its_file_is_closed() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let mut life = open(&dir);
    let mut lines = read_journal(&dir, Start::Beginning).unwrap().unwrap();
    let mut seen = BTreeSet::new();
    for turns in [1, 4, 2, 30, 3, 7, 1] {
        seen.extend(lines.by_ref().map(|line| line.unwrap().seq));
        live(&mut life, turns);
    }
    seen.extend(lines.map(|line| line.unwrap().seq));
    assert_eq!(seen, seqs(&dir, Start::Beginning).into_iter().collect());
}

#[test]
fn going_on_reads_the_picture_and_the_tail_and_looking_closely_reads_all() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let mut life = open(&dir);
    live(&mut life, 40);
    let state = life.state().clone();
    drop(life);
    let look = || verify(&dir).map(Option::unwrap);
    assert_eq!(look().unwrap().state, state);
    let old = closed(&dir).remove(1);
    let mut bytes = fs::read(&old).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&old, bytes).unwrap();
    assert_eq!(peek(&dir).unwrap(), Some(state), "what lies behind the picture is not read");
    let told = look().unwrap_err();
    assert!(matches!(&told, StoreError::Damaged { path, .. } if *path == old), "{told}");
    assert!(seqs_or_error(&dir).is_err(), "whoever reads them is told");
}

fn seqs_or_error(dir: &Path) -> Result<Vec<u64>, StoreError> {
    read_journal(dir, Start::Beginning)?.unwrap().map(|line| line.map(|line| line.seq)).collect()
}

#[test]
fn a_closed_file_that_is_missing_or_cut_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let mut life = open(&dir);
    live(&mut life, 40);
    drop(life);
    let files = closed(&dir);
    let hidden = place.path().join("hidden");
    fs::rename(&files[1], &hidden).unwrap();
    assert!(matches!(peek(&dir), Err(StoreError::MissingSegment { .. })));
    fs::rename(&hidden, &files[1]).unwrap();
    let bytes = fs::read(&files[1]).unwrap();
    fs::write(&files[1], &bytes[..bytes.len() - 20]).unwrap();
    let told = verify(&dir).unwrap_err();
    assert!(matches!(told, StoreError::Damaged { flaw: Flaw::Compression, .. }), "{told}");
}

#[test]
fn a_call_that_began_in_a_closed_file_is_still_known_to_be_open() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let mut life = open(&dir);
    life.append(vec![thought("I write."), tool_started("c")], 1, at(1)).unwrap();
    live(&mut life, 30);
    drop(life);
    let (_, recovered) = Life::open(&dir, either(), at(3)).unwrap();
    assert_eq!(recovered.open_calls.iter().map(|call| call.call_id.as_str()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn closed_files_take_an_eighth_of_the_space() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let (mut life, _) = Life::open(&dir, fresh(), at(0)).unwrap();
    for cycle in 0..4_000_u32 {
        let spent = [super::samples::debited(cycle % 90), thought(&format!("Round {cycle} of {}.", cycle * 7 % 1_000))];
        life.append([&spent[..], &[tool_started(&format!("call-{cycle}"))]].concat(), 1, at(i64::from(cycle))).unwrap();
    }
    let plain = fs::metadata(dir.join("activity.jsonl")).unwrap().len();
    drop(life);
    let mut life = Life::in_files_of(1, Box::new(OsFolder::lock(&dir).unwrap()), either(), at(0)).unwrap().0;
    life.checkpoint(at(9)).unwrap();
    let compressed: u64 = closed(&dir).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(compressed * 8 <= plain, "{compressed} of {plain}");
}

#[test]
fn a_picture_that_its_own_records_do_not_make_is_told() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let (mut life, mut state, _) = crate::store::Life::open(&dir, fresh()).unwrap().begin(at(0)).unwrap();
    state.cycle += 1;
    life.checkpoint(&state, at(1)).unwrap();
    assert!(matches!(verify(&dir), Err(StoreError::Diverged { .. })));
}
