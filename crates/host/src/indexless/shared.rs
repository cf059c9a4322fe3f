//! What clients and keeper share.

use std::sync::{Arc, OnceLock};

use wharf_codec::Sizes;
use wharf_runtime::range_lock::{Locker, RangeGuard, RangeLocks};
use wharf_runtime::sync::{AtomicBool, AtomicU64, Ordering};
use wharf_runtime::wake::Mailboxes;
use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::DmaSpace;
use wharf_wire::space::SpaceLevel;

use super::bitmap::Stretch;
use super::changes::Changes;
use super::jobs::Jobs;
use super::mode::{Mode, ModeSwitch, Reason, Reasons};
use super::opening::Opening;
use super::order::Order;
use super::places::Places;
use super::planted::Planted;
use super::policy::Victim;
use super::published::Published;
use super::room::Room;
use super::settings::{AddressPlan, IndexlessConfig};
use super::transfer::Mover;
use super::trims::Trims;
use super::unsettled::Unsettled;
use super::word::Word;
use crate::design::Initial;

/// What is known of a cache that has begun: how large the disk is, and what is cached.
pub(super) struct Known {
    pub(super) plan: AddressPlan,
    /// What is cached: the bitmap, or in its place an index.
    pub(super) bitmap: Places,
}

/// See the module.
pub(super) struct Shared {
    pub(super) space: Arc<DmaSpace>,
    pub(super) config: IndexlessConfig,
    /// Clients; the keeper's mailbox is behind theirs.
    pub(super) clients: u32,
    /// What keeps sectors from changing while somebody looks: readers as shared, others alone.
    pub(super) locks: Arc<RangeLocks>,
    /// What keeps sectors that are being written back from being discarded. Taken before `locks`, never after.
    pub(super) leaving: Arc<RangeLocks>,
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) jobs: Jobs,
    /// Which sectors leave.
    pub(super) order: Order,
    /// Clean copies below dirty ones, as far as there is room to note them: they take room for nothing.
    pub(super) stale: Lock<Vec<Victim>>,
    /// What was given up on the drive of the cache.
    pub(super) trims: Trims,
    /// What the disk was given around the cache and has not durably.
    pub(super) unsettled: Unsettled,
    /// How often sectors were given something else.
    pub(super) changes: Changes,
    /// What the cache is used for.
    pub(super) mode: ModeSwitch,
    /// Why sectors did not come into the cache.
    pub(super) reasons: Reasons,
    /// The disk has no room for more dirty data than there is.
    pub(super) is_disk_full: AtomicBool,
    /// Nothing leaves the cache, as the disk fails or is full.
    pub(super) is_stuck: AtomicBool,
    /// The drive of the cache has little room left.
    pub(super) is_tight: AtomicBool,
    /// Requests that did not come in as it had none.
    pub(super) refused: AtomicU64,
    /// When something became dirty after nothing was; `u64::MAX` if nothing is.
    pub(super) dirty_since_ns: AtomicU64,
    /// For tests.
    pub(super) planted: Planted,
    /// How much there may be.
    pub(super) room: Arc<Room>,
    /// Whether the cache is open.
    pub(super) opening: Opening,
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

    /// Tells whoever chooses that sectors were used in the cache, or have come into it.
    #[inline]
    pub(super) fn touched(&self, cpu: &Cpu, first: u64, count: u32) {
        self.order.touched(cpu, first, count);
    }

    /// Tells whoever chooses that sectors have left.
    pub(super) fn forgotten(&self, cpu: &Cpu, first: u64, count: u32) {
        self.order.forgotten(cpu, first, count);
    }

    /// The word of a sector that is written in the cache.
    pub(super) fn written(&self, word: Word) -> Word {
        match word.is_cached() {
            true => Word::dirty(word.heat()).warmer(),
            false => Word::dirty(self.config.insert_heat),
        }
    }
}

/// Of so many requests that the drive has no room for, one is tried.
const PROBES: u64 = 64;

/// Stretches of stale copies that are noted at most.
const STALE_MAX: usize = 65_536;

impl Shared {
    /// Notes that clean copies are stale. They may be forgotten: whoever gives up the dirty ones gives them up first.
    pub(super) fn note_stale(&self, cpu: &Cpu, stretch: Stretch) {
        self.stale.with(cpu, |list| {
            if list.len() < STALE_MAX {
                list.push(stretch.into());
            }
        });
    }

    /// Why nothing new is to come into the cache, if so. Where the drive has no room, one request of many
    /// comes in nevertheless: by its completion the drive says how much room there is.
    pub(super) fn refusal(&self, mover: &Mover) -> Option<Reason> {
        if self.mode.get() == Mode::Bypass {
            return Some(Reason::Mode);
        }
        let is_red = mover.cache.space_level() > SpaceLevel::Yellow;
        // Relaxed: which one it is does not matter.
        let refuses = is_red && self.refused.fetch_add(1, Ordering::Relaxed) % PROBES != PROBES - 1;
        refuses.then_some(Reason::Level)
    }

    /// Takes note of what the drive of the cache said last of its room: true if that is little.
    pub(super) fn note_space(&self, mover: &Mover) -> bool {
        let is_tight = mover.cache.space_level() > SpaceLevel::Green;
        // Relaxed: whoever has used the drive knows, and looks often.
        self.is_tight.store(is_tight, Ordering::Relaxed);
        is_tight
    }

    /// Notes that something is dirty, or that nothing is.
    pub(super) fn note_dirty(&self, now_ns: u64, bitmap: &Places) {
        // Relaxed: it is a figure for reports.
        let any = bitmap.totals().dirty > 0;
        let since = self.dirty_since_ns.load(Ordering::Relaxed);
        match any {
            true if since == u64::MAX => self.dirty_since_ns.store(now_ns, Ordering::Relaxed),
            false if since != u64::MAX => self.dirty_since_ns.store(u64::MAX, Ordering::Relaxed),
            _ => {}
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
