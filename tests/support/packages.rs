//! Packages of other ecosystems that tests meet: installed once into `target/test-packages`, whoever comes first.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    process::Command,
};

/// Installs a package of PyPI and yields the folder of its scripts; `None` (said on stderr) when it cannot be had.
///
/// # Panics
/// When it cannot be had and `CI=true`.
pub(crate) fn pypi(package: &str, version: &str) -> Option<PathBuf> {
    let home = once("pypi", package, version, |home| {
        let wanted = format!("{package}=={version}");
        let venv = home.join("venv");
        if run("python3", &["-m", "venv", text(&venv)]).is_ok() {
            return run(text(&venv.join("bin/python")), &["-m", "pip", "install", "-q", "--no-input", &wanted]);
        }
        let library = home.join("lib");
        run("python3", &["-m", "pip", "install", "-q", "--no-input", "--target", text(&library), &wanted])?;
        wrap(&library, &venv.join("bin"))
    })?;
    Some(home.join("venv/bin"))
}

/// Installs a package of npm and yields its own folder; `None` (said on stderr) when it cannot be had.
///
/// # Panics
/// When it cannot be had and `CI=true`.
pub(crate) fn npm(package: &str, version: &str) -> Option<PathBuf> {
    let home = once("npm", package, version, |home| {
        run("node", &["--version"])?;
        let wanted = format!("{package}@{version}");
        run("npm", &["install", "--silent", "--no-audit", "--no-fund", "--prefix", text(home), &wanted])
    })?;
    Some(home.join("node_modules").join(package))
}

/// Installs under a lock, so that test binaries that run at the same time install once.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn once(kind: &str, package: &str, version: &str, install: impl FnOnce(&Path) -> Result<(), String>) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-packages");
    fs::create_dir_all(&root).expect("target/ is writable");
    // Scripts of packages name the place that they were installed at, which a link to it may outlive or not.
    let root = root.canonicalize().expect("it was just made");
    let name = format!("{kind}-{}-{version}", package.replace(['/', '@'], "_"));
    let (home, done) = (root.join(&name), root.join(&name).join("installed"));
    let lock = open(&root.join(format!("{name}.lock")));
    lock.lock().expect("a lock can be held");
    if done.exists() {
        return Some(home);
    }
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).expect("target/ is writable");
    match install(&home) {
        Ok(()) => {
            open(&done);
            Some(home)
        }
        Err(why) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{package} {version} cannot be installed: {why}");
            eprintln!("skipped: {package} {version} cannot be installed: {why}");
            None
        }
    }
}

/// Puts a script beside each one of a library that was installed without an environment of its own.
fn wrap(library: &Path, scripts: &Path) -> Result<(), String> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    fs::create_dir_all(scripts).map_err(|error| error.to_string())?;
    for script in fs::read_dir(library.join("bin")).map_err(|error| error.to_string())?.flatten() {
        let lines = format!("#!/bin/sh\nPYTHONPATH='{}' exec python3 '{}' \"$@\"\n", text(library), text(&script.path()));
        let place = scripts.join(script.file_name());
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o755).open(place);
        file.and_then(|mut file| file.write_all(lines.as_bytes())).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}: {}", args.join(" "), output.status, said.trim()))
}

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("target/ is writable")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("target/ is UTF-8")
}
