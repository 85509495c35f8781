//! What an operator does to a fleet that lives: plans that programs can ask, pauses, history, freezes, and the record of who did what.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{fs, os::unix::fs::MetadataExt as _};

use serde_json::{Value, json};
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Seen, Server},
    wait_until,
};

/// A fleet of one being that thinks all the time.
fn fleet(server: &Server, more: &str) -> String {
    let model = server.model();
    format!(
        r#"{model}
[being.ada]
model = "scripted"
cycle = {{ every = "50ms" }}
labels = {{ team = "lab" }}
{more}
"#
    )
}

fn chatty() -> Server {
    Server::start(|_| Reply::say("well"))
}

#[test]
fn a_program_can_ask_whether_anything_would_change() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, ""));
    let asks = ["plan", "-f", "ada.toml", "--exit-code"];
    assert_eq!(home.run(&asks).code(), 1, "nothing was born yet");
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    server.wait_for(1, PATIENT);
    let same = home.run(&asks).ok();
    assert_eq!(same.stdout, "nothing changes\n");

    home.write("ada.toml", &fleet(&server, "approve = [\"x__*\"]"));
    let edited = home.run(&asks);
    assert!(edited.code() == 1 && edited.stdout.contains("approve"), "{}\n{}", edited.stdout, edited.stderr);
    assert_eq!(edited.stderr, "", "a difference is no failure");
    assert_eq!(home.run(&["plan", "-f", "ada.toml"]).code(), 0, "who does not ask is not told");
    home.write("ada.toml", &fleet(&server, "specialty = \"another\""));
    let refused = home.run(&asks);
    assert!(refused.code() == 1 && refused.stdout.contains("! being/ada"), "{}", refused.stdout);
    home.write("ada.toml", "[being.ada]\nmodle = \"x\"\n");
    assert_eq!(home.run(&asks).code(), 2, "what does not validate is neither");
}

#[test]
fn an_apply_knows_what_lives_already_also_right_after_the_daemon_started() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, ""));
    let apply = ["apply", "-f", "ada.toml"];
    let first = home.run_within(PATIENT, &apply).ok();
    assert!(first.stdout.contains("+ being/ada  it is declared and not born yet"), "{}", first.stdout);
    assert_eq!(home.run(&apply).ok().stdout, "nothing changes\n");
    for _ in 0..3 {
        home.daemon().expect("a daemon").kill();
        wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
        assert_eq!(home.run(&apply).ok().stdout, "nothing changes\n", "it lives, and a daemon that starts animates it again");
    }

    home.run(&["delete", "being/ada"]).ok();
    home.run(&["down"]).ok();
    let _daemon = home.spawn(&["serve"]);
    wait_until(SOON, "a daemon that knows of no being", || {
        let got = home.run(&["get"]);
        got.stderr.contains("nothing is declared") && !got.stderr.contains("no daemon runs")
    });
    let again = home.run(&["plan", "-f", "ada.toml"]).ok().stdout;
    assert!(again.contains("+ being/ada  its state is there, but nothing animates it"), "{again}");
    home.write("ada.toml", &fleet(&server, "budget = { starting = \"99\" }"));
    let refused = home.run(&["plan", "-f", "ada.toml"]).ok().stdout;
    assert!(refused.contains("! being/ada  `budget.starting` cannot change after birth"), "{refused}");
}

/// One being's row of `get -o json`.
fn row(home: &Home, name: &str) -> Value {
    let listed = home.run(&["get", "beings", "-o", "json"]).ok().json();
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    items.into_iter().find(|item| item["address"] == format!("being/{name}")).unwrap_or_default()
}

fn activity(home: &Home, name: &str) -> String {
    row(home, name)["being"]["activity"].as_str().unwrap_or_default().to_owned()
}

fn wait_until_held(home: &Home, name: &str) {
    wait_until(SOON, "the being is held", || activity(home, name).starts_with("paused by uid"));
}

fn my_uid() -> u32 {
    fs::metadata("/proc/self").expect("procfs").uid()
}

#[test]
fn a_paused_being_asks_no_model_through_restarts_until_it_is_resumed() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, ""));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    server.wait_for(2, PATIENT);
    let said = home.run(&["pause", "being/ada", "--reason", "it spends too much"]).ok();
    assert!(said.stderr.contains("being/ada is paused"), "{}", said.stderr);
    wait_until_held(&home, "ada");
    let asked = server.seen().len();
    let paused = row(&home, "ada")["being"]["paused"].clone();
    assert_eq!((&paused["uid"], &paused["because"]), (&json!(my_uid()), &json!("it spends too much")));
    let again = home.run(&["pause", "ada", "--reason", "another"]).ok();
    assert!(again.stderr.contains("paused already") && again.stderr.contains("it spends too much"), "{}", again.stderr);

    home.daemon().expect("a daemon").kill();
    wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
    let _daemon = home.spawn(&["serve"]);
    wait_until_held(&home, "ada");
    assert_eq!(row(&home, "ada")["being"]["paused"], paused, "who, when and why outlive the daemon");
    let told = home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(told.contains(&format!("paused by uid {} since ", my_uid())) && told.contains("it spends too much"), "{told}");
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    assert_eq!(server.seen().len(), asked, "no model was asked while it was paused");

    home.run(&["resume", "ada"]).ok();
    server.wait_for(asked + 2, SOON);
    assert_eq!(row(&home, "ada")["being"]["paused"], Value::Null);
}

/// A server whose tool `slow` answers once there is a file.
const SLOW: &str = r#"
import json, os, sys, time
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        info = {"name": "door", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        say(id=id, result={"content": [{"type": "text", "text": "done"}]})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
"#;

/// A being that was paused while the first of two calls of a round was under way, and is held by now.
fn held_between_two_rounds() -> (Home, Server) {
    let home = Home::new();
    let server = Server::start(|seen: &Seen| match seen.said_by("tool").len() {
        0 => Reply::calls(&[
            ("one", "door__slow", json!({})),
            ("two", "singularity_memory_remember", json!({ "kind": "note", "text": "second" })),
        ]),
        _ => Reply::say("well"),
    });
    let (script, go) = (home.write("door.py", SLOW), home.around().join("go"));
    let door = format!(
        "cycle = {{ every = \"1h\" }}\n[surface.door]\ncommand = [\"python3\", {:?}, {:?}]",
        script.display().to_string(),
        go.display().to_string()
    );
    home.write("ada.toml", &fleet(&server, &door).replace("cycle = { every = \"50ms\" }\n", ""));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    wait_until(PATIENT, "the first call", || !home.events("ada", "tool_started").is_empty());
    home.run(&["pause", "ada"]).ok();
    assert!(activity(&home, "ada").contains("door__slow"), "what is under way is not taken away");
    home.write("go", "");
    wait_until_held(&home, "ada");
    (home, server)
}

#[test]
fn a_pause_waits_for_the_calls_of_a_round_and_holds_before_the_next_model_call() {
    let (home, server) = held_between_two_rounds();
    assert_eq!(home.events("ada", "tool_finished").len(), 2, "the round was finished");
    assert_eq!(server.seen().len(), 1, "and no model was asked after it");
    home.run(&["resume", "ada"]).ok();
    server.wait_for(2, SOON);
    assert_eq!(server.seen()[1].said_by("tool").len(), 2);
    assert_eq!(home.events("ada", "cycle_started").len(), 1, "it goes on in its cycle");
}

#[test]
fn a_being_that_is_held_in_its_cycle_can_be_stopped_and_is_held_still_when_it_lives_again() {
    let (home, server) = held_between_two_rounds();
    home.run(&["down"]).ok();
    assert_eq!(home.state("ada")["status"], "stopped");
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    wait_until_held(&home, "ada");
    assert_eq!(server.seen().len(), 1);
    home.run(&["resume", "--all"]).ok();
    server.wait_for(2, SOON);
}

#[test]
fn what_a_manifest_pauses_is_not_resumed_and_its_place_is_told() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, "paused = true"));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    let told = |said: &str| said.contains("ada.toml`") && said.contains("set `paused = false` there");
    let refused = home.run(&["resume", "ada"]);
    assert!(refused.code() == 2 && told(&refused.stderr), "{}", refused.stderr);
    home.run(&["pause", "ada"]).ok();
    let still = home.run(&["resume", "ada"]).ok();
    assert!(told(&still.stderr), "{}", still.stderr);
    assert_eq!(activity(&home, "ada"), "paused by its manifest");
    assert!(server.seen().is_empty());
}

#[test]
fn beings_are_paused_by_their_labels_and_a_choice_that_means_nobody_is_refused() {
    let (home, server) = (Home::new(), chatty());
    let others = "[being.bob]\nmodel = \"scripted\"\nlabels = { team = \"shop\" }\n[being.cy]\nmodel = \"scripted\"\nlabels = { team = \"lab\" }";
    home.write("ada.toml", &fleet(&server, others));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    home.run(&["pause", "-l", "team=lab"]).ok();
    let paused = || {
        let names = ["ada", "bob", "cy"].into_iter();
        names.filter(|name| row(&home, name)["being"]["paused"].is_object()).collect::<Vec<_>>()
    };
    wait_until(SOON, "the pauses are in force", || paused() == ["ada", "cy"]);
    for (args, says) in [
        (&["pause", "-l", "team=none"][..], "there are no beings with the labels team=none"),
        (&["pause", "ada", "nobody"], "no such being: being/nobody"),
        (&["resume", "surface/door"], "only beings"),
    ] {
        let refused = home.run(args);
        assert!(refused.code() == 2 && refused.stderr.contains(says), "{}", refused.stderr);
    }
    assert_eq!(home.run(&["pause"]).code(), 2, "a choice is needed");
    home.run(&["pause", "--all"]).ok();
    wait_until(SOON, "the pauses are in force", || paused().len() == 3);
    home.run(&["resume", "--all"]).ok();
    wait_until(SOON, "nobody is paused", || paused().is_empty());
}

fn revisions(home: &Home) -> Vec<Value> {
    let listed = home.run(&["history", "-o", "json"]).ok().json();
    listed.as_array().cloned().unwrap_or_default()
}

fn causes(home: &Home) -> Vec<String> {
    revisions(home).iter().map(|head| head["cause"]["is"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_was_applied_before_is_kept_compared_and_taken_back_as_a_new_revision() {
    let (home, server) = (Home::new(), chatty());
    let apply = |more: &str| {
        home.write("ada.toml", &fleet(&server, more));
        home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    };
    apply("");
    apply("approve = [\"x__*\"]");
    apply("approve = [\"x__*\"]");
    assert_eq!(causes(&home), ["applied"; 2], "what changes nothing is no revision");
    let first = revisions(&home)[0].clone();
    assert_eq!((&first["number"], &first["by"]["uid"]), (&json!(1), &json!(my_uid())));
    assert!(first["cause"]["origin"].as_str().is_some_and(|origin| origin.ends_with("/ada.toml")), "{first}");
    assert_eq!(first["outcome"], "2 to create, 0 to change, 0 to stop");

    let differs = home.run(&["diff", "1", "--exit-code"]);
    assert!(differs.code() == 1 && differs.stdout.contains("~ approve: [] → [\"x__*\"]"), "{}", differs.stdout);
    assert_eq!(home.run(&["diff", "1", "1", "--exit-code"]).ok().stdout, "nothing changes\n");
    let told = home.run(&["rollback", "--dry-run"]).ok().stdout;
    assert!(told.contains("~ approve: [\"x__*\"] → []"), "{told}");
    assert_eq!(causes(&home).len(), 2, "it was only told");

    home.daemon().expect("a daemon").kill();
    wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
    let nobody = home.run(&["rollback"]);
    assert!(nobody.code() == 4 && nobody.stderr.contains("no daemon runs"), "{}", nobody.stderr);
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    assert_eq!(causes(&home).len(), 2, "a daemon that starts changes nothing");
    assert_eq!(home.run_within(PATIENT, &["rollback"]).ok().stdout, told);
    assert_eq!(causes(&home), ["applied", "applied", "rolled_back"]);
    home.write("ada.toml", &fleet(&server, ""));
    home.run(&["plan", "-f", "ada.toml", "--exit-code"]).ok();
    home.run_within(PATIENT, &["rollback", "2"]).ok();
    assert_eq!(home.run(&["plan", "-f", "ada.toml", "--exit-code"]).code(), 1, "forth again, by its number");

    home.run(&["delete", "being/ada"]).ok();
    home.run(&["delete", "--set", "ada"]).ok();
    assert_eq!(causes(&home)[4..], ["deleted", "set_deleted"]);
    home.run_within(PATIENT, &["rollback", "1"]).ok();
    assert_eq!(support::view::beings(&home), ["ada"], "what was deleted is declared again");
    let table = home.run(&["history"]).ok().stdout;
    assert!(table.contains("delete of being/ada") && table.contains("rollback to 1"), "{table}");
    assert_eq!(home.run(&["diff", "77"]).code(), 2);
    home.run(&["down"]).ok();
    assert_eq!(causes(&home).len(), 7, "it is read without a daemon, too");
}

#[test]
fn a_rollback_that_would_break_a_promise_changes_nothing_and_says_which() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, "budget = { starting = \"7\" }"));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    home.run(&["delete", "being/ada", "--purge"]).ok();
    home.write("ada.toml", &fleet(&server, "budget = { starting = \"20\" }"));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    wait_until(SOON, "its birth", || row(&home, "ada")["being"]["agent_id"].is_string());

    let refused = home.run(&["rollback", "1"]);
    assert!(refused.code() == 2 && refused.stdout.is_empty(), "{}\n{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("being/ada: `budget.starting` cannot change after birth"), "{}", refused.stderr);
    assert_eq!(causes(&home), ["applied", "deleted", "applied"]);
    home.run(&["plan", "-f", "ada.toml", "--exit-code"]).ok();
    let missing = home.run(&["rollback", "9"]);
    assert!(missing.code() == 2 && missing.stderr.contains("there is no revision 9"), "{}", missing.stderr);
}

#[test]
fn an_edit_of_served_files_is_a_revision_that_is_taken_back_in_the_files() {
    let (home, server) = (Home::new(), chatty());
    home.write("served/ada.toml", &fleet(&server, ""));
    let _daemon = home.spawn(&["serve", "served"]);
    wait_until(PATIENT, "the first revision", || causes(&home) == ["served"]);
    home.write("served/ada.toml", &fleet(&server, "approve = [\"x__*\"]"));
    wait_until(SOON, "the second revision", || causes(&home).len() == 2);
    assert_eq!(revisions(&home)[1]["by"], Value::Null);
    assert!(home.run(&["diff", "1"]).ok().stdout.contains("~ approve"), "it is compared as any other");
    let refused = home.run(&["rollback", "1"]);
    assert!(refused.code() == 2 && refused.stderr.contains("is taken back there"), "{}", refused.stderr);
}

/// What was asked for and how it ended, in words such as `pause refused`.
fn audited(home: &Home) -> Vec<String> {
    let lines: Vec<Value> = {
        let text = home.run(&["audit", "-o", "jsonl"]).ok().stdout;
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let asked = lines.iter().filter(|line| line["entry"]["is"] == "asked");
    let ended = |line: &Value| {
        let end = lines.iter().find(|end| end["entry"]["of"] == line["seq"]);
        assert!(end.is_none_or(|end| end["by"] == line["by"]));
        end.map_or("has no end", |end| end["entry"]["outcome"].as_str().unwrap_or_default()).to_owned()
    };
    asked
        .map(|line| {
            assert_eq!(line["by"]["uid"], json!(my_uid()));
            format!("{} {}", line["entry"]["verb"].as_str().unwrap_or_default(), ended(line))
        })
        .collect()
}

#[test]
fn what_a_person_asks_for_is_on_record_with_who_and_without_what_is_theirs_alone() {
    let home = Home::new();
    let server = Server::start(|seen: &Seen| match seen.said_by("tool").is_empty() {
        true => Reply::call("singularity_memory_remember", json!({ "kind": "note", "text": "ARGUMENT" })),
        false => Reply::say("well"),
    });
    home.write("ada.toml", &fleet(&server, "approve = [\"singularity_memory_*\"]\nstimulus = \"MANIFEST\""));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    home.run(&["plan", "-f", "ada.toml"]).ok();
    wait_until(PATIENT, "a question", || home.run(&["questions", "-o", "name"]).ok().stdout == "ada.1\n");
    assert_eq!(home.run(&["answer", "ada.1", "--value", "name=VALUE"]).code(), 2);
    home.run(&["deny", "ada.1", "--reason", "DENIAL"]).ok();
    home.run(&["pause", "ada", "--reason", "it is late"]).ok();
    assert_eq!(home.run(&["resume", "nobody"]).code(), 2);
    home.run(&["delete", "being/ada"]).ok();
    let head = home.run(&["audit", "verify"]).ok().stdout;
    home.run(&["down"]).ok();
    assert_eq!(
        audited(&home),
        ["apply done", "answer refused", "deny done", "pause done", "resume refused", "delete done", "down done"],
        "a plan changes nothing"
    );
    let text = fs::read_to_string(home.path().join("audit.jsonl")).expect("the record");
    for theirs in ["ARGUMENT", "MANIFEST", "VALUE", "DENIAL"] {
        assert!(!text.contains(theirs), "{theirs} is in {text}");
    }
    let table = home.run(&["audit"]).ok().stdout;
    assert!(table.contains("it is late") && table.contains("no such being: being/nobody"), "{table}");

    home.run(&["audit", "verify", "--head", head.trim()]).ok();
    let longer = home.run(&["audit", "verify"]).ok().stdout;
    let shorter = text.lines().take(13).fold(String::new(), |text, line| text + line + "\n");
    home.write("home/audit.jsonl", &shorter);
    let cut = home.run(&["audit", "verify", "--head", longer.trim()]);
    assert!(cut.code() == 4 && cut.stderr.contains("were taken off the end"), "{}", cut.stderr);
    home.write("home/audit.jsonl", &text.replace("it is late", "it is soon"));
    let edited = home.run(&["audit", "verify"]);
    assert!(edited.code() == 4 && edited.stderr.contains("does not follow the line before it"), "{}", edited.stderr);
}

#[test]
fn nothing_that_is_declared_changes_while_the_fleet_is_frozen_and_all_of_it_does_afterwards() {
    let (home, server) = (Home::new(), chatty());
    home.write("served/ada.toml", &fleet(&server, ""));
    let daemon = home.spawn(&["serve", "served"]);
    let bob = format!("{}\n[being.bob]\nmodel = \"other\"\n", server.model().replace("[model.scripted]", "[model.other]"));
    wait_until(PATIENT, "the being", || row(&home, "ada")["observed_generation"] == 1);
    home.run(&["freeze", "--reason", "we move house"]).ok();
    let again = home.run(&["freeze"]).ok();
    assert!(again.stderr.contains("frozen already") && again.stderr.contains("we move house"), "{}", again.stderr);

    home.write("served/ada.toml", &fleet(&server, "approve = [\"x__*\"]"));
    home.write("bob.toml", &bob);
    for args in
        [&["apply", "-f", "bob.toml", "--set", "bob"][..], &["delete", "being/ada"], &["delete", "--set", "bob"], &["rollback"]]
    {
        let refused = home.run(args);
        let who = format!("the fleet is frozen by uid {} since ", my_uid());
        assert!(refused.code() == 2 && refused.stderr.contains(&who), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("because we move house"), "{}", refused.stderr);
    }
    let got = home.run(&["get"]).ok();
    assert!(got.stderr.contains("the fleet is frozen by uid") && got.stderr.contains("we move house"), "{}", got.stderr);
    assert!(home.run(&["plan", "-f", "bob.toml"]).ok().stdout.contains("+ being/bob"), "what would change may be asked");

    drop(daemon);
    wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
    let _daemon = home.spawn(&["serve", "served"]);
    wait_until(SOON, "a daemon", || home.run(&["get", "-o", "json"]).ok().json()["frozen"].is_object());
    let asked = server.seen().len();
    server.wait_for(asked + 1, SOON);
    assert_eq!(row(&home, "ada")["generation"], 1, "it lives on, as it was declared before");
    home.run(&["pause", "ada"]).ok();
    wait_until_held(&home, "ada");

    home.run(&["freeze", "--lift"]).ok();
    wait_until(SOON, "the edit", || row(&home, "ada")["observed_generation"] == 2);
    assert_eq!(home.run(&["get", "-o", "json"]).ok().json()["frozen"], Value::Null);
    home.write("served/bob.toml", &bob);
    wait_until(SOON, "another being", || row(&home, "bob")["being"].is_object());
}

#[test]
fn a_script_can_wait_for_what_becomes_of_a_being_and_not_for_what_never_will() {
    let home = Home::new();
    let gate = home.around().join("go");
    let server = Server::start(move |_| match gate.exists() {
        true => Reply::say("well"),
        false => Reply::error(503, "not yet"),
    });
    home.write("ada.toml", &fleet(&server, ""));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml", "--detach"]).ok();
    wait_until(PATIENT, "the wait for a model", || activity(&home, "ada") == "asking a model again");
    let late = home.run(&["wait", "--for", "idle", "being/ada", "--timeout", "200ms"]);
    assert!(late.code() == 5 && late.stderr.contains("waited 200ms in vain: being/ada is"), "{}", late.stderr);
    let mut waits = home.spawn(&["wait", "--for", "ready", "being/ada", "model/scripted", "--timeout", "5m"]);
    home.write("go", "");
    let ended = waits.ended_within(PATIENT).expect("it ends");
    assert!(ended.success(), "{:?}", waits.said());
    home.run(&["pause", "ada"]).ok();
    home.run(&["wait", "--for", "idle", "being/ada"]).ok();
    assert!(activity(&home, "ada").starts_with("paused by uid"), "it is idle because it is paused, and not between two cycles");

    let unknown = home.run(&["wait", "--for", "ready", "being/bob"]);
    assert!(unknown.code() == 2 && unknown.stderr.contains("being/bob is not declared"), "{}", unknown.stderr);
    let lives = home.run(&["wait", "--for", "gone", "being/ada", "--timeout", "200ms"]);
    assert_eq!(lives.code(), 5, "{}", lives.stderr);
    let mut waits = home.spawn(&["wait", "--for", "gone", "being/ada", "--timeout", "5m"]);
    home.run(&["delete", "being/ada"]).ok();
    assert!(waits.ended_within(PATIENT).expect("it ends").success(), "{:?}", waits.said());

    let refusing = Server::start(|_| Reply::error(401, "no such key"));
    home.write(
        "eve.toml",
        &fleet(&refusing, "")
            .replace("being.ada", "being.eve")
            .replace("scripted]", "other]")
            .replace("model = \"scripted\"\ncycle", "model = \"other\"\ncycle"),
    );
    home.run_within(PATIENT, &["apply", "-f", "eve.toml", "--detach"]).ok();
    let stalled = home.run_within(PATIENT, &["wait", "--for", "gone", "being/ada", "--timeout", "1s"]);
    assert_eq!(stalled.code(), 0, "what is gone is gone");
    wait_until(SOON, "the stall", || {
        let stalled = home.run(&["wait", "--for", "idle", "being/eve", "--timeout", "1s"]);
        stalled.code() == 5 && stalled.stderr.contains("being/eve is stalled (ModelUnavailable)")
    });
}

#[test]
fn a_pause_is_not_put_off_by_the_wait_for_a_model_that_is_away() {
    let home = Home::new();
    let server = Server::start(|seen: &Seen| match seen.index {
        0 => Reply::error(503, "later").header("retry-after", "600"),
        _ => Reply::say("well"),
    });
    home.write("ada.toml", &fleet(&server, ""));
    home.run_within(PATIENT, &["apply", "-f", "ada.toml", "--detach"]).ok();
    wait_until(PATIENT, "the wait", || activity(&home, "ada") == "asking a model again");
    home.run(&["pause", "ada"]).ok();
    home.run(&["wait", "--for", "idle", "being/ada", "--timeout", "20s"]).ok();
    assert_eq!(server.seen().len(), 1);
    home.run(&["resume", "ada"]).ok();
    server.wait_for(2, SOON);
}
