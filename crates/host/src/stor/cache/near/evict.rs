//! What leaves the drive's cache: ranges that were not used for long, when it has no room, and files that are closed.

use std::sync::Arc;

use wharf_wire::file::Evict;

use super::super::ages::{Left, Part, joined};
use super::super::node::DriveHandle;
use super::super::process::Process;
use super::super::thread::Cached;
use super::index::Old;
use super::{Locker, PAGE};
use crate::files::FileError;
use crate::stor::StorClient;

/// Ranges that leave at a time, at most.
const BATCH: usize = 16;

/// A range of which no page is known to be there may leave after so long: who has just made it is about to note one.
const EMPTY_NS: u64 = 10_000;

impl Cached {
    /// Has a range leave the drive's cache in the background, but that of this page: it has no room for others.
    pub(in crate::stor::cache) fn evict_later(&self, but: (u32, u64)) {
        if self.process.ages.is_some() {
            return self.leave_later(true);
        }
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

    /// Has ranges of an inactive file leave the drive's cache until that has so much free; gives how many pages did.
    pub(in crate::stor::cache) async fn leave_file_near(&self, slot: u32, goal: u64) -> u64 {
        let (cpu, omni) = (self.cpu(), &self.process.omni);
        let (mut page, mut gone) = (0, 0);
        while omni.free_pages() < goal {
            let mut parts = Vec::new();
            while parts.len() < BATCH
                && let Some(part) = omni.next(cpu, slot, page)
            {
                page = part.1.end;
                parts.push(part);
            }
            if parts.is_empty() {
                break;
            }
            gone += self.leave_parts_near(parts, Left::NearInactive).await;
        }
        gone
    }

    /// Has the ranges that were used least lately leave the drive's cache until that has so much free, and some of them at least if `must`.
    pub(in crate::stor::cache) async fn leave_oldest_near(&self, goal: u64, must: bool) {
        let omni = &self.process.omni;
        let mut least = u64::from(must);
        loop {
            let free = omni.free_pages();
            let need = goal.saturating_sub(free).max(least);
            if need == 0 {
                return;
            }
            let empty_before_ns = self.cpu().now().saturating_sub(EMPTY_NS);
            let parts = omni.oldest(self.cpu(), (need, BATCH), empty_before_ns);
            self.leave_parts_near(parts, Left::NearOldest).await;
            least = 0;
            if omni.free_pages() <= free {
                return;
            }
        }
    }

    /// Has ranges leave the drive's cache, a command for those that lie side by side; gives how many pages did.
    async fn leave_parts_near(&self, parts: Vec<Part>, how: Left) -> u64 {
        let mut gone = 0;
        for part in joined(parts) {
            let carrier = self.node(part.0).carrier(self.cpu());
            let locker = self.locker(false);
            // What cannot be written stays there, and whoever syncs the file is told.
            let evicted = evict(&self.client, &self.process, (locker, carrier), part);
            gone += evicted.await.unwrap_or(0);
        }
        if let Some(ages) = &self.process.ages {
            ages.count(how, gone);
        }
        gone
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

/// Has ranges that lie side by side leave the drive's cache; gives how many pages did. From a file that is being closed they leave by that.
async fn evict(
    client: &StorClient,
    process: &Process,
    (locker, carrier): (Locker, Option<Arc<DriveHandle>>),
    part: Part,
) -> Result<u64, FileError> {
    let cpu = &client.inner.cpu;
    let _guard = process.omni.lock(cpu, locker, part.clone()).await;
    let Some(carrier) = carrier else {
        match process.omni.is_any_on_device(cpu, &part) {
            // Who closes it has yet to find them.
            true => process.omni.stay_all(cpu, &part),
            false => process.omni.remove_all(cpu, &part),
        }
        return Ok(0);
    };
    let pages = &part.1;
    let (offset, bytes) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
    let evicted = client.evict_near(carrier.handle, Evict::WriteBack, offset, bytes);
    let evicted = evicted.await;
    match evicted {
        Ok(_) => process.omni.remove_all(cpu, &part),
        Err(_) => process.omni.stay_all(cpu, &part),
    }
    let released = client.release_handle(carrier).await;
    released.and(evicted)
}
