//! What a workload reads lies on the disk before it begins, through the store.
//!
//! Plain disks read what was never written as any other sector. A store knows what it holds: what was never
//! written costs no seek, and a comparison in which most reads cost none would be a toy. So the keeper writes the
//! pages that the workload is going to touch, with all that are in a chunk with them, in chunks of
//! [`IndexlessConfig::initial_chunk_pages`], in the order of their addresses, before anybody is served or counted.
//!
//! [`IndexlessConfig::initial_chunk_pages`]: super::IndexlessConfig::initial_chunk_pages

use super::disk::Disk;
use crate::backing::{BackingError, Sectors};
use crate::design::Initial;

/// Writes all of `initial` to the disk of so many sectors, and makes it durable.
pub(super) async fn fill(
    disk: &Disk<impl Sectors>,
    initial: &Initial,
    (chunk_pages, sectors): (u64, u64),
) -> Result<(), BackingError> {
    let mut at = 0;
    for (first, end) in initial.ranges() {
        at = at.max(first / chunk_pages * chunk_pages);
        let whole = end.next_multiple_of(chunk_pages).min(sectors);
        while at < whole {
            let until = whole.min(at + chunk_pages);
            let data = initial.pages(at, until - at);
            disk.write(at, &data).await?;
            at = until;
        }
    }
    disk.flush().await
}
