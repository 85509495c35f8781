//! A person's time in the midst of a call through a Las that stands alone: it costs the call nothing, and nobody is left with a question
//! that is over.
#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};

use serde_json::{Value, json};
use support::{Home, SOON};

/// How long the surface may take for a call.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A server whose tools ask: one waits for the answer; of those that wait until the question was seen, one withdraws it and asks another,
/// and one answers all the same.
const ASKS: &str = r#"
import json, os, sys, time
def seen():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def ask(id):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    send(id=id, method="elicitation/create", params={"message": id, "requestedSchema": schema})
def wait(id):
    while True:
        said = json.loads(sys.stdin.readline())
        if said.get("id") == id:
            return json.dumps(said.get("result") or said.get("error"))
def answer(id, text):
    send(id=id, result={"content": [{"type": "text", "text": text}]})
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        info = {"name": "asks", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=id, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ["wait", "change", "end"]]})
    elif method == "tools/call":
        ask("first")
        if params["name"] == "wait":
            answer(id, wait("first"))
        elif params["name"] == "change":
            seen()
            send(method="notifications/cancelled", params={"requestId": "first"})
            ask("second")
            answer(id, wait("second"))
        else:
            seen()
            answer(id, "done")
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "method not found"})
"#;

/// A client of a Las on standard streams.
struct Client {
    las: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Value>,
}

impl Client {
    fn greet(home: &Home) -> Self {
        home.write("asks.py", ASKS);
        let timeout = format!("timeout = \"{}s\"", TIMEOUT.as_secs());
        home.write(
            "las.toml",
            &format!("[surface.it]\ncommand = [\"python3\", \"{{workspace}}/asks.py\", \"{{workspace}}/seen\"]\n{timeout}\n"),
        );
        let mut las = home.command(&["las", "-f", "las.toml"]);
        let mut las = las.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let (stdin, stdout) = (las.stdin.take(), BufReader::new(las.stdout.take().expect("a pipe")));
        let (hear, heard) = sync_channel(100);
        std::thread::spawn(move || {
            let messages = stdout.lines().map_while(Result::ok);
            messages.map_while(|line| serde_json::from_str(&line).ok()).try_for_each(|message: Value| hear.send(message))
        });
        let mut client = Self { las, stdin, heard };
        client.say(json!({ "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": { "name": "test", "version": "0" }, "capabilities": { "elicitation": {} },
        }}));
        client.say(json!({ "method": "notifications/initialized" }));
        client.say(json!({ "id": 2, "method": "tools/list" }));
        client.wait_for(|message| message["id"] == 2);
        client
    }

    fn say(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        writeln!(self.stdin.as_mut().expect("open"), "{message}").expect("Las listens");
    }

    fn call(&mut self, tool: &str) {
        self.say(json!({ "id": 3, "method": "tools/call", "params": { "name": format!("it__{tool}"), "arguments": {} } }));
    }

    fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.heard.recv_timeout(SOON).expect("it comes");
            if fits(&message) {
                return message;
            }
        }
    }

    /// The id of the question with these words.
    fn asked(&mut self, words: &str) -> Value {
        self.wait_for(|message| message["method"] == "elicitation/create" && message["params"]["message"] == words)["id"].clone()
    }

    fn answer(&mut self, question: &Value) {
        self.say(json!({ "id": question, "result": { "action": "accept", "content": { "name": "Ada" } } }));
    }

    fn answered(&mut self) -> String {
        let answer = self.wait_for(|message| message["id"] == 3 && message["method"].is_null());
        answer["result"]["content"][0]["text"].as_str().map_or_else(|| answer.to_string(), str::to_owned)
    }

    fn withdrawn(&mut self) -> Value {
        self.wait_for(|message| message["method"] == "notifications/cancelled")["params"]["requestId"].clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.las.wait();
    }
}

#[test]
fn the_time_that_a_person_takes_is_not_the_calls() {
    let home = Home::new();
    let mut client = Client::greet(&home);
    client.call("wait");
    let question = client.asked("first");
    let early = client.heard.recv_timeout(2 * TIMEOUT);
    assert!(early.is_err(), "the call does not end while it is thought about: {early:?}");
    client.answer(&question);
    let answered = client.answered();
    assert!(answered.contains("Ada"), "{answered}");
}

#[test]
fn a_question_that_its_server_withdraws_is_withdrawn_at_the_client() {
    let home = Home::new();
    let mut client = Client::greet(&home);
    client.call("change");
    let first = client.asked("first");
    home.write("seen", "");
    let (mut withdrawn, mut second) = (None, None);
    while withdrawn.is_none() || second.is_none() {
        let message = client.wait_for(|_| true);
        match message["method"].as_str() {
            Some("notifications/cancelled") => withdrawn = Some(message["params"]["requestId"].clone()),
            Some("elicitation/create") => second = Some(message["id"].clone()),
            _ => {}
        }
    }
    assert_eq!(withdrawn, Some(first));
    client.answer(&second.expect("it was asked"));
    let answered = client.answered();
    assert!(answered.contains("Ada"), "{answered}");
}

#[test]
fn a_question_whose_call_has_ended_is_withdrawn_at_the_client() {
    let home = Home::new();
    let mut client = Client::greet(&home);
    client.call("end");
    let asked = client.asked("first");
    home.write("seen", "");
    assert_eq!(client.withdrawn(), asked);
}
