use tracing_subscriber::EnvFilter;

/// Begins to log on stderr: what `filter` lets through, and without one, warnings, or for a `daemon` also what it does.
pub fn start(filter: Option<&str>, daemon: bool) {
    let default = if daemon { "warn,singularity=info" } else { "warn" };
    let filter = EnvFilter::try_new(filter.unwrap_or(default)).unwrap_or_else(|_| EnvFilter::new(default));
    drop(
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .with_target(false)
            .try_init(),
    );
}
