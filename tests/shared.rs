//! Surfaces of scope `shared`: one process for all beings, which outlives each of them and none of the daemon, and mixes nobody up.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods, reason = "a test may fail, and edits files")]

#[path = "support/las.rs"]
mod las;
#[cfg(test)]
mod support;

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use singularity::{
    manifest::{Scope, SurfaceSpec, VariableSpec},
    process::Backoff,
    surface::{
        CallError,
        las::{Las, SharedStart, SharedSurfaces},
    },
};
use support::{
    Home, Life, PATIENT, SOON,
    openai::{Reply, Seen, Server},
    proc::{self, Process},
    wait_for, wait_until,
};
use tempfile::TempDir;

/// What the model of each being asks for next.
type Wanted = Arc<Mutex<BTreeMap<String, VecDeque<(String, Value)>>>>;

struct Scene {
    home: Home,
    model: Server,
    wanted: Wanted,
    beings: Vec<&'static str>,
    surface: String,
    /// How often each was given another workspace.
    moves: BTreeMap<&'static str, usize>,
    daemon: Option<Life>,
}

/// A model that asks for what was queued for the being, and is content otherwise.
fn model(wanted: &Wanted) -> Server {
    let wanted = Arc::clone(wanted);
    Server::start(move |seen: &Seen| {
        let system = seen.said_by("system").join("\n");
        let mut wanted = wanted.lock().unwrap();
        let queue = wanted.iter_mut().find(|(being, _)| system.contains(&format!("You are {being},"))).map(|(_, queue)| queue);
        match queue.and_then(VecDeque::pop_front) {
            Some((tool, arguments)) => Reply::call(&tool, arguments),
            None => Reply::say("well"),
        }
    })
}

/// Beings that share the surface `pool` under a daemon.
fn scene(beings: &[&'static str]) -> Scene {
    let (home, wanted) = (Home::new(), Wanted::default());
    let model = model(&wanted);
    fs::create_dir(home.around().join("traces")).unwrap();
    let (beings, surface, moves) = (beings.to_vec(), String::new(), BTreeMap::new());
    let mut scene = Scene { home, model, wanted, beings, surface, moves, daemon: None };
    scene.declare("");
    let folder = scene.home.around().join("fleet");
    scene.daemon = Some(scene.home.spawn(&["serve", folder.to_str().unwrap()]));
    scene
}

impl Scene {
    /// Writes the manifest, with more variables for the process of the surface.
    fn declare(&mut self, more: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/pool.py");
        let traces = self.home.around().join("traces");
        self.surface = format!(
            "[surface.pool]\nscope = \"shared\"\ncommand = [\"python3\", {script:?}]\nenv = {{ TRACES = {traces:?}{more} }}\n"
        );
        self.write();
    }

    fn write(&self) {
        let being = |name: &&str| {
            let workspace = self.home.around().join(format!("{name}-{}", self.moves.get(name).copied().unwrap_or_default()));
            format!("[being.{name}]\nmodel = \"scripted\"\nworkspace = {workspace:?}\ncycle = {{ every = \"100ms\" }}\n")
        };
        let beings: String = self.beings.iter().map(being).collect();
        let manifest = format!("{}\n{}{beings}", self.model.model(), self.surface);
        self.home.write("fleet.toml", &manifest);
        let place = self.home.around().join("fleet/fleet.toml");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::rename(self.home.around().join("fleet.toml"), place).unwrap();
    }

    /// Has a being be stopped and started: its workspace is not changed under it while it lives.
    fn restart(&mut self, being: &'static str) {
        let before = self.home.events(being, "started").len();
        *self.moves.entry(being).or_default() += 1;
        self.write();
        wait_until(PATIENT, "it is started again", || self.home.events(being, "started").len() > before);
    }

    /// Has a being call a tool.
    fn want(&self, being: &str, tool: &str) {
        self.wanted.lock().unwrap().entry(being.to_owned()).or_default().push_back((format!("pool__{tool}"), json!({})));
    }

    fn ends(&self, being: &str) -> Vec<Value> {
        self.home.events(being, "tool_finished")
    }

    /// Waits for the end of the call that a being makes as its `number`th.
    #[track_caller]
    fn end(&self, being: &str, number: usize) -> Value {
        wait_for(PATIENT, &format!("call {number} of {being} ends"), || self.ends(being).into_iter().nth(number - 1))
    }

    /// Has a being call a tool, and waits for the end of it.
    #[track_caller]
    fn call(&self, being: &str, tool: &str) -> Value {
        let before = self.ends(being).len();
        self.want(being, tool);
        self.end(being, before + 1)
    }

    /// The process that answers a being.
    #[track_caller]
    fn process(&self, being: &str) -> i32 {
        let end = self.call(being, "who");
        let told = end["result"].as_str().unwrap();
        let number = told.split("process ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let number = number.and_then(|number| number.parse().ok());
        assert!(number.is_some(), "no process in {end}");
        number.unwrap()
    }

    /// Every process of the server that was ever started.
    fn started(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.trace("started")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn trace(&self, name: &str) -> PathBuf {
        self.home.around().join("traces").join(name)
    }

    fn leave(&self, name: &str) {
        fs::write(self.trace(name), "").unwrap();
    }

    /// What is told of the surface of a being.
    fn health(&self, being: &str) -> Value {
        let listed = self.home.run(&["get", "beings", "-o", "json"]).ok().json();
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let item = items.into_iter().find(|item| item["address"] == format!("being/{being}"));
        item.map(|item| item["being"]["surfaces"]["pool"].clone()).unwrap_or_default()
    }
}

fn is_gone(process: i32) -> bool {
    Process::of(process).is_none()
}

#[test]
fn three_beings_have_one_process_and_the_daemon_ends_with_it() {
    let scene = scene(&["ada", "bob", "cleo"]);
    let processes = scene.beings.iter().map(|being| scene.process(being)).collect::<Vec<_>>();
    assert_eq!(processes, [scene.started()[0]; 3]);
    assert_eq!(scene.started().len(), 1);
    let daemon = scene.home.daemon().unwrap();
    let ours = proc::descendants(daemon.pid);
    assert!(!ours.iter().any(|process| process.command.ends_with(" las ")), "nobody needs a Las: {ours:?}");
    let cwd = fs::read_link(format!("/proc/{}/cwd", processes[0])).unwrap();
    assert!(cwd.ends_with(Path::new("home/shared/pool")), "{cwd:?}");
    for being in &scene.beings {
        assert_eq!((&scene.health(being)["up"], &scene.health(being)["tools"]), (&json!(true), &json!(4)), "{being}");
    }
    scene.home.run(&["down"]).ok();
    wait_until(SOON, "nobody is left", || ours.iter().all(|process| !process.is_alive()));
}

#[test]
fn the_process_outlives_each_being_and_ends_with_the_last() {
    let mut scene = scene(&["ada", "bob", "cleo"]);
    let process = scene.process("ada");
    scene.beings.retain(|being| *being != "cleo");
    scene.write();
    wait_until(PATIENT, "cleo is gone", || scene.health("cleo").is_null());
    assert_eq!(scene.process("bob"), process);

    scene.restart("ada");
    assert_eq!([scene.process("ada"), scene.process("bob")], [process; 2]);

    scene.beings = vec!["ada"];
    scene.write();
    wait_until(PATIENT, "bob is gone", || scene.health("bob").is_null());
    scene.restart("ada");
    assert_eq!(scene.process("ada"), process, "nor is the last one's restart its end");

    scene.beings = vec![];
    scene.write();
    wait_until(PATIENT, "the process ends with the last", || is_gone(process));
    assert_eq!(scene.started(), [process]);
    assert!(scene.home.daemon().is_some());
}

#[test]
fn a_daemon_that_is_killed_leaves_no_process() {
    let mut scene = scene(&["ada", "bob"]);
    scene.process("ada");
    scene.declare(", STAYS = \"1\"");
    wait_until(PATIENT, "it is the one that stays", || Some(scene.process("ada")) == scene.started().get(1).copied());
    let process = scene.process("bob");
    let below = proc::descendants(scene.home.daemon().unwrap().pid);
    assert!(below.iter().any(|below| below.pid == process));
    scene.home.daemon().unwrap().kill();
    wait_until(SOON, "nobody is left", || below.iter().all(|process| !process.is_alive()));
}

#[test]
fn a_process_that_is_killed_leaves_in_doubt_the_call_that_it_had_and_comes_back_for_all() {
    let scene = scene(&["ada", "bob"]);
    let process = scene.process("bob");
    scene.want("ada", "wait");
    wait_until(PATIENT, "the call has arrived", || scene.trace("waiting").exists());
    scene.leave("broken");
    Process::of(process).unwrap().kill();
    assert_eq!(scene.end("ada", 1)["status"], "indeterminate");
    let unavailable = scene.call("bob", "who");
    assert_eq!((&unavailable["status"], &unavailable["error_code"]), (&json!("failed"), &json!("surface_unavailable")));
    wait_until(PATIENT, "both are told", || ["ada", "bob"].iter().all(|being| scene.health(being)["up"] == false));

    fs::remove_file(scene.trace("broken")).unwrap();
    wait_until(PATIENT, "it is back", || scene.started().len() == 2);
    wait_until(PATIENT, "both are told", || ["ada", "bob"].iter().all(|being| scene.health(being)["up"] == true));
    assert_eq!([scene.process("ada"), scene.process("bob")], [scene.started()[1]; 2]);
    let statuses = |being| scene.ends(being).iter().map(|end| end["status"].clone()).collect::<Vec<_>>();
    assert_eq!(statuses("ada"), ["indeterminate", "success"]);
    assert_eq!(statuses("bob"), ["success", "failed", "success"]);
}

#[test]
fn an_edit_is_one_new_process_for_all_with_its_tools_and_the_old_one_ends() {
    let mut scene = scene(&["ada", "bob"]);
    let old = scene.process("ada");
    assert_eq!(scene.process("bob"), old);
    scene.declare(", MORE = \"extra\"");
    wait_until(PATIENT, "the old process ends", || is_gone(old));
    let new = [scene.process("ada"), scene.process("bob")];
    assert_eq!(new, [scene.started()[1]; 2]);
    assert_eq!(scene.started().len(), 2);
    for being in ["ada", "bob"] {
        let extra = scene.call(being, "extra");
        assert_eq!(extra["status"], "success", "{extra}");
        assert_eq!(scene.home.events(being, "started").len(), 1, "it was not restarted for that");
    }

    // What a tool is called here is nothing that its process need know.
    scene.surface.push_str("deny = [\"extra\"]\n");
    scene.write();
    let offered = |scene: &Scene| scene.model.seen().last().is_some_and(|seen| seen.tools().contains(&"pool__extra"));
    wait_until(PATIENT, "it is offered no more", || !offered(&scene));
    assert_eq!(scene.process("ada"), new[0]);
}

#[test]
fn what_a_shared_surface_asks_goes_to_the_being_whose_call_it_is_or_to_nobody() {
    let scene = scene(&["ada", "bob"]);
    scene.want("ada", "wait");
    wait_until(PATIENT, "the call has arrived", || scene.trace("waiting").exists());
    let refused = scene.call("bob", "ask");
    assert!(refused["result"].as_str().unwrap().contains("calls of several callers are under way"), "{refused}");
    let questions = || scene.home.run(&["questions", "-o", "json"]).ok().json().as_array().cloned().unwrap_or_default();
    assert_eq!(questions(), [Value::Null; 0]);

    scene.leave("go");
    scene.end("ada", 1);
    scene.want("bob", "ask");
    let asked = wait_for(PATIENT, "the question waits", || questions().into_iter().next());
    assert_eq!((&asked["id"], &asked["tool"], &asked["form"]["message"]), (&json!("bob.1"), &json!("pool__ask"), &json!("Who?")));
    scene.home.run(&["answer", "bob.1", "--value", "name=Bob"]).ok();
    let told = scene.end("bob", 2);
    assert!(told["result"].as_str().unwrap().contains("accept") && told["result"].as_str().unwrap().contains("Bob"), "{told}");
    assert!(scene.home.events("ada", "input_requested").is_empty());
}

/// A server that answers each call a little later, with how many came before it.
const COUNTING: &str = r#"
import json, pathlib, sys, threading
lock, came = threading.Lock(), 0
def say(**message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        info = {"name": "counting", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "count", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        pathlib.Path("came").write_text(str(came))
        result = {"content": [{"type": "text", "text": str(came)}]}
        came += 1
        threading.Timer(0.1, lambda id=id, result=result: say(id=id, result=result)).start()
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
"#;

/// Where surfaces are kept for several.
struct Commons {
    folder: TempDir,
    shared: SharedSurfaces,
}

fn commons(linger: Duration) -> Commons {
    let folder = tempfile::tempdir().unwrap();
    let shared = SharedSurfaces::new(SharedStart {
        program: las::BINARY.into(),
        folders: folder.path().to_owned(),
        tokens: folder.path().join("oauth"),
        env: std::env::vars().collect(),
        patience: las::DEADLINE,
        pace: Backoff::default(),
        linger,
    });
    Commons { folder, shared }
}

impl Commons {
    /// What one being has of a shared surface.
    async fn user(&self, name: &str, command: &[&str], more: &str) -> Las {
        let mut spec = SurfaceSpec { scope: Scope::Shared, ..las::command(command) };
        let text = |text: &str| VariableSpec::Text(text.to_owned());
        spec.env.insert("TRACES".to_owned(), text(self.folder.path().to_str().unwrap()));
        spec.env.insert("MORE".to_owned(), text(more));
        let mut setting = las::setting([(name, spec)]);
        setting.start.shared = Some(self.shared.clone());
        setting.las().await
    }

    async fn pool(&self, more: &str) -> Las {
        self.user("pool", &["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/pool.py")], more).await
    }
}

/// Which process answers.
async fn process(las: &Las) -> i32 {
    let told = las::call(las, "pool__who", json!({})).await.unwrap();
    las::text(&told).rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_process_goes_on_while_one_uses_it_whoever_comes_and_goes() {
    let commons = commons(Duration::ZERO);
    let bob = commons.pool("").await;
    let first = process(&bob).await;
    for round in 0..40 {
        let other = commons.pool("").await;
        assert_eq!(process(&other).await, first);
        if round % 2 == 0 {
            other.stop(las::GRACE).await;
            let over = las::call(&other, "pool__who", json!({})).await.unwrap_err();
            assert!(matches!(over, CallError::Failed { code: "surface_unavailable", .. }), "{over:?}");
        }
        drop(other);
        assert_eq!(process(&bob).await, first, "round {round}");
    }
    drop(bob);
    las::wait_until("it ends with the last", || is_gone(first)).await;
}

#[tokio::test]
async fn a_process_that_is_declared_otherwise_is_not_waited_for_and_none_outlasts_the_end() {
    let commons = commons(Duration::from_hours(1));
    let one = commons.pool("").await;
    let first = process(&one).await;
    let two = commons.pool("extra").await;
    let second = process(&two).await;
    assert!(first != second && !is_gone(first), "it goes on while one still uses it");
    one.stop(las::GRACE).await;
    las::wait_until("the old one ends", || is_gone(first)).await;

    two.stop(las::GRACE).await;
    let again = commons.pool("extra").await;
    assert_eq!(process(&again).await, second, "it was waited after");
    again.stop(las::GRACE).await;
    let three = commons.pool("other").await;
    las::wait_until("what nobody uses makes room", || is_gone(second)).await;

    let third = process(&three).await;
    commons.shared.stop().await;
    assert!(is_gone(third));
    let over = las::call(&three, "pool__who", json!({})).await.unwrap_err();
    assert!(matches!(over, CallError::Failed { code: "surface_unavailable", .. }), "{over:?}");
}

#[tokio::test]
async fn a_flood_of_one_being_starves_no_other() {
    let commons = commons(Duration::ZERO);
    let counting = ["python3", "-c", COUNTING];
    let (ada, bob) = (commons.user("counting", &counting, "").await, commons.user("counting", &counting, "").await);
    let counted = async |las: &Las| -> usize {
        let counted = las::call(las, "counting__count", json!({})).await.unwrap();
        las::text(&counted).parse().unwrap()
    };
    let came = || fs::read_to_string(commons.folder.path().join("counting/came")).ok()?.parse::<usize>().ok();
    let flood = futures::future::join_all((0..400).map(|_| counted(&ada)));
    let other = async {
        let mut before = 0;
        let is_there = || {
            before = came().unwrap_or(before);
            before >= 31
        };
        las::wait_until("the flood is there", is_there).await;
        (before, counted(&bob).await)
    };
    let (flood, (before, other)) = tokio::join!(flood, other);
    assert_eq!(flood.len(), 400);
    // Those that were under way, and those that came while it was on its way.
    assert!(other <= before + 2 * 32, "{other} came before it, of which {before} were there");
    commons.shared.stop().await;
}

#[test]
fn a_tool_that_one_being_brings_about_is_offered_to_all() {
    let scene = scene(&["ada", "bob"]);
    scene.call("ada", "grow");
    assert_eq!(scene.call("ada", "grown")["status"], "success");
    let offered = |being: &str| {
        let is_offered = |seen: &Seen| {
            seen.said_by("system").join("").contains(&format!("You are {being},")) && seen.tools().contains(&"pool__grown")
        };
        scene.model.seen().iter().any(is_offered)
    };
    wait_until(PATIENT, "it is offered to bob", || offered("bob"));
    assert_eq!(scene.call("bob", "grown")["status"], "success");
}

#[test]
fn an_address_that_is_shared_has_one_connection_and_is_shown_its_bearer() {
    let far = Server::start(|seen: &Seen| {
        let id = seen.body["id"].clone();
        let result = |result: Value| Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        if seen.headers.get("authorization").map(String::as_str) != Some("Bearer pl4nted") {
            return Reply::raw(401, Vec::new());
        }
        match (seen.method.as_str(), seen.body["method"].as_str().unwrap_or_default()) {
            ("POST", "initialize") => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" },
            })),
            ("POST", "tools/list") => result(json!({ "tools": [{ "name": "who", "inputSchema": { "type": "object" } }] })),
            ("POST", "tools/call") => result(json!({ "content": [{ "type": "text", "text": "process 1" }] })),
            ("POST", method) if method.starts_with("notifications/") => Reply::raw(202, Vec::new()),
            ("POST", _) => Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } })),
            _ => Reply::raw(405, Vec::new()),
        }
    });
    let mut scene = scene(&["ada", "bob", "cleo"]);
    let secret = scene.home.write("secret", "pl4nted");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let url = format!("{}/mcp", far.origin());
    scene.surface = format!("[surface.pool]\nscope = \"shared\"\nurl = \"{url}\"\nbearer = {{ file = {secret:?} }}\n");
    scene.write();
    wait_until(PATIENT, "all have it", || scene.beings.iter().all(|being| scene.health(being)["tools"] == 1));
    assert_eq!(scene.beings.iter().map(|being| scene.process(being)).collect::<Vec<_>>(), [1; 3]);
    let said = |method: &str| far.seen().iter().filter(|seen| seen.body["method"] == method).count();
    assert_eq!((said("initialize"), said("tools/call")), (1, 3));
}
