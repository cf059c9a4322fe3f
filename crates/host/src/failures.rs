//! Failed write-backs, told to each client's flush once.
//!
//! Problem: a page that somebody's eviction or background flusher could not write belongs to no request
//! that could fail. A flush that says nothing of it would acknowledge what is not on the drive.
//!
//! Idea: the cache counts its failures; each client remembers how many it has been told of, and its next
//! flush fails with the others ([`IoError::WriteBack`]).

use std::cell::Cell;

use crate::error::IoError;

/// How many of the cache's failed write-backs a client has been told of.
#[derive(Debug)]
pub struct Told(Cell<u64>);

impl Told {
    /// Of a client that comes when there have been `failures`: earlier ones are not its business.
    pub fn new(failures: u64) -> Told {
        Told(Cell::new(failures))
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
        let told = self.0.get();
        let outcome = flush.await;
        let failures = failures();
        self.0.set(failures.max(self.0.get()));
        match outcome {
            Ok(()) if failures > told => Err(IoError::WriteBack {
                failures: failures - told,
            }),
            outcome => outcome,
        }
    }
}
