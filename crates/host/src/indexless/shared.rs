//! What clients and keeper share.

use std::sync::{Arc, OnceLock};

use wharf_codec::Sizes;
use wharf_runtime::range_lock::{Locker, RangeGuard, RangeLocks};
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::Mailboxes;
use wharf_runtime::{Cpu, Lock, Op};
use wharf_wire::dma::DmaSpace;

use super::bitmap::Bitmap;
use super::gauges::Published;
use super::jobs::Jobs;
use super::policy::{Policy, Victim};
use super::settings::{AddressPlan, IndexlessConfig};
use super::transfer::CHUNK_PAGES;
use super::word::Word;
use crate::design::Initial;

/// What is known of a cache that has begun: how large the disk is, and what is cached.
pub(super) struct Known {
    pub(super) plan: AddressPlan,
    pub(super) bitmap: Bitmap,
}

/// See the module.
pub(super) struct Shared {
    pub(super) space: Arc<DmaSpace>,
    pub(super) config: IndexlessConfig,
    /// Sectors that are cached at most.
    pub(super) limit: u64,
    /// Clients; the keeper's mailbox is behind theirs.
    pub(super) clients: u32,
    /// What keeps sectors from changing while somebody looks: readers as shared, others alone.
    pub(super) locks: Arc<RangeLocks>,
    /// What keeps sectors that are being written back from being discarded. Taken before `locks`, never after.
    pub(super) leaving: Arc<RangeLocks>,
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) jobs: Jobs,
    pub(super) policy: Lock<Box<dyn Policy>>,
    /// Whether the policy wants to be told of every touch.
    pub(super) policy_listens: bool,
    /// Clean copies below dirty ones: to be deallocated before the dirty ones are.
    pub(super) stale: Lock<Vec<Victim>>,
    /// Who waits until there is room.
    pub(super) room: Waiters,
    /// What lies on the disk before anybody is served.
    pub(super) initial: OnceLock<Initial>,
    /// What stamps compress to, if somebody has said that.
    pub(super) sizes: OnceLock<Sizes>,
    /// What the store did.
    pub(super) published: Published,
}

impl Shared {
    /// The mailbox of the keeper.
    pub(super) fn keeper(&self) -> u32 {
        self.clients
    }

    /// Sectors that leave at a time.
    pub(super) fn round(&self) -> u64 {
        ((self.limit as f64 * self.config.round_share) as u64).max(1)
    }

    /// Sectors that are written at a time at most.
    pub(super) fn chunk(&self) -> u64 {
        (self.limit / 4).clamp(1, CHUNK_PAGES as u64)
    }

    /// Whether sectors are to leave: a writer may need room for a chunk.
    pub(super) fn is_round_due(&self, bitmap: &Bitmap) -> bool {
        let cached = bitmap.totals().cached;
        cached > 0 && cached + self.chunk().max(self.round() / 2) > self.limit
    }

    /// Tells the policy that sectors were used in the cache, or have come into it.
    #[inline]
    pub(super) fn touched(&self, cpu: &Cpu, first: u64, count: u32) {
        if self.policy_listens {
            self.policy.with(cpu, |policy| {
                cpu.work_n(Op::ListUpdate, count, || policy.touched(first, count));
            });
        }
    }

    /// Tells the policy that sectors have left.
    pub(super) fn forgotten(&self, cpu: &Cpu, first: u64, count: u32) {
        if self.policy_listens {
            self.policy.with(cpu, |policy| {
                cpu.work_n(Op::ListUpdate, count, || policy.forgotten(first, count));
            });
        }
    }

    /// The word of a sector that is written in the cache.
    pub(super) fn written(&self, word: Word) -> Word {
        match word.is_cached() {
            true => Word::dirty(word.heat()).warmer(),
            false => Word::dirty(self.config.insert_heat),
        }
    }
}

/// Numbers of the ranges that one CPU locks.
#[derive(Default)]
pub(super) struct Numbers(std::cell::Cell<u64>);

impl Numbers {
    /// The next one, of a task of `client`.
    pub(super) fn locker(&self, client: u32, is_shared: bool) -> Locker {
        let id = self.0.get();
        self.0.set(id + 1);
        Locker {
            client,
            id: u64::from(client) << 40 | id & ((1 << 40) - 1),
            is_shared,
        }
    }
}

/// Sectors that are discarded: nobody writes them back meanwhile.
pub(super) struct Around {
    _locks: RangeGuard,
    _leaving: RangeGuard,
}

impl Shared {
    /// Locks sectors against everything.
    pub(super) async fn lock_around(
        &self,
        cpu: &Cpu,
        (client, numbers): (u32, &Numbers),
        first: u64,
        count: u64,
    ) -> Around {
        let leaving = numbers.locker(client, false);
        let leaving = self.leaving.lock_as(cpu, leaving, first, count).await;
        let locks = numbers.locker(client, false);
        let locks = self.locks.lock_as(cpu, locks, first, count).await;
        Around {
            _locks: locks,
            _leaving: leaving,
        }
    }
}
