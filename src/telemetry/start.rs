use tracing_subscriber::{EnvFilter, Layer as _, filter::filter_fn, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

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

/// A library that logs what servers say, word by word: a server may say back the bearer that it was sent. What matters of it is logged
/// here, without secrets, so it has no voice, whatever a filter says.
const MUTE: &str = "rmcp";

/// Begins to log on stderr: what `filter` lets through, and without one, what fits who it is.
pub fn start(filter: Option<&str>, voice: Voice) {
    let default = if voice == Voice::Command { "warn" } else { "warn,singularity=info" };
    let filter = EnvFilter::try_new(filter.unwrap_or(default)).unwrap_or_else(|_| EnvFilter::new(default));
    let log = fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    let log = if voice == Voice::Child { log.json().boxed() } else { log.boxed() };
    let has_voice = filter_fn(|record| record.target().split("::").next() != Some(MUTE));
    drop(tracing_subscriber::registry().with(filter).with(log.with_filter(has_voice)).try_init());
}
