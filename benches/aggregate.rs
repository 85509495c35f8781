//! B4 `aggregate`: what Las adds to a tool call, beside the same client without it, and beside FastMCP's proxy.
//!
//! `cargo bench --bench aggregate`; `-- --quick` makes few calls, `-- --alone` leaves out the peer, which has to be installed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table and talks on stderr")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and starts processes")]

mod support;

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::{Map, Value, json};
use singularity::{
    manifest::{Boundary, ExternalLas, LimitsSpec, Scope, SurfaceSpec, ToolTerms, TransportSpec},
    process::Backoff,
    surface::{
        Remote as _,
        las::{Las, LasStart},
    },
    tool::boundary::{Layout, screen},
    vocab::Span,
};
use support::{Outcome, Peer, asked, median, noise, ratio};

const BINARY: &str = env!("CARGO_BIN_EXE_singularity");
/// Makes this program the server of the bench.
const ECHO: &str = "--echo";
const SIZES: [usize; 3] = [400, 4 << 10, 64 << 10];
const IN_FLIGHT: usize = 32;
const GRACE: Duration = Duration::from_secs(5);
/// What Las may add to a call of 400 bytes, at the median.
const GATE_ADDED: f64 = 90e-6;
/// What of the peer's addition that may be.
const GATE_PEER: f64 = 1.0 / 70.0;

fn main() -> Outcome<()> {
    if asked(ECHO) {
        return echo();
    }
    let (rounds, calls) = if asked("--quick") { (3, 100) } else { (12, 1_000) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(compare(rounds, calls))
}

/// An MCP server whose tool says back what it is told. It does no more than that, so that what stands around it is measured.
fn echo() -> Outcome<()> {
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let Some(id) = asked.get("id") else { continue };
        let result = match asked.get("method").and_then(Value::as_str).unwrap_or_default() {
            "initialize" => {
                let info = json!({ "name": "echo", "version": "1" });
                Some(json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info }))
            }
            "tools/list" => Some(json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })),
            "tools/call" => {
                asked.pointer("/params/arguments/text").map(|text| json!({ "content": [{ "type": "text", "text": text }] }))
            }
            _ => None,
        };
        let said = match result {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32_601, "message": "no such method" } }),
        };
        writeln!(stdout, "{said}")?;
        stdout.flush()?;
    }
    Ok(())
}

async fn compare(rounds: usize, calls: usize) -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let direct = Las::start(start(place.path(), 0)?).await?;
    let (one, twenty) = (Las::start(start(place.path(), 1)?).await?, Las::start(start(place.path(), 20)?).await?);
    let layout = Layout::of([place.path()]);
    println!(
        "{rounds} rounds of {calls} calls, the first dropped; medians of a call, in µs; each result passes the output boundary"
    );
    println!("{:<26}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "pipe", "direct", "Las 1", "Las 20", "added");
    for size in SIZES {
        let (mut floor, mut bare, mut ours, mut many, mut late) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let told = [
                pipe(size, calls)?,
                called(&direct, "echo", size, calls, &layout).await?,
                called(&one, "s0__echo", size, calls, &layout).await?,
                called(&twenty, "s7__echo", size, calls, &layout).await?,
            ];
            if round > 0 {
                let [pipe, direct, one, twenty] = told.each_ref().map(|times| median(times));
                floor.push(pipe);
                bare.push(direct);
                ours.push(one);
                many.push(twenty);
                late.push(percentile(told.get(2).map_or(&[], Vec::as_slice), 99) / one);
            }
        }
        let [pipe, direct, one, twenty] = [&floor, &bare, &ours, &many].map(|times| median(times) * 1e6);
        println!(
            "{:<26}{pipe:>9.1}{direct:>9.1}{one:>9.1}{twenty:>9.1}{:>9.1}  p99 {:.1} × p50",
            format!("{size} bytes"),
            one - direct,
            median(&late)
        );
        if size == SIZES[0] {
            let added: Vec<f64> = ours.iter().zip(&bare).map(|(ours, bare)| ours - bare).collect();
            tell_added(&added, &floor);
            if !asked("--alone") {
                peer(&added, rounds, calls, size)?;
            }
        }
    }
    for (what, las, tool) in [("direct", &direct, "echo"), ("Las", &one, "s0__echo")] {
        println!("{IN_FLIGHT} in flight, {what}: {:.0} calls a second", throughput(las, tool, 10 * calls).await?);
    }
    println!("Las of 20 servers takes {:.1} MB", resident(place.path())?);
    for las in [direct, one, twenty] {
        las.stop(GRACE).await;
    }
    Ok(())
}

/// A Las of so many servers; of none, the server stands in for it, which is the same client without a Las.
fn start(workspace: &Path, servers: usize) -> Outcome<LasStart> {
    let program = std::env::current_exe()?;
    let command = vec![program.to_string_lossy().into_owned(), ECHO.to_owned()];
    let surface = SurfaceSpec {
        transport: TransportSpec::Command(command.clone()),
        scope: Scope::Being,
        env: BTreeMap::new(),
        timeout: Span::from_secs(60),
        trusted_revenue: false,
        boundary: Boundary::Reject,
        terms: ToolTerms::default(),
        sandbox: None,
        limits: LimitsSpec::default(),
    };
    let surfaces = (0..servers).map(|n| Ok((format!("s{n}").parse()?, surface.clone()))).collect::<Outcome<_>>()?;
    Ok(LasStart {
        program: BINARY.into(),
        surfaces,
        required: Vec::new(),
        workspace: workspace.to_owned(),
        tokens: workspace.to_owned(),
        external: (servers == 0).then_some(ExternalLas { command, only: None, skip: None }),
        env: std::env::vars().collect(),
        patience: LasStart::PATIENCE,
        pace: Backoff::default(),
        shared: None,
    })
}

/// The times of calls, one after the other, each with the output boundary.
async fn called(las: &Las, tool: &str, size: usize, calls: usize, layout: &Layout) -> Outcome<Vec<f64>> {
    // What is not text beside the result's text takes some of the 64 KiB.
    let text = "x".repeat(size.min((64 << 10) - 256));
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let arguments = Map::from_iter([("text".to_owned(), Value::from(text.clone()))]);
        let began = Instant::now();
        let result = las.call(tool, arguments).await?;
        let shown = screen(result, layout, Boundary::Reject)?;
        times.push(began.elapsed().as_secs_f64());
        if shown.value.pointer("/content/0/text").and_then(Value::as_str).map(str::len) != Some(text.len()) {
            return Err(format!("{tool} said something else").into());
        }
    }
    Ok(times)
}

async fn throughput(las: &Las, tool: &str, calls: usize) -> Outcome<f64> {
    let began = Instant::now();
    let each = calls.div_ceil(IN_FLIGHT);
    let lanes = (0..IN_FLIGHT).map(|_| async move {
        for _ in 0..each {
            las.call(tool, Map::from_iter([("text".to_owned(), Value::from("x".repeat(SIZES[0])))])).await?;
        }
        Ok::<_, singularity::surface::CallError>(())
    });
    join_all(lanes).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(f64::from(u32::try_from(each * IN_FLIGHT)?) / began.elapsed().as_secs_f64())
}

/// The floor: as many bytes through `cat` and back, written and parsed once each way.
fn pipe(size: usize, calls: usize) -> Outcome<Vec<f64>> {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut to, from) = (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
    let (mut from, message) = (BufReader::new(from), json!({ "id": 1, "text": "x".repeat(size) }));
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        // A pipe holds 64 KiB: what is longer goes and comes in pieces.
        let mut back = vec![0; line.len()];
        for (piece, room) in line.chunks(32 << 10).zip(back.chunks_mut(32 << 10)) {
            to.write_all(piece)?;
            from.read_exact(room)?;
        }
        let _: Value = serde_json::from_slice(&back)?;
        times.push(began.elapsed().as_secs_f64());
    }
    drop(to);
    child.wait()?;
    Ok(times)
}

fn percentile(values: &[f64], share: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * share / 100).copied().unwrap_or(f64::NAN)
}

fn tell_added(added: &[f64], floor: &[f64]) {
    let (worst, middle) = (percentile(added, 95), median(added));
    let verdict = match noise(floor) {
        Some(why) => format!("noisy, so not gated: {why}"),
        None if worst <= GATE_ADDED => "met".to_owned(),
        None => "MISSED".to_owned(),
    };
    println!(
        "Las adds {:.1} µs, {:.1} × a pipe's echo; gate {:.0} µs {verdict}",
        middle * 1e6,
        middle / median(floor),
        GATE_ADDED * 1e6
    );
}

/// What FastMCP's proxy adds to the same call of the same server, by its own client.
fn peer(ours: &[f64], rounds: usize, calls: usize, size: usize) -> Outcome<()> {
    let program = std::env::current_exe()?;
    let arguments = [program.to_string_lossy().into_owned(), calls.to_string(), size.to_string()];
    let started = Peer::start("fastmcp-4.2", &["fastmcp==4.2.3"], FASTMCP, &arguments.each_ref().map(String::as_str));
    let mut peer = match started {
        Ok(peer) => peer,
        Err(why) if std::env::var_os("CI").is_none() => {
            eprintln!("FastMCP is left out: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let mut theirs = Vec::new();
    for _ in 1..rounds {
        theirs.push(peer.ask("go")?.parse::<f64>()?);
    }
    let (ratio, low, high) = ratio(ours, &theirs);
    let verdict = if high <= GATE_PEER { "met" } else { "MISSED" };
    let told = format!("FastMCP's proxy adds {:.0} µs", median(&theirs) * 1e6);
    println!("{told}; ours is 1/{:.0} of it (1/{:.0} to 1/{:.0}); gate 1/70 {verdict}", 1.0 / ratio, 1.0 / low, 1.0 / high);
    Ok(())
}

const FASTMCP: &str = r#"
import asyncio, statistics, sys, time
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
program, calls, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PROXY = '''
import sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
create_proxy(StdioTransport(sys.argv[1], ["--echo"])).run(show_banner=False)
'''
async def median(client):
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        await client.call_tool("echo", {"text": "x" * size})
        times.append(time.perf_counter() - began)
    return statistics.median(times)
async def main():
    # The server speaks the protocol with `initialize`, and the proxy speaks to it as it is spoken to.
    direct = Client(StdioTransport(program, ["--echo"]), mode="legacy")
    proxied = Client(StdioTransport(sys.executable, ["-c", PROXY, program]), mode="legacy")
    async with direct, proxied:
        await median(direct), await median(proxied)
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(await median(proxied) - await median(direct), flush=True)
asyncio.run(main())
"#;

/// The resident memory, in megabytes, of the Las that has the most children of those that run in the folder.
fn resident(place: &Path) -> Outcome<f64> {
    let status = |id: &PathBuf| std::fs::read_to_string(id.join("status")).unwrap_or_default();
    let field = |text: &str, name: &str| -> Option<u32> {
        text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    let here = place.canonicalize()?;
    let all: Vec<PathBuf> = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path()).collect();
    let of_las = |id: &&PathBuf| {
        let line = std::fs::read_to_string(id.join("cmdline")).unwrap_or_default();
        line.ends_with("\0las\0") && !line.contains("supervise") && std::fs::read_link(id.join("cwd")).is_ok_and(|cwd| cwd == here)
    };
    let sizes = all.iter().filter(of_las).filter_map(|id| field(&status(id), "VmRSS:"));
    Ok(f64::from(sizes.max().ok_or("no Las runs")?) / 1024.0)
}
