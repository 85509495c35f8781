//! The rounds of a cycle: what a being is offered in each.

#[cfg(test)]
mod support;

use serde_json::json;
use support::{
    Home, PATIENT,
    openai::{Reply, Seen, Server},
};

/// A server whose tool `open` gives it another tool, `inside`, and takes `open` away.
const DOOR: &str = r#"
import json, sys
tool = "open"
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        info = {"name": "door", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": tool, "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        tool = "inside"
        say(method="notifications/tools/list_changed")
        say(id=id, result={"content": [{"type": "text", "text": "done"}]})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
"#;

#[test]
fn tools_that_changed_in_a_round_are_offered_in_the_next_and_those_of_a_round_stay_until_it_ends() {
    let home = Home::new();
    let server = Server::start(|seen: &Seen| match seen.said_by("tool").len() {
        0 => Reply::calls(&[("one", "door__open", json!({})), ("two", "door__open", json!({}))]),
        2 => Reply::calls(&[("three", "door__inside", json!({}))]),
        _ => Reply::say("I am inside."),
    });
    let script = home.write("door.py", DOOR);
    let manifest = format!(
        "{}\n[surface.door]\ncommand = [\"python3\", {script:?}]\n[being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"1h\" }}\n",
        server.model()
    );
    let file = home.write("ada.toml", &manifest);
    let report = home.run_within(PATIENT, &["once", "-f", file.to_str().expect("UTF-8")]).ok().json();
    assert_eq!(report["final_content"], "I am inside.", "{report}");

    let offered = |seen: &Seen| {
        let tools = seen.tools().into_iter().filter(|tool| tool.starts_with("door__"));
        tools.map(str::to_owned).collect::<Vec<_>>()
    };
    let seen = server.seen();
    let rounds: Vec<_> = seen.iter().map(offered).collect();
    assert_eq!(rounds, [["door__open"], ["door__inside"], ["door__inside"]]);
    let outcomes = home.events("ada", "tool_finished");
    let statuses: Vec<_> = outcomes.iter().map(|outcome| outcome["status"].as_str().unwrap_or_default()).collect();
    assert_eq!(statuses, ["success"; 3], "{outcomes:?}");
}
