//! The translation layer of one core: where each logical page is, and how it gets there.
//!
//! Plain state and plain functions: nothing here waits or knows which clock runs. A function that
//! starts a flash operation returns when it will end; the tasks in [`crate::core`] wait for that
//! and call back to finish it. In the order of a write:
//!
//! 1. [`Ftl::stage`] takes a frame and a physical page, copies the data into the frame, points the
//!    map at it and starts the program;
//! 2. [`Ftl::finish_due`] ends it when its time has come: the media change, the map names flash, the
//!    old page becomes invalid, the frame is free again.
//!
//! | file | idea |
//! |---|---|
//! | `entry.rs` | the 4-byte map entry |
//! | `map.rs`, `sparse_map.rs` | the map, of all pages or of what is there |
//! | `space.rs` | how much of the flash is used, and what may be written |
//! | `cached.rs` | frames of lent host memory, and what each page is below |
//! | `frames.rs` | data on its way to flash, and the page it replaces |
//! | `blocks.rs` | states and valid counts of erase blocks |
//! | `frontier.rs` | the open blocks that pages are written to |
//! | `write.rs` | stage, finish |
//! | `clear.rs` | deallocate, and make zeros |
//! | `squeeze.rs` | compressing a page on its way in, expanding it on its way out |
//! | `pack.rs` | compressed pages side by side in units, and the walk of both |
//! | `units.rs` | which units are open, which is filled next, when they are closed |
//! | `collect.rs` | when to collect, and moving pages |
//! | `victims.rs` | which blocks are collected, and how many at once |
//! | `recover.rs` | map and blocks from out-of-band data and the log |
//! | `log.rs`, `trims.rs` | the log, and deallocations and zeros in it |
//! | `checkpoint.rs`, `checkpoint_rows.rs` | snapshots of the map, so that recovery is bounded |
//! | `precondition.rs` | the state of long use, in no simulated time |
//! | `verify.rs` | the whole structure, checked against itself |

mod blocks;
mod cached;
mod checkpoint;
mod checkpoint_rows;
mod clear;
mod collect;
pub mod counters;
mod entry;
mod frames;
mod frontier;
mod hint;
mod log;
mod map;
mod pack;
mod precondition;
mod recover;
mod space;
mod sparse_map;
mod squeeze;
#[cfg(test)]
mod tests;
mod trims;
mod units;
mod verify;
mod victims;
mod write;

pub use blocks::State as BlockState;
pub use cached::{CachedFrames, Fill};
pub use collect::Batch;
pub use counters::Counters;
pub use entry::{CACHED_MAX, Entry, NONE, PAGES_MAX, Place};
pub use frames::Origin;
pub(crate) use frames::gc_frames;
pub use hint::MapHint;
pub use precondition::{Overwrite, Precondition, PreconditionError, Preconditioned};
pub use recover::{Recovery, RecoveryError};
pub use space::{GRANULE_BYTES, PAGE_GRANULES, Space};
pub(crate) use sparse_map::bytes_max as sparse_map_bytes_max;
pub use victims::Urgency;
pub use write::Refusal;
pub(crate) use write::blocks_needed;

use std::cell::Cell;

use crate::config::{CorePlan, DriveConfig, FrameIndex, FtlConfig};
use crate::divide::quotient;
use crate::media::{AnyMedia, Media, MediaError, Oob, SlabError};
use crate::nand::Nand;
use crate::power::PowerSwitch;
use blocks::Blocks;
use frames::Frames;
use frontier::Frontiers;
use map::Map;
use trims::Trim;
use units::Packer;
use victims::Victims;

/// One core's translation layer with its flash.
pub struct Ftl {
    plan: CorePlan,
    config: FtlConfig,
    map: Map,
    /// Logical pages that hold data.
    mapped: u32,
    /// Granules of flash that they take.
    used_granules: u64,
    /// Granules that any page may take: those beyond are for metadata.
    open_granules: u64,
    media: AnyMedia,
    nand: Nand,
    blocks: Blocks,
    frames: Frames,
    cached: CachedFrames,
    /// How the frames of cached pages are found.
    frame_index: FrameIndex,
    frontiers: Frontiers,
    /// How pages are packed, where they are.
    packer: Option<Box<Packer>>,
    erases_pending: u32,
    /// Pages of checkpoints that are being programmed.
    checkpoint_pages_pending: u32,
    /// Blocks that are being collected.
    victims: Victims,
    /// Sequence number of the latest program or trim.
    seq: u64,
    /// Deallocations not yet in the log.
    trims: Vec<Trim>,
    programs_since_checkpoint: u64,
    read_only: bool,
    /// The image's file system had no room for the block that was to be opened last.
    lacks_room: bool,
    /// Every block that holds data of no logical page is to be erased.
    wiping: bool,
    power: PowerSwitch,
    counters: Counters,
    recovery: Recovery,
    /// What [`Ftl::wear`] found last, until a block is erased or retired.
    wear: Cell<Option<Wear>>,
}

/// Erase counts of the blocks in use: smallest ([`u32::MAX`] if there is none), greatest and sum; and the
/// number of retired blocks.
type Wear = (u32, u32, u64, u32);

/// Marks an erase among the operations under way; the low bits are the block.
const ERASE: u32 = 1 << 31;

/// Marks reads of collection; the low bits are the collector that waits for them, or
/// [`NOBODY`]. What has neither mark is a frame that is programmed, or [`CHECKPOINT`].
const READ: u32 = 1 << 30;

/// Nobody waits for these reads: others of the batch come after them.
const NOBODY: u32 = READ - 1;

/// A page of a checkpoint.
const CHECKPOINT: u32 = READ - 1;

/// Marks a collector among the owners of frames, whose low bits are its number. Else the owner is a
/// worker.
pub const COLLECTOR: u32 = 1 << 31;

/// Most lists of blocks by the weight of their valid data, where that is not a number of pages.
const LISTS_MAX: u32 = 1024;

/// What ended in [`Ftl::finish_due`]. Reused from call to call.
#[derive(Debug, Default)]
pub struct Finished {
    /// Owners of host frames that ended, with whether the program failed; one entry a frame.
    pub owners: Vec<(u32, bool)>,
    /// Collectors whose batch of pages has been read.
    pub read: Vec<u32>,
    /// Programs that ended.
    pub programs: u32,
    /// Pages of checkpoints that were programmed.
    pub checkpoint_pages: u32,
    /// Blocks that became free, or whose last valid page went: space, or collection, may go on.
    pub blocks_changed: bool,
}

/// A drive that cannot be powered on.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No memory for the map.
    #[error(transparent)]
    Memory(#[from] SlabError),
    /// The media hold something that this drive did not write.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The sizes of compressed stamps are not to be had.
    #[error("drive: compression.sizes: {0}")]
    Sizes(#[from] wharf_codec::TableError),
}

impl Ftl {
    /// Powers a core on over its media: empty media make an empty drive, others are recovered.
    pub fn open(
        config: &DriveConfig,
        plan: CorePlan,
        media: AnyMedia,
        power: PowerSwitch,
    ) -> Result<Ftl, OpenError> {
        let page_bytes = media.geometry().page_bytes as usize;
        let frames = config.ftl.write_buffer_pages / config.firmware.cores;
        let mut ftl = Ftl {
            map: Map::new(plan.logical_pages, plan.entries_max())?,
            mapped: 0,
            used_granules: 0,
            open_granules: plan.open_granules(),
            nand: Nand::new(
                &config.timing,
                config.ftl.read_share,
                plan.planes,
                plan.channels,
            ),
            blocks: Blocks::new(
                plan.planes,
                plan.blocks_per_plane,
                plan.weight_per_block,
                plan.weight_per_block
                    .min(LISTS_MAX)
                    .max(plan.pages_per_block),
            ),
            frames: Frames::new(frames, page_bytes),
            cached: CachedFrames::new(0, config.host_memory.index)?,
            frame_index: config.host_memory.index,
            frontiers: Frontiers::new(plan.planes),
            packer: Packer::new(config, &plan, frames.max(2)).transpose()?,
            erases_pending: 0,
            checkpoint_pages_pending: 0,
            victims: Victims::new(plan.victims_max),
            seq: 0,
            trims: Vec::new(),
            programs_since_checkpoint: 0,
            read_only: false,
            lacks_room: false,
            wiping: false,
            power,
            counters: Counters::default(),
            recovery: Recovery::default(),
            wear: Cell::new(None),
            config: config.ftl.clone(),
            plan,
            media,
        };
        // Zeros compress to nothing.
        ftl.config.elide_zeros |= config.compression.is_on();
        ftl.recover()?;
        Ok(ftl)
    }

    /// The core's share of the drive.
    pub fn plan(&self) -> &CorePlan {
        &self.plan
    }

    /// Gives the media back: the core is powered off.
    pub fn into_media(self) -> AnyMedia {
        self.media
    }

    /// The media, to look at or to damage (tests of rot).
    pub fn media_mut(&mut self) -> &mut AnyMedia {
        &mut self.media
    }

    /// What was counted since power-on.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// To count what the tasks see.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Forgets what was counted: the end of preconditioning.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// Logical pages that hold data.
    pub fn mapped(&self) -> u32 {
        self.mapped
    }

    /// True if the drive takes no more writes.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// True if flash operations take no time: no need to look at the clock.
    #[inline]
    pub fn is_instant(&self) -> bool {
        self.nand.is_instant()
    }

    /// Frames that collection has.
    pub fn gc_frames(&self) -> u32 {
        self.frames.gc_count()
    }

    /// Blocks that are free.
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free_count()
    }

    /// Total time the core's planes were busy.
    pub fn plane_busy_ns(&self) -> u64 {
        self.nand.busy_ns()
    }

    /// Smallest ([`u32::MAX`] if there is none), greatest and summed erase count of the blocks in
    /// use, and the number of retired blocks.
    pub fn wear(&self) -> Wear {
        // Statistics are sampled much more often than blocks are erased.
        let wear = self.wear.get().unwrap_or_else(|| self.count_wear());
        self.wear.set(Some(wear));
        wear
    }

    fn count_wear(&self) -> Wear {
        let in_use = self
            .blocks
            .iter()
            .filter(|(_, b)| b.state != BlockState::Retired);
        let counts = in_use.map(|(block, _)| self.media.erase_count(block));
        let (low, high, sum, blocks) = counts.fold((u32::MAX, 0, 0, 0), |(l, h, s, n), c| {
            (l.min(c), h.max(c), s + u64::from(c), n + 1)
        });
        (low, high, sum, self.plan.blocks - blocks)
    }

    #[inline]
    fn block_of(&self, ppn: u32) -> u32 {
        quotient(u64::from(ppn), self.plan.extents_per_block) as u32
    }

    #[inline]
    fn plane_of(&self, ppn: u32) -> u32 {
        self.blocks.plane_of(self.block_of(ppn))
    }

    /// What the map holds for a logical page.
    #[inline]
    fn map_entry(&self, lpn: u32) -> Entry {
        Entry::decode(self.map.get(lpn))
    }

    /// Where a logical page is: the frame that caches it, if one does.
    #[inline]
    pub fn entry(&self, lpn: u32) -> Entry {
        match self.cached.find(lpn) {
            Some(frame) => Entry::Cached(frame),
            None => self.map_entry(lpn),
        }
    }

    /// Where a logical page is, below the frame that caches it if one does.
    #[inline]
    pub fn place(&self, lpn: u32) -> Place {
        match self.map_entry(lpn) {
            Entry::Uncached(place) => place,
            Entry::Cached(frame) => self.cached.original(frame),
        }
    }

    /// Changes where a logical page is, below the frame that caches it if one does.
    #[inline]
    fn set_place(&mut self, lpn: u32, place: Place) {
        match self.map_entry(lpn) {
            Entry::Uncached(_) => self.map.set(lpn, place.encode()),
            Entry::Cached(frame) => self.cached.set_original(frame, place),
        }
    }

    /// Brings a map entry near: the page will be looked up soon.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        self.map.prefetch(lpn);
    }

    /// Copies a logical page to `out`; returns when the flash has delivered it.
    pub fn read(&mut self, now_ns: u64, lpn: u32, out: &mut [u8]) -> Result<u64, MediaError> {
        match self.place(lpn) {
            Place::Flash(ppn) => {
                let end_ns = self.start_read(now_ns, ppn);
                self.finish_read(lpn, ppn, out).map(|()| end_ns)
            }
            place => {
                self.copy_from_memory(place, out);
                Ok(now_ns)
            }
        }
    }

    /// Copies a page that is not on flash.
    #[inline]
    pub fn copy_from_memory(&self, place: Place, out: &mut [u8]) {
        match place {
            Place::Frame(frame) if self.packs() => self.expand_frame(frame, out),
            Place::Frame(frame) => out.copy_from_slice(self.frames.data(frame)),
            _ => out.fill(0),
        }
    }

    /// Starts the read of a physical page; returns when the flash has delivered it.
    #[inline]
    pub fn start_read(&mut self, now_ns: u64, ppn: u32) -> u64 {
        self.counters.media_reads += 1;
        self.media.prefetch(ppn);
        self.nand.read(now_ns, self.plane_of(ppn))
    }

    /// Copies a logical page whose read from `ppn` was started to `out`: by now it has been brought
    /// near.
    ///
    /// A programmed page stays as it is until its block is erased, and an erase queues behind the
    /// read on the plane. But a busy core may come to the reader after the end of both: the page
    /// was moved or overwritten before its block could be erased, and what it is now is delivered.
    #[inline]
    pub fn finish_read(&mut self, lpn: u32, ppn: u32, out: &mut [u8]) -> Result<(), MediaError> {
        let read = match self.packs() {
            false => self.media.read(ppn, out),
            true => {
                let read = self.read_packed(ppn, out, true);
                read.map(|oob| oob.expect("it was waited for"))
            }
        };
        match read {
            Ok(oob) if oob.lpn == lpn => Ok(()),
            other => self.finish_read_late(lpn, ppn, other, out),
        }
    }

    /// As [`Ftl::finish_read`], without waiting for slow media: false if the page is on its way. Ask again.
    #[inline]
    pub fn finish_read_if_near(
        &mut self,
        lpn: u32,
        ppn: u32,
        out: &mut [u8],
    ) -> Result<bool, MediaError> {
        let read = match self.packs() {
            false => self.media.read_if_near(ppn, out),
            true => self.read_packed(ppn, out, false),
        };
        let late = match read {
            Ok(None) => return Ok(false),
            Ok(Some(oob)) if oob.lpn == lpn => return Ok(true),
            Ok(Some(oob)) => Ok(oob),
            Err(error) => Err(error),
        };
        self.finish_read_late(lpn, ppn, late, out).map(|()| true)
    }

    #[cold]
    fn finish_read_late(
        &mut self,
        lpn: u32,
        ppn: u32,
        found: Result<Oob, MediaError>,
        out: &mut [u8],
    ) -> Result<(), MediaError> {
        let place = self.place(lpn);
        match (found, place) {
            (Ok(_) | Err(MediaError::Erased { .. }), Place::Flash(now)) if now != ppn => {
                self.finish_read(lpn, now, out)
            }
            (Ok(oob), Place::Flash(_)) => {
                panic!("the map says {lpn} is at {ppn}, where {} is", oob.lpn)
            }
            (
                Ok(_) | Err(MediaError::Erased { .. }),
                Place::Frame(_) | Place::Unmapped | Place::Trimmed | Place::Zero,
            ) => {
                self.copy_from_memory(place, out);
                Ok(())
            }
            (Err(error), _) => {
                self.counters.rot_found += 1;
                Err(error)
            }
        }
    }

    /// Lets others bring map entries near.
    pub fn map_hint(&self) -> MapHint {
        self.map.hint()
    }

    /// When to call [`Ftl::finish_due`] next: an operation ends, or begins, then.
    #[inline]
    pub fn next_end_ns(&self) -> Option<u64> {
        let next_ns = self.nand.next_event_ns();
        match self.close_at_ns() {
            None => next_ns,
            Some(at_ns) => Some(next_ns.map_or(at_ns, |next_ns| next_ns.min(at_ns))),
        }
    }

    /// Ends every operation whose time has come.
    pub fn finish_due(&mut self, now_ns: u64, finished: &mut Finished) {
        self.close_due(now_ns);
        while let Some(what) = self.nand.end_one(now_ns) {
            if what & ERASE != 0 {
                self.finish_erase(what & !ERASE, finished);
            } else if what & READ != 0 {
                let collector = what & !READ;
                finished
                    .read
                    .extend((collector != NOBODY).then_some(collector));
            } else if what == CHECKPOINT {
                self.checkpoint_pages_pending -= 1;
                finished.checkpoint_pages += 1;
            } else if self.packs() {
                self.finish_unit(what, finished);
            } else {
                self.finish_program(what, finished);
            }
        }
    }
}
