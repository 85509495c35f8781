use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written as 64 lowercase hexadecimal characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A text that is not a SHA-256 digest.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a SHA-256 digest; write 64 lowercase hexadecimal characters")]
pub struct BadDigest(String);

impl Digest {
    /// Digests `bytes`.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest itself.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Finishes a digest that was fed piece by piece.
    pub fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = BadDigest;

    fn try_from(text: String) -> Result<Self, BadDigest> {
        let nibble = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect();
        match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
            Some(bytes) if rest.is_empty() => Ok(Self(bytes)),
            _ => Err(BadDigest(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_as_it_was_written() {
        let digest = Digest::of("abc");
        let text = digest.to_string();
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Digest::try_from(text).ok(), Some(digest));
    }

    #[test]
    fn upper_case_and_short_digests_are_refused() {
        for text in ["", "abc", &"A".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
            assert!(Digest::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
