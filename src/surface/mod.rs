//! MCP servers and how they are reached.

mod shape;

pub use shape::{Call, CallError, Remote, RemoteTool};
