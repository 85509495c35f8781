//! The model as a whole: a tiny one made on the spot against a reference in full precision, and the real one when it can be had.

mod real;
pub(super) mod tiny;

pub(crate) use tiny::file as tiny_file;
