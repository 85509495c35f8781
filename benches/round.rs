//! B2 `round`: what a model round costs beside the model, with the real program, a model server that answers at once and a built-in tool.
//!
//! `cargo bench --bench round`; `-- --quick` lives a short life, `-- --alone` leaves out the peer that has to be installed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table and talks on stderr")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and runs the program")]
#![expect(clippy::as_conversions, reason = "counts become rates")]

mod support;

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use support::{Outcome, Peer, asked, median, noise, ratio};

/// Rounds of a cycle: so many with a call, then one without.
const CALLS: u64 = 8;
const ROUNDS: u64 = CALLS + 1;
/// Bytes that a life writes for one round with its call.
const WRITTEN: usize = 1_200;

fn main() -> Outcome<()> {
    let (rounds, cycles) = if asked("--quick") { (2, 10) } else { (9, 100) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let url = runtime.block_on(serve())?;
    let place = support::target().join("bench");
    std::fs::create_dir_all(&place)?;
    let place = tempfile::tempdir_in(place)?;
    let mut peer = match if asked("--alone") { Err("as asked".into()) } else { pydantic() } {
        Ok(peer) => Some(peer),
        Err(error) => {
            eprintln!("pydantic-ai is left out: {error}");
            None
        }
    };
    let (mut ours, mut floors, mut cpu, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let floor = runtime.block_on(floor(&url, place.path(), cycles * ROUNDS))?;
        let short = live(&url, &place.path().join(format!("{round}-short")), 1)?;
        let long = live(&url, &place.path().join(format!("{round}-long")), cycles + 1)?;
        let rest = (cycles * ROUNDS) as f64;
        floors.push(floor);
        ours.push((long.wall - short.wall) / rest);
        cpu.push((long.cpu - short.cpu) / rest);
        if let Some(peer) = &mut peer {
            theirs.push(peer.ask(&cycles.to_string())?.parse()?);
        }
    }
    println!("{rounds} rounds of {cycles} cycles, {ROUNDS} model rounds a cycle, {CALLS} of them with a call");
    println!("{:<44}{:>10.0} µs", "floor: HTTP exchange, two appends with a sync", median(&floors) * 1e6);
    let (wall, low, high) = ratio(&ours, &floors);
    println!("{:<44}{:>10.0} µs{wall:>8.2} × ({low:.2} to {high:.2}; gate 1.5)", "a round", median(&ours) * 1e6);
    println!("{:<44}{:>10.0} µs   (aim 120)", "processor time of a round", median(&cpu) * 1e6);
    if !theirs.is_empty() {
        let (less, low, high) = ratio(&theirs, &cpu);
        println!(
            "{:<44}{:>10.0} µs{less:>8.1} × ours ({low:.1} to {high:.1}; gate 40)",
            "processor time of pydantic-ai's",
            median(&theirs) * 1e6
        );
    }
    if let Some(why) = noise(&floors) {
        println!("noisy, so that nothing is gated: {why}");
    }
    Ok(())
}

/// A model server that asks for calls and then is done, over and over.
async fn serve() -> Outcome<String> {
    let turns = Arc::new(AtomicU64::new(0));
    let answer = move |Json(_): Json<Value>| {
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        async move { Json(reply(turn)) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/chat/completions", post(answer))).await });
    Ok(url)
}

fn reply(turn: u64) -> Value {
    let message = if turn % ROUNDS < CALLS {
        let function = json!({ "name": "singularity_memory_recall", "arguments": "{\"query\":\"harbour\"}" });
        json!({ "role": "assistant", "tool_calls": [{ "id": format!("call-{turn}"), "type": "function", "function": function }] })
    } else {
        json!({ "role": "assistant", "content": "done" })
    };
    let usage = json!({ "prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920 });
    json!({ "model": "scripted", "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }], "usage": usage })
}

struct Took {
    wall: f64,
    cpu: f64,
}

/// One being lives so many cycles in the real program.
fn live(url: &str, place: &Path, cycles: u64) -> Outcome<Took> {
    std::fs::create_dir_all(place)?;
    let manifest = place.join("being.toml");
    let text = format!(
        "[model.scripted]\nprovider = \"openai\"\nbase_url = \"{url}\"\nmodel = \"scripted\"\n\n\
         [being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"0s\", max_tool_rounds = 20, limit = {cycles} }}\nbudget = {{ starting = \"1\" }}\n"
    );
    std::fs::write(&manifest, text)?;
    let (before, start) = (children_cpu()?, Instant::now());
    let mut command = Command::new(env!("CARGO_BIN_EXE_singularity"));
    command.args(["run", "-f"]).arg(&manifest).arg("--home").arg(place.join("home"));
    let status = command.current_dir(place).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("the program ended with {status}").into());
    }
    Ok(Took { wall: start.elapsed().as_secs_f64(), cpu: children_cpu()? - before })
}

/// Ticks of a second in what Linux tells of processes.
const TICKS: f64 = 100.0;

/// Seconds of processor time that ended children used.
fn children_cpu() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("an odd stat")?;
    let ticks: Vec<f64> = fields.split_whitespace().skip(13).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// Seconds of the least that a round could take: the same HTTP exchange, and two appends that are durable before what follows.
async fn floor(url: &str, place: &Path, rounds: u64) -> Outcome<f64> {
    // A client wants one, though nothing is encrypted here; that there is one already is as good.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut journal = OpenOptions::new().append(true).create(true).open(place.join("floor"))?;
    let request = json!({ "model": "scripted", "messages": [{ "role": "user", "content": "x".repeat(8_000) }] });
    let half = [b'x'; WRITTEN / 2];
    let start = Instant::now();
    for _ in 0..rounds {
        let answer: Value = client.post(format!("{url}/chat/completions")).json(&request).send().await?.json().await?;
        assert!(answer.pointer("/usage/total_tokens") == Some(&json!(920)), "the server answers as it should");
        for _ in 0..2 {
            journal.write_all(&half)?;
            journal.sync_data()?;
        }
    }
    Ok(start.elapsed().as_secs_f64() / rounds as f64)
}

const PYDANTIC: &str = "
import sys, time
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
def model(messages, info):
    if sum(isinstance(message, ModelResponse) for message in messages) < 8:
        return ModelResponse(parts=[ToolCallPart('recall', {'query': 'harbour'})])
    return ModelResponse(parts=[TextPart('done')])
agent = Agent(FunctionModel(model))
@agent.tool_plain
def recall(query: str) -> str:
    return '[]'
agent.run_sync('go')
print('ready', flush=True)
for line in sys.stdin:
    start = time.process_time()
    for _ in range(int(line)):
        agent.run_sync('go')
    print((time.process_time() - start) / int(line) / 9, flush=True)
";

fn pydantic() -> Outcome<Peer> {
    Peer::start("pydantic", &["pydantic-ai-slim==2.68.0"], PYDANTIC, &[])
}
