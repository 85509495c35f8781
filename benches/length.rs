//! How what a being does costs as its life grows longer: time, bytes, picture and memory of a cycle at its start and at its end.
//!
//! `cargo bench --bench length`; `-- --quick` lives a short life. The life is the real one, its model and tool answer at once, and it is kept in
//! memory where the machine has a file system for that, so that the disk's moods are not measured.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and the machine")]
#![expect(clippy::as_conversions, reason = "counts become rates")]

mod support;

use std::{path::Path, time::Instant};

use singularity::{
    being::{
        Approval, Being, Completion, Counter, Effect, Finish, Input, Limits, Outcome as ToolOutcome, Price, Ready, Retry, Rules,
        Thought, ToolCall, Usage,
    },
    store::{Boot, Life},
    vocab::{Span, Timestamp, Usd},
};
use support::{Outcome, asked, birth, median};

fn main() -> Outcome<()> {
    let cycles: u64 = if asked("--quick") { 2_000 } else { 100_000 };
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let tenths = runtime.block_on(live(&place.path().join("life"), cycles))?;
    println!(
        "{cycles} cycles of two model rounds and one call; each line is a tenth of the life, each number the median of its parts"
    );
    println!("{:>10}{:>16}{:>16}{:>14}{:>14}", "to cycle", "time a cycle", "bytes a cycle", "picture", "memory");
    for tenth in &tenths {
        println!(
            "{:>10}{:>13.0} µs{:>16.0}{:>11.1} kB{:>11} kB",
            tenth.to,
            tenth.seconds * 1e6,
            tenth.bytes,
            tenth.picture / 1024.0,
            tenth.memory
        );
    }
    // The first tenth fills the window for the first time; from then on every tenth is like the others.
    if let (Some(start), Some(end)) = (tenths.get(1), tenths.last()) {
        let told = |what: &str, ratio: f64| println!("{what}, end ÷ start: {ratio:.3} (gate 1.05)");
        told("time", end.seconds / start.seconds);
        told("bytes", end.bytes / start.bytes);
        told("picture", end.picture / start.picture);
        told("memory", end.memory as f64 / start.memory as f64);
    }
    Ok(())
}

struct Tenth {
    to: u64,
    seconds: f64,
    bytes: f64,
    picture: f64,
    memory: u64,
}

async fn live(dir: &Path, cycles: u64) -> Outcome<Vec<Tenth>> {
    let opening = Life::open(dir, Boot::Fresh { birth: Box::new(birth()) })?;
    let (mut life, state, _) = opening.begin(Timestamp::UNIX_EPOCH)?;
    let (mut being, rules) = (Being::new(state), rules());
    let part = (cycles / 100).max(1);
    let (mut tenths, mut seconds, mut bytes, mut pictures) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for to in (part..=cycles).step_by(usize::try_from(part)?) {
        let (before, start) = (written()?, Instant::now());
        while being.state().cycle < to {
            cycle(&mut being, &mut life, &rules).await?;
        }
        seconds.push(start.elapsed().as_secs_f64() / part as f64);
        bytes.push((written()? - before) as f64 / part as f64);
        pictures.push(std::fs::metadata(dir.join("state.json"))?.len() as f64);
        if seconds.len() == 10 {
            let tenth =
                Tenth { to, seconds: median(&seconds), bytes: median(&bytes), picture: median(&pictures), memory: memory()? };
            tenths.push(tenth);
            (seconds, bytes, pictures) = (Vec::new(), Vec::new(), Vec::new());
        }
    }
    Ok(tenths)
}

/// One cycle, with what a driver does: facts durable before what follows, a picture at the end.
async fn cycle(being: &mut Being, life: &mut Life, rules: &Rules) -> Outcome<()> {
    let mut input = Input::Wake;
    let mut rounds = 0;
    loop {
        let Ready { facts, then } = being.step(rules, input, Timestamp::UNIX_EPOCH);
        life.append(&facts, being.state().cycle, Timestamp::UNIX_EPOCH).await?;
        input = match then.ok_or("the being asks for nothing")? {
            Effect::Think { .. } => {
                rounds += 1;
                Input::Thought { result: Ok(thought(being.state().cycle, rounds)), elapsed: Span::ZERO }
            }
            Effect::Call(_) => Input::Called(ToolOutcome::success(serde_json::json!({ "written": true }))),
            Effect::Rest(_) => break,
            Effect::Ask(question) => return Err(format!("it asks: {question:?}").into()),
            Effect::End(ending) => return Err(format!("it ended: {ending:?}").into()),
        };
    }
    Ok(life.checkpoint(being.state(), Timestamp::UNIX_EPOCH)?)
}

fn thought(cycle: u64, round: u32) -> Thought {
    let call = || {
        ToolCall::new(format!("call-{cycle}"), "files__write_file", format!(r#"{{"path":"notes.txt","content":"note {cycle}"}}"#))
    };
    let completion = Completion {
        model: "smol".into(),
        content: Some(format!("Thought {round} of cycle {cycle}: I keep a note of what I saw.")),
        tool_calls: (round == 1).then(call).into_iter().collect(),
        finish: Finish::Stop,
        usage: Usage::new(1_000, 50),
    };
    Thought { completion, price: Price::default(), passed_over: Vec::new() }
}

fn rules() -> Rules {
    Rules {
        max_tool_rounds: 8,
        instance_usd_per_hour: Usd::ZERO,
        stimulus: None,
        tools: Vec::new().into(),
        context_tokens: 8_192,
        counter: Counter::estimate(),
        max_tokens: 512,
        retry: Retry::default(),
        approval: Approval::default(),
        limits: Limits::default(),
        children: None,
        offers: Vec::new().into(),
    }
}

/// Resident kilobytes of this process.
fn memory() -> Outcome<u64> {
    of_this_process("status", "VmRSS:")
}

/// Bytes that this process wrote, to whatever.
fn written() -> Outcome<u64> {
    of_this_process("io", "wchar:")
}

/// A number that Linux tells of this process.
fn of_this_process(file: &str, name: &str) -> Outcome<u64> {
    let told = std::fs::read_to_string(Path::new("/proc/self").join(file))?;
    let line = told.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name} in {file}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
