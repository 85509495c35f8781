//! The `singularity` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    singularity::cli::main()
}
