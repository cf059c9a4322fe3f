//! B+trees of records in pages: from a 64-bit key to a few hundred bytes.
//!
//! Both the runs of large files and the entries of directories are such trees. All nodes, leaves or
//! not, have the same form: records of a key and bytes (`records.rs`). In a node above the leaves the
//! bytes are the page of a child, and the key is not above any of the child's; what is below the
//! first key belongs to the first child.
//!
//! A change moves what is behind it in its node. A node that overflows is split in the middle, or
//! at its end if that is where it grew; one that is nearly empty goes into its neighbour if there is
//! room, one that is empty is given back. Removing needs no new page, ever.

use smallvec::SmallVec;

use super::page::{Image, Kind};
use super::records::{
    Edit, RECORD_BYTES, ROOM_BYTES, VALUE_BYTES_MAX, View, build, bytes_of, edit, split_point,
};
use super::tx::{Tx, damage};
use crate::errno::FileError;
use crate::pages::Pages;

/// No tree is higher.
const LEVEL_MAX: u16 = 12;

/// A record: its key and its value.
pub type Record = (u64, Vec<u8>);

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
        if view.bytes()? - gone < ROOM_BYTES / 4
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
