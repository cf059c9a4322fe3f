//! Giving up copies on the drive of the cache, and knowing which of that is durable.
//!
//! What is deallocated may come back in a power cut until the drive was flushed after it. Where something must not come
//! back, whoever relies on it asks for a flush, which is sent only if anything was given up since the last one.

use wharf_runtime::sync::{AtomicBool, AtomicU64, Ordering};

use super::transfer::Mover;
use crate::error::IoError;

/// What was given up, by all CPUs.
#[derive(Default)]
pub(super) struct Trims {
    /// Commands that have ended.
    ended: AtomicU64,
    /// Of these, those before a flush that has ended.
    durable: AtomicU64,
    /// One has failed: any address may hold what nobody knows of.
    any_failed: AtomicBool,
}

impl Trims {
    /// Whether there may be copies that the bitmap does not know of.
    pub(super) fn any_failed(&self) -> bool {
        // Relaxed: it is set under the lock of the sectors in question.
        self.any_failed.load(Ordering::Relaxed)
    }

    /// Deallocates ranges.
    ///
    /// # Errors
    /// If the drive fails; then nobody relies on what is deallocated any more.
    pub(super) async fn give_up(
        &self,
        mover: &Mover,
        ranges: &[(u64, u64)],
    ) -> Result<(), IoError> {
        if ranges.is_empty() {
            return Ok(());
        }
        let done = mover.cache.deallocate_many(&mover.cpu, ranges).await;
        if done.is_err() {
            self.any_failed.store(true, Ordering::Relaxed);
        }
        // SeqCst: a flush that begins after this is seen to have ended covers it.
        self.ended.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Has all that was given up stay so.
    ///
    /// # Errors
    /// If the drive fails.
    pub(super) async fn settle(&self, mover: &Mover) -> Result<(), IoError> {
        let ended = self.ended.load(Ordering::SeqCst);
        if self.durable.load(Ordering::SeqCst) >= ended {
            return Ok(());
        }
        self.flush(mover).await
    }

    /// Flushes the drive of the cache.
    ///
    /// # Errors
    /// If it fails.
    pub(super) async fn flush(&self, mover: &Mover) -> Result<(), IoError> {
        let ended = self.ended.load(Ordering::SeqCst);
        mover.cache.flush(&mover.cpu).await?;
        self.durable.fetch_max(ended, Ordering::SeqCst);
        Ok(())
    }
}
