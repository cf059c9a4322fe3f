//! The machinery of a page cache in host memory, which designs share: frames, index, replacement,
//! the frames that a request holds, write-back.
//!
//! | file | idea |
//! |---|---|
//! | [`frame`] | a frame's page and state, in 8 bytes |
//! | [`dirty`] | which frames are dirty |
//! | [`shard`] | frames, index and policy behind one lock; who waits |
//! | this one | the shards and the memory of the frames |
//! | [`local`], [`copied`] | what one CPU has of it; how a payload meets a frame |
//! | [`client`] | what a client does page by page: hit, or take hold of a frame |
//! | [`pin`], [`pins`] | the frames that a request holds, and the commands that free them |
//! | [`flush`] | write-back of everything |
//!
//! Data is copied under the shard's lock. A section is one page long at most, and so readers and
//! writers of a page are in order, no page is ever seen torn, and a hit is one lock, one look-up,
//! one copy. A request that waits for another one holds nothing, so there is no deadlock; a frame
//! that it holds for its own commands is *busy* or *writing*, and stays.

pub mod client;
pub mod copied;
pub mod dirty;
pub mod flush;
pub mod frame;
pub mod local;
pub mod pin;
pub mod pins;
pub mod shard;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use wharf_runtime::page_index::hash_page;
use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::{DmaRegion, DmaSpace};

use crate::cache::shard::Shard;
use crate::design::{DesignConfig, DesignError, Replacement};
use wharf_runtime::wake::Mailboxes;

/// Frames below which a shard is not divided further: a tiny shard would be a poor
/// sample of what the policy would choose.
const SHARD_FRAMES_MIN: u32 = 64;

/// The frames of a cache, and what is known of them.
pub struct PageCache {
    shards: Box<[CachePadded<Lock<Shard>>]>,
    /// First frame of each shard in the region.
    starts: Box<[u32]>,
    /// 64 less the base-2 logarithm of the number of shards.
    shard_shift: u32,
    region: DmaRegion,
    mailboxes: Arc<Mailboxes>,
    /// Write-backs that ever failed.
    failures: AtomicU64,
}

/// A shard under its lock, with the memory of its frames.
pub struct Section<'a> {
    shard: &'a mut Shard,
    region: &'a DmaRegion,
    start: u32,
}

impl Deref for Section<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        self.shard
    }
}

impl DerefMut for Section<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        self.shard
    }
}

impl Section<'_> {
    /// The data of a frame that is ready.
    #[inline]
    pub fn data(&self, frame: u32) -> &[u8] {
        assert!(!self.shard.frame(frame).is_busy(), "a ready frame");
        // SAFETY: the shard's lock is held, so no other client has a reference; the frame is not
        // busy, so no command writes to it, though one may read it; `&self` keeps `data_mut` away.
        unsafe { self.region.page_ref((self.start + frame) as usize) }
    }

    /// The data of a frame that is ready and not being written to the drive.
    #[inline]
    pub fn data_mut(&mut self, frame: u32) -> &mut [u8] {
        assert!(
            !self.shard.frame(frame).is_pinned(),
            "a frame that no command names"
        );
        // SAFETY: the shard's lock is held, so no other client has a reference; no command names
        // the frame; `&mut self` keeps other references of this section away.
        unsafe { self.region.page_mut((self.start + frame) as usize) }
    }
}

impl PageCache {
    /// The cache of a design called `design`.
    ///
    /// # Errors
    /// If it is too small or too large, or there is no memory.
    pub fn new(
        design: &'static str,
        config: &DesignConfig,
        replacement: Replacement,
        space: &Arc<DmaSpace>,
    ) -> Result<PageCache, DesignError> {
        let frames = config.frames(design)?;
        let shards = shard_count(config.clients, frames);
        let memory = |source| DesignError::Memory { design, source };
        let region = space.register(frames as usize).map_err(memory)?;
        let (each, more) = (frames / shards, frames % shards);
        let size = |shard: u32| each + u32::from(shard < more);
        let start = |shard: u32| shard * each + shard.min(more);
        let shard = |at| {
            let shard = Shard::new(size(at), replacement).map_err(memory)?;
            Ok(CachePadded::new(Lock::new(shard)))
        };
        let all: Result<Box<[_]>, DesignError> = (0..shards).map(shard).collect();
        Ok(PageCache {
            shards: all?,
            starts: (0..shards).map(start).collect(),
            shard_shift: 64 - shards.trailing_zeros(),
            region,
            mailboxes: Mailboxes::new(config.clients),
            failures: AtomicU64::new(0),
        })
    }

    /// The shard of a page, and the page's hash.
    #[inline]
    pub fn shard_of(&self, page: u64) -> (u32, u64) {
        let hash = hash_page(page);
        // With one shard the shift is 64: everything in it.
        let shard = hash.checked_shr(self.shard_shift).unwrap_or(0);
        (shard as u32, hash)
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.shards.len() as u32
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.region.pages()
    }

    /// Bytes of a page as stored: 4096, or 8 for stamps.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.region.page_bytes()
    }

    /// The mailboxes of the clients.
    pub fn mailboxes(&self) -> &Arc<Mailboxes> {
        &self.mailboxes
    }

    /// Runs `f` on a shard with its lock held.
    #[inline]
    pub fn with<R>(&self, cpu: &Cpu, shard: u32, f: impl FnOnce(&mut Section<'_>) -> R) -> R {
        let start = self.starts[shard as usize];
        self.shards[shard as usize].with(cpu, |shard| {
            f(&mut Section {
                shard,
                region: &self.region,
                start,
            })
        })
    }

    /// The DMA address of a frame.
    #[inline]
    pub fn address(&self, shard: u32, frame: u32) -> u64 {
        self.region
            .address((self.starts[shard as usize] + frame) as usize)
    }

    /// Notes that `pages` pages could not be written to the drive.
    pub fn note_failures(&self, pages: u64) {
        // Relaxed: a count; who must hear of it synchronises through the pages' shards.
        self.failures.fetch_add(pages, Ordering::Relaxed);
    }

    /// Write-backs that ever failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Bytes that it takes to keep book of the frames.
    pub fn bookkeeping_bytes(&self, cpu: &Cpu) -> usize {
        (0..self.shards())
            .map(|i| self.with(cpu, i, |s| s.bytes()))
            .sum()
    }

    /// Checks every shard.
    ///
    /// # Panics
    /// If one is in disorder.
    pub fn verify(&self, cpu: &Cpu) {
        (0..self.shards()).for_each(|i| self.with(cpu, i, |s| s.verify()));
    }
}

/// One shard for one client, which so has its policy exactly; else a power of two of at least four for
/// each client, as long as a shard has enough frames.
fn shard_count(clients: u32, frames: u32) -> u32 {
    if clients == 1 {
        return 1;
    }
    let wanted = clients.saturating_mul(4).next_power_of_two();
    let most = (frames / SHARD_FRAMES_MIN).max(1);
    wanted.min(1 << most.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_alone_has_one_shard_and_tiny_caches_are_not_divided() {
        assert_eq!(shard_count(1, 1 << 20), 1);
        assert_eq!(shard_count(2, 1 << 20), 8);
        assert_eq!(shard_count(5, 1 << 20), 32);
        assert_eq!(shard_count(8, 1000), 8);
        assert_eq!(shard_count(8, 3), 1);
    }
}
