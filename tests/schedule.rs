//! Schedules under the real binary: what stands on the wall clock is moved by no death of a process and by no other being.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use support::{
    Home, Life, PATIENT,
    openai::{Reply, Server},
    wait_for, wait_until,
};

/// A home whose daemon serves beings of one text.
struct Served {
    home: Home,
    folder: PathBuf,
    daemon: Life,
}

impl Served {
    fn start(text: &str) -> Self {
        let home = Home::new();
        home.write("fleet/beings.toml", text);
        let folder = home.around().join("fleet");
        let daemon = home.spawn(&["serve", folder.to_str().expect("UTF-8")]);
        Self { home, folder, daemon }
    }

    /// Kills the daemon with SIGKILL, and waits until nothing of it is left.
    fn die(&mut self) {
        self.home.daemon().expect("a daemon").kill();
        wait_until(PATIENT, "the daemon's end", || self.home.daemon().is_none());
        self.daemon.ended_within(PATIENT);
    }

    fn revive(&mut self) {
        self.daemon = self.home.spawn(&["serve", self.folder.to_str().expect("UTF-8")]);
    }

    /// The cycles of a being that took a slot: when each began, and the slot. What makes up for a cycle that died takes none.
    fn cycles(&self, being: &str) -> Vec<(Timestamp, Timestamp)> {
        let instant = |event: &Value, key: &str| event[key].as_str().and_then(|text| text.parse().ok()).expect("an instant");
        let begun = self.home.events(being, "cycle_started");
        begun.iter().filter(|event| !event["slot"].is_null()).map(|event| (instant(event, "at"), instant(event, "slot"))).collect()
    }

    /// Waits until so many cycles began.
    fn wait_for(&self, being: &str, count: usize) -> Vec<(Timestamp, Timestamp)> {
        wait_for(PATIENT, "a cycle", || Some(self.cycles(being)).filter(|cycles| cycles.len() >= count))
    }

    fn facts(&self, being: &str) -> Value {
        let got = self.home.run(&["get", being, "-o", "json"]);
        if got.code() == 0 { got.json()["items"][0]["being"].clone() } else { Value::Null }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test looks at the clock")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[test]
fn a_slot_is_taken_once_however_a_daemon_dies_in_it_and_what_was_missed_runs_once() {
    let server = Server::start(|_| Reply::say("well"));
    let text = format!("{}\n\n[being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"10s\" }}\n", server.model());
    let mut served = Served::start(&text);
    let first = served.wait_for("ada", 2);
    served.die();
    served.revive();
    let second = served.wait_for("ada", 3);
    assert_eq!(second[..2], first[..], "nothing was taken again");
    let slot = second[2].1;
    served.die();
    wait_until(PATIENT, "two slots to pass", || now().as_second() >= slot.as_second() + 25);
    let revived = now();
    served.revive();
    let cycles = served.wait_for("ada", 5);
    assert!(cycles.windows(2).all(|pair| pair[0].1 < pair[1].1), "{cycles:?}");
    assert!(cycles.iter().all(|(begun, slot)| slot.as_second() % 10 == 0 && slot <= begun), "{cycles:?}");
    let (begun, slot) = cycles[3];
    assert!(begun >= revived && begun.as_second() - slot.as_second() < 10, "one cycle takes the newest of them: {cycles:?}");
    assert_eq!(cycles[4].1.as_second(), slot.as_second() + 10, "and the next slot is on time");
}

#[test]
fn an_operator_sees_when_a_being_wakes_and_why() {
    let server = Server::start(|_| Reply::say("well"));
    let text = format!("{}\n\n[being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"2h\", spread = \"1m\" }}\n", server.model());
    let served = Served::start(&text);
    let facts = wait_for(PATIENT, "a being at rest", || {
        let facts = served.facts("being/ada");
        (facts["cycle"] == 1 && !facts["next_wake"].is_null()).then_some(facts)
    });
    let wake: Timestamp = facts["next_wake"].as_str().expect("a text").parse().expect("RFC 3339");
    let over = wake.as_second().rem_euclid(7_200);
    assert!(over < 60 && wake > now() && wake.as_second() - now().as_second() <= 7_260, "the next even hour: {wake}");
    assert_eq!(facts["next_wake_because"], "every 2h");
    let activity = facts["activity"].as_str().expect("a text");
    assert!(activity.starts_with("resting until ") && activity.ends_with("Z (every 2h)"), "{activity}");
    let described = served.home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(described.contains(activity), "{described}");
}

#[test]
fn a_being_that_hangs_delays_no_other() {
    let server = Server::start(|seen| match seen.said_by("system").iter().any(|text| text.contains("stuck")) {
        true => Reply::hang(),
        false => Reply::say("well"),
    });
    let being = |name: &str| {
        format!("\n[being.{name}]\nmodel = \"scripted\"\nprompt = \"You are {name}.\"\ncycle = {{ every = \"10s\" }}\n")
    };
    let served = Served::start(&format!("{}\n{}{}{}", server.model(), being("stuck"), being("ada"), being("eve")));
    for name in ["ada", "eve"] {
        let cycles = served.wait_for(name, 3);
        for pair in cycles[1..].windows(2) {
            assert_eq!(pair[0].1.as_second() + 10, pair[1].1.as_second(), "{name} misses nothing");
        }
    }
    assert_eq!(served.cycles("stuck").len(), 1);
}
