//! Finding, making, changing and giving back inodes.

use std::sync::Arc;

use wharf_runtime::Op;

use super::groups::Bitmap;
use super::layout::{GROUP_PAGES, Group, INODES_PER_TABLE, SLOTS_PER_GROUP};
use super::node::{self, Inode, RawInode, Table};
use super::page::{self, Kind};
use super::tx::{Tx, damage};
use crate::cost::work;
use crate::errno::{Errno, FileError};
use crate::pages::Pages;
use zerocopy::FromZeros;

/// An inode; `ESTALE` if the number stands for nothing.
///
/// # Errors
/// `ESTALE`; of the media; damage.
pub async fn load<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<Inode, FileError> {
    let found = find(tx, number).await?;
    found.ok_or(Errno::ESTALE.into())
}

/// An inode that something on the media leads to: that it is not there is damage.
///
/// # Errors
/// Of the media; damage.
pub async fn load_named<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<Inode, FileError> {
    let found = find(tx, number).await?;
    found.ok_or_else(|| damage(number, "something leads to an inode that is free"))
}

async fn find<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<Option<Inode>, FileError> {
    let Some(((page, at), slot)) = place(tx, number) else {
        return Ok(None);
    };
    // Tables are written when their first inode is made: the bitmap says which are. What is free in
    // a table says so itself.
    if !tx.has(page) {
        let group = tx.geometry().group(slot / SLOTS_PER_GROUP);
        let index = slot % SLOTS_PER_GROUP;
        let bitmap = tx.part(group.first, Kind::Bitmap, index).await?;
        let bitmap = Bitmap::of(&bitmap, &group)?;
        if !bitmap.is_table_ready(index) || !bitmap.is_inode_used(index) {
            return Ok(None);
        }
    }
    let table = tx.part(page, Kind::Table, at as u64).await?;
    let inode = work(Op::InodeLookup, || {
        Inode::of_raw(node::raw_at(&table, at), number, page)
    });
    Ok(inode?)
}

/// The page and the index of a number, and its slot.
fn place<P: Pages>(tx: &Tx<'_, P>, number: u64) -> Option<((u64, usize), u64)> {
    let (slot, _) = node::slot_of(number)?;
    Some((tx.geometry().inode_place(slot)?, slot))
}

/// Puts an inode back that was changed.
///
/// # Errors
/// Of the media; damage.
pub async fn store<P: Pages>(tx: &mut Tx<'_, P>, inode: &Inode) -> Result<(), FileError> {
    put_raw(tx, inode.number, inode.to_raw()).await
}

async fn put_raw<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    raw: RawInode,
) -> Result<(), FileError> {
    let ((page, at), _) = place(tx, number).ok_or(Errno::ESTALE)?;
    let mut image = tx.part(page, Kind::Table, at as u64).await?;
    let table: &mut Table = page::of_mut(Arc::make_mut(&mut image));
    table.inodes[at] = raw;
    tx.put(image);
    Ok(())
}

/// A number for a new inode, near another one. [`store`] has to follow.
///
/// # Errors
/// `ENOSPC`; of the media; damage.
pub async fn allocate<P: Pages>(tx: &mut Tx<'_, P>, near: u64) -> Result<u64, FileError> {
    let groups = tx.geometry().groups;
    let near = node::slot_of(near).map_or(0, |(slot, _)| slot / SLOTS_PER_GROUP);
    let near = near.min(groups - 1);
    for number in (near..groups).chain(0..near) {
        let group = tx.geometry().group(number);
        if let Some(index) = take(tx, &group).await? {
            let slot = number * SLOTS_PER_GROUP + index;
            return numbered(tx, slot).await;
        }
    }
    Err(Errno::ENOSPC.into())
}

/// Takes an inode of a group; its table is written from then on.
async fn take<P: Pages>(tx: &mut Tx<'_, P>, group: &Group) -> Result<Option<u64>, FileError> {
    let mut image = tx.page(group.first, Kind::Bitmap).await?;
    if Bitmap::of(&image, group)?.inodes_free.get() == 0 {
        return Ok(None);
    }
    let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut image));
    let Some(index) = bitmap.take_inode(group) else {
        return Err(damage(group.first, "what it counts cannot be"));
    };
    while !bitmap.is_table_ready(index) {
        let ready = u64::from(bitmap.tables_ready.get());
        bitmap.tables_ready = (ready as u32 + 1).into();
        tx.put(tx.fresh(Kind::Table, group.first + 1 + ready));
    }
    tx.put(image);
    Ok(Some(index))
}

/// The number of a slot that was taken: its next generation.
async fn numbered<P: Pages>(tx: &mut Tx<'_, P>, slot: u64) -> Result<u64, FileError> {
    let (page, at) = tx
        .geometry()
        .inode_place(slot)
        .ok_or_else(|| damage(slot, "there is no such inode"))?;
    let table = tx.part(page, Kind::Table, at as u64).await?;
    let raw = node::raw_at(&table, at);
    if raw.kind.get() != 0 {
        return Err(damage(page, "an inode is free and in use"));
    }
    Ok(node::number_of(slot, raw.generation.get()))
}

/// Gives an inode back. The slot's next number is another.
///
/// # Errors
/// Of the media; damage.
pub async fn free<P: Pages>(tx: &mut Tx<'_, P>, inode: &Inode) -> Result<(), FileError> {
    let (slot, generation) = node::slot_of(inode.number).ok_or(Errno::ESTALE)?;
    let mut raw = RawInode::new_zeroed();
    raw.generation = generation.saturating_add(1).into();
    put_raw(tx, inode.number, raw).await?;
    // A slot that has had all its numbers stays in use for ever.
    if generation == u32::MAX {
        return Ok(());
    }
    let group = tx.geometry().group(slot / SLOTS_PER_GROUP);
    let mut image = tx.page(group.first, Kind::Bitmap).await?;
    Bitmap::of(&image, &group)?;
    let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut image));
    if !bitmap.give_inode(slot % SLOTS_PER_GROUP) {
        return Err(damage(group.first, "an inode was given back twice"));
    }
    tx.put(image);
    Ok(())
}

/// Near which page what belongs to a number should be: the inodes of a group go through its pages
/// evenly.
pub fn goal<P: Pages>(tx: &Tx<'_, P>, number: u64) -> u64 {
    let slot = node::slot_of(number).map_or(0, |(slot, _)| slot);
    let geometry = tx.geometry();
    let group = geometry.group((slot / SLOTS_PER_GROUP).min(geometry.groups - 1));
    let share = slot % SLOTS_PER_GROUP * (GROUP_PAGES / SLOTS_PER_GROUP);
    let spread = share % (group.pages - group.data_from());
    let table = spread / INODES_PER_TABLE * INODES_PER_TABLE;
    group.first + group.data_from() + table
}
