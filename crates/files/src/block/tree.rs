//! B+trees of records in pages: from a 64-bit key to a few hundred bytes.
//!
//! Both the runs of large files and the entries of directories are such trees. All nodes, leaves or
//! not, have the same form: records of a key and bytes, one behind the other in the order of their
//! keys, and from the end of the page backwards where each begins, so that a search halves. In a
//! node above the leaves the bytes are the page of a child, and the key is not above any of the
//! child's; what is below the first key belongs to the first child.
//!
//! A change moves what is behind it in its node. A node that overflows is split in the middle, or at
//! its end if that is where it grew; one that is nearly empty goes into its neighbour if there is
//! room, one that is empty is given back. Removing needs no new page, ever.

use std::sync::Arc;

use smallvec::SmallVec;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use wharf_runtime::Op;

use super::page::{self, Header, Image, Kind};
use super::tx::{Tx, damage};
use crate::cost::work;
use crate::errno::FileError;
use crate::pages::{PAGE_BYTES, PageBytes, Pages};

/// The first bytes of a node.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeHead {
    /// Of the page.
    pub header: Header,
    /// The number of the file or directory whose tree it is.
    pub owner: U64,
    /// 0 of leaves, and 1 more than its children's of others.
    pub level: U16,
    /// Records.
    pub records: U16,
    /// 0.
    pub reserved: U32,
}

/// Bytes of the head of a node.
const HEAD_BYTES: usize = size_of::<NodeHead>();

/// Bytes of a record besides its value: key, length, and where it begins.
const RECORD_BYTES: usize = 8 + 2 + 2;

/// Bytes of a node for records.
const ROOM_BYTES: usize = PAGE_BYTES - HEAD_BYTES;

/// Most bytes of a value: at least twelve records fit into a node.
pub const VALUE_BYTES_MAX: usize = 300;

/// No tree is higher.
const LEVEL_MAX: u16 = 12;

/// A record: its key and its value.
pub type Record = (u64, Vec<u8>);

/// The records of a node.
struct View<'a> {
    bytes: &'a PageBytes,
    page: u64,
    records: usize,
}

impl<'a> View<'a> {
    fn new(bytes: &'a PageBytes, page: u64, owner: u64, level: u16) -> Result<Self, FileError> {
        let head: &NodeHead = page::of(bytes);
        let records = usize::from(head.records.get());
        let is_sound = head.owner.get() == owner
            && head.level.get() == level
            && records > 0
            && records <= ROOM_BYTES / RECORD_BYTES;
        match is_sound {
            true => Ok(View {
                bytes,
                page,
                records,
            }),
            false => Err(damage(page, "it is no such node of this tree")),
        }
    }

    /// The bytes from where a record begins on.
    fn record(&self, index: usize) -> Result<&'a [u8], FileError> {
        let slot = PAGE_BYTES - 2 * (index + 1);
        let at = usize::from(u16::from_le_bytes([self.bytes[slot], self.bytes[slot + 1]]));
        match self.bytes.get(at..) {
            Some(record) if at >= HEAD_BYTES && record.len() >= 10 => Ok(record),
            _ => Err(damage(self.page, "a record lies outside of its node")),
        }
    }

    fn key(&self, index: usize) -> Result<u64, FileError> {
        let record = self.record(index)?;
        Ok(u64::from_le_bytes(record[..8].try_into().expect("8 bytes")))
    }

    fn value(&self, index: usize) -> Result<&'a [u8], FileError> {
        let record = self.record(index)?;
        let length = usize::from(u16::from_le_bytes([record[8], record[9]]));
        let value = record.get(10..10 + length);
        let value = value.filter(|value| value.len() <= VALUE_BYTES_MAX);
        value.ok_or_else(|| damage(self.page, "a record lies outside of its node"))
    }

    /// How many records have keys below `key`.
    fn below(&self, key: u64) -> Result<usize, FileError> {
        let (mut low, mut high) = (0, self.records);
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle)? < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// Which child a key belongs to.
    fn child_of(&self, key: u64) -> Result<usize, FileError> {
        let below = match key.checked_add(1) {
            Some(above) => self.below(above)?,
            None => self.records,
        };
        Ok(below.saturating_sub(1))
    }

    fn child(&self, index: usize) -> Result<u64, FileError> {
        let value = self.value(index)?.try_into();
        let value = value.map_err(|_| damage(self.page, "a child is no page number"))?;
        Ok(u64::from_le_bytes(value))
    }

    fn all(&self) -> Result<Records<'a>, FileError> {
        let record = |index| Ok((self.key(index)?, self.value(index)?));
        let records: Result<Records<'a>, FileError> = (0..self.records).map(record).collect();
        let records = records?;
        let is_ordered = records.windows(2).all(|two| two[0].0 < two[1].0);
        match is_ordered && bytes_of(&records) <= ROOM_BYTES {
            true => Ok(records),
            false => Err(damage(self.page, "the records of a node overlap")),
        }
    }
}

impl View<'_> {
    /// Where the records end: they lie one behind the other in the order of their keys.
    fn end(&self) -> Result<usize, FileError> {
        let (mut at, mut last) = (HEAD_BYTES, None);
        for index in 0..self.records {
            let slot = PAGE_BYTES - 2 * (index + 1);
            let begins = usize::from(u16::from_le_bytes([self.bytes[slot], self.bytes[slot + 1]]));
            let record = self.bytes.get(at..at + 10).filter(|_| begins == at);
            let overlap = || damage(self.page, "the records of a node overlap");
            let record = record.ok_or_else(overlap)?;
            let key = u64::from_le_bytes(record[..8].try_into().expect("8 bytes"));
            at += 10 + usize::from(u16::from_le_bytes([record[8], record[9]]));
            if last.is_some_and(|last| last >= key) || at > slot_of(self.records) {
                return Err(overlap());
            }
            last = Some(key);
        }
        Ok(at)
    }
}

/// Where the list begins that says where so many records begin.
fn slot_of(records: usize) -> usize {
    PAGE_BYTES - 2 * records
}

/// What is done to a node: records that go, from an index on, and one that comes there.
#[derive(Clone, Copy)]
struct Edit<'a> {
    index: usize,
    goes: bool,
    comes: Option<(u64, &'a [u8])>,
}

/// Changes one record of a node, if there is room. False if not, and then nothing is changed.
fn edit(image: &mut Image, view: &View<'_>, edit: Edit<'_>) -> Result<bool, FileError> {
    let end = view.end()?;
    let begins = |index: usize| match index < view.records {
        true => {
            let slot = PAGE_BYTES - 2 * (index + 1);
            usize::from(u16::from_le_bytes([view.bytes[slot], view.bytes[slot + 1]]))
        }
        false => end,
    };
    let (from, behind) = (
        begins(edit.index),
        begins(edit.index + usize::from(edit.goes)),
    );
    let new = edit.comes.map_or(0, |(_, value)| 10 + value.len());
    let records = view.records - usize::from(edit.goes) + usize::from(edit.comes.is_some());
    if end - (behind - from) + new > slot_of(records) {
        return Ok(false);
    }
    work(Op::DirectoryUpdate, || {
        let bytes = Arc::make_mut(image);
        let now_end = end - (behind - from) + new;
        // The list grows from the end of the page, so it moves towards the front.
        let moves = |bytes: &mut PageBytes, old: usize, new_index: usize| {
            let at = begins(old) - behind + from + new;
            let slot = PAGE_BYTES - 2 * (new_index + 1);
            bytes[slot..slot + 2].copy_from_slice(&(at as u16).to_le_bytes());
        };
        let next = edit.index + usize::from(edit.goes);
        let next_index = edit.index + usize::from(edit.comes.is_some());
        bytes.copy_within(behind..end, from + new);
        bytes[now_end.min(end)..end].fill(0);
        for (nth, old) in (next..view.records).enumerate() {
            moves(bytes, old, next_index + nth);
        }
        if let Some((key, value)) = edit.comes {
            bytes[from..from + 8].copy_from_slice(&key.to_le_bytes());
            bytes[from + 8..from + 10].copy_from_slice(&(value.len() as u16).to_le_bytes());
            bytes[from + 10..from + new].copy_from_slice(value);
            let slot = PAGE_BYTES - 2 * (edit.index + 1);
            bytes[slot..slot + 2].copy_from_slice(&(from as u16).to_le_bytes());
        }
        if records < view.records {
            bytes[slot_of(view.records)..slot_of(records)].fill(0);
        }
        let head: &mut NodeHead = page::of_mut(bytes);
        head.records = (records as u16).into();
    });
    Ok(true)
}

/// Records of a node that is to be rebuilt.
type Records<'a> = Vec<(u64, &'a [u8])>;

fn bytes_of(records: &[(u64, &[u8])]) -> usize {
    let bytes = |(_, value): &(u64, &[u8])| RECORD_BYTES + value.len();
    records.iter().map(bytes).sum()
}

/// Writes records into a node. They fit.
fn build(image: &mut Image, owner: u64, level: u16, records: &[(u64, &[u8])]) {
    debug_assert!(bytes_of(records) <= ROOM_BYTES);
    debug_assert!(records.is_sorted_by_key(|(key, _)| *key));
    work(Op::DirectoryUpdate, || {
        let bytes = Arc::make_mut(image);
        bytes[HEAD_BYTES..].fill(0);
        let head: &mut NodeHead = page::of_mut(bytes);
        head.owner = owner.into();
        head.level = level.into();
        head.records = (records.len() as u16).into();
        let mut at = HEAD_BYTES;
        for (index, (key, value)) in records.iter().enumerate() {
            let slot = PAGE_BYTES - 2 * (index + 1);
            bytes[slot..slot + 2].copy_from_slice(&(at as u16).to_le_bytes());
            bytes[at..at + 8].copy_from_slice(&key.to_le_bytes());
            bytes[at + 8..at + 10].copy_from_slice(&(value.len() as u16).to_le_bytes());
            bytes[at + 10..at + 10 + value.len()].copy_from_slice(value);
            at += 10 + value.len();
        }
    });
}

/// Where to split records that do not fit into one node, `grown` being the one that was added.
fn split_point(records: &[(u64, &[u8])], grown: usize) -> usize {
    if grown == records.len() - 1 {
        return grown;
    }
    let half = bytes_of(records) / 2;
    let mut before = 0;
    let is_first_half = |(_, value): &&(u64, &[u8])| {
        before += RECORD_BYTES + value.len();
        before <= half
    };
    let point = records.iter().take_while(is_first_half).count();
    point.clamp(1, records.len() - 1)
}

/// The nodes from the root down to a leaf, and which child each led to.
type Way = SmallVec<[(u64, usize); 6]>;

/// A tree: who owns it, its root and where its nodes should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// The number of the file or directory.
    pub owner: u64,
    /// The page and the level of the root; `None` without records.
    pub root: Option<(u64, u16)>,
    /// Near which page new nodes should be.
    pub goal: u64,
}

impl Tree {
    /// A tree as an inode has it.
    pub fn new(owner: u64, root: Option<(u64, u16)>, goal: u64) -> Tree {
        Tree { owner, root, goal }
    }

    /// The leaf that a key belongs to, the way there, and the first key that belongs to the next
    /// leaf, and to this one.
    async fn descend<P: Pages>(
        &self,
        tx: &mut Tx<'_, P>,
        key: u64,
    ) -> Result<Option<Descent>, FileError> {
        let Some((mut page, top)) = self.root else {
            return Ok(None);
        };
        if top > LEVEL_MAX {
            return Err(damage(page, "a tree is too high"));
        }
        let (mut way, mut next, mut first) = (Way::new(), None, None);
        for level in (1..=top).rev() {
            let image = tx.page(page, Kind::Node).await?;
            let view = View::new(&image, page, self.owner, level)?;
            let index = view.child_of(key)?;
            if index + 1 < view.records {
                next = Some(view.key(index + 1)?);
            }
            if index > 0 {
                first = Some(view.key(index)?);
            }
            way.push((page, index));
            page = view.child(index)?;
        }
        let image = tx.page(page, Kind::Node).await?;
        View::new(&image, page, self.owner, 0)?;
        Ok(Some(Descent {
            image,
            page,
            way,
            next,
            first,
        }))
    }

    /// The last record with a key not above `key`.
    ///
    /// # Errors
    /// Of the media; damage.
    pub async fn floor<P: Pages>(
        &self,
        tx: &mut Tx<'_, P>,
        mut key: u64,
    ) -> Result<Option<Record>, FileError> {
        loop {
            let Some(leaf) = self.descend(tx, key).await? else {
                return Ok(None);
            };
            let view = leaf.view(self)?;
            let index = view.child_of(key)?;
            if view.key(index)? <= key {
                return Ok(Some((view.key(index)?, view.value(index)?.to_vec())));
            }
            // All of this leaf is above: the one before it, if there is one.
            match leaf.first.and_then(|first| first.checked_sub(1)) {
                Some(before) if before < key => key = before,
                _ => return Ok(None),
            }
        }
    }

    /// Some of the records with keys from `key` to `last`, in order, and where the next ones begin.
    /// At least one, unless there are none.
    ///
    /// # Errors
    /// Of the media; damage.
    pub async fn within<P: Pages>(
        &self,
        tx: &mut Tx<'_, P>,
        mut key: u64,
        last: u64,
    ) -> Result<(Vec<Record>, Option<u64>), FileError> {
        loop {
            let Some(leaf) = self.descend(tx, key).await? else {
                return Ok((Vec::new(), None));
            };
            let view = leaf.view(self)?;
            let end = match last.checked_add(1) {
                Some(above) => view.below(above)?,
                None => view.records,
            };
            let record = |index| Ok((view.key(index)?, view.value(index)?.to_vec()));
            let records: Result<Vec<Record>, FileError> =
                (view.below(key)?..end).map(record).collect();
            let records = records?;
            match leaf.next.filter(|next| *next > key && *next <= last) {
                Some(next) if records.is_empty() => key = next,
                next => return Ok((records, next)),
            }
        }
    }

    /// Puts a record into the tree, in place of one with the same key.
    ///
    /// # Errors
    /// `ENOSPC`; of the media; damage.
    pub async fn insert<P: Pages>(
        &mut self,
        tx: &mut Tx<'_, P>,
        key: u64,
        value: &[u8],
    ) -> Result<(), FileError> {
        debug_assert!(value.len() <= VALUE_BYTES_MAX);
        let Some(leaf) = self.descend(tx, key).await? else {
            let page = self.new_node(tx, 0, &[(key, value)]).await?;
            self.root = Some((page, 0));
            return Ok(());
        };
        let Descent { page, mut way, .. } = leaf;
        let mut split = self.insert_into(tx, page, 0, key, value).await?;
        let mut level = 0;
        while let Some((right_key, right_page)) = split {
            level += 1;
            let child = right_page.to_le_bytes();
            split = match way.pop() {
                Some((parent, _)) => {
                    self.insert_into(tx, parent, level, right_key, &child)
                        .await?
                }
                None => {
                    let left = self.root.map_or(0, |(page, _)| page).to_le_bytes();
                    let records: [(u64, &[u8]); 2] = [(0, &left), (right_key, &child)];
                    let page = self.new_node(tx, level, &records).await?;
                    self.root = Some((page, level));
                    None
                }
            };
        }
        Ok(())
    }

    async fn new_node<P: Pages>(
        &mut self,
        tx: &mut Tx<'_, P>,
        level: u16,
        records: &[(u64, &[u8])],
    ) -> Result<u64, FileError> {
        let page = tx.allocate(self.goal, 1).await?.first;
        let mut image = tx.fresh(Kind::Node, page);
        build(&mut image, self.owner, level, records);
        tx.put(image);
        Ok(page)
    }

    /// Puts a record into a node; if it has to be split, the key and the page of the new one behind
    /// it.
    async fn insert_into<P: Pages>(
        &mut self,
        tx: &mut Tx<'_, P>,
        page: u64,
        level: u16,
        key: u64,
        value: &[u8],
    ) -> Result<Option<(u64, u64)>, FileError> {
        let mut image = tx.page(page, Kind::Node).await?;
        let old = image.clone();
        let view = View::new(&old, page, self.owner, level)?;
        let index = view.below(key)?;
        let change = Edit {
            index,
            goes: index < view.records && view.key(index)? == key,
            comes: Some((key, value)),
        };
        if edit(&mut image, &view, change)? {
            tx.put(image);
            return Ok(None);
        }
        let mut records = view.all()?;
        match records.get_mut(index) {
            Some(record) if record.0 == key => record.1 = value,
            _ => records.insert(index, (key, value)),
        }
        let point = split_point(&records, index);
        let (left, right) = records.split_at(point);
        if bytes_of(left) > ROOM_BYTES || bytes_of(right) > ROOM_BYTES {
            return Err(damage(page, "a record is too long"));
        }
        let new = self.new_node(tx, level, right).await?;
        build(&mut image, self.owner, level, left);
        tx.put(image);
        Ok(Some((right[0].0, new)))
    }

    /// Takes a record out of the tree; true if it was there. Never fails for lack of room.
    ///
    /// # Errors
    /// Of the media; damage.
    pub async fn remove<P: Pages>(
        &mut self,
        tx: &mut Tx<'_, P>,
        key: u64,
    ) -> Result<bool, FileError> {
        let Some(leaf) = self.descend(tx, key).await? else {
            return Ok(false);
        };
        let index = {
            let view = leaf.view(self)?;
            let index = view.below(key)?;
            if index >= view.records || view.key(index)? != key {
                return Ok(false);
            }
            index
        };
        let Descent { page, mut way, .. } = leaf;
        let (mut page, mut index, mut level) = (page, index, 0);
        while let Some(gone) = self.remove_from(tx, page, level, index, way.last()).await? {
            let Some((parent, child)) = way.pop() else {
                self.root = None;
                break;
            };
            (page, index, level) = (parent, child + gone, level + 1);
        }
        self.lower(tx).await?;
        Ok(true)
    }

    /// Takes a record out of a node. If a node goes by that: which one of the parent's children,
    /// counted from this one.
    async fn remove_from<P: Pages>(
        &mut self,
        tx: &mut Tx<'_, P>,
        page: u64,
        level: u16,
        index: usize,
        parent: Option<&(u64, usize)>,
    ) -> Result<Option<usize>, FileError> {
        let mut image = tx.page(page, Kind::Node).await?;
        let old = image.clone();
        let other;
        let view = View::new(&old, page, self.owner, level)?;
        if index >= view.records {
            return Err(damage(page, "a node has fewer records than it had"));
        }
        if view.records == 1 {
            tx.give_back_page(page).await?;
            return Ok(Some(0));
        }
        let gone = RECORD_BYTES + view.value(index)?.len();
        let left = view.end()? - HEAD_BYTES + 2 * view.records - gone;
        if left < ROOM_BYTES / 4
            && let Some((next_key, next)) = self.right_of(tx, level, parent).await?
        {
            let mut records = view.all()?;
            records.remove(index);
            // The right neighbour goes into this one. Its first child has all from `next_key` on.
            other = tx.page(next, Kind::Node).await?;
            let mut more = View::new(&other, next, self.owner, level)?.all()?;
            if let (Some(first), 1..) = (more.first_mut(), level) {
                first.0 = next_key;
            }
            let ordered = records.last().map(|r| r.0) < more.first().map(|r| r.0);
            if ordered && bytes_of(&records) + bytes_of(&more) <= ROOM_BYTES * 3 / 4 {
                records.extend(more);
                build(&mut image, self.owner, level, &records);
                tx.put(image);
                tx.give_back_page(next).await?;
                return Ok(Some(1));
            }
        }
        let change = Edit {
            index,
            goes: true,
            comes: None,
        };
        edit(&mut image, &view, change)?;
        tx.put(image);
        Ok(None)
    }

    /// The node behind the one that `parent` leads to, if it is the parent's too: its first key
    /// there, and its page.
    async fn right_of<P: Pages>(
        &self,
        tx: &mut Tx<'_, P>,
        level: u16,
        parent: Option<&(u64, usize)>,
    ) -> Result<Option<(u64, u64)>, FileError> {
        let Some((parent, child)) = parent else {
            return Ok(None);
        };
        let image = tx.page(*parent, Kind::Node).await?;
        let view = View::new(&image, *parent, self.owner, level + 1)?;
        match child + 1 < view.records {
            true => Ok(Some((view.key(child + 1)?, view.child(child + 1)?))),
            false => Ok(None),
        }
    }

    /// A root with one child makes way for it.
    async fn lower<P: Pages>(&mut self, tx: &mut Tx<'_, P>) -> Result<(), FileError> {
        while let Some((page, level)) = self.root.filter(|(_, level)| *level > 0) {
            let image = tx.page(page, Kind::Node).await?;
            let view = View::new(&image, page, self.owner, level)?;
            if view.records > 1 {
                break;
            }
            self.root = Some((view.child(0)?, level - 1));
            tx.give_back_page(page).await?;
        }
        Ok(())
    }
}

/// A leaf, and how it was found.
struct Descent {
    image: Image,
    page: u64,
    way: Way,
    /// The first key that belongs to the next leaf.
    next: Option<u64>,
    /// The first key that belongs to this leaf; `None` if it is the first leaf.
    first: Option<u64>,
}

impl Descent {
    fn view(&self, tree: &Tree) -> Result<View<'_>, FileError> {
        View::new(&self.image, self.page, tree.owner, 0)
    }
}
