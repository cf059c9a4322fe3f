//! Pages that many inodes share, when two transactions meet there.
//!
//! Inodes lie sixteen to a page, and a bitmap is that of thousands of pages. Those who write to
//! different files change the same of these all the time, and one of them waits for the media
//! meanwhile. What it does need not be done again: as long as what it *looked at* in such a page is
//! what it was, its changes are made once more to the newest version.

use std::sync::Arc;

use super::groups::Bitmap;
use super::layout::Group;
use super::node::{RawInode, Table, raw_at};
use super::page::{self, Image};
use super::store::Freed;
use crate::pages::Run;
use zerocopy::IntoBytes;

/// A page of inodes: the newest version, with the inodes of `slots` as they are in `mine`. `None` if
/// one of them has been changed since `base`.
pub fn table(base: &Image, newest: &Image, mine: Option<&Image>, slots: &[u64]) -> Option<Image> {
    let bytes = |image, slot: u64| RawInode::as_bytes(raw_at(image, slot as usize));
    let is_same = |slot: &u64| bytes(base, *slot) == bytes(newest, *slot);
    if !slots.iter().all(is_same) {
        return None;
    }
    let mut merged = newest.clone();
    if let Some(mine) = mine {
        let table: &mut Table = page::of_mut(Arc::make_mut(&mut merged));
        for &slot in slots {
            table.inodes[slot as usize] = *raw_at(mine, slot as usize);
        }
    }
    Some(merged)
}

/// A bitmap: the newest version, without the pages that were taken and with those that were given back.
/// `None` if one of these, or what it says of one of the inodes `slots`, has been changed since `base`.
pub fn bitmap(
    base: &Image,
    newest: &Image,
    group: &Group,
    slots: &[u64],
    (taken, freed): (&[Run], &[Freed]),
) -> Option<Image> {
    let says = |image: &Image, slot| {
        let bitmap = Bitmap::of(image, group).ok()?;
        Some((bitmap.is_table_ready(slot), bitmap.is_inode_used(slot)))
    };
    Bitmap::of(newest, group).ok()?;
    if !slots
        .iter()
        .all(|slot| says(base, *slot) == says(newest, *slot))
    {
        return None;
    }
    let mut merged = newest.clone();
    let within = |run: &&Run| run.first >= group.first && run.end() <= group.first + group.pages;
    let local = |run: &Run| Run::new(run.first - group.first, run.pages);
    let mut taken = taken.iter().filter(within).peekable();
    let mut freed = freed
        .iter()
        .map(|freed| &freed.run)
        .filter(within)
        .peekable();
    if taken.peek().is_some() || freed.peek().is_some() {
        let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut merged));
        let all =
            taken.all(|run| bitmap.take(local(run))) && freed.all(|run| bitmap.give(local(run)));
        if !all {
            return None;
        }
    }
    Some(merged)
}
