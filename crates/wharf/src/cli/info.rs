//! `wharf info`: what this machine offers to real storage.

use super::{Failure, print};

/// Runs the command.
pub(super) fn run() -> Result<(), Failure> {
    print(&format!("wharf {}", env!("CARGO_PKG_VERSION")));
    print(&wharf_storage::capabilities().to_string());
    Ok(())
}
