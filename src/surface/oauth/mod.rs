//! Tokens for a surface over HTTP, had by OAuth 2.1 as MCP's authorization says.
//!
//! # Expected flow
//! Every request of a surface asks its [`Keyring`] for a token. The first request shows none; the 401 that it gets tells where to look
//! (RFC 9728), and the authorization server there tells the rest (RFC 8414, or OpenID Connect; the endpoints of 2025-03-26 where it
//! tells nothing). By `client_credentials` a token is then asked for. By `authorization_code` a person must consent: the address to open
//! is kept as a question that `singularity questions` shows, the surface is down until it is answered, and whoever answers gives the
//! address that the browser was sent to ([`Keyring::answer`]). A token is renewed before it expires and when a surface refuses it; a
//! surface that wants more scopes is given what it wants, twice in one request at most.
//!
//! # Guarantees
//! - What is had is kept in one file for each surface, `oauth/<surface>.json` in the home: tokens, the client that was registered, the
//!   question that waits. The file is a secret like any other ([`crate::secret::Kept`]); what is in it is bound to the surface's URL and
//!   `oauth` table, and an edit of either forgets it; the daemon removes it when the surface is declared no more.
//! - All beings of a home share it. One process at a time asks for a token, the others take what that one was given.
//! - Nothing is asked of, or sent to, an address that is not https, this machine excepted. A redirect to another origin is refused.
//!   Answers are bounded in size and time.
//! - Codes count only with the `state`, and where the server tells one the issuer, that belongs to the question. PKCE is always S256.
//! - No error or log holds a token, a code or a secret, also where a server says it back.
//!
//! # How it fails
//! What cannot be had is the reason that the surface is down, and says what to do; the surface is tried again with a back-off.

mod caller;
mod challenge;
mod consent;
mod discovery;
mod errand;
mod grant;
mod jwt;
mod keyring;
mod record;
mod web;

pub(super) use caller::Caller;
pub(super) use keyring::Shared;
pub use keyring::{Keyring, OauthError, Wanted};
