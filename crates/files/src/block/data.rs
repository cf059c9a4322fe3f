//! Reading and writing the bytes of files.
//!
//! A write gives pages to what has none, writes all of its bytes, in place where there was
//! something, and then says so in the inode: all in one transaction, which ends after the bytes are
//! on their way. The commit that makes it durable flushes the bytes first, so no file ever shows
//! what was in its pages before.
//!
//! What lies behind the end of a file in its last page is anything. It is never read, and is zeroed
//! when the end moves over it.
//!
//! A write of more pages than [`CHUNK_PAGES`], or into more than a few places, is several
//! transactions: a power cut may leave its first part, with the size that belongs to it.
//!
//! Whoever reads or writes is inside of the file's gate (`gates.rs`): what is found stays so.

use std::ops::Range;

use smallvec::SmallVec;

use super::extents::{self, Extent};
use super::inodes;
use super::node::{Inode, Kind};
use super::orphans::extents_per_step;
use super::tx::Tx;
use crate::arguments::{By, Place, Write, Written};
use crate::errno::{Errno, Fault, FileError};
use crate::limits::FILE_BYTES_MAX;
use crate::pages::{PAGE_BYTES, Pages, Run};
use crate::payload::{In, Out};

/// Most pages that one transaction writes: 4 MiB.
pub const CHUNK_PAGES: u64 = 1024;

/// Bytes of a page.
const PAGE: u64 = PAGE_BYTES as u64;

/// The inode of a file.
///
/// # Errors
/// `ESTALE`, `EISDIR`, `EINVAL`; of the media; damage.
pub async fn file<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<Inode, FileError> {
    let inode = inodes::load(tx, number).await?;
    match inode.kind {
        Kind::File => Ok(inode),
        Kind::Directory => Err(Errno::EISDIR.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Where the bytes of a read are.
#[derive(Debug, Default)]
pub struct Parts {
    /// How many there are.
    pub bytes: u64,
    /// Where they were written, in order; between that are zeros.
    parts: SmallVec<[Extent; 4]>,
}

/// Finds where up to `most` bytes from `offset` on are. That holds for as long as nobody may change
/// the file.
///
/// # Errors
/// Those of [`file`].
pub async fn find<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    offset: u64,
    most: u64,
) -> Result<Parts, FileError> {
    let inode = file(tx, number).await?;
    let bytes = most.min(inode.size.saturating_sub(offset));
    if bytes == 0 {
        return Ok(Parts::default());
    }
    let (from, to) = (offset / PAGE, (offset + bytes).div_ceil(PAGE));
    let there = extents::covering(tx, &inode, from, to, usize::MAX).await?;
    let parts = there.iter().filter_map(|extent| extent.within(from, to));
    let parts = parts.filter(|part| part.is_written).collect();
    Ok(Parts { bytes, parts })
}

/// Reads what was found from `offset` on.
///
/// # Errors
/// Of the media.
pub async fn read<P: Pages>(
    media: &P,
    found: &Parts,
    offset: u64,
    out: &mut Out<'_>,
) -> Result<(), Fault> {
    let (mut done, end) = (offset, offset + found.bytes);
    let mut parts = found.parts.iter().peekable();
    while let Some(first) = parts.next() {
        // What lies side by side in the file is read at once.
        let (mut runs, mut last) = (SmallVec::<[Run; 4]>::new(), first);
        runs.push(first.run());
        while let Some(next) = parts.next_if(|next| next.at == last.end()) {
            runs.push(next.run());
            last = next;
        }
        let start = first.at * PAGE;
        let bytes = start.max(offset)..(last.end() * PAGE).min(end);
        zero(media, out, done - offset..bytes.start - offset).await?;
        let part = out.slice(bytes.start - offset..bytes.end - offset);
        media.read_bytes(&runs, bytes.start - start, part).await?;
        done = bytes.end;
    }
    zero(media, out, done - offset..end - offset).await
}

async fn zero<P: Pages>(media: &P, out: &mut Out<'_>, range: Range<u64>) -> Result<(), Fault> {
    match range.is_empty() {
        true => Ok(()),
        false => media.zero(out.slice(range)).await,
    }
}

/// Writes as much of `data` as one transaction can, in at most `pages_max` pages.
///
/// # Errors
/// Those of [`file`]; `EFBIG`, `ENOSPC`.
pub async fn write<P: Pages>(
    tx: &mut Tx<'_, P>,
    by: By<'_>,
    number: u64,
    write: Write,
    data: In<'_>,
    pages_max: u64,
) -> Result<Written, FileError> {
    let mut inode = file(tx, number).await?;
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
    let from = offset / PAGE;
    let to = (offset + bytes).div_ceil(PAGE).min(from + pages_max);
    let pieces = pieces(tx, &inode, from, to).await?;
    let to = pieces.last().map_or(from, |(piece, _)| piece.end());
    let end = (offset + bytes).min(to * PAGE);
    let data = data.slice(0..end - offset);
    write_pieces(tx.media(), &pieces, &inode, offset, data).await?;
    if offset > inode.size {
        clear_tail(tx, &inode, from).await?;
    }
    if pieces.iter().any(|(_, was_written)| !was_written) {
        let written = |(piece, _): &(Extent, bool)| Extent {
            is_written: true,
            ..*piece
        };
        let new: Vec<Extent> = pieces.iter().map(written).collect();
        let replaced = extents::splice(tx, &mut inode, from, to, &new).await?;
        debug_assert!(
            replaced.iter().all(|old| {
                let is_kept = |page| new.iter().any(|new| new.run().has(page));
                is_kept(old.first) && is_kept(old.run().end() - 1)
            }),
            "pages that a file had are still its own"
        );
    }
    inode.size = inode.size.max(end);
    changed(&mut inode, by);
    inodes::store(tx, &inode).await?;
    Ok(Written {
        offset,
        bytes: end - offset,
    })
}

/// What a change of its bytes does to a file besides.
pub fn changed(inode: &mut Inode, by: By<'_>) {
    inode.mode = by.caller.mode_after_write(inode.mode, inode.gid);
    (inode.modified_ns, inode.changed_ns) = (by.now_ns, by.now_ns);
}

/// Where the pages `from..to` of a file are, or will be, without a gap, and whether each piece was
/// written before. Less than all if there is no room, or it is in too many places.
async fn pieces<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
    from: u64,
    to: u64,
) -> Result<Vec<(Extent, bool)>, FileError> {
    let most = extents_per_step(tx);
    // The first one may lie before.
    let there = extents::covering(tx, inode, from.saturating_sub(1), to, most + 1).await?;
    // What is behind the last of so many is not known: it is no gap.
    let to = match there.last() {
        Some(last) if there.len() > most => last.end().min(to),
        _ => to,
    };
    let mut goal = match there.first() {
        Some(extent) => extent.first + from.saturating_sub(extent.at).min(extent.pages),
        None => inodes::goal(tx, inode.number),
    };
    let mut there = there
        .into_iter()
        .filter_map(|extent| extent.within(from, to));
    let (mut pieces, mut at, mut next) = (Vec::new(), from, there.next());
    while at < to && pieces.len() < most {
        let piece = match next {
            Some(extent) if extent.at == at => {
                next = there.next();
                (extent, extent.is_written)
            }
            _ => {
                let gap = next.map_or(to, |extent| extent.at) - at;
                match tx.allocate(goal, gap.min(extents::EXTENT_PAGES_MAX)).await {
                    Ok(run) => (taken(at, run), false),
                    Err(FileError::Errno(Errno::ENOSPC)) if !pieces.is_empty() => break,
                    Err(error) => return Err(error),
                }
            }
        };
        (at, goal) = (piece.0.end(), piece.0.run().end());
        pieces.push(piece);
    }
    Ok(pieces)
}

/// Pages that were taken for a file, without bytes so far.
pub fn taken(at: u64, run: Run) -> Extent {
    Extent {
        at,
        first: run.first,
        pages: run.pages,
        is_written: false,
    }
}

/// Writes bytes where the pieces are; what else their first and last pages hold stays. Whole pages
/// go as they are, those two by a buffer.
async fn write_pieces<P: Pages>(
    media: &P,
    pieces: &[(Extent, bool)],
    inode: &Inode,
    offset: u64,
    data: In<'_>,
) -> Result<(), FileError> {
    let end = offset + data.len();
    let (from, to) = (offset / PAGE, end.div_ceil(PAGE));
    // The pages that are written whole, if there are any.
    let whole = offset.div_ceil(PAGE)..(end / PAGE).max(offset.div_ceil(PAGE));
    let edges = (from..to).filter(|page| !whole.contains(page));
    let (mut runs, mut bytes) = (SmallVec::<[Run; 2]>::new(), Vec::new());
    for page in edges {
        let piece = pieces.iter().find(|(p, _)| p.at <= page && page < p.end());
        let Some((piece, was_written)) = piece else {
            continue;
        };
        let run = Run::one(piece.first + (page - piece.at));
        let before = bytes.len();
        bytes.resize(before + PAGE_BYTES, 0);
        let buffer = &mut bytes[before..];
        if *was_written {
            media.read(&[run], buffer).await?;
            buffer[valid_bytes(inode, page)..].fill(0);
        }
        let start = page * PAGE;
        let (first, last) = (offset.max(start), end.min(start + PAGE));
        let within = (first - start) as usize..(last - start) as usize;
        let part = data.slice(first - offset..last - offset);
        media.fetch(part, &mut buffer[within]).await?;
        runs.push(run);
    }
    if !whole.is_empty() {
        let parts = pieces
            .iter()
            .filter_map(|(p, _)| p.within(whole.start, whole.end));
        let runs: SmallVec<[Run; 4]> = parts.map(|part| part.run()).collect();
        let data = data.slice(whole.start * PAGE - offset..whole.end * PAGE - offset);
        media.write_bytes(&runs, data).await?;
    }
    match runs.is_empty() {
        true => Ok(()),
        false => Ok(media.write(&runs, &bytes).await?),
    }
}

/// Bytes of a page that lie before the end of its file.
fn valid_bytes(inode: &Inode, page: u64) -> usize {
    inode
        .size
        .saturating_sub(page.saturating_mul(PAGE))
        .min(PAGE) as usize
}

/// Zeroes what lies behind the end of the file in its last page, if that page is before page `to`:
/// the end is about to move over it.
///
/// # Errors
/// Of the media; damage.
pub async fn clear_tail<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
    to: u64,
) -> Result<(), FileError> {
    let page = inode.size / PAGE;
    if inode.size.is_multiple_of(PAGE) || page >= to {
        return Ok(());
    }
    zero_in_page(tx, inode, page, (inode.size % PAGE) as usize..PAGE_BYTES).await
}

/// Zeroes some bytes of a page of a file, if it was written.
///
/// # Errors
/// Of the media; damage.
pub async fn zero_in_page<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
    page: u64,
    range: std::ops::Range<usize>,
) -> Result<(), FileError> {
    let extents = extents::covering(tx, inode, page, page + 1, 1).await?;
    let Some(extent) = extents.first().filter(|extent| extent.is_written) else {
        return Ok(());
    };
    let run = [Run::one(extent.first + (page - extent.at))];
    let mut bytes = vec![0; PAGE_BYTES];
    tx.media().read(&run, &mut bytes).await?;
    bytes[valid_bytes(inode, page)..].fill(0);
    bytes[range].fill(0);
    Ok(tx.media().write(&run, &bytes).await?)
}
