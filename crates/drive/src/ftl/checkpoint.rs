//! Checkpoints: a snapshot of the map, so that recovery need not look at every page.
//!
//! A checkpoint takes the place of the log in one atomic step. It says of each logical page what a
//! power cut at that instant would leave of it, and of each block how often it was erased and how
//! many of its pages were written. Everything programmed later is then easy to find: in a block of
//! the same erase count the pages behind those, in any other block all of them.
//!
//! Why that is enough, although programs are under way at the instant:
//!
//! 1. Pages of a block are programmed in order, so what is programmed later lies behind.
//! 2. An entry whose page is in a frame counts as the *old* page of the oldest frame, which is the
//!    newest on flash. The frame's program ends later, if at all, and is found by the scan.
//! 3. Of an entry and the pages found, the greatest sequence number wins, as without a checkpoint.
//!    So an overtaken frame (programmed, but older than the entry) does not come back.
//! 4. A page deallocated before the instant is in the map as such, or not at all, for every copy up to
//!    the checkpoint's number; so is one that holds zeros. If it was written again and that is still
//!    under way, the number must be below the new copy's and above the dead ones': the entry is *held*
//!    and the number stands apart. So a copy older than the checkpoint that the scan finds counts
//!    only if its page is held, or has an entry of before.
//! 5. A block is erased only when nothing in it is needed, newer copies are on flash and
//!    deallocations are logged. So an entry that names a block erased since is out of date, and
//!    what takes its place is found by the scan or in the log.
//!
//! The snapshot is made in one go, 4 bytes copied for each logical page, a few milliseconds of real
//! time for 64 GiB; nothing can change meanwhile. Of a sparse map it has the rows that hold something
//! (`checkpoint_rows.rs`). In the drive's time, [`crate::core`] first spends
//! what programming it takes, beside everything else, and then puts it in place.

use super::entry::{Entry, NONE, Place};
use super::frames::OLD_ZEROS;
use super::log::{Kind, long, word};
use super::recover::{Held, RecoveryError, Since};
use super::space::PAGE_GRANULES;
use super::sparse_map::ROW_BYTES;
use super::{BlockState, CHECKPOINT, Ftl};
use crate::media::{Media, MediaError, PAGE_BYTES};

/// In a checkpoint's map: deallocated before a number that stands apart.
const HELD: u32 = NONE;

/// The same, of zeros before that number.
const HELD_ZEROS: u32 = NONE - 1;

/// In a checkpoint's map: holds zeros.
const ZEROS: u32 = NONE - 2;

/// In a checkpoint's map: deallocated.
const TRIMMED: u32 = 1;

/// In a checkpoint's map, added to the number of a flash page.
const FLASH_BASE: u32 = 2;

/// Map entries of a record: 4 MiB of them.
pub(super) const ENTRIES_PER_RECORD: usize = 1 << 20;

/// What a checkpoint's first record says.
struct Head {
    seq: u64,
    logical_pages: u32,
    blocks: u32,
}

impl Ftl {
    /// True if a checkpoint should be taken.
    #[inline]
    pub fn checkpoint_is_due(&self) -> bool {
        self.config.checkpoint_pages > 0
            && self.programs_since_checkpoint >= self.config.checkpoint_pages
    }

    /// True if recovery would have pages to look at that a checkpoint would spare it.
    pub fn checkpoint_is_worthwhile(&self) -> bool {
        self.config.checkpoint_pages > 0 && self.programs_since_checkpoint > 0
    }

    /// Flash pages that a checkpoint takes.
    pub fn checkpoint_pages(&self) -> u64 {
        let map_bytes = match self.map.sparse() {
            None => u64::from(self.plan.logical_pages) * 4,
            Some(map) => {
                let (rows, entries) = map.len();
                rows * ROW_BYTES + entries * 4
            }
        };
        let bytes = map_bytes + u64::from(self.plan.blocks) * 8;
        bytes.div_ceil(u64::from(PAGE_BYTES))
    }

    /// Starts programming pages of a checkpoint, at most one on each plane; returns how many of
    /// `left` are on their way, and when [`Ftl::finish_due`] is to be called.
    pub fn program_checkpoint(&mut self, now_ns: u64, left: u64) -> (u64, u64) {
        let pages = left.min(u64::from(self.plan.planes)) as u32;
        for plane in 0..pages {
            self.nand.program(now_ns, plane, CHECKPOINT);
        }
        self.checkpoint_pages_pending += pages;
        (pages.into(), self.next_end_ns().unwrap_or(now_ns))
    }

    /// True while pages of checkpoints are being programmed.
    pub fn is_programming_checkpoint(&self) -> bool {
        self.checkpoint_pages_pending > 0
    }

    /// Puts a snapshot of what is on flash in the place of the log.
    ///
    /// # Errors
    /// If the image's host refuses: the log is as it was, and the next checkpoint is due when as
    /// much as usual has been programmed again.
    pub fn write_checkpoint(&mut self) -> Result<(), MediaError> {
        if !self.power.allows_change() {
            return Ok(());
        }
        self.programs_since_checkpoint = 0;
        // What the snapshot names must not be less durable than the snapshot.
        self.media.sync()?;
        let records = self.snapshot();
        let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        self.media.log_replace(&slices)?;
        self.trims.clear();
        self.counters.checkpoints += 1;
        Ok(())
    }

    /// The records of a checkpoint of this instant.
    fn snapshot(&self) -> Vec<Vec<u8>> {
        let mut head = Kind::Checkpoint.begin(1);
        head.extend_from_slice(&self.seq.to_le_bytes());
        head.extend_from_slice(&self.plan.logical_pages.to_le_bytes());
        head.extend_from_slice(&self.plan.blocks.to_le_bytes());
        let mut blocks = Kind::Blocks.begin(self.plan.blocks as usize);
        for block in 0..self.plan.blocks {
            blocks.extend_from_slice(&self.media.erase_count(block).to_le_bytes());
            blocks.extend_from_slice(&self.media.written_pages(block).to_le_bytes());
        }
        let mut held_before = Vec::new();
        let mut records = vec![head, blocks];
        match self.map.flat() {
            Some(map) => {
                for entries in map.chunks(ENTRIES_PER_RECORD) {
                    let mut record = Kind::Map.begin(entries.len());
                    for entry in entries {
                        let entry = self.entry_on_flash(*entry, &mut held_before);
                        record.extend_from_slice(&entry.to_le_bytes());
                    }
                    records.push(record);
                }
            }
            None => self.snapshot_rows(&mut records, &mut held_before),
        }
        let mut held = Kind::Held.begin(held_before.len());
        for before in held_before {
            // Only programs under way hold an entry, and their numbers are near.
            let distance = u32::try_from(self.seq - before).expect("under way for 2^32 programs");
            held.extend_from_slice(&distance.to_le_bytes());
        }
        records.push(held);
        records
    }

    /// What a checkpoint says of a page with this map entry: what is on flash of it, or in the log.
    pub(super) fn entry_on_flash(&self, entry: u32, held_before: &mut Vec<u64>) -> u32 {
        let place = match Entry::decode(entry) {
            Entry::Uncached(place) => place,
            Entry::Cached(frame) => self.cached.original(frame),
        };
        let newest = match place {
            Place::Unmapped => return 0,
            Place::Trimmed => return TRIMMED,
            Place::Zero => return ZEROS,
            Place::Flash(ppn) => return ppn + FLASH_BASE,
            Place::Frame(newest) => newest,
        };
        let oldest = self.frames.get(self.frames.oldest_of(newest));
        match oldest.old {
            NONE | OLD_ZEROS => {
                held_before.push(oldest.seq - 1);
                if oldest.old == NONE { HELD } else { HELD_ZEROS }
            }
            ppn => ppn + FLASH_BASE,
        }
    }

    /// Takes map and blocks from a checkpoint, if the log begins with one. Returns what is
    /// programmed since then, and how many records were the checkpoint's.
    pub(super) fn load_checkpoint(
        &mut self,
        log: &[Vec<u8>],
        valid: &mut [u32],
    ) -> Result<Option<(Since, usize)>, RecoveryError> {
        let unknown = || RecoveryError::UnknownRecord;
        let Some(head) = log.first().and_then(|record| parse_head(record)) else {
            return Ok(None);
        };
        self.require_own(&head)?;
        // A sparse map may have nothing at all.
        let all = if self.map.sparse().is_some() {
            head.logical_pages
        } else {
            0
        };
        let (mut since, mut next) = (None, all);
        let mut held = Vec::new();
        for (index, record) in log.iter().enumerate().skip(1) {
            match Kind::parse(record).ok_or(unknown())? {
                (Kind::Blocks, items) => since = Some(self.written_since(items)?),
                (Kind::Map, items) => {
                    let since = since.as_mut().ok_or(unknown())?;
                    next = self.load_entries(next, items, since, valid, &mut held)?;
                }
                (Kind::Rows, items) => {
                    let since = since.as_mut().ok_or(unknown())?;
                    self.load_rows(items, since, valid, &mut held)?;
                    next = head.logical_pages;
                }
                (Kind::Held, items) => {
                    let since = since
                        .filter(|_| next == head.logical_pages)
                        .ok_or(unknown())?;
                    self.seq = head.seq;
                    let held = decode_held(items, &held, head.seq).ok_or(unknown())?;
                    return Ok(Some((
                        Since {
                            seq: head.seq,
                            held,
                            ..since
                        },
                        index + 1,
                    )));
                }
                _ => return Err(unknown()),
            }
        }
        Err(unknown())
    }

    fn require_own(&self, head: &Head) -> Result<(), RecoveryError> {
        let wanted = (self.plan.logical_pages, self.plan.blocks);
        if (head.logical_pages, head.blocks) == wanted {
            return Ok(());
        }
        Err(RecoveryError::ForeignCheckpoint {
            logical_pages: head.logical_pages,
            blocks: head.blocks,
            wanted_pages: wanted.0,
            wanted_blocks: wanted.1,
        })
    }

    /// Compares the blocks of a checkpoint with the present ones.
    fn written_since(&self, items: &[u8]) -> Result<Since, RecoveryError> {
        let blocks = (0..).zip(items.chunks_exact(8));
        let from = blocks.map(|(block, item)| {
            let (erase_count, written) = (word(&item[..4]), word(&item[4..]));
            let erased = self.media.erase_count(block) != erase_count;
            if erased { None } else { Some(written) }
        });
        if items.len() / 8 == self.plan.blocks as usize {
            Ok(Since {
                from: from.collect(),
                ..Since::default()
            })
        } else {
            Err(RecoveryError::UnknownRecord)
        }
    }

    /// Takes the map entries of one record; returns the page after them.
    fn load_entries(
        &mut self,
        first: u32,
        items: &[u8],
        since: &mut Since,
        valid: &mut [u32],
        held: &mut Vec<(u32, bool)>,
    ) -> Result<u32, RecoveryError> {
        let end = u64::from(first) + (items.len() / 4) as u64;
        if end > u64::from(self.plan.logical_pages) {
            return Err(RecoveryError::UnknownRecord);
        }
        self.recovery.map_entries += end - u64::from(first);
        for (lpn, item) in (first..).zip(items.chunks_exact(4)) {
            self.load_entry(lpn, word(item), since, valid, held)?;
        }
        Ok(end as u32)
    }

    /// Takes what a checkpoint says of one page.
    #[inline]
    pub(super) fn load_entry(
        &mut self,
        lpn: u32,
        entry: u32,
        since: &mut Since,
        valid: &mut [u32],
        held: &mut Vec<(u32, bool)>,
    ) -> Result<(), RecoveryError> {
        match entry {
            0 => {}
            TRIMMED => self.set_place(lpn, Place::Trimmed),
            HELD | HELD_ZEROS => held.push((lpn, entry == HELD_ZEROS)),
            ZEROS => {
                self.mapped += 1;
                self.set_place(lpn, Place::Zero);
            }
            flash => {
                let ppn = flash - FLASH_BASE;
                if u64::from(ppn) >= self.media.geometry().numbers() {
                    return Err(RecoveryError::UnknownRecord);
                }
                let block = self.block_of(ppn) as usize;
                if since.from[block].is_some() {
                    valid[block] += self.weight(ppn);
                    self.mapped += 1;
                    self.used_granules += PAGE_GRANULES;
                    self.set_place(lpn, Place::Flash(ppn));
                } else {
                    since.outdated.push(lpn);
                }
            }
        }
        Ok(())
    }

    /// Sorts a block in which a crash of the host's machine has undone programs or half an erase:
    /// it is erased before anything is programmed there, so that the pages counted as written at
    /// the checkpoint stay what they were.
    pub(super) fn set_aside(&mut self, block: u32, valid: u32) {
        self.blocks.validate(block, valid);
        debug_assert!(self.blocks.get(block).state == BlockState::Open);
        self.blocks.close(block, self.seq);
    }
}

fn parse_head(record: &[u8]) -> Option<Head> {
    let (Kind::Checkpoint, items) = Kind::parse(record)? else {
        return None;
    };
    let (seq, rest) = items.split_at_checked(8)?;
    let (logical_pages, blocks) = rest.split_at_checked(4)?;
    Some(Head {
        seq: long(seq),
        logical_pages: word(logical_pages),
        blocks: word(&blocks[..4]),
    })
}

/// Adds to each held page the number before which its copies do not count.
fn decode_held(items: &[u8], held: &[(u32, bool)], seq: u64) -> Option<Vec<Held>> {
    if items.len() / 4 != held.len() {
        return None;
    }
    let items = held.iter().zip(items.chunks_exact(4));
    items
        .map(|((lpn, zeros), item)| {
            Some(Held {
                lpn: *lpn,
                before: seq.checked_sub(u64::from(word(item)))?,
                zeros: *zeros,
            })
        })
        .collect()
}
