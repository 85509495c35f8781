use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::{
    life::Life,
    samples::{at, credited, debited, decode, either, fold, granted, resume, thought, told, tool_finished, tool_started},
};
use crate::{
    being::{AgentState, Event},
    store::{Done, RescueError, Sight, StoreError, Survey, adopt, folder::OsFolder, peek, picture, repair, survey, verify},
    vocab::Digest,
};

/// A life with money, a call under way, and, in files of so many bytes, a picture with a tail.
pub(super) fn live(dir: &Path, longest_file: u64) -> AgentState {
    let (mut life, _) = Life::in_files_of(longest_file, Box::new(OsFolder::lock(dir).unwrap()), either(), at(0)).unwrap();
    let cycle = Event::CycleStarted { framing: "Begin.".into(), stimulus: None, slot: None };
    life.append(vec![cycle, thought("I write."), debited(25), tool_started("c")], 1, at(1)).unwrap();
    life.append(vec![granted("2026-12")], 1, at(2)).unwrap();
    life.checkpoint(at(3)).unwrap();
    life.append(vec![tool_finished("c"), credited("t1")], 2, at(4)).unwrap();
    life.checkpoint(at(5)).unwrap();
    life.append(vec![thought("More."), debited(5), tool_started("d")], 3, at(6)).unwrap();
    life.append(vec![granted("2027-01")], 3, at(7)).unwrap();
    life.state().clone()
}

/// Every file of a life but its lock.
pub(super) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(self::files(&entry.path())),
            false if entry.file_name() == "lock" => {}
            false => {
                files.insert(entry.path(), fs::read(entry.path()).unwrap());
            }
        }
    }
    files
}

/// Writes a file that only its owner may read, with the folders around it.
pub(super) fn write_private(path: &Path, bytes: &[u8]) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn look(dir: &Path) -> Survey {
    survey(dir).unwrap().unwrap()
}

fn digest(state: &AgentState) -> Digest {
    Digest::of(picture::draw(state).unwrap())
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut lines).unwrap();
    lines
}

fn lines(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for (path, bytes) in files(dir) {
        if path.extension().is_some_and(|end| end == "gz") {
            all.extend(unpacked(&bytes));
        }
    }
    all.extend(fs::read(dir.join("activity.jsonl")).unwrap_or_default());
    all
}

#[test]
fn no_flipped_bit_of_a_life_is_believed_and_each_is_told_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let state = live(&dir, 600);
    let whole = look(&dir);
    assert!(!whole.is_damaged() && whole.files > 2 && whole.state_sha256 == Some(digest(&state)), "{whole:?}");
    let mut harmless = BTreeMap::<&Path, u32>::new();
    let all = files(&dir);
    for (path, bytes) in &all {
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 1 << ((index * 5) % 8);
            fs::write(path, &flipped).unwrap();
            let what = format!("byte {index} of {}", path.display());
            let found = look(&dir);
            let spots = found.damage.iter().map(|damage| &damage.spot).chain(&found.worn);
            let is_named = spots.clone().any(|spot| spot.file == *path);
            if path.ends_with("state.json") {
                assert!(found.damage.is_none() && found.faults().all(|fault| fault.contains("state.json")), "{what}: {found:?}");
                assert!(found.is_damaged(), "{what} was not seen");
                assert!(peek(&dir).is_err(), "{what} was believed");
            } else if !found.is_damaged() {
                let same = path.extension().is_some_and(|end| end == "gz") && unpacked(&flipped) == unpacked(bytes);
                assert!(same && found.state_sha256 == whole.state_sha256, "{what} was not seen: {found:?}");
                *harmless.entry(path.as_path()).or_default() += 1;
            } else {
                assert!(is_named && verify(&dir).is_err(), "{what}: {found:?}");
            }
        }
        fs::write(path, bytes).unwrap();
    }
    assert!(
        harmless.values().all(|bits| *bits <= 1),
        "only the bits that fill a packed file's last byte mean nothing: {harmless:?}"
    );
}

#[test]
fn a_last_record_cut_at_any_byte_is_gone_on_from_with_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    live(&dir, u64::MAX);
    let journal = dir.join("activity.jsonl");
    let bytes = fs::read(&journal).unwrap();
    let start = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let pictured = fs::read(dir.join("state.json")).unwrap();
    for length in start + 1..bytes.len() {
        fs::write(&journal, &bytes[..length]).unwrap();
        fs::write(dir.join("state.json"), &pictured).unwrap();
        let found = look(&dir);
        assert!(!found.is_damaged() && found.torn == (length - start) as u64, "cut at {length}: {found:?}");
        let (life, recovered) = Life::open(&dir, resume(), at(9)).unwrap();
        assert!(recovered.warnings[0].contains("ended in a torn write"), "{:?}", recovered.warnings);
        assert!(!life.state().budget.granted.contains_key("2027-01"));
    }
}

/// Changes one byte in the midst of each record in turn, and hands the life over.
fn for_each_damaged_record(longest_file: u64, check: impl Fn(&Path, u64, &AgentState, &[u8])) {
    let place = tempfile::tempdir().unwrap();
    let first = place.path().join("first");
    let state = live(&first, longest_file);
    let count = decode(&lines(&first)).len() as u64;
    let whole = lines(&first);
    for record in 1..=count {
        let dir = place.path().join(format!("life-{record}"));
        live(&dir, longest_file);
        damage(&dir, record);
        check(&dir, record, &state, &whole);
    }
}

/// Damages one record, packed or not.
fn damage(dir: &Path, record: u64) {
    let head = format!(r#"{{"seq":{record},"#);
    for (path, bytes) in files(dir) {
        let is_packed = path.extension().is_some_and(|end| end == "gz");
        let mut lines = if is_packed { unpacked(&bytes) } else { bytes };
        let Some(start) = lines.windows(head.len()).position(|window| window == head.as_bytes()) else { continue };
        lines[start + 30] ^= 4;
        if is_packed {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut packer, &lines).unwrap();
            lines = packer.finish().unwrap();
        }
        return fs::write(path, lines).unwrap();
    }
    panic!("no record {record}");
}

#[test]
fn a_repair_keeps_exactly_the_records_before_the_damage_and_every_byte_of_the_original() {
    for longest_file in [u64::MAX, 600] {
        for_each_damaged_record(longest_file, |dir, record, state, whole| {
            write_private(&dir.join("decisions.jsonl"), b"kept\n");
            write_private(&dir.join("children/x/state.json"), b"a child\n");
            let before = files(dir);
            let asked = match repair(dir, false, at(20)) {
                Err(RescueError::NothingWhole { .. }) => return assert_eq!(record, 1),
                asked => asked.unwrap(),
            };
            assert_eq!((asked.done, files(dir) == before), (Done::NeedsConsent, true), "record {record}");
            let found = asked.found.damage.unwrap();
            assert_eq!((asked.found.records, found.record), (record - 1, record));
            let Done::Rewritten { original } = repair(dir, true, at(20)).unwrap().done else { panic!("record {record}") };
            let moved: BTreeMap<_, _> =
                before.iter().map(|(path, bytes)| (original.join(path.strip_prefix(dir).unwrap()), bytes.clone())).collect();
            assert_eq!(files(&original), moved, "record {record}");
            assert_eq!(fs::read(dir.join("decisions.jsonl")).unwrap(), b"kept\n");
            assert_eq!(fs::read(dir.join("children/x/state.json")).unwrap(), b"a child\n");

            let kept: Vec<u8> = whole
                .split_inclusive(|byte| *byte == b'\n')
                .take(usize::try_from(record - 1).unwrap())
                .flatten()
                .copied()
                .collect();
            assert!(lines(dir).starts_with(&kept), "record {record}");
            let now = verify(dir).unwrap().unwrap();
            let known = if found.state_known_to.is_some() { Some(state.clone()) } else { fold(&decode(&kept)) };
            let is_open = now.open_calls.iter().any(|call| call.call_id == "d");
            assert_eq!(
                (Some(&now.state), is_open),
                (known.as_ref(), record == 15 || known.as_ref() == Some(state)),
                "record {record}"
            );
            let (mut life, recovered) = Life::open(dir, resume(), at(21)).unwrap();
            assert_eq!((recovered.open_calls, recovered.warnings.len()), (now.open_calls, 0));
            life.append(vec![told("on")], 4, at(22)).unwrap();
            life.close(at(23)).unwrap();
            assert!(!look(dir).is_damaged());
        });
    }
}

#[test]
fn what_is_lost_is_told_with_its_money_and_what_a_picture_still_knows_is_not_lost() {
    for_each_damaged_record(u64::MAX, |dir, record, state, _| {
        let found = look(dir);
        let damage = found.damage.unwrap();
        let granted = damage.behind.granted_usd.keys().cloned().collect::<Vec<_>>();
        // Pictures are drawn as records 2, 8 and 11; the last is the one on disk.
        match record {
            1..11 => assert_eq!((damage.state_known_to, granted.len(), found.state_sha256), (Some(15), 0, Some(digest(state)))),
            ..15 => assert_eq!((damage.state_known_to, granted), (None, vec!["2027-01".to_owned()]), "record {record}"),
            _ => assert_eq!((damage.behind.records, granted.len()), (0, 0)),
        }
        assert_eq!(damage.behind.records, 15 - record);
    });
}

#[test]
fn a_packed_file_of_whole_records_with_a_damaged_frame_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let state = live(&dir, 600);
    let whole = lines(&dir);
    let (packed, bytes) = files(&dir).into_iter().find(|(path, _)| path.extension().is_some_and(|end| end == "gz")).unwrap();
    let sum = bytes.len() - 8;
    for (what, damaged) in [
        ("no magic", [&[0], &bytes[1..]].concat()),
        ("a time", [&bytes[..4], &[1], &bytes[5..]].concat()),
        ("another sum", [&bytes[..sum], &[bytes[sum] ^ 1], &bytes[sum + 1..]].concat()),
        ("two zeros more", [bytes.as_slice(), &[0, 0]].concat()),
    ] {
        fs::write(&packed, damaged).unwrap();
        let found = look(&dir);
        assert!(found.damage.is_none() && found.worn.len() == 1 && found.is_damaged(), "{what}: {found:?}");
        assert_eq!(peek(&dir).unwrap(), Some(state.clone()), "{what}");
        assert!(matches!(repair(&dir, false, at(20)).unwrap().done, Done::Rewritten { .. }), "{what}");
        assert!(lines(&dir).starts_with(&whole) && !look(&dir).is_damaged(), "{what}");
        assert_eq!(verify(&dir).unwrap().unwrap().state, state, "{what}");
    }
}

#[test]
fn a_missing_file_of_the_journal_loses_what_only_it_had() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let state = live(&dir, 600);
    let packed: Vec<_> = files(&dir).into_keys().filter(|path| path.extension().is_some_and(|end| end == "gz")).collect();
    fs::remove_file(&packed[0]).unwrap();
    let found = look(&dir);
    assert_eq!((found.records, found.damage.clone().unwrap().record), (0, 1), "{found:?}");
    assert!(matches!(repair(&dir, true, at(20)).unwrap().done, Done::Rewritten { .. }));
    assert_eq!(verify(&dir).unwrap().unwrap().state, state, "the picture has it");
}

/// What is found in the field where a file was: its bytes with something foreign.
fn foreign(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("two zeros more", [bytes, &[0, 0]].concat()),
        ("half a character more", [bytes, &[0xe2, 0x82]].concat()),
        ("a second document", [bytes, b"{\"schema_version\":\"being-v1\"}\n"].concat()),
        ("nothing", Vec::new()),
        ("zeros", vec![0; bytes.len()]),
    ]
}

#[test]
fn a_journal_that_ends_in_something_foreign_is_cut_or_refused_and_never_taken_for_less() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let state = live(&dir, u64::MAX);
    let journal = dir.join("activity.jsonl");
    let bytes = fs::read(&journal).unwrap();
    for (what, damaged) in foreign(&bytes) {
        fs::write(&journal, damaged).unwrap();
        let (found, opened) = (look(&dir), crate::store::Life::open(&dir, either()).map(drop));
        match what {
            "two zeros more" | "half a character more" => {
                assert_eq!((found.torn, found.is_damaged(), opened.is_ok()), (2, false, true), "{what}");
                assert_eq!(found.state_sha256, Some(digest(&state)), "{what}");
            }
            "a second document" => assert!(found.damage.is_some() && opened.is_err(), "{what}: {found:?}"),
            _ => {
                assert!(matches!(&found.picture, Sight::Unproven(why) if why.contains("no journal")), "{what}: {found:?}");
                assert!(matches!(opened, Err(StoreError::NoJournal { .. })), "{what}");
                assert!(matches!(repair(&dir, true, at(9)), Err(RescueError::NothingWhole { .. })), "{what}");
            }
        }
    }
}

#[test]
fn a_foreign_picture_is_refused_and_made_anew_from_the_journal_without_loss() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let state = live(&dir, u64::MAX);
    let pictured = dir.join("state.json");
    for (number, (what, damaged)) in (1..).zip(foreign(&fs::read(&pictured).unwrap())) {
        fs::write(&pictured, &damaged).unwrap();
        let opened = crate::store::Life::open(&dir, resume()).map(drop);
        assert!(opened.is_err_and(|error| error.to_string().contains("state.json")), "{what}");
        assert!(matches!(look(&dir).picture, Sight::Bad(_)), "{what}");
        let kept = dir.join(format!("state.json.damaged-{number}"));
        assert_eq!(repair(&dir, false, at(20)).unwrap().done, Done::Redrawn { original: Some(kept.clone()) }, "{what}");
        assert_eq!(fs::read(kept).unwrap(), damaged, "{what}");
        assert_eq!(verify(&dir).unwrap().unwrap().state, state, "{what}");
    }
    fs::write(&pictured, serde_json::to_vec(&state).unwrap()).unwrap();
    assert!(matches!(adopt(&dir, true, at(20)), Err(RescueError::NothingToAdopt { .. })), "only its spaces are others");
    assert!(matches!(repair(&dir, false, at(20)).unwrap().done, Done::Redrawn { original: Some(_) }));
    fs::remove_file(&pictured).unwrap();
    assert_eq!((look(&dir).picture, look(&dir).records), (Sight::Missing, 21));
    assert_eq!(repair(&dir, false, at(20)).unwrap().done, Done::Redrawn { original: None });
    assert_eq!(repair(&dir, false, at(20)).unwrap().done, Done::Nothing);
}

#[test]
fn a_foreign_lock_keeps_nobody_out_and_one_that_is_held_everybody() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    live(&dir, u64::MAX);
    for (what, damaged) in foreign(b"4711\n") {
        fs::write(dir.join("lock"), damaged).unwrap();
        assert!(crate::store::Life::open(&dir, resume()).is_ok(), "{what}");
    }
    let _held = OsFolder::lock(&dir).unwrap();
    let me = Some(std::process::id());
    let is_held = |error: RescueError| matches!(error, RescueError::Store(StoreError::Held { pid, .. }) if pid == me);
    assert!(is_held(repair(&dir, true, at(9)).unwrap_err()) && is_held(adopt(&dir, true, at(9)).unwrap_err()));
    assert!(!look(&dir).is_damaged(), "looking needs no lock");
}

#[test]
fn a_picture_that_knows_more_than_the_journal_is_not_undone_by_the_way() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    live(&dir, u64::MAX);
    let pictured = fs::read(dir.join("state.json")).unwrap();
    // The last checkpoint and all behind it are cut away, at the end of a record.
    let cut: Vec<u8> = lines(&dir).split_inclusive(|byte| *byte == b'\n').take(8).flatten().copied().collect();
    fs::write(dir.join("activity.jsonl"), cut).unwrap();
    assert!(matches!(look(&dir).picture, Sight::Unproven(why) if why.contains("may have lost its end")));
    assert!(crate::store::Life::open(&dir, resume()).is_err());
    let before = files(&dir);
    assert_eq!((repair(&dir, false, at(20)).unwrap().done, files(&dir) == before), (Done::NeedsConsent, true));
    assert!(adopt(&dir, true, at(20)).unwrap().kept.is_some());
    assert_eq!(picture::draw(&verify(&dir).unwrap().unwrap().state).unwrap(), pictured, "nothing of it is lost");
}

/// Edits the picture as by hand.
fn edit(dir: &Path, change: impl Fn(&mut AgentState)) -> Vec<u8> {
    let mut state = verify_state(dir);
    change(&mut state);
    let edited = serde_json::to_vec(&state).unwrap();
    fs::write(dir.join("state.json"), &edited).unwrap();
    edited
}

/// What the journal makes, whatever the picture says.
fn verify_state(dir: &Path) -> AgentState {
    fold(&decode(&lines(dir))).unwrap()
}

#[test]
fn an_edited_state_is_refused_until_it_is_adopted_on_purpose() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    let state = live(&dir, u64::MAX);
    let edited = edit(&dir, |state| {
        state.mind.rules.push("Be brief.".into());
        state.budget.grant("by-hand".into(), "3".parse().unwrap());
    });
    let refused = crate::store::Life::open(&dir, resume()).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&Digest::of(&edited).to_string()) && refused.contains("state adopt"), "{refused}");
    let before = files(&dir);
    let asked = adopt(&dir, false, at(20)).unwrap();
    let names: Vec<&str> = asked.changes.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!((names, asked.kept, files(&dir) == before), (vec!["budget.granted", "budget.remaining", "mind"], None, true));

    let kept = adopt(&dir, true, at(20)).unwrap().kept.unwrap();
    assert_eq!((fs::read(kept.edited).unwrap(), fs::read(kept.before).unwrap()), (edited, picture::draw(&state).unwrap()));
    let now = verify(&dir).unwrap().unwrap();
    assert_eq!(now.state.budget.remaining, state.budget.remaining + "3".parse().unwrap());
    assert_eq!(now.open_calls.len(), 1, "the call under way is not forgotten");
    assert!(matches!(adopt(&dir, true, at(21)), Err(RescueError::NothingToAdopt { .. })));
    let (mut life, recovered) = Life::open(&dir, resume(), at(22)).unwrap();
    assert_eq!((recovered.open_calls, life.state().mind.rules.last().unwrap().as_str()), (now.open_calls, "Be brief."));
    life.append(vec![granted("by-hand")], 3, at(23)).unwrap();
    assert_eq!(life.state().budget.remaining, now.state.budget.remaining, "a grant counts once, by hand too");
    life.close(at(24)).unwrap();
    assert!(!look(&dir).is_damaged());
}

#[test]
fn an_edit_that_undoes_what_happened_or_makes_money_is_not_adopted() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("life");
    live(&dir, u64::MAX);
    type Edit = fn(&mut AgentState);
    let edits: [(&str, Edit); 7] = [
        ("name differ", |state| state.identity.name = "eve".into()),
        ("cycle 1", |state| state.cycle = 0),
        ("the grant `2026-12`", |state| state.budget.granted.clear()),
        ("the credit `", |state| state.budget.credited.clear()),
        ("the time of birth", |state| state.started_at = at(1)),
        ("does not add up", |state| state.budget.remaining += "1".parse().unwrap()),
        ("nothing to adopt", |_| {}),
    ];
    for (words, change) in edits {
        edit(&dir, change);
        let before = files(&dir);
        let told = adopt(&dir, true, at(20)).unwrap_err().to_string();
        assert!(told.contains(words) && files(&dir) == before, "{words}: {told}");
    }
}

#[test]
fn an_adopted_state_is_of_being_v1() {
    let state = crate::being::testing::state();
    let event = Event::Adopted { state: Box::new(state.clone()), open_calls: Vec::new() };
    let record = crate::being::Record { seq: 1, at: at(0), cycle: 0, event };
    assert_eq!(AgentState::born(&record), Some(state));
    let mut line = Vec::new();
    crate::store::line::encode(&mut line, &record, 1).unwrap();
    insta::assert_snapshot!(String::from_utf8(line).unwrap().trim_end());
}
