use tracing_subscriber::EnvFilter;

/// Who logs, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// A command, for who typed it: warnings.
    Command,
    /// A daemon, for its log: also what it does.
    Daemon,
    /// A child, for the process that started it: record by record, as JSON.
    Child,
}

/// Libraries that log what servers say, word by word: a server may say back the bearer that it was sent. What matters of it is logged
/// here, without secrets.
const MUTE: [&str; 1] = ["rmcp=off"];

/// Begins to log on stderr: what `filter` lets through, and without one, what fits who it is.
pub fn start(filter: Option<&str>, voice: Voice) {
    let default = if voice == Voice::Command { "warn" } else { "warn,singularity=info" };
    let filter = EnvFilter::try_new(filter.unwrap_or(default)).unwrap_or_else(|_| EnvFilter::new(default));
    let filter = MUTE.iter().filter_map(|target| target.parse().ok()).fold(filter, EnvFilter::add_directive);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).with_target(false);
    drop(if voice == Voice::Child { log.json().try_init() } else { log.try_init() });
}
