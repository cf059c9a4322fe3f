//! Inodes by number: from the media, kept in memory, behind their gates; and what is in use.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use wharf_runtime::Op;

use super::gates::{Gates, Inside};
use super::kept::Kept;
use super::layout::{Geometry, damaged};
use super::log;
use super::node::Node;
use super::shared::Shared;
use super::space::Bits;
use super::turns::Turns;
use crate::cost::work;
use crate::errno::{Errno, Fault, FileError};
use crate::lines::Lines;
use crate::payload::In;

/// What all tasks share.
#[derive(Debug)]
pub struct State {
    /// Inodes in memory.
    pub kept: Kept,
    /// Pages for logs and files.
    pub space: Bits,
    /// Slots of inodes.
    pub slots: Bits,
    /// Numbers of inodes that are being made: they stand for nothing so far.
    pub unborn: FxHashSet<u64>,
    /// How often each inode is open.
    pub opens: FxHashMap<u64, u32>,
    /// Whether no changes are taken any more.
    pub is_read_only: bool,
    /// Why what is on the media is not known for certain.
    pub failed: Option<Fault>,
    /// Which slot of the journal is next.
    pub next_note: u64,
    /// Where pages are looked for next.
    pub next_page: u64,
}

/// A file system on its media.
#[derive(Debug)]
pub struct Store<L> {
    /// The media.
    pub lines: L,
    /// Where everything is.
    pub geometry: Geometry,
    /// The gates of inodes.
    pub gates: Gates,
    /// Turns at pages of files, of those who change their bytes.
    pub turns: Turns,
    /// Where those who write over bytes of a file line up before its gate: one of them waits there at most.
    pub line: Gates,
    state: Shared<State>,
}

/// Pages that only operations may take that give others back.
pub fn reserve(geometry: &Geometry) -> u64 {
    (geometry.pages / 64).clamp(3, 1024)
}

impl<L: Lines> Store<L> {
    /// What is on these media.
    pub fn new(lines: L, geometry: Geometry, state: State) -> Store<L> {
        Store {
            lines,
            geometry,
            gates: Gates::default(),
            turns: Turns::default(),
            line: Gates::default(),
            state: Shared::new(state),
        }
    }

    /// What tasks share, for a moment.
    pub fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        self.state.with(f)
    }

    /// Refuses changes where none are taken.
    ///
    /// # Errors
    /// `EROFS`.
    pub fn check_is_writable(&self) -> Result<(), FileError> {
        match self.with(|state| state.is_read_only) {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }

    /// From now on no changes are taken: what is on the media is not known for certain.
    pub fn give_up(&self, fault: Fault) {
        self.with(|state| {
            state.is_read_only = true;
            state.failed.get_or_insert(fault);
        });
    }

    /// Refuses where what is on the media is not known for certain.
    ///
    /// # Errors
    /// That by which it came to be so.
    pub fn check_is_known(&self) -> Result<(), FileError> {
        match self.with(|state| state.failed) {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// Stores bytes, which the next fence makes durable. Nothing is stored any more when a fence has
    /// failed.
    ///
    /// # Errors
    /// Of the media.
    pub async fn store<'a>(&self, at: u64, data: impl Into<In<'a>>) -> Result<(), FileError> {
        self.check_is_known()?;
        let data = data.into();
        let stored = async {
            self.lines.store_from(at, data).await?;
            self.lines.persist(at, data.len()).await
        };
        let stored = stored.await;
        // Memory may have to make room.
        if let Err(fault @ Fault::Flush) = stored {
            self.give_up(fault);
        }
        Ok(stored?)
    }

    /// Stores a word.
    ///
    /// # Errors
    /// As [`Store::store`].
    pub async fn store_word(&self, at: u64, word: u64) -> Result<(), FileError> {
        self.store(at, &word.to_le_bytes()).await
    }

    /// Waits until what was stored is durable. If it is not, nobody knows what is, of this change and of all
    /// that are under way: no later fence makes up for that, neither theirs.
    ///
    /// # Errors
    /// Of the media, also of what was found by another task meanwhile.
    pub async fn fence(&self) -> Result<(), FileError> {
        if let Err(fault) = self.lines.fence().await {
            self.give_up(fault);
        }
        self.check_is_known()
    }

    /// Refuses what cannot be the number of an inode: somebody else may be behind a gate by that.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn check_number(&self, number: u64) -> Result<(), FileError> {
        match self.geometry.slot_of(number) {
            Some(_) => Ok(()),
            None => Err(Errno::ESTALE.into()),
        }
    }

    /// An inode, for looking; behind its gate until that is dropped.
    ///
    /// # Errors
    /// `ESTALE`; of the media; damage.
    pub async fn look(&self, number: u64) -> Result<(Arc<Node>, Inside<'_>), FileError> {
        self.check_number(number)?;
        let inside = self.gates.shared(number).await;
        Ok((self.node(number).await?, inside))
    }

    /// An inode; whoever asks is behind its gate.
    ///
    /// # Errors
    /// `ESTALE`; of the media; damage.
    pub async fn node(&self, number: u64) -> Result<Arc<Node>, FileError> {
        let known = self.with(|state| match state.unborn.contains(&number) {
            true => Err(Errno::ESTALE),
            false => Ok(work(Op::MetadataLookup, || state.kept.get(number))),
        })?;
        if let Some(node) = known {
            return Ok(node);
        }
        let node = Arc::new(log::load(&self.lines, &self.geometry, number).await?);
        self.with(|state| state.kept.put(node.clone()));
        Ok(node)
    }

    /// The same of what a name leads to: that there is nothing is damage.
    ///
    /// # Errors
    /// Of the media; damage.
    pub fn named<T>(&self, number: u64, found: Result<T, FileError>) -> Result<T, FileError> {
        found.map_err(|error| match error {
            FileError::Errno(Errno::ESTALE) => {
                let slot = self.geometry.slot_of(number).map_or(0, |(slot, _)| slot);
                let at = self.geometry.slot_at(slot);
                damaged(at, "an entry leads to nothing").into()
            }
            other => other,
        })
    }
}
