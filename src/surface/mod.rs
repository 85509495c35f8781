//! MCP servers and how they are reached.
//!
//! # Expected flow
//! A being's tools that are not built in come through one [`Remote`]: [`las::Las`], which joins the surfaces that the being selected.
//! Behind it each server is *kept*: connected over a child's standard streams or streamable HTTP, listed, called under a deadline, and
//! started again with a back-off when it is lost.
//!
//! # Guarantees
//! - A call yields a result, a definite no ([`CallError::Failed`]), or a doubt ([`CallError::Indeterminate`]); a lost connection and a
//!   passed deadline are never told as a no, a JSON-RPC error and an HTTP 4xx never as a doubt (SPEC §7).
//! - At most 32 calls of one server are under way at once; others wait their turn, one of each caller, and of one caller in order.
//! - A change of the tools that a server tells before it answers a call is known when the call has ended.
//! - What a server asks of a person in the midst of a call comes out of [`las::Las::asked`]; the clock of the call stands meanwhile.
//! - Dropping a call tells the server (`notifications/cancelled`).
//! - A message is at most 8 MiB; a server that sends a longer one is stopped and started again. Lines that are no messages are
//!   skipped and counted. A server that never answers fails its start after a deadline, with its last words in the error.
//!
//! # Assumptions
//! Servers speak a protocol version from 2024-11-05 to 2026-07-28; the newest is tried first.

mod answer;
mod ask;
mod callers;
mod given;
mod keeper;
pub mod las;
mod listen;
mod oauth;
mod pending;
mod quick;
mod relay;
mod session;
mod shape;
mod terms;
mod turns;
mod wire;

pub use ask::{Ask, Asked};
pub use oauth::{Keyring, OauthError, Wanted};
pub use session::{LastWords, OpenError};
pub use shape::{Call, CallError, Remote, RemoteTool};
pub use terms::Terms;
