//! The files of a life say what the documents say, to a reader that shares nothing with the program: `tests/reader.py`, which has only Python's own
//! JSON, checksums and decimals.
#![expect(clippy::disallowed_methods, clippy::expect_used, reason = "a test runs a reader, damages copies, and may fail")]

#[cfg(test)]
mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use support::{
    Home, PATIENT,
    openai::{Reply, Server},
};

/// What the second reader makes of a state directory, or why it refuses it.
fn read(dir: &Path) -> Result<Value, String> {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reader.py");
    let output = Command::new("python3").arg(reader).arg(dir).output().expect("python3");
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).expect("JSON")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn lives_of_every_form_that_people_have_are_what_a_second_reader_says() {
    for (name, records) in [("being-v1", 17), ("being-v1-without-days", 16), ("being-v1-with-slots", 17)] {
        let life = read(&golden(name)).unwrap_or_else(|refused| panic!("{name}: {refused}"));
        assert_eq!((&life["records"], life["remaining"].as_str()), (&records.into(), Some("13.00")), "{name}");
    }
}

#[test]
fn a_second_reader_refuses_what_was_changed() {
    let place = tempfile::tempdir().expect("a folder");
    for name in ["activity.jsonl", "state.json"] {
        for other in ["activity.jsonl", "state.json"] {
            fs::copy(golden("being-v1").join(other), place.path().join(other)).expect("a copy");
        }
        let whole = fs::read(place.path().join(name)).expect("the file");
        for at in (0..whole.len() - 1).step_by(whole.len() / 20) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(place.path().join(name), &changed).expect("a change");
            assert!(read(place.path()).is_err(), "byte {at} of {name}");
        }
    }
}

#[test]
fn a_life_in_many_files_is_what_a_second_reader_says() {
    let home = Home::new();
    let long = "and so on ".repeat(9_000);
    let server = Server::start(move |_| Reply::say(&long));
    home.write(
        "ada.toml",
        &format!(
            "{}\n\n\
             [being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"0s\", limit = 30 }}\nbudget = {{ starting = \"15\" }}\n",
            server.model()
        ),
    );
    home.run_within(PATIENT, &["run", "-f", "ada.toml"]).ok();
    let names = fs::read_dir(home.being("ada")).expect("the life").map(|entry| entry.expect("an entry").path());
    assert!(names.filter(|path| path.extension().is_some_and(|end| end == "gz")).count() >= 2, "the life has closed files");
    let life = read(&home.being("ada")).unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!(life["cycle"], 30);
    let told = home.run(&["logs", "ada", "-o", "jsonl", "--tail", "1000000"]).ok().stdout.lines().count();
    assert_eq!(life["records"], told, "the program tells all of it, too");
}
