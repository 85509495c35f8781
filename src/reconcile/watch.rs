//! Reads the served files whenever they changed and are at rest.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::block_in_place,
    time::{Instant, sleep},
};

use super::{
    bells::{Bells, silent},
    trace::{DEBOUNCE, Rest, Step, Trace},
};
use crate::{
    manifest::Sources,
    vocab::{Digest, Span},
};

/// How often the files are looked at where the file system tells of changes: an event may be lost.
const PERIOD: Duration = Duration::from_secs(30);
/// How often where it does not.
const POLL: Duration = Duration::from_secs(2);
/// How long an answer waits for files to come to rest.
const ASKED: Duration = Duration::from_secs(2);

/// The texts of the served files, as they were when they last were at rest.
#[derive(Debug, Clone, Default)]
pub(super) struct Served {
    /// `None` while nothing could be read yet.
    pub(super) sources: Option<Arc<Sources>>,
    pub(super) digest: Option<Digest>,
    /// Whether it counts what is missing in them: they have rested for long enough not to be in the midst of a save.
    pub(super) is_settled: bool,
    /// Why what was saved since is not read.
    pub(super) unrest: Option<String>,
}

/// The reconciler's end of a watch.
#[derive(Debug)]
pub(super) struct Watched {
    served: watch::Receiver<Served>,
    asks: mpsc::Sender<Ask>,
}

/// A wish to have what is saved by now.
#[derive(Debug)]
struct Ask {
    /// Whether files are read that look as they did.
    is_forced: bool,
    done: oneshot::Sender<()>,
}

/// The task that watches.
struct Watch {
    roots: Vec<PathBuf>,
    /// How often to look, without any event.
    poll: Option<Span>,
    bells: Option<Bells>,
    rest: Rest,
    began: Instant,
    served: watch::Sender<Served>,
    asks: mpsc::Receiver<Ask>,
    asked: Vec<oneshot::Sender<()>>,
    /// Whether files are read that look as they did: one may have been saved twice within a tick of the file system's clock.
    is_forced: bool,
    /// What was said about how changes are seen.
    told: Option<String>,
}

impl Watched {
    /// Watches folders and files in a task of its own; with `poll` by looking alone. Must be called within a runtime.
    pub(super) fn on(roots: Vec<PathBuf>, poll: Option<Span>) -> Self {
        let (asks, asked) = mpsc::channel(1);
        if roots.is_empty() {
            let sources = Some(Arc::new(Sources::default()));
            let (_, served) = watch::channel(Served { sources, is_settled: true, ..Served::default() });
            return Self { served, asks };
        }
        let (tell, served) = watch::channel(Served::default());
        let watch = Watch {
            roots,
            poll,
            bells: None,
            rest: Rest::default(),
            began: Instant::now(),
            served: tell,
            asks: asked,
            asked: Vec::new(),
            is_forced: false,
            told: None,
        };
        tokio::spawn(watch.run());
        Self { served, asks }
    }

    /// Waits for other texts, or for none where nothing is watched. Cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.served.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until there is something to begin with. Cancel safe.
    pub(super) async fn begun(&mut self) {
        let _nothing_is_watched = self.served.wait_for(|served| served.sources.is_some() || served.unrest.is_some()).await;
    }

    /// Waits until what is saved by now is read, or the files do not come to rest in time.
    pub(super) async fn catch_up(&self, is_forced: bool) {
        let (done, answer) = oneshot::channel();
        let ask = async {
            if self.asks.send(Ask { is_forced, done }).await.is_ok() {
                let _not_in_time = answer.await;
            }
        };
        let _not_in_time = tokio::time::timeout(ASKED, ask).await;
    }

    /// The newest texts.
    pub(super) fn newest(&mut self) -> Served {
        self.served.borrow_and_update().clone()
    }
}

impl Watch {
    async fn run(mut self) {
        loop {
            let (seen, period) = block_in_place(|| self.look());
            let is_written = self.bells.as_ref().is_some_and(Bells::is_written);
            let span = match self.rest.step(seen, self.began.elapsed(), is_written) {
                Step::Wait(span) => span,
                Step::Read { settled } => match block_in_place(|| self.read(settled)) {
                    true if settled => period,
                    true => self.rest.unsettled_for(self.began.elapsed()),
                    false => DEBOUNCE,
                },
                Step::Restless(path) => {
                    self.tell_unrest(&path);
                    DEBOUNCE
                }
            };
            if !self.wait(span).await {
                return;
            }
        }
    }

    /// Looks at the files, having first made sure to hear what changes from now on. Yields how often to look.
    fn look(&mut self) -> (Trace, Duration) {
        let seen = Trace::of(&self.roots);
        let (period, told) = self.listen(&seen);
        if told != self.told {
            told.iter().for_each(|told| tracing::warn!("{told}"));
            self.told = told;
        }
        self.is_forced |= self.bells.as_ref().is_some_and(Bells::has_rung);
        (seen, period)
    }

    /// Listens to what a trace shows. Yields how often to look, and why that often.
    fn listen(&mut self, seen: &Trace) -> (Duration, Option<String>) {
        if let Some(poll) = self.poll {
            return (poll.as_duration(), None);
        }
        let looked = format!("so the files are looked at every {}", Span::from(POLL));
        let deaf = |error: &notify::Error| (POLL, Some(format!("cannot watch the served files, {looked}: {error}")));
        if self.bells.is_none() {
            match Bells::new() {
                Ok(bells) => self.bells = Some(bells),
                Err(error) => return deaf(&error),
            }
        }
        let unwatched = self.bells.as_mut().and_then(|bells| bells.arm(&self.roots, seen));
        let devices: BTreeMap<u64, &Path> = seen.folders().map(|(folder, device)| (device, folder)).collect();
        let mute = devices.values().find_map(|folder| Some((folder, silent(folder)?)));
        match (mute, unwatched) {
            (Some((folder, kind)), _) => {
                (POLL, Some(format!("{} lies on {kind}, which does not tell of changes, {looked}", folder.display())))
            }
            (None, Some(error)) => deaf(&error),
            (None, None) => (PERIOD, None),
        }
    }

    /// Reads files at rest where they changed; not, when they change meanwhile.
    fn read(&mut self, is_settled: bool) -> bool {
        let is_other = !self.rest.is_read();
        let mut served = Served { is_settled, unrest: None, ..self.served.borrow().clone() };
        if is_other || self.is_forced || served.sources.is_none() {
            let sources = Sources::load(&self.roots);
            if Trace::of(&self.roots) != *self.rest.seen() {
                return false;
            }
            served.digest = Some(sources.digest());
            served.sources = Some(Arc::new(sources));
        }
        // What is saved again within the same tick of the file system's clock looks the same, so what is new is read once more.
        self.is_forced = is_other;
        self.rest.note_read();
        self.bells.iter().for_each(Bells::forget_writers);
        self.served.send_if_modified(|old| {
            let is_news = (old.digest, old.is_settled, &old.unrest) != (served.digest, is_settled, &None);
            *old = served;
            is_news
        });
        self.answer();
        true
    }

    fn tell_unrest(&mut self, path: &Path) {
        let unrest =
            format!("{} keeps changing, so nothing is read until it rests; keep what is no manifest elsewhere", path.display());
        self.served.send_if_modified(|served| {
            let is_news = served.unrest.is_none();
            if is_news {
                tracing::warn!("{unrest}");
                served.unrest = Some(unrest);
            }
            is_news
        });
        self.answer();
    }

    fn answer(&mut self) {
        for asked in self.asked.drain(..) {
            let _nobody_waits_any_more = asked.send(());
        }
    }

    /// Waits for a time, or for a change or a wish where that time is long. `false` when nobody is there any more.
    async fn wait(&mut self, span: Duration) -> bool {
        if span <= DEBOUNCE {
            sleep(span).await;
            return true;
        }
        let ring = async {
            match &self.bells {
                Some(bells) => bells.ring().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep(span) => {}
            () = ring => {}
            ask = self.asks.recv() => {
                let Some(ask) = ask else { return false };
                self.is_forced |= ask.is_forced;
                self.asked.push(ask.done);
            }
        }
        true
    }
}
