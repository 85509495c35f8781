use std::{
    ffi::OsStr,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

/// The package that bodies import.
pub(super) const MODULES: [(&str, &str); 3] = [
    ("decisions", include_str!("python/decisions.py")),
    ("engine", include_str!("python/engine.py")),
    ("skills", include_str!("python/skills.py")),
];
/// What runs a body.
pub(super) const HOST: &str = include_str!("python/host.py");
/// What judges one.
pub(super) const GATE: &str = include_str!("python/gate.py");

/// Isolated, without site packages and bytecode files, in UTF-8, and nothing of what is printed kept back.
const FLAGS: [&str; 7] = ["-I", "-S", "-B", "-u", "-X", "utf8", "-c"];

/// The interpreter that runs bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    program: PathBuf,
}

impl Python {
    /// The first `python3` on the path that is a program: a script that chooses one would have to start it.
    pub fn find(path: &OsStr) -> Option<Self> {
        let program = std::env::split_paths(path).map(|folder| folder.join("python3")).find(|file| is_program(file))?;
        Some(Self { program })
    }

    pub(super) fn command(&self) -> Vec<String> {
        let program = self.program.display().to_string();
        std::iter::once(program).chain(FLAGS.map(str::to_owned)).chain([HOST.to_owned()]).collect()
    }
}

fn is_program(file: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_chooses_an_interpreter_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let (shims, bin) = (place.path().join("shims"), place.path().join("bin"));
        for folder in [&shims, &bin] {
            std::fs::create_dir(folder).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "a test writes files")]
        std::fs::write(shims.join("python3"), "#!/bin/sh\nexec python3.12\n").unwrap();
        let path = std::env::join_paths([&shims, &bin]).unwrap();
        assert_eq!(Python::find(&path), None);
        std::os::unix::fs::symlink("/bin/sh", bin.join("python3")).unwrap();
        assert_eq!(Python::find(&path), Some(Python { program: bin.join("python3") }));
    }
}
