//! Bad input of every kind gets a clear error with the exit code of its class, and loses nothing.
#![expect(clippy::disallowed_methods, reason = "a test drives a shell")]

#[cfg(test)]
mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use support::{
    Home, Output, SOON,
    openai::{Reply, Server},
    view, wait_until,
};

const QUIET: &str = "[model.m]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n\n[being.ada]\nspecialty = \"waiting\"\nmodel = \"m\"\npaused = true\n";

/// A manifest with one being that thinks with a scripted server.
fn with(server: &Server) -> String {
    QUIET.replace("http://127.0.0.1:9/v1", &server.base_url()).replace("paused = true\n", "")
}

fn apply(home: &Home, manifest: &str) -> Output {
    home.write("ada.toml", manifest);
    home.run(&["apply", "-f", "ada.toml"])
}

#[test]
fn a_second_daemon_is_told_who_the_first_is_and_changes_nothing() {
    let home = Home::new();
    apply(&home, QUIET).ok();
    let first = home.daemon().expect("a daemon runs");
    let second = home.run(&["serve"]);
    assert_eq!(second.code(), 4, "{}", second.stderr);
    assert!(second.stderr.contains(&first.pid.to_string()), "{}", second.stderr);
    assert!(view::is(&home, "ada", "Ready"));
}

#[test]
fn a_home_that_others_may_enter_is_refused_with_the_remedy() {
    let home = Home::new();
    fs::create_dir_all(home.path()).expect("the home");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let refused = apply(&home, QUIET);
    assert_eq!(refused.code(), 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("chmod 700"), "{}", refused.stderr);
}

#[test]
fn a_purge_leaves_the_state_of_a_being_that_still_runs() {
    let home = Home::new();
    apply(&home, QUIET).ok();
    let kept = home.run(&["delete", "being/ada"]);
    assert!(kept.stderr.contains("is kept"), "{}", kept.stderr);
    assert!(home.being("ada").join("state.json").exists());
    assert!(home.path().join("tools/ada.json").exists());
    apply(&home, QUIET).ok();
    let life = home.state("ada")["identity"]["agent_id"].clone();
    let purged = home.run(&["delete", "being/ada", "--purge"]);
    assert!(purged.stderr.contains("is removed"), "{}", purged.stderr);
    assert!(!home.being("ada").exists());
    assert!(!home.path().join("tools/ada.json").exists(), "what it had seen is forgotten with it");
    apply(&home, QUIET).ok();
    assert_ne!(home.state("ada")["identity"]["agent_id"], life, "a purged being is born anew");
}

#[test]
fn a_model_that_refuses_for_good_stalls_the_being_until_an_edit() {
    let home = Home::new();
    let server = Server::start(|_| Reply::error(401, "bad key"));
    home.write("ada.toml", &with(&server));
    home.run(&["apply", "--detach", "-f", "ada.toml"]).ok();
    wait_until(SOON, "the being stalls", || view::is(&home, "ada", "Stalled"));
    let described = home.run(&["describe", "being/ada"]);
    assert!(described.stdout.contains("bad key"), "{}", described.stdout);
    let once = home.run(&["once", "--state-dir", "other", "-f", "ada.toml"]);
    assert_eq!(once.code(), 3, "{}", once.stderr);
}

#[test]
fn boot_has_four_cases_with_the_words_of_the_spec() {
    let home = Home::new();
    let server = Server::start(|_| Reply::say("done"));
    home.write("ada.toml", &with(&server));
    let none = home.run(&["once", "--resume", "-f", "ada.toml"]);
    assert_eq!(none.code(), 4);
    assert!(none.stderr.contains("state: resume requested but no state exists"), "{}", none.stderr);
    let first = home.run(&["once", "-f", "ada.toml"]);
    assert_eq!((first.code(), first.json()["cycle"].as_u64()), (0, Some(1)), "{}", first.stderr);
    let again = home.run(&["once", "-f", "ada.toml"]);
    assert_eq!(again.code(), 4);
    assert!(again.stderr.contains("use --resume or a new directory"), "{}", again.stderr);
    let resumed = home.run(&["once", "--resume", "-f", "ada.toml"]);
    assert_eq!(resumed.json()["cycle"].as_u64(), Some(2), "{}", resumed.stderr);
    home.write("ada.toml", &with(&server).replace("waiting", "running"));
    let refused = home.run(&["once", "--resume", "-f", "ada.toml"]);
    assert_eq!(refused.code(), 4);
    assert!(refused.stderr.contains("state: resume identity does not match configuration"), "{}", refused.stderr);
}

#[test]
fn a_reader_that_leaves_ends_the_command_without_a_word() {
    let home = Home::new();
    let server = Server::start(|_| Reply::say("done"));
    home.write("ada.toml", &with(&server));
    home.run(&["once", "-f", "ada.toml"]).ok();
    let said = std::process::Command::new("sh")
        .args(["-c", "\"$0\" --home \"$1\" logs ada | head -1", support::BINARY])
        .arg(home.path())
        .output()
        .expect("a shell");
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
    assert!(String::from_utf8_lossy(&said.stdout).contains("started"));
}

#[test]
fn every_bad_command_says_what_is_wrong_and_what_to_do() {
    let home = Home::new();
    let cases: [(&[&str], i32, &str); 10] = [
        (&["get", "nonsense"], 2, "is nothing to get"),
        (&["get", "being/nobody"], 2, "is not declared"),
        (&["explain", "being.las.onyl"], 2, "only"),
        (&["schema", "nonsense"], 2, "no schema is called"),
        (&["validate", "-f", "nowhere.toml"], 2, "nowhere.toml"),
        (&["serve", "nowhere"], 2, "does not exist"),
        (&["logs", "nobody"], 4, "no"),
        (&["logs", "nobody", "-o", "toml"], 2, "-o jsonl"),
        (&["delete", "being/ada"], 4, "no daemon runs"),
        (&["once"], 2, "BRAMA_HMAC_SECRET_FILE"),
    ];
    for (args, code, words) in cases {
        let said = home.run(args);
        assert_eq!(said.code(), code, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains("singularity: "), "{args:?}: {}", said.stderr);
    }
}

#[test]
fn a_model_that_is_away_is_shown_as_unreachable_and_asked_until_it_answers() {
    let home = Home::new();
    let is_back = Arc::new(AtomicBool::new(false));
    let back = Arc::clone(&is_back);
    let server = Server::start(move |_| if back.load(Ordering::Relaxed) { Reply::say("done") } else { Reply::error(503, "away") });
    home.write("ada.toml", &with(&server));
    home.run(&["apply", "--detach", "-f", "ada.toml"]).ok();
    wait_until(SOON, "the model is known to be away", || {
        home.run(&["get", "beings", "-o", "json"]).stdout.contains("ModelUnreachable")
    });
    assert!(!view::is(&home, "ada", "Ready"));
    is_back.store(true, Ordering::Relaxed);
    wait_until(SOON, "the being thinks again", || {
        home.events("ada", "model_completed").len() == 1 && view::is(&home, "ada", "Ready")
    });
    assert_eq!(home.events("ada", "cycle_started").len(), 1, "an outage opens no new cycle");
    assert!(!home.events("ada", "warning").is_empty());
}

#[test]
fn a_stop_in_a_wait_asks_no_model_again_and_does_not_wait_for_it() {
    let home = Home::new();
    let server = Server::start(|_| Reply::error(503, "away").header("Retry-After", "600"));
    home.write("ada.toml", &with(&server));
    home.run(&["apply", "--detach", "-f", "ada.toml"]).ok();
    wait_until(SOON, "the model refused once", || !home.events("ada", "warning").is_empty());
    home.run_within(Duration::from_secs(5), &["down"]).ok();
    assert_eq!(server.seen().len(), 1);
    assert_eq!(home.state("ada")["status"], "stopped");
}

#[test]
fn a_cycle_that_nothing_but_an_edit_can_bring_is_refused_with_that_edit() {
    let home = Home::new();
    let server = Server::start(|_| Reply::say("well"));
    let open = with(&server);
    home.write("ada.toml", QUIET);
    let paused = home.run(&["once", "-f", "ada.toml"]);
    assert_eq!((paused.code(), server.seen().len()), (2, 0), "{}", paused.stderr);
    assert!(paused.stderr.contains("the being is paused") && paused.stderr.contains("paused = false"), "{}", paused.stderr);
    home.write("ada.toml", &open.replace("[being.ada]", "[being.ada]\ncycle = { limit = 1 }"));
    home.run(&["once", "-f", "ada.toml", "--resume"]).ok();
    let finished = home.run(&["once", "-f", "ada.toml", "--resume"]);
    assert_eq!((finished.code(), server.seen().len()), (2, 1), "{}", finished.stderr);
    assert!(finished.stderr.contains("`cycle.limit`"), "{}", finished.stderr);
}
