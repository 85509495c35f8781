//! What a program must read to run at all.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// How far an interpreter's interpreter is followed.
const MAX_SCRIPTS: usize = 4;
/// No first line of a script is longer.
const MAX_LINE: u64 = 256;

/// Read and run by every program. `/proc` shows nothing of another process's memory, files or environment: Landlock holds for these too.
pub(super) const SYSTEM: [&str; 30] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/dev/random",
    "/dev/urandom",
];
/// Read and written by every program.
pub(super) const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// What belongs to the program itself: its file, its interpreters, and what is installed beside each of them.
pub(super) fn of_program(program: &OsStr, path: &OsStr) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    let mut next = find(program, path);
    for _ in 0..MAX_SCRIPTS {
        let Some(file) = next else { break };
        let real = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        for place in [&file, &real] {
            roots.extend(beside(place));
            roots.push(place.clone());
        }
        next = interpreter(&real, path);
    }
    roots
}

/// The program's file, as whoever starts it finds it.
fn find(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(program.into());
    }
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The program that a script's first line names, `env` looked through.
fn interpreter(script: &Path, path: &OsStr) -> Option<PathBuf> {
    let mut line = String::new();
    BufReader::new(File::open(script).ok()?.take(MAX_LINE)).read_line(&mut line).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let program = words.next()?;
    if !program.ends_with("/env") {
        return find(OsStr::new(program), path);
    }
    find(OsStr::new(words.find(|word| !word.starts_with('-') && !word.contains('='))?), path)
}

/// What is installed together with a program: of `<prefix>/bin/program` the libraries of the prefix (never the prefix itself, which may
/// be someone's home), and of a Node package all packages around it.
fn beside(file: &Path) -> Vec<PathBuf> {
    let packages = file.ancestors().filter(|above| above.file_name() == Some(OsStr::new("node_modules"))).last();
    let mut roots: Vec<PathBuf> = packages.map(Path::to_owned).into_iter().collect();
    let folder = file.parent().and_then(|folder| Some((folder.file_name()?, folder.parent()?)));
    match folder {
        Some((name, prefix)) if name == "bin" => {
            roots.extend(["bin", "lib", "lib64", "libexec", "pyvenv.cfg"].map(|name| prefix.join(name)));
        }
        Some((name, manager)) if name == "shims" => roots.push(manager.to_owned()),
        _ => {}
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_a_home_does_not_open_the_home() {
        let roots = of_program(OsStr::new("/home/ada/bin/server"), OsStr::new("/usr/bin"));
        assert!(roots.contains(&"/home/ada/lib".into()) && roots.contains(&"/home/ada/bin/server".into()), "{roots:?}");
        assert!(!roots.contains(&"/home/ada".into()), "{roots:?}");
    }

    #[test]
    fn a_script_brings_its_interpreter_and_what_is_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let (bin, script) = (place.path().join("venv/bin"), place.path().join("serve"));
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("/bin/sh", bin.join("python")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test writes files")]
        fs::write(&script, "#!/usr/bin/env -S python -u\n").unwrap();
        let roots = of_program(script.as_os_str(), bin.as_os_str());
        assert!(roots.contains(&place.path().join("venv/lib")) && roots.contains(&bin.join("python")), "{roots:?}");
        assert!(roots.contains(&fs::canonicalize("/bin/sh").unwrap()), "{roots:?}");
    }

    #[test]
    fn a_package_of_node_brings_its_neighbours() {
        let roots = beside(Path::new("/x/node_modules/a/node_modules/b/dist/index.js"));
        assert_eq!(roots, [PathBuf::from("/x/node_modules")]);
        assert_eq!(beside(Path::new("/x/.pyenv/shims/python3")), [PathBuf::from("/x/.pyenv")]);
    }
}
