//! Loading one core of an image: what is on the disk, judged page by page.
//!
//! 1. Read the sync record; without a sound one, nothing counts as synced.
//! 2. Read the block records: erase counts.
//! 3. Read the entries of each block that has any; holes in the file are skipped, so that the time
//!    grows with the written pages and not with the drive. A block's erase count is the greatest
//!    that its record or an entry names (the record may be rotten, or lost in a crash of the host
//!    machine); entries of a lesser one are void.
//! 4. Check the data of pages that no sync covered: they may be torn, and were then never
//!    acknowledged. The next sync makes that verdict permanent.
//! 5. Find the log.
//!
//! Nothing is written.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::format::{BlockRecord, Layout, PageEntry, SYNC_AT, Sealed, SyncRecord};
use super::log::SlotLog;
use super::store::Store;
use super::{Block, FileMedia, ImageError, Page, UNREADABLE};
use crate::media::{CoreGeometry, HostFault, LPN_MAX, ZeroedSlab};

/// Block records read at once.
const RECORDS_PER_READ: u32 = 4096;

/// A page that is not erased and holds nothing of use.
const LOST: Page = Page {
    seq: 0,
    lpn_plus_1: UNREADABLE,
    data_crc: 0,
};

pub fn core(
    store: Arc<Store>,
    taken: Arc<[AtomicBool]>,
    geometry: CoreGeometry,
    core: u32,
    layout: Layout,
) -> Result<FileMedia, ImageError> {
    let log = SlotLog::open(store.clone(), core, layout, geometry.log_bytes)?;
    let synced_period = load_synced_period(&store, core, &layout)?;
    let mut blocks: ZeroedSlab<Block> =
        ZeroedSlab::new("the block table of an image", geometry.blocks as usize)?;
    load_erase_counts(&store, core, &layout, geometry.blocks, |block, count| {
        blocks[block as usize].erase_count = count;
    })?;
    let mut media = FileMedia {
        taken,
        geometry,
        core,
        layout,
        pages: ZeroedSlab::new("the page table of an image", geometry.pages() as usize)?,
        blocks,
        log,
        sync_period: synced_period.saturating_add(1),
        programmed: false,
        torn: Vec::new(),
        // What the last process wrote may still be on its way to the disk.
        dirty: true,
        store,
    };
    load_entries(&mut media, synced_period)?;
    Ok(media)
}

pub(in crate::media) fn load_synced_period(
    store: &Store,
    core: u32,
    layout: &Layout,
) -> Result<u32, Box<HostFault>> {
    let mut record = SyncRecord::new_zeroed();
    store.read_at("load", record.as_mut_bytes(), layout.core_page + SYNC_AT)?;
    let trusted = record.is_sound() && record.core == core;
    Ok(if trusted {
        record.synced_period.get()
    } else {
        0
    })
}

pub(in crate::media) fn load_erase_counts(
    store: &Store,
    core: u32,
    layout: &Layout,
    blocks: u32,
    mut set: impl FnMut(u32, u32),
) -> Result<(), Box<HostFault>> {
    let mut records = vec![BlockRecord::new_zeroed(); RECORDS_PER_READ as usize];
    for first in (0..blocks).step_by(RECORDS_PER_READ as usize) {
        let records = &mut records[..RECORDS_PER_READ.min(blocks - first) as usize];
        let at = layout.block_records + u64::from(first) * size_of::<BlockRecord>() as u64;
        store.read_at("load", records.as_mut_bytes(), at)?;
        for (number, record) in (first..).zip(&*records) {
            // A blank record has no sound checksum either; both leave 0.
            if record.is_sound() && record.core == core && record.block == number {
                set(number, record.erase_count.get());
            }
        }
    }
    Ok(())
}

fn load_entries(media: &mut FileMedia, synced_period: u32) -> Result<(), Box<HostFault>> {
    let block_bytes = u64::from(media.geometry.pages_per_block) * size_of::<PageEntry>() as u64;
    let mut bytes = vec![0; block_bytes as usize];
    let mut block = 0;
    while block < media.geometry.blocks {
        let at = media.layout.entries + u64::from(block) * block_bytes;
        let Some(data_at) = media.store.next_data(at) else {
            break;
        };
        let skipped = (data_at - at) / block_bytes;
        if skipped > 0 {
            let left = u64::from(media.geometry.blocks - block);
            block += skipped.min(left) as u32;
            continue;
        }
        media.store.read_at("load", &mut bytes, at)?;
        let entries = <[PageEntry]>::ref_from_bytes(&bytes).expect("a whole number of entries");
        load_block(media, block, entries, synced_period)?;
        block += 1;
    }
    Ok(())
}

fn load_block(
    media: &mut FileMedia,
    block: u32,
    entries: &[PageEntry],
    synced_period: u32,
) -> Result<(), Box<HostFault>> {
    let first = block * media.geometry.pages_per_block;
    let trusted = |ppn: u32, entry: &PageEntry| entry.ppn == ppn && entry.is_sound();
    let epochs = (first..)
        .zip(entries)
        .filter(|&(ppn, entry)| trusted(ppn, entry));
    let newest = epochs
        .map(|(_, entry)| entry.epoch.get())
        .max()
        .unwrap_or(0);
    let erase_count = media.blocks[block as usize].erase_count.max(newest);
    let mut written_pages = 0;
    for (index, (ppn, entry)) in (0..).zip((first..).zip(entries)) {
        if entry.is_blank() {
            continue;
        }
        let page = match trusted(ppn, entry) {
            true if entry.epoch != erase_count => continue,
            true => load_page(media, ppn, entry, synced_period)?,
            false => LOST,
        };
        media.pages[ppn as usize] = page;
        written_pages = index + 1;
    }
    media.blocks[block as usize] = Block {
        erase_count,
        written_pages,
    };
    Ok(())
}

fn load_page(
    media: &mut FileMedia,
    ppn: u32,
    entry: &PageEntry,
    synced_period: u32,
) -> Result<Page, Box<HostFault>> {
    if entry.lpn.get() > LPN_MAX {
        return Ok(LOST);
    }
    let (seq, data_crc) = (entry.seq.get(), entry.data_crc.get());
    if entry.sync_period > synced_period {
        media.sync_period = media
            .sync_period
            .max(entry.sync_period.get().saturating_add(1));
        media.programmed = true;
        let mut data = [0; crate::media::PAGE_BYTES as usize];
        let data = &mut data[..media.geometry.page_bytes as usize];
        media.store.read_at("load", data, media.data_at(ppn))?;
        if crc_fast::crc32_iscsi(data) != data_crc {
            media.torn.push(ppn);
            return Ok(LOST);
        }
    }
    Ok(Page {
        seq,
        lpn_plus_1: entry.lpn.get() + 1,
        data_crc,
    })
}
