use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    manifest::SourceSpec,
    reconcile::AppliedSource,
    store::{Home, KeepError, read_json, write_json},
    vocab::{Name, Timestamp},
};

/// What of a source is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::reconcile) struct Record {
    /// As it was when this was fetched.
    pub(in crate::reconcile) spec: SourceSpec,
    /// In hexadecimal.
    pub(in crate::reconcile) commit: String,
    /// Who signed it, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::reconcile) signer: Option<String>,
    /// When it came into force.
    pub(in crate::reconcile) at: Timestamp,
    /// The manifests of the commit, with paths below the source's `tree`.
    pub(in crate::reconcile) sources: Vec<AppliedSource>,
}

/// What a home keeps of its sources: a folder each, with the record, the repository and the files of the commit in force.
#[derive(Debug, Clone)]
pub(in crate::reconcile) struct Records {
    folder: PathBuf,
}

const RECORD: &str = "record.json";
const REPOSITORY: &str = "repository.git";

impl Records {
    /// Those of a home.
    pub(in crate::reconcile) fn of(home: &Home) -> Self {
        Self { folder: home.sources() }
    }

    /// The folder of one source.
    pub(in crate::reconcile) fn folder(&self, name: &Name) -> PathBuf {
        self.folder.join(name.as_str())
    }

    /// The source that a path of its files leads to.
    pub(in crate::reconcile) fn source_of(&self, path: &Path) -> Option<Name> {
        let first = path.strip_prefix(&self.folder).ok()?.components().next()?;
        Name::try_from(first.as_os_str().to_str()?).ok()
    }

    /// Every record by the name of its source.
    pub(in crate::reconcile) fn all(&self) -> Result<BTreeMap<Name, Record>, KeepError> {
        let unreadable = |source| KeepError::Unreadable { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut records = BTreeMap::new();
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str().and_then(|name| Name::try_from(name).ok()) else { continue };
            records.extend(read_json(&self.folder(&name).join(RECORD))?.map(|record| (name, record)));
        }
        Ok(records)
    }

    /// Keeps a record in the place of the one before.
    pub(in crate::reconcile) fn put(&self, name: &Name, record: &Record) -> Result<(), KeepError> {
        write_json(&self.folder(name).join(RECORD), record)
    }

    /// Forgets a source that is declared no more. Its files stay, for beings may have worked among them.
    pub(in crate::reconcile) fn forget(&self, name: &Name) -> Result<(), KeepError> {
        let folder = self.folder(name);
        let gone = |path: PathBuf, done: io::Result<()>| match done {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(KeepError::Unwritable { path, source }),
            _ => Ok(()),
        };
        let (record, repository) = (folder.join(RECORD), repository(&folder));
        gone(record.clone(), fs::remove_file(record))?;
        gone(repository.clone(), fs::remove_dir_all(repository))
    }
}

/// Where the commits of a source are kept.
pub(super) fn repository(folder: &Path) -> PathBuf {
    folder.join(REPOSITORY)
}

/// Tells whether what was fetched for one spec is what another one wants: the same place, and signers that were asked for.
pub(in crate::reconcile) fn is_same_place(one: &SourceSpec, other: &SourceSpec) -> bool {
    let place = |spec: &SourceSpec| (spec.git.clone(), spec.branch.clone(), spec.path.clone(), spec.allowed_signers.clone());
    place(one) == place(other)
}
