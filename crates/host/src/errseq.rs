//! Failed write-backs, told to each client's flush once.
//!
//! Problem: a page that somebody's eviction or background flusher could not write belongs to no request
//! that could fail. A flush that says nothing of it would acknowledge what is not on the drive.
//!
//! Idea: the cache counts its failures; each client remembers how many it has been told of, and its next
//! flush fails with the others ([`IoError::WriteBack`]).

use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::error::IoError;

/// How many failed write-backs a client, or a handle of a file, has been told of.
#[derive(Debug)]
pub struct ErrSeqCursor(AtomicU64);

impl Clone for ErrSeqCursor {
    /// Of another one that has been told of the same.
    fn clone(&self) -> ErrSeqCursor {
        ErrSeqCursor::new(self.count())
    }
}

impl ErrSeqCursor {
    /// Of a client that comes when there have been `failures`: earlier ones are not its business.
    pub fn new(failures: u64) -> ErrSeqCursor {
        ErrSeqCursor(AtomicU64::new(failures))
    }

    fn count(&self) -> u64 {
        // Relaxed, here and below: a number that is compared, and orders nothing.
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a flush, and tells it of failures that the client has not been told of before.
    ///
    /// # Errors
    /// The flush's own; else [`IoError::WriteBack`].
    pub async fn report(
        &self,
        failures: impl FnOnce() -> u64,
        flush: impl Future<Output = Result<(), IoError>>,
    ) -> Result<(), IoError> {
        // Kept for this flush: another one of the client may end, and be told, meanwhile.
        let told = self.count();
        let outcome = flush.await;
        let failures = failures();
        self.0.fetch_max(failures, Ordering::Relaxed);
        match outcome {
            Ok(()) if failures > told => Err(IoError::WriteBack {
                failures: failures - told,
            }),
            outcome => outcome,
        }
    }
}
