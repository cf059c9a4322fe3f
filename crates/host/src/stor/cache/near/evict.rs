//! What leaves the drive's cache: ranges that were not used for long, when it has no room, and files that are closed.

use std::sync::Arc;

use wharf_wire::file::Evict;

use super::super::node::DriveHandle;
use super::super::process::Process;
use super::super::thread::Cached;
use super::index::{Old, Part};
use super::{Locker, PAGE};
use crate::files::FileError;
use crate::stor::StorClient;

/// A range of which no page is known to be there may leave after so long: who has just made it is about to note one.
const EMPTY_NS: u64 = 10_000;

impl Cached {
    /// Has a range leave the drive's cache in the background, but that of this page.
    pub(in crate::stor::cache) fn evict_later(&self, but: (u32, u64)) {
        let now_ns = self.cpu().now();
        let old = Old {
            before_ns: now_ns.saturating_sub(self.process.epoch_ns),
            empty_before_ns: now_ns.saturating_sub(EMPTY_NS),
        };
        let Some(part) = self.process.omni.begin_evict(but, old) else {
            return;
        };
        let carrier = self.node(part.0).carrier(self.cpu());
        let (client, process) = (self.client.clone(), self.process.clone());
        let locker = self.locker(false);
        self.cpu().spawn("omni evicts", async move {
            // What cannot be written stays there, and whoever syncs the file is told.
            let _ = evict(&client, &process, (locker, carrier), part).await;
            process.omni.end_evict();
        });
    }

    /// The last who had a file open closes it, by `drive`: nothing of it stays in the drive's cache.
    pub(in crate::stor::cache) async fn leave_near(
        &self,
        slot: u32,
        drive: &DriveHandle,
    ) -> Result<(), FileError> {
        let (cpu, omni) = (self.cpu(), &self.process.omni);
        if !self.process.mode.is_near() || omni.next(cpu, slot, 0).is_none() {
            return Ok(());
        }
        while let Some(part) = omni.next(cpu, slot, 0) {
            let _guard = self.lock_pages(slot, &part.1, false).await;
            omni.remove(cpu, &part);
        }
        let evict = self
            .client
            .evict_near(drive.handle, Evict::WriteBack, 0, u64::MAX);
        evict.await.map(drop)
    }
}

/// Has a range leave the drive's cache. Of a file that is closed nothing is there any more.
async fn evict(
    client: &StorClient,
    process: &Process,
    (locker, carrier): (Locker, Option<Arc<DriveHandle>>),
    part: Part,
) -> Result<(), FileError> {
    let cpu = &client.inner.cpu;
    let _guard = process.omni.lock(cpu, locker, part.clone()).await;
    let Some(carrier) = carrier else {
        process.omni.remove(cpu, &part);
        return Ok(());
    };
    let pages = &part.1;
    let (offset, bytes) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
    let evicted = client.evict_near(carrier.handle, Evict::WriteBack, offset, bytes);
    let evicted = evicted.await;
    match evicted {
        Ok(_) => process.omni.remove(cpu, &part),
        Err(_) => process.omni.stay(cpu, &part),
    }
    let released = client.release_handle(carrier).await;
    evicted.map(drop).and(released)
}
