//! What happened to a fleet can be followed, and money that an operator gives counts once.
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use serde_json::Value;
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Server},
    wait_for, wait_until,
};

fn fleet(server: &Server, more: &str) -> String {
    format!(
        "{}\n[being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"1h\" }}\nbudget = {{ starting = \"1\" }}\n{more}\n",
        server.model()
    )
}

fn begun(more: &str) -> (Home, Server) {
    let (home, server) = (Home::new(), Server::start(|_| Reply::say("well")));
    home.write("ada.toml", &fleet(&server, more));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    (home, server)
}

fn reasons(home: &Home, args: &[&str]) -> Vec<String> {
    let listed = home.run(&[&["events", "-o", "json"], args].concat()).ok().json();
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_happens_to_a_being_is_told_as_it_happens() {
    let (home, server) = begun("");
    let watch = home.spawn(&["events", "-w", "being/ada", "-o", "jsonl"]);
    let seen = || -> Vec<Value> { watch.said().0.lines().filter_map(|line| serde_json::from_str(line).ok()).collect() };
    let wait = |reason: &str| {
        wait_for(SOON, &format!("the event {reason}"), || seen().into_iter().find(|event| event["reason"] == reason))
    };
    assert_eq!(wait("Declared")["object"], "being/ada");
    wait("Alive");
    home.run(&["pause", "ada", "--reason", "to look"]).ok();
    assert!(wait("Held")["message"].as_str().expect("a text").contains("because to look"));
    home.run(&["resume", "ada"]).ok();
    wait("Resumed");
    home.write("ada.toml", &fleet(&server, "approve = [\"x__*\"]"));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    wait("Edited");
    wait("Updated");
    home.write("ada.toml", &fleet(&server, "specialty = \"another\""));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]);
    assert!(wait("Refused")["message"].as_str().expect("a text").contains("cannot change after birth"));
    let numbers: Vec<u64> = seen().iter().filter_map(|event| event["number"].as_u64()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "told twice, or out of order: {numbers:?}");

    let described = home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(described.contains("events\n") && described.contains("Refused"), "{described}");
    assert!(reasons(&home, &["model/scripted"]).iter().all(|reason| reason == "Declared"));
    home.run(&["freeze"]).ok();
    wait_until(SOON, "the freeze to be told", || reasons(&home, &[]).last().is_some_and(|last| last == "Frozen"));
}

#[test]
fn money_of_an_operator_counts_once_for_each_id_and_outlives_the_daemon() {
    let (home, _server) = begun("grant = [{ id = \"declared\", usd = \"2\" }]");
    let granted = || home.events("ada", "funds_granted").len();
    wait_until(PATIENT, "what the manifest grants", || granted() == 1);
    for _ in 0..2 {
        home.run(&["fund", "being/ada", "25", "--id", "2026-12", "--reason", "a good month"]).ok();
    }
    wait_until(SOON, "the money to be there", || granted() == 2);
    let other = home.run(&["fund", "ada", "26", "--id", "2026-12"]);
    assert!(other.code() == 2 && other.stderr.contains("25 USD as `2026-12` before"), "{}", other.stderr);
    let declared = home.run(&["fund", "ada", "1", "--id", "declared"]);
    assert!(declared.stderr.contains("the manifest of being/ada grants 2 USD"), "{}", declared.stderr);
    assert_eq!(home.run(&["fund", "ada", "0", "--id", "nothing"]).code(), 2);
    assert_eq!(home.run(&["fund", "nobody", "1", "--id", "x"]).code(), 2);
    let audit = home.run(&["audit"]).ok().stdout;
    assert!(audit.contains("25 USD for being/ada as 2026-12") && audit.contains("a good month"), "{audit}");
    assert_eq!(home.run(&["plan", "-f", "ada.toml"]).ok().stdout, "nothing changes\n", "it is no part of what is declared");
    assert!(reasons(&home, &["being/ada"]).contains(&"Funded".to_owned()));

    home.run_within(PATIENT, &["down"]).ok();
    let _daemon = home.spawn(&["serve"]);
    wait_until(PATIENT, "ada to live again", || home.events("ada", "started").len() == 2);
    home.run(&["fund", "ada", "3", "--id", "next"]).ok();
    wait_until(SOON, "the next money to be there", || granted() == 3);
    let total: f64 =
        home.events("ada", "funds_granted").iter().filter_map(|event| event["usd"].as_str()?.parse::<f64>().ok()).sum();
    assert!((total - 30.0).abs() < 1e-9, "{total}");
}
