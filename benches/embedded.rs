//! B10 `start` and `think`: the embedded model against llama.cpp, on the same file and threads, in turns, in one run.
//!
//! `cargo bench --bench embedded` prints a table; `-- --quick` does one short round, `-- --alone` leaves llama.cpp out. llama.cpp comes as `llama-cpp-python` in a virtual
//! environment under `target/bench/`, made here; where that cannot be had it is left out with a note.

#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and runs its peer")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table and talks on stderr")]
#![expect(clippy::as_conversions, reason = "counts become rates")]

mod support;

use std::{num::NonZeroUsize, path::Path, sync::Arc, time::Instant};

use serde_json::json;
use singularity::{
    being::{ChatMessage, ChatRequest, Completion, ToolDefinition},
    model::{
        embedded::{Embedded, Sampling},
        pull,
    },
};
use support::{Outcome, Peer, asked, median};

/// What is measured of either side, in tokens per second.
#[derive(Default)]
struct Rates {
    prompt: Vec<f64>,
    written: Vec<f64>,
}

struct Plan {
    rounds: usize,
    prompt_words: usize,
    written: u32,
}

fn main() -> Outcome<()> {
    let plan = if asked("--quick") {
        Plan { rounds: 1, prompt_words: 200, written: 24 }
    } else {
        Plan { rounds: 5, prompt_words: 700, written: 128 }
    };
    let file = pull::LANGUAGE.pull(&support::target().join("models"), &mut |_| {})?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let start = Instant::now();
    let model = Embedded::load(&file, threads)?;
    let loaded = start.elapsed();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let ask = |request: &ChatRequest, most: u32| {
        let start = Instant::now();
        let sampling = Sampling { max_tokens: most, temperature_milli: 0, seed: 1 };
        let answer = runtime.block_on(model.complete(request, sampling));
        answer.map(|answer| (answer, start.elapsed().as_secs_f64()))
    };
    let mut peer = match if asked("--alone") { Err("as asked".into()) } else { llama(&file, threads) } {
        Ok(peer) => Some(peer),
        Err(error) => {
            eprintln!("llama.cpp is left out: {error}");
            None
        }
    };
    let (mut ours, mut theirs, mut repeated) = (Rates::default(), Rates::default(), Vec::new());
    for round in 0..plan.rounds {
        let request = long(round, plan.prompt_words, &[]);
        let (answer, seconds) = ask(&request, 1)?;
        ours.prompt.push(answer.usage.prompt_tokens as f64 / seconds);
        let (_, again) = ask(&request, 1)?;
        repeated.push(seconds / again);
        let (answer, seconds) = ask(&request, plan.written)?;
        ours.written.push(answer.usage.completion_tokens as f64 / seconds);
        if let Some(peer) = &mut peer {
            let (prompt, written) = measure(peer, answer.usage.prompt_tokens, answer.usage.completion_tokens)?;
            theirs.prompt.push(prompt);
            theirs.written.push(written);
        }
    }
    println!("threads {threads}, rounds {}, median of each; ratio: median of the rounds' ratios", plan.rounds);
    println!("{:<28}{:>12}{:>12}{:>8}", "", "ours", "llama.cpp", "ratio");
    println!("{:<28}{:>9} ms", "start: load to ready", loaded.as_millis());
    line("think: prompt, tokens/s", &ours.prompt, &theirs.prompt);
    line("think: written, tokens/s", &ours.written, &theirs.written);
    println!("{:<28}{:>10.0} ×", "think: prompt again, faster", median(&repeated));
    let call = long(99, 20, &tools());
    let (answer, _) = ask(&call, 1)?;
    let (called, seconds) = ask(&call, plan.written)?;
    tell_call(&answer, &called, seconds);
    Ok(())
}

fn tell_call(first: &Completion, called: &Completion, seconds: f64) {
    let rate = called.usage.completion_tokens as f64 / seconds;
    let kind = if called.tool_calls.is_empty() { "text, tools offered" } else { "a tool call" };
    println!("{:<28}{rate:>12.1}   ({kind}, behind {} tokens)", "think: written with tools", first.usage.prompt_tokens);
}

/// A prompt of so many words that no other round shares.
fn long(round: usize, words: usize, tools: &[ToolDefinition]) -> ChatRequest {
    let names = ["river", "stone", "harbour", "lantern", "meadow", "copper", "winter", "signal", "garden", "engine"];
    let text: Vec<&str> = (0..words).filter_map(|i| names.get((i * 7 + i / 10 + round * 3) % names.len()).copied()).collect();
    let system = format!("Story number {round}. You write very long stories.");
    let user = format!("Write a very long story, of at least ten chapters, in which all of these occur: {}.", text.join(" "));
    ChatRequest {
        model: "embedded".into(),
        messages: vec![ChatMessage::system(system), ChatMessage::user(user)],
        tools: Arc::from(tools.to_vec()),
        prompt_tokens: 0,
    }
}

fn tools() -> Vec<ToolDefinition> {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}, "required": ["path", "content"]});
    vec![ToolDefinition { name: "files__write_file".into(), description: "Writes a story to a file.".into(), parameters }]
}

fn line(what: &str, ours: &[f64], theirs: &[f64]) {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    match theirs.is_empty() {
        true => println!("{what:<28}{:>12.1}{:>12}", median(ours), "-"),
        false => println!("{what:<28}{:>12.1}{:>12.1}{:>8.2}", median(ours), median(theirs), median(&ratios)),
    }
}

/// llama.cpp in a Python process.
const SCRIPT: &str = "
import sys, time
from llama_cpp import Llama
model = Llama(sys.argv[1], n_ctx=4096, n_threads=int(sys.argv[2]), n_threads_batch=int(sys.argv[2]), n_batch=512, verbose=False)
print('ready', flush=True)
for line in sys.stdin:
    prompt, written = map(int, line.split())
    model.reset()
    start = time.perf_counter()
    model.eval([(i * 37) % 40000 + 100 for i in range(prompt)])
    read = time.perf_counter() - start
    start = time.perf_counter()
    for i in range(written):
        model.eval([i * 31 % 40000 + 100])
    print(prompt / read, written / (time.perf_counter() - start), flush=True)
";

fn llama(file: &Path, threads: NonZeroUsize) -> Outcome<Peer> {
    Peer::start("llama", &["llama-cpp-python==0.3.36"], SCRIPT, &[&file.to_string_lossy(), &threads.to_string()])
}

fn measure(llama: &mut Peer, prompt: u64, written: u64) -> Outcome<(f64, f64)> {
    let line = llama.ask(&format!("{prompt} {written}"))?;
    let (prompt, written) = line.split_once(' ').ok_or("an odd answer")?;
    Ok((prompt.parse()?, written.parse()?))
}
