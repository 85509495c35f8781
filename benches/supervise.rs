//! B3 `supervise`: what it costs to keep many children, and what is left of them when the daemon is killed.
//!
//! `cargo bench --bench supervise`; `-- --quick` keeps few and kills seldom, `-- --alone` leaves supervisord out, which has to be installed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table and talks on stderr")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock, starts processes and waits for them")]

mod support;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{Outcome, Peer, asked, median, noise, ratio};

const BINARY: &str = env!("CARGO_BIN_EXE_singularity");
/// Beings that share the surfaces among them.
const BEINGS: usize = 10;
/// The gate: a listing takes at most so much of the peer's time.
const GATE: f64 = 1.0 / 200.0;
const DEADLINE: Duration = Duration::from_secs(300);
/// All are gone so soon after the daemon was killed.
const SOON: f64 = 0.1;

/// An MCP server of a megabyte: it answers what a client asks before it has a call to make.
const SERVER: &str = r#"
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*) said='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) said='"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}' ;;
    *'"notifications/'*) continue ;;
    *) said='"error":{"code":-32601,"message":"method not found"}' ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$said"
done
"#;

fn main() -> Outcome<()> {
    let (surfaces, rounds, kills) = if asked("--quick") { (20, 2, 3) } else { (1_000, 9, 200) };
    // The path of a unix socket is short, and `target` may lie deep.
    let place = tempfile::Builder::new().prefix("sg-bench-").tempdir_in("/tmp")?;
    list(place.path(), surfaces, rounds)?;
    left_over(&place.path().join("killed"), kills)
}

/// Times a listing of so many running children, beside the peer's and beside a process that does nothing.
fn list(place: &Path, surfaces: usize, rounds: usize) -> Outcome<()> {
    let daemon = Daemon::start(&place.join("many"), surfaces)?;
    let took = daemon.until_up(surfaces)?;
    println!("{surfaces} surfaces of {BEINGS} beings were up after {took:.2} s");
    let mut peer = peer(place, surfaces);
    let (mut floor, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let bare = seconds(|| Ok(Command::new("/bin/true").status().map(drop)?))?;
        let mut rows = 0;
        let listed = seconds(|| {
            rows = daemon.said(&["get"])?.lines().filter(|line| line.starts_with("surface/")).count();
            Ok(())
        })?;
        if rows != surfaces {
            return Err(format!("{rows} of {surfaces} surfaces were listed").into());
        }
        let asked =
            peer.as_mut().map(|peer| Ok::<_, Box<dyn std::error::Error>>(peer.ask("status")?.parse::<f64>()?)).transpose()?;
        if round > 0 || rounds < 3 {
            floor.push(bare);
            ours.push(listed);
            theirs.extend(asked);
        }
    }
    let quiet = noise(&floor);
    println!("{:<34}{:>10.2} ms", "a process that does nothing", median(&floor) * 1e3);
    println!("{:<34}{:>10.2} ms", "singularity get", median(&ours) * 1e3);
    if !theirs.is_empty() {
        let (ratio, low, high) = ratio(&ours, &theirs);
        let verdict = match (&quiet, high <= GATE) {
            (Some(_), _) => "",
            (None, true) => "met",
            (None, false) => "MISSED",
        };
        println!("{:<34}{:>10.2} ms", "supervisorctl status", median(&theirs) * 1e3);
        println!("get over supervisorctl: 1/{:.0} (1/{:.0} to 1/{:.0}; gate 1/200) {verdict}", 1.0 / ratio, 1.0 / high, 1.0 / low);
    }
    if let Some(why) = quiet {
        println!("noisy, so that nothing is gated: {why}");
    }
    if let Some(mut peer) = peer {
        peer.ask("end")?;
    }
    Ok(())
}

/// Kills a daemon again and again, and counts who is still there.
fn left_over(place: &Path, kills: usize) -> Outcome<()> {
    let (mut gone, mut left) = (Vec::new(), 0);
    for _ in 0..kills {
        let mut daemon = Daemon::start(place, BEINGS)?;
        daemon.until_up(BEINGS)?;
        let begun = Instant::now();
        daemon.kill()?;
        while begun.elapsed() < Duration::from_secs(5) && !inside(place).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        gone.push(begun.elapsed().as_secs_f64());
        left += inside(place).len();
    }
    let worst = gone.iter().copied().fold(0.0, f64::max);
    let verdict = if left == 0 { "met" } else { "MISSED" };
    println!("left-over processes after {kills} SIGKILLs of the daemon: {left} (gate 0) {verdict}");
    println!(
        "the last was gone after {:.0} ms at the median, {:.0} at most (aim {:.0})",
        median(&gone) * 1e3,
        worst * 1e3,
        SOON * 1e3
    );
    if left == 0 { Ok(()) } else { Err("processes were left over".into()) }
}

fn seconds(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The processes that run in a folder or below it.
fn inside(place: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path().join("cwd"));
    all.filter(|cwd| fs::read_link(cwd).is_ok_and(|cwd| cwd.starts_with(place))).collect()
}

/// A daemon with beings whose model never answers, so that all that it does is to keep their surfaces.
struct Daemon {
    child: Child,
    home: PathBuf,
}

impl Daemon {
    /// Starts one in a folder, with so many surfaces.
    fn start(place: &Path, surfaces: usize) -> Outcome<Self> {
        fs::create_dir_all(place)?;
        let mut fleet = "[model.none]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"x\"\n".to_owned();
        for n in 0..surfaces {
            write!(fleet, "[surface.s{}-{n}]\ncommand = [\"sh\", \"-c\", '''{SERVER}''']\n", n % BEINGS)?;
        }
        for being in 0..BEINGS {
            write!(fleet, "[being.b{being}]\nmodel = \"none\"\nlas = {{ only = [\"s{being}-*\"] }}\n")?;
        }
        let (manifest, home) = (place.join("fleet.toml"), place.join("home"));
        fs::write(&manifest, fleet)?;
        let log = fs::File::create(place.join("log"))?;
        let mut command = Command::new(BINARY);
        command.arg("serve").arg(&manifest).env("SINGULARITY_HOME", &home).env("RUST_LOG", "warn");
        let child = command.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        Ok(Self { child, home })
    }

    fn said(&self, args: &[&str]) -> Outcome<String> {
        let output = Command::new(BINARY).args(args).env("SINGULARITY_HOME", &self.home).output()?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Waits until so many surfaces can be called; yields how long it took, in seconds.
    fn until_up(&self, surfaces: usize) -> Outcome<f64> {
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE {
            let known = serde_json::from_str::<Value>(&self.said(&["get", "-o", "json"])?).unwrap_or_default();
            if count_up(&known) == surfaces {
                return Ok(begun.elapsed().as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("not all surfaces came up; the log is beside {}", self.home.display()).into())
    }

    fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// How many surfaces of all beings are up, wherever the answer has them.
fn count_up(known: &Value) -> usize {
    match known {
        Value::Object(object) => {
            let here = object.get("surfaces").and_then(Value::as_object).into_iter().flat_map(|surfaces| surfaces.values());
            here.filter(|surface| surface.get("up") == Some(&Value::Bool(true))).count()
                + object.values().map(count_up).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_up).sum(),
        _ => 0,
    }
}

const SUPERVISORD: &str = "
import ctypes, os, signal, subprocess, sys, time
place, count, tools = sys.argv[1], int(sys.argv[2]), os.path.dirname(sys.executable)
conf = os.path.join(place, 'supervisord.conf')
with open(conf, 'w') as file:
    file.write(f'[supervisord]\\nlogfile=/dev/null\\nlogfile_maxbytes=0\\npidfile={place}/s.pid\\nminfds=8192\\n')
    file.write(f'[unix_http_server]\\nfile={place}/s.sock\\n[supervisorctl]\\nserverurl=unix://{place}/s.sock\\n')
    file.write('[rpcinterface:supervisor]\\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\\n')
    for n in range(count):
        file.write(f'[program:s{n}]\\ncommand=sleep 100000\\nstartsecs=0\\nstdout_logfile=NONE\\nstderr_logfile=NONE\\n')
with_us = lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM)
quiet = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
daemon = subprocess.Popen([tools + '/supervisord', '-n', '-c', conf], preexec_fn=with_us, **quiet)
def status():
    return subprocess.run([tools + '/supervisorctl', '-c', conf, 'status'], capture_output=True, text=True).stdout.count('RUNNING')
until = time.time() + 120
while status() != count and time.time() < until:
    time.sleep(0.1)
print('ready', flush=True)
for line in sys.stdin:
    if line.strip() == 'end':
        daemon.terminate()
        print(daemon.wait(), flush=True)
        break
    start = time.perf_counter()
    seen = status()
    print(time.perf_counter() - start if seen == count else f'{seen} of {count}', flush=True)
";

/// supervisord with as many children, which sleep; named where it cannot be had.
fn peer(place: &Path, children: usize) -> Option<Peer> {
    if asked("--alone") {
        return None;
    }
    let arguments = [place.to_string_lossy().into_owned(), children.to_string()];
    let started =
        Peer::start("supervisor", &["supervisor==4.3.0", "setuptools<81"], SUPERVISORD, &arguments.each_ref().map(String::as_str));
    started.map_err(|error| eprintln!("supervisord is left out: {error}")).ok()
}
