//! The `singularity` binary.

fn main() {}
