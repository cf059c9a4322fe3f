//! RAID-10: what a transfer becomes on pairs of drives; and reads of RAID-5.
//!
//! A write goes to both drives of a pair, in commands of one group: it has ended when both have. A read goes
//! to one of them, which [`Layout::locate`](super::Layout::locate) names: rows take turns, so that reads spread, and a page is read
//! from the same drive always.

use super::{Level, Transfer, Volume, issue_run};
use crate::group::Group;

impl Volume {
    /// The commands of a transfer, stripe by stripe.
    pub(super) async fn issue_stretches(
        &self,
        group: &Group,
        kind: Transfer,
        first: u64,
        addresses: &[u64],
    ) {
        let is_mirrored = self.layout.level == Level::Raid10 && kind != Transfer::Read;
        for stretch in self.layout.stretches(first, addresses.len() as u64) {
            let at = (stretch.page - first) as usize;
            let pages = &addresses[at..at + stretch.pages as usize];
            let (drive, lba) = self.layout.locate(stretch.page);
            issue_run(&self.drivers[drive], group, kind, lba, pages).await;
            if is_mirrored {
                // The drives of a pair differ in the lowest bit.
                let other = &self.drivers[drive ^ 1];
                issue_run(other, group, kind, lba, pages).await;
            }
        }
    }
}
