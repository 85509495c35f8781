//! Families: a child lives in its parent's state directory, `children/<uuid>`, and what it is called there, its parent's state says.

use std::path::{Path, PathBuf};

use super::{error::StoreError, home::Home, home::HomeError, observe::peek};
use crate::{
    being::{AgentState, Child},
    vocab::Name,
};

/// A life as it lies in its home.
#[derive(Debug)]
pub struct Lying {
    pub name: Name,
    pub dir: PathBuf,
    /// `None` where there is a folder, or a parent that tells of it, and no life yet.
    pub state: Result<Option<AgentState>, StoreError>,
}

/// Every life of a home, each followed by its children. It waits for the disk.
pub fn lives(home: &Home) -> Result<Vec<Lying>, HomeError> {
    let mut found = Vec::new();
    let mut open: Vec<(Name, PathBuf)> =
        home.beings()?.into_iter().rev().map(|name| (name.clone(), home.being_dir(&name))).collect();
    while let Some((name, dir)) = open.pop() {
        let state = peek(&dir);
        let children = state.iter().flatten().flat_map(|state| state.mind.children.iter().rev());
        open.extend(children.filter_map(|child| Some((name.child(&child.called).ok()?, child_dir(&dir, child)))));
        found.push(Lying { name, dir, state });
    }
    Ok(found)
}

/// Where the life of a being is, or will be; `None` for a child that its parent knows nothing of.
pub fn dir_of(home: &Home, name: &Name) -> Result<Option<PathBuf>, StoreError> {
    let Some(parent) = name.parent() else { return Ok(Some(home.being_dir(name))) };
    let Some(above) = dir_of(home, &parent)? else { return Ok(None) };
    let state = peek(&above)?;
    let mut children = state.iter().flat_map(|state| &state.mind.children);
    let is_meant = |child: &&Child| parent.child(&child.called).is_ok_and(|called| called == *name);
    Ok(children.find(is_meant).map(|child| child_dir(&above, child)))
}

/// The state directory of a child, in that of its parent.
pub fn child_dir(parent: &Path, child: &Child) -> PathBuf {
    parent.join("children").join(child.id.to_string())
}
