#![expect(clippy::as_conversions, reason = "a pointer to a job is passed through an atomic")]

use std::{
    fmt,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle, Thread},
};

/// How often a helper looks for a new job before it sleeps, some tens of microseconds.
const SPINS: u32 = 4_000;
/// Set in the ticket while no helper may join.
const CLOSED: u64 = 1 << 15;
/// The helpers that have joined.
const JOINED: u64 = CLOSED - 1;

type Job<'a> = &'a (dyn Fn() + Sync);

/// Threads that help with one job at a time.
///
/// A job hands its work out in pieces; the caller works too and never waits for a helper that has not begun, so a processor that is busy with
/// something else costs its share and no more. Helpers look for work for a moment and then sleep.
pub struct Team {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    wakers: Vec<(Thread, Arc<AtomicBool>)>,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("helpers", &self.helpers.len()).finish()
    }
}

#[derive(Default)]
struct Shared {
    /// Number of the job, whether it may be joined, and by how many it was.
    ticket: AtomicU64,
    /// A pointer to the caller's `Job`, valid while the ticket is open or a joined helper has not left.
    job: AtomicPtr<()>,
    left: AtomicU64,
    over: AtomicBool,
}

impl Team {
    /// Starts `threads - 1` helpers; the caller of [`Team::run`] is the last.
    pub fn start(threads: NonZeroUsize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { ticket: AtomicU64::new(CLOSED), ..Shared::default() });
        let mut team = Self { shared, helpers: Vec::new(), wakers: Vec::new() };
        for _ in 1..threads.get() {
            let (shared, asleep) = (Arc::clone(&team.shared), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&asleep);
            let handle = thread::Builder::new().name("embedded-helper".into()).spawn(move || help(&shared, &asleep))?;
            team.wakers.push((handle.thread().clone(), flag));
            team.helpers.push(handle);
        }
        Ok(team)
    }

    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `job` here and on every helper that comes in time; returns when all of them have left it.
    pub fn run(&mut self, job: Job<'_>) {
        if self.helpers.is_empty() {
            return job();
        }
        let number = (self.shared.ticket.load(Ordering::Relaxed) >> 16) + 1;
        self.shared.left.store(0, Ordering::Relaxed);
        self.shared.job.store(std::ptr::from_ref(&job).cast_mut().cast(), Ordering::Relaxed);
        self.shared.ticket.store(number << 16, Ordering::SeqCst);
        self.wake();
        let _closing = Closing(&self.shared);
        job();
    }

    fn wake(&self) {
        for (thread, asleep) in &self.wakers {
            if asleep.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper that panicked has nothing left to say.
            let _ = helper.join();
        }
    }
}

/// Closes the job and waits for those who joined, even when the caller's own part panics.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let joined = self.0.ticket.fetch_or(CLOSED, Ordering::SeqCst) & JOINED;
        let mut tries = 0u32;
        while self.0.left.load(Ordering::Acquire) < joined {
            tries += 1;
            if tries < SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

/// Counts a helper out, even when its part panics.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Release);
    }
}

fn help(shared: &Shared, asleep: &AtomicBool) {
    let mut seen = 0;
    while let Some(ticket) = next(shared, asleep, seen) {
        seen = ticket >> 16;
        if shared.ticket.compare_exchange(ticket, ticket + 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            seen -= 1;
            continue;
        }
        let _leaving = Leaving(shared);
        let job = shared.job.load(Ordering::Relaxed) as *const Job<'_>;
        // SAFETY: the ticket was open when this helper was counted in, so `run` has stored a pointer to its live `Job` before it opened the
        // ticket and does not return, nor unwind, before `Leaving` has counted this helper out.
        let job = unsafe { *job };
        job();
    }
}

/// Waits for an open ticket with a number other than `seen`: looks for a while, then sleeps. `None` when the team is dissolved.
fn next(shared: &Shared, asleep: &AtomicBool, seen: u64) -> Option<u64> {
    let open = || {
        let ticket = shared.ticket.load(Ordering::SeqCst);
        (ticket & CLOSED == 0 && ticket >> 16 != seen).then_some(ticket)
    };
    loop {
        for _ in 0..SPINS {
            if shared.over.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(ticket) = open() {
                return Some(ticket);
            }
            std::hint::spin_loop();
        }
        asleep.store(true, Ordering::SeqCst);
        if open().is_none() && !shared.over.load(Ordering::SeqCst) {
            thread::park();
        }
        asleep.store(false, Ordering::SeqCst);
    }
}
