//! The size of files, and storage without bytes: truncate, allocate, punch, and what is a hole.
//!
//! Not yet: an allocation of more places than one transaction can take is `ENOSPC`; punching more
//! than a few hundred extents takes several transactions, between which a power cut may come.

use super::data::{changed, clear_tail, file, taken, zero_in_page};
use super::extents::{self, EXTENT_PAGES_MAX, Extent};
use super::inodes;
use super::node::Inode;
use super::orphans;
use super::tx::Tx;
use crate::arguments::{Allocate, By, Seek};
use crate::errno::{Errno, FileError};
use crate::limits::FILE_BYTES_MAX;
use crate::pages::{PAGE_BYTES, Pages};

const PAGE: u64 = PAGE_BYTES as u64;

/// Extents that are looked at together.
const EXTENTS_AT_ONCE: usize = 64;

/// Sets the size of a file; true if what is behind its end has to be given back in further steps.
///
/// # Errors
/// Those of [`file`]; `EFBIG`.
pub async fn truncate<P: Pages>(
    tx: &mut Tx<'_, P>,
    by: By<'_>,
    number: u64,
    bytes: u64,
) -> Result<bool, FileError> {
    let mut inode = file(tx, number).await?;
    if bytes > FILE_BYTES_MAX {
        return Err(Errno::EFBIG.into());
    }
    let is_cut = bytes < inode.size;
    if bytes > inode.size {
        clear_tail(tx, &inode, u64::MAX).await?;
    }
    inode.size = bytes;
    changed(&mut inode, by);
    let mut has_rest = false;
    if is_cut && !orphans::cut_step(tx, &mut inode, orphans::end_page(bytes)).await? {
        orphans::add(tx, &mut inode).await?;
        has_rest = true;
    }
    inodes::store(tx, &inode).await?;
    Ok(has_rest)
}

/// A range of a file: its bytes, and the pages that it covers as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Its first byte.
    pub start: u64,
    /// The byte behind its last.
    pub end: u64,
}

impl Range {
    /// The range of an operation, if there can be one.
    ///
    /// # Errors
    /// `EINVAL`, `EFBIG`.
    pub fn new(offset: u64, bytes: u64) -> Result<Range, FileError> {
        if bytes == 0 {
            return Err(Errno::EINVAL.into());
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= FILE_BYTES_MAX => Ok(Range { start: offset, end }),
            _ => Err(Errno::EFBIG.into()),
        }
    }

    /// The pages that it touches.
    fn touched(&self) -> (u64, u64) {
        (self.start / PAGE, self.end.div_ceil(PAGE))
    }

    /// The pages that it covers.
    fn whole(&self) -> (u64, u64) {
        let from = self.start.div_ceil(PAGE);
        (from, (self.end / PAGE).max(from))
    }
}

/// Gives storage to a range, or takes it, as far as one transaction can. Where it has to go on, if
/// that was not all.
///
/// # Errors
/// Those of [`file`]; `EINVAL`, `EFBIG`, `ENOSPC`.
pub async fn allocate<P: Pages>(
    tx: &mut Tx<'_, P>,
    by: By<'_>,
    number: u64,
    (offset, bytes): (u64, u64),
    what: Allocate,
) -> Result<Option<u64>, FileError> {
    let mut inode = file(tx, number).await?;
    let mut range = Range::new(offset, bytes)?;
    if what == Allocate::Punch && range.end > inode.size {
        range.end = range.end.next_multiple_of(PAGE);
    }
    let is_zeroed = !matches!(what, Allocate::Extend | Allocate::KeepSize);
    let mut goes_on = None;
    if what != Allocate::Punch {
        let (from, to) = range.touched();
        fill(tx, &mut inode, from, to).await?;
    }
    if is_zeroed {
        zero_edges(tx, &inode, range).await?;
        let (from, to) = range.whole();
        goes_on = match what {
            Allocate::Punch => punch(tx, &mut inode, from, to).await?,
            _ => unwrite(tx, &mut inode, from, to).await?,
        };
    }
    if matches!(what, Allocate::Extend | Allocate::Zero) && range.end > inode.size {
        clear_tail(tx, &inode, u64::MAX).await?;
        inode.size = range.end;
    }
    changed(&mut inode, by);
    inodes::store(tx, &inode).await?;
    Ok(goes_on.map(|page| page * PAGE))
}

/// Gives storage to all pages that have none.
async fn fill<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    from: u64,
    to: u64,
) -> Result<(), FileError> {
    if to - from > tx.geometry().pages.saturating_add(inode.pages) {
        return Err(Errno::ENOSPC.into());
    }
    let (mut at, mut goal) = (from, inodes::goal(tx, inode.number));
    while at < to {
        let there = extents::covering(tx, inode, at, to, EXTENTS_AT_ONCE).await?;
        let end = match there.len() < EXTENTS_AT_ONCE {
            true => to,
            false => there.last().map_or(to, Extent::end).min(to),
        };
        for extent in &there {
            fill_gap(tx, inode, (at, extent.at), &mut goal).await?;
            (at, goal) = (extent.end(), extent.run().end());
        }
        fill_gap(tx, inode, (at, end), &mut goal).await?;
        at = at.max(end);
    }
    Ok(())
}

async fn fill_gap<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    (mut at, to): (u64, u64),
    goal: &mut u64,
) -> Result<(), FileError> {
    while at < to {
        let run = tx.allocate(*goal, (to - at).min(EXTENT_PAGES_MAX)).await?;
        let new = taken(at, run);
        extents::splice(tx, inode, at, new.end(), &[new]).await?;
        (at, *goal) = (new.end(), run.end());
    }
    Ok(())
}

/// Zeroes the bytes of a range in pages that it does not cover as a whole.
async fn zero_edges<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
    range: Range,
) -> Result<(), FileError> {
    let (first, last) = (range.start / PAGE, (range.end - 1) / PAGE);
    let (from, to) = range.whole();
    for page in [first, last] {
        if from <= page && page < to {
            continue;
        }
        let start = range.start.max(page * PAGE) - page * PAGE;
        let end = range.end.min(page.saturating_add(1) * PAGE) - page * PAGE;
        zero_in_page(tx, inode, page, start as usize..end as usize).await?;
    }
    Ok(())
}

/// Takes the storage of pages; where it goes on.
async fn punch<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    from: u64,
    to: u64,
) -> Result<Option<u64>, FileError> {
    let (end, is_all) = step(tx, inode, from, to).await?;
    if end > from {
        for extent in extents::splice(tx, inode, from, end, &[]).await? {
            tx.give_back(extent.run()).await?;
        }
    }
    Ok((!is_all).then_some(end))
}

/// Lets pages that have storage read as zeros; where it goes on.
async fn unwrite<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    from: u64,
    to: u64,
) -> Result<Option<u64>, FileError> {
    let (end, is_all) = step(tx, inode, from, to).await?;
    if end > from {
        let there = extents::covering(tx, inode, from, end, usize::MAX).await?;
        let parts = there.iter().filter_map(|extent| extent.within(from, end));
        let unwritten = parts.map(|part| Extent {
            is_written: false,
            ..part
        });
        let new: Vec<Extent> = unwritten.collect();
        extents::splice(tx, inode, from, end, &new).await?;
    }
    Ok((!is_all).then_some(end))
}

/// How far one transaction goes in `from..to`, and whether that is all.
async fn step<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
    from: u64,
    to: u64,
) -> Result<(u64, bool), FileError> {
    let most = orphans::extents_per_step(tx);
    let there = extents::covering(tx, inode, from, to, most + 1).await?;
    match there.get(most) {
        Some(next) => Ok((next.at, false)),
        None => Ok((to, true)),
    }
}

/// The first byte from `offset` on that is data, or a hole.
///
/// # Errors
/// Those of [`file`]; `ENXIO`.
pub async fn seek<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    offset: u64,
    what: Seek,
) -> Result<u64, FileError> {
    let inode = file(tx, number).await?;
    if offset >= inode.size {
        return Err(Errno::ENXIO.into());
    }
    let end = orphans::end_page(inode.size);
    let mut at = offset / PAGE;
    while at < end {
        let there = extents::covering(tx, &inode, at, end, EXTENTS_AT_ONCE).await?;
        let is_last = there.len() < EXTENTS_AT_ONCE;
        for extent in there {
            match what {
                Seek::Hole if !extent.is_written || extent.at > at => {
                    return Ok((at * PAGE).max(offset));
                }
                Seek::Data if extent.is_written => {
                    return Ok((extent.at * PAGE).max(offset));
                }
                _ => at = extent.end(),
            }
        }
        if is_last {
            break;
        }
    }
    match what {
        Seek::Data => Err(Errno::ENXIO.into()),
        Seek::Hole => Ok((at.saturating_mul(PAGE)).max(offset).min(inode.size)),
    }
}
