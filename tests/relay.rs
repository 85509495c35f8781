//! What a server says and asks in mid-call, between it and the client that called: none of it is lost, and none goes astray.
#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};
use support::Home;

/// A server that, when its tool is called, tells how far it is, logs twice, asks for a name and a colour, and says what it was told.
const CURIOUS: &str = r#"
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def ask(method, params):
    send(id=method, method=method, params=params)
    while True:
        said = json.loads(sys.stdin.readline())
        if said.get("id") == method:
            return said.get("result") or said["error"]["message"]
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        able = {"tools": {}, "logging": {}}
        info = {"name": "curious", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info})
    elif method == "tools/list":
        send(id=id, result={"tools": [{"name": "wonder", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        token = params["_meta"]["progressToken"]
        send(method="notifications/progress", params={"progressToken": token, "progress": 1, "total": 2, "message": "half"})
        for level in ["info", "error"]:
            send(method="notifications/message", params={"level": level, "data": level})
        schema = {"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}}}
        name = ask("elicitation/create", {"message": "Who?", "requestedSchema": schema})
        said = ask("sampling/createMessage", {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}]})
        send(id=id, result={"content": [{"type": "text", "text": json.dumps([name, said])}]})
    elif method == "logging/setLevel":
        send(id=id, result={})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "method not found"})
"#;

/// A client of a Las on standard streams.
struct Client {
    las: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn greet(home: &Home, capabilities: &Value) -> Self {
        home.write("curious.py", CURIOUS);
        home.write("las.toml", "[surface.it]\ncommand = [\"python3\", \"{workspace}/curious.py\"]\n");
        let mut las = home.command(&["las", "-f", "las.toml"]);
        let mut las = las.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let (stdin, stdout) = (las.stdin.take(), BufReader::new(las.stdout.take().expect("a pipe")));
        let mut client = Self { las, stdin, stdout };
        let info = json!({ "name": "test", "version": "0" });
        client.say(json!({ "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": info, "capabilities": capabilities,
        }}));
        client.hear();
        client.say(json!({ "method": "notifications/initialized" }));
        client.say(json!({ "id": 2, "method": "tools/list" }));
        client.hear_answer(2);
        client
    }

    fn say(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        writeln!(self.stdin.as_mut().expect("open"), "{message}").expect("Las listens");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("Las speaks");
        serde_json::from_str(&line).expect("a message")
    }

    /// The answer, and what was said before it.
    fn hear_answer(&mut self, id: u32) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let heard = self.hear();
            match heard["method"].as_str() {
                Some("elicitation/create") => {
                    self.say(json!({ "id": heard["id"], "result": { "action": "accept", "content": { "name": "Eve" } } }));
                }
                Some("sampling/createMessage") => {
                    let said = json!({ "type": "text", "text": "blue" });
                    self.say(json!({ "id": heard["id"], "result": { "role": "assistant", "model": "m", "content": said } }));
                }
                Some(_) => {}
                None if heard["id"] == id => return (heard, before),
                None => continue,
            }
            before.push(heard);
        }
    }

    fn call(&mut self) -> (String, Vec<Value>) {
        let meta = json!({ "progressToken": "mine" });
        self.say(json!({ "id": 3, "method": "tools/call", "params": { "name": "it__wonder", "_meta": meta } }));
        let (answer, before) = self.hear_answer(3);
        (answer["result"]["content"][0]["text"].as_str().map_or_else(|| answer.to_string(), str::to_owned), before)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.las.wait();
    }
}

fn told(before: &[Value], method: &str) -> Vec<Value> {
    before.iter().filter(|said| said["method"] == method).map(|said| said["params"].clone()).collect()
}

fn logged(before: &[Value]) -> Vec<Value> {
    told(before, "notifications/message").into_iter().map(|said| said["data"].clone()).collect()
}

#[test]
fn what_a_server_tells_and_asks_in_mid_call_reaches_its_caller_and_the_answers_reach_it() {
    let home = Home::new();
    let mut client = Client::greet(&home, &json!({ "elicitation": {}, "sampling": {} }));
    let (answer, before) = client.call();
    assert!(answer.contains("Eve") && answer.contains("blue"), "{answer}");
    let progress = json!({ "progressToken": "mine", "progress": 1.0, "total": 2.0, "message": "half" });
    assert_eq!(told(&before, "notifications/progress"), [progress]);
    assert_eq!(logged(&before), ["info", "error"]);
    let asked = told(&before, "elicitation/create");
    assert_eq!(asked[0]["requestedSchema"]["properties"]["name"]["default"], "Ada");
}

#[test]
fn a_client_that_takes_no_questions_is_asked_none_and_its_call_goes_on() {
    let home = Home::new();
    let mut client = Client::greet(&home, &json!({}));
    client.say(json!({ "id": 4, "method": "logging/setLevel", "params": { "level": "warning" } }));
    client.hear_answer(4);
    let (answer, before) = client.call();
    assert!(
        answer.contains("the client does not take elicitation") && answer.contains("the client does not take sampling"),
        "{answer}"
    );
    assert_eq!(told(&before, "elicitation/create").len() + told(&before, "sampling/createMessage").len(), 0);
    assert_eq!(logged(&before), ["error"], "less than it wants is not told");
}
