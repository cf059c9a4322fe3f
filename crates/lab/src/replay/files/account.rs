//! Operations on files by kind.

use std::collections::BTreeMap;

use wharf_workload::files::FileOpKind;

use super::super::client::Account;
use crate::result::{FileOperation, Latencies, ratio};

/// Latencies by kind, and how many were answered with an error.
#[derive(Default)]
pub(crate) struct FileAccounts(BTreeMap<FileOpKind, (Latencies, u64)>);

impl FileAccounts {
    /// Adds those of another client.
    pub(crate) fn merge(&mut self, other: &FileAccounts) {
        for (kind, (latencies, failed)) in &other.0 {
            let (sum, all_failed) = self.0.entry(*kind).or_default();
            sum.add(latencies);
            *all_failed += failed;
        }
    }

    /// As rows of a report, over so many seconds.
    pub(crate) fn rows(&self, seconds: f64) -> Vec<FileOperation> {
        let row = |(kind, (latencies, failed)): (&FileOpKind, &(Latencies, u64))| FileOperation {
            operation: kind.name().into(),
            count: latencies.count(),
            failed: *failed,
            per_second: ratio(latencies.count() as f64, seconds),
            latency_us: latencies.summary().unwrap_or_default(),
        };
        self.0.iter().map(row).collect()
    }
}

impl Account {
    /// Counts an operation on a file.
    pub(super) fn record_file(&mut self, kind: FileOpKind, latency_ns: u64, is_failed: bool) {
        let (latencies, failed) = self.file_operations.0.entry(kind).or_default();
        latencies.record(latency_ns);
        *failed += u64::from(is_failed);
        let of_all = match kind {
            _ if kind.is_read() => &mut self.reads,
            _ if kind.is_write() => &mut self.writes,
            FileOpKind::Fsync | FileOpKind::Fdatasync => &mut self.flushes,
            FileOpKind::Remove | FileOpKind::Truncate | FileOpKind::Punch => &mut self.discards,
            _ => &mut self.names,
        };
        of_all.record(latency_ns);
    }
}
