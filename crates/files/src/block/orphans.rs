//! What has to be cut or given back later: a list on the media.
//!
//! Two kinds of inodes are in it. One has no name any more but is open: it goes when it is closed,
//! or in recovery. The other has too many pages behind its end, or no end at all, to give them back
//! in one transaction: that is done in steps, which recovery goes on with. Each step is a
//! transaction, so a power cut anywhere leaves a list that the next recovery can use.

use std::sync::Arc;

use super::extents;
use super::inodes;
use super::layout::{STATE_PAGE, State};
use super::links;
use super::node::{Inode, Kind as NodeKind};
use super::page::{self, Kind};
use super::store::Store;
use super::tx::{Tx, damage};
use super::xattrs;
use crate::errno::FileError;
use crate::pages::{PAGE_BYTES, Pages};

/// Extents that are given back in one transaction: each may change the bitmap of another group.
pub fn extents_per_step<P: Pages>(tx: &Tx<'_, P>) -> usize {
    (tx.images_max() / 4).clamp(4, 256)
}

async fn first<P: Pages>(tx: &mut Tx<'_, P>) -> Result<u64, FileError> {
    let image = tx.page(STATE_PAGE, Kind::State).await?;
    Ok(page::of::<State>(&image).orphan_first.get())
}

async fn set_first<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<(), FileError> {
    let mut image = tx.page(STATE_PAGE, Kind::State).await?;
    page::of_mut::<State>(Arc::make_mut(&mut image)).orphan_first = number.into();
    tx.put(image);
    Ok(())
}

/// Puts an inode into the list, if it is not there. The inode has to be stored.
///
/// # Errors
/// Of the media; damage.
pub async fn add<P: Pages>(tx: &mut Tx<'_, P>, inode: &mut Inode) -> Result<(), FileError> {
    if inode.is_orphan {
        return Ok(());
    }
    let next = first(tx).await?;
    if next != 0 {
        let mut other = inodes::load_named(tx, next).await?;
        other.orphan_previous = inode.number;
        inodes::store(tx, &other).await?;
    }
    set_first(tx, inode.number).await?;
    (inode.is_orphan, inode.orphan_previous, inode.orphan_next) = (true, 0, next);
    Ok(())
}

/// Takes an inode out of the list, if it is there. The inode has to be stored.
///
/// # Errors
/// Of the media; damage.
pub async fn remove<P: Pages>(tx: &mut Tx<'_, P>, inode: &mut Inode) -> Result<(), FileError> {
    if !inode.is_orphan {
        return Ok(());
    }
    let (previous, next) = (inode.orphan_previous, inode.orphan_next);
    match previous {
        0 => set_first(tx, next).await?,
        _ => {
            let mut other = neighbour(tx, previous, inode.number).await?;
            other.orphan_next = next;
            inodes::store(tx, &other).await?;
        }
    }
    if next != 0 {
        let mut other = neighbour(tx, next, inode.number).await?;
        other.orphan_previous = previous;
        inodes::store(tx, &other).await?;
    }
    (inode.is_orphan, inode.orphan_previous, inode.orphan_next) = (false, 0, 0);
    Ok(())
}

async fn neighbour<P: Pages>(tx: &mut Tx<'_, P>, number: u64, of: u64) -> Result<Inode, FileError> {
    let inode = inodes::load_named(tx, number).await?;
    match inode.is_orphan && number != of {
        true => Ok(inode),
        false => Err(damage(
            STATE_PAGE,
            "the list of orphans leads out of itself",
        )),
    }
}

/// The page of a file behind its last.
pub fn end_page(size: u64) -> u64 {
    size.div_ceil(PAGE_BYTES as u64)
}

/// Gives back the last extents of a file from page `from` on, as many as one transaction should;
/// true if none is left. The inode has to be stored.
///
/// # Errors
/// Of the media; damage.
pub async fn cut_step<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    from: u64,
) -> Result<bool, FileError> {
    for _ in 0..extents_per_step(tx) {
        let Some(last) = extents::last(tx, inode).await? else {
            return Ok(true);
        };
        if last.end() <= from {
            return Ok(true);
        }
        let start = last.at.max(from);
        for extent in extents::splice(tx, inode, start, last.end(), &[]).await? {
            tx.give_back(extent.run()).await?;
        }
    }
    let last = extents::last(tx, inode).await?;
    Ok(last.is_none_or(|last| last.end() <= from))
}

/// One step of giving back what has no name and is not open; true if that was the last.
async fn destroy_step<P: Pages>(tx: &mut Tx<'_, P>, inode: &mut Inode) -> Result<bool, FileError> {
    if inode.kind == NodeKind::File && !cut_step(tx, inode, 0).await? {
        inodes::store(tx, inode).await?;
        return Ok(false);
    }
    if inode.kind == NodeKind::Directory && inode.tree_root().is_some() {
        return Err(damage(
            inode.number,
            "a directory without a name has entries",
        ));
    }
    links::give_back(tx, inode).await?;
    xattrs::give_back(tx, inode).await?;
    remove(tx, inode).await?;
    inodes::free(tx, inode).await?;
    Ok(true)
}

/// What has lost its last name goes, or into the list if it is open or large; true if the rest of it
/// has to be given back by [`settle`] now. The inode is stored.
///
/// # Errors
/// Of the media; damage.
pub async fn drop_nameless<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
) -> Result<bool, FileError> {
    let is_open = tx.opened(inode.number) > 0;
    if !is_open && !inode.is_tree {
        return Ok(!destroy_step(tx, inode).await?);
    }
    add(tx, inode).await?;
    inodes::store(tx, inode).await?;
    Ok(!is_open)
}

impl<P: Pages> Store<P> {
    /// Does for an inode of the list what has to be done, if there is anything.
    ///
    /// # Errors
    /// Of the media; damage.
    pub async fn settle(&self, number: u64) -> Result<(), FileError> {
        while !self
            .change(async |tx| settle_step(tx, number).await)
            .await?
        {}
        Ok(())
    }

    /// Does so for the whole list: nothing is open.
    ///
    /// # Errors
    /// Of the media; damage.
    pub async fn settle_orphans(&self) -> Result<u64, FileError> {
        let mut settled = 0;
        loop {
            let number = self.view(async |tx| first(tx).await).await?;
            if number == 0 {
                return Ok(settled);
            }
            self.change(async |tx| {
                let inode = inodes::load_named(tx, number).await?;
                let is_first = inode.is_orphan && inode.orphan_previous == 0;
                match is_first {
                    true => Ok(()),
                    false => Err(damage(STATE_PAGE, "the list of orphans has no beginning")),
                }
            })
            .await?;
            self.settle(number).await?;
            settled += 1;
        }
    }
}

/// One step; true if nothing is left to be done.
async fn settle_step<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<bool, FileError> {
    let mut inode = inodes::load(tx, number).await?;
    if inode.links == 0 && tx.opened(number) == 0 {
        return destroy_step(tx, &mut inode).await;
    }
    if inode.kind != NodeKind::File || !inode.is_orphan {
        return Ok(true);
    }
    let end = end_page(inode.size);
    let is_done = cut_step(tx, &mut inode, end).await?;
    if is_done && inode.links > 0 {
        remove(tx, &mut inode).await?;
    }
    inodes::store(tx, &inode).await?;
    Ok(is_done)
}
