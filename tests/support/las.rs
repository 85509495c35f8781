//! A Las with its surfaces in a being's folder, and the processes of it.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test binary uses its own part of the support")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail, and looks at what runs")]

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use singularity::{
    manifest::{Boundary, LimitsSpec, Scope, SurfaceSpec, ToolTerms, TransportSpec},
    process::Backoff,
    surface::{
        CallError, Remote,
        las::{Las, LasStart, SurfaceHealth},
    },
    vocab::{Name, Span},
};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_singularity");
pub const DEADLINE: Duration = Duration::from_secs(60);
pub const GRACE: Duration = Duration::from_secs(5);

pub fn command(words: &[&str]) -> SurfaceSpec {
    surface(TransportSpec::Command(words.iter().map(|word| (*word).to_owned()).collect()))
}

pub fn surface(transport: TransportSpec) -> SurfaceSpec {
    SurfaceSpec {
        transport,
        scope: Scope::Being,
        env: BTreeMap::new(),
        timeout: Span::from_secs(60),
        trusted_revenue: false,
        boundary: Boundary::Reject,
        terms: ToolTerms::default(),
        sandbox: None,
        limits: LimitsSpec::default(),
    }
}

/// A being's folder and what it selected.
pub struct Setting {
    pub workspace: TempDir,
    pub start: LasStart,
}

pub fn setting<const N: usize>(surfaces: [(&str, SurfaceSpec); N]) -> Setting {
    let workspace = tempfile::tempdir().unwrap();
    let start = LasStart {
        program: BINARY.into(),
        surfaces: surfaces.into_iter().map(|(name, spec)| (name.parse().unwrap(), spec)).collect(),
        required: Vec::new(),
        workspace: workspace.path().canonicalize().unwrap(),
        tokens: workspace.path().canonicalize().unwrap().join(".oauth"),
        external: None,
        env: std::env::vars().collect(),
        patience: DEADLINE,
        pace: Backoff::new(Duration::from_millis(10), Duration::from_millis(50), Duration::from_secs(60)),
        shared: None,
    };
    Setting { workspace, start }
}

impl Setting {
    pub async fn las(&self) -> Las {
        Las::start(self.start.clone()).await.unwrap()
    }

    /// The processes that run in the being's folder, with their command lines.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let here = self.workspace.path().canonicalize().unwrap();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mine = all.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == here));
        mine.filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?.replace('\0', " ");
            Some((id, line))
        })
        .collect()
    }

    /// The processes whose command line fits.
    pub fn fitting(&self, fits: impl Fn(&str) -> bool) -> Vec<i32> {
        self.processes().into_iter().filter(|(_, line)| fits(line)).map(|(id, _)| id).collect()
    }
}

pub fn kill(id: i32) {
    let _ = kill_process(Pid::from_raw(id).unwrap(), Signal::KILL);
}

pub async fn call(las: &Las, tool: &str, arguments: Value) -> Result<Value, CallError> {
    las.call(tool, arguments.as_object().cloned().unwrap()).await
}

pub fn text(result: &Value) -> &str {
    result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default()
}

pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn health(las: &Las, surface: &str) -> SurfaceHealth {
    las.health().remove(&surface.parse::<Name>().unwrap()).unwrap_or_default()
}

pub fn is_up(las: &Las, surface: &str) -> bool {
    health(las, surface).up
}

pub fn restarts(las: &Las, surface: &str) -> u32 {
    health(las, surface).restarts
}
