use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use tokio::sync::{mpsc, oneshot};

use super::{
    access,
    error::StoreError,
    folder::OsFolder,
    home::Home,
    journal::blocking,
    log::{self, Entry, Log, SEGMENT},
    mend::mend,
};

/// Makes the records of many lives durable together: one queue, one owner, one write and one sync for all that waits (DESIGN,
/// "Durability"). Whoever comes alone writes by itself, for two changes of thread cost a fifth of a sync. Dropping it ends the owner; what
/// was acknowledged is durable.
#[derive(Debug)]
pub struct CommitLog {
    desk: Arc<Desk>,
    queue: mpsc::Sender<Order>,
    root: PathBuf,
    /// The file system whose files the log vouches for.
    device: u64,
}

/// One life's place in a log.
#[derive(Debug, Clone)]
pub(super) struct Share {
    desk: Arc<Desk>,
    queue: mpsc::Sender<Order>,
    life: Arc<str>,
}

/// Lines that wait to be durable, and whoever waits for them.
#[derive(Debug)]
struct Order {
    life: Arc<str>,
    lines: Vec<u8>,
    done: oneshot::Sender<Result<(), Arc<io::Error>>>,
    _place: Place,
}

/// Where the log is written.
#[derive(Debug)]
struct Desk {
    writer: Mutex<Writer>,
    /// Orders that are not done yet: while there are any, nobody writes alone.
    waiting: AtomicUsize,
}

/// One that waits, as long as it lives.
#[derive(Debug)]
struct Place(Arc<Desk>);

impl Place {
    fn take(desk: &Arc<Desk>) -> Self {
        desk.waiting.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(desk))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Orders that may wait; a being waits before it when more do.
const MAX_WAITING: usize = 4_096;
/// Longer writes are made durable in the journal itself.
pub(super) const LONGEST_SHARED: usize = 1 << 20;
/// No entry takes more.
const LARGEST_ENTRY: usize = LONGEST_SHARED + (64 << 10) + 64;
/// Full segments that are let wait, so that one sync of all journals is shared by many records.
const SWEPT_AT_ONCE: usize = 8;
/// Full segments that may wait for their journals to be synced before the log waits for it.
const MAX_FULL: usize = 24;

impl CommitLog {
    /// Opens a home's log, for its daemon alone. First the journals are brought up to what an earlier daemon made durable; the sentences tell of it.
    pub fn open(home: &Home) -> Result<(Self, Vec<String>), StoreError> {
        let mut folder = OsFolder::lock(&home.commit())?;
        let mended = mend_in(home, &mut folder)?;
        let device = access::make_folder(home.path()).map(|folder| folder.metadata().map(|found| found.dev()))?;
        let device = device.map_err(|source| StoreError::Unreadable { path: home.path().to_owned(), source })?;
        let (queue, orders) = mpsc::channel(MAX_WAITING);
        let writer = Mutex::new(Writer { log: Log::new(Box::new(folder), SEGMENT), sweep: None, unswept: 0 });
        let desk = Arc::new(Desk { writer, waiting: AtomicUsize::new(0) });
        let owned = Arc::clone(&desk);
        let spawned = std::thread::Builder::new().name("commit-log".to_owned()).spawn(move || owned.run(orders));
        spawned.map_err(|source| StoreError::Unreadable { path: home.commit(), source })?;
        Ok((Self { desk, queue, root: home.path().to_owned(), device }, mended))
    }

    /// Brings the journals of a home up to what a daemon that is gone made durable; nothing where one runs, or never ran.
    pub fn mend(home: &Home) -> Result<Vec<String>, StoreError> {
        if OsFolder::look(&home.commit())?.is_none() {
            return Ok(Vec::new());
        }
        match OsFolder::lock(&home.commit()) {
            Err(StoreError::Held { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(mut folder) => mend_in(home, &mut folder),
        }
    }

    /// Tells whether a log holds anything: what no daemon that runs wrote, [`CommitLog::mend`] brings into the journals.
    pub fn is_in_use(home: &Home) -> Result<bool, StoreError> {
        let Some(folder) = OsFolder::look(&home.commit())? else { return Ok(false) };
        let unreadable = |source| StoreError::Unreadable { path: home.commit(), source };
        Ok(!log::segments(&folder).map_err(unreadable)?.is_empty())
    }

    /// The place of a life in the log; `None` where its folder lies outside the home or on another file system.
    pub(super) fn share(&self, dir: &Path) -> Option<Share> {
        let life = dir.strip_prefix(&self.root).ok()?.to_str()?;
        let device = access::folder(dir).ok()??.metadata().ok()?.dev();
        (device == self.device && life.len() <= usize::from(u16::MAX)).then(|| Share {
            desk: Arc::clone(&self.desk),
            queue: self.queue.clone(),
            life: life.into(),
        })
    }
}

fn mend_in(home: &Home, folder: &mut OsFolder) -> Result<Vec<String>, StoreError> {
    mend(folder, &mut |life| {
        let dir = home.path().join(life);
        Ok(match OsFolder::look(&dir)? {
            None => None,
            Some(_) => Some(Box::new(OsFolder::lock(&dir)?)),
        })
    })
}

impl Share {
    /// Makes lines durable. An error says that they may or may not be.
    pub(super) async fn commit(&self, lines: Vec<u8>) -> io::Result<()> {
        if let Some(written) = self.commit_alone(&lines) {
            return written;
        }
        let (done, ticket) = oneshot::channel();
        let gone = || io::Error::other("the commit log has ended");
        let order = Order { life: Arc::clone(&self.life), lines, done, _place: Place::take(&self.desk) };
        self.queue.send(order).await.map_err(|_| gone())?;
        ticket.await.map_err(|_| gone())?.map_err(|error| io::Error::new(error.kind(), error))
    }

    /// Writes at once where nobody else does or waits to.
    fn commit_alone(&self, lines: &[u8]) -> Option<io::Result<()>> {
        if self.desk.waiting.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut writer = self.desk.writer.try_lock().ok()?;
        let entry = Entry { life: &self.life, lines };
        Some(blocking(|| writer.write([entry])))
    }

    /// Says that the journal is durable and somebody else may write it now.
    pub(super) async fn let_go(&self) -> io::Result<()> {
        self.commit(Vec::new()).await
    }
}

/// Whoever holds it writes.
#[derive(Debug)]
struct Writer {
    log: Log,
    /// Full segments whose journals are being synced.
    sweep: Option<(JoinHandle<io::Result<()>>, Vec<String>)>,
    /// How many segments could not be swept; that is tried again when there are more.
    unswept: usize,
}

impl Desk {
    /// Writes what waits, all that there is at a time.
    fn run(&self, mut orders: mpsc::Receiver<Order>) {
        let mut batch: Vec<Order> = Vec::new();
        while let Some(order) = orders.blocking_recv() {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = entry(&order).size();
            batch.push(order);
            while bytes < log::room(SEGMENT) - LARGEST_ENTRY {
                let Ok(order) = orders.try_recv() else { break };
                bytes += entry(&order).size();
                batch.push(order);
            }
            let written = writer.write(batch.iter().map(entry)).map_err(Arc::new);
            drop(writer);
            for Order { done, .. } in batch.drain(..) {
                // Whoever stopped waiting is told by its journal at the next start.
                let _unread = done.send(written.clone());
            }
        }
    }
}

impl Writer {
    fn write<'a>(&mut self, entries: impl IntoIterator<Item = Entry<'a>>) -> io::Result<()> {
        let written = self.log.write(entries);
        self.sweep();
        written
    }

    /// Lets full segments be used again once all journals are synced, beside what goes on.
    fn sweep(&mut self) {
        let must_wait = self.log.full() > MAX_FULL;
        if let Some((swept, segments)) = self.sweep.take_if(|(swept, _)| must_wait || swept.is_finished()) {
            match swept.join().unwrap_or_else(|_| Err(io::Error::other("the sweep panicked"))) {
                Ok(()) => {
                    self.unswept = 0;
                    self.log.give_back(segments);
                }
                Err(error) => {
                    tracing::warn!("the journals could not be synced, so the commit log is kept: {error}");
                    self.unswept = segments.len();
                    self.log.keep(segments);
                }
            }
        }
        if self.sweep.is_none() && self.log.full() >= self.unswept + SWEPT_AT_ONCE {
            let started =
                self.log.syncer().and_then(|sync| std::thread::Builder::new().name("commit-sweep".to_owned()).spawn(sync));
            match started {
                Ok(swept) => self.sweep = Some((swept, self.log.take_full())),
                Err(error) => tracing::warn!("the journals could not be synced, so the commit log is kept: {error}"),
            }
        }
    }
}

fn entry(order: &Order) -> Entry<'_> {
    Entry { life: &order.life, lines: &order.lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::simulation::Simulation;

    /// Entries of this size fill a segment each.
    const LINES: &[u8] = &[b'x'; 3_000];

    #[test]
    fn a_log_of_any_length_takes_no_more_than_its_bound_of_segments() {
        let disk = Simulation::default();
        let mut writer = Writer { log: Log::new(Box::new(disk.clone()), 4_096), sweep: None, unswept: 0 };
        for _ in 0..400 {
            writer.write([Entry { life: "beings/ada", lines: LINES }]).unwrap();
            let segments = log::segments(&disk).unwrap().len();
            // Those that are full, those that are being swept, and the one in use.
            assert!(segments <= 2 * (MAX_FULL + 1) + 1, "{segments} segments");
        }
        let is_under_way = writer.sweep.as_ref().is_some_and(|(_, segments)| segments.len() >= SWEPT_AT_ONCE);
        assert!(
            is_under_way || writer.log.full() < SWEPT_AT_ONCE,
            "one sync of all journals is shared by {SWEPT_AT_ONCE} segments"
        );
    }
}
