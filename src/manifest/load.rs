//! Reads manifests from disk: the only file of this room that touches anything.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Problem, Variables, problem::Place};
use crate::vocab::Digest;

/// The texts of a fleet, as they were read, and what could not be read.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub(crate) files: Vec<Source>,
    pub(crate) problems: Vec<Problem>,
    total: u64,
    seen: BTreeSet<PathBuf>,
}

/// One file of a fleet.
#[derive(Debug, Clone)]
pub struct Source {
    /// The path as it is shown.
    pub path: PathBuf,
    /// The absolute folder that relative paths in it start from.
    pub folder: PathBuf,
    pub form: Form,
    pub text: Arc<str>,
    pub digest: Digest,
}

/// How a manifest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Toml,
    Json,
}

/// What stands at a path that a fleet is read from, as it looks from outside.
#[derive(Debug)]
pub struct Stand<'a> {
    pub path: &'a Path,
    /// Whether the path leads elsewhere; what is there is told of.
    pub is_link: bool,
    pub what: What<'a>,
}

/// What a path leads to.
#[derive(Debug)]
pub enum What<'a> {
    Folder(&'a fs::Metadata),
    File(&'a fs::Metadata),
    /// Why nothing can be read there.
    Fault(String),
}

/// Goes over all that [`Sources::load`] reads of `paths`, in its order, without reading it.
pub fn walk(paths: &[PathBuf], mut visit: impl FnMut(Stand<'_>)) {
    let mut walk = Walk { visit: &mut visit, folders: BTreeSet::new(), files: 0 };
    paths.iter().for_each(|path| walk.path(path, path.is_symlink(), 0));
}

/// Bytes of one file, and of all files of a fleet.
const MAX_FILE_BYTES: u64 = 32 << 20;
const MAX_TOTAL_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 100_000;
const MAX_DEPTH: usize = 32;

impl Sources {
    /// Reads files and folders (`*.toml` and `*.json`, recursively, sorted, hidden ones left out); `-` is standard input. A file that is reached
    /// twice is read once. What cannot be read is a problem with its path, and the rest is still read.
    pub fn load(paths: &[PathBuf]) -> Self {
        let mut sources = Self::default();
        for path in paths {
            if path.as_os_str() == "-" {
                sources.read_stream(io::stdin().lock());
            } else {
                walk(std::slice::from_ref(path), |stand| sources.take(&stand));
            }
        }
        sources
    }

    /// A single text, as if it were read from `path`.
    pub fn of_text(path: impl Into<PathBuf>, folder: impl Into<PathBuf>, text: &str) -> Self {
        let mut sources = Self::default();
        sources.add(&path.into(), folder.into(), text.as_bytes());
        sources
    }

    /// Adds a text as if it had been read from `path` in `folder`; one that was read from there already is left out.
    pub fn add_text(&mut self, path: &Path, folder: &Path, text: &str) {
        let place = path.file_name().map_or_else(|| folder.to_owned(), |name| folder.join(name));
        let real = fs::canonicalize(&place).unwrap_or(place);
        if self.seen.insert(real) {
            self.add(path, folder.to_owned(), text.as_bytes());
        }
    }

    /// The files that were read.
    pub fn files(&self) -> impl Iterator<Item = &Source> {
        self.files.iter()
    }

    /// What could not be read.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// Tells whether there was nothing to read, and no problem either.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.problems.is_empty()
    }

    /// Digests paths and texts: equal digests mean that nothing changed.
    pub fn digest(&self) -> Digest {
        let lines = self.files.iter().map(|file| format!("{} {}\n", file.digest, file.path.display()));
        let problems = self.problems.iter().map(|problem| problem.line() + "\n");
        Digest::of(lines.chain(problems).collect::<String>())
    }

    fn take(&mut self, stand: &Stand<'_>) {
        match &stand.what {
            What::Folder(_) => {}
            What::File(_) => self.read_file(stand.path),
            What::Fault(fault) => self.problem(stand.path, fault),
        }
    }

    fn read_file(&mut self, path: &Path) {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) => return self.problem(path, &format!("cannot be read: {}", reason(&error))),
        };
        if !self.seen.insert(real.clone()) {
            return;
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(real).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
        if let Err(error) = read {
            return self.problem(path, &format!("cannot be read: {}", reason(&error)));
        }
        let folder = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
        self.add(path, folder, &bytes);
    }

    fn read_stream(&mut self, stream: impl Read) {
        let path = Path::new("<stdin>");
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        let mut bytes = Vec::new();
        if let Err(error) = stream.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes) {
            return self.problem(path, &format!("cannot be read: {}", reason(&error)));
        }
        self.add(path, std::path::absolute(".").unwrap_or_default(), &bytes);
    }

    fn add(&mut self, path: &Path, folder: PathBuf, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.total = self.total.saturating_add(length);
        if length > MAX_FILE_BYTES {
            return self.problem(path, &format!("is larger than {} MiB", MAX_FILE_BYTES >> 20));
        }
        if self.total > MAX_TOTAL_BYTES || self.files.len() >= MAX_FILES {
            return self.problem(
                path,
                &format!("is one too many: a fleet has at most {MAX_FILES} files and {} MiB", MAX_TOTAL_BYTES >> 20),
            );
        }
        match str::from_utf8(bytes) {
            Ok(text) => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                let is_json = path.extension().is_some_and(|extension| extension == "json") || text.trim_start().starts_with('{');
                let form = if is_json { Form::Json } else { Form::Toml };
                self.files.push(Source { path: path.to_owned(), folder, form, text: text.into(), digest: Digest::of(text) });
            }
            Err(error) => {
                let text = String::from_utf8_lossy(bytes);
                let place = Place::of(&text, &(error.valid_up_to()..error.valid_up_to() + 1));
                let message = format!("byte {} is not UTF-8", error.valid_up_to());
                self.problems.push(Problem { place: Some(place), ..Problem::of_file(path, message) });
            }
        }
    }

    fn problem(&mut self, path: &Path, message: &str) {
        self.problems.push(Problem::of_file(path, message));
    }
}

struct Walk<'a> {
    visit: &'a mut dyn FnMut(Stand<'_>),
    /// The folders that were entered: a link may lead back.
    folders: BTreeSet<PathBuf>,
    files: usize,
}

impl Walk<'_> {
    fn path(&mut self, path: &Path, is_link: bool, depth: usize) {
        let what = match fs::metadata(path) {
            Err(error) => What::Fault(format!("cannot be read: {}", reason(&error))),
            Ok(meta) if meta.is_dir() => return self.folder(path, is_link, &meta, depth),
            Ok(meta) if meta.is_file() => {
                self.files += 1;
                return self.tell(path, is_link, What::File(&meta));
            }
            Ok(_) => What::Fault("is neither a file nor a folder".to_owned()),
        };
        self.tell(path, is_link, what);
    }

    fn folder(&mut self, path: &Path, is_link: bool, meta: &fs::Metadata, depth: usize) {
        let listed = fs::canonicalize(path).and_then(|real| match self.folders.insert(real) {
            true => fs::read_dir(path)?.collect::<io::Result<Vec<_>>>(),
            false => Ok(Vec::new()),
        });
        let mut entries = match listed {
            Ok(_) if depth >= MAX_DEPTH => {
                return self.tell(path, is_link, What::Fault(format!("lies more than {MAX_DEPTH} folders deep")));
            }
            Ok(entries) => entries,
            Err(error) => return self.tell(path, is_link, What::Fault(format!("cannot be listed: {}", reason(&error)))),
        };
        self.tell(path, is_link, What::Folder(meta));
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            let path = entry.path();
            let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            let is_manifest = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            // One file past the bound is told of, so that the bound is seen to be passed.
            if !is_hidden && (is_manifest || path.is_dir()) && self.files <= MAX_FILES {
                self.path(&path, is_link, depth + 1);
            }
        }
    }

    fn tell(&mut self, path: &Path, is_link: bool, what: What<'_>) {
        (self.visit)(Stand { path, is_link, what });
    }
}

/// What the system said, without its number.
fn reason(error: &io::Error) -> String {
    let said = error.to_string();
    said.split(" (os error").next().unwrap_or(&said).to_lowercase()
}

impl Variables {
    /// The variables of this process that are settings.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .collect()
    }
}
