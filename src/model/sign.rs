use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::vocab::{Digest, Timestamp};

/// The headers by which Brama knows an agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) timestamp: String,
    pub(super) body_sha256: String,
    pub(super) signature: String,
}

/// Signs a request: HMAC-SHA256 over `agent:timestamp:sha256hex(body)`, in hex. For an empty body Brama takes the empty string
/// in the place of the digest.
///
/// `None` if the secret cannot be a key.
pub(super) fn sign(secret: &str, agent: &str, now: Timestamp, body: &[u8]) -> Option<Signed> {
    let timestamp = now.as_second().to_string();
    let body_sha256 = Digest::of(body).to_string();
    let covered = if body.is_empty() { "" } else { body_sha256.as_str() };
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(format!("{agent}:{timestamp}:{covered}").as_bytes());
    let signature = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Signed { timestamp, body_sha256, signature })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hmac` and `hashlib`.
    #[test]
    fn brama_accepts_what_is_signed() {
        let now = Timestamp::from_second(1_796_180_000).unwrap();
        assert_eq!(
            sign("shared-secret", "ada", now, br#"{"model":"any"}"#),
            Some(Signed {
                timestamp: "1796180000".into(),
                body_sha256: "91ab22dc39537ed1fb6cfc8ab61222d7397c79c33911db4c05044052d988e13d".into(),
                signature: "b3ee3d934a01268b269be69942f62fa447af4778a8ae0e3e9226b93b7d44d99c".into(),
            })
        );
        let empty = sign("shared-secret", "ada", now, b"").unwrap();
        assert_eq!(empty.signature, "a3bde25d0ff4268907883bdcb2cb6d0922ae3985c06f15d0641400975d286414");
    }
}
