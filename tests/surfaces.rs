//! Las and real MCP servers: what a being would lose when one of them misbehaves, dies or lies.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may fail, and starts processes")]

#[path = "support/las.rs"]
mod las;
#[path = "support/packages.rs"]
mod packages;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use las::{GRACE, Setting, call, command, is_up, restarts, setting, surface, text, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use singularity::{
    manifest::{ExternalLas, SecretSource, SurfaceSpec, TransportSpec, VariableSpec},
    surface::{
        CallError, Remote,
        las::{Las, LasError},
    },
    vocab::{Name, Span},
};

const PYTHON: &str = "2026.10.19";
const NODE: &str = "2026.8.31";

/// A server of npm, run by its script.
fn node(package: &str, args: &[&str]) -> Option<SurfaceSpec> {
    let home = packages::npm(package, NODE)?;
    let script = home.join("dist/index.js");
    Some(command(&[&["node", script.to_str().unwrap()], args].concat()))
}

/// A server of PyPI, run by its script.
fn python(package: &str, args: &[&str]) -> Option<SurfaceSpec> {
    let script = packages::pypi(package, PYTHON)?.join(package);
    Some(command(&[&[script.to_str().unwrap()], args].concat()))
}

impl Setting {
    /// Kills the one process whose command line fits and is not a supervisor.
    fn kill(&self, fits: impl Fn(&str) -> bool) {
        let found = self.processes().into_iter().filter(|(_, line)| !line.contains("supervise") && fits(line));
        let found: Vec<_> = found.collect();
        assert_eq!(found.len(), 1, "{found:?}");
        kill_process(Pid::from_raw(found.first().unwrap().0).unwrap(), Signal::KILL).unwrap();
    }
}

fn names(las: &Las) -> Vec<String> {
    las.tools().into_iter().map(|tool| tool.name).collect()
}

fn is_unavailable(error: &CallError) -> bool {
    matches!(error, CallError::Failed { code: "surface_unavailable", .. })
}

#[tokio::test]
async fn a_being_that_selected_nothing_costs_no_process() {
    let setting = setting([]);
    let las = setting.las().await;
    assert!(las.tools().is_empty() && las.health().is_empty());
    assert_eq!(setting.processes(), []);
    assert!(is_unavailable(&call(&las, "a__b", json!({})).await.unwrap_err()));
}

#[tokio::test]
async fn real_servers_of_two_ecosystems_are_joined_and_end_together() {
    let (Some(time), Some(git)) = (python("mcp-server-time", &[]), python("mcp-server-git", &[])) else { return };
    let Some(files) = node("@modelcontextprotocol/server-filesystem", &["{workspace}"]) else { return };
    let Some(mut memory) = node("@modelcontextprotocol/server-memory", &[]) else { return };
    memory.env.insert("MEMORY_FILE_PATH".to_owned(), VariableSpec::Text("{workspace}/memory.jsonl".to_owned()));
    let setting = setting([("time", time), ("git", git), ("files", files), ("memory", memory)]);
    let folder = setting.start.workspace.clone();
    let las = setting.las().await;

    let names = names(&las);
    for name in ["time__get_current_time", "git__git_status", "files__write_file", "memory__create_entities"] {
        assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
    }
    assert!(las.tools().iter().all(|tool| tool.input_schema.is_object() && !tool.description.is_empty()));

    let told = call(&las, "time__get_current_time", json!({ "timezone": "Europe/Warsaw" })).await.unwrap();
    assert!(text(&told).contains("Europe/Warsaw"), "{told}");

    let path = folder.join("notes.txt");
    call(&las, "files__write_file", json!({ "path": path, "content": "kept" })).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    let read = call(&las, "files__read_text_file", json!({ "path": path })).await.unwrap();
    assert_eq!(text(&read), "kept");

    let entity = json!({ "name": "ada", "entityType": "being", "observations": ["curious"] });
    call(&las, "memory__create_entities", json!({ "entities": [entity] })).await.unwrap();
    assert!(fs::read_to_string(folder.join("memory.jsonl")).unwrap().contains("curious"));

    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn a_tool_that_refuses_is_a_result_or_a_definite_no() {
    let Some(files) = node("@modelcontextprotocol/server-filesystem", &["{workspace}"]) else { return };
    let setting = setting([("files", files)]);
    let las = setting.las().await;
    let outside = call(&las, "files__read_text_file", json!({ "path": "/etc/hostname" })).await.unwrap();
    assert_eq!(outside.get("isError"), Some(&json!(true)), "{outside}");
    for unknown in ["nobody__read", "files", "", "Files__read_text_file"] {
        let error = call(&las, unknown, json!({})).await.unwrap_err();
        assert!(matches!(error, CallError::Failed { code: "remote_tool", .. }), "{unknown}: {error:?}");
    }
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_surface_that_dies_stops_nothing_else_and_comes_back() {
    let Some(time) = python("mcp-server-time", &[]) else { return };
    let Some(files) = node("@modelcontextprotocol/server-filesystem", &["{workspace}"]) else { return };
    let setting = setting([("time", time), ("files", files)]);
    let las = setting.las().await;
    let before = names(&las);

    setting.kill(|line| line.contains("server-filesystem"));
    wait_until("the loss is told", || restarts(&las, "files") == 1).await;
    let error = call(&las, "files__list_allowed_directories", json!({})).await;
    assert!(error.is_ok() || is_unavailable(&error.unwrap_err()), "away, or back already");
    call(&las, "time__get_current_time", json!({ "timezone": "UTC" })).await.unwrap();
    assert_eq!(names(&las), before, "its tools stay listed");

    wait_until("it is back", || is_up(&las, "files")).await;
    call(&las, "files__list_allowed_directories", json!({})).await.unwrap();
    assert_eq!(las.restarts(), 0);
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_las_that_dies_takes_its_surfaces_along_and_comes_back() {
    let Some(files) = node("@modelcontextprotocol/server-filesystem", &["{workspace}"]) else { return };
    let setting = setting([("files", files)]);
    let las = setting.las().await;
    let first: Vec<i32> = setting.processes().into_iter().map(|(id, _)| id).collect();

    setting.kill(|line| line.ends_with("las "));
    wait_until("Las was started again", || las.restarts() == 1 && is_up(&las, "files")).await;
    call(&las, "files__list_allowed_directories", json!({})).await.unwrap();
    let second: Vec<i32> = setting.processes().into_iter().map(|(id, _)| id).collect();
    assert!(second.iter().all(|id| !first.contains(id)), "{first:?} and {second:?}");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_dropped_las_leaves_nobody() {
    let Some(files) = node("@modelcontextprotocol/server-filesystem", &["{workspace}"]) else { return };
    let setting = setting([("files", files)]);
    let las = setting.las().await;
    assert!(setting.processes().len() >= 4, "two supervisors and what they watch over");
    drop(las);
    wait_until("all are gone", || setting.processes().is_empty()).await;
}

/// A server that leaves a trace of each call and never answers `wait`; `grow` gives it another tool.
const STUCK: &str = r#"
import json, pathlib, sys
tools = [{"name": "wait", "inputSchema": {"type": "object"}}, {"name": "grow", "inputSchema": {"type": "object"}}]
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "notifications/cancelled":
        pathlib.Path("cancelled").touch()
    elif method == "initialize":
        info = {"name": "stuck", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": tools})
    elif method == "tools/call" and params["name"] == "grow":
        tools.append({"name": "grown", "inputSchema": {"type": "object"}})
        say(method="notifications/tools/list_changed")
        say(id=id, result={"content": []})
    elif method == "tools/call":
        pathlib.Path("called").touch()
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
"#;

fn stuck() -> SurfaceSpec {
    command(&["python3", "-c", STUCK])
}

impl Setting {
    fn left(&self, trace: &str) -> bool {
        self.workspace.path().join(trace).exists()
    }
}

#[tokio::test]
async fn a_call_that_is_late_is_in_doubt_and_costs_no_other() {
    let Some(everything) = node("@modelcontextprotocol/server-everything", &[]) else { return };
    let setting = setting([("hasty", SurfaceSpec { timeout: Span::from_secs(2), ..everything })]);
    let las = setting.las().await;
    let long = json!({ "duration": 50, "steps": 5 });
    let late = call(&las, "hasty__trigger-long-running-operation", long).await.unwrap_err();
    assert!(matches!(&late, CallError::Indeterminate { message } if message.contains("2s")), "{late:?}");
    let echo = call(&las, "hasty__echo", json!({ "message": "still there" })).await.unwrap();
    assert!(text(&echo).contains("still there"));
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_call_whose_server_dies_is_in_doubt() {
    let setting = setting([("stuck", stuck())]);
    let las = setting.las().await;
    let kill = async {
        wait_until("the call has arrived", || setting.left("called")).await;
        setting.kill(|line| line.contains("tools.append"));
    };
    let (lost, ()) = tokio::join!(call(&las, "stuck__wait", json!({})), kill);
    assert!(matches!(lost, Err(CallError::Indeterminate { .. })), "{lost:?}");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_call_in_flight_when_las_dies_is_in_doubt() {
    let setting = setting([("stuck", stuck())]);
    let las = setting.las().await;
    let kill = async {
        wait_until("the call has arrived", || setting.left("called")).await;
        setting.kill(|line| line.ends_with("las "));
    };
    let (lost, ()) = tokio::join!(call(&las, "stuck__wait", json!({})), kill);
    assert!(matches!(lost, Err(CallError::Indeterminate { .. })), "{lost:?}");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let setting = setting([("stuck", stuck())]);
    let las = setting.las().await;
    tokio::select! {
        answer = call(&las, "stuck__wait", json!({})) => panic!("{answer:?}"),
        () = wait_until("the call has arrived", || setting.left("called")) => {}
    }
    wait_until("the server was told", || setting.left("cancelled")).await;
    las.stop(GRACE).await;
}

/// A server of the old protocol that answers whatever it does not know with an empty result.
const YES: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = {"jsonrpc": "2.0", "id": asked.get("id"), "result": {}}
    if asked["method"] == "initialize":
        said["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "yes", "version": "1"}}
    elif asked["method"] == "tools/list":
        said["result"] = {"tools": [{"name": "nod", "inputSchema": {"type": "object"}}]}
    if "id" in asked:
        print(json.dumps(said), flush=True)
"#;

#[tokio::test]
async fn a_server_that_says_yes_to_what_it_does_not_know_is_greeted_in_the_old_way() {
    let setting = setting([("yes", command(&["python3", "-c", YES]))]);
    let las = setting.las().await;
    assert_eq!(names(&las), ["yes__nod"]);
    assert_eq!(
        setting.fitting(|line| line.contains("serverInfo") && !line.contains("supervise")).len(),
        1,
        "the first one has ended"
    );
    las.stop(GRACE).await;
}

/// A server that answers a call a little later, and notes how many it has had at once.
const BUSY: &str = r#"
import json, pathlib, sys, threading
lock, now, most = threading.Lock(), 0, 0
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def answer(id):
    global now
    with lock:
        now -= 1
        say(id=id, result={"content": []})
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    with lock:
        if method == "initialize":
            info = {"name": "busy", "version": "1"}
            say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            say(id=id, result={"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
        elif method == "tools/call":
            now += 1
            most = max(most, now)
            pathlib.Path("most").write_text(str(most))
            threading.Timer(0.05, answer, [id]).start()
        elif id is not None:
            say(id=id, error={"code": -32601, "message": "method not found"})
"#;

#[tokio::test]
async fn a_server_is_never_given_more_calls_at_once_than_are_allowed_and_none_is_lost() {
    let setting = setting([("busy", command(&["python3", "-c", BUSY]))]);
    let las = setting.las().await;
    let calls = (0..200).map(|_| call(&las, "busy__work", json!({})));
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
    let most: u32 = fs::read_to_string(setting.workspace.path().join("most")).unwrap().parse().unwrap();
    assert!((2..=32).contains(&most), "{most} at once");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_tool_that_a_call_adds_is_listed_when_the_call_has_ended() {
    let setting = setting([("stuck", stuck())]);
    let las = setting.las().await;
    assert_eq!(names(&las), ["stuck__wait", "stuck__grow"]);
    for count in 3..20 {
        call(&las, "stuck__grow", json!({})).await.unwrap();
        assert_eq!(names(&las).len(), count);
    }
    assert_eq!(las.restarts(), 0);
    las.stop(GRACE).await;
}

/// A server of the newest protocol, which tells of changes on a stream alone; `grow` gives it another tool.
const MODERN: &str = r#"
import asyncio
from mcp.server.mcpserver import Context, MCPServer
server = MCPServer("modern")
@server.tool()
async def grow(ctx: Context) -> str:
    server.add_tool(lambda: "x", name="grown", description="New.")
    await ctx.notify_tools_changed()
    return ctx.request_context.protocol_version
asyncio.run(server.run_stdio_async())
"#;

#[tokio::test]
async fn a_server_that_tells_of_changes_on_a_stream_alone_is_heard() {
    let Some(scripts) = packages::pypi("mcp-server-git", PYTHON) else { return };
    let setting = setting([("modern", command(&[scripts.join("python").to_str().unwrap(), "-c", MODERN]))]);
    let las = setting.las().await;
    assert_eq!(names(&las), ["modern__grow"]);
    let grown = call(&las, "modern__grow", json!({})).await.unwrap();
    assert_eq!(text(&grown), "2026-07-28");
    wait_until("the new tool is listed", || names(&las).contains(&"modern__grown".to_owned())).await;
    assert_eq!(las.restarts(), 0);
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_greeting_on_stdout_costs_no_tool() {
    let Some(SurfaceSpec { transport: TransportSpec::Command(words), .. }) = python("mcp-server-time", &[]) else { return };
    let chatty = command(&["sh", "-c", &format!("echo 'Welcome!'; echo '{{\"not\": \"mcp\"}}'; exec {}", words.join(" "))]);
    let setting = setting([("time", chatty)]);
    let las = setting.las().await;
    call(&las, "time__get_current_time", json!({ "timezone": "UTC" })).await.unwrap();
    let health = las.health().remove(&"time".parse::<Name>().unwrap()).unwrap();
    assert_eq!((health.up, health.rubbish_lines), (true, 2));
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_required_surface_that_stays_silent_fails_the_boot_with_its_last_words() {
    let mut setting = setting([("mute", command(&["sh", "-c", "echo 'no database' >&2; exec sleep 1000"]))]);
    setting.start.required = vec!["mute".parse().unwrap()];
    setting.start.patience = Duration::from_secs(2);
    let error = Las::start(setting.start.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "mcp: required Las surface unavailable: mute");
    let LasError::RequiredUnavailable { because, .. } = error else { panic!("{error:?}") };
    assert!(because.0.contains("did not answer within 2s") && because.0.contains("no database"), "{because}");
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn a_required_surface_that_cannot_start_is_told_with_its_command() {
    let mut setting = setting([("gone", command(&["/nowhere/server", "{workspace}"]))]);
    setting.start.required = vec!["gone".parse().unwrap()];
    let LasError::RequiredUnavailable { because, .. } = Las::start(setting.start.clone()).await.unwrap_err() else { panic!() };
    assert!(because.0.contains("/nowhere/server") && because.0.contains("cannot start"), "{because}");
}

#[tokio::test]
async fn a_flood_without_a_line_end_is_cut_off_and_nothing_else_stops() {
    let Some(time) = python("mcp-server-time", &[]) else { return };
    let setting = setting([("flood", command(&["sh", "-c", "tr '\\0' x < /dev/zero"])), ("time", time)]);
    let las = setting.las().await;
    let health = las.health().remove(&"flood".parse::<Name>().unwrap()).unwrap();
    assert!(!health.up && health.reason.as_deref().is_some_and(|why| why.contains("more than 8388608 bytes")), "{health:?}");
    call(&las, "time__get_current_time", json!({ "timezone": "UTC" })).await.unwrap();
    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn nothing_of_the_daemons_environment_reaches_a_surface() {
    let seen = |setting: &Setting| fs::read_to_string(setting.workspace.path().join("seen")).unwrap_or_default();
    let mut spy = command(&["sh", "-c", "env > {workspace}/seen; exec sleep 1000"]);
    spy.env.insert("GIVEN".to_owned(), VariableSpec::Text("{workspace}/x".to_owned()));
    let mut setting = setting([("spy", spy)]);
    setting.start.env.insert("OPENAI_API_KEY".to_owned(), "hush".to_owned());
    setting.start.patience = Duration::from_secs(2);
    let las = setting.las().await;
    wait_until("it has seen", || seen(&setting).contains("GIVEN=")).await;
    let names = seen(&setting);
    let mut names: Vec<&str> = names.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "LANG", "LC_ALL", "PATH"], "beside what a shell sets itself");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn another_las_can_stand_in_and_is_told_what_to_join() {
    let Some(SurfaceSpec { transport: TransportSpec::Command(words), .. }) = python("mcp-server-time", &[]) else { return };
    let mut setting = setting([]);
    let script = format!("echo \"$LAS_ONLY/$LAS_SKIP\" > {}/told; exec {}", setting.start.workspace.display(), words.join(" "));
    let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
    setting.start.external = Some(ExternalLas { command, only: Some("time,git".to_owned()), skip: Some("git".to_owned()) });
    let las = setting.las().await;
    assert!(names(&las).contains(&"get_current_time".to_owned()));
    assert_eq!(fs::read_to_string(setting.workspace.path().join("told")).unwrap(), "time,git/git\n");
    call(&las, "get_current_time", json!({ "timezone": "UTC" })).await.unwrap();
    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

/// A server over HTTP that wants the bearer in `secret`, read anew at each request.
async fn http_server(secret: PathBuf) -> String {
    use axum::{
        Json, Router,
        extract::State,
        http::{HeaderMap, StatusCode},
        response::{IntoResponse, Response},
        routing::post,
    };
    async fn answer(State(secret): State<PathBuf>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
        let wanted = format!("Bearer {}", fs::read_to_string(secret).unwrap());
        if headers.get("authorization").is_none_or(|given| given.as_bytes() != wanted.as_bytes()) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let Some(id) = asked.get("id") else { return StatusCode::ACCEPTED.into_response() };
        let said = |result: Value| Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response();
        let tool = asked.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
        match asked.get("method").and_then(Value::as_str).unwrap_or_default() {
            "initialize" => said(json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" },
            })),
            "tools/list" => said(json!({ "tools": [{ "name": "ring", "inputSchema": { "type": "object" } }] })),
            "tools/call" if tool == "ring" => said(json!({ "content": [{ "type": "text", "text": "rung" }] })),
            "tools/call" if tool == "teapot" => (StatusCode::IM_A_TEAPOT, "short and stout").into_response(),
            "tools/call" => (StatusCode::INTERNAL_SERVER_ERROR, "oh").into_response(),
            _ => {
                let error = json!({ "code": -32601, "message": "method not found" });
                Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response()
            }
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = Router::new().route("/mcp", post(answer)).with_state(secret);
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

fn keep_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn over_http_the_bearer_is_sent_and_a_refusal_is_a_definite_no() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    keep_secret(&secret, "right");
    let url = http_server(secret.clone()).await;
    let bearer = Some(SecretSource::File(secret));
    let setting = setting([("far", surface(TransportSpec::Url { url, bearer, oauth: None }))]);
    let las = setting.las().await;
    assert_eq!(names(&las), ["far__ring"]);
    assert_eq!(text(&call(&las, "far__ring", json!({})).await.unwrap()), "rung");
    let refused = call(&las, "far__teapot", json!({})).await.unwrap_err();
    assert!(matches!(refused, CallError::Failed { code: "remote_tool", .. }), "{refused:?}");
    let broken = call(&las, "far__break", json!({})).await.unwrap_err();
    assert!(matches!(broken, CallError::Indeterminate { .. }), "{broken:?}");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_wrong_bearer_is_told_and_a_right_one_is_taken_up_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (theirs, ours) = (folder.path().join("theirs"), folder.path().join("ours"));
    keep_secret(&theirs, "right");
    keep_secret(&ours, "wrong-hush");
    let url = http_server(theirs).await;
    let setting =
        setting([("far", surface(TransportSpec::Url { url, bearer: Some(SecretSource::File(ours.clone())), oauth: None }))]);
    let las = setting.las().await;
    let health = las.health().remove(&"far".parse::<Name>().unwrap()).unwrap();
    assert!(!health.up);
    let reason = health.reason.unwrap();
    assert!(reason.contains("401") && !reason.contains("hush"), "{reason}");
    keep_secret(&ours, "right");
    wait_until("the new bearer was taken up", || is_up(&las, "far")).await;
    assert_eq!(text(&call(&las, "far__ring", json!({})).await.unwrap()), "rung");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_server_that_nobody_serves_is_not_available() {
    let url = "http://127.0.0.1:9/mcp".to_owned();
    let setting = setting([("far", surface(TransportSpec::Url { url, bearer: None, oauth: None }))]);
    let las = setting.las().await;
    assert!(is_unavailable(&las.call("far__ring", Map::new()).await.unwrap_err()));
    las.stop(GRACE).await;
}
