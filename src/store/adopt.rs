use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    error::StoreError,
    folder::{Folder as _, OsFolder, PICTURE},
    life::Life,
    picture::{self, Picture},
    repair::put_aside,
    rescue::{RescueError, aside},
    survey::examine,
};
use crate::{
    being::AgentState,
    vocab::{Timestamp, Usd},
};

/// What an edit changes, and where the files are that it was made of.
#[derive(Debug)]
pub struct Adoption {
    /// Fields that differ, money by each of its parts: name, before, after.
    pub changes: Vec<(String, Value, Value)>,
    /// The files that were kept, if it was done.
    pub kept: Option<Kept>,
}

/// Files that an adoption kept beside the new picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The picture as it was edited.
    pub edited: PathBuf,
    /// The picture that the journal made.
    pub before: PathBuf,
}

/// Accepts a picture that was edited by hand, with consent: what the being is from here on is what it says.
pub fn adopt(dir: &Path, has_consent: bool, at: Timestamp) -> Result<Adoption, RescueError> {
    let no_life = || RescueError::NoLife { dir: dir.to_owned() };
    OsFolder::look(dir)?.ok_or_else(no_life)?;
    let mut folder = OsFolder::lock(dir)?;
    let path = folder.path(PICTURE);
    let examined = examine(&folder)?.ok_or_else(no_life)?;
    if examined.survey.damage.is_some() || !examined.survey.worn.is_empty() {
        return Err(RescueError::Damaged { dir: dir.to_owned() });
    }
    let file = folder.file(PICTURE).map_err(StoreError::Access)?;
    let edited = Picture::read(file.ok_or_else(|| RescueError::NothingToAdopt { path: path.clone() })?, &path)?.state;
    let stored = examined.replay.state.as_ref().ok_or_else(|| RescueError::NothingWhole { dir: dir.to_owned() })?;
    judge(stored, &edited, &path)?;
    let changes = changes(stored, &edited);
    if !has_consent {
        return Ok(Adoption { changes, kept: None });
    }
    let before = aside(&path, "before");
    let name = before.file_name().unwrap_or_default().to_string_lossy().into_owned();
    RescueError::failed("write", &before, folder.create(&name, &picture::draw(stored)?).and_then(|()| folder.sync_names()))?;
    let edited_as = put_aside(&mut folder, "edited")?.ok_or_else(no_life)?;
    Life::at_rest(Box::new(folder), &examined.replay)?.adopt(&edited, &examined.replay.open_calls, at)?;
    Ok(Adoption { changes, kept: Some(Kept { edited: edited_as, before }) })
}

/// Refuses what would make another being of it, undo what happened, or make money out of nothing.
fn judge(stored: &AgentState, edited: &AgentState, path: &Path) -> Result<(), RescueError> {
    let path = path.to_owned();
    if stored == edited {
        return Err(RescueError::NothingToAdopt { path });
    }
    let fields = differing(&object(&stored.identity), &object(&edited.identity));
    if !fields.is_empty() {
        return Err(RescueError::OtherBeing { path, fields });
    }
    let what = taken_back(stored, edited);
    if !what.is_empty() {
        return Err(RescueError::TakesBack { path, what });
    }
    let budget = &edited.budget;
    let children: Usd = edited.mind.children.iter().map(|child| child.usd).sum();
    match budget.is_balanced() {
        true if budget.given == children => Ok(()),
        true => Err(RescueError::OtherGifts { path, given: budget.given, children }),
        false => Err(RescueError::Unbalanced { path, found: budget.remaining, expected: budget.expected() }),
    }
}

/// What only grows, and makes that money counts once.
fn taken_back(stored: &AgentState, edited: &AgentState) -> Vec<String> {
    let (before, after) = (&stored.budget, &edited.budget);
    let grants = before.granted.keys().filter(|id| !after.granted.contains_key(*id)).map(|id| format!("the grant `{id}`"));
    let credits = before.credited.difference(&after.credited).map(|id| format!("the credit `{id}`"));
    let kept: BTreeSet<_> = edited.mind.children.iter().map(|child| (child.id, child.usd)).collect();
    let children = stored.mind.children.iter().filter(|child| !kept.contains(&(child.id, child.usd)));
    let children = children.map(|child| format!("the child `{}`", child.called));
    let cycle = (edited.cycle < stored.cycle).then(|| format!("cycle {}", stored.cycle));
    let slot = stored.slot.filter(|_| edited.slot < stored.slot).map(|slot| format!("the slot {slot}"));
    let birth = (edited.started_at != stored.started_at).then(|| "the time of birth".to_owned());
    cycle.into_iter().chain(slot).chain(birth).chain(grants).chain(credits).chain(children).collect()
}

fn changes(stored: &AgentState, edited: &AgentState) -> Vec<(String, Value, Value)> {
    let (before, after) = (object(stored), object(edited));
    let part = |of: &Value, name: &str| of.get(name).cloned().unwrap_or(Value::Null);
    let mut changes = Vec::new();
    for name in differing(&before, &after) {
        let (old, new) = (part(&before, &name), part(&after, &name));
        if name == "budget" {
            changes.extend(
                differing(&old, &new).iter().map(|inner| (format!("budget.{inner}"), part(&old, inner), part(&new, inner))),
            );
        } else {
            changes.push((name, old, new));
        }
    }
    changes
}

fn object(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn differing(before: &Value, after: &Value) -> Vec<String> {
    let names = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect::<BTreeSet<_>>()).unwrap_or_default();
    let all: BTreeSet<String> = names(before).union(&names(after)).cloned().collect();
    all.into_iter().filter(|name| before.get(name) != after.get(name)).collect()
}
