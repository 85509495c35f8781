//! What is damaged or edited is refused with its place, and `state` says what can be saved and saves it, beside the original.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test damages files by hand, and may fail"
)]

#[cfg(test)]
mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use support::{
    Home, SOON,
    openai::{Reply, Server},
    view, wait_until,
};

/// A being that has lived one cycle, and the server that it thinks with.
fn lived() -> (Home, Server) {
    let home = Home::new();
    let server = Server::start(|_| Reply::say("done"));
    let manifest = format!(
        "{}\n\n\
         [being.ada]\nmodel = \"scripted\"\nspecialty = \"waiting\"\nbudget = {{ starting = \"15\" }}\n\
         cycle = {{ every = \"1h\" }}\n",
        server.model()
    );
    home.write("ada.toml", &manifest);
    home.run(&["once", "-f", "ada.toml"]).ok();
    (home, server)
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.is_file() && !path.ends_with("lock"));
    files.map(|path| (path.file_name().expect("a name").into(), fs::read(&path).expect("a file"))).collect()
}

/// Changes one bit of the line of a record; yields where the line begins.
fn damage(home: &Home, kind: &str) -> usize {
    let journal = home.being("ada").join("activity.jsonl");
    let mut bytes = fs::read(&journal).expect("a journal");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let at = text.find(&format!(r#""type":"{kind}""#)).expect("the record");
    bytes[at + 12] ^= 4;
    fs::write(&journal, bytes).expect("it can be written");
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn verified(home: &Home) -> Value {
    home.run(&["state", "verify", "ada", "-o", "json"]).json()
}

#[test]
fn a_whole_life_is_told_in_short_and_nothing_is_written() {
    let (home, _server) = lived();
    let before = files(&home.being("ada"));
    let said = home.run(&["state", "verify", "being/ada"]).ok();
    let records = home.journal("ada").len();
    assert!(said.stdout.contains(&format!("{records} whole")) && said.stdout.contains("14.99998 USD"), "{}", said.stdout);
    let json = verified(&home);
    assert_eq!((&json["records"], &json["is_damaged"], &json["damage"]), (&json!(records), &json!(false), &Value::Null));
    assert_eq!((&json["balance_usd"], &json["cycle"], &json["picture"]), (&json!("14.99998"), &json!(1), &json!("good")));
    home.run(&["state", "verify", "--state-dir", "home/beings/ada"]).ok();
    assert_eq!(home.run(&["state", "repair", "ada"]).ok().stderr.trim(), "nothing is damaged; nothing was changed");
    assert_eq!(files(&home.being("ada")), before);
}

#[test]
fn damage_is_refused_with_its_place_and_repaired_beside_the_original() {
    let (home, _server) = lived();
    let dir = home.being("ada");
    // The picture before the last one: its checkpoint is before the damage, so it vouches for nothing behind it.
    fs::remove_file(dir.join("state.json")).expect("a picture");
    let offset = damage(&home, "cost_debited");
    let before = files(&dir);
    let place = format!("{} is damaged at byte {offset}", dir.join("activity.jsonl").display());
    for args in [&["once", "--resume", "-f", "ada.toml"][..], &["state", "verify", "ada"], &["state", "repair", "ada"]] {
        let said = home.run(args);
        assert_eq!(said.code(), 4, "{args:?}: {}", said.stderr);
        assert!((said.stdout + &said.stderr).contains(&place), "{args:?} does not name {place}");
    }
    let asked = home.run(&["state", "repair", "ada"]);
    assert!(asked.stderr.contains("state repair ada --yes"), "{}", asked.stderr);
    assert!(asked.stdout.contains("2 checkpoint") && asked.stdout.contains("kept: the"), "{}", asked.stdout);
    assert_eq!(files(&dir), before, "asking changes nothing");
    assert_eq!(verified(&home)["damage"]["offset"], json!(offset));

    let repaired = home.run(&["state", "repair", "ada", "--yes"]).ok();
    let original = dir.with_file_name("ada.damaged-1");
    assert!(repaired.stderr.contains(&original.display().to_string()), "{}", repaired.stderr);
    assert_eq!(files(&original), before, "the original stays byte for byte");
    let kept: Vec<u8> = before[Path::new("activity.jsonl")][..offset].to_vec();
    assert!(fs::read(dir.join("activity.jsonl")).expect("a journal").starts_with(&kept), "exactly what was before the damage");
    assert_eq!(verified(&home)["is_damaged"], json!(false));
    assert_eq!(view::beings(&home), ["ada"], "the original is no being");
    home.run(&["once", "--resume", "-f", "ada.toml"]).ok();
}

#[test]
fn a_last_record_that_was_cut_is_resumed_with_a_warning() {
    let (home, _server) = lived();
    let journal = home.being("ada").join("activity.jsonl");
    for cut in [1, 2, 19, 60] {
        let bytes = fs::read(&journal).expect("a journal");
        fs::write(&journal, &bytes[..bytes.len() - cut]).expect("it can be written");
        // The picture's checkpoint is the record that was cut.
        fs::remove_file(home.being("ada").join("state.json")).expect("a picture");
        let said = home.run(&["state", "verify", "ada"]).ok();
        assert!(said.stdout.contains("torn tail"), "{}", said.stdout);
        let resumed = home.run(&["once", "--resume", "-f", "ada.toml"]).ok();
        assert!(resumed.stderr.contains("ended in a torn write"), "{}", resumed.stderr);
    }
}

#[test]
fn an_edited_state_is_refused_with_both_hashes_and_adopted_only_on_purpose() {
    let (home, _server) = lived();
    let picture = home.being("ada").join("state.json");
    let text = fs::read_to_string(&picture).expect("a picture");
    fs::write(&picture, text.replace(r#""remaining": "14.99998""#, r#""remaining": "99""#)).expect("it can be written");
    let refused = home.run(&["once", "--resume", "-f", "ada.toml"]);
    let hashes = refused.stderr.split_whitespace().filter(|word| word.trim_matches(&[',', ';'][..]).len() == 64);
    assert_eq!((refused.code(), hashes.count()), (4, 2), "{}", refused.stderr);
    assert!(refused.stderr.contains("state adopt"), "{}", refused.stderr);
    let money = home.run(&["state", "adopt", "ada", "--yes"]);
    assert!(money.code() == 4 && money.stderr.contains("does not add up"), "{}", money.stderr);

    let edited = text
        .replace(r#""remaining": "14.99998""#, r#""remaining": "15.99998""#)
        .replace(r#""starting": "15""#, r#""starting": "16""#);
    fs::write(&picture, &edited).expect("it can be written");
    let asked = home.run(&["state", "adopt", "ada"]);
    assert!(
        asked.code() == 4 && asked.stdout.contains(r#"budget.remaining: "14.99998" -> "15.99998""#),
        "{}{}",
        asked.stdout,
        asked.stderr
    );
    let adopted = home.run(&["state", "adopt", "ada", "--yes"]).ok();
    assert!(adopted.stderr.contains("state.json.edited-1") && adopted.stderr.contains("state.json.before-1"), "{}", adopted.stderr);
    assert_eq!(fs::read_to_string(picture.with_file_name("state.json.edited-1")).expect("the edit"), edited);
    assert_eq!(verified(&home)["is_damaged"], json!(false));
    home.run(&["once", "--resume", "-f", "ada.toml"]).ok();
    assert_eq!(home.state("ada")["budget"]["remaining"], json!("15.99996"));
}

#[test]
fn an_edit_is_undone_by_a_repair_without_loss() {
    let (home, _server) = lived();
    let picture = home.being("ada").join("state.json");
    let text = fs::read_to_string(&picture).expect("a picture");
    for (what, foreign) in
        [("nothing", ""), ("no JSON", "{]"), ("two documents", &[text.as_str(), "{}"].concat()), ("zeros", "\0\0\0")]
    {
        fs::write(&picture, foreign).expect("it can be written");
        let refused = home.run(&["state", "verify", "ada"]);
        assert!(
            refused.code() == 4 && refused.stdout.contains("state.json is not understood at byte"),
            "{what}: {}",
            refused.stdout
        );
        home.run(&["state", "repair", "ada"]).ok();
        assert_eq!(verified(&home)["balance_usd"], json!("14.99998"), "{what}");
    }
}

#[test]
fn a_life_moves_in_one_file_and_goes_on_elsewhere() {
    let (home, _server) = lived();
    home.run(&["state", "export", "ada", "-o", "ada.tar.gz"]).ok();
    let again = home.run(&["state", "export", "ada", "-o", "ada.tar.gz"]);
    assert!(again.code() == 4 && again.stderr.contains("does not exist yet"), "{}", again.stderr);
    let over = home.run(&["state", "import", "ada.tar.gz", "ada"]);
    assert!(over.code() == 4 && over.stderr.contains("already holds a life"), "{}", over.stderr);
    home.run(&["state", "import", "ada.tar.gz", "--state-dir", "elsewhere"]).ok();
    let moved = home.run(&["state", "verify", "--state-dir", "elsewhere", "-o", "json"]).ok().json();
    assert_eq!((&moved["state_sha256"], &moved["records"]), (&verified(&home)["state_sha256"], &verified(&home)["records"]));
    home.run(&["once", "--resume", "--state-dir", "elsewhere", "-f", "ada.toml"]).ok();
    assert_eq!(home.run(&["state", "export", "ada", "--state-dir", "x"]).code(), 2, "one of both");
    let nobody = home.run(&["state", "export", "nobody", "-o", "x"]);
    assert!(nobody.code() == 4 && !home.around().join("x").exists() && !home.being("nobody").exists(), "{}", nobody.stderr);
    fs::write(home.around().join("bad.tar.gz"), "no archive").expect("it can be written");
    let bad = home.run(&["state", "import", "bad.tar.gz", "eve"]);
    assert!(bad.code() == 4 && bad.stderr.contains("the archive is refused") && !home.being("eve").exists(), "{}", bad.stderr);
}

#[test]
fn whoever_animates_a_being_is_named_and_left_alone() {
    let (home, _server) = lived();
    home.run(&["apply", "-f", "ada.toml"]).ok();
    let pid = home.daemon().expect("a daemon").pid.to_string();
    for args in [
        &["state", "repair", "ada", "--yes"][..],
        &["state", "adopt", "ada", "--yes"],
        &["state", "export", "ada", "-o", "x"],
        &["state", "import", "ada.toml", "ada"],
    ] {
        let said = home.run(args);
        assert!(said.code() == 4 && said.stderr.contains(&format!("process {pid}")), "{args:?}: {}", said.stderr);
    }
    home.run(&["state", "verify", "ada"]).ok();
}

#[test]
fn a_being_that_stalls_on_damage_lives_again_after_a_repair_under_the_same_daemon() {
    let (home, _server) = lived();
    damage(&home, "cost_debited");
    home.run(&["apply", "--detach", "-f", "ada.toml"]).ok();
    wait_until(SOON, "the being stalls", || view::is(&home, "ada", "Stalled"));
    let described = home.run(&["describe", "being/ada"]).stdout;
    assert!(described.contains("is damaged at byte") && described.contains("state repair"), "{described}");
    let daemon = home.daemon();
    home.run(&["state", "repair", "ada", "--yes"]).ok();
    home.run(&["apply", "-f", "ada.toml"]).ok();
    assert!(view::is(&home, "ada", "Ready"), "{}", home.run(&["describe", "being/ada"]).stdout);
    assert_eq!(home.daemon().map(|daemon| daemon.pid), daemon.map(|daemon| daemon.pid));
}
