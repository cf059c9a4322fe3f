//! From the media to a file system that runs.
//!
//! 1. What the journal has marked is carried out.
//! 2. All that can be reached from the root is read, which says what is in use.
//! 3. Slots that are in use and cannot be reached were being made, or had no name any more: they
//!    are given back. If anything was damaged, nobody knows what would have been reached: nothing
//!    is given back, and no changes are taken.
//!
//! It takes time by what there is: a log for each inode. Memory: a bit for each page, 2 for each
//! slot, and 8 bytes for each directory.

use rustc_hash::{FxHashMap, FxHashSet};
use zerocopy::FromBytes;

use super::journal::{self, store_word};
use super::kept::Kept;
use super::layout::{Geometry, PAGE, ROOT, SLOT_BYTES, Slot, TABLE_PAGE};
use super::log;
use super::node::Node;
use super::space::Bits;
use super::store::{State, Store};
use crate::attributes::Kind;
use crate::errno::{Errno, Fault, FileError};
use crate::limits::LIST_START;
use crate::lines::Lines;
use crate::pages::{PAGE_BYTES, Run};

/// What was done to bring a file system up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Notes of the journal that were carried out.
    pub notes: u64,
    /// Inodes that were given back.
    pub orphans: u64,
    /// Inodes that are damaged, or entries that lead to nothing: if there are any, no changes are
    /// taken.
    pub damaged: u64,
}

struct Walk<'a, L> {
    lines: &'a L,
    geometry: Geometry,
    space: Bits,
    slots: Bits,
    kept: Kept,
    damaged: u64,
}

/// Opens what is on the media.
///
/// # Errors
/// Of the media; damage of the superblock, the journal or the root.
pub async fn open<L: Lines>(
    lines: L,
    memory_max: usize,
) -> Result<(Store<L>, Recovered), FileError> {
    let geometry = Geometry::find(&lines).await?;
    let notes = journal::recover(&lines, &geometry).await?;
    let data = geometry.data_first()..geometry.data_end();
    let mut walk = Walk {
        lines: &lines,
        geometry,
        space: Bits::new(data.start, data.end.saturating_sub(data.start)),
        slots: Bits::new(0, geometry.slots()),
        kept: Kept::new(memory_max),
        damaged: 0,
    };
    walk.all().await?;
    let orphans = walk.orphans().await?;
    let recovered = Recovered {
        notes,
        orphans,
        damaged: walk.damaged,
    };
    let state = State {
        kept: walk.kept,
        space: walk.space,
        slots: walk.slots,
        unborn: FxHashSet::default(),
        opens: FxHashMap::default(),
        is_read_only: walk.damaged > 0,
        failed: None,
        next_note: 0,
        next_page: 0,
    };
    Ok((Store::new(lines, geometry, state), recovered))
}

impl<L: Lines> Walk<'_, L> {
    /// Reads all that can be reached.
    async fn all(&mut self) -> Result<(), FileError> {
        let mut directories = vec![ROOT];
        self.slots.claim(Run::one(0));
        let root = log::load(self.lines, &self.geometry, ROOT).await;
        let root = match root {
            Err(FileError::Errno(_)) => None,
            root => Some(root?),
        };
        if !root.is_some_and(|root| root.is_directory()) {
            let what = "there is no root directory";
            return Err(super::layout::damaged(self.geometry.slot_at(0), what).into());
        }
        while let Some(number) = directories.pop() {
            let Some(node) = self.read(number).await? else {
                continue;
            };
            for name in node.names_behind(LIST_START) {
                let Some((slot, _)) = self.geometry.slot_of(name.number) else {
                    self.damaged += 1;
                    continue;
                };
                let is_new = self.slots.claim(Run::one(slot));
                match name.kind {
                    // A file has several names, a directory one.
                    Kind::Directory if is_new => directories.push(name.number),
                    Kind::Directory => self.damaged += 1,
                    kind if is_new => {
                        let found = self.read(name.number).await?;
                        let is_same = found.is_none_or(|node| node.inode().kind == kind);
                        self.damaged += u64::from(!is_same);
                    }
                    _ => {}
                }
            }
            self.kept.put(node.into());
        }
        Ok(())
    }

    /// Reads an inode, and notes what it has; nothing if it is damaged.
    async fn read(&mut self, number: u64) -> Result<Option<Node>, FileError> {
        let node = match log::load(self.lines, &self.geometry, number).await {
            Ok(node) => node,
            Err(FileError::Io(Fault::Read { .. } | Fault::Damaged { .. })) => {
                self.damaged += 1;
                return Ok(None);
            }
            Err(FileError::Errno(Errno::ESTALE)) => {
                self.damaged += 1;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let log = node.log.pages.iter().map(|page| Run::one(*page));
        for run in node.runs().into_iter().chain(log) {
            self.damaged += u64::from(!self.space.claim(run));
        }
        Ok(Some(node))
    }

    /// Gives back slots that nothing leads to; how many.
    async fn orphans(&mut self) -> Result<u64, FileError> {
        let mut orphans = 0;
        let per_page = PAGE / SLOT_BYTES;
        let mut bytes = vec![0; PAGE_BYTES];
        for page in 0..self.geometry.table_pages {
            let start = (TABLE_PAGE + page) * PAGE;
            match self.lines.load(start, &mut bytes).await {
                Ok(()) => {}
                Err(Fault::Read { .. }) => {
                    self.damaged += 1;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            }
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            for nth in 0..per_page {
                let slot = page * per_page + nth;
                let found = Slot::read_from_bytes(&bytes[(nth * SLOT_BYTES) as usize..][..16]);
                let in_use = found.is_ok_and(|slot| slot.log_end.get() != 0);
                if !in_use || !self.slots.claim(Run::one(slot)) || self.damaged > 0 {
                    continue;
                }
                store_word(self.lines, self.geometry.log_end_at(slot), 0).await?;
                self.slots.give(Run::one(slot));
                orphans += 1;
            }
        }
        if orphans > 0 {
            self.lines.fence().await?;
        }
        Ok(orphans)
    }
}
