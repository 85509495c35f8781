use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    AppliedSet, Notice, Status, Whom,
    notices::Notices,
    record::{Act, Record},
};
use crate::{
    manifest::Problems,
    plan::Plan,
    runtime::Word,
    store::{AuditError, KeepError},
    vocab::{Address, Name, Operator, Reason, Usd},
};

/// Asks the reconciler for changes, and shows what it knows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    status: watch::Receiver<Arc<Status>>,
    notices: watch::Receiver<Notices>,
    record: Record,
    pub(super) down: CancellationToken,
}

/// What is asked, and where the answer goes.
#[derive(Debug)]
pub(super) enum Request {
    Apply { set: Name, content: AppliedSet, by: Operator, dry_run: bool, reply: Reply<Applied> },
    Delete { address: Address, by: Operator, purge: bool, reply: Reply<Vec<String>> },
    DeleteSet { set: Name, by: Operator, reply: Reply<Vec<String>> },
    RollBack { to: Option<u64>, by: Operator, dry_run: bool, reply: Reply<Applied> },
    Freeze { by: Operator, reason: Option<Reason>, reply: Reply<Vec<String>> },
    Thaw { reply: Reply<Vec<String>> },
    Pause { whom: Whom, by: Operator, reason: Option<Reason>, reply: Reply<Vec<String>> },
    Fund { being: Name, id: String, usd: Usd, reply: Reply<Vec<String>> },
    Resume { whom: Whom, reply: Reply<Vec<String>> },
    Answer { being: Name, number: u64, word: Word, reply: Reply<()> },
    Consent { surface: Name, answer: String, reply: Reply<()> },
    Look { reply: Reply<()> },
    Ping { reply: Reply<()> },
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, RequestError>>;

/// What applying a set changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What is done with each address.
    pub plan: Plan,
    /// The objects of the set.
    pub addresses: Vec<Address>,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Invalid(Problems),
    #[error("{0}")]
    Refused(String),
    /// What is declared and what holds now do not agree: the problems, one a line.
    #[error("{0}")]
    Troubled(String),
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("the daemon is stopping")]
    Leaving,
}

/// Requests that may wait.
const MAX_WAITING_REQUESTS: usize = 16;

impl Handle {
    /// Makes a handle that shows a status, and the end where its requests come out.
    pub(super) fn new(
        (status, notices): (watch::Receiver<Arc<Status>>, watch::Receiver<Notices>),
        record: Record,
    ) -> (Self, mpsc::Receiver<Request>) {
        let (sender, requests) = mpsc::channel(MAX_WAITING_REQUESTS);
        (Self { requests: sender, status, notices, record, down: CancellationToken::new() }, requests)
    }

    /// What is known now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// What happened since the daemon runs, as far as it is kept; with `after`, what came after that number, waiting for some.
    pub async fn events(&self, after: Option<u64>) -> Vec<Notice> {
        let mut notices = self.notices.clone();
        if let Some(number) = after {
            let _the_daemon_ends = notices.wait_for(|notices| notices.has_after(number)).await;
        }
        notices.borrow().after(after.unwrap_or(0))
    }

    /// Gives a being money, once for each id.
    pub async fn fund(
        &self,
        being: Name,
        id: String,
        usd: Usd,
        by: Operator,
        because: Option<Reason>,
    ) -> Result<Vec<String>, RequestError> {
        let act = Act::new("fund", format!("{usd} USD for being/{being} as {id}")).because(because);
        self.recorded(by, Some(act), move |reply| Request::Fund { being, id, usd, reply }).await
    }

    /// Applies a set in the place of what had its name, or only tells what that would change.
    pub async fn apply(&self, set: Name, content: AppliedSet, by: Operator, dry_run: bool) -> Result<Applied, RequestError> {
        let act = (!dry_run).then(|| Act::apply(&set, &content));
        self.recorded(by, act, move |reply| Request::Apply { set, content, by, dry_run, reply }).await
    }

    /// Declares what an older revision declared, or only tells what that would change; without a number the newest that was applied
    /// otherwise than what is now.
    pub async fn roll_back(&self, to: Option<u64>, by: Operator, dry_run: bool) -> Result<Applied, RequestError> {
        let about = to.map_or_else(|| "the revision before".to_owned(), |number| format!("revision {number}"));
        let act = (!dry_run).then(|| Act::new("rollback", about));
        self.recorded(by, act, move |reply| Request::RollBack { to, by, dry_run, reply }).await
    }

    /// Takes an applied object away; `purge` removes a being's state too.
    pub async fn delete(&self, address: Address, by: Operator, purge: bool) -> Result<Vec<String>, RequestError> {
        let about = if purge { format!("{address} and its state") } else { address.to_string() };
        self.recorded(by, Some(Act::new("delete", about)), move |reply| Request::Delete { address, by, purge, reply }).await
    }

    /// Takes an applied set away.
    pub async fn delete_set(&self, set: Name, by: Operator) -> Result<Vec<String>, RequestError> {
        let act = Act::new("delete", format!("set {set}"));
        self.recorded(by, Some(act), move |reply| Request::DeleteSet { set, by, reply }).await
    }

    /// Freezes the fleet until that is lifted, also through restarts: nothing that is declared changes.
    pub async fn freeze(&self, by: Operator, reason: Option<Reason>) -> Result<Vec<String>, RequestError> {
        let act = Act::new("freeze", "the fleet".to_owned()).because(reason.clone());
        self.recorded(by, Some(act), move |reply| Request::Freeze { by, reason, reply }).await
    }

    /// Lifts a freeze.
    pub async fn thaw(&self, by: Operator) -> Result<Vec<String>, RequestError> {
        let act = Act::new("freeze --lift", "the fleet".to_owned());
        self.recorded(by, Some(act), move |reply| Request::Thaw { reply }).await
    }

    /// Pauses beings until they are resumed, also through restarts. Done once it is durable; each finishes what is under way.
    pub async fn pause(&self, whom: Whom, by: Operator, reason: Option<Reason>) -> Result<Vec<String>, RequestError> {
        let act = Act::new("pause", whom.to_string()).because(reason.clone());
        self.recorded(by, Some(act), move |reply| Request::Pause { whom, by, reason, reply }).await
    }

    /// Resumes beings that were paused.
    pub async fn resume(&self, whom: Whom, by: Operator) -> Result<Vec<String>, RequestError> {
        let act = Act::new("resume", whom.to_string());
        self.recorded(by, Some(act), move |reply| Request::Resume { whom, reply }).await
    }

    /// Hands a person's word about a question to its being; done once it is durable.
    pub async fn answer(&self, being: Name, number: u64, word: Word, by: Operator) -> Result<(), RequestError> {
        let act = Act::answer(&being, number, &word);
        self.recorded(by, Some(act), move |reply| Request::Answer { being, number, word, reply }).await
    }

    /// Hands over what a person brought from the authorization server of a surface; done once there is a token.
    pub async fn consent(&self, surface: Name, answer: String, by: Operator) -> Result<(), RequestError> {
        let act = Act::consent(&surface);
        self.recorded(by, Some(act), move |reply| Request::Consent { surface, answer, reply }).await
    }

    /// Ends the reconciler once all beings are stopped, because somebody asked for it.
    pub fn asked_down(&self, by: Operator) -> Result<(), RequestError> {
        let act = Act::new("down", "the daemon and all beings".to_owned());
        let asked = self.record.begin(by, &act)?;
        self.record.end(by, asked, &act, &Ok(()));
        self.down();
        Ok(())
    }

    /// Reads the served files again, also where they look as they did; done once what changed is in force.
    pub async fn look_again(&self) -> Result<(), RequestError> {
        self.ask(|reply| Request::Look { reply }).await
    }

    /// Answers once the reconciler gets to it: it is alive.
    pub async fn ping(&self) -> Result<(), RequestError> {
        self.ask(|reply| Request::Ping { reply }).await
    }

    /// Ends the reconciler once all beings are stopped.
    pub fn down(&self) {
        self.down.cancel();
    }

    /// Waits until the end was asked for.
    pub async fn leaving(&self) {
        self.down.cancelled().await;
    }

    /// Puts on record that something is asked for, has it carried out, and puts on record what came of it; what changes nothing has no
    /// act. It is carried out to its end also where the asker leaves meanwhile.
    async fn recorded<T: Send + 'static>(
        &self,
        by: Operator,
        act: Option<Act>,
        request: impl FnOnce(Reply<T>) -> Request + Send + 'static,
    ) -> Result<T, RequestError> {
        let Some(act) = act else { return self.ask(request).await };
        let handle = self.clone();
        let work = async move {
            let asked = handle.record.begin(by, &act)?;
            let done = handle.ask(request).await;
            handle.record.end(by, asked, &act, &done);
            done
        };
        tokio::spawn(work).await.unwrap_or(Err(RequestError::Leaving))
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| RequestError::Leaving)?;
        answer.await.map_err(|_| RequestError::Leaving)?
    }
}
