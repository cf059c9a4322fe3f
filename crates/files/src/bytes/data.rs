//! Reading and writing the bytes of files.
//!
//! A write puts whole pages where nothing was: it takes new ones, or those that the file has and
//! never wrote. They are durable before the record that leads to them is, so after a power cut a
//! write is there as a whole or not at all. Who writes over what is there goes through the gate of the file
//! for the record alone ([`overwrite`]): those who write other pages of it are beside. What a file has behind its end in its last page is
//! anything: an append stores its bytes there, and whoever moves the end over it without writing
//! it puts a page with zeros in its place.

use smallvec::SmallVec;
use wharf_runtime::Op;

use super::layout::PAGE;
use super::node::Node;
use super::record::{Extent, Inode, Record};
use super::store::Store;
use super::tx::Tx;
use crate::arguments::{By, Place, Write, Written};
use crate::attributes::Kind;
use crate::cost::work;
use crate::errno::{Errno, FileError};
use crate::limits::FILE_BYTES_MAX;
use crate::lines::Lines;
use crate::pages::PAGE_BYTES;
use crate::payload::{In, Out};

/// Refuses what is no file.
///
/// # Errors
/// `EISDIR`, `EINVAL`.
pub fn check_is_file(node: &Node) -> Result<(), Errno> {
    match node.inode().kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

/// What a change of its bytes does to a file besides.
pub fn changed(inode: &mut Inode, by: By<'_>) {
    inode.mode = by.caller.mode_after_write(inode.mode, inode.gid);
    (inode.modified_ns, inode.changed_ns) = (by.now_ns, by.now_ns);
}

/// Bytes of a page that lie before the end of a file of `size` bytes.
fn valid_bytes(size: u64, page: u64) -> usize {
    size.saturating_sub(page.saturating_mul(PAGE)).min(PAGE) as usize
}

/// Where pages of a file are, as far as they have storage.
fn covering(node: &Node, from: u64, to: u64) -> SmallVec<[Extent; 4]> {
    work(Op::ExtentLookup, || {
        node.extents.covering(from, to).collect()
    })
}

/// Reads as far as there is something; the number of bytes.
///
/// # Errors
/// Those of [`check_is_file`]; of the media.
pub async fn read<L: Lines>(
    store: &Store<L>,
    node: &Node,
    offset: u64,
    mut out: Out<'_>,
) -> Result<u64, FileError> {
    check_is_file(node)?;
    let bytes = out.len().min(node.inode().size.saturating_sub(offset));
    let end = offset + bytes;
    let mut at = offset;
    for extent in covering(node, offset / PAGE, end.div_ceil(PAGE)) {
        if !extent.is_written {
            continue;
        }
        let from = (extent.at * PAGE).max(offset);
        let to = (extent.end().saturating_mul(PAGE)).min(end);
        if at < from {
            store
                .lines
                .zero(out.slice(at - offset..from - offset))
                .await?;
        }
        let address = extent.first * PAGE + (from - extent.at * PAGE);
        let part = out.slice(from - offset..to - offset);
        store.lines.load_to(address, part).await?;
        at = to;
    }
    if at < end {
        store.lines.zero(out.slice(at - offset..bytes)).await?;
    }
    Ok(bytes)
}

/// Where the pages of a write go: new ones, or those that were never written.
fn places<L: Lines>(
    tx: &mut Tx<'_, L>,
    number: u64,
    (from, to): (u64, u64),
) -> Result<Vec<Extent>, FileError> {
    let (mut places, mut at): (Vec<Extent>, u64) = (Vec::new(), from);
    let goal_behind = |tx: &Tx<'_, L>, at: u64| {
        let before = tx
            .node(number)
            .extents
            .covering(at.saturating_sub(1), at)
            .last();
        before.map(|extent| extent.run().end())
    };
    let mut goal = goal_behind(tx, from).unwrap_or_else(|| tx.next_page());
    while at < to {
        let mut there = tx.node(number).extents.covering(at, to);
        let reserved = there.find(|extent| !extent.is_written);
        drop(there);
        let place = match reserved {
            Some(extent) if extent.at == at => extent,
            reserved => {
                let most = reserved.map_or(to, |extent| extent.at) - at;
                let run = match tx.take(goal, most) {
                    Ok(run) => run,
                    // As much as there is room for.
                    Err(FileError::Errno(Errno::ENOSPC)) if !places.is_empty() => break,
                    Err(error) => return Err(error),
                };
                Extent {
                    at,
                    pages: run.pages,
                    first: run.first,
                    is_written: true,
                }
            }
        };
        let is_written = true;
        (at, goal) = (place.end(), place.run().end());
        places.push(Extent {
            is_written,
            ..place
        });
    }
    Ok(places)
}

/// What a file has where a write goes.
struct Before {
    size: u64,
    /// In the order of pages.
    extents: SmallVec<[Extent; 4]>,
}

impl Before {
    fn of(node: &Node, from: u64, to: u64) -> Before {
        Before {
            size: node.inode().size,
            extents: node.extents.covering(from, to).collect(),
        }
    }

    /// Whether all pages of a range have storage that was written.
    fn is_written(&self, from: u64, to: u64) -> bool {
        let written = self.extents.iter().filter(|extent| extent.is_written);
        written.map(|extent| extent.pages).sum::<u64>() == to - from
    }

    fn extent_of(&self, page: u64) -> Option<Extent> {
        let mut all = self.extents.iter();
        all.find_map(|extent| extent.within(page, page + 1))
    }
}

/// What a page of a file holds, with zeros behind the end.
async fn page_of<L: Lines>(
    store: &Store<L>,
    (size, extent): (u64, Option<Extent>),
    page: u64,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = vec![0; PAGE_BYTES];
    if let Some(extent) = extent.filter(|extent| extent.is_written) {
        let valid = valid_bytes(size, page);
        store
            .lines
            .load(extent.first * PAGE, &mut bytes[..valid])
            .await?;
    }
    Ok(bytes)
}

/// Stores the bytes of a write that lie in one of its places.
async fn put_place<L: Lines>(
    store: &Store<L>,
    before: &Before,
    place: &Extent,
    (offset, data): (u64, In<'_>),
) -> Result<(), FileError> {
    let end = offset + data.len();
    let mut at = place.at;
    while at < place.end() {
        let (start, address) = (at * PAGE, (place.first + (at - place.at)) * PAGE);
        if start >= offset && start + PAGE <= end {
            // As many whole pages as there are.
            let pages = (place.end() - at).min((end - start) / PAGE);
            let from = start - offset;
            let whole = data.slice(from..from + pages * PAGE);
            store.store(address, whole).await?;
            at += pages;
            continue;
        }
        let old = (before.size, before.extent_of(at));
        let mut page = page_of(store, old, at).await?;
        let (from, to) = (start.max(offset), (start + PAGE).min(end));
        let part = &mut page[(from - start) as usize..(to - start) as usize];
        let new = data.slice(from - offset..to - offset);
        store.lines.fetch(new, part).await?;
        store.store(address, &page).await?;
        at += 1;
    }
    Ok(())
}

/// Stores what an append has for the last page of the file, behind its end; how many bytes.
async fn append_in_place<L: Lines>(
    tx: &Tx<'_, L>,
    number: u64,
    (offset, data): (u64, In<'_>),
) -> Result<u64, FileError> {
    let node = tx.node(number);
    let (page, inside) = (offset / PAGE, offset % PAGE);
    if offset != node.inode().size || inside == 0 {
        return Ok(0);
    }
    let extent = node.extents.covering(page, page + 1).next();
    let Some(extent) = extent.filter(|extent| extent.is_written) else {
        return Ok(0);
    };
    let bytes = data.len().min(PAGE - inside);
    tx.store()
        .store(extent.first * PAGE + inside, data.slice(0..bytes))
        .await?;
    Ok(bytes)
}

/// Writes as much of `data` as there is room for, in at most `pages_max` pages.
async fn write_some<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    write: Write,
    data: In<'_>,
    pages_max: u64,
) -> Result<Written, FileError> {
    let mut tx = store.begin(&[number]).await?;
    tx.load(number).await?;
    check_is_file(tx.node(number))?;
    let mut inode = tx.node(number).inode();
    let offset = match write.place {
        Place::At(offset) => offset,
        Place::End => inode.size,
    };
    if data.is_empty() {
        return Ok(Written { offset, bytes: 0 });
    }
    let room = write.end_max.min(FILE_BYTES_MAX).saturating_sub(offset);
    if room == 0 {
        return Err(Errno::EFBIG.into());
    }
    let bytes = room.min(data.len());
    let data = data.slice(0..bytes);
    if offset > inode.size {
        clear_tail(&mut tx, number, offset / PAGE).await?;
    }
    let here = append_in_place(&tx, number, (offset, data)).await?;
    let (rest_at, rest) = (offset + here, data.slice(here..bytes));
    let mut end = rest_at;
    if !rest.is_empty() {
        let from = rest_at / PAGE;
        let to = (offset + bytes).div_ceil(PAGE).min(from + pages_max);
        if is_stored(tx.node(number), from, to) {
            // It gives back as much as it takes.
            tx.gives_back();
        }
        let places = match places(&mut tx, number, (from, to)) {
            Err(FileError::Errno(Errno::ENOSPC)) if here > 0 => Vec::new(),
            places => places?,
        };
        let before = Before::of(tx.node(number), from, to);
        for place in &places {
            let part_end = (place.end() * PAGE).min(offset + bytes);
            let part = rest.slice(0..part_end.saturating_sub(rest_at));
            put_place(store, &before, place, (rest_at, part)).await?;
            end = rest_at + part.len();
        }
        for place in places {
            tx.push(number, &Record::Extent(place))?;
        }
    }
    inode.size = inode.size.max(end);
    changed(&mut inode, by);
    tx.push(number, &Record::Inode(inode))?;
    tx.commit().await?;
    let bytes = end - offset;
    Ok(Written { offset, bytes })
}

/// Whether all pages of a range have storage.
fn is_stored(node: &Node, from: u64, to: u64) -> bool {
    let stored: u64 = node
        .extents
        .covering(from, to)
        .map(|extent| extent.pages)
        .sum();
    stored == to - from
}

/// Writes over bytes that a file has, beside those who write other pages of it: the bytes go to new pages first, and
/// the gate of the file is gone through for the record of them alone. None if it has not all of them, or there are no pages, and nothing
/// is changed then.
///
/// Whoever calls has a turn at these pages (`turns.rs`), so nobody changes or moves them meanwhile; and if the file goes, so does
/// what was stored for it.
///
/// # Errors
/// `ESTALE`; those of [`check_is_file`]; of the media; damage.
pub async fn overwrite<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    (offset, end_max): (u64, u64),
    data: In<'_>,
) -> Result<Option<Written>, FileError> {
    // Where damage was found nobody knows which pages are free.
    store.check_is_writable()?;
    let (from, to) = pages_of(offset, data.len());
    let (before, goal) = {
        let (node, _inside) = store.look(number).await?;
        check_is_file(&node)?;
        let behind = node.extents.covering(from.saturating_sub(1), from).last();
        let before = work(Op::ExtentLookup, || Before::of(&node, from, to));
        (before, behind.map(|extent| extent.run().end()))
    };
    let end = offset.saturating_add(data.len());
    if data.is_empty() || end > before.size.min(end_max) || !before.is_written(from, to) {
        return Ok(None);
    }
    let mut tx = store.prepare();
    // It gives back as much as it takes.
    tx.gives_back();
    let (mut places, mut at) = (SmallVec::<[Extent; 4]>::new(), from);
    let mut goal = goal.unwrap_or_else(|| tx.next_page());
    while at < to {
        let run = match tx.take(goal, to - at) {
            Ok(run) => run,
            Err(FileError::Errno(Errno::ENOSPC)) => return Ok(None),
            Err(error) => return Err(error),
        };
        places.push(Extent {
            at,
            pages: run.pages,
            first: run.first,
            is_written: true,
        });
        (at, goal) = (at + run.pages, run.end());
    }
    for place in &places {
        put_place(store, &before, place, (offset, data)).await?;
    }
    // One of them waits at the gate: who reads waits for one record.
    let _line = store.line.alone(number).await;
    tx.go_in(&[number]).await?;
    tx.load(number).await?;
    for place in places {
        tx.push(number, &Record::Extent(place))?;
    }
    let mut inode = tx.node(number).inode();
    changed(&mut inode, by);
    tx.push(number, &Record::Inode(inode))?;
    match tx.commit().await {
        // The record has no room.
        Err(FileError::Errno(Errno::ENOSPC)) => Ok(None),
        done => done.map(|()| {
            let bytes = data.len();
            Some(Written { offset, bytes })
        }),
    }
}

/// The pages that bytes lie in: the first, and the one behind the last.
pub fn pages_of(offset: u64, bytes: u64) -> (u64, u64) {
    (offset / PAGE, offset.saturating_add(bytes).div_ceil(PAGE))
}

/// Writes all of `data`, or as much as there is room for.
///
/// # Errors
/// `ESTALE`; those of [`check_is_file`]; `EFBIG`, `ENOSPC`; of the media; damage.
pub async fn write<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    write: Write,
    data: In<'_>,
) -> Result<Written, FileError> {
    let mut pages_max = u64::MAX >> 16;
    loop {
        let done = write_some(store, by, number, write, data, pages_max).await;
        match done {
            // There may be room for some of the bytes and the log.
            Err(FileError::Errno(Errno::ENOSPC)) if pages_max > 1 => {
                pages_max = (pages_max / 4).clamp(1, 1 + data.len() / PAGE);
            }
            done => return done,
        }
    }
}

/// Puts a page with zeros in a range of it, and behind the end of the file, in the place of one
/// that was written.
///
/// # Errors
/// `ENOSPC`; of the media.
pub async fn zero_in_page<L: Lines>(
    tx: &mut Tx<'_, L>,
    number: u64,
    page: u64,
    range: std::ops::Range<usize>,
) -> Result<(), FileError> {
    let node = tx.node(number);
    let extent = node.extents.covering(page, page + 1).next();
    if !extent.is_some_and(|extent| extent.is_written) {
        return Ok(());
    }
    let old = (node.inode().size, extent);
    let mut bytes = page_of(tx.store(), old, page).await?;
    bytes[range].fill(0);
    let first = tx.take_one()?;
    tx.store().store(first * PAGE, &bytes).await?;
    let extent = Extent {
        at: page,
        pages: 1,
        first,
        is_written: true,
    };
    tx.push(number, &Record::Extent(extent))
}

/// Zeroes what lies behind the end of a file in its last page, if that page is before page `to`:
/// the end is about to move over it. In that page itself a write does it.
///
/// # Errors
/// Those of [`zero_in_page`].
pub async fn clear_tail<L: Lines>(
    tx: &mut Tx<'_, L>,
    number: u64,
    to: u64,
) -> Result<(), FileError> {
    let size = tx.node(number).inode().size;
    let page = size / PAGE;
    if size.is_multiple_of(PAGE) || page >= to {
        return Ok(());
    }
    zero_in_page(tx, number, page, 0..0).await
}
