//! A daemon's beings share their syncs: what was acknowledged to one outlives a power cut that its own journal did not.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test takes from a file what never reached the disk, and may fail"
)]

#[cfg(test)]
mod support;

use std::fs;

use serde_json::json;
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Server},
    wait_until,
};

/// Kills a daemon in mid-cycle, and takes from the being's journal all that was never synced there; then `revive` goes on.
fn after_a_power_cut(revive: impl FnOnce(&Home)) {
    let home = Home::new();
    let server = Server::start(|seen| match seen.index {
        0 => Reply::call("singularity_memory_recall", json!({ "query": "x" })),
        1 => Reply::hang(),
        _ => Reply::say("well"),
    });
    home.write(
        "ada.toml",
        &format!(
            "{}\n\n\
             [being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"1h\" }}\nbudget = {{ starting = \"15\" }}\n",
            server.model()
        ),
    );
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    wait_until(SOON, "the second thought", || server.seen().len() == 2);
    home.daemon().expect("a daemon").kill();
    wait_until(SOON, "the daemon's end", || home.daemon().is_none());
    let journal = home.being("ada").join("activity.jsonl");
    let whole = fs::read(&journal).expect("the journal");
    let synced: usize = whole.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::len).sum();
    fs::write(&journal, whole.get(..synced).expect("its beginning")).expect("what was synced");

    revive(&home);
    let mended = fs::read(&journal).expect("the journal");
    assert!(
        mended.starts_with(&whole),
        "{}\nis not continued by\n{}",
        String::from_utf8_lossy(&whole),
        String::from_utf8_lossy(&mended)
    );
    let debits = home.events("ada", "cost_debited");
    assert_eq!(debits.len(), server.seen().len() - 1, "every answer is paid, the first one too and once");
}

#[test]
fn a_daemon_goes_on_from_what_the_one_before_acknowledged() {
    after_a_power_cut(|home| {
        home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
        wait_until(SOON, "the next cycle", || home.events("ada", "cost_debited").len() == 2);
        home.run(&["down"]).ok();
        let log = fs::read_to_string(home.path().join("daemon.log")).expect("the log");
        assert!(log.contains("records that had been acknowledged; the commit log had them"), "{log}");
    });
}

#[test]
fn one_being_alone_goes_on_from_what_a_daemon_acknowledged() {
    after_a_power_cut(|home| {
        home.run_within(PATIENT, &["once", "-f", "ada.toml", "--resume"]).ok();
    });
}
