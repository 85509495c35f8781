//! Where thoughts come from: servers of chat completions, and the model in this process.

pub mod embedded;
