use std::{fs, io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::{
    life::Life,
    rescue::{files, live, write_private},
    samples::{at, resume, told},
};
use crate::{
    store::{RescueError, export, import, survey, verify},
    vocab::Digest,
};

const CHILD: &str = "children/01234567-89ab-cdef-0123-456789abcdef/state.json";

fn archive(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(dir, &mut bytes, false).unwrap();
    bytes
}

/// The names that a folder holds.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_life_that_was_moved_is_the_same_life_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let (dir, other) = (place.path().join("life"), place.path().join("deep/other"));
    let state = live(&dir, 600);
    write_private(&dir.join("decisions.jsonl"), b"{}\n");
    write_private(&dir.join(CHILD), b"a child\n");
    write_private(&dir.join("state.json.damaged-1"), b"an old one\n");
    let bytes = archive(&dir);
    assert_eq!(bytes, archive(&dir), "equal lives make equal archives");
    let imported = import(bytes.as_slice(), &other).unwrap();
    assert_eq!(Some(&imported), survey(&dir).unwrap().as_ref());
    let moved = |from: &Path| {
        files(from).into_iter().map(|(path, bytes)| (path.strip_prefix(from).unwrap().to_owned(), bytes)).collect::<Vec<_>>()
    };
    let mut whole = moved(&dir);
    whole.retain(|(path, _)| path != Path::new("state.json.damaged-1"));
    assert_eq!(moved(&other), whole);
    assert_eq!(names(&place.path().join("deep")), ["other"]);
    let (mut life, recovered) = Life::open(&other, resume(), at(30)).unwrap();
    assert_eq!((recovered.open_calls.len(), &life.state().budget), (1, &state.budget));
    life.append(vec![told("on")], 4, at(31)).unwrap();
    life.close(at(32)).unwrap();
    assert!(verify(&other).unwrap().is_some());
}

#[test]
fn a_life_is_not_put_over_another_one() {
    let place = tempfile::tempdir().unwrap();
    let (dir, other) = (place.path().join("life"), place.path().join("other"));
    live(&dir, 600);
    live(&other, u64::MAX);
    let (bytes, before) = (archive(&dir), files(&other));
    assert!(matches!(import(bytes.as_slice(), &other), Err(RescueError::Exists { .. })));
    assert_eq!((files(&other), names(place.path())), (before, vec!["life".to_owned(), "other".to_owned()]));
}

#[test]
fn a_damaged_life_leaves_only_on_purpose_and_enters_nowhere() {
    let place = tempfile::tempdir().unwrap();
    let (dir, other) = (place.path().join("life"), place.path().join("other"));
    live(&dir, u64::MAX);
    let journal = dir.join("activity.jsonl");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    fs::write(&journal, bytes).unwrap();
    assert!(matches!(export(&dir, &mut Vec::new(), false), Err(RescueError::Damaged { .. })));
    let mut damaged = Vec::new();
    export(&dir, &mut damaged, true).unwrap();
    let told = import(damaged.as_slice(), &other).unwrap_err().to_string();
    assert!(told.contains("its life is damaged"), "{told}");
    assert_eq!(names(place.path()), ["life"]);
}

#[test]
fn no_cut_and_no_flipped_bit_of_an_archive_lets_another_life_in() {
    let place = tempfile::tempdir().unwrap();
    let (dir, other) = (place.path().join("life"), place.path().join("other"));
    live(&dir, 600);
    let (bytes, whole) = (archive(&dir), survey(&dir).unwrap());
    for index in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[index] ^= 1 << (index % 8);
        for (what, damaged) in [("flipped", flipped.as_slice()), ("cut", &bytes[..index])] {
            match import(damaged, &other) {
                Err(RescueError::BadArchive(_)) => assert_eq!(names(place.path()), ["life"], "{what} at {index}"),
                Err(error) => panic!("{what} at {index}: {error}"),
                // A bit of the frame that means nothing, such as its time.
                Ok(found) => {
                    assert!(what == "flipped" && Some(found) == whole, "{what} at {index}");
                    fs::remove_dir_all(&other).unwrap();
                }
            }
        }
    }
}

/// An archive as no export makes it.
fn hostile(manifest: &Value, members: &[(&[u8], EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let manifest = manifest.to_string();
    let mut add = |path: &[u8], kind: EntryType, content: &[u8]| {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.as_old_mut().linkname[..11].copy_from_slice(b"/etc/passwd");
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    };
    add(b"manifest.json", EntryType::Regular, manifest.as_bytes());
    members.iter().for_each(|(path, kind, content)| add(path, *kind, content));
    tar.into_inner().unwrap().finish().unwrap()
}

fn promised(path: &str, content: &[u8]) -> Value {
    json!({ "format": "singularity-life-v1", "members": { path: { "bytes": content.len(), "sha256": Digest::of(content) } } })
}

#[test]
fn hostile_archives_write_nothing_anywhere() {
    let place = tempfile::tempdir().unwrap();
    let other = place.path().join("beings/other");
    fs::create_dir(place.path().join("beings")).unwrap();
    let file = EntryType::Regular;
    let member = |path: &'static str| hostile(&promised(path, b"x"), &[(path.as_bytes(), file, b"x")]);
    let state = promised("state.json", b"x");
    let huge = json!({ "format": "singularity-life-v1", "members": { "state.json": { "bytes": 1_u64 << 50, "sha256": Digest::of("x") } } });
    let many: serde_json::Map<String, Value> =
        (1..=100_001).map(|n| (format!("activity-{n}-{n}.jsonl"), json!({ "bytes": 0, "sha256": Digest::of("") }))).collect();
    let mut zeros = GzEncoder::new(Vec::new(), Compression::best());
    zeros.write_all(&vec![0; 64 << 20]).unwrap();
    let after_end = [hostile(&state, &[(b"state.json", file, b"x")]), zeros.finish().unwrap()].concat();
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("a path upward", "no file of a life", member("../state.json")),
        ("a path from the root", "no file of a life", member("/tmp/state.json")),
        ("a path upward in a child", "no file of a life", member("children/../../state.json")),
        ("a lock", "no file of a life", member("lock")),
        ("a path that was not promised", "is not in its manifest", hostile(&state, &[(b"../x", file, b"x")])),
        ("a file twice", "there twice", hostile(&state, &[(b"state.json", file, b"x"), (b"state.json", file, b"x")])),
        ("a link", "no plain file", hostile(&state, &[(b"state.json", EntryType::Symlink, b"")])),
        ("a hard link", "no plain file", hostile(&state, &[(b"state.json", EntryType::Link, b"")])),
        ("a device", "no plain file", hostile(&state, &[(b"state.json", EntryType::Block, b"")])),
        ("a long name", "no plain file", hostile(&state, &[(b"././@LongLink", EntryType::GNULongName, &[b'a'; 4_096])])),
        ("a wrong hash", "not as its manifest says", hostile(&state, &[(b"state.json", file, b"y")])),
        ("a wrong size", "its manifest promises 1", hostile(&state, &[(b"state.json", file, b"xx")])),
        ("a file too few", "is missing", hostile(&state, &[])),
        ("no life", "understood", hostile(&state, &[(b"state.json", file, b"x")])),
        ("too many bytes", "are taken", hostile(&huge, &[])),
        ("too many files", "are taken", hostile(&json!({ "format": "singularity-life-v1", "members": many }), &[])),
        ("another format", "is of format `v9`", hostile(&json!({ "format": "v9", "members": {} }), &[])),
        ("unknown fields", "not understood", hostile(&json!({ "format": "v9", "members": {}, "more": 1 }), &[])),
        ("no manifest", "does not begin with", b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec()),
        ("a bomb for a manifest", "does not begin with", hostile(&json!({ "x": " ".repeat(17 << 20) }), &[])),
        ("a bomb behind the end", "", after_end),
    ];
    for (what, words, bytes) in cases {
        let told = import(bytes.as_slice(), &other).unwrap_err().to_string();
        let is_refused = told.contains("the archive is refused");
        assert!(is_refused && (told.contains(words) || what == "no manifest"), "{what}: {told}");
        assert_eq!((names(place.path()), names(&place.path().join("beings")).len()), (vec!["beings".to_owned()], 0), "{what}");
    }
}
