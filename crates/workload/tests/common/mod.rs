//! Where the reference traces are, shared by the tests that need them.

use std::path::PathBuf;

/// The directory of reference traces: `WHARF_TRACES`, or `../shared/traces` beside the workspace. `None`
/// (said on stderr) if it is not there.
pub fn traces() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = std::env::var_os("WHARF_TRACES").map_or_else(beside, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    eprintln!(
        "skipped: no reference traces at {} (set WHARF_TRACES)",
        path.display()
    );
    None
}
