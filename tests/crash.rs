//! One life under the real daemon that dies two hundred times, or whose disk is full, with a real MCP server that counts its calls:
//! what the journal says happened is what happened.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test starts processes, waits for random moments to kill them, and may fail"
)]

#[cfg(test)]
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use singularity::vocab::Usd;
use support::{
    Home, SOON,
    openai::{Reply, Seen, Server},
    proc, wait_until,
};

/// An MCP server with one tool, which notes the number of each call in a file before it answers.
const TILL: &str = r#"
import json, os, sys
def answer(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
calls = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        answer(id, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "till", "version": "1"}})
    elif method == "tools/list":
        answer(id, {"tools": [{"name": "pay", "description": "Pays.", "inputSchema": schema}]})
    elif method == "tools/call":
        os.write(calls, b"%d\n" % asked["params"]["arguments"]["n"])
        answer(id, {"content": [{"type": "text", "text": "paid"}], "isError": False})
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}), flush=True)
"#;

/// Two calls with numbers that never come again, then an end of the cycle.
fn script(seen: &Seen, text: &str) -> Reply {
    if seen.index % 3 == 2 {
        return Reply::say(text);
    }
    let ids = [2 * seen.index, 2 * seen.index + 1].map(|n| (format!("call-{n}"), json!({ "n": n })));
    let calls: Vec<_> = ids.iter().map(|(id, arguments)| (id.as_str(), "till__pay", arguments.clone())).collect();
    Reply::calls(&calls)
}

/// A home with a being that pays all the time.
fn payer(server: &Server) -> Home {
    let home = Home::new();
    let (script, calls) = (home.write("till.py", TILL), home.around().join("calls"));
    home.write(
        "fleet/payer.toml",
        &format!(
            "{}\nmax_tokens = 256\ncontext_tokens = 4096\n\n\
             [surface.till]\ncommand = [\"python3\", \"{}\", \"{}\"]\n\n\
             [being.payer]\nmodel = \"scripted\"\nlas = {{ only = [\"till\"], required = [\"till\"] }}\ncycle = {{ every = \"1ms\" }}\n\
             budget = {{ starting = \"1000\" }}\n",
            server.model(),
            script.display(),
            calls.display()
        ),
    );
    home
}

/// Every number that the server was called with, as often as it was.
fn counted(home: &Home) -> Vec<u64> {
    let text = fs::read_to_string(home.around().join("calls")).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Stops the daemon in order, and holds what the journal says against what the server counted and what was paid.
fn settle(home: &Home) -> BTreeMap<String, usize> {
    home.run(&["down"]).ok();
    assert_eq!(proc::mentioning(home.around()), [], "nothing runs on");
    let verified = home.run(&["state", "verify", "payer", "-o", "json"]).ok().json();
    let said = home.run(&["logs", "payer", "--tail", "100000000", "-o", "jsonl"]).ok();
    let journal: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let seqs: Vec<u64> = journal.iter().filter_map(|record| record["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..).take(journal.len()).collect::<Vec<u64>>(), "no record is lost, none is there twice");
    let of = |kind: &'static str| journal.iter().filter(move |record| record["type"] == kind);

    let (mut begun, mut ended) = (BTreeMap::new(), BTreeMap::new());
    for record in of("tool_started") {
        let arguments: Value = serde_json::from_str(record["arguments"].as_str().expect("arguments")).expect("JSON");
        let again = begun.insert(record["call_id"].to_string(), arguments["n"].as_u64().expect("a number"));
        assert_eq!(again, None, "a call was begun twice: {record}");
    }
    for record in of("tool_finished") {
        let again = ended.insert(record["call_id"].to_string(), record["status"].as_str().expect("a status"));
        assert_eq!(again, None, "a call ended twice: {record}");
    }
    let unbegun = of("tool_finished").filter(|record| !begun.contains_key(&record["call_id"].to_string()));
    assert!(begun.keys().all(|id| ended.contains_key(id)), "each call that was begun has an end");
    assert!(unbegun.clone().all(|record| record["error_code"] == "not_started"), "{:?}", unbegun.collect::<Vec<_>>());

    let made = counted(home);
    let once: BTreeSet<u64> = made.iter().copied().collect();
    assert_eq!(made.len(), once.len(), "a call was made twice");
    let with = |status: &str| -> BTreeSet<u64> { begun.iter().filter(|(id, _)| ended[*id] == status).map(|(_, n)| *n).collect() };
    let (done, unknown) = (with("success"), with("indeterminate"));
    assert!(done.is_subset(&once), "not made, and told as done: {:?}", done.difference(&once));
    let known: BTreeSet<u64> = done.union(&unknown).copied().collect();
    assert!(once.is_subset(&known), "made, and neither done nor indeterminate: {:?}", once.difference(&known));

    let paid: Usd = of("cost_debited").map(|record| record["amount"].as_str().expect("USD").parse::<Usd>().expect("USD")).sum();
    let state = home.state("payer");
    let remaining: Usd = state["budget"]["remaining"].as_str().expect("USD").parse().expect("USD");
    assert_eq!(remaining + paid, "1000".parse().expect("USD"), "each debit counts once");
    assert_eq!(verified["balance_usd"], state["budget"]["remaining"]);
    // The kernel cuts a write short where SIGKILL finds it between two pages: then the debit, which comes first, is all that is kept.
    for pair in journal.windows(2) {
        let kinds = [&pair[0], &pair[1]].map(|record| record["type"].as_str().unwrap_or_default());
        assert!(kinds[1] != "model_completed" || kinds[0] == "cost_debited", "an answer is kept and not paid: {pair:?}");
        let is_answered = matches!(kinds[1], "model_completed" | "started");
        assert!(kinds[0] != "cost_debited" || is_answered, "paid without an answer, and nobody died: {pair:?}");
    }
    assert_eq!(of("started").filter(|record| !record["birth"].is_null()).count(), 1, "one birth");
    let mut statuses = BTreeMap::new();
    ended.values().for_each(|status| *statuses.entry((*status).to_owned()).or_default() += 1);
    statuses
}

const DEATHS: usize = 200;
/// Names the seed of a run that is to be had again, as far as moments can be.
const SEED: &str = "SINGULARITY_TEST_SEED";

#[test]
fn a_life_that_dies_two_hundred_times_does_and_pays_everything_once() {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("{SEED}={seed}");
    let mut luck = StdRng::seed_from_u64(seed);
    let thoughts = Arc::new(AtomicUsize::new(0));
    let thought = Arc::clone(&thoughts);
    let server = Server::start(move |seen| {
        thought.store(seen.index + 1, Ordering::Relaxed);
        script(seen, "done")
    });
    let lives_on = |more: usize, what: &str| {
        let wanted = thoughts.load(Ordering::Relaxed) + more;
        wait_until(SOON, what, || thoughts.load(Ordering::Relaxed) >= wanted);
    };
    let home = payer(&server);
    let began = Instant::now();
    for death in 1..=DEATHS {
        let daemon = home.spawn(&["serve", "fleet"]);
        // One death in five may come before the being lives; the others after a few of its thoughts.
        if luck.random_ratio(4, 5) {
            lives_on(luck.random_range(1..4), &format!("life {death} goes on"));
            sleep(Duration::from_micros(luck.random_range(0..20_000)));
        } else {
            sleep(Duration::from_micros(luck.random_range(0..300_000)));
        }
        drop(daemon);
    }
    let _daemon = home.spawn(&["serve", "fleet"]);
    lives_on(6, "the last life goes on");
    let statuses = settle(&home);
    let (done, unknown) = (statuses.get("success").copied().unwrap_or(0), statuses.get("indeterminate").copied().unwrap_or(0));
    eprintln!("{DEATHS} deaths in {:?}: {statuses:?}, {} made", began.elapsed(), counted(&home).len());
    assert!(done > DEATHS && unknown > 0, "deaths in the midst of work: {statuses:?}");
}

/// Runs in a namespace of its own, where it may mount a small disk.
#[test]
#[ignore = "is run by the test below, in a namespace of its own"]
fn on_a_small_disk() {
    let server = Server::start(|seen| script(seen, &"long ".repeat(20_000)));
    let home = payer(&server);
    fs::DirBuilder::new().mode(0o700).create(home.path()).expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m,mode=700", "none"]).arg(home.path()).status();
    if !mounted.expect("mount is there").success() {
        return eprintln!("no small disk");
    }
    let ballast = home.path().join("ballast");
    fs::write(&ballast, vec![1; 6 << 20]).expect("it fits");
    let _daemon = home.spawn(&["serve", "fleet"]);
    let is_full = || home.run(&["describe", "being/payer"]).stdout.contains("disk is full");
    wait_until(SOON, "the disk is full", is_full);
    let before = counted(&home).len();
    fs::remove_file(ballast).expect("room");
    wait_until(SOON * 2, "the life goes on when there is room", || counted(&home).len() > before + 4);
    eprintln!("full after {before} calls: {:?}", settle(&home));
}

#[test]
fn a_life_whose_disk_is_full_goes_on_when_there_is_room_and_loses_nothing() {
    let program = std::env::current_exe().expect("this test");
    let output = unshared(&program, &["on_a_small_disk", "--exact", "--ignored", "--nocapture"]);
    let told = output.unwrap_or_else(|| "no small disk".to_owned());
    if told.contains("no small disk") {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "this machine lets us mount no small disk");
        return eprintln!("skipped: this machine lets us mount no small disk");
    }
    assert!(told.contains("full after ") && told.contains("1 passed"), "{told}");
}

/// Runs a program as the root of a namespace of its own; what it said, or `None` where the machine does not let us.
fn unshared(program: &Path, args: &[&str]) -> Option<String> {
    let may = Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success());
    let output = may.then(|| Command::new("unshare").arg("-Urm").arg(program).args(args).output().expect("unshare is there"))?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}
