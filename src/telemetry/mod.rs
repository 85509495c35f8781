//! What the program says about itself: logs on stderr, filtered by `RUST_LOG`.

mod start;

pub use start::{Voice, start};
