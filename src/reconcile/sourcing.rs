//! Git sources of the fleet: one task fetches each, and what it brings is taken into force where it may be.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Cause, Condition, ConditionKind, Reconciler,
    git::{FetchError, Fetched, Fetcher, Record, is_same_place, short},
};
use crate::{
    manifest::{Problems, SourceSpec},
    process::Backoff,
    runtime::{Clock, Ground},
    vocab::{Digest, Name, Timestamp, chain},
};

/// The fetchers of all sources that are declared.
#[derive(Debug)]
pub(super) struct Sourcing {
    lines: BTreeMap<Name, Line>,
    news: (mpsc::Sender<News>, mpsc::Receiver<News>),
}

/// One source.
#[derive(Debug)]
struct Line {
    fetcher: Fetcher,
    spec: SourceSpec,
    /// Ends with the line, and with it what it runs.
    _task: AbortOnDropHandle<()>,
    poke: Arc<Notify>,
    /// What was fetched and is not in force.
    fetched: Option<Fetched>,
    /// All that was declared when that was last refused: with the same, it is refused again.
    refused_with: Option<Digest>,
    trouble: Option<Trouble>,
}

/// Why the newest of a source is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    reason: &'static str,
    message: String,
    /// When it is tried again by itself; `None` where only people can help.
    again_at: Option<Timestamp>,
    /// Whether it is of the way there, and over once the branch was reached.
    is_of_the_way: bool,
}

/// What came of one look at a branch.
#[derive(Debug)]
pub(super) struct News {
    name: Name,
    outcome: Result<Option<Fetched>, Trouble>,
}

/// Looks that may wait to be heard.
const MAX_WAITING_NEWS: usize = 16;
/// How long is waited after the first fetch in a row that failed, and after the last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

impl Default for Sourcing {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), news: mpsc::channel(MAX_WAITING_NEWS) }
    }
}

impl Sourcing {
    /// Waits for news. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<News> {
        self.news.1.recv().await
    }

    /// Has every branch looked at now.
    pub(super) fn poke_all(&self) {
        self.lines.values().for_each(|line| line.poke.notify_one());
    }

    /// Has a branch looked at now.
    pub(super) fn poke(&self, name: &Name) {
        self.lines.get(name).into_iter().for_each(|line| line.poke.notify_one());
    }
}

impl Reconciler {
    /// Fetches what is declared to be, and no more.
    pub(super) fn keep_sources(&mut self) {
        let declared = &self.fleet.sources;
        self.sourcing.lines.retain(|name, line| declared.get(name) == Some(&line.spec));
        let new: Vec<(Name, SourceSpec)> = declared
            .iter()
            .filter(|(name, _)| !self.sourcing.lines.contains_key(*name))
            .map(|(name, spec)| (name.clone(), spec.clone()))
            .collect();
        for (name, spec) in new {
            self.follow(&name, spec);
        }
    }

    /// Begins to fetch a source.
    fn follow(&mut self, name: &Name, spec: SourceSpec) {
        let record = self.declared.record(name).filter(|record| is_same_place(&record.spec, &spec));
        let seen = record.map(|record| record.commit.clone());
        let folder = self.declared.records.folder(name);
        let Ground { program, env, clock, .. } = self.ground.as_ref();
        let fetcher = Fetcher::new(program, env, spec.clone(), folder);
        let poke = Arc::new(Notify::new());
        let watch =
            Watch { name: name.clone(), fetcher: fetcher.clone(), every: spec.every.as_duration(), clock: clock.clone(), seen };
        let task = tokio::spawn(watch.run(Arc::clone(&poke), self.sourcing.news.0.clone()));
        let line =
            Line { fetcher, spec, _task: AbortOnDropHandle::new(task), poke, fetched: None, refused_with: None, trouble: None };
        self.sourcing.lines.insert(name.clone(), line);
    }

    /// Notes what came of a look at a branch. Yields whether there is something to take.
    pub(super) fn note_news(&mut self, News { name, outcome }: News) -> bool {
        let Some(line) = self.sourcing.lines.get_mut(&name) else { return false };
        match outcome {
            Err(trouble) => {
                if line.trouble.as_ref().is_none_or(|old| (old.reason, &old.message) != (trouble.reason, &trouble.message)) {
                    tracing::warn!(source = %name, "{}", trouble.message);
                }
                // What is known of a commit says more than that the branch could not be looked at again.
                if trouble.again_at.is_none() {
                    line.fetched = None;
                }
                if line.fetched.is_none() {
                    line.trouble = Some(trouble);
                }
                false
            }
            Ok(None) => {
                if line.trouble.as_ref().is_some_and(|trouble| trouble.is_of_the_way) {
                    line.trouble = None;
                }
                false
            }
            Ok(Some(fetched)) => {
                (line.fetched, line.refused_with, line.trouble) = (Some(fetched), None, None);
                true
            }
        }
    }

    /// Takes into force what was fetched, where it validates together with all else that is declared. One may have waited for another.
    pub(super) async fn take_fetched(&mut self) {
        for _ in 0..self.sourcing.lines.len() {
            let names: Vec<Name> = self.sourcing.lines.keys().cloned().collect();
            let mut is_any_taken = false;
            for name in names {
                is_any_taken |= self.take_one(&name).await;
            }
            if !is_any_taken {
                return;
            }
        }
    }

    async fn take_one(&mut self, name: &Name) -> bool {
        let Some(line) = self.sourcing.lines.get(name) else { return false };
        let Some(fetched) = line.fetched.clone() else { return false };
        let (fetcher, spec, refused_with) = (line.fetcher.clone(), line.spec.clone(), line.refused_with);
        let Fetched { commit, signer, sources, .. } = fetched.clone();
        let record = Record { spec: spec.clone(), commit: commit.clone(), signer, at: self.ground.clock.now(), sources };
        let looked = match self.declared.look_at(name, &record) {
            Ok(looked) => looked,
            Err(error) => return self.refuse_fetched(name, "HomeUnusable", &chain(&error), None),
        };
        if refused_with == Some(looked.digest) {
            return false;
        }
        let before = self.declared.record(name).cloned();
        if let Err(problems) = &looked.result {
            let (reason, message) = told_of(problems, &record);
            return self.refuse_fetched(name, reason, &message, Some(looked.digest));
        }
        let folder = self.declared.records.folder(name);
        if !spec.allow_empty && !looked.has_any_below(&folder) && self.declared.has_any_below(&folder) {
            let message = format!("commit {} declares nothing at all; `allow_empty = true` would let it pass", short(&commit));
            return self.refuse_fetched(name, "Emptied", &message, Some(looked.digest));
        }
        let descends_from = before.filter(|before| {
            !spec.follow_rewrites && (&before.spec.git, &before.spec.branch) == (&spec.git, &spec.branch) && before.commit != commit
        });
        if let Some(before) = descends_from
            && let Err(error) = fetcher.check_descent(&before.commit, &commit).await
        {
            return self.refuse_fetched(name, error.reason(), &chain(&error), Some(looked.digest));
        }
        if let Err(error) = fetcher.place(&fetched).await {
            let refused = self.refuse_fetched(name, error.reason(), &chain(&error), None);
            // What was fetched may be gone with its repository, so it is fetched again.
            self.follow(name, spec);
            return refused;
        }
        if let Err(error) = self.declared.put_record(name, record) {
            return self.refuse_fetched(name, "HomeUnusable", &chain(&error), None);
        }
        if let Some(line) = self.sourcing.lines.get_mut(name) {
            (line.fetched, line.refused_with, line.trouble) = (None, None, None);
        }
        tracing::info!(source = %name, commit = %short(&commit), "a commit is in force");
        self.cause = Some((None, Cause::Fetched { source: name.clone(), commit }));
        true
    }

    fn refuse_fetched(&mut self, name: &Name, reason: &'static str, message: &str, with: Option<Digest>) -> bool {
        let Some(line) = self.sourcing.lines.get_mut(name) else { return false };
        tracing::warn!(source = %name, "{message}");
        line.trouble = Some(Trouble { reason, message: message.to_owned(), again_at: None, is_of_the_way: false });
        line.refused_with = with;
        false
    }

    /// How a source is, and whether what is in force is of its newest spec.
    pub(super) fn source(&self, name: &Name) -> (Vec<Condition>, bool) {
        use ConditionKind::{Progressing, Ready, Stalled};
        let declared = self.fleet.sources.get(name);
        let record = self.declared.record(name).filter(|record| declared.is_some_and(|spec| is_same_place(&record.spec, spec)));
        let trouble = self.sourcing.lines.get(name).and_then(|line| line.trouble.as_ref());
        let goes_on = self.declared.record(name).map(|record| format!("; commit {} goes on", short(&record.commit)));
        let rows = match (trouble, record) {
            (None, Some(Record { commit, signer, spec, at, .. })) => {
                let signed = signer.as_ref().map(|signer| format!(", signed by {signer},")).unwrap_or_default();
                let told = format!("commit {commit} of branch {}{signed} since {}", spec.branch, at.strftime("%Y-%m-%d %H:%M:%SZ"));
                [(true, "InForce", told), (false, "Settled", String::new()), (false, "Fine", String::new())]
            }
            (None, None) => {
                let told = format!("its branch is fetched{}", goes_on.unwrap_or_default());
                [(false, "Fetching", told), (true, "Fetching", String::new()), (false, "Fine", String::new())]
            }
            (Some(Trouble { reason, message, again_at, .. }), _) => {
                let told = format!("{message}{}", goes_on.unwrap_or_default());
                match again_at {
                    Some(at) => {
                        let again = format!("it is fetched again at {}", at.strftime("%Y-%m-%d %H:%M:%SZ"));
                        [(false, *reason, told), (true, "BackOff", again), (false, "Fine", String::new())]
                    }
                    None => [(false, *reason, told.clone()), (false, "Stalled", String::new()), (true, *reason, told)],
                }
            }
        };
        let conditions = [Ready, Progressing, Stalled].into_iter().zip(rows);
        (conditions.map(|(kind, (is, reason, told))| Condition::new(kind, is, reason, told)).collect(), record.is_some())
    }
}

/// The task that fetches one source.
struct Watch {
    name: Name,
    fetcher: Fetcher,
    every: Duration,
    clock: Clock,
    /// The commit that was last told of.
    seen: Option<String>,
}

impl Watch {
    async fn run(mut self, poke: Arc<Notify>, news: mpsc::Sender<News>) {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT.min(self.every.max(FIRST_WAIT)), Duration::MAX);
        loop {
            let looked = self.fetcher.fetch(self.seen.as_deref()).await;
            let (wait, outcome) = match looked {
                Ok(fetched) => {
                    backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT.min(self.every.max(FIRST_WAIT)), Duration::MAX);
                    self.seen = fetched.as_ref().map(|fetched| fetched.commit.clone()).or(self.seen);
                    (self.every, Ok(fetched))
                }
                Err(error) => {
                    let wait = match error.waits_for_people() {
                        true => self.every,
                        false => Backoff::spread(backoff.after(Duration::ZERO), rand::random()),
                    };
                    (wait, Err(self.trouble(&error, wait)))
                }
            };
            if news.send(News { name: self.name.clone(), outcome }).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = poke.notified() => {}
            }
        }
    }

    fn trouble(&self, error: &FetchError, wait: Duration) -> Trouble {
        let again_at = (!error.waits_for_people()).then(|| self.clock.now().saturating_add(wait).ok()).flatten();
        Trouble { reason: error.reason(), message: chain(error), again_at, is_of_the_way: true }
    }
}

/// How it is told that a commit does not validate: its own fault, or that of others.
fn told_of(problems: &Problems, record: &Record) -> (&'static str, String) {
    let is_own = record.sources.iter().any(|source| problems.concerns(&source.path));
    let lines = problems.lines();
    let first = lines.first().cloned().unwrap_or_default();
    let more = if lines.len() > 1 { format!(" (and {} more)", lines.len() - 1) } else { String::new() };
    match is_own {
        true => ("Invalid", format!("commit {} does not validate: {first}{more}", short(&record.commit))),
        false => {
            ("Waiting", format!("commit {} is not taken while other manifests have problems: {first}{more}", short(&record.commit)))
        }
    }
}
