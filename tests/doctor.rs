//! What `doctor` finds of a being that is well, and of one that lacks everything at once.
#![expect(clippy::expect_used, clippy::panic, reason = "a test may fail")]

#[cfg(test)]
mod support;

use serde_json::{Value, json};
use support::{
    Home, Output,
    openai::{Reply, Server},
};

/// An MCP server with one tool.
const WELL: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        said["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "well", "version": "1"}}
    elif asked["method"] == "tools/list":
        said["result"] = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    else:
        said["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(said), flush=True)
"#;

fn doctor(home: &Home, manifest: &str) -> Output {
    let path = home.write("ada.toml", manifest);
    home.run(&["doctor", "-f", path.to_str().expect("UTF-8"), "-o", "json"])
}

/// The state of a finding, and all that is said of it.
fn found(diagnosis: &Value, subject: &str) -> (String, String) {
    let findings = diagnosis["findings"].as_array().expect("findings");
    let of = findings.iter().filter(|finding| finding["subject"] == subject);
    let [finding] = of.collect::<Vec<_>>()[..] else { panic!("one finding of {subject}: {diagnosis:#}") };
    (finding["state"].as_str().unwrap_or_default().to_owned(), format!("{} | {}", finding["found"], finding["hint"]))
}

#[test]
fn a_being_that_is_well_is_told_to_be() {
    let (home, server) = (
        Home::new(),
        Server::start(|seen| match seen.path.ends_with("/models") {
            true => Reply::json(200, &json!({ "object": "list", "data": [{ "id": "scripted", "object": "model" }] })),
            false => Reply::say("well"),
        }),
    );
    let script = home.write("well.py", WELL);
    let manifest = format!(
        "{}\n[surface.well]\ncommand = [\"python3\", \"{}\"]\n[being.ada]\nmodel = \"scripted\"\nlas = {{ required = [\"well\"] }}\n",
        server.model(),
        script.display()
    );
    let diagnosis = doctor(&home, &manifest).ok().json();
    assert_eq!((&diagnosis["ok"], &diagnosis["las_tools"]), (&json!(true), &json!(1)), "{diagnosis:#}");
    assert!(diagnosis["findings"].as_array().expect("findings").iter().all(|finding| finding["state"] != "bad"), "{diagnosis:#}");
    assert!(server.seen().iter().all(|seen| !seen.path.ends_with("/chat/completions")), "no model is asked to think");
    let table = home.run(&["doctor", "-f", "ada.toml"]).ok();
    assert!(table.stdout.lines().any(|line| line.starts_with("surface/well") && line.contains("good")), "{}", table.stdout);
}

#[test]
fn whatever_a_being_lacks_is_told_in_one_go_each_with_what_to_do() {
    let home = Home::new();
    home.write("open.key", "k-1234567890");
    let manifest = r#"
[model.away]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key = { file = "missing.key" }

[model.careless]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key = { file = "open.key" }

[surface.gone]
command = ["sh", "-c", "echo no licence >&2; exit 3"]

[being.ada]
model = ["away", "careless"]
las = { required = ["gone"] }
"#;
    let said = doctor(&home, manifest);
    let diagnosis = said.json();
    assert_eq!(diagnosis["ok"], json!(false));
    for (subject, words, to_do) in [
        ("model/away api_key", "missing.key", "chmod 600"),
        ("model/careless api_key", "open.key", "chmod 600"),
        ("model/away", "missing.key", "credentials"),
        ("surface/gone", "no licence", "las.skip"),
    ] {
        let (state, told) = found(&diagnosis, subject);
        assert_eq!(state, "bad", "{subject}: {told}");
        assert!(told.contains(words) && told.contains(to_do), "{subject}: {told}");
    }
    let bad = diagnosis["findings"].as_array().expect("findings").iter().filter(|finding| finding["state"] == "bad");
    assert!(bad.clone().all(|finding| finding["hint"].is_string()), "{diagnosis:#}");
    // The first of them ends the command, and says how many more there are.
    assert_eq!(said.code(), 2, "{}", said.stderr);
    assert!(said.stderr.contains(&format!("and {} more", bad.count() - 1)), "{}", said.stderr);
    assert!(!said.stdout.contains("k-1234567890") && !said.stderr.contains("k-1234567890"));
}

#[test]
fn a_look_makes_no_home_and_says_where_none_can_be_made() {
    let home = Home::new();
    let script = home.write("well.py", WELL);
    let manifest = format!(
        "[surface.well]\ncommand = [\"python3\", \"{}\"]\n[being.ada]\nmodel = \"smol\"\n[model.smol]\nprovider = \"embedded\"\n",
        script.display()
    );
    let diagnosis = doctor(&home, &manifest).json();
    let (state, told) = found(&diagnosis, "home");
    assert!(state == "good" && told.contains("not there yet"), "{state}: {told}");
    assert_eq!(found(&diagnosis, "surface/well").0, "good", "{diagnosis:#}");
    assert!(home.run(&["tools", "-f", "ada.toml"]).ok().stdout.contains("well__look"));
    assert!(home.run(&["model", "path"]).ok().stdout.starts_with(&home.path().display().to_string()));
    assert!(!home.path().exists(), "who only looks leaves nothing behind");

    let file = home.write("a-file", "");
    let nowhere = file.join("home");
    let said = home.run(&["--home", nowhere.to_str().expect("UTF-8"), "doctor", "-f", "ada.toml", "-o", "json"]);
    let (state, told) = found(&said.json(), "home");
    assert!(state == "bad" && told.contains("cannot be made") && told.contains("--home"), "{state}: {told}");
}
