//! The `wharf` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    wharf::cli::main()
}
