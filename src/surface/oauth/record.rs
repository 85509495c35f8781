//! What is kept of one surface's authorization.

use serde::{Deserialize, Serialize};

use crate::{manifest::ClientAuth, vocab::Timestamp};

/// What this program writes.
const VERSION: u8 = 1;

/// All of it. There is no `Debug`: most of it is secret.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Record {
    version: u8,
    /// A digest of what it was had for: an edit of the manifest makes it another.
    bound: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<Server>,
    /// The client that was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<Registered>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<Token>,
    /// What waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) consent: Option<Consent>,
}

/// Who gives tokens, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    /// What tokens are asked for (RFC 8707).
    pub(super) resource: String,
    /// What the surface says that it needs.
    pub(super) scopes: Vec<String>,
    /// Whether it gives refresh tokens for `offline_access`.
    pub(super) has_offline: bool,
    /// How clients may say who they are; empty when it does not say.
    pub(super) auth_methods: Vec<String>,
    pub(super) has_pkce: bool,
    pub(super) takes_metadata_documents: bool,
    /// Whether it says who it is when it sends a code (RFC 9207).
    pub(super) names_itself: bool,
}

/// A client as the server registered it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Registered {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) auth: ClientAuth,
    /// Seconds of the epoch after which the secret counts no more.
    pub(super) expires_at: Option<i64>,
}

/// A token. Times are seconds of the epoch.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) given_at: i64,
    pub(super) expires_at: Option<i64>,
    /// What it is good for, as far as is known.
    pub(super) scopes: Vec<String>,
}

/// A question to a person: whether this client may act for them.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Consent {
    /// What they open.
    pub(super) address: String,
    pub(super) state: String,
    /// Proves that who gives the code is who asked (PKCE).
    pub(super) verifier: String,
    pub(super) client_id: String,
    pub(super) scopes: Vec<String>,
    pub(super) asked_at: Timestamp,
}

impl Record {
    pub(super) fn new(bound: &str) -> Self {
        Self { version: VERSION, bound: bound.to_owned(), ..Self::default() }
    }

    /// Reads what was written; what was had for something else, or by a program that knew more, is not used.
    pub(super) fn read(text: &str, bound: &str) -> Self {
        let read = serde_json::from_str::<Self>(text).ok();
        read.filter(|record| record.version == VERSION && record.bound == bound).unwrap_or_else(|| Self::new(bound))
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The longest that a token is renewed before it expires.
const AHEAD: i64 = 60;

impl Token {
    /// Tells whether it is better renewed: in the last quarter of its life, a minute at most.
    pub(super) fn is_due(&self, now: i64) -> bool {
        let ahead = |until: i64| (until.saturating_sub(self.given_at) / 4).clamp(0, AHEAD);
        self.expires_at.is_some_and(|until| now >= until.saturating_sub(ahead(until)))
    }

    pub(super) fn is_over(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(expires_at: Option<i64>) -> Token {
        Token { access: "t".to_owned(), refresh: None, given_at: 1_000, expires_at, scopes: Vec::new() }
    }

    #[test]
    fn a_token_is_renewed_before_it_expires_and_not_long_before() {
        let due = |until: i64, now: i64| token(Some(until)).is_due(now);
        assert_eq!((due(4_600, 4_539), due(4_600, 4_540)), (false, true), "an hour");
        assert_eq!((due(1_008, 1_005), due(1_008, 1_006)), (false, true), "8 s");
        assert_eq!((due(1_001, 1_000), due(1_001, 1_001)), (false, true), "1 s");
        assert!(due(900, 1_000) && token(Some(1_000)).is_over(1_000) && !token(Some(1_001)).is_over(1_000));
        assert!(!token(None).is_due(i64::MAX) && !token(None).is_over(i64::MAX), "some never expire");
    }

    #[test]
    fn what_was_had_for_another_address_is_never_used() {
        let mut record = Record::new("one");
        record.token = Some(token(None));
        let text = record.to_text();
        assert!(Record::read(&text, "one").token.is_some());
        assert!(Record::read(&text, "two").token.is_none());
        assert!(Record::read(&text.replace("\"version\":1", "\"version\":2"), "one").token.is_none());
        assert!(Record::read("{", "one").token.is_none());
    }
}
