//! B1 `durability`: events made durable by 1 to 1,000 beings that share a commit log, beside the bare disk and other runtimes' stores.
//!
//! `cargo bench --bench durability`; `-- --quick` does two short rounds, `-- --alone` leaves out the peers that have to be installed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table and talks on stderr")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and writes files of its own")]
#![expect(clippy::as_conversions, reason = "counts become rates")]

mod support;

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use singularity::{
    being::{AgentState, Event},
    store::{Boot, CommitLog, Home, Life},
    vocab::Timestamp,
};
use support::{Outcome, Peer, asked, birth, median, noise, ratio};
use tokio::task::JoinSet;

/// A journal line of this size is what an event costs the disk.
const LINE: usize = 256;
const BEINGS: [usize; 4] = [1, 10, 100, 1_000];

struct Plan {
    rounds: usize,
    dropped: usize,
    time: Duration,
}

fn main() -> Outcome<()> {
    let plan = if asked("--quick") {
        Plan { rounds: 2, dropped: 0, time: Duration::from_millis(200) }
    } else {
        Plan { rounds: 9, dropped: 1, time: Duration::from_secs(1) }
    };
    let place = support::target().join("bench");
    std::fs::create_dir_all(&place)?;
    let place = tempfile::tempdir_in(place)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let home = Home::open(&place.path().join("home"))?;
    let log = Arc::new(CommitLog::open(&home)?.0);
    let mut fleet = born(&home, &log)?;
    let mut peers = peers(place.path());
    let mut growing: Vec<f64> = Vec::new();
    let mut zeroed: Vec<f64> = Vec::new();
    let mut ours: Vec<Vec<f64>> = vec![Vec::new(); BEINGS.len()];
    let mut theirs: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
    for round in 0..plan.rounds {
        let a = append_and_sync(&place.path().join("growing"), plan.time)?;
        let b = overwrite_and_sync(&place.path().join("zeroed"), plan.time)?;
        let mut rates = Vec::new();
        for beings in BEINGS {
            let (lived, rate) = runtime.block_on(persist(fleet, beings, plan.time))?;
            fleet = lived;
            rates.push(rate);
        }
        let asked: Vec<f64> = peers
            .iter_mut()
            .map(|(_, peer)| Ok(peer.ask(&plan.time.as_secs_f64().to_string())?.parse()?))
            .collect::<Outcome<_>>()?;
        if round < plan.dropped {
            continue;
        }
        growing.push(a);
        zeroed.push(b);
        ours.iter_mut().zip(rates).for_each(|(ours, rate)| ours.push(rate));
        theirs.iter_mut().zip(asked).for_each(|(theirs, rate)| theirs.push(rate));
    }
    let quiet = noise(&growing);
    println!(
        "rounds {}, {} ms each, {LINE} bytes an event; ratio: of medians, with its 95% interval",
        growing.len(),
        plan.time.as_millis()
    );
    println!("{:<34}{:>10.0} /s", "append + fdatasync, growing file", median(&growing));
    println!("{:<34}{:>10.0} /s", "write + fdatasync, zeroed file", median(&zeroed));
    for ((beings, ours), gate) in BEINGS.iter().zip(&ours).zip([0.95, 5.0, 25.0, 50.0]) {
        tell(&format!("{beings} beings, over the growing file"), ours, &growing, gate, quiet.is_none());
    }
    let one = ours.first().map(Vec::as_slice).unwrap_or_default();
    for (((name, _), theirs), gate) in peers.iter().zip(&theirs).zip([0.95, 12.0, 25.0]) {
        println!("{:<34}{:>10.0} /s", name, median(theirs));
        tell(&format!("1 being, over {name}"), one, theirs, gate, quiet.is_none());
    }
    if let Some(why) = quiet {
        println!("noisy, so that nothing is gated: {why}");
    }
    Ok(())
}

/// Prints a ratio; a target is met when the worse end of its interval meets it.
fn tell(what: &str, ours: &[f64], theirs: &[f64], gate: f64, is_quiet: bool) {
    let (ratio, low, high) = ratio(ours, theirs);
    let verdict = match (is_quiet, low >= gate) {
        (false, _) => "",
        (true, true) => "met",
        (true, false) => "MISSED",
    };
    println!("{what:<34}{:>10.0} /s{ratio:>8.2} × ({low:.2} to {high:.2}; gate {gate}) {verdict}", median(ours));
}

fn append_and_sync(path: &Path, time: Duration) -> Outcome<f64> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let line = [b'x'; LINE];
    per_second(time, || {
        file.write_all(&line)?;
        Ok(file.sync_data()?)
    })
}

fn overwrite_and_sync(path: &Path, time: Duration) -> Outcome<f64> {
    const SIZE: u64 = 8 << 20;
    if !path.exists() {
        std::fs::write(path, vec![0; usize::try_from(SIZE)?])?;
        File::open(path)?.sync_all()?;
    }
    let file = OpenOptions::new().write(true).open(path)?;
    let (line, mut at) = ([b'x'; LINE], 0);
    per_second(time, || {
        file.write_all_at(&line, at)?;
        at = (at + LINE as u64) % SIZE;
        Ok(file.sync_data()?)
    })
}

fn per_second(time: Duration, mut work: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let (start, mut done) = (Instant::now(), 0_u32);
    while start.elapsed() < time {
        work()?;
        done += 1;
    }
    Ok(f64::from(done) / start.elapsed().as_secs_f64())
}

type Lived = (Life, AgentState);

fn born(home: &Home, log: &CommitLog) -> Outcome<Vec<Lived>> {
    let most = BEINGS.into_iter().max().unwrap_or_default();
    let born = (0..most).map(|n| {
        let dir = home.being_dir(&format!("b-{n}").parse()?);
        let (life, state, _) =
            Life::open(&dir, Boot::Fresh { birth: Box::new(birth()) })?.sharing(log).begin(Timestamp::UNIX_EPOCH)?;
        Ok((life, state))
    });
    born.collect()
}

/// So many of the fleet persist one event after the other; the events of all per second.
async fn persist(mut fleet: Vec<Lived>, beings: usize, time: Duration) -> Outcome<(Vec<Lived>, f64)> {
    let rest = fleet.split_off(beings.min(fleet.len()));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (mut life, mut state) in fleet {
        tasks.spawn(async move {
            let event = [Event::Warning { message: "x".repeat(LINE - 95) }];
            let mut done = 0_u64;
            while start.elapsed() < time {
                for record in life.append(&event, 1, Timestamp::UNIX_EPOCH).await? {
                    state.apply(&record);
                    done += 1;
                }
            }
            Ok::<_, singularity::store::StoreError>((life, state, done))
        });
    }
    let (mut fleet, mut done) = (Vec::new(), 0);
    for lived in tasks.join_all().await {
        let (life, state, count) = lived?;
        fleet.push((life, state));
        done += count;
    }
    let rate = done as f64 / start.elapsed().as_secs_f64();
    fleet.extend(rest);
    Ok((fleet, rate))
}

const SQLITE: &str = "
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1] + '/sqlite.db', isolation_level=None)
db.execute('PRAGMA journal_mode=WAL'); db.execute('PRAGMA synchronous=FULL')
db.execute('CREATE TABLE journal (seq INTEGER PRIMARY KEY, line BLOB)')
print('ready', flush=True)
for line in sys.stdin:
    n, row, start = 0, b'x' * 256, time.perf_counter()
    while time.perf_counter() - start < float(line):
        db.execute('INSERT INTO journal (line) VALUES (?)', (row,)); n += 1
    print(n / (time.perf_counter() - start), flush=True)
";

const LANGGRAPH: &str = "
import sqlite3, sys, time, typing
from langgraph.graph import StateGraph, START, END
from langgraph.checkpoint.sqlite import SqliteSaver
class State(typing.TypedDict):
    n: int
    text: str
    until: float
graph = StateGraph(State)
graph.add_node('step', lambda state: {'n': state['n'] + 1, 'text': 'x' * 160})
graph.add_edge(START, 'step')
graph.add_conditional_edges('step', lambda state: END if time.perf_counter() > state['until'] else 'step')
saver = SqliteSaver(sqlite3.connect(sys.argv[1] + '/langgraph.db', check_same_thread=False))
saver.conn.execute('PRAGMA synchronous=FULL')
app = graph.compile(checkpointer=saver)
print('ready', flush=True)
for thread, line in enumerate(sys.stdin):
    start = time.perf_counter()
    end = app.invoke({'n': 0, 'text': '', 'until': start + float(line)}, {'configurable': {'thread_id': str(thread)}, 'recursion_limit': 1000000}, durability='sync')
    print(end['n'] / (time.perf_counter() - start), flush=True)
";

const DBOS: &str = "
import sys, time
from dbos import DBOS
DBOS(config={'name': 'bench', 'system_database_url': 'sqlite:///' + sys.argv[1] + '/dbos.sqlite', 'run_admin_server': False, 'log_level': 'ERROR'})
@DBOS.step()
def step(n):
    return 'x' * 160
@DBOS.workflow()
def work(seconds):
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        step(n); n += 1
    return n / (time.perf_counter() - start)
DBOS.launch()
print('ready', flush=True)
for line in sys.stdin:
    print(work(float(line)), flush=True)
";

/// The peers that can be had, by name; one that cannot is named.
fn peers(place: &Path) -> Vec<(&'static str, Peer)> {
    let place = place.to_string_lossy();
    let mut kinds: Vec<(&'static str, &str, Vec<&str>, &str)> = vec![("SQLite, WAL, FULL", "sqlite", vec![], SQLITE)];
    if !asked("--alone") {
        let langgraph = vec!["langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2"];
        kinds.push(("LangGraph's SqliteSaver", "langgraph", langgraph, LANGGRAPH));
        kinds.push(("DBOS on SQLite", "dbos", vec!["dbos==3.4.0"], DBOS));
    }
    let mut peers = Vec::new();
    for (name, environment, packages, script) in kinds {
        match Peer::start(environment, &packages, script, &[&place]) {
            Ok(peer) => peers.push((name, peer)),
            Err(error) => eprintln!("{name} is left out: {error}"),
        }
    }
    peers
}
