//! What would be left behind, leaked or lost when children are not owned: the real binary, real processes.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail, and starts processes")]

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use singularity::process::{Child, Confinement, Spawn, Talk};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

const BINARY: &str = env!("CARGO_BIN_EXE_singularity");
const DEADLINE: Duration = Duration::from_secs(20);
const MARK: &str = "SINGULARITY_TEST_MARK";

/// A mark in the environment by which all processes of one test are known.
fn mark() -> String {
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("{MARK}={}-{nanos}", std::process::id())
}

fn spawn(mark: &str, command: &[&str]) -> Spawn {
    let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let marked = mark.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    Spawn {
        supervisor: BINARY.into(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::from([path, marked]),
        cwd: None,
        confinement: Confinement::default(),
        talk: Talk::Of("test".to_owned()),
        veil: None,
    }
}

/// The processes that carry the mark and are not zombies, by id.
fn alive(mark: &str) -> Vec<i32> {
    let carries = |at: &Path| {
        let environ = fs::read(at.join("environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let marked = processes.filter(|entry| carries(&entry.path()));
    marked.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn first_line(child: &mut Child) -> String {
    let (stdin, stdout) = child.take_pipes().unwrap();
    // The command must not see its stdin end.
    std::mem::forget(stdin);
    let mut line = String::new();
    tokio::time::timeout(DEADLINE, BufReader::new(stdout).read_line(&mut line)).await.unwrap().unwrap();
    line.trim().to_owned()
}

#[tokio::test]
async fn nothing_of_our_own_environment_leaks_into_a_child() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something that could leak");
    let mark = mark();
    let mut child = spawn(&mark, &["/usr/bin/env"]).start().unwrap();
    let (_stdin, mut stdout) = child.take_pipes().unwrap();
    let mut seen = String::new();
    stdout.read_to_string(&mut seen).await.unwrap();
    assert!(child.wait().await.unwrap().success());
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["PATH=/usr/bin:/bin", &mark]);
}

#[tokio::test]
async fn a_command_reads_and_writes_as_if_nobody_stood_between() {
    let mut child = spawn(&mark(), &["cat"]).start().unwrap();
    let (mut stdin, mut stdout) = child.take_pipes().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"hello").await.unwrap();
    drop(stdin);
    let mut said = String::new();
    stdout.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello");
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn grandchildren_in_sessions_of_their_own_end_with_the_child() {
    let mark = mark();
    let script = "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000 & echo ready; cat";
    let mut child = spawn(&mark, &["sh", "-c", script]).start().unwrap();
    assert_eq!(first_line(&mut child).await, "ready");
    wait_until("all are there", || alive(&mark).len() >= 7);
    child.stop(Duration::from_millis(200)).await.unwrap();
    assert_eq!(alive(&mark), [0; 0]);
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it_and_its_status_is_told() {
    let mark = mark();
    let mut child = spawn(&mark, &["sh", "-c", "setsid sleep 1000 & exit 3"]).start().unwrap();
    let status = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(alive(&mark), [0; 0]);
}

#[tokio::test]
async fn a_dropped_handle_leaves_nobody() {
    let mark = mark();
    let mut child = spawn(&mark, &["sh", "-c", "trap '' TERM; setsid sleep 1000 & echo ready; sleep 1000"]).start().unwrap();
    assert_eq!(first_line(&mut child).await, "ready");
    drop(child);
    wait_until("all are gone", || alive(&mark).is_empty());
}

#[tokio::test]
async fn a_command_may_end_in_its_own_way_when_asked() {
    let script = "trap 'exit 7' TERM; echo ready; sleep 1000 & wait";
    let mut child = spawn(&mark(), &["sh", "-c", script]).start().unwrap();
    assert_eq!(first_line(&mut child).await, "ready");
    assert_eq!(child.stop(DEADLINE).await.unwrap().code(), Some(7));
}

#[tokio::test]
async fn a_command_that_will_not_end_is_killed_after_its_grace() {
    let mark = mark();
    let mut child = spawn(&mark, &["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"]).start().unwrap();
    assert_eq!(first_line(&mut child).await, "ready");
    let began = Instant::now();
    child.stop(Duration::from_millis(200)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(alive(&mark), [0; 0]);
}

#[tokio::test]
async fn orphans_do_not_stay_as_zombies() {
    let script = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &) ; done; echo ready; cat";
    let mut child = spawn(&mark(), &["sh", "-c", script]).start().unwrap();
    assert_eq!(first_line(&mut child).await, "ready");
    let supervisor = child.supervisor_id().unwrap();
    let children = || {
        let all = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
        all.split_whitespace().count()
    };
    wait_until("only the command is left", || children() == 1);
}

#[tokio::test]
async fn a_flood_on_stderr_is_read_and_its_end_is_kept() {
    let script =
        "i=0; while [ $i -lt 20000 ]; do echo \"line $i of a flood that nobody asked for\" >&2; i=$((i+1)); done; echo over >&2";
    let mut child = spawn(&mark(), &["sh", "-c", script]).start().unwrap();
    assert!(tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap().success());
    let lines = child.stderr().lines();
    assert!(lines.len() < 50, "{}", lines.len());
    assert_eq!(lines.last().map(String::as_str), Some("over"));
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_told_by_name() {
    let mut child = spawn(&mark(), &["no-such-command", "x"]).start().unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(127));
    let said = child.stderr().lines().join("\n");
    assert!(said.contains("cannot start `no-such-command x`"), "{said}");
}

#[test]
fn a_supervisor_whose_owner_is_already_gone_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("ran");
    let args = ["supervise", "--parent", "1", "--", "touch", trace.to_str().unwrap()];
    let status = Command::new(BINARY).args(args).status().unwrap();
    assert_eq!(status.code(), Some(125));
    assert!(!trace.exists());
}

#[test]
fn an_owner_killed_by_sigkill_leaves_nobody() {
    let mark = mark();
    let (name, value) = mark.split_once('=').unwrap();
    let script = "setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & exec sleep 1000";
    let surface = json!({ "way": { "command": ["sh", "-c", script] }, "env": { name: value }, "timeout": "5s" });
    let joins = json!({ "surfaces": { "stray": surface }, "workspace": "/", "patience": "60s", "tokens": "/" });
    let greeting = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": { "name": "test", "version": "0" },
            "capabilities": { "experimental": { "singularity.las/1": joins } },
        },
    });
    let mut owner = Command::new(BINARY).arg("las").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = owner.stdin.take().unwrap();
    writeln!(stdin, "{greeting}").unwrap();
    wait_until("the surface and what it started are there", || alive(&mark).len() >= 5);
    kill_process(Pid::from_raw(i32::try_from(owner.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
    owner.wait().unwrap();
    wait_until("all are gone", || alive(&mark).is_empty());
}
