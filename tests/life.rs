//! A being's life under the real binary: birth, work with real tools, sudden death and the life after it.
#![expect(clippy::expect_used, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use singularity::being::AgentState;
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Server},
    packages, proc, view, wait_until,
};

const FILESYSTEM: (&str, &str) = ("@modelcontextprotocol/server-filesystem", "2026.8.31");

fn kinds(journal: &[Value]) -> Vec<&str> {
    journal.iter().filter_map(|event| event["type"].as_str()).collect()
}

/// Everything below a folder that is wider than its owner, with its mode.
fn too_open(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let inside = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path());
        for path in inside.chain([folder.clone()]) {
            let about = fs::symlink_metadata(&path).expect("it is there");
            let (mode, wanted) = (about.permissions().mode() & 0o777, if about.is_dir() { 0o700 } else { 0o600 });
            if mode != wanted {
                found.push((path.clone(), mode));
            }
            if about.is_dir() && path != folder {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn the_readmes_first_command_brings_a_being_to_life() {
    let home = Home::with_models();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello.toml");
    let before = fs::read_to_string(example).expect("the example");
    let applied = home.run_within(PATIENT, &["apply", "-f", example]).ok();
    assert!(applied.stderr.contains("logs -f") && applied.stderr.contains("down"), "how to go on: {}", applied.stderr);

    let beings = view::beings(&home);
    assert_eq!(beings.len(), 1, "{beings:?}");
    let name = &beings[0];
    assert!(view::is(&home, name, "Ready"), "{}", home.run(&["describe", name]).stdout);
    let wanted = ["started", "cycle_started", "model_completed", "cost_debited"];
    wait_until(SOON * 2, "a first thought", || wanted.iter().all(|kind| kinds(&home.journal(name)).contains(kind)));

    home.run(&["down"]).ok();
    let state: AgentState = serde_json::from_value(home.state(name)).expect("a being-v1 state");
    assert_eq!(state.schema_version, "being-v1");
    assert_eq!(too_open(&home.being(name)), [], "owner only");
    assert_eq!(fs::read_to_string(example).expect("the example"), before);
}

/// A being that writes a file through the real filesystem server, reads it back, and says what it read.
fn writer(home: &Home, server: &Server, files: &Path) -> PathBuf {
    let command = json!(["node", files.join("dist/index.js"), "{workspace}"]);
    home.write("work/.keep", "");
    home.write(
        "writer.toml",
        &format!(
            r#"
{}

[surface.files]
command = {command}

[being.ada]
specialty = "writing"
model = ["scripted"]
workspace = "work"
las = {{ only = ["files"], required = ["files"] }}
cycle = {{ every = "1h" }}
budget = {{ starting = "10" }}
"#,
            server.model()
        ),
    )
}

#[test]
fn what_a_being_writes_is_in_the_file_the_journal_and_the_state_alike() {
    let Some(files) = packages::npm(FILESYSTEM.0, FILESYSTEM.1) else { return };
    let home = Home::new();
    let workspace = home.around().join("work");
    let note = workspace.join("note.txt");
    let path = note.display().to_string();
    let server = Server::play([
        Reply::call("files__write_file", json!({ "path": path, "content": "remember the milk" })),
        Reply::calls(&[("call-2", "files__read_text_file", json!({ "path": path }))]),
        Reply::say("done"),
    ]);
    let manifest = writer(&home, &server, &files);
    let once = home.run_within(PATIENT, &["once", "-f", manifest.to_str().expect("UTF-8"), "--being", "ada"]).ok();

    let report = once.json();
    assert_eq!((&report["cycle"], &report["status"], &report["final_content"]), (&json!(1), &json!("completed"), &json!("done")));
    assert_eq!(fs::read_to_string(&note).expect("the file"), "remember the milk");
    let finished = home.events("ada", "tool_finished");
    let told: Vec<_> = finished.iter().map(|event| (event["tool"].as_str(), event["status"].as_str())).collect();
    assert_eq!(told, [(Some("files__write_file"), Some("success")), (Some("files__read_text_file"), Some("success"))]);
    let read = finished[1]["result"].as_str().expect("an envelope");
    assert!(read.contains("remember the milk"), "{read}");
    assert!(server.seen()[2].said_by("tool").iter().any(|text| text.contains("remember the milk")), "the model reads it");
    let state = home.state("ada");
    let actions: Vec<_> =
        state["recent_actions"].as_array().expect("actions").iter().map(|action| action["tool"].as_str()).collect();
    assert_eq!(actions, told.iter().map(|(tool, _)| *tool).collect::<Vec<_>>());
    // Three answers of 10 + 5 tokens, at 1 and 2 USD per million.
    assert_eq!((&state["budget"]["total_tokens"], &state["budget"]["remaining"]), (&json!(45), &json!("9.99994")));
    assert_eq!(home.events("ada", "cost_debited").len(), 3);
    assert_eq!(proc::mentioning(home.around()), [], "nothing runs on");
}

/// An MCP server with one tool that notes each call in a file and then never answers.
const STUCK: &str = r#"
import json, os, sys, time
def answer(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        answer(id, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "stuck", "version": "1"}})
    elif method == "tools/list":
        answer(id, {"tools": [{"name": "pay", "description": "Pays.", "inputSchema": {"type": "object", "properties": {}}}]})
    elif method == "tools/call":
        with open(sys.argv[1], "a") as calls: calls.write("paid\n")
        while os.path.exists(sys.argv[1]): time.sleep(0.05)
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}), flush=True)
"#;

#[test]
fn a_call_that_was_under_way_at_a_sudden_death_is_neither_forgotten_nor_made_twice() {
    let home = Home::new();
    let (script, calls) = (home.write("stuck.py", STUCK), home.around().join("calls"));
    let server = Server::start(|seen| match seen.index {
        0 => Reply::call("till__pay", json!({})),
        _ => Reply::say("resting"),
    });
    let manifest = home.write(
        "payer.toml",
        &format!(
            r#"
{}

[surface.till]
command = ["python3", "{}", "{}"]

[being.payer]
model = ["scripted"]
cycle = {{ every = "1h" }}
budget = {{ starting = "10" }}
"#,
            server.model(),
            script.display(),
            calls.display()
        ),
    );
    let manifest = manifest.to_str().expect("UTF-8");
    let paid = || fs::read_to_string(&calls).unwrap_or_default().lines().count();

    home.run_within(PATIENT, &["apply", "-f", manifest]).ok();
    wait_until(SOON, "the call under way", || paid() == 1);
    let daemon = home.daemon().expect("a daemon");
    let first_life = proc::descendants(daemon.pid);
    assert!(first_life.iter().any(|process| process.command.contains("stuck.py")), "{first_life:?}");
    daemon.kill();
    wait_until(SOON, "the end of the first life's surfaces", || !first_life.iter().any(proc::Process::is_alive));

    home.run_within(PATIENT, &["apply", "-f", manifest]).ok();
    wait_until(SOON, "the call's fate in the journal", || !home.events("payer", "tool_finished").is_empty());
    wait_until(SOON, "every answer to be paid", || home.events("payer", "cost_debited").len() == server.seen().len());
    home.run(&["down"]).ok();
    let fates: Vec<_> = home.events("payer", "tool_finished").iter().map(|event| event["status"].clone()).collect();
    assert_eq!((fates, paid()), (vec![json!("indeterminate")], 1));
    assert_eq!(home.events("payer", "tool_started").len(), 1);

    let (debits, thoughts) = (home.events("payer", "cost_debited").len(), home.events("payer", "model_completed").len());
    assert_eq!(debits, thoughts, "each answer is paid once");
    let state = home.state("payer");
    assert_eq!(state["budget"]["total_tokens"], json!(15 * debits));
    assert_eq!(home.events("payer", "started").iter().filter(|event| !event["birth"].is_null()).count(), 1, "one birth");
    let sequence: Vec<_> = home.journal("payer").iter().map(|event| event["seq"].as_u64()).collect();
    assert!(sequence.windows(2).all(|pair| pair[0] < pair[1]), "{sequence:?}");
}

#[test]
fn the_tools_of_a_surface_that_comes_up_late_are_not_withheld_until_an_edit() {
    let home = Home::new();
    let (script, up) = (home.write("stuck.py", STUCK), home.around().join("up"));
    let server = Server::start(|_| Reply::say("resting"));
    home.write(
        "late.toml",
        &format!(
            r#"
[model.scripted]
provider = "openai"
base_url = "{}"
model = "scripted"

[surface.till]
command = ["sh", "-c", "[ -e '{}' ] && exec python3 '{}' calls"]

[being.late]
model = "scripted"
cycle = {{ every = "50ms" }}
"#,
            server.base_url(),
            up.display(),
            script.display()
        ),
    );
    home.run_within(PATIENT, &["apply", "-f", "late.toml"]).ok();
    let sees = || server.seen().last().is_some_and(|seen| seen.tools().contains(&"till__pay"));
    wait_until(SOON, "the being thinks", || !server.seen().is_empty());
    assert!(!sees(), "the surface is not up yet");
    home.write("up", "");
    wait_until(SOON, "the being is given the tool", sees);
}

/// A being that only talks, and a lot.
fn talker(home: &Home, server: &Server, context_tokens: u32, limit: u64) -> PathBuf {
    home.write(
        "talker.toml",
        &format!(
            r#"
{}
context_tokens = {context_tokens}
max_tokens = 500

[being.talker]
model = ["scripted"]
cycle = {{ every = "1ms", limit = {limit} }}
budget = {{ starting = "10" }}
"#,
            server.model()
        ),
    )
}

#[test]
fn a_being_that_stood_over_its_models_window_starts_folds_and_lives_on() {
    let home = Home::new();
    let window = Arc::new(AtomicUsize::new(8_000));
    let real = Arc::clone(&window);
    // A model with a token for every four bytes, which refuses what does not fit.
    let server = Server::start(move |seen| {
        let tokens = (seen.body["messages"].to_string().len() + seen.body["tools"].to_string().len()) / 4;
        let asked = tokens + usize::try_from(seen.body["max_tokens"].as_u64().unwrap_or_default()).unwrap_or_default();
        let most = real.load(Ordering::Relaxed);
        if asked > most {
            return Reply::error(400, &format!("This model's maximum context length is {most} tokens, {asked} were requested."));
        }
        Reply::say(&format!("In {}, {}", seen.index, "I looked around and found nothing new. ".repeat(40)))
            .counting(u64::try_from(tokens).unwrap_or(u64::MAX), 400)
    });
    let live = |context_tokens, limit, how: &[&str]| {
        let manifest = talker(&home, &server, context_tokens, limit);
        let run = ["run", "-f", manifest.to_str().expect("UTF-8"), "--being", "talker"];
        home.run_within(PATIENT, &[&run, how].concat()).ok();
    };
    let messages = || home.state("talker")["conversation"].as_array().map_or(0, Vec::len);

    live(8_000, 30, &[]);
    assert!(!home.events("talker", "folded").is_empty(), "a life longer than the window");
    assert!(home.events("talker", "warning").is_empty(), "nothing that was sent was too long");
    let (folds, stood) = (home.events("talker", "folded").len(), messages());

    live(5_000, 31, &["--resume"]);
    assert_eq!(home.events("talker", "folded").len(), folds + 1, "it folds before the first request");
    assert!(messages() < stood && home.events("talker", "warning").is_empty());

    window.store(3_000, Ordering::Relaxed);
    live(50_000, 60, &["--resume"]);
    assert!(!home.events("talker", "warning").is_empty(), "the declared window is not the real one");
    assert_eq!(home.state("talker")["cycle"], json!(60));
    assert_eq!(home.events("talker", "model_completed").len(), 60, "each cycle was thought to its end");

    let folded = home.state("talker")["folded"].clone();
    let said = home.events("talker", "cycle_started").len() + 60;
    assert_eq!(folded["messages"].as_u64(), u64::try_from(said - messages()).ok(), "the journal has every message");
    assert!(folded["summary"].as_str().is_some_and(|text| text.contains("said: In ")), "{folded}");
    assert!(server.seen().last().is_some_and(|seen| seen.said_by("user")[0].contains("older messages are folded away")));
}
