//! What would be left running: a being's surfaces crash, fail, are replaced and are killed, and nobody outlives anybody.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail, and starts processes")]

#[path = "support/las.rs"]
mod las;

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use las::{BINARY, GRACE, Setting, call, command, health, is_up, kill, restarts, setting, wait_until};
use serde_json::json;
use singularity::{
    manifest::{SurfaceSpec, VariableSpec},
    process::Backoff,
    surface::las::Las,
};

/// A server that starts two helpers in sessions of their own, and ends when its stdin does; they do not.
const HELPED: &str = "(setsid sleep 1000 &); setsid sh -c 'trap \"\" TERM; sleep 1000; :' & exec python3 -c \"$PROBE\"";

/// What only the server's own command line says.
const SERVER: &str = "does what it is told";

fn helped() -> SurfaceSpec {
    let mut spec = command(&["sh", "-c", HELPED]);
    spec.env.insert("PROBE".to_owned(), VariableSpec::Text(include_str!("support/probe.py").to_owned()));
    spec
}

/// The supervisors of surfaces: those that hold a command other than Las.
fn supervisors(setting: &Setting) -> Vec<i32> {
    setting.fitting(|line| line.contains(" supervise --parent ") && !line.ends_with(" las "))
}

async fn all_are_gone(setting: &Setting) {
    wait_until("all are gone", || setting.processes().is_empty()).await;
}

async fn answers(las: &Las) {
    let answer = call(las, "helped__try", json!({ "what": "pair" })).await.unwrap();
    assert_eq!(las::text(&answer), "x");
}

#[tokio::test]
async fn nobody_is_left_by_a_hundred_ends_of_all_sorts() {
    let mut setting = setting([("helped", helped()), ("failing", command(&["sh", "-c", "setsid sleep 1000 & exit 3"]))]);
    setting.start.pace = Backoff::new(Duration::from_millis(10), Duration::from_secs(2), Duration::from_secs(60));
    let mut ends = 0;
    let mut las = setting.las().await;
    while ends < 100 {
        wait_until("it is up", || is_up(&las, "helped")).await;
        let before = restarts(&las, "helped");
        match ends % 4 {
            // The server crashes.
            0 | 1 => {
                setting.fitting(|line| line.contains(SERVER)).into_iter().for_each(kill);
                wait_until("the loss is told", || restarts(&las, "helped") > before).await;
            }
            // The being's surfaces are replaced.
            2 => {
                las.stop(GRACE).await;
                assert_eq!(setting.processes(), [], "after {ends} ends");
                las = setting.las().await;
            }
            // They are dropped, and cannot be started.
            _ => {
                drop(las);
                all_are_gone(&setting).await;
                setting.start.required = vec!["failing".parse().unwrap()];
                Las::start(setting.start.clone()).await.unwrap_err();
                assert_eq!(setting.processes(), [], "after {ends} ends");
                setting.start.required.clear();
                las = setting.las().await;
            }
        }
        ends += 1;
    }
    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn a_supervisor_that_is_killed_itself_leaves_nobody_to_the_next() {
    let setting = setting([("helped", helped())]);
    let las = setting.las().await;
    for round in 1..=3 {
        let before: Vec<i32> = setting.fitting(|line| line.starts_with("sleep") || line.contains(SERVER));
        assert!(before.len() >= 3, "{before:?}");
        supervisors(&setting).into_iter().for_each(kill);
        wait_until("the surface was lost and is back", || restarts(&las, "helped") == round && is_up(&las, "helped")).await;
        answers(&las).await;
        let after = setting.processes();
        assert!(after.iter().all(|(id, _)| !before.contains(id)), "{before:?} and {after:?}");
    }
    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn the_supervisor_of_las_can_be_killed_too() {
    let setting = setting([("helped", helped())]);
    let las = setting.las().await;
    let before: Vec<i32> = setting.processes().into_iter().map(|(id, _)| id).collect();
    setting.fitting(|line| line.contains(" supervise --parent ") && line.ends_with(" las ")).into_iter().for_each(kill);
    wait_until("Las is back", || las.restarts() == 1 && is_up(&las, "helped")).await;
    answers(&las).await;
    wait_until("the first ones are gone", || setting.processes().iter().all(|(id, _)| !before.contains(id))).await;
    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn a_surface_that_fails_eleven_times_leaves_one_process_at_most_and_comes_back_by_itself() {
    let mut spec = helped();
    spec.transport = command(&["sh", "-c", &format!("setsid sleep 1000 & test -e ready || exit 1; {HELPED}")]).transport;
    let setting = setting([("helped", spec)]);
    let las = setting.las().await;
    let mut was_stalled = false;
    wait_until("it failed eleven times", || {
        let health = health(&las, "helped");
        assert!(!health.up && (health.stalled == (health.restarts >= 8)), "{health:?}");
        was_stalled |= health.stalled;
        health.restarts >= 11
    })
    .await;
    assert!(was_stalled);
    let servers = setting.fitting(|line| !line.contains("supervise") && !line.ends_with("las "));
    assert!(servers.len() <= 2, "at most the attempt of this moment, and what it started: {servers:?}");
    fs::write(setting.start.workspace.join("ready"), "").unwrap();
    wait_until("it is back", || is_up(&las, "helped") && !health(&las, "helped").stalled).await;
    answers(&las).await;
    las.stop(GRACE).await;
    assert_eq!(setting.processes(), []);
}

#[tokio::test]
async fn all_of_the_program_killed_in_one_moment_leaves_no_server() {
    let setting = setting([("helped", helped())]);
    let joins = json!({
        "surfaces": { "helped": { "way": { "command": ["sleep", "1000"] }, "env": {}, "timeout": "5s" } },
        "workspace": setting.start.workspace, "patience": "60s", "tokens": setting.start.tokens,
    });
    let greeting = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": { "name": "test", "version": "0" },
            "capabilities": { "experimental": { "singularity.las/1": joins } },
        },
    });
    let mut las = Command::new(BINARY);
    las.arg("las").current_dir(&setting.start.workspace).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut las = las.spawn().unwrap();
    let mut stdin = las.stdin.take().unwrap();
    writeln!(stdin, "{greeting}").unwrap();
    wait_until("the server is there", || !setting.fitting(|line| line.starts_with("sleep")).is_empty()).await;
    // The supervisor first, so that it sees nothing of it.
    supervisors(&setting).into_iter().for_each(kill);
    kill(i32::try_from(las.id()).unwrap());
    las.wait().unwrap();
    tokio::time::timeout(Duration::from_secs(20), all_are_gone(&setting)).await.unwrap();
}
