use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use super::row::{Made, Row};

/// How much a log may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// From where on a file is put aside and another begun, in bytes.
    pub bytes_per_file: u64,
    /// Files that are kept, the current one included.
    pub files: u32,
    /// Decisions that may wait to be written; what comes while so many wait is not logged.
    pub waiting: usize,
}

impl Default for LogBounds {
    fn default() -> Self {
        Self { bytes_per_file: 8 << 20, files: 8, waiting: 1024 }
    }
}

/// The decisions of a home, `decisions.jsonl`: one row each, written by a thread of its own, so that whoever decides never waits for a
/// disk. Where decisions come faster than the disk takes them for long, some are not logged, which is counted and told.
///
/// Rows are not synced: a power cut may take the newest. The last handle that goes waits until what was logged is written.
#[derive(Debug, Clone)]
pub struct DecisionLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: Option<SyncSender<Box<Made>>>,
    lost: Arc<AtomicU64>,
    writer: Option<JoinHandle<()>>,
}

/// The name of the current file.
const CURRENT: &str = "decisions.jsonl";

impl DecisionLog {
    /// Opens the log in a folder. Nothing is written before something is decided.
    pub fn open(folder: &Path, bounds: LogBounds) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(bounds.waiting);
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer { folder: folder.to_owned(), bounds, lost: Arc::clone(&lost), is_failing: false };
        let thread = std::thread::Builder::new().name("decisions".to_owned());
        let writer = thread.spawn(move || writer.run(&waiting))?;
        Ok(Self(Arc::new(Inner { queue: Some(queue), lost, writer: Some(writer) })))
    }

    /// Hands a decision over to be written; never waits.
    pub(super) fn record(&self, made: Made) {
        let is_taken = self.0.queue.as_ref().is_some_and(|queue| queue.try_send(Box::new(made)).is_ok());
        if !is_taken {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many decisions were not logged.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            drop(writer.join());
        }
    }
}

/// The one who writes.
struct Writer {
    folder: PathBuf,
    bounds: LogBounds,
    lost: Arc<AtomicU64>,
    is_failing: bool,
}

impl Writer {
    fn run(&mut self, waiting: &Receiver<Box<Made>>) {
        let mut told = 0;
        while let Ok(first) = waiting.recv() {
            let made: Vec<Box<Made>> = std::iter::once(first).chain(waiting.try_iter().take(self.bounds.waiting)).collect();
            let count = u64::try_from(made.len()).unwrap_or(u64::MAX);
            let lines: String = made.into_iter().filter_map(|made| line(&Row::from(*made))).collect();
            match append(&self.folder, lines.as_bytes(), self.bounds) {
                Ok(()) => self.is_failing = false,
                Err(error) => {
                    self.lost.fetch_add(count, Ordering::Relaxed);
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(folder = %self.folder.display(), %error, "decisions cannot be logged; they go on without");
                    }
                }
            }
            let lost = self.lost.load(Ordering::Relaxed);
            if lost > told && !self.is_failing {
                tracing::warn!(lost, "decisions came faster than they could be written; some are not in the log");
                told = lost;
            }
        }
    }
}

fn line(row: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(row).ok().map(|line| line + "\n")
}

/// Appends whole lines to the current file, in one write. Several processes may do so.
pub(super) fn append(folder: &Path, lines: &[u8], bounds: LogBounds) -> io::Result<()> {
    let path = folder.join(CURRENT);
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
    let length = file.metadata()?.len();
    if length >= bounds.bytes_per_file {
        drop(file);
        put_aside(folder, bounds.files)?;
        file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
    }
    // A line that a crash cut off stays one of its own.
    let lead: &[u8] = if is_torn(&mut file)? { b"\n" } else { b"" };
    file.write_all(&[lead, lines].concat())
}

fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Makes room for another current file; the oldest goes.
fn put_aside(folder: &Path, files: u32) -> io::Result<()> {
    for number in (1..files.max(2) - 1).rev() {
        gone_is_fine(std::fs::rename(aside(folder, number), aside(folder, number + 1)))?;
    }
    gone_is_fine(std::fs::rename(folder.join(CURRENT), aside(folder, 1)))
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn aside(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("decisions.{number}.jsonl"))
}

/// The files of a log that are there, oldest first.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = (1..).map(|number| aside(folder, number)).take_while(|path| path.exists()).collect();
    files.reverse();
    files.push(folder.join(CURRENT));
    files
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
