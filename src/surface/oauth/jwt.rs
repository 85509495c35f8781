//! A client that says who it is by what it signs (RFC 7523).

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde_json::json;

use crate::secret::Secret;

/// How long, in seconds, an assertion counts.
const GOOD_FOR: i64 = 120;

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("`private_key` is no key in PEM that this program knows; make it PKCS#8: openssl pkcs8 -topk8 -nocrypt -in KEY")]
    NoKey,
    #[error("`private_key` is neither RSA of 2048 to 4096 bits nor P-256; give one of these")]
    OtherKey,
    #[error("`private_key` signs nothing")]
    Unsigned,
}

enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

/// Signs that the client `id` asks `audience`, from `now` on for two minutes; `nonce` is like no other.
pub(super) fn assertion(key: &Secret, id: &str, audience: &str, nonce: &str, now: i64) -> Result<String, SignError> {
    let luck = SystemRandom::new();
    let key = read(key, &luck)?;
    let algorithm = match key {
        Key::Rsa(_) => "RS256",
        Key::P256(_) => "ES256",
    };
    let claims = json!({ "iss": id, "sub": id, "aud": audience, "jti": nonce, "iat": now, "exp": now.saturating_add(GOOD_FOR) });
    let encoded = |part: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", encoded(&json!({ "alg": algorithm, "typ": "JWT" })), encoded(&claims));
    let signature = match key {
        Key::Rsa(key) => {
            let mut signature = vec![0; key.public().modulus_len()];
            let is_signed = key.sign(&RSA_PKCS1_SHA256, &luck, signed.as_bytes(), &mut signature);
            is_signed.map(|()| signature).map_err(|_| SignError::Unsigned)?
        }
        Key::P256(key) => key.sign(&luck, signed.as_bytes()).map_err(|_| SignError::Unsigned)?.as_ref().to_vec(),
    };
    Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

fn read(key: &Secret, luck: &SystemRandom) -> Result<Key, SignError> {
    let der = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes()).map_err(|_| SignError::NoKey)?;
    match &der {
        PrivateKeyDer::Pkcs1(der) => {
            RsaKeyPair::from_der(der.secret_pkcs1_der()).map(|key| Key::Rsa(Box::new(key))).map_err(|_| SignError::OtherKey)
        }
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            let rsa = RsaKeyPair::from_pkcs8(der).map(|key| Key::Rsa(Box::new(key)));
            let p256 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, luck).map(|key| Key::P256(Box::new(key)));
            rsa.or_else(|_| p256()).map_err(|_| SignError::OtherKey)
        }
        _ => Err(SignError::NoKey),
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };

    use super::*;

    fn pem(label: &str, der: &[u8]) -> Secret {
        let body = base64::prelude::BASE64_STANDARD.encode(der);
        Secret::new(format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----"))
    }

    fn p256() -> (Secret, Vec<u8>) {
        let luck = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &luck).unwrap();
        let public = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &luck).unwrap();
        (pem("PRIVATE KEY", der.as_ref()), public.public_key().as_ref().to_vec())
    }

    /// Keys that OpenSSL made, for nothing but this test.
    const RSA: (&[u8], &[u8], &[u8]) =
        (include_bytes!("testing/rsa.pk8"), include_bytes!("testing/rsa.pkcs1"), include_bytes!("testing/rsa.pub"));

    #[test]
    fn what_is_signed_says_who_asks_whom_and_until_when() {
        let (key, public) = p256();
        signs(&key, &public, "ES256", &ECDSA_P256_SHA256_FIXED);
        signs(&pem("PRIVATE KEY", RSA.0), RSA.2, "RS256", &RSA_PKCS1_2048_8192_SHA256);
        signs(&pem("RSA PRIVATE KEY", RSA.1), RSA.2, "RS256", &RSA_PKCS1_2048_8192_SHA256);
    }

    #[track_caller]
    fn signs(key: &Secret, public: &[u8], algorithm: &str, checked_by: &'static dyn VerificationAlgorithm) {
        let assertion = assertion(key, "me", "https://as/", "once", 1_000).unwrap();
        let parts: Vec<&str> = assertion.split('.').collect();
        let part = |at: usize| BASE64_URL_SAFE_NO_PAD.decode(parts[at]).unwrap();
        let json = |at: usize| serde_json::from_slice::<serde_json::Value>(&part(at)).unwrap();
        assert_eq!(json(0), json!({ "alg": algorithm, "typ": "JWT" }));
        let claims = json!({ "iss": "me", "sub": "me", "aud": "https://as/", "jti": "once", "iat": 1_000, "exp": 1_120 });
        assert_eq!(json(1), claims);
        let signed = format!("{}.{}", parts[0], parts[1]);
        UnparsedPublicKey::new(checked_by, public).verify(signed.as_bytes(), &part(2)).unwrap();
    }

    #[test]
    fn a_key_that_cannot_be_used_is_told_without_being_shown() {
        let ed25519 = [
            "-----BEGIN ",
            "PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----",
        ]
        .concat();
        for (text, what) in [("s3cret", "openssl pkcs8"), (ed25519.as_str(), "P-256")] {
            let told = assertion(&Secret::new(text), "me", "you", "once", 0).unwrap_err().to_string();
            assert!(told.contains(what) && !told.contains("s3cret") && !told.contains("MC4C"), "{told}");
        }
    }
}
