use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    log::{LogBounds, append, files},
    row::{LabelSource, Row},
};
use crate::vocab::Timestamp;

/// A log as it was kept: every decision, with what people said of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    pub rows: Vec<Row>,
    /// Lines that are no rows: what a crash cut off, or somebody else's.
    pub torn: usize,
}

/// What a person says would have been right: a line of its own, after the row that it is about.
#[derive(Debug, Serialize, Deserialize)]
struct Relabel {
    relabel: String,
    observed_outcome: String,
    ts: f64,
}

/// Why a log can't be read or told otherwise.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot use {}", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no row with id {0}; `singularity decisions export` lists them")]
    Unknown(String),
    #[error("`{option}` is no option of {id}; it has {}", options.join(", "))]
    NoOption { id: String, option: String, options: Vec<String> },
}

/// Reads the log of a folder, oldest first. One that is not there holds nothing.
pub fn kept(folder: &Path) -> Result<Kept, LogError> {
    let (mut kept, mut places, mut said) = (Kept::default(), BTreeMap::new(), Vec::new());
    for path in files(folder) {
        let unusable = |source| LogError::Unusable { path: path.clone(), source };
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(unusable)?,
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(unusable)?;
            let value: Value = serde_json::from_slice(&line).unwrap_or_default();
            if let Ok(relabel) = Relabel::deserialize(&value) {
                said.push(relabel);
            } else if let Ok(row) = Row::deserialize(&value) {
                places.insert(row.id.clone(), kept.rows.len());
                kept.rows.push(row);
            } else if !line.trim_ascii().is_empty() {
                kept.torn += 1;
            }
        }
    }
    for Relabel { relabel, observed_outcome, .. } in said {
        if let Some(row) = places.get(&relabel).and_then(|at| kept.rows.get_mut(*at)) {
            row.observed_outcome = Some(observed_outcome);
            row.label_source = LabelSource::Human;
        }
    }
    Ok(kept)
}

/// Puts down what a person says would have been right about a decision. The row itself stays as it was written.
pub fn relabel(folder: &Path, id: &str, option: &str, now: Timestamp) -> Result<(), LogError> {
    let kept = kept(folder)?;
    let row = kept.rows.iter().rev().find(|row| row.id == id).ok_or_else(|| LogError::Unknown(id.to_owned()))?;
    let options: Vec<String> = row.options.iter().map(|option| option.id.clone()).collect();
    if !options.iter().any(|known| known == option) {
        return Err(LogError::NoOption { id: id.to_owned(), option: option.to_owned(), options });
    }
    let said = Relabel { relabel: id.to_owned(), observed_outcome: option.to_owned(), ts: now.as_duration().as_secs_f64() };
    let line = serde_json::to_string(&said).unwrap_or_default() + "\n";
    let unusable = |source| LogError::Unusable { path: folder.to_owned(), source };
    append(folder, line.as_bytes(), LogBounds::default()).map_err(unusable)
}
