//! The `singularity` binary.

use std::{collections::BTreeMap, ffi::OsString, io::Write, process::ExitCode};

use singularity::{process, surface::las};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next().and_then(|mode| mode.into_string().ok());
    match mode.as_deref() {
        Some("supervise") => process::supervise(args),
        Some("las") => serve_las(),
        _ => fail("usage: singularity las"),
    }
}

fn serve_las() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_max_level(tracing::Level::WARN).init();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start the runtime: {error}")),
    };
    let served = runtime.block_on(las::serve(environment()));
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// The variables that are UTF-8, read once.
fn environment() -> BTreeMap<String, String> {
    let utf8 = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(utf8).collect()
}

fn fail(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "singularity: {why}");
    ExitCode::from(2)
}
