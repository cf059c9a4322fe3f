//! Sweeps for programs: every combination of some values, on several threads, as rows.
//!
//! The text is that of a file for `wharf sweep run` (`docs/sweeps.md`). Paths in it are as seen from the working directory.
//!
//! ```
//! let text = r#"
//!     workload = "zipf"
//!     requests = 500
//!     footprint = "1MiB"
//!     clients = 2
//!     designs = ["clock"]
//!     cache = ["5%", "20%"]
//! "#;
//! let rows = wharf::sweep::rows(text, None)?;
//! assert_eq!(rows.len(), 2);
//! assert_eq!(rows[0]["axes"]["cache"], "5%");
//! assert!(rows[0]["hit_ratio"].as_f64() < rows[1]["hit_ratio"].as_f64());
//! # Ok::<(), wharf::sweep::SweepFailed>(())
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use wharf_lab::sweep::{Report, SweepRow};

use crate::cli::Failure;

/// A sweep that is wrong, or has a point that failed, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SweepFailed(String);

/// Runs a sweep, `jobs` points at a time; if none are said, as many as there are processors and as fit into memory. Once `stop` is
/// set, no further point is begun, and the report has those that had ended. The rows are the same whatever the number of `jobs`.
///
/// # Errors
/// The text is wrong, or a point failed.
pub fn run(text: &str, jobs: Option<usize>, stop: &Arc<AtomicBool>) -> Result<Report, SweepFailed> {
    crate::cli::described(text, jobs, stop).map_err(|failure| {
        SweepFailed(match failure {
            Failure::Input(line) | Failure::File { line, .. } | Failure::Run(line) => line,
            Failure::Interrupted => "interrupted".into(),
        })
    })
}

/// Runs a sweep as [`run`], and gives its rows in the order of its points, each as the object `rows[]` of `docs/report-schema.md`.
///
/// # Errors
/// As [`run`].
pub fn rows(text: &str, jobs: Option<usize>) -> Result<Vec<Value>, SweepFailed> {
    let report = run(text, jobs, &Arc::default())?;
    Ok(report.rows.iter().map(SweepRow::to_value).collect())
}
