//! The model as a whole: a tiny one made on the spot against a reference in full precision, and the real one when it can be had.

mod real;
mod tiny;

/// A tiny model's file, and the folder that it goes with.
pub(super) fn tiny_file() -> (tempfile::TempDir, std::path::PathBuf) {
    tiny::file()
}
