use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    reconcile::{AppliedSet, Notice, Status, Whom, Word},
    vocab::{Address, Name, Reason, Usd},
};

/// Asks that a set of manifests be applied, in the place of what had its name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    pub set: Name,
    pub content: AppliedSet,
    /// Only tell what would change.
    pub dry_run: bool,
}

/// What applying changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyAnswer {
    /// The plan as people read it.
    pub plan: String,
    /// Whether nothing changes and nothing is refused.
    pub is_settled: bool,
    /// The objects of the set.
    pub addresses: Vec<Address>,
}

/// Asks that an object, or a whole set, be taken away.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DeleteRequest {
    Object { address: Address, purge: bool },
    Set { set: Name },
}

/// What a person says about a question of a being.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    pub being: Name,
    pub number: u64,
    pub word: Word,
}

/// What a person brought from the authorization server of a surface.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    pub surface: Name,
    /// The address that their browser was sent to, or the code alone. It is secret for as long as it counts.
    pub answer: String,
}

impl fmt::Debug for ConsentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsentRequest").field("surface", &self.surface).finish_non_exhaustive()
    }
}

/// Asks that beings ask no model until they are resumed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    pub whom: Whom,
    pub reason: Option<Reason>,
}

/// Asks that a being be given money, once for the id.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FundRequest {
    pub being: Name,
    pub id: String,
    pub usd: Usd,
    pub reason: Option<Reason>,
}

/// What happened to objects since the daemon runs, oldest first: what `events -o json` prints.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Events")]
pub struct EventList {
    /// The last of them, at most 1000.
    #[schemars(title = "Items")]
    pub items: Vec<Notice>,
}

/// Asks that beings that were paused go on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    pub whom: Whom,
}

/// Asks that nothing that is declared change any more, or that it may again.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FreezeRequest {
    Freeze { reason: Option<Reason> },
    Lift {},
}

/// Asks that what an older revision declared be declared again.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The number of the revision; without it the newest that was applied otherwise than what is now.
    pub to: Option<u64>,
    /// Only tell what would change.
    pub dry_run: bool,
}

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// Sentences for people.
    pub done: Vec<String>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    pub pid: u32,
    pub version: String,
    pub home: PathBuf,
    /// Folders that are served beside the applied sets.
    pub folders: Vec<PathBuf>,
}

/// The daemon and what it knows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusAnswer {
    pub daemon: Daemon,
    pub status: Status,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub class: RefusalClass,
    pub message: String,
}

/// The kind of a refusal, which picks the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalClass {
    Configuration,
    State,
    Runtime,
}
