//! B8 `recover`: from a sudden end to the next thought, at every length of a life.
//!
//! `cargo bench --bench recover`; `-- --quick` stops at short lives.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and its own files")]
#![expect(clippy::as_conversions, reason = "counts become rates")]

mod support;

use std::{
    io::Read as _,
    path::Path,
    time::{Duration, Instant},
};

use serde::Deserialize;
use singularity::{
    being::{Cost, Event, Finish, ToolCall, Usage},
    store::{Boot, Life, verify},
    vocab::{Timestamp, Usd},
};
use support::{Outcome, asked, birth, median};

/// Events of one cycle: framing, cost, answer with a call, the call's two ends.
const CYCLE: usize = 5;
const ROUNDS: usize = 9;

fn main() -> Outcome<()> {
    let lengths: &[usize] = if asked("--quick") { &[100, 1_000, 5_000] } else { &[100, 1_000, 10_000, 100_000, 1_000_000] };
    let place = support::target().join("bench");
    std::fs::create_dir_all(&place)?;
    let place = tempfile::tempdir_in(place)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!(
        "{:>10}{:>14}{:>16}{:>14}{:>16}{:>14}{:>10}",
        "events", "resume", "bytes a cycle", "picture", "replay", "floor", "ratio"
    );
    let mut resumed = Vec::new();
    for length in lengths {
        let dir = place.path().join(length.to_string());
        let grown = runtime.block_on(live(&dir, *length))?;
        let resume = resume(&dir)?;
        resumed.push((*length as f64, resume.as_secs_f64()));
        let (replay, floor) = (rate(*length, || whole(&dir))?, rate(*length, || floor(&dir))?);
        let picture = std::fs::metadata(dir.join("state.json"))?.len();
        println!(
            "{length:>10}{:>11.1} ms{:>16.0}{:>11} kB{replay:>14.0}/s{floor:>12.0}/s{:>10.2}",
            resume.as_secs_f64() * 1e3,
            grown.bytes_a_cycle,
            picture >> 10,
            floor / replay
        );
    }
    println!("resume: slope of log time over log length {:.3} (gate 0.05)", slope(&resumed));
    Ok(())
}

struct Grown {
    bytes_a_cycle: f64,
}

/// Lives a life of so many events, with a bounded conversation, and is killed.
async fn live(dir: &Path, events: usize) -> Outcome<Grown> {
    let (mut life, mut state, _) = Life::open(dir, Boot::Fresh { birth: Box::new(birth()) })?.begin(Timestamp::UNIX_EPOCH)?;
    let cycles = events.div_ceil(CYCLE);
    // Many cycles are made durable at once, so that the bench ends; what is on disk is the same.
    for first in (0..cycles).step_by(50) {
        let facts: Vec<Event> = (first..cycles.min(first + 50)).flat_map(cycle).collect();
        for record in life.append(&facts, first as u64, Timestamp::UNIX_EPOCH).await? {
            state.apply(&record);
        }
        let surplus = state.conversation.len().saturating_sub(60);
        let folded = [Event::Folded { messages: surplus as u64, summary: "cycles before these".into() }];
        for record in life.append(&folded, first as u64, Timestamp::UNIX_EPOCH).await? {
            state.apply(&record);
        }
        if life.wants_checkpoint() {
            life.checkpoint(&state, Timestamp::UNIX_EPOCH)?;
        }
    }
    Ok(Grown { bytes_a_cycle: bytes(dir)? as f64 / cycles as f64 })
}

fn cycle(n: usize) -> Vec<Event> {
    let (call_id, tool) = (format!("call-{n}"), "files__write_file".to_owned());
    let call = ToolCall::new(&call_id, &tool, format!(r#"{{"path":"notes.txt","content":"note {n}"}}"#));
    let cost = Cost { api: Usd::ZERO, instance: Usd::ZERO, tokens: 300 };
    vec![
        Event::CycleStarted { framing: format!("Begin autonomous cycle {n}. Balance: 1 USD."), stimulus: None, slot: None },
        cost.into(),
        Event::ModelCompleted {
            model: "smol".into(),
            usage: Usage::new(200, 100),
            content: Some("I keep a note.".into()),
            tool_calls: vec![call],
            finish: Finish::ToolCalls,
            elapsed_ms: 40,
        },
        Event::ToolStarted { call_id: call_id.clone(), tool: tool.clone(), arguments: "{}".into() },
        Event::ToolFinished {
            call_id,
            tool,
            status: singularity::being::Status::Success,
            error_code: None,
            result: r#"{"status":"success","content":"written"}"#.into(),
            change: None,
            chat_id: None,
            message_id: None,
            screened: None,
        },
    ]
}

/// From the state directory to a being that may think.
fn resume(dir: &Path) -> Outcome<Duration> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let opening = Life::open(dir, Boot::Resume { declared: Box::default() })?;
        let (_life, state, _) = opening.begin(Timestamp::UNIX_EPOCH)?;
        assert!(!state.conversation.is_empty(), "the state is there");
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(Duration::from_secs_f64(median(&times)))
}

/// Every record of a life, checked and applied.
fn whole(dir: &Path) -> Outcome<()> {
    let verified = verify(dir)?.ok_or("there is no life")?;
    assert!(!verified.state.conversation.is_empty(), "the state is there");
    Ok(())
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "seq")]
    _seq: u64,
    #[serde(rename = "type", borrow)]
    _kind: &'a str,
}

/// The least that reading a whole life could take: its bytes, unpacked, and a borrowed parse of each line.
fn floor(dir: &Path) -> Outcome<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let mut text = String::new();
        match path.extension().and_then(|end| end.to_str()) {
            Some("gz") => drop(flate2::read::GzDecoder::new(std::fs::File::open(&path)?).read_to_string(&mut text)?),
            Some("jsonl") => text = std::fs::read_to_string(&path)?,
            _ => {}
        }
        for line in text.lines() {
            serde_json::from_str::<Head<'_>>(line)?;
        }
    }
    Ok(())
}

fn rate(events: usize, work: impl Fn() -> Outcome<()>) -> Outcome<f64> {
    let rounds = if events > 50_000 { 3 } else { ROUNDS };
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        rates.push(events as f64 / start.elapsed().as_secs_f64());
    }
    Ok(median(&rates))
}

fn bytes(dir: &Path) -> Outcome<u64> {
    let sizes = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len()));
    sizes.sum()
}

/// The slope of log y over log x, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / logs.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (over, under) = logs
        .iter()
        .fold((0.0, 0.0), |(over, under), point| (over + (point.0 - x) * (point.1 - y), under + (point.0 - x) * (point.0 - x)));
    over / under
}
