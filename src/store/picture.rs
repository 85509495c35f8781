use std::{io::Read, path::Path};

use serde::Deserialize;

use super::{error::StoreError, scan::wide};
use crate::{
    being::{AgentState, SCHEMA_VERSION},
    vocab::Digest,
};

/// The most bytes of a picture.
const MAX_PICTURE: usize = 1 << 30;

/// `state.json` as it was found.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) state: AgentState,
    pub(super) digest: Digest,
    pub(super) length: u64,
}

#[derive(Deserialize)]
struct Version {
    schema_version: String,
}

impl Picture {
    /// Reads a picture; another schema, unknown fields and what is no JSON are refused.
    pub(super) fn read(file: impl Read, path: &Path) -> Result<Self, StoreError> {
        let mut bytes = Vec::new();
        let unreadable = |source| StoreError::Unreadable { path: path.to_owned(), source };
        file.take(wide(MAX_PICTURE).saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
        fits(bytes.len())?;
        let unparsable = |source| StoreError::Unparsable { path: path.to_owned(), offset: offset(&bytes, &source), source };
        let Version { schema_version: version } = serde_json::from_slice(&bytes).map_err(unparsable)?;
        if version != SCHEMA_VERSION {
            return Err(StoreError::UnsupportedSchema { path: path.to_owned(), version });
        }
        let state = serde_json::from_slice(&bytes).map_err(unparsable)?;
        Ok(Self { state, digest: Digest::of(&bytes), length: wide(bytes.len()) })
    }
}

/// Draws the picture of a state.
pub(super) fn draw(state: &AgentState) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec_pretty(state).map_err(|error| StoreError::Unencodable(error.into()))?;
    bytes.push(b'\n');
    fits(bytes.len())?;
    Ok(bytes)
}

const fn fits(bytes: usize) -> Result<(), StoreError> {
    if bytes > MAX_PICTURE { Err(StoreError::TooLarge { bytes, max: MAX_PICTURE }) } else { Ok(()) }
}

/// Where in `bytes` an error is; serde tells line and column.
fn offset(bytes: &[u8], error: &serde_json::Error) -> u64 {
    let lines_before = error.line().saturating_sub(1);
    let before: usize = bytes.split_inclusive(|byte| *byte == b'\n').take(lines_before).map(<[u8]>::len).sum();
    wide(before.saturating_add(error.column()).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_refused_only_past_its_bound() {
        assert!(fits(0).is_ok() && fits(MAX_PICTURE).is_ok());
        let refused = fits(MAX_PICTURE + 1);
        assert!(
            matches!(refused, Err(StoreError::TooLarge { bytes, max: MAX_PICTURE }) if bytes == MAX_PICTURE + 1),
            "{refused:?}"
        );
    }

    #[test]
    fn an_error_in_a_picture_is_told_by_its_byte() {
        for text in ["[1, x]", "x", "{\n  \"a\": 1,\n  \"b\": x\n}", "[\"\u{e4}\u{e4}\",\n x]"] {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            let at = text.find('x').unwrap();
            assert_eq!(offset(text.as_bytes(), &error), wide(at), "{text}: {error}");
        }
    }
}
