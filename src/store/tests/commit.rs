use std::{collections::BTreeMap, io::ErrorKind, path::Path, sync::Arc};

use proptest::prelude::*;

use super::samples::{at, decode, either, fresh, told};
use super::simulation::{Simulation, Trouble, luck};
use crate::{
    being::Record,
    store::{
        self, CommitLog, Home, StoreError,
        folder::{Folder, JOURNAL},
        line,
        log::{self, Entry, Log},
        mend::mend,
        peek,
    },
};

const SEGMENT: usize = 4_096;
const LIVES: [&str; 3] = ["beings/ada", "beings/bob", "beings/cyd"];

fn entry<'a>(life: &'a str, lines: &'a str) -> Entry<'a> {
    Entry { life, lines: lines.as_bytes() }
}

/// A log of one segment with these batches.
fn segment(batches: &[Vec<Entry<'_>>]) -> (String, Vec<u8>) {
    let disk = Simulation::default();
    let mut log = Log::new(Box::new(disk.clone()), SEGMENT);
    batches.iter().for_each(|batch| log.write(batch.iter().copied()).unwrap());
    let name = log::segments(&disk).unwrap().remove(0);
    let bytes = disk.content(&name).unwrap();
    (name, bytes)
}

#[test]
fn entries_read_back_as_they_were_written() {
    let batches = vec![vec![entry("a", "one\n")], vec![entry("a", "two\n"), entry("b/c", ""), entry("ä", "three\n")]];
    let (name, bytes) = segment(&batches);
    assert_eq!(log::read(&name, &bytes), Ok(batches.concat()));
}

#[test]
fn a_changed_byte_of_a_batch_that_others_followed_is_told_and_one_of_the_last_is_cut_off() {
    let batches: Vec<Vec<Entry<'_>>> =
        vec![vec![entry("a", "1\n"), entry("b", "2\n")], vec![entry("a", "3\n")], vec![entry("b", "4\n")]];
    let (name, bytes) = segment(&batches);
    let ends: Vec<usize> = batches
        .iter()
        .scan(20, |end, batch| {
            *end += batch.iter().map(Entry::size).sum::<usize>();
            Some(*end)
        })
        .collect();
    for index in 0..ends[2] {
        let mut bytes = bytes.clone();
        bytes[index] ^= 0x40;
        let is_padding = log::read(&name, &bytes) == Ok(batches.concat());
        let read = log::read(&name, &bytes);
        match index {
            _ if is_padding => assert_eq!(bytes[index], 0x40, "byte {index} was believed"),
            _ if index < ends[1] => assert!(read.is_err(), "byte {index}: {read:?}"),
            _ => assert_eq!(read, Ok(batches[..2].concat()), "byte {index}"),
        }
    }
}

proptest! {
    #[test]
    fn rubbish_in_a_segment_is_no_entry_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let name = format!("{:020}.log", 1);
        prop_assert!(log::read(&name, &bytes).is_ok_and(|read| read.is_empty()));
    }
}

/// Lives that share a log on a disk that loses power: what each wrote and was acknowledged.
struct World {
    disk: Simulation,
    acknowledged: BTreeMap<&'static str, Vec<Record>>,
    turn: u32,
    /// Writes that failed while the daemon went on.
    failures: u32,
}

impl World {
    fn new() -> Self {
        Self { disk: Simulation::default(), acknowledged: BTreeMap::new(), turn: 0, failures: 0 }
    }

    fn commit_folder(&self) -> Simulation {
        self.disk.beside("commit")
    }

    fn journal(&self, life: &str) -> Vec<Record> {
        let journal = self.disk.beside(life).content(JOURNAL).unwrap_or_default();
        let lines = journal.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        lines.map_while(|line| line::check(line).ok()?.decode().ok()).collect()
    }

    /// A daemon's time: it mends, then its lives write until something fails.
    fn live(&mut self, luck: &mut rand::rngs::StdRng) -> Result<(), StoreError> {
        let mut folder = self.commit_folder();
        let disk = self.disk.clone();
        mend(&mut folder, &mut |life| Ok(Some(Box::new(disk.beside(life)) as Box<dyn Folder>)))?;
        self.check();
        let mut log = Log::new(Box::new(folder), SEGMENT);
        let mut writers: Vec<Writer> = LIVES.iter().map(|life| Writer::open(&self.disk, life)).collect::<Result<_, _>>()?;
        for _ in 0..60 {
            self.turn += 1;
            let count = luck.random_range(1..=LIVES.len());
            let mut lines = Vec::new();
            for writer in writers.iter_mut().take(count) {
                lines.push(writer.append(&format!("turn {} {}", self.turn, "y".repeat(luck.random_range(0..300))))?);
            }
            let batch = LIVES.iter().zip(&lines).map(|(life, (_, lines))| Entry { life, lines });
            if let Err(error) = log.write(batch) {
                // The daemon goes on: each life is closed and opened again.
                for (writer, (_, lines)) in writers.iter_mut().zip(&lines) {
                    writer.reopen(&self.disk, lines.len()).map_err(|_| StoreError::write("log".into(), ErrorKind::Other.into()))?;
                }
                self.failures += u32::from(error.kind() == ErrorKind::StorageFull);
                continue;
            }
            for (life, (record, _)) in LIVES.iter().zip(lines) {
                self.acknowledged.entry(life).or_default().push(record);
            }
            if log.full() > 0 && luck.random_bool(0.5) {
                let full = log.take_full();
                match log.syncer().and_then(|sync| sync()) {
                    Ok(()) => log.give_back(full),
                    Err(_) => log.keep(full),
                }
            }
            if luck.random_bool(0.05) {
                let writer = luck.random_range(0..LIVES.len());
                writers[writer].let_go(&mut log)?;
                writers[writer] = Writer::open(&self.disk, LIVES[writer])?;
            }
        }
        Ok(())
    }

    fn check(&self) {
        for (life, acknowledged) in &self.acknowledged {
            let journal = self.journal(life);
            for record in acknowledged {
                let kept = journal.get(usize::try_from(record.seq - 1).unwrap());
                assert_eq!(kept, Some(record), "{life} lost an acknowledged record");
            }
        }
    }
}

/// One life that shares the log; its journal is written and not synced.
struct Writer {
    folder: Simulation,
    life: &'static str,
    seq: u64,
}

impl Writer {
    /// Opens a journal as a life does: what is torn goes, and what is there is made durable.
    fn open(disk: &Simulation, life: &'static str) -> Result<Self, StoreError> {
        let mut folder = disk.beside(life);
        let write = |source| StoreError::write(life.into(), source);
        let journal = folder.content(JOURNAL).unwrap_or_default();
        let mut good = (0, 0_usize);
        for line in journal.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\n").map(line::check) {
                Some(Ok(frame)) if frame.seq == good.0 + 1 => good = (frame.seq, good.1 + line.len()),
                _ => break,
            }
        }
        let mut writer = Self { folder: folder.clone(), life, seq: good.0 };
        folder.cut(JOURNAL, good.1 as u64).map_err(write)?;
        writer.append("opened")?;
        folder.sync(JOURNAL).and_then(|()| folder.sync_names()).map_err(write)?;
        Ok(writer)
    }

    fn append(&mut self, message: &str) -> Result<(Record, Vec<u8>), StoreError> {
        let record = Record { seq: self.seq + 1, at: at(1), cycle: 1, event: told(message) };
        let mut line = Vec::new();
        line::encode(&mut line, &record, record.seq).unwrap();
        self.folder.append(JOURNAL, &line).map_err(|source| StoreError::write(self.life.into(), source))?;
        self.seq += 1;
        Ok((record, line))
    }

    /// Cuts off what was not acknowledged, and begins anew.
    fn reopen(&mut self, disk: &Simulation, unacknowledged: usize) -> Result<(), StoreError> {
        let length = self.folder.content(JOURNAL).unwrap_or_default().len() - unacknowledged;
        drop(self.folder.cut(JOURNAL, length as u64));
        *self = Self::open(disk, self.life)?;
        Ok(())
    }

    fn let_go(&mut self, log: &mut Log) -> Result<(), StoreError> {
        let write = |source| StoreError::write(self.life.into(), source);
        self.folder.sync(JOURNAL).map_err(write)?;
        log.write([entry(self.life, "")]).map_err(write)
    }
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_that_a_shared_sync_acknowledged() {
    let (mut cuts, mut failures) = (0, 0);
    for seed in 0..400 {
        let mut luck = luck(seed);
        let mut world = World::new();
        for _ in 0..4 {
            let step = luck.random_range(0..700);
            let trouble = match luck.random_range(0..3) {
                0 => Trouble::Error { step, kind: ErrorKind::StorageFull },
                _ => Trouble::PowerCut { step },
            };
            world.disk.expect(Some(trouble));
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.live(&mut luck)));
            let Ok(ended) = ended else { panic!("seed {seed}") };
            cuts += u32::from(ended.is_err());
            world.disk.power_up(&mut luck);
        }
        world.disk.expect(None);
        world.live(&mut luck).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        world.check();
        failures += world.failures;
    }
    assert!(cuts > 400 && failures > 40, "{cuts} cuts, {failures} failures");
}

fn home(place: &Path) -> Home {
    Home::open(&place.join("home")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lives_that_share_a_log_go_on_after_their_daemon_was_killed() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let (log, mended) = CommitLog::open(&home).unwrap();
    assert_eq!(mended, [""; 0]);
    let log = Arc::new(log);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (log, dir) = (Arc::clone(&log), home.being_dir(&format!("b-{n}").parse().unwrap()));
        tasks.spawn(async move {
            let (mut life, mut state, _) = store::Life::open(&dir, fresh()).unwrap().sharing(&log).begin(at(0)).unwrap();
            for turn in 0..50 {
                for record in life.append(&[told(format!("turn {turn}"))], 1, at(turn)).await.unwrap() {
                    state.apply(&record);
                }
            }
            (dir, state)
        });
    }
    let lived = tasks.join_all().await;
    drop(log);
    for (dir, state) in &lived {
        // The power goes: a journal that was never synced may be as short as it was at birth.
        let journal = dir.join(JOURNAL);
        let lines = std::fs::read(&journal).unwrap();
        let kept: usize = lines.split_inclusive(|byte| *byte == b'\n').take(12).map(<[u8]>::len).sum();
        std::fs::write(&journal, &lines[..kept]).unwrap();
        assert_ne!(peek(dir).unwrap().as_ref(), Some(state));
    }
    let mended = wait_for_the_log(&home).await;
    assert_eq!(mended.len(), 20, "{mended:?}");
    for (dir, state) in &lived {
        assert_eq!(peek(dir).unwrap().as_ref(), Some(state));
    }
    assert_eq!(CommitLog::mend(&home).unwrap(), [""; 0], "the log is empty after it was used");
}

/// The thread that owns the log ends a moment after its last user.
async fn wait_for_the_log(home: &Home) -> Vec<String> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match CommitLog::open(home) {
            Ok((_, mended)) => return mended,
            Err(StoreError::Held { .. }) if tokio::time::Instant::now() < deadline => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_that_was_closed_is_not_written_to_by_an_older_log() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let (log, _) = CommitLog::open(&home).unwrap();
    let dir = home.being_dir(&"ada".parse().unwrap());
    let (mut life, mut state, _) = store::Life::open(&dir, fresh()).unwrap().sharing(&log).begin(at(0)).unwrap();
    for record in life.append(&[told("one"), told("two"), told("three")], 1, at(1)).await.unwrap() {
        state.apply(&record);
    }
    life.close(&state, at(2)).await.unwrap();
    drop(life);
    store::remove(&dir).unwrap();
    let (life, state, _) = store::Life::open(&dir, either()).unwrap().begin(at(3)).unwrap();
    drop((life, log));
    assert_eq!(wait_for_the_log(&home).await, [""; 0]);
    assert_eq!(peek(&dir).unwrap(), Some(state));
    assert_eq!(decode(&std::fs::read(dir.join(JOURNAL)).unwrap()).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_went_another_way_since_is_not_continued_from_an_older_log() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let (log, _) = CommitLog::open(&home).unwrap();
    let dir = home.being_dir(&"ada".parse().unwrap());
    let (mut life, ..) = store::Life::open(&dir, fresh()).unwrap().sharing(&log).begin(at(0)).unwrap();
    for second in 1..9 {
        drop(life.append(&[told(format!("lost {second}"))], 1, at(second)).await.unwrap());
    }
    // The life fails in the daemon and is never closed; somebody gives up its end, and it lives on for a while beside the daemon.
    drop(life);
    let lines = std::fs::read(dir.join(JOURNAL)).unwrap();
    let kept: usize = lines.split_inclusive(|byte| *byte == b'\n').take(4).map(<[u8]>::len).sum();
    std::fs::write(dir.join(JOURNAL), &lines[..kept]).unwrap();
    let (life, state, _) = store::Life::open(&dir, either()).unwrap().begin(at(20)).unwrap();
    drop((life, log));
    assert_eq!(wait_for_the_log(&home).await, [""; 0]);
    assert_eq!(peek(&dir).unwrap(), Some(state));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_use_is_left_alone_by_whoever_only_looks() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    assert!(!CommitLog::is_in_use(&home).unwrap());
    assert_eq!(CommitLog::mend(&home).unwrap(), [""; 0]);
    assert!(!home.commit().exists(), "looking makes nothing");
    let (log, _) = CommitLog::open(&home).unwrap();
    assert!(!CommitLog::is_in_use(&home).unwrap(), "nothing was written yet");
    let dir = home.being_dir(&"ada".parse().unwrap());
    let (mut life, ..) = store::Life::open(&dir, fresh()).unwrap().sharing(&log).begin(at(0)).unwrap();
    for second in 1..9 {
        drop(life.append(&[told(format!("turn {second}"))], 1, at(second)).await.unwrap());
    }
    assert!(CommitLog::is_in_use(&home).unwrap());
    assert_eq!(CommitLog::mend(&home).unwrap(), [""; 0], "its daemon lives");
    assert!(CommitLog::is_in_use(&home).unwrap(), "and has its log still");
    drop((life, log));
    wait_for_the_log(&home).await;
    assert!(!CommitLog::is_in_use(&home).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_vouches_only_for_lives_that_lie_in_its_home() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let (log, _) = CommitLog::open(&home).unwrap();
    let inside = home.being_dir(&"ada".parse().unwrap());
    let outside = place.path().join("elsewhere");
    for dir in [&inside, &outside] {
        drop(store::Life::open(dir, fresh()).unwrap());
    }
    assert!(log.share(&inside).is_some());
    assert!(log.share(&outside).is_none());
    assert!(log.share(&home.path().join("gone")).is_none(), "what is not there has no file system");
}
