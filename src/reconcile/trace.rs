//! When files are at rest: decided from what they look like from outside, before any of them is read.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::manifest::{What, walk};

/// How long two looks at the files lie apart that must agree before any is read: editors write in several steps.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(25);
/// How long nothing may change before it counts that something is gone: an editor, or a mount, may be between two steps.
pub(super) const ABSENCE: Duration = Duration::from_secs(1);
/// How long files are waited for that are away while others change, that someone holds open for writing, or that never rest.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that a fleet is read from as it looks from outside. Equal traces mean that nothing was saved in between.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    marks: BTreeMap<PathBuf, Mark>,
    /// Paths that lead elsewhere; what they lead to is what counts.
    links: Vec<PathBuf>,
}

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        self.marks == other.marks
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    Folder {
        device: u64,
        inode: u64,
    },
    /// Times are of the last change of content and of the last change at all, in nanoseconds since the epoch.
    File {
        device: u64,
        inode: u64,
        size: u64,
        modified: i128,
        changed: i128,
    },
    Fault(String),
}

impl Trace {
    /// Looks at what stands at `paths`. Blocks as long as the file system does.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut trace = Self::default();
        walk(paths, |stand| {
            let mark = match stand.what {
                What::Folder(meta) => Mark::Folder { device: meta.dev(), inode: meta.ino() },
                What::File(meta) => Mark::of_file(meta),
                What::Fault(fault) => Mark::Fault(fault),
            };
            trace.links.extend(stand.is_link.then(|| stand.path.to_owned()));
            trace.marks.insert(stand.path.to_owned(), mark);
        });
        trace
    }

    /// The folders, each with its device.
    pub(super) fn folders(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.marks.iter().filter_map(|(path, mark)| match mark {
            Mark::Folder { device, .. } => Some((path.as_path(), *device)),
            Mark::File { .. } | Mark::Fault(_) => None,
        })
    }

    /// The paths that lead elsewhere.
    pub(super) fn links(&self) -> &[PathBuf] {
        &self.links
    }

    /// Tells whether a file that was there in `before` is away, or emptied: it may be about to be written.
    fn lacks(&self, before: &Self) -> bool {
        before.marks.iter().any(|(path, mark)| mark.is_full() && !self.marks.get(path).is_some_and(Mark::is_full))
    }

    /// A path that stands otherwise in `other`.
    fn differing(&self, other: &Self) -> Option<PathBuf> {
        let changed = self.marks.iter().find(|(path, mark)| other.marks.get(*path) != Some(*mark));
        let came = || other.marks.keys().find(|path| !self.marks.contains_key(*path));
        changed.map(|(path, _)| path).or_else(came).cloned()
    }
}

impl Mark {
    fn of_file(meta: &fs::Metadata) -> Self {
        let instant = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        Self::File {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: instant(meta.mtime(), meta.mtime_nsec()),
            changed: instant(meta.ctime(), meta.ctime_nsec()),
        }
    }

    const fn is_full(&self) -> bool {
        matches!(self, Self::File { size: 1.., .. })
    }
}

/// Decides when files may be read. Time comes in as the span since any fixed instant.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// What was last read.
    read: Trace,
    /// What was last seen, and since when.
    seen: Trace,
    since: Duration,
    /// When the unrest began that has not ended in a reading; `None` while all is read as it is.
    began: Option<Duration>,
}

/// What to do about files that were just looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Look again after this, or when something changes.
    Wait(Duration),
    /// They are at rest. Settled are files of which none vanished just now.
    Read { settled: bool },
    /// They keep changing, this one for instance; nothing can be read. Look again.
    Restless(PathBuf),
}

impl Rest {
    /// What to do, having seen `seen` at `at`; `is_written` tells that someone is known to hold a file open for writing.
    pub(super) fn step(&mut self, seen: Trace, at: Duration, is_written: bool) -> Step {
        let changing = self.seen.differing(&seen);
        if changing.is_some() {
            self.seen = seen;
            self.since = at;
        }
        let began = *self.began.get_or_insert(at);
        let (still, waited) = (at.saturating_sub(self.since), at.saturating_sub(began));
        let is_patient = waited < PATIENCE;
        match changing {
            Some(path) if !is_patient => Step::Restless(path),
            _ if still < DEBOUNCE => Step::Wait(DEBOUNCE - still),
            _ if is_patient && is_written => Step::Wait(PATIENCE - waited),
            _ if is_patient && still < ABSENCE && self.seen.lacks(&self.read) => Step::Wait(ABSENCE - still),
            _ => Step::Read { settled: still >= ABSENCE || !is_patient },
        }
    }

    /// Notes that what was last seen has been read.
    pub(super) fn note_read(&mut self) {
        self.read.clone_from(&self.seen);
        self.began = None;
    }

    /// How long what was last seen must still rest to be settled.
    pub(super) fn unsettled_for(&self, at: Duration) -> Duration {
        ABSENCE.saturating_sub(at.saturating_sub(self.since))
    }

    /// What was last seen.
    pub(super) const fn seen(&self) -> &Trace {
        &self.seen
    }

    /// Tells whether what was last seen is what was last read.
    pub(super) fn is_read(&self) -> bool {
        self.read == self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of these sizes; another size is another content.
    fn trace(files: &[(&str, u64)]) -> Trace {
        let file = |size| Mark::File { device: 1, inode: 1, size, modified: 0, changed: 0 };
        let marks = files.iter().map(|(path, size)| (PathBuf::from(path), file(*size))).collect();
        Trace { marks, links: Vec::new() }
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Files that were read a while ago.
    fn at_rest(files: &[(&str, u64)]) -> Rest {
        let mut rest = Rest::default();
        assert_eq!(rest.step(trace(files), ms(0), false), Step::Wait(DEBOUNCE));
        assert_eq!(rest.step(trace(files), ms(1_000), false), Step::Read { settled: true });
        rest.note_read();
        rest
    }

    const BOTH: &[(&str, u64)] = &[("a", 10), ("b", 10)];

    #[test]
    fn a_save_is_read_as_soon_as_two_looks_agree() {
        let mut rest = at_rest(BOTH);
        let saved = || trace(&[("a", 11), ("b", 10), ("c", 1)]);
        assert_eq!(rest.step(saved(), ms(5_000), false), Step::Wait(DEBOUNCE));
        assert_eq!(rest.step(saved(), ms(5_010), false), Step::Wait(ms(15)));
        assert_eq!(rest.step(saved(), ms(5_025), false), Step::Read { settled: false });
        rest.note_read();
        assert_eq!(rest.unsettled_for(ms(5_025)), ms(975));
        assert_eq!(rest.step(saved(), ms(6_000), false), Step::Read { settled: true });
    }

    #[test]
    fn a_file_that_grows_is_not_read() {
        let mut rest = at_rest(BOTH);
        for tick in 1..=40 {
            let step = rest.step(trace(&[("a", 10 + tick), ("b", 10)]), ms(5_000 + 20 * tick), false);
            assert_eq!(step, Step::Wait(DEBOUNCE), "look {tick}");
        }
        assert_eq!(rest.step(trace(&[("a", 50), ("b", 10)]), ms(5_825), false), Step::Read { settled: false });
    }

    #[test]
    fn a_file_that_is_away_or_emptied_is_not_missed_before_a_second_without_any_change() {
        for half_saved in [&[("b", 10)][..], &[("a", 0), ("b", 10)]] {
            let mut rest = at_rest(BOTH);
            rest.step(trace(half_saved), ms(5_000), false);
            assert_eq!(rest.step(trace(half_saved), ms(5_300), false), Step::Wait(ms(700)));
            let mut back = rest;
            assert_eq!(back.step(trace(&[("a", 12), ("b", 10)]), ms(5_310), false), Step::Wait(DEBOUNCE));
            assert_eq!(back.step(trace(&[("a", 12), ("b", 10)]), ms(5_335), false), Step::Read { settled: false });

            let mut rest = at_rest(BOTH);
            rest.step(trace(half_saved), ms(5_000), false);
            let other = [half_saved, &[("c", 3)]].concat();
            assert_eq!(rest.step(trace(&other), ms(5_900), false), Step::Wait(DEBOUNCE));
            assert_eq!(rest.step(trace(&other), ms(6_100), false), Step::Wait(ms(800)), "another file changed meanwhile");
            assert_eq!(rest.step(trace(&other), ms(6_900), false), Step::Read { settled: true });
            rest.note_read();
            assert_eq!(rest.step(trace(&other), ms(7_000), false), Step::Read { settled: true }, "what is gone is missed once");
        }
    }

    #[test]
    fn a_file_that_is_held_open_for_writing_is_waited_for_but_not_for_ever() {
        let mut rest = at_rest(BOTH);
        let half = || trace(&[("a", 5), ("b", 10)]);
        rest.step(half(), ms(5_000), true);
        assert_eq!(rest.step(half(), ms(5_500), true), Step::Wait(ms(9_500)));
        assert_eq!(rest.step(half(), ms(5_600), false), Step::Read { settled: false });

        let mut rest = at_rest(BOTH);
        rest.step(half(), ms(5_000), true);
        assert_eq!(rest.step(half(), ms(15_000), true), Step::Read { settled: true });
    }

    #[test]
    fn files_that_never_rest_are_told_of_and_starve_no_removal() {
        let mut rest = at_rest(BOTH);
        let churn = |tick: u64| trace(&[("b", 10), ("log", tick)]);
        for tick in 0..500 {
            assert_eq!(rest.step(churn(tick), ms(5_000 + 20 * tick), false), Step::Wait(DEBOUNCE));
        }
        assert_eq!(rest.step(churn(500), ms(15_000), false), Step::Restless("log".into()));
        assert_eq!(rest.step(churn(500), ms(15_025), false), Step::Read { settled: true }, "a pause long enough for two looks");
    }

    #[test]
    fn the_same_size_in_another_file_is_another_trace() {
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("a.toml"), folder.path().join("b.tmp"));
        let look = || Trace::of(&[folder.path().to_owned()]);
        fs::File::create_new(&path).unwrap();
        let before = look();
        assert_eq!(look(), before);
        fs::File::create_new(&beside).unwrap();
        assert_eq!(look(), before, "what is no manifest is not looked at");
        fs::rename(beside, &path).unwrap();
        assert_eq!(before.differing(&look()), Some(path));
        assert_eq!(before.folders().map(|(path, _)| path).collect::<Vec<_>>(), [folder.path()]);
    }
}
