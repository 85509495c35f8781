use std::{future::Future, pin::Pin};

use serde_json::{Map, Value};

/// A tool as a surface lists it, its name already `<surface>__<tool>`.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, as the server sent it.
    pub input_schema: Value,
}

/// Why a remote call gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A definite no: nothing is open. The server refused (a JSON-RPC error, an HTTP 4xx), or the request never left.
    #[error("{message}")]
    Failed { code: &'static str, message: String },
    /// The transport failed, the deadline passed or the call was cancelled in mid-call: whether it took effect is unknown.
    #[error("{message}")]
    Indeterminate { message: String },
}

/// A call under way.
pub type Call<'a> = Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send + 'a>>;

/// Whatever lists tools and carries calls out: Las, or a stand-in in tests.
pub trait Remote: Send + Sync {
    /// The tools as they were last listed.
    fn tools(&self) -> Vec<RemoteTool>;

    /// Calls one tool and yields the raw MCP result object (`content`, `structuredContent`, `isError`).
    ///
    /// Cancel safe in that dropping the call tells the server; its effect is then unknown.
    fn call<'a>(&'a self, tool: &'a str, arguments: Map<String, Value>) -> Call<'a>;
}
