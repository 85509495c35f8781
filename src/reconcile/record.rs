//! What people ask for, put on record: durable before anything is done about it, and again with what came of it.

use std::sync::Arc;

use super::{AppliedSet, RequestError};
use crate::{
    runtime::{Answer, Clock, Ground, Word},
    store::{AuditEntry, AuditError, AuditLog, AuditOutcome},
    vocab::{Digest, Name, Operator, Reason, chain},
};

/// Puts on record. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Record {
    log: Arc<AuditLog>,
    clock: Clock,
}

/// Something that a person asks for, as it is put on record: without answers' values, manifests and secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Act {
    verb: &'static str,
    about: String,
    because: Option<Reason>,
    /// Whether why it is refused may be told: it may repeat what a person said to a being.
    is_told: bool,
}

impl Act {
    pub(super) const fn new(verb: &'static str, about: String) -> Self {
        Self { verb, about, because: None, is_told: true }
    }

    pub(super) fn because(self, because: Option<Reason>) -> Self {
        Self { because, ..self }
    }

    /// A set that is applied, by its origin and what identifies its text.
    pub(super) fn apply(set: &Name, content: &AppliedSet) -> Self {
        let digest = Digest::of(serde_json::to_vec(&content.sources).unwrap_or_default());
        Self::new("apply", format!("set {set} from {}, of SHA-256 {digest}", content.origin))
    }

    /// A word about a question: which, and not what was said.
    pub(super) fn answer(being: &Name, number: u64, word: &Word) -> Self {
        let verb = match word.answer {
            Answer::Approved => "approve",
            Answer::Denied { .. } => "deny",
            Answer::Given | Answer::Expired => "answer",
        };
        Self { is_told: false, ..Self::new(verb, format!("{being}.{number}")) }
    }

    /// A consent to tokens for a surface.
    pub(super) fn consent(surface: &Name) -> Self {
        Self { is_told: false, ..Self::new("answer", format!("surface/{surface}")) }
    }
}

impl Record {
    /// Opens the record of a home; what is wrong with it is logged.
    pub(super) fn open(ground: &Ground) -> Result<Self, AuditError> {
        let (log, wrong) = AuditLog::open(&ground.home)?;
        wrong.iter().for_each(|wrong| tracing::error!("{wrong}"));
        Ok(Self { log: Arc::new(log), clock: ground.clock.clone() })
    }

    /// Puts on record that something is asked for, and yields the line's number. The error says that nothing may be done.
    pub(super) fn begin(&self, by: Operator, act: &Act) -> Result<u64, AuditError> {
        let Act { verb, about, because, .. } = act.clone();
        self.append(by, AuditEntry::Asked { verb: verb.to_owned(), about, because })
    }

    /// Puts on record what came of it. When that fails, the line stays without an end, and the log says so.
    pub(super) fn end<T>(&self, by: Operator, of: u64, act: &Act, done: &Result<T, RequestError>) {
        let (outcome, told) = outcome(done);
        let told = told.filter(|_| act.is_told);
        if let Err(error) = self.append(by, AuditEntry::Ended { of, outcome, told }) {
            tracing::error!("{}; what came of line {of} is not on record", chain(&error));
        }
    }

    fn append(&self, by: Operator, entry: AuditEntry) -> Result<u64, AuditError> {
        tokio::task::block_in_place(|| self.log.append(self.clock.now(), by, entry))
    }
}

/// How a request ended. Problems of manifests show lines of them, and are not repeated.
fn outcome<T>(done: &Result<T, RequestError>) -> (AuditOutcome, Option<String>) {
    match done {
        Ok(_) => (AuditOutcome::Done, None),
        Err(RequestError::Invalid(_)) => (AuditOutcome::Refused, Some("the manifests do not validate".to_owned())),
        Err(RequestError::Troubled(_)) => (AuditOutcome::Refused, Some("the manifests have problems".to_owned())),
        Err(RequestError::Refused(why)) => (AuditOutcome::Refused, Some(why.clone())),
        Err(error @ (RequestError::Keep(_) | RequestError::Audit(_) | RequestError::Leaving)) => {
            (AuditOutcome::Failed, Some(chain(error)))
        }
    }
}
