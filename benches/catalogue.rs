//! B5 `catalogue`: a being's tools built, asked and rendered, beside the parsing of their schemas; and the output boundary beside the parsing
//! of what it screens.
//!
//! `cargo bench --bench catalogue`; `-- --quick` does two rounds and fewer tools, `-- --alone` leaves out the peer that has to be installed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table and talks on stderr")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and writes files of its own")]

mod support;

use std::{
    collections::BTreeMap,
    hint::black_box,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use futures::future::ready;
use serde_json::{Map, Value, json};
use singularity::{
    being::{Mind, Status, ToolCall},
    manifest::{Boundary, CapabilitySpec},
    secret::Secrets,
    surface::{Call, Remote, RemoteTool},
    tool::{
        Parts, Stamp, Toolbox,
        boundary::{Layout, screen},
    },
    vocab::Timestamp,
};
use support::{Outcome, Peer, asked, median, noise, ratio};

const SERVERS: usize = 20;
/// Of so many tools one has a schema that has to be compiled to be known, in the mixed set.
const DOUBTFUL: usize = 20;
/// Calls in one measurement of the door.
const CALLS: usize = 2_000;

fn main() -> Outcome<()> {
    let (rounds, sizes): (usize, &[usize]) =
        if asked("--quick") { (3, &[10, 100, 2_000]) } else { (10, &[10, 100, 1_000, 2_000, 9_900]) };
    let place = tempfile::tempdir()?;
    println!("{rounds} rounds, the first dropped; ratio: of medians, with its 95% interval");
    println!("{:<44}{:>12}{:>12}{:>8}", "", "ours", "parse", "ratio");
    for size in sizes {
        let (plain, mixed) = (tools(*size, None), tools(*size, Some(DOUBTFUL)));
        build(&format!("build of {size} tools"), &plain, place.path(), rounds, Some(1.5))?;
        build(&format!("build of {size}, 1 in {DOUBTFUL} compiled at once"), &mixed, place.path(), rounds, None)?;
    }
    let all = tools(sizes.last().copied().unwrap_or(10).min(2_000), None);
    render(&all, place.path(), rounds)?;
    door(&all, place.path(), rounds)?;
    for (what, result) in results() {
        boundary(what, &result, rounds)?;
    }
    if !asked("--alone") {
        peer(&all, place.path(), rounds)?;
    }
    Ok(())
}

/// Tools of as many servers as there are, as `tools/list` tells them.
fn tools(count: usize, doubtful: Option<usize>) -> Vec<RemoteTool> {
    (0..count)
        .map(|n| {
            let mut schema = json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "The file to look at, relative to the root of the project." },
                    "query": { "type": "string", "minLength": 1, "maxLength": 1_024, "description": "What to look for; a plain text." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 500, "default": 50, "description": "How many hits to tell." },
                    "order": { "enum": ["newest", "oldest", "relevance"], "default": "relevance" },
                    "labels": { "type": "array", "items": { "type": "string" }, "uniqueItems": true },
                    "since": { "anyOf": [{ "type": "string", "format": "date-time" }, { "type": "null" }], "default": null },
                },
                "required": ["path", "query"],
                "additionalProperties": false,
            });
            if doubtful.is_some_and(|every| n % every == 0)
                && let Some(path) = schema.pointer_mut("/properties/path")
            {
                path["pattern"] = "^[a-z0-9/._-]+$".into();
            }
            let name = format!("server-{}__tool_{n}", n % SERVERS);
            RemoteTool { name, description: format!("Looks through part {n} of a project, and tells what it found."), input_schema: schema }
        })
        .collect()
}

/// Surfaces that list tools and answer each call at once.
struct Listing(Vec<RemoteTool>);

impl Remote for Listing {
    fn tools(&self) -> Vec<RemoteTool> {
        self.0.clone()
    }

    fn call<'a>(&'a self, _: &'a str, _: Map<String, Value>) -> Call<'a> {
        Box::pin(ready(Ok(json!({ "content": [], "structuredContent": { "hits": 3 } }))))
    }
}

fn parts(remote: &Arc<Listing>, workspace: PathBuf) -> Parts {
    let shared: Arc<dyn Remote> = Arc::<Listing>::clone(remote);
    Parts {
        capabilities: CapabilitySpec { memory: true, files: true, children: None },
        remote: Some(shared),
        surfaces: BTreeMap::new(),
        required: Vec::new(),
        workspace,
        state_dirs: Vec::new(),
        models: Arc::new(|_| Box::pin(ready(Ok(true)))),
        most: None,
        secrets: Secrets::new(Arc::new(|_| None)),
        seen: singularity::tool::Sightings::new(),
        tokens: PathBuf::new(),
    }
}

/// From what the surfaces list to a catalogue, beside one parse of all its schemas.
fn build(what: &str, tools: &[RemoteTool], place: &Path, rounds: usize, gate: Option<f64>) -> Outcome<()> {
    let texts: Vec<String> = tools.iter().map(|tool| tool.input_schema.to_string()).collect();
    let remote = Arc::new(Listing(tools.to_vec()));
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(timed(|| {
            let parsed: Result<Vec<Value>, _> = texts.iter().map(|text| serde_json::from_str(text)).collect();
            Ok(black_box(parsed?.len()))
        })?);
        let parts = parts(&remote, place.to_owned());
        ours.push(timed(|| Ok(black_box(Toolbox::new(parts)?.definitions().len())))?);
    }
    tell(what, &ours, &floor, gate);
    Ok(())
}

/// The catalogue as bytes of a request, beside a copy of them.
fn render(tools: &[RemoteTool], place: &Path, rounds: usize) -> Outcome<()> {
    let toolbox = Toolbox::new(parts(&Arc::new(Listing(tools.to_vec())), place.to_owned()))?;
    let bytes = serde_json::to_vec(&toolbox.definitions())?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(timed(|| Ok(black_box(bytes.clone()).len()))?);
        ours.push(timed(|| Ok(black_box(serde_json::to_vec(&toolbox.definitions())?).len()))?);
    }
    tell(&format!("{} tools rendered anew, over a copy", tools.len()), &ours, &floor, None);
    Ok(())
}

/// A call through the whole door: parsed, found, held to its schema, answered, screened. The floor parses its arguments.
fn door(tools: &[RemoteTool], place: &Path, rounds: usize) -> Outcome<()> {
    let toolbox = Toolbox::new(parts(&Arc::new(Listing(tools.to_vec())), place.to_owned()))?;
    let arguments = r#"{"path":"src/tool/boundary.rs","query":"fn screen","limit":20,"order":"newest","labels":["a","b"]}"#;
    let name = tools.get(tools.len() / 2).map(|tool| tool.name.clone()).ok_or("there is a tool")?;
    let (call, mind) = (ToolCall::new("c", name, arguments), Mind::new("Be.".into(), "smol".into()));
    let stamp = Stamp { id: uuid::Uuid::nil(), at: Timestamp::UNIX_EPOCH };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(timed(|| {
            (0..CALLS).try_for_each(|_| serde_json::from_str::<Value>(arguments).map(|value| drop(black_box(value))))?;
            Ok(CALLS)
        })?);
        ours.push(timed(|| {
            runtime.block_on(async {
                for _ in 0..CALLS {
                    let outcome = toolbox.call(&call, &mind, stamp).await;
                    assert_eq!(outcome.status, Status::Success, "a call that is refused costs less");
                }
            });
            Ok(CALLS)
        })?);
    }
    tell(&format!("{CALLS} calls through the door"), &ours, &floor, None);
    Ok(())
}

/// Results of just under 64 KiB: records, prose, prose with far more slashes than any has, and JSON in a text.
fn results() -> [(&'static str, Value); 4] {
    let record = |n: usize| json!({ "id": n, "name": format!("record {n}"), "state": "open", "score": 0.5, "tags": ["a", "b"], "note": null });
    let records: Value = (0..640).map(record).collect();
    let prose: Value = json!({ "text": "A line of a page that a tool has read, and/or of a log, with its end.\n".repeat(850) });
    let slashes: Value =
        json!({ "text": "A line of a page and/or of a log, which says 1/2 of http://a/b and more.\n".repeat(850) });
    let hidden = json!({ "content": [{ "type": "text", "text": (0..500).map(record).collect::<Value>().to_string() }] });
    [("records", records), ("prose", prose), ("prose of slashes", slashes), ("JSON in a text", hidden)]
}

fn boundary(what: &str, result: &Value, rounds: usize) -> Outcome<()> {
    let text = result.to_string();
    // What hides in a text has to be parsed too, by whoever looks at it.
    let inner = result.pointer("/content/0/text").and_then(Value::as_str);
    let layout = Layout::of([Path::new("/srv/home/beings/ada/work")]);
    const TIMES: usize = 20;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(timed(|| {
            for _ in 0..TIMES {
                drop(black_box(serde_json::from_str::<Value>(&text)?));
                if let Some(inner) = inner {
                    drop(black_box(serde_json::from_str::<Value>(inner)?));
                }
            }
            Ok(TIMES)
        })?);
        let copies = vec![result.clone(); TIMES];
        ours.push(timed(|| {
            for value in copies {
                drop(black_box(screen(value, &layout, Boundary::Reject)?));
            }
            Ok(TIMES)
        })?);
    }
    tell(&format!("boundary, {} KiB of {what}", text.len() >> 10), &ours, &floor, Some(1.5));
    Ok(())
}

/// The client of the Python SDK, from the bytes of `tools/list` to its own models.
fn peer(tools: &[RemoteTool], place: &Path, rounds: usize) -> Outcome<()> {
    const SCRIPT: &str = r"
import sys, time
from mcp.types import ListToolsResult
text = open(sys.argv[1]).read()
print('ready', flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    ListToolsResult.model_validate_json(text)
    print(time.perf_counter() - began, flush=True)
";
    let listed: Vec<Value> = tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema }))
        .collect();
    let file = place.join("tools.json");
    std::fs::write(&file, json!({ "tools": listed }).to_string())?;
    let started = Peer::start("mcp-1.28", &["mcp==1.28.0"], SCRIPT, &[file.to_str().ok_or("a plain path")?]);
    let mut peer = match started {
        Ok(peer) => peer,
        Err(why) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: the Python SDK of MCP: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let remote = Arc::new(Listing(tools.to_vec()));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(peer.ask("go")?.parse()?);
        let parts = parts(&remote, place.to_owned());
        ours.push(timed(|| Ok(black_box(Toolbox::new(parts)?.definitions().len())))?);
    }
    tell(&format!("build of {} tools, over the Python SDK's list", tools.len()), &ours, &theirs, None);
    Ok(())
}

fn timed(work: impl FnOnce() -> Outcome<usize>) -> Outcome<f64> {
    let began = Instant::now();
    let done = work()?;
    let seconds = began.elapsed().as_secs_f64();
    if done == 0 { Err("nothing was done".into()) } else { Ok(seconds) }
}

/// Prints a ratio; a target is met when the worse end of its interval meets it, on a machine that is quiet.
fn tell(what: &str, ours: &[f64], floor: &[f64], gate: Option<f64>) {
    let (ours, floor) = (ours.get(1..).unwrap_or_default(), floor.get(1..).unwrap_or_default());
    let (ratio, low, high) = ratio(ours, floor);
    let verdict = match (gate, noise(floor)) {
        (None, _) => String::new(),
        (Some(gate), Some(why)) => format!("gate {gate}; noisy, so not gated: {why}"),
        (Some(gate), None) => format!("gate {gate} {}", if high <= gate { "met" } else { "MISSED" }),
    };
    let (ours, floor) = (median(ours) * 1e6, median(floor) * 1e6);
    println!("{what:<44}{ours:>9.0} µs{floor:>9.0} µs{ratio:>8.2} × ({low:.2} to {high:.2}) {verdict}");
}
