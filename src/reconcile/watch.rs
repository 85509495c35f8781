use std::{path::PathBuf, time::Duration};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Tells that something in the watched folders changed; which, is read afresh.
#[derive(Debug)]
pub(super) struct Watch {
    changed: mpsc::Receiver<()>,
    /// Held so that it goes on; `None` where there is nothing to watch.
    _watcher: Option<RecommendedWatcher>,
}

/// How long nothing may change before a change is acted on: editors write in several steps.
const QUIET: Duration = Duration::from_millis(80);
/// How long a change waits for quiet at the most.
const LONGEST: Duration = Duration::from_millis(400);

impl Watch {
    /// Watches folders, and the folders of files, for good.
    pub(super) fn on(paths: &[PathBuf]) -> Result<Self, notify::Error> {
        let (tell, changed) = mpsc::channel(1);
        if paths.is_empty() {
            return Ok(Self { changed, _watcher: None });
        }
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let is_read = event.is_ok_and(|event| event.kind.is_access());
            if !is_read {
                let _full_holds_it_already = tell.try_send(());
            }
        })?;
        for path in paths {
            let (watched, mode) = match path.is_dir() {
                true => (path.as_path(), RecursiveMode::Recursive),
                false => (path.parent().unwrap_or(path), RecursiveMode::NonRecursive),
            };
            watcher.watch(watched, mode)?;
        }
        Ok(Self { changed, _watcher: Some(watcher) })
    }

    /// Waits for a change, and then until it is quiet. Not cancel safe: a change whose quiet was being awaited is then lost, so it runs in a task of its own.
    pub(super) async fn changed(&mut self) {
        if self.changed.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        let settle = async { while let Ok(Some(())) = tokio::time::timeout(QUIET, self.changed.recv()).await {} };
        drop(tokio::time::timeout(LONGEST, settle).await);
    }
}
