//! What the benches share: medians with their uncertainty, and peers that answer a line per line.

#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and the machine, and runs its peers")]
#![expect(clippy::print_stderr, reason = "a bench talks on stderr")]
#![allow(dead_code, clippy::allow_attributes, reason = "no bench uses all of it")]

use std::{
    error::Error,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use singularity::{
    being::{Birth, Identity, Mind},
    vocab::Usd,
};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Tells whether a word stands on the command line.
pub(crate) fn asked(word: &str) -> bool {
    std::env::args().any(|argument| argument == word)
}

/// The folder of the build.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target")
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How far the middle half of the values spreads, as a share of their median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = |n: usize| sorted.get(sorted.len() * n / 4).copied().unwrap_or(f64::NAN);
    (quarter(3) - quarter(1)) / median(values)
}

/// The ratio of two medians of interleaved rounds, and the 95% interval of it under resampled rounds.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> (f64, f64, f64) {
    const SAMPLES: usize = 2_000;
    let rounds = ours.len().min(theirs.len());
    let mut luck = 0x9E37_79B9_7F4A_7C15_u64;
    let mut ratios: Vec<f64> = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let mut picked = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
        for _ in 0..rounds {
            luck ^= luck << 13;
            luck ^= luck >> 7;
            luck ^= luck << 17;
            let round = usize::try_from(luck % u64::try_from(rounds).unwrap_or(1)).unwrap_or(0);
            picked.0.extend(ours.get(round));
            picked.1.extend(theirs.get(round));
        }
        ratios.push(median(&picked.0) / median(&picked.1));
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: usize| ratios.get(SAMPLES * share / 1_000).copied().unwrap_or(f64::NAN);
    (median(ours) / median(theirs), at(25), at(975))
}

/// Whether the machine is quiet enough for a ratio to gate something: the reason, if not.
pub(crate) fn noise(floor: &[f64]) -> Option<String> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    let spread = spread(floor);
    if spread > 0.25 {
        return Some(format!("the floor's middle half spreads over {:.0}%", spread * 100.0));
    }
    (load > 2.5).then(|| format!("the load was {load}"))
}

/// A peer in a Python process that answers one line per line.
pub(crate) struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `script` under the Python of an environment with `packages`; it says `ready` when it is.
    pub(crate) fn start(environment: &str, packages: &[&str], script: &str, arguments: &[&str]) -> Outcome<Self> {
        let python = install(&target().join("bench").join(environment), packages)?;
        let mut command = Command::new(python);
        command.args(["-c", script]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (to, from) = (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
        let mut peer = Self { child, to, from: BufReader::new(from) };
        match peer.line()?.as_str() {
            "ready" => Ok(peer),
            other => Err(format!("it said `{other}`").into()),
        }
    }

    /// Asks for one measurement.
    pub(crate) fn ask(&mut self, line: &str) -> Outcome<String> {
        writeln!(self.to, "{line}")?;
        self.line()
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err("it ended; are its packages whole?".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a virtual environment with packages, pinned by their versions, where it is not there yet.
fn install(environment: &Path, packages: &[&str]) -> Outcome<PathBuf> {
    let python = environment.join("bin/python");
    let run =
        |command: &mut Command| -> Outcome<bool> { Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success()) };
    let complete = environment.join(".complete");
    if complete.exists() {
        return Ok(python);
    }
    eprintln!("installing {} into {}; this can take some minutes", packages.join(", "), environment.display());
    if !run(Command::new("python3").args(["-m", "venv"]).arg(environment))? {
        return Err("no virtual environment could be made".into());
    }
    if !packages.is_empty() && !run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))? {
        return Err(format!("pip could not install {}", packages.join(", ")).into());
    }
    std::fs::write(&complete, "")?;
    Ok(python)
}

/// A being as it is born.
pub(crate) fn birth() -> Birth {
    let text = |text: &str| text.to_owned();
    let hex = "0".repeat(64);
    let identity = Identity {
        agent_id: text("b"),
        name: text("b"),
        ticker: text("B"),
        agent_type: text("being"),
        specialty: text("benches"),
        role: text("worker"),
        environment: text("bench"),
        host: text("here"),
        workload_id: text("w"),
        workload_public_key: hex.clone(),
        executable_digest: hex.clone(),
        code_digest: hex.clone(),
        policy_digest: hex,
        policy_sequence: 1,
    };
    Birth { identity, mind: Mind::new(text("Be."), text("smol")), starting: Usd::parse("1").unwrap_or(Usd::ZERO) }
}
