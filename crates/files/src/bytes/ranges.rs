//! What is done to ranges of files besides reading and writing: cutting, giving and taking storage,
//! looking for holes.

use super::data::{changed, check_is_file, clear_tail, zero_in_page};
use super::layout::PAGE;
use super::node::Node;
use super::record::{Extent, Record};
use super::store::{Store, reserve};
use super::tx::Tx;
use crate::arguments::{Allocate, By, Seek};
use crate::errno::{Errno, FileError};
use crate::limits::FILE_BYTES_MAX;
use crate::lines::Lines;

/// Holes without storage.
fn hole(at: u64, pages: u64) -> Record {
    Record::Extent(Extent {
        at,
        pages,
        first: 0,
        is_written: false,
    })
}

/// The first page behind all that a file can have.
fn end_of_all() -> u64 {
    FILE_BYTES_MAX.div_ceil(PAGE)
}

/// Sets the size of a file.
///
/// # Errors
/// `ESTALE`; those of [`check_is_file`]; `EFBIG`, `ENOSPC`; of the media; damage.
pub async fn truncate<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    bytes: u64,
) -> Result<(), FileError> {
    let mut tx = store.begin(&[number]).await?;
    tx.load(number).await?;
    check_is_file(tx.node(number))?;
    if bytes > FILE_BYTES_MAX {
        return Err(Errno::EFBIG.into());
    }
    let mut inode = tx.node(number).inode();
    if bytes > inode.size {
        clear_tail(&mut tx, number, bytes.div_ceil(PAGE)).await?;
    }
    if bytes < inode.size {
        tx.gives_back();
        let (from, to) = (bytes.div_ceil(PAGE), end_of_all());
        if tx.node(number).extents.covering(from, to).next().is_some() {
            tx.push(number, &hole(from, to - from))?;
        }
    }
    inode.size = bytes;
    changed(&mut inode, by);
    tx.push(number, &Record::Inode(inode))?;
    tx.commit().await
}

/// Gives storage to a range of a file, or takes it.
///
/// # Errors
/// `ESTALE`; those of [`check_is_file`]; `EINVAL`, `EFBIG`, `ENOSPC`; of the media; damage.
pub async fn allocate<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    (offset, bytes): (u64, u64),
    what: Allocate,
) -> Result<(), FileError> {
    let mut tx = store.begin(&[number]).await?;
    tx.load(number).await?;
    check_is_file(tx.node(number))?;
    if bytes == 0 {
        return Err(Errno::EINVAL.into());
    }
    let end = offset.checked_add(bytes);
    let end = end
        .filter(|end| *end <= FILE_BYTES_MAX)
        .ok_or(Errno::EFBIG)?;
    let size = tx.node(number).inode().size;
    let grows = matches!(what, Allocate::Extend | Allocate::Zero) && end > size;
    if grows {
        clear_tail(&mut tx, number, end.div_ceil(PAGE)).await?;
    }
    match what {
        Allocate::Extend | Allocate::KeepSize => {
            give(&mut tx, number, offset / PAGE, end.div_ceil(PAGE))?;
        }
        Allocate::Punch => {
            tx.gives_back();
            let end = match end > size {
                true => end.next_multiple_of(PAGE),
                false => end,
            };
            zero_edges(&mut tx, number, offset, end).await?;
            let (from, to) = (offset.div_ceil(PAGE), end / PAGE);
            if from < to && tx.node(number).extents.covering(from, to).next().is_some() {
                tx.push(number, &hole(from, to - from))?;
            }
        }
        Allocate::Zero | Allocate::ZeroKeepSize => {
            zero_edges(&mut tx, number, offset, end).await?;
            unwrite(&mut tx, number, offset.div_ceil(PAGE), end / PAGE)?;
            give(&mut tx, number, offset / PAGE, end.div_ceil(PAGE))?;
        }
    }
    let mut inode = tx.node(number).inode();
    if grows {
        inode.size = end;
    }
    changed(&mut inode, by);
    tx.push(number, &Record::Inode(inode))?;
    tx.commit().await
}

/// Gives storage to the pages of a range that have none.
fn give<L: Lines>(tx: &mut Tx<'_, L>, number: u64, from: u64, to: u64) -> Result<(), FileError> {
    let extents = &tx.node(number).extents;
    let stored: u64 = extents.covering(from, to).map(|extent| extent.pages).sum();
    let free = tx.store().with(|state| state.space.free());
    if to - from - stored > free.saturating_sub(reserve(&tx.store().geometry)) {
        return Err(Errno::ENOSPC.into());
    }
    let mut at = from;
    while at < to {
        let there = tx.node(number).extents.covering(at, to).next();
        match there {
            Some(extent) if extent.at == at => at = extent.end(),
            next => {
                let gap = next.map_or(to, |extent| extent.at) - at;
                let goal = tx.next_page();
                let run = tx.take(goal, gap)?;
                let extent = Extent {
                    at,
                    pages: run.pages,
                    first: run.first,
                    is_written: false,
                };
                tx.push(number, &Record::Extent(extent))?;
                at = extent.end();
            }
        }
    }
    Ok(())
}

/// Lets pages that have storage read as zeros.
fn unwrite<L: Lines>(tx: &mut Tx<'_, L>, number: u64, from: u64, to: u64) -> Result<(), FileError> {
    if from >= to {
        return Ok(());
    }
    let there = tx.node(number).extents.covering(from, to);
    let written: Vec<Extent> = there.filter(|extent| extent.is_written).collect();
    for extent in written {
        let is_written = false;
        let extent = Extent {
            is_written,
            ..extent
        };
        tx.push(number, &Record::Extent(extent))?;
    }
    Ok(())
}

/// Zeroes the bytes of a range in pages that it does not cover as a whole.
async fn zero_edges<L: Lines>(
    tx: &mut Tx<'_, L>,
    number: u64,
    start: u64,
    end: u64,
) -> Result<(), FileError> {
    let (first, last) = (start / PAGE, (end - 1) / PAGE);
    let edges = [Some(first), (last != first).then_some(last)];
    for page in edges.into_iter().flatten() {
        let from = start.max(page * PAGE) - page * PAGE;
        let to = end.min((page + 1) * PAGE) - page * PAGE;
        if to - from < PAGE {
            zero_in_page(tx, number, page, from as usize..to as usize).await?;
        }
    }
    Ok(())
}

/// The first byte from `offset` on that is data, or a hole.
///
/// # Errors
/// Those of [`check_is_file`]; `ENXIO`.
pub fn seek(node: &Node, offset: u64, what: Seek) -> Result<u64, Errno> {
    check_is_file(node)?;
    let size = node.inode().size;
    if offset >= size {
        return Err(Errno::ENXIO);
    }
    let (from, to) = (offset / PAGE, size.div_ceil(PAGE));
    let written = node
        .extents
        .covering(from, to)
        .filter(|extent| extent.is_written);
    match what {
        Seek::Data => {
            let first = { written }.next().ok_or(Errno::ENXIO)?;
            Ok((first.at * PAGE).max(offset))
        }
        Seek::Hole => {
            let mut at = from;
            for extent in written {
                if extent.at > at {
                    break;
                }
                at = extent.end();
            }
            Ok(at.saturating_mul(PAGE).max(offset).min(size))
        }
    }
}
