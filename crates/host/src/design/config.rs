//! What every design is made from: memory, clients and their shares, the volume, policies.

use wharf_wire::dma::PAGE_BYTES;

use super::DesignError;
use crate::key::FILES_MAX;
use crate::kit::direct_flush::{Balance, SHARE_PAGES};
use crate::volume::Level;

/// Which page leaves a cache next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replacement {
    /// By CLOCK: the next that was not used since the hand came by.
    #[default]
    Clock,
    /// By two lists, as in Linux: the oldest of those that were used once.
    Lru,
}

/// When nodes of an index go that have become empty, in designs whose index is changed side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reclaim {
    /// With the last page of theirs.
    #[default]
    Eager,
    /// When their part of the file is deleted, or the file closed. Until then they are there, to be used again: as the ScaleCache
    /// paper has it (section 3.2.3).
    Lazy,
}

/// When a write reaches the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WritePolicy {
    /// When its page is evicted, or at a flush.
    #[default]
    Back,
    /// Before it is acknowledged.
    Through,
}

/// Frames that a cache stays below: 4 TiB.
const FRAMES_MAX: u64 = 1 << 30;

/// Clients whose share can be set.
pub const SHARES_MAX: usize = 64;

/// How a cache is divided among clients: in proportion to their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares([u16; SHARES_MAX]);

impl Default for Shares {
    /// Equal shares.
    fn default() -> Self {
        Shares([1; SHARES_MAX])
    }
}

impl Shares {
    /// Shares in proportion to these weights; clients beyond them have weight 1. A weight of 0
    /// counts as 1, and those beyond [`SHARES_MAX`] are not looked at.
    pub fn of(weights: &[u16]) -> Shares {
        let mut shares = Shares::default();
        for (share, &weight) in shares.0.iter_mut().zip(weights) {
            *share = weight.max(1);
        }
        shares
    }

    /// The part of `total` things that client `index` of `clients` gets. The parts of all add up
    /// to `total`.
    pub fn part(&self, total: u32, index: u32, clients: u32) -> u32 {
        let weight = |client: u32| u64::from(*self.0.get(client as usize).unwrap_or(&1));
        let sum = |clients| (0..clients).map(weight).sum::<u64>();
        let before = |client| u64::from(total) * sum(client) / sum(clients);
        (before(index + 1) - before(index)) as u32
    }
}

/// What every design is made from. Each takes what concerns it.
#[derive(Debug, Clone, Copy)]
pub struct DesignConfig {
    /// Bytes of cached data, at 4096 for each page, also where a page is a stamp. What the cache
    /// needs to keep book of them comes on top.
    pub cache_bytes: u64,
    /// Number of clients.
    pub clients: u32,
    /// How many of them, the last ones, are in other processes: in designs that can be
    /// [shared](crate::guest).
    pub guests: u32,
    /// Number of drives of the volume.
    pub drives: u32,
    /// How the volume is spread over them.
    pub level: Level,
    /// Manager CPUs, in designs whose cache has such.
    pub managers: u32,
    /// Whether a page that is written whole is read first all the same, in `tri`: as its published code does.
    pub tri_reads_before_overwrite: bool,
    /// When writes reach the drive.
    pub write_policy: WritePolicy,
    /// How the cache is divided among the clients, in designs that divide it.
    pub shares: Shares,
    /// Whether clean pages leave first while a drive collects garbage, in designs that learn of it.
    pub gc_aware: bool,
    /// Share of the cache that may be dirty before write-back begins in the background, in designs that
    /// write back so.
    pub dirty_background_share: f64,
    /// Share of the cache that may be dirty, or on its way to the drive, before writers wait.
    pub dirty_hard_share: f64,
    /// Which page leaves next, in designs with a choice.
    pub replacement: Replacement,
    /// What a writer does when too much is dirty, in designs whose writers flush.
    pub balance: Balance,
    /// Most pages that such a writer writes before it looks again.
    pub share_pages: u64,
    /// When empty nodes of an index go, in designs with a choice.
    pub index_reclaim: Reclaim,
    /// Files that the volume is divided into, in designs that have an index for each file.
    pub files: u32,
    /// [Memory nodes](crate::kit::nodes) of the machine, in designs that tell them apart.
    pub memory_nodes: u32,
    /// Whether designs that could be in the program are in the operating system, and [pay](crate::kit::kernel_path) for
    /// that.
    pub in_kernel: bool,
    /// Whether pages that designs in the operating system cache are those of files in a file system, which takes its time for
    /// each page that is written.
    pub file_system: bool,
    /// Pages of each client's memory for transfers, in designs that copy between the program's
    /// memory and the drive's.
    pub transfer_pages: u32,
}

impl Default for DesignConfig {
    /// 64 MiB for one client on one drive, two managers, no reads before overwrites, write-back from 10 % dirty pages on and at
    /// most 20 %, equal shares, awareness of collection, one file, one memory node, caches in the program, no file system, 4096
    /// transfer pages.
    fn default() -> Self {
        DesignConfig {
            cache_bytes: 64 << 20,
            clients: 1,
            guests: 0,
            drives: 1,
            level: Level::Raid0,
            managers: 2,
            tri_reads_before_overwrite: false,
            write_policy: WritePolicy::default(),
            shares: Shares::default(),
            gc_aware: true,
            dirty_background_share: 0.1,
            dirty_hard_share: 0.2,
            replacement: Replacement::Clock,
            balance: Balance::Flush,
            share_pages: SHARE_PAGES,
            index_reclaim: Reclaim::Eager,
            files: 1,
            memory_nodes: 1,
            in_kernel: false,
            file_system: false,
            transfer_pages: 4096,
        }
    }
}

impl DesignConfig {
    /// Frames of a page cache of [`DesignConfig::cache_bytes`].
    ///
    /// # Errors
    /// If there is no client, no frame, or too many.
    pub fn frames(&self, design: &'static str) -> Result<u32, DesignError> {
        let bytes = self.cache_bytes;
        if self.clients == 0 {
            return Err(DesignError::NoClients { design });
        }
        match bytes / PAGE_BYTES as u64 {
            0 => Err(DesignError::CacheTooSmall { design, bytes }),
            FRAMES_MAX.. => Err(DesignError::CacheTooLarge { design, bytes }),
            frames => Ok(frames as u32),
        }
    }

    /// Refuses a volume with redundancy, for designs that send commands past it.
    ///
    /// # Errors
    /// If the volume has any.
    pub fn check_striped(&self, design: &'static str) -> Result<(), DesignError> {
        match self.level {
            Level::Raid0 => Ok(()),
            level => Err(DesignError::Level { design, level }),
        }
    }

    /// [`DesignConfig::files`], where there can be so many.
    ///
    /// # Errors
    /// If there is none, or more than [keys](crate::key) can name.
    pub fn files(&self, design: &'static str) -> Result<u32, DesignError> {
        match self.files {
            files @ 1..FILES_MAX => Ok(files),
            files => Err(DesignError::Files { design, files }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_proportion_and_add_up() {
        let shares = Shares::of(&[3, 1, 0]);
        assert_eq!([0, 1, 2].map(|i| shares.part(100, i, 3)), [60, 20, 20]);
        for total in [1, 7, 1000] {
            for clients in [1, 3, 70] {
                let parts = (0..clients).map(|i| shares.part(total, i, clients));
                assert_eq!(parts.sum::<u32>(), total);
            }
        }
        assert_eq!(Shares::default().part(8, 3, 4), 2);
    }
}
