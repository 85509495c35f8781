//! The public MCP conformance suite: it is run by its own Node, what it found is read from its files, and that is compared with a list
//! of what is known to fail, which may only shrink.
//!
//! The suite checks with the TypeScript SDK, which comes with it: [`suite`]'s path is where a script of ours can require it from.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::{packages, wait_for};

/// Carries a Node that is new enough for the suite, as an npm package.
const NODE: (&str, &str) = ("node", "22.23.3");
const SUITE: (&str, &str) = ("@modelcontextprotocol/conformance", "0.1.16");

/// What came of each scenario: nothing, or what was found wrong.
pub type Verdicts = BTreeMap<String, Result<(), String>>;

/// A Node of version 22; `None` (said on stderr) when it cannot be had.
pub fn node() -> Option<PathBuf> {
    Some(packages::npm(NODE.0, NODE.1)?.join("bin/node"))
}

/// The entry of the suite; `None` (said on stderr) when it cannot be had.
pub fn suite() -> Option<PathBuf> {
    Some(packages::npm(SUITE.0, SUITE.1)?.join("dist/index.js"))
}

/// Runs the suite with `args`, which choose the half and the scenarios, and reads what it found.
///
/// # Panics
/// When it has not ended by the deadline, or found nothing; with what it said.
#[track_caller]
pub fn run(node: &Path, suite: &Path, args: &[&str], deadline: Duration) -> Verdicts {
    run_with(node, suite, args, &[], deadline)
}

/// The same, with more in the environment of the suite and of what it starts.
#[track_caller]
pub fn run_with(node: &Path, suite: &Path, args: &[&str], variables: &[(&str, &str)], deadline: Duration) -> Verdicts {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (found, talk) = (folder.path().join("found"), folder.path().join("talk"));
    let said = File::create(&talk).expect("a file can be made");
    let mut command = Command::new(node);
    command.envs(variables.iter().copied());
    command.arg(suite).args(args).arg("-o").arg(&found).stdin(Stdio::null());
    command.stdout(said.try_clone().expect("a file has two handles")).stderr(said);
    let mut running = Running(command.spawn().expect("Node starts"));
    wait_for(deadline, "the suite ends", || running.0.try_wait().expect("a child can be waited for"));
    let mut verdicts = Verdicts::new();
    read(&found, &found, &mut verdicts);
    assert!(!verdicts.is_empty(), "the suite found nothing: {}", fs::read_to_string(&talk).unwrap_or_default());
    verdicts
}

/// Ends with the test, whatever becomes of that.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads `checks.json` of every scenario, which is in a folder named after it and the time.
fn read(root: &Path, folder: &Path, verdicts: &mut Verdicts) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(root, &path, verdicts);
        } else if path.ends_with("checks.json") {
            let name = folder.strip_prefix(root).expect("below the root").to_str().expect("UTF-8");
            let checks: Vec<Value> = serde_json::from_slice(&fs::read(&path).expect("readable")).expect("a list of checks");
            verdicts.insert(scenario(name).to_owned(), judge(&checks));
        }
    }
}

/// `server-ping-2026-12-02T17-35-32-123Z` is `ping`.
fn scenario(folder: &str) -> &str {
    let name = folder.strip_prefix("server-").filter(|name| !name.starts_with("initialize-20")).unwrap_or(folder);
    let time = "-2026-12-02T17-35-32-123Z".len();
    name.get(..name.len().saturating_sub(time)).unwrap_or(name)
}

/// A warning is a fault too, and a scenario that checked nothing did not pass.
fn judge(checks: &[Value]) -> Result<(), String> {
    let of = |status: &'static str| checks.iter().filter(move |check| check["status"] == status);
    let faults: Vec<String> =
        of("FAILURE").chain(of("WARNING")).map(|check| format!("{}: {}", check["id"], check["errorMessage"])).collect();
    match (faults.is_empty(), of("SUCCESS").count()) {
        (true, 0) => Err("nothing was checked".to_owned()),
        (true, _) => Ok(()),
        (false, _) => Err(faults.join("; ")),
    }
}

/// Compares with the list of what is known to fail, `[failing]` with a reason for each scenario, in a TOML file beside the tests.
///
/// # Panics
/// With all that is wrong: a failure that is not listed, a listed one that passes or was not run, another number of scenarios.
#[track_caller]
pub fn compare(verdicts: &Verdicts, scenarios: usize, list: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(list);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let listed: toml::Table = text.parse().unwrap_or_else(|error| panic!("{list}: {error}"));
    let listed = listed.get("failing").and_then(toml::Value::as_table).expect("a table `failing`");
    let mut wrong = Vec::new();
    for (name, verdict) in verdicts {
        match (verdict, listed.contains_key(name)) {
            (Err(fault), false) => wrong.push(format!("`{name}` fails: {fault}")),
            (Ok(()), true) => wrong.push(format!("`{name}` passes; take it from the list")),
            _ => {}
        }
    }
    wrong.extend(
        listed.keys().filter(|name| !verdicts.contains_key(*name)).map(|name| format!("`{name}` is listed but was not run")),
    );
    if verdicts.len() != scenarios {
        let names: Vec<&String> = verdicts.keys().collect();
        wrong.push(format!("{} scenarios were run, not {scenarios}: {names:?}", verdicts.len()));
    }
    assert!(wrong.is_empty(), "{list}:\n{}", wrong.join("\n"));
}
