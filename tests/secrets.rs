//! Distinct secrets in every place that takes one, a daemon's life in which whoever is told a secret says it back, and then a search of
//! everything that was written, printed or sent.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use support::{
    Home, SOON,
    openai::{Reply, Seen, Server},
    proc, wait_until,
};

/// Every secret, by what it is for. Those in upper case are kept in variables, the others in files.
const PLANTED: [(&str, &str); 9] = [
    ("model-key", "pl4nted-model-key-1111"),
    ("hmac", "pl4nted-hmac-2222"),
    ("GATE_BEARER", "pl4nted-gate-bearer-3333"),
    ("far", "pl4nted-surface-bearer-4444"),
    ("LOCKED_BEARER", "pl4nted-locked-bearer-5555"),
    ("most", "pl4nted-most-token-6666"),
    ("UNUSED", "pl4nted-nobodys-7777"),
    ("tool", "pl4nted-tool-token-8888"),
    ("TOOL_KEY", "pl4nted-tool-key-9999"),
];

/// What every planted secret begins with.
const MARK: &str = "pl4nted-";

fn planted(what: &str) -> &'static str {
    PLANTED.iter().find(|(name, _)| *name == what).unwrap().1
}

fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// A server that says on every stream what it was given.
const NEAR: &str = r#"
import json, os, sys
token = "you gave " + os.environ["TOOL_TOKEN"]
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
print(token, flush=True)
print(token, file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        able = {"tools": {}}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": {"name": token, "version": "1"}})
    elif method == "tools/list":
        send(id=id, result={"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        send(id=id, result={"content": [{"type": "text", "text": token}]})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": token})
"#;

/// A being's home whose servers all say back what they are told in confidence.
struct Scene {
    home: Home,
    model: Server,
    gate: Server,
    far: Server,
    locked: Server,
    most: Server,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new();
        for (name, secret) in PLANTED.iter().filter(|(name, _)| !is_variable(name)) {
            let path = home.write(&format!("secrets/{name}"), &format!("{secret}\n"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        home.write("work/leak.txt", planted("model-key"));
        home.write("work/near.py", NEAR);
        let scene = Self {
            model: Server::start(think),
            // A gateway shares the secret that it checks signatures with.
            gate: Server::start(|seen| Reply::error(401, &format!("{} for {}", confidences(seen), planted("hmac")))),
            far: Server::start(speak_mcp),
            locked: Server::start(|seen| Reply::raw(401, confidences(seen).into_bytes())),
            most: Server::start(|seen| match seen.index {
                0 => Reply::error(422, &confidences(seen)),
                _ => Reply::json(200, &json!({ "id": "0b0c9f9e-1111-4a35-9a39-0d8a2f6d7f22", "note": confidences(seen) })),
            }),
            home,
        };
        scene.home.write("ada.toml", &scene.manifest());
        scene
    }

    fn manifest(&self) -> String {
        format!(
            r#"
[model.scripted]
provider = "openai"
base_url = "{}"
model = "scripted"
api_key = {{ file = "secrets/model-key" }}

[model.gate]
provider = "brama"
base_url = "{}"
hmac_secret = {{ file = "secrets/hmac" }}
bearer = {{ env = "GATE_BEARER" }}

[surface.far]
url = "{}/mcp"
bearer = {{ file = "secrets/far" }}

[surface.locked]
url = "{}/mcp"
bearer = {{ env = "LOCKED_BEARER" }}

[surface.curious]
command = ["sh", "-c", "env >&2; env; exit 3"]
env = {{ TOOL_TOKEN = {{ file = "secrets/tool" }}, TOOL_KEY = {{ env = "TOOL_KEY" }} }}

[surface.near]
command = ["python3", "{{workspace}}/near.py"]
env = {{ TOOL_TOKEN = {{ file = "secrets/tool" }} }}

[being.ada]
model = ["gate", "scripted"]
workspace = "work"
cycle = {{ every = "1s", limit = 1 }}
budget = {{ starting = "10" }}
most = {{ url = "{}", token = {{ file = "secrets/most" }} }}
"#,
            self.model.base_url(),
            self.gate.origin(),
            self.far.origin(),
            self.locked.origin(),
            self.most.origin()
        )
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.envs(PLANTED.into_iter().filter(|(name, _)| is_variable(name)));
        command
    }

    /// What a command prints, on both streams, when everything is logged that can be.
    fn said_aloud(&self, args: &[&str]) -> String {
        let output = self.command(args).env("RUST_LOG", "trace,rmcp::service=trace,rmcp::transport=trace").output().unwrap();
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
    }

    /// What a command prints, on both streams.
    fn said(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
    }
}

/// What only the two ends of a request should know.
fn confidences(seen: &Seen) -> String {
    let told = |name: &str| seen.headers.get(name).cloned().unwrap_or_default();
    format!("you sent {}", told("authorization"))
}

/// A being that uses everything once, for good and for ill.
fn think(seen: &Seen) -> Reply {
    let message = |text: &str| json!({ "chat_id": "6f2c1f0e-3b55-4a35-9a39-0d8a2f6d7f11", "text": text });
    match seen.said_by("tool").len() {
        0 => Reply::call("far__echo", json!({})),
        1 => Reply::call("far__refuse", json!({})),
        2 => Reply::call("most_send_message", message("one")),
        3 => Reply::call("most_send_message", message("two")),
        4 => Reply::call("singularity_file_read", json!({ "path": "leak.txt" })),
        5 => Reply::call("near__tell", json!({})),
        _ => Reply::say(&confidences(seen)),
    }
}

/// An MCP server over HTTP whose tools say back what they were told.
fn speak_mcp(seen: &Seen) -> Reply {
    let id = seen.body["id"].clone();
    let result = |result: Value| Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    let error =
        |message: &str| Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": message } }));
    match seen.body["method"].as_str().unwrap_or_default() {
        "initialize" => result(json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" },
        })),
        "tools/list" => {
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            result(json!({ "tools": [tool("echo"), tool("refuse")] }))
        }
        "tools/call" if seen.body["params"]["name"] == "echo" => {
            result(json!({ "content": [{ "type": "text", "text": confidences(seen) }] }))
        }
        "tools/call" => error(&confidences(seen)),
        method if method.starts_with("notifications/") => Reply::raw(202, Vec::new()),
        _ => error("method not found"),
    }
}

/// Every file below a folder, with what it holds.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let facts = entry.file_type().unwrap();
        match (facts.is_dir(), facts.is_file()) {
            (true, _) => found.extend(files(&entry.path())),
            (_, true) => found.push((entry.path(), fs::read(entry.path()).unwrap())),
            _ => {}
        }
    }
    found
}

/// The secrets in some bytes, with what stands around them.
fn leaks(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let around = |at: usize| {
        let start = text.floor_char_boundary(at.saturating_sub(80));
        text[start..].chars().take(160).collect::<String>()
    };
    text.match_indices(MARK).map(|(at, _)| around(at)).collect()
}

#[test]
fn a_secret_is_found_nowhere_that_it_was_not_sent_to() {
    let scene = Scene::new();
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    let mut print = |args: &[&str]| {
        printed.insert(args.join(" "), scene.said(args));
    };
    print(&["validate", "-f", "ada.toml"]);
    print(&["plan", "-f", "ada.toml"]);
    print(&["apply", "-f", "ada.toml", "--detach"]);
    wait_until(SOON, "the being has lived its cycle", || {
        !scene.home.events("ada", "tool_finished").is_empty() && {
            scene.model.seen().iter().any(|seen| seen.said_by("tool").len() == 6)
        }
    });
    wait_until(SOON, "the cycle has ended", || scene.said(&["get", "being/ada", "-o", "json"]).contains("\"cycle\": 1"));

    let processes = proc::mentioning(scene.home.around());
    assert!(!processes.is_empty());
    for process in &processes {
        let environ = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let line = fs::read_to_string(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default().replace('\0', " ");
        // The daemon has the variables that it was started with, its Las those that it must send and give, and a server what it is given.
        let allowed = |leak: &String| match () {
            () if line.contains(" serve") => true,
            () if line.contains("near.py") => leak.contains(planted("tool")),
            () if line.contains("env >&2") => ["tool", "TOOL_KEY"].iter().any(|given| leak.contains(planted(given))),
            () if line.contains(" las") => ["LOCKED_BEARER", "TOOL_KEY"].iter().any(|given| leak.contains(planted(given))),
            () => false,
        };
        let found: Vec<String> = leaks(&environ).into_iter().filter(|leak| !allowed(leak)).collect();
        assert_eq!(found, [""; 0], "in the environment of `{line}`");
    }

    for args in [
        &["get", "all", "-o", "json"][..],
        &["get", "being/ada", "-o", "toml", "--show-origin", "-f", "ada.toml"],
        &["get", "all", "-o", "wide"],
        &["describe", "being/ada"],
        &["describe", "surface/locked"],
        &["describe", "surface/curious"],
        &["describe", "surface/near"],
        &["get", "surface/near", "-o", "toml"],
        &["describe", "model/gate"],
        &["logs", "being/ada"],
        &["logs", "being/ada", "-o", "jsonl"],
        &["state", "verify", "ada", "-o", "json"],
        &["doctor", "-f", "ada.toml"],
        &["doctor", "-f", "ada.toml", "-o", "json"],
        &["tools", "-f", "ada.toml"],
        &["delete", "surface/curious"],
        &["down"],
    ] {
        print(args);
    }
    let aloud = scene.said_aloud(&["doctor", "-f", "ada.toml"]);
    assert!(aloud.contains("TRACE") && aloud.contains("HTTP 401"), "the refusal was logged: {aloud}");
    printed.insert("doctor, with all of its log".to_owned(), aloud);
    let results: Vec<String> = scene
        .home
        .events("ada", "tool_finished")
        .iter()
        .map(|event| event["result"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(results.len(), 6, "{results:?}");
    assert!(results.iter().all(|result| result.contains("[secret]")), "each was told one, and it was hidden: {results:#?}");

    let log = fs::read_to_string(scene.home.path().join("daemon.log")).unwrap();
    for said in [&printed["doctor -f ada.toml"], &log] {
        assert!(said.contains("TOOL_TOKEN=[secret]") && said.contains("TOOL_KEY=[secret]"), "{said}");
    }
    assert!(log.contains("you gave [secret]"), "{log}");

    for (args, said) in &printed {
        assert_eq!(leaks(said.as_bytes()), [""; 0], "`singularity {args}` printed one");
    }
    for (path, bytes) in files(&scene.home.path()) {
        assert_eq!(leaks(&bytes), [""; 0], "{} holds one", path.display());
    }
    let bodies = [&scene.model, &scene.gate, &scene.far, &scene.locked, &scene.most].map(Server::seen);
    for seen in bodies.iter().flatten() {
        assert_eq!(leaks(&seen.raw), [""; 0], "{} {} was sent one in its body", seen.method, seen.path);
    }
    assert_eq!(scene.model.seen()[0].headers["authorization"], format!("Bearer {}", planted("model-key")));
    assert_eq!(scene.far.seen()[0].headers["authorization"], format!("Bearer {}", planted("far")));
    assert_eq!(scene.locked.seen()[0].headers["authorization"], format!("Bearer {}", planted("LOCKED_BEARER")));
    assert_eq!(scene.gate.seen()[0].headers["authorization"], format!("Bearer {}", planted("GATE_BEARER")));
    assert_eq!(scene.most.seen()[0].headers["authorization"], format!("Bearer {}", planted("most")));
}
