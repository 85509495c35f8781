//! What the file system tells of, and where it tells of nothing.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind, RenameMode},
};
use rustix::fs::{FsWord, statfs};
use tokio::sync::Notify;

use super::trace::Trace;

/// Rings when something that a fleet is read from changes; which, is looked at afresh.
#[derive(Debug)]
pub(super) struct Bells {
    watcher: RecommendedWatcher,
    heard: Arc<Heard>,
    armed: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct Heard {
    bell: Notify,
    has_rung: AtomicBool,
    interest: Mutex<Interest>,
}

/// Which paths count.
#[derive(Debug, Default)]
struct Interest {
    /// What is read, and all below it that is not hidden.
    trees: BTreeSet<PathBuf>,
    /// Links on the way there.
    points: BTreeSet<PathBuf>,
    /// Manifests that were written and not closed since.
    written: BTreeSet<PathBuf>,
}

/// How many links a path may lead through, as in the kernel.
const MAX_LINKS: usize = 40;

/// Kinds of file systems that do not tell what other machines, or their own servers, change: the numbers of `statfs(2)`.
const SILENT: &[(FsWord, &str)] = &[
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFE53_4D42, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x00C3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786F_4256, "vboxsf"),
];

/// The kind of a file system that does not tell of all changes; `None` where it does.
pub(super) fn silent(folder: &Path) -> Option<&'static str> {
    let kind = statfs(folder).ok()?.f_type;
    SILENT.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

impl Bells {
    pub(super) fn new() -> Result<Self, notify::Error> {
        let heard = Arc::new(Heard::default());
        let hears = Arc::clone(&heard);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.map_or(true, |event| hears.interest().is_news(&event)) {
                hears.has_rung.store(true, Ordering::Release);
                hears.bell.notify_one();
            }
        })?;
        Ok(Self { watcher, heard, armed: BTreeSet::new() })
    }

    /// Watches what a trace shows, and what leads there. A folder that was replaced is another one and a link may lead elsewhere by now, so
    /// all are watched anew. Yields what cannot be watched, and why.
    pub(super) fn arm(&mut self, roots: &[PathBuf], trace: &Trace) -> Option<notify::Error> {
        let mut interest = Interest { trees: roots.iter().cloned().collect(), ..Interest::default() };
        let mut wanted: BTreeSet<PathBuf> = trace.folders().map(|(folder, _)| folder.to_owned()).collect();
        for start in roots.iter().chain(trace.links()) {
            let Trail { end, points } = Trail::of(start);
            wanted.extend(points.iter().chain([&end]).filter_map(|point| point.parent().map(Path::to_owned)));
            interest.trees.insert(end);
            interest.points.extend(points);
        }
        interest.points.extend(wanted.iter().cloned());
        {
            let mut held = self.heard.interest();
            interest.written = std::mem::take(&mut held.written);
            *held = interest;
        }
        for gone in self.armed.difference(&wanted) {
            let _unwatched_by_itself_when_it_is_gone = self.watcher.unwatch(gone);
        }
        let Self { watcher, armed, .. } = self;
        *armed = wanted;
        armed.iter().filter_map(|folder| watcher.watch(folder, RecursiveMode::NonRecursive).err()).last()
    }

    /// Waits until something changed since the bell was last heard. Cancel safe.
    pub(super) async fn ring(&self) {
        self.heard.bell.notified().await;
    }

    /// Tells whether something changed since this was last asked.
    pub(super) fn has_rung(&self) -> bool {
        self.heard.has_rung.swap(false, Ordering::AcqRel)
    }

    /// Tells whether a manifest was written and is still held open.
    pub(super) fn is_written(&self) -> bool {
        !self.heard.interest().written.is_empty()
    }

    /// Gives up on writers that never close.
    pub(super) fn forget_writers(&self) {
        self.heard.interest().written.clear();
    }
}

impl Heard {
    fn interest(&self) -> MutexGuard<'_, Interest> {
        self.interest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interest {
    /// Tells whether an event may change what is read, and notes who writes.
    fn is_news(&mut self, event: &Event) -> bool {
        if event.need_rescan() {
            self.written.clear();
            return true;
        }
        let mut is_news = false;
        for path in &event.paths {
            is_news |= self.concerns(path) && self.note(event.kind, path);
        }
        is_news
    }

    fn note(&mut self, kind: EventKind, path: &Path) -> bool {
        // What a link leads to may have any name.
        let is_manifest = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
        let is_read = is_manifest || self.trees.contains(path);
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => self.written.remove(path),
            EventKind::Access(_) => false,
            EventKind::Modify(ModifyKind::Data(_)) => is_read && self.written.insert(path.to_owned()),
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                self.written.remove(path);
                true
            }
            _ => true,
        }
    }

    fn concerns(&self, path: &Path) -> bool {
        let is_hidden = |below: &Path| {
            let hidden = |part: Component<'_>| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b"."));
            below.components().any(hidden)
        };
        let in_tree = |tree: &Path| self.trees.contains(tree) && path.strip_prefix(tree).is_ok_and(|below| !is_hidden(below));
        self.points.contains(path) || path.ancestors().any(in_tree)
    }
}

/// How a path leads to what it means.
#[derive(Debug, PartialEq, Eq)]
struct Trail {
    /// Where it ends, without links; where something is missing, there.
    end: PathBuf,
    /// Every link on the way.
    points: Vec<PathBuf>,
}

impl Trail {
    fn of(path: &Path) -> Self {
        let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<_>>();
        let (mut end, mut points, mut ahead) = (PathBuf::from("/"), Vec::new(), parts(path));
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                end.pop();
                continue;
            }
            end.push(&part);
            let Ok(meta) = end.symlink_metadata() else { break };
            let Some(target) = meta.is_symlink().then(|| end.read_link().ok()).flatten() else { continue };
            points.push(end.clone());
            if points.len() > MAX_LINKS {
                break;
            }
            end.pop();
            ahead = parts(&target).into_iter().chain(ahead).collect();
        }
        Self { end, points }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use notify::event::{CreateKind, DataChange, RemoveKind};

    use super::*;

    fn at(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

    #[test]
    fn no_link_on_the_way_to_a_file_is_left_unwatched() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("mount/..v1")).unwrap();
        fs::File::create_new(root.join("mount/..v1/ada.toml")).unwrap();
        symlink("..v1", root.join("mount/..data")).unwrap();
        symlink("..data/ada.toml", root.join("mount/ada.toml")).unwrap();
        symlink(root.join("mount"), root.join("current")).unwrap();

        let links = ["current", "mount/ada.toml", "mount/..data"].map(|link| root.join(link)).to_vec();
        let end = root.join("mount/..v1/ada.toml");
        assert_eq!(Trail::of(&root.join("current/../current/ada.toml")).end, end);
        assert_eq!(Trail::of(&root.join("current/ada.toml")), Trail { end, points: links });
        fs::remove_dir_all(root.join("mount/..v1")).unwrap();
        assert_eq!(Trail::of(&root.join("current/ada.toml")).end, root.join("mount/..v1"), "as far as there is something");
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(Trail::of(&root.join("loop")).points.len(), MAX_LINKS + 1);
    }

    #[test]
    fn what_an_editor_leaves_beside_a_manifest_is_no_news_and_what_leads_to_it_is() {
        let mut interest = Interest {
            trees: [PathBuf::from("/srv/fleet")].into(),
            points: [PathBuf::from("/srv/fleet/..data"), PathBuf::from("/srv")].into(),
            written: BTreeSet::new(),
        };
        let folder = EventKind::Create(CreateKind::Folder);
        let news = ["/srv/fleet", "/srv/fleet/team", "/srv/fleet/..data", "/srv/fleet/a.toml", "/srv"];
        let noise = ["/srv/fleet/.git/index", "/srv/fleet/.a.toml.swp", "/srv/fleets", "/srv/other/a.toml"];
        for path in news {
            assert!(interest.is_news(&at(folder, path)), "{path}");
        }
        for path in noise {
            assert!(!interest.is_news(&at(folder, path)), "{path}");
        }
        assert!(!interest.is_news(&at(WRITE, "/srv/fleet/daemon.log")), "a log that grows is read by nobody");
        assert!(interest.is_news(&Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan)), "events were lost");
    }

    #[test]
    fn a_manifest_counts_as_written_until_it_is_closed_or_gone() {
        let mut interest = Interest { trees: [PathBuf::from("/srv/fleet")].into(), ..Interest::default() };
        let path = "/srv/fleet/a.toml";
        assert!(!interest.is_news(&at(CLOSE, path)), "closed unwritten");
        interest.trees.insert("/srv/.real".into());
        assert!(interest.is_news(&at(WRITE, "/srv/.real")) && interest.is_news(&at(CLOSE, "/srv/.real")), "a link leads there");
        for end in [CLOSE, EventKind::Remove(RemoveKind::File), EventKind::Modify(ModifyKind::Name(RenameMode::From))] {
            assert!(interest.is_news(&at(WRITE, path)));
            assert!(!interest.is_news(&at(WRITE, path)), "it is known to be written");
            assert_eq!(interest.written.len(), 1);
            assert!(interest.is_news(&at(end, path)) && interest.written.is_empty(), "{end:?}");
        }
    }
}
