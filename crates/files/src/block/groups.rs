//! What is in use in a group: its bitmap page.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{GROUP_PAGES, Group, INODES_PER_TABLE, SLOTS_PER_GROUP};
use super::page::{self, Header};
use crate::errno::Fault;
use crate::pages::{PageBytes, Run};

/// What is in use in a group. A bit is 1 for what is in use, and for what is not there.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Bitmap {
    /// Of the page.
    pub header: Header,
    /// The number of the group.
    pub group: U64,
    /// Pages that are free.
    pub pages_free: U32,
    /// Inodes that are free, those of tables that were never written among them.
    pub inodes_free: U32,
    /// Pages of inodes, from the first on, that were ever written. The others hold anything.
    pub tables_ready: U32,
    /// 0.
    pub reserved: U32,
    /// A bit for each inode, the lowest bit of the first byte for the first.
    pub inodes: [u8; 512],
    /// A bit for each page, from the group's first on.
    pub pages: [u8; 2048],
}

const _: () = assert!(SLOTS_PER_GROUP <= 512 * 8 && GROUP_PAGES == 2048 * 8);

fn is_set(bits: &[u8], index: u64) -> bool {
    bits[(index / 8) as usize] >> (index % 8) & 1 != 0
}

fn flip(bits: &mut [u8], index: u64) {
    bits[(index / 8) as usize] ^= 1 << (index % 8);
}

/// The first bit from `from` on, below `end`, that is 0.
fn first_clear(bits: &[u8], from: u64, end: u64) -> Option<u64> {
    let mut index = from;
    while index < end {
        let byte = bits[(index / 8) as usize];
        if index.is_multiple_of(8) && byte == 0xff {
            index += 8;
        } else if byte >> (index % 8) & 1 == 0 {
            return Some(index);
        } else {
            index += 1;
        }
    }
    None
}

impl Bitmap {
    /// Makes the bitmap of a group in which nothing is in use but what it consists of.
    pub fn init(&mut self, group: &Group) {
        self.group = group.number.into();
        self.pages_free = ((group.pages - group.data_from()) as u32).into();
        self.inodes_free = (group.inodes() as u32).into();
        self.inodes.fill(0xff);
        self.pages.fill(0xff);
        (0..group.inodes()).for_each(|index| flip(&mut self.inodes, index));
        (group.data_from()..group.pages).for_each(|index| flip(&mut self.pages, index));
    }

    /// The bitmap of a group, if the page is one.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn of<'a>(bytes: &'a PageBytes, group: &Group) -> Result<&'a Bitmap, Fault> {
        let bitmap: &Bitmap = page::of(bytes);
        let is_sound = bitmap.group.get() == group.number
            && u64::from(bitmap.pages_free.get()) <= group.pages - group.data_from()
            && u64::from(bitmap.inodes_free.get()) <= group.inodes()
            && u64::from(bitmap.tables_ready.get()) <= group.tables;
        match is_sound {
            true => Ok(bitmap),
            false => Err(page::damaged(group.first, "what it counts cannot be")),
        }
    }

    /// Whether an inode is in use.
    pub fn is_inode_used(&self, index: u64) -> bool {
        index >= SLOTS_PER_GROUP || is_set(&self.inodes, index)
    }

    /// The first free run at or behind `from`, of up to `most` pages, counted from the group's
    /// first page. `is_held` says of a page, numbered so too, that it must not be used yet.
    pub fn find(
        &self,
        group: &Group,
        from: u64,
        most: u64,
        is_held: impl Fn(u64) -> bool,
    ) -> Option<Run> {
        let from = from.max(group.data_from());
        let mut first = first_clear(&self.pages, from, group.pages)?;
        while is_held(first) {
            first = first_clear(&self.pages, first + 1, group.pages)?;
        }
        let fits = |index: &u64| !is_set(&self.pages, *index) && !is_held(*index);
        let end = (first + most).min(group.pages);
        let more = (first + 1..end).take_while(fits).count() as u64;
        Some(Run::new(first, 1 + more))
    }

    /// Takes a run of free pages, counted from the group's first.
    pub fn take(&mut self, run: Run) -> bool {
        self.turn(run, false) && {
            self.pages_free = self.pages_free.get().wrapping_sub(run.pages as u32).into();
            true
        }
    }

    /// Gives a run of pages that are in use back.
    pub fn give(&mut self, run: Run) -> bool {
        self.turn(run, true) && {
            self.pages_free = self.pages_free.get().wrapping_add(run.pages as u32).into();
            true
        }
    }

    /// Flips all bits of a run if all of them are `from`.
    fn turn(&mut self, run: Run, from: bool) -> bool {
        let is_right = run.iter().all(|index| is_set(&self.pages, index) == from);
        if is_right {
            run.iter().for_each(|index| flip(&mut self.pages, index));
        }
        is_right
    }

    /// Takes the first free inode; its index.
    pub fn take_inode(&mut self, group: &Group) -> Option<u64> {
        let index = first_clear(&self.inodes, 0, group.inodes())?;
        flip(&mut self.inodes, index);
        self.inodes_free = self.inodes_free.get().wrapping_sub(1).into();
        Some(index)
    }

    /// Gives an inode back that is in use.
    pub fn give_inode(&mut self, index: u64) -> bool {
        let is_used = is_set(&self.inodes, index);
        if is_used {
            flip(&mut self.inodes, index);
            self.inodes_free = self.inodes_free.get().wrapping_add(1).into();
        }
        is_used
    }

    /// Whether the table of an inode was ever written.
    pub fn is_table_ready(&self, index: u64) -> bool {
        index / INODES_PER_TABLE < u64::from(self.tables_ready.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layout::Geometry;
    use crate::block::page::{Kind, fresh};
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use wharf_runtime::Seed;

    #[test]
    fn pages_are_taken_once_and_counted() {
        let seed = 3;
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let geometry = Geometry::new(20_000, 1, [0; 2]).unwrap();
        for number in 0..2 {
            let group = geometry.group(number);
            let mut image = fresh(Kind::Bitmap, group.first, 1);
            let bytes = Arc::make_mut(&mut image);
            page::of_mut::<Bitmap>(bytes).init(&group);
            let (mut used, mut held) = (BTreeSet::new(), BTreeSet::new());
            for _ in 0..3000 {
                let bitmap: &mut Bitmap = page::of_mut(bytes);
                if rng.chance(1, 4) && !used.is_empty() {
                    let nth = rng.below(used.len() as u64) as usize;
                    let index = *used.iter().nth(nth).unwrap();
                    used.remove(&index);
                    held.insert(index);
                    assert!(bitmap.give(Run::one(index)));
                    assert!(!bitmap.give(Run::one(index)));
                }
                if rng.chance(1, 50) {
                    held.clear();
                }
                let (from, most) = (rng.below(group.pages), 1 + rng.below(40));
                if let Some(run) = bitmap.find(&group, from, most, |index| held.contains(&index)) {
                    assert!(run.first >= from && run.pages <= most && run.end() <= group.pages);
                    assert!(bitmap.take(run));
                    assert!(
                        run.iter()
                            .all(|index| used.insert(index) && !held.contains(&index))
                    );
                }
                let bitmap = Bitmap::of(bytes, &group).unwrap();
                let free = group.pages - group.data_from() - used.len() as u64;
                assert_eq!(u64::from(bitmap.pages_free.get()), free);
            }
        }
    }

    #[test]
    fn inodes_are_taken_once() {
        let geometry = Geometry::new(1000, 1, [0; 2]).unwrap();
        let group = geometry.group(0);
        let mut image = fresh(Kind::Bitmap, group.first, 1);
        let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut image));
        bitmap.init(&group);
        for index in 0..group.inodes() {
            assert_eq!(bitmap.take_inode(&group), Some(index));
        }
        assert_eq!(bitmap.take_inode(&group), None);
        assert!(bitmap.give_inode(4) && !bitmap.give_inode(4));
        assert_eq!(bitmap.take_inode(&group), Some(4));
    }
}
