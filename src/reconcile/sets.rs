use std::{collections::BTreeMap, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    manifest::Sources,
    store::{Home, KeepError, read_json, write_json},
    vocab::{Address, Name},
};

/// The manifests that were applied together, as they were then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedSet {
    pub sources: Vec<AppliedSource>,
    /// What the set was named after: the first path that was applied, or the name that was given. Another origin may not take its place.
    pub origin: String,
    /// Objects that were deleted since.
    #[serde(default)]
    pub deleted: Vec<Address>,
}

/// One manifest of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedSource {
    /// The path as it is shown.
    pub path: PathBuf,
    /// The absolute folder that relative paths in it start from.
    pub folder: PathBuf,
    pub text: String,
}

/// The applied sets of a home, one file each.
#[derive(Debug, Clone)]
pub(super) struct Sets {
    folder: PathBuf,
}

impl Sets {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Every set by its name.
    pub(super) fn all(&self) -> Result<BTreeMap<Name, AppliedSet>, KeepError> {
        let unreadable = |source| KeepError::Unreadable { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut sets = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(unreadable)?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Name::try_from(stem).ok());
            let is_set = path.extension().is_some_and(|extension| extension == "json");
            let Some(name) = stem.filter(|_| is_set) else { continue };
            sets.extend(read_json(&path)?.map(|set| (name, set)));
        }
        Ok(sets)
    }

    /// Keeps a set in the place of the one that had its name.
    pub(super) fn put(&self, name: &Name, set: &AppliedSet) -> Result<(), KeepError> {
        write_json(&self.path(name), set)
    }

    /// Forgets a set.
    pub(super) fn remove(&self, name: &Name) -> Result<(), KeepError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(KeepError::Unwritable { path, source }),
            _ => Ok(()),
        }
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// Adds what was applied to a home.
pub fn add_applied(home: &Home, sources: &mut Sources) -> Result<(), KeepError> {
    let sets = Sets::new(home.sets()).all()?;
    for source in sets.values().flat_map(|set| &set.sources) {
        sources.add_text(&source.path, &source.folder, &source.text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn set(text: &str) -> AppliedSet {
        let source = AppliedSource { path: "a.toml".into(), folder: "/x".into(), text: text.into() };
        AppliedSet { sources: vec![source], origin: "/x/a.toml".into(), deleted: Vec::new() }
    }

    #[test]
    fn a_set_is_kept_owner_only_and_read_back() {
        let home = tempfile::tempdir().unwrap();
        let sets = Sets::new(home.path().join("sets"));
        assert!(sets.all().unwrap().is_empty());
        let name = Name::try_from("hello").unwrap();
        for text in ["one", "two"] {
            sets.put(&name, &set(text)).unwrap();
            assert_eq!(sets.all().unwrap(), BTreeMap::from([(name.clone(), set(text))]));
        }
        let mode = fs::metadata(home.path().join("sets/hello.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        sets.remove(&name).unwrap();
        assert!(sets.all().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_set_is_named_and_not_passed_over() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("sets")).unwrap();
        fs::File::create_new(home.path().join("sets/hello.json")).unwrap().write_all(b"{").unwrap();
        let error = Sets::new(home.path().join("sets")).all().unwrap_err();
        assert!(error.to_string().contains("hello.json"), "{error}");
    }
}
