//! Which pages hold the bytes of a file.
//!
//! A file is a list of *extents*: pages of the file that lie side by side on the media too, and
//! either were written or only have storage. What no extent covers is a hole. Up to nine of them
//! are in the inode, more in a tree by their first page of the file. All changes are made by
//! [`splice`]: what covers a range is taken out, something else put in, and neighbours grow
//! together.

use wharf_runtime::Op;

use super::inodes;
use super::node::{Inode, RUN_BYTES};
use super::tree::Tree;
use super::tx::{Tx, damage};
use crate::cost::work;
use crate::errno::FileError;
use crate::pages::{Pages, Run};

/// Most pages of an extent: 15 bits on the media, and less than a group has.
pub const EXTENT_PAGES_MAX: u64 = 0x7fff;

/// Most extents in an inode.
pub const INLINE_MAX: usize = 9;

/// Pages of a file that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its first page of the file.
    pub at: u64,
    /// Where that is on the media.
    pub first: u64,
    /// Pages.
    pub pages: u64,
    /// It was written; else it reads as zeros.
    pub is_written: bool,
}

impl Extent {
    /// The page of the file behind its last.
    pub fn end(&self) -> u64 {
        self.at + self.pages
    }

    /// The part of it within pages `from` to `to` of the file.
    pub fn within(&self, from: u64, to: u64) -> Option<Extent> {
        let (at, end) = (self.at.max(from), self.end().min(to));
        (at < end).then(|| Extent {
            at,
            first: self.first + (at - self.at),
            pages: end - at,
            ..*self
        })
    }

    /// Where it is on the media.
    pub fn run(&self) -> Run {
        Run::new(self.first, self.pages)
    }

    /// Its second word on the media: page, whether it was written, pages.
    fn word(&self) -> u64 {
        self.first << 16 | u64::from(self.is_written) << 15 | self.pages
    }

    /// What is on the media, if it can be.
    fn of_words<P: Pages>(tx: &Tx<'_, P>, at: u64, word: u64) -> Result<Extent, FileError> {
        let extent = Extent {
            at,
            first: word >> 16,
            pages: word & EXTENT_PAGES_MAX,
            is_written: word >> 15 & 1 == 1,
        };
        let is_inside = tx.geometry().group_of(extent.run()).is_some();
        match is_inside && at <= 1 << 51 {
            true => Ok(extent),
            false => Err(damage(
                extent.first,
                "an extent lies outside of the files' pages",
            )),
        }
    }

    /// Both as one, if they belong together.
    fn joined(&self, next: &Extent) -> Option<Extent> {
        let is_one = self.end() == next.at
            && self.first + self.pages == next.first
            && self.is_written == next.is_written
            && self.pages + next.pages <= EXTENT_PAGES_MAX;
        is_one.then(|| Extent {
            pages: self.pages + next.pages,
            ..*self
        })
    }
}

/// The tree of a file.
pub fn tree<P: Pages>(tx: &Tx<'_, P>, inode: &Inode) -> Tree {
    Tree::new(
        inode.number,
        inode.tree_root(),
        inodes::goal(tx, inode.number),
    )
}

fn inline<P: Pages>(tx: &Tx<'_, P>, inode: &Inode) -> Result<Vec<Extent>, FileError> {
    let words = inode.area[..inode.front_bytes()].as_chunks::<RUN_BYTES>().0;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let extent =
        |words: &[u8; RUN_BYTES]| Extent::of_words(tx, word(&words[..8]), word(&words[8..]));
    let extents: Result<Vec<Extent>, FileError> = words.iter().map(extent).collect();
    let extents = extents?;
    match extents.windows(2).all(|two| two[0].end() <= two[1].at) {
        true => Ok(extents),
        false => Err(damage(inode.number, "the extents of an inode overlap")),
    }
}

fn set_inline(inode: &mut Inode, extents: &[Extent]) {
    for (words, extent) in inode
        .area
        .as_chunks_mut::<RUN_BYTES>()
        .0
        .iter_mut()
        .zip(extents)
    {
        words[..8].copy_from_slice(&extent.at.to_le_bytes());
        words[8..].copy_from_slice(&extent.word().to_le_bytes());
    }
    inode.front = extents.len() as u16;
}

fn of_record<P: Pages>(tx: &Tx<'_, P>, record: &(u64, Vec<u8>)) -> Result<Extent, FileError> {
    let word = record.1.as_slice().try_into();
    let word = word.map_err(|_| damage(record.0, "a record of a file's tree is no extent"))?;
    Extent::of_words(tx, record.0, u64::from_le_bytes(word))
}

/// The extents that have pages in `from..to` of the file, whole and in order; after `most` of them,
/// no more.
///
/// # Errors
/// Of the media; damage.
pub async fn covering<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
    from: u64,
    to: u64,
    most: usize,
) -> Result<Vec<Extent>, FileError> {
    let is_in = |extent: &Extent| extent.end() > from && extent.at < to;
    if !inode.is_tree {
        return work(Op::ExtentLookup, || {
            let all = inline(tx, inode)?;
            Ok(all.into_iter().filter(is_in).take(most).collect())
        });
    }
    let tree = tree(tx, inode);
    let mut found = Vec::new();
    if let Some(record) = tree.floor(tx, from).await? {
        found.push(work(Op::ExtentLookup, || of_record(tx, &record))?);
    }
    found.retain(is_in);
    let mut next = from.checked_add(1);
    while let Some(key) = next.filter(|key| *key < to && found.len() < most) {
        let (records, more) = tree.within(tx, key, to - 1).await?;
        for record in &records {
            let extent = work(Op::ExtentLookup, || of_record(tx, record))?;
            if found.last().is_some_and(|last| last.end() > extent.at) {
                return Err(damage(extent.first, "extents of a file overlap"));
            }
            if found.len() >= most {
                return Ok(found);
            }
            found.push(extent);
        }
        next = more;
    }
    Ok(found)
}

/// The last extent of a file.
///
/// # Errors
/// Of the media; damage.
pub async fn last<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &Inode,
) -> Result<Option<Extent>, FileError> {
    if !inode.is_tree {
        return Ok(inline(tx, inode)?.pop());
    }
    let record = tree(tx, inode).floor(tx, u64::MAX).await?;
    record.map(|record| of_record(tx, &record)).transpose()
}

/// What a splice takes out and puts in.
struct Change {
    out: Vec<Extent>,
    put: Vec<Extent>,
    /// The parts of what goes out that lay within the range.
    replaced: Vec<Extent>,
}

impl Change {
    /// `near` are the extents in the range and those that touch it.
    fn new(near: &[Extent], from: u64, to: u64, new: &[Extent]) -> Change {
        let before = near.iter().filter_map(|extent| extent.within(0, from));
        let after = near.iter().filter_map(|extent| extent.within(to, u64::MAX));
        let all = before.chain(new.iter().copied()).chain(after);
        let mut put: Vec<Extent> = Vec::new();
        for extent in all {
            match put.last().and_then(|last| last.joined(&extent)) {
                Some(joined) => *put.last_mut().expect("there is a last") = joined,
                None => put.push(extent),
            }
        }
        let unchanged: Vec<Extent> = near.iter().filter(|e| put.contains(e)).copied().collect();
        put.retain(|extent| !unchanged.contains(extent));
        Change {
            out: near
                .iter()
                .filter(|e| !unchanged.contains(e))
                .copied()
                .collect(),
            put,
            replaced: near.iter().filter_map(|e| e.within(from, to)).collect(),
        }
    }
}

/// Puts `new`, which lies within pages `from..to` of the file and is in order, in the place of all
/// that is there; what that was. The inode is changed, and has to be stored.
///
/// # Errors
/// `ENOSPC` if the tree has to grow; of the media; damage.
pub async fn splice<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    from: u64,
    to: u64,
    new: &[Extent],
) -> Result<Vec<Extent>, FileError> {
    let wide = (from.saturating_sub(1), to.saturating_add(1));
    let near = covering(tx, inode, wide.0, wide.1, usize::MAX).await?;
    let change = Change::new(&near, from, to, new);
    let pages = |extents: &[Extent]| extents.iter().map(|extent| extent.pages).sum::<u64>();
    let (less, more) = (pages(&change.out), pages(&change.put));
    inode.pages = (inode.pages + more)
        .checked_sub(less)
        .ok_or_else(|| damage(inode.number, "a file has fewer pages than its extents"))?;
    if !inode.is_tree {
        let mut all = inline(tx, inode)?;
        all.retain(|extent| !change.out.contains(extent));
        all.extend(&change.put);
        all.sort_unstable_by_key(|extent| extent.at);
        if all.len() <= INLINE_MAX && all.len() * RUN_BYTES <= inode.front_room() {
            set_inline(inode, &all);
            return Ok(change.replaced);
        }
        inode.set_tree_root(None);
        insert_all(tx, inode, &[], &all).await?;
    } else {
        insert_all(tx, inode, &change.out, &change.put).await?;
    }
    Ok(change.replaced)
}

/// Changes the tree of a file.
async fn insert_all<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    out: &[Extent],
    put: &[Extent],
) -> Result<(), FileError> {
    let mut tree = tree(tx, inode);
    for extent in out {
        // What is put in the place of another under the same key needs no removal.
        if !put.iter().any(|new| new.at == extent.at) && !tree.remove(tx, extent.at).await? {
            return Err(damage(inode.number, "an extent went away"));
        }
    }
    for extent in put {
        tree.insert(tx, extent.at, &extent.word().to_le_bytes())
            .await?;
    }
    inode.set_tree_root(tree.root);
    Ok(())
}
