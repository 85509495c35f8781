//! What servers ask of people in the midst of calls: never lost on the way, never answered by anyone else, over when the call is.
#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test may fail, and looks at the time")]

#[cfg(test)]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Seen, Server},
    packages, wait_for, wait_until,
};

/// A server whose tool `ask` asks a person for what its argument says, and answers with what it was told.
const ASKER: &str = r#"
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def form(**properties):
    return {"mode": "form", "message": "Who are you?",
            "requestedSchema": {"type": "object", "properties": properties, "required": list(properties)[:1]}}
asks = {
    "name": form(name={"type": "string", "minLength": 2}, age={"type": "integer"}, sure={"type": "boolean", "default": True}),
    "password": form(password={"type": "string"}),
    "address": {"mode": "url", "message": "Sign in.", "url": "https://login.example/here", "elicitationId": "e1"},
}
call = None
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        able = asked["params"]["capabilities"].get("elicitation")
        info = {"name": "asker", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})
        say(id="early", method="elicitation/create", params=asks["name"])
    elif method == "tools/call":
        call = id
        say(id="late", method="elicitation/create", params=asks[asked["params"]["arguments"]["want"]])
    elif id == "late":
        say(id=call, result={"content": [{"type": "text", "text": json.dumps([able, asked["result"]])}]})
    elif id == "early":
        assert asked["result"] == {"action": "cancel"}
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
"#;

struct Setting {
    home: Home,
    server: Server,
    file: String,
}

fn asking(want: &'static str, script: &str, python: &str, more: &str) -> Setting {
    let server = Server::start(move |seen: &Seen| {
        if seen.said_by("tool").is_empty() {
            Reply::calls(&[("one", "asker__ask", json!({ "want": want }))])
        } else {
            Reply::say("well")
        }
    });
    let home = Home::new();
    let script = home.write("asker.py", script);
    let manifest = format!(
        r#"{}
[surface.asker]
command = [{python:?}, {script:?}]
timeout = "2s"
[being.ada]
model = "scripted"
cycle = {{ every = "1h" }}
{more}
"#,
        server.model()
    );
    let file = home.write("ada.toml", &manifest).to_str().expect("UTF-8").to_owned();
    Setting { home, server, file }
}

impl Setting {
    fn apply(&self) {
        self.home.run(&["apply", "-f", &self.file]).ok();
    }

    fn questions(&self) -> Vec<Value> {
        self.home.run(&["questions", "-o", "json"]).ok().json().as_array().cloned().unwrap_or_default()
    }

    fn question(&self) -> Value {
        wait_for(PATIENT, "the server's question waits", || self.questions().into_iter().next())
    }

    /// What the model was told of the call.
    fn told(&self) -> String {
        let seen = self.server.wait_for(2, PATIENT);
        seen.last().map(|seen| seen.said_by("tool").join("\n")).unwrap_or_default().replace('\\', "")
    }
}

#[test]
fn a_person_gives_a_server_what_it_asks_for_and_the_calls_clock_stands_meanwhile() {
    let setting = asking("name", ASKER, "python3", "");
    let home = &setting.home;
    setting.apply();
    let asked = setting.question();
    let began = Instant::now();
    assert_eq!(
        (&asked["id"], &asked["tool"], &asked["form"]["message"]),
        (&json!("ada.1"), &json!("asker__ask"), &json!("Who are you?"))
    );
    assert_eq!(asked["form"]["schema"]["required"], json!(["name"]));
    assert!(home.run(&["questions"]).ok().stdout.contains("Who are you?"));
    let shown = home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(shown.contains("waiting for an answer to asker__ask"), "{shown}");

    let approved = home.run(&["approve", "ada.1"]);
    assert!(approved.code() == 2 && approved.stderr.contains("it asks for values"), "{}", approved.stderr);
    let misfit = home.run(&["answer", "ada.1", "--value", "name=A"]);
    assert!(misfit.code() == 2 && misfit.stderr.contains("name: "), "{}", misfit.stderr);
    wait_until(SOON, "the call would be late by now", || began.elapsed() > Duration::from_secs(3));
    assert_eq!(setting.questions().len(), 1);

    home.run(&["answer", "ada.1", "--json", r#"{"name": "Bob"}"#, "--value", "name=Ada-hush", "--value", "age=36"]).ok();
    let told = setting.told();
    assert!(told.contains(r#"[{"form": {}, "url": {}}, {"action": "accept", "content": {"#), "{told}");
    assert!(told.contains(r#""name": "Ada-hush""#) && told.contains(r#""age": 36"#) && told.contains(r#""sure": true"#), "{told}");
    assert!(setting.questions().is_empty());
    let answers = home.events("ada", "input_answered");
    assert_eq!(answers.len(), 1);
    assert!(!answers[0].to_string().contains("hush"), "what was given is told to the server alone: {}", answers[0]);
}

#[test]
fn a_server_is_told_when_a_person_will_not_or_nobody_answers() {
    let setting = asking("address", ASKER, "python3", "");
    setting.apply();
    assert_eq!(setting.question()["form"]["url"], "https://login.example/here");
    setting.home.run(&["deny", "ada.1"]).ok();
    assert!(setting.told().contains(r#"{"action": "decline"}"#), "{}", setting.told());

    let setting = asking("name", ASKER, "python3", r#"approve_within = "300ms""#);
    setting.apply();
    assert!(setting.told().contains(r#"{"action": "cancel"}"#), "{}", setting.told());
    assert_eq!(setting.home.events("ada", "input_answered")[0]["answer"]["is"], "expired");

    let setting = asking("name", ASKER, "python3", "");
    setting.home.run_within(PATIENT, &["once", "-f", &setting.file]).ok();
    assert!(setting.told().contains(r#"{"action": "cancel"}"#), "{}", setting.told());
}

#[test]
fn a_server_that_asks_for_a_secret_is_declined_and_nobody_is_asked() {
    let setting = asking("password", ASKER, "python3", "");
    setting.apply();
    assert!(setting.told().contains(r#"{"action": "decline"}"#), "{}", setting.told());
    assert!(setting.home.events("ada", "input_requested").is_empty());
    let warned = setting.home.events("ada", "warning");
    assert!(warned[0]["message"].as_str().is_some_and(|message| message.contains("forbidden_key")), "{warned:?}");
}

#[test]
fn a_question_of_a_server_ends_with_the_daemon_and_its_call_is_in_doubt() {
    let setting = asking("name", ASKER, "python3", "");
    setting.apply();
    setting.question();
    setting.home.daemon().expect("a daemon").kill();
    wait_until(SOON, "the daemon is gone", || setting.home.daemon().is_none());
    setting.apply();
    wait_until(PATIENT, "the call has an end", || setting.home.events("ada", "tool_finished").len() == 1);
    assert_eq!(setting.home.events("ada", "tool_finished")[0]["status"], "indeterminate");
    wait_until(SOON, "no question is left", || setting.questions().is_empty());
    let late = setting.home.run(&["answer", "ada.1", "--value", "name=Ada"]);
    assert_eq!(late.code(), 2, "{}", late.stderr);
}

/// A server of the newest protocol: its call ends with what it wants to know, and is made anew with the answer.
const MODERN: &str = r#"
import asyncio
from typing import Annotated
from pydantic import BaseModel
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, MCPServer, Resolve
server = MCPServer("asker")
class Name(BaseModel):
    name: str
async def who() -> Elicit[Name]:
    return Elicit("Who are you?", Name)
@server.tool()
async def ask(want: str, told: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
    return "hello " + told.data.name if isinstance(told, AcceptedElicitation) else "hello nobody"
asyncio.run(server.run_stdio_async())
"#;

#[test]
fn a_call_that_ends_with_a_question_is_made_anew_with_its_answer() {
    let Some(scripts) = packages::pypi("mcp-server-git", "2026.10.19") else { return };
    let setting = asking("name", MODERN, scripts.join("python").to_str().expect("UTF-8"), "");
    setting.apply();
    assert_eq!(setting.question()["form"]["message"], "Who are you?");
    setting.home.run(&["answer", "ada.1", "--value", "name=Ada"]).ok();
    assert!(setting.told().contains("hello Ada"), "{}", setting.told());
}
