use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Tells that something in the watched folders changed; which, is read afresh.
pub(super) struct Watch {
    changed: mpsc::Receiver<()>,
    roots: Vec<PathBuf>,
    watcher: RecommendedWatcher,
}

/// How long nothing may change before a change is acted on: editors write in several steps.
const QUIET: Duration = Duration::from_millis(80);
/// How long a change waits for quiet at the most.
const LONGEST: Duration = Duration::from_millis(400);
/// How often the watches are renewed: a folder that was replaced is another one.
const RENEW: Duration = Duration::from_secs(10);

impl Watch {
    /// Watches folders and files, and what holds them, so that one that is replaced is seen.
    pub(super) fn on(paths: &[PathBuf]) -> Result<Self, notify::Error> {
        let (tell, changed) = mpsc::channel(1);
        let roots = paths.to_vec();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let is_news = event.is_ok_and(|event| {
                let concerns = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
                !event.kind.is_access() && event.paths.iter().any(concerns)
            });
            if is_news {
                let _full_holds_it_already = tell.try_send(());
            }
        })?;
        let mut watch = Self { changed, roots: paths.to_vec(), watcher };
        watch.renew();
        Ok(watch)
    }

    /// Waits for a change, and then until it is quiet. Not cancel safe: a change whose quiet was being awaited is then lost, so it
    /// runs in a task of its own.
    pub(super) async fn changed(&mut self) {
        while tokio::time::timeout(RENEW, self.changed.recv()).await.is_err() {
            self.renew();
        }
        let settle = async { while let Ok(Some(())) = tokio::time::timeout(QUIET, self.changed.recv()).await {} };
        drop(tokio::time::timeout(LONGEST, settle).await);
        self.renew();
    }

    /// Watches everything anew; what can't be watched now is tried again at the next time, and read at each period anyway.
    fn renew(&mut self) {
        let Self { roots, watcher, .. } = self;
        let mut add = |path: &Path, mode| {
            if let Err(error) = watcher.watch(path, mode) {
                tracing::debug!("cannot watch {}: {error}", path.display());
            }
        };
        for root in roots {
            root.parent().into_iter().for_each(|above| add(above, RecursiveMode::NonRecursive));
            if root.is_dir() {
                add(root, RecursiveMode::Recursive);
            }
        }
    }
}
