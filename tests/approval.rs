//! Calls that wait for a person: never made before, made once after, told when refused, whatever dies in between.
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Seen, Server},
    wait_for, wait_until,
};

/// A model that asks once for two memories and is content with whatever comes of it.
fn remembering() -> Server {
    Server::start(|seen: &Seen| {
        if !seen.said_by("tool").is_empty() {
            return Reply::say("well");
        }
        let memory = |text: &str| json!({ "kind": "note", "text": text });
        Reply::calls(&[
            ("one", "singularity_memory_remember", memory("first")),
            ("two", "singularity_self_add_rule", json!({ "rule": "second" })),
        ])
    })
}

fn manifest(server: &Server, more: &str) -> String {
    let model = server.model();
    format!(
        r#"{model}
[being.ada]
model = "scripted"
cycle = {{ every = "1h" }}
approve = ["singularity_memory_*", "nobody__*"]
{more}
"#
    )
}

fn questions(home: &Home) -> Vec<Value> {
    let listed = home.run(&["questions", "-o", "json"]).ok().json();
    listed.as_array().cloned().unwrap_or_default()
}

fn waiting(home: &Home) -> Value {
    wait_for(PATIENT, "a call waits for approval", || questions(home).into_iter().next())
}

fn memories(home: &Home) -> usize {
    home.state("ada")["mind"]["memories"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_call_that_needs_approval_waits_through_a_crash_and_is_made_once() {
    let (home, server) = (Home::new(), remembering());
    let file = home.write("ada.toml", &manifest(&server, ""));
    let file = file.to_str().expect("UTF-8");
    home.run(&["apply", "-f", file]).ok();
    let asked = waiting(&home);
    assert_eq!((asked["id"].as_str(), asked["tool"].as_str()), (Some("ada.1"), Some("singularity_memory_remember")));
    assert!(asked["arguments"].as_str().is_some_and(|text| text.contains("first")), "{asked}");
    let shown = home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(shown.contains("waiting for approval of singularity_memory_remember") && shown.contains("ada.1"), "{shown}");

    home.daemon().expect("a daemon").kill();
    wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
    assert_eq!(questions(&home), std::slice::from_ref(&asked), "it is told from the state, too");
    let nobody = home.run(&["approve", "ada.1"]);
    assert!(nobody.code() == 4 && nobody.stderr.contains("no daemon runs"), "{}", nobody.stderr);
    home.run(&["apply", "-f", file]).ok();
    assert_eq!(waiting(&home), asked, "the same question waits");
    assert!(home.events("ada", "tool_started").is_empty(), "nothing was called, and nothing behind it either");

    home.run(&["approve", "ada.1"]).ok();
    wait_until(PATIENT, "the cycle ends", || home.events("ada", "tool_finished").len() == 2 && server.seen().len() == 2);
    let again = home.run(&["deny", "ada.1"]);
    assert!(again.code() == 2 && again.stderr.contains("answered already"), "{}", again.stderr);
    let unknown = home.run(&["approve", "ada.7"]);
    assert!(unknown.code() == 2 && unknown.stderr.contains("no such question"), "{}", unknown.stderr);
    assert_eq!(home.events("ada", "input_answered").len(), 1);
    assert_eq!(home.events("ada", "tool_started").len(), 2);
    home.run(&["down"]).ok();
    assert_eq!(memories(&home), 1);
}

#[test]
fn a_denied_call_is_not_made_and_the_being_is_told_why() {
    let (home, server) = (Home::new(), remembering());
    let file = home.write("ada.toml", &manifest(&server, ""));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let asked = waiting(&home);
    let values = home.run(&["answer", "ada.1", "--value", "sure=yes"]);
    assert!(values.code() == 2 && values.stderr.contains("`singularity approve` or `singularity deny`"), "{}", values.stderr);
    assert_eq!(questions(&home), [asked], "values are no word about a call");
    home.run(&["deny", "ada.1", "--reason", "not on a Sunday"]).ok();
    let seen = server.wait_for(2, PATIENT);
    let told = seen.last().map(|seen| seen.said_by("tool").join("\n")).unwrap_or_default();
    assert!(told.contains("denied") && told.contains("not on a Sunday"), "{told}");
    home.run(&["down"]).ok();
    assert_eq!((memories(&home), home.events("ada", "tool_started").len()), (0, 1), "the call behind it is made");
}

#[test]
fn a_call_that_nobody_answers_for_in_time_is_not_made() {
    let (home, server) = (Home::new(), remembering());
    let file = home.write("ada.toml", &manifest(&server, r#"approve_within = "300ms""#));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let seen = server.wait_for(2, PATIENT);
    let told = seen.last().map(|seen| seen.said_by("tool").join("\n")).unwrap_or_default();
    assert!(told.contains("nobody answered in time"), "{told}");
    home.run(&["down"]).ok();
    assert_eq!(memories(&home), 0);
}

#[test]
fn a_paused_being_makes_no_call_that_is_approved_meanwhile_and_its_question_waits() {
    let (home, server) = (Home::new(), remembering());
    let file = home.write("ada.toml", &manifest(&server, ""));
    let file = file.to_str().expect("UTF-8").to_owned();
    home.run(&["apply", "-f", &file]).ok();
    waiting(&home);
    home.run(&["down"]).ok();
    home.write("ada.toml", &manifest(&server, "paused = true"));
    home.run(&["apply", "-f", &file]).ok();
    let refused = home.run(&["approve", "ada.1"]);
    assert!(refused.code() == 2 && refused.stderr.contains("is paused"), "{}", refused.stderr);
    assert_eq!(questions(&home).len(), 1);
    home.write("ada.toml", &manifest(&server, ""));
    home.run(&["apply", "-f", &file]).ok();
    wait_until(PATIENT, "the being waits again", || home.run(&["describe", "being/ada"]).stdout.contains("waiting for approval"));
    home.run(&["approve", "ada.1"]).ok();
    wait_until(PATIENT, "the calls are made", || home.events("ada", "tool_finished").len() == 2);
    assert_eq!(home.events("ada", "tool_started").len(), 2);
}

#[test]
fn where_nobody_can_be_asked_the_question_is_kept_for_the_daemon() {
    let (home, server) = (Home::new(), remembering());
    let file = home.write("ada.toml", &manifest(&server, ""));
    let file = file.to_str().expect("UTF-8");
    let once = home.run_within(Duration::from_secs(30), &["once", "-f", file]);
    assert!(
        once.code() == 5 && once.stderr.contains("question 1, a call of singularity_memory_remember"),
        "{}{}",
        once.stdout,
        once.stderr
    );
    home.run(&["apply", "-f", file]).ok();
    assert_eq!(waiting(&home)["id"], "ada.1");
    home.run(&["approve", "ada.1"]).ok();
    wait_until(PATIENT, "the calls are made", || home.events("ada", "tool_finished").len() == 2);
}
