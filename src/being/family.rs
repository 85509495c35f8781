//! Children: what a being may make of its own money, and what becomes of them (SPEC §6).
//!
//! A child begins with one record, `child_spawned`, which takes its money out of its parent's balance and says all that it is born
//! with. Whoever animates children makes what the record says and is missing, so that a crash in between neither loses nor doubles any of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::{
    chat::ToolCall,
    event::Event,
    exchange::Ready,
    outcome::{Outcome, Status},
    rules::Rules,
    step::Being,
};
use crate::vocab::{Timestamp, Usd};

/// A being that this being spawned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Child {
    pub id: Uuid,
    /// The name that it calls itself by.
    pub name: String,
    /// What it is called after its parent's name in `parent.called`, unlike any other child of the parent.
    pub called: String,
    pub ticker: String,
    pub specialty: String,
    /// What it is born with.
    pub usd: Usd,
    /// From its parent's state directory.
    pub state_dir: String,
    pub created_at: Timestamp,
    pub status: ChildStatus,
    /// The call that made it, until the end of that call is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// What its parent knows of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildStatus {
    /// It lives, and counts.
    Running,
    /// It has spent all that it had; nothing more comes of it.
    Exhausted,
    /// An operator deleted it.
    Deleted,
}

impl fmt::Display for ChildStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Exhausted => "exhausted",
            Self::Deleted => "deleted",
        })
    }
}

/// How many children a being may have, and what each may be born with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildTerms {
    /// Children that may live at a time.
    pub max: u32,
    pub budget: Usd,
}

/// A child that a call asks for, its texts checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    pub id: Uuid,
    pub name: String,
    pub ticker: String,
    pub specialty: String,
    /// What it is to be born with; `None` is all that a child may.
    pub usd: Option<Usd>,
    /// The process that will animate it.
    pub pid: u32,
}

/// Why a child is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum SpawnError {
    #[error("the operator allows no children")]
    NotAllowed,
    #[error(
        "{living} children live, and the operator allows {max}; one that has spent all its money or was deleted does not count"
    )]
    TooMany { living: usize, max: u32 },
    #[error("a child is born with more than 0 USD, and {usd} were asked for")]
    Nothing { usd: Usd },
    #[error("the operator lets a child be born with up to {most} USD, and {usd} were asked for")]
    TooMuch { usd: Usd, most: Usd },
    #[error("{left} USD are left, and the child would be born with {usd}; ask for less with `usd`")]
    TooPoor { usd: Usd, left: Usd },
    #[error("a child called `{0}` was made before; choose another name")]
    Taken(String),
}

/// What a refused child is answered with.
const REFUSED: &str = "child_refused";
/// How long that part of a child's name may be which stands for what it was named.
const MAX_CALLED: usize = 31;

impl Being {
    /// Makes the child that a call asks for, if it may be: its money and all that it is born with are one record. The outcome is what
    /// the model is told.
    pub(super) fn spawn(
        &mut self,
        rules: &Rules,
        call: &ToolCall,
        mut outcome: Outcome,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Outcome {
        let Some(spawn) = outcome.spawn.take().filter(|_| outcome.status == Status::Success) else { return outcome };
        let pid = spawn.pid;
        match self.admit(rules.children, *spawn, call, now) {
            Err(error) => Outcome::failed(REFUSED, error.to_string()),
            Ok(child) => {
                let told = Outcome::success(json!({ "child_id": child.id, "pid": pid, "usd": child.usd }));
                self.note(ready, Event::ChildSpawned { child: Box::new(child) }, now);
                told
            }
        }
    }

    fn admit(&self, terms: Option<ChildTerms>, spawn: Spawn, call: &ToolCall, now: Timestamp) -> Result<Child, SpawnError> {
        let ChildTerms { max, budget } = terms.ok_or(SpawnError::NotAllowed)?;
        let (children, left) = (&self.state().mind.children, self.state().budget.remaining);
        let living = children.iter().filter(|child| child.status == ChildStatus::Running).count();
        if usize::try_from(max).is_ok_and(|max| living >= max) {
            return Err(SpawnError::TooMany { living, max });
        }
        let Spawn { id, name, ticker, specialty, usd, .. } = spawn;
        let usd = usd.unwrap_or(budget);
        if !usd.is_positive() {
            return Err(SpawnError::Nothing { usd });
        }
        if usd > budget {
            return Err(SpawnError::TooMuch { usd, most: budget });
        }
        if usd > left {
            return Err(SpawnError::TooPoor { usd, left });
        }
        let called = called(&name, id);
        if children.iter().any(|child| child.called == called || child.id == id) {
            return Err(SpawnError::Taken(called));
        }
        let state_dir = format!("children/{id}");
        let call_id = Some(call.id.clone());
        Ok(Child { id, name, called, ticker, specialty, usd, state_dir, created_at: now, status: ChildStatus::Running, call_id })
    }

    /// Notes what became of a child, once.
    pub(super) fn hear_of_child(&mut self, id: Uuid, status: ChildStatus, ready: &mut Ready, now: Timestamp) {
        let known = self.state().mind.children.iter().find(|child| child.id == id);
        // A child that an operator deleted stays so, and one that had nothing left does not count again.
        if known.is_some_and(|child| child.status < status) {
            self.note(ready, Event::ChildChanged { id, status }, now);
        }
    }

    /// What a call made of which only the beginning of its end was recorded.
    pub(super) fn spawned_by(&self, call: &ToolCall) -> Option<Outcome> {
        let made = self.state().mind.children.iter().find(|child| child.call_id.as_ref() == Some(&call.id))?;
        Some(Outcome::success(json!({ "child_id": made.id, "usd": made.usd })))
    }
}

/// What stands for a name in an address: its letters and digits, lowercase, with `-` between words. A name that has none is told by
/// its id.
fn called(name: &str, id: Uuid) -> String {
    let mut called = String::new();
    for letter in name.chars().map(|letter| letter.to_ascii_lowercase()) {
        match letter {
            'a'..='z' | '0'..='9' => called.push(letter),
            _ if called.ends_with('-') || called.is_empty() => {}
            _ => called.push('-'),
        }
    }
    called.truncate(MAX_CALLED);
    match called.trim_end_matches('-') {
        "" => format!("child-{:.8}", id.simple().to_string()),
        called => called.to_owned(),
    }
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
