//! The pages of metadata as the newest operation left them.
//!
//! A page of metadata is, from the newest version of it to the oldest,
//!
//! 1. in the *running* group, which is in memory alone;
//! 2. in the *sealed* group, which is on its way into the journal;
//! 3. *committed*: in the journal, not at home yet;
//! 4. *kept*: as it is at home;
//! 5. at home, on the media.
//!
//! The first three are limited by the size of the journal and by the budget, the fourth by the
//! budget. Transactions (`tx.rs`) read the newest and put theirs into the running group;
//! `commit.rs` moves it on.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use wharf_runtime::Op;

use super::gates::Gates;
use super::journal::Tail;
use super::kept::Kept;
use super::layout::Geometry;
use super::page::{self, Image, Kind, Wanted};
use super::shared::Shared;
use crate::cost::work;
use crate::errno::Fault;
use crate::errno::FileError;
use crate::pages::{PAGE_BYTES, Pages, Run};

/// Most pages that are committed together, whatever the size of the journal: 4 MiB.
const GROUP_IMAGES_MAX: usize = 1024;

/// Most runs that wait for a commit before they can be used again.
const FREED_RUNS_MAX: usize = 4096;

/// A run that was given back.
#[derive(Debug, Clone, Copy)]
pub struct Freed {
    /// The run.
    pub run: Run,
    /// It held metadata, so that older images of it may be in the journal.
    pub was_metadata: bool,
}

/// What is committed together.
#[derive(Debug, Default)]
pub struct GroupOfChanges {
    /// The newest image of each page that was changed.
    pub images: FxHashMap<u64, Image>,
    /// What was given back.
    pub freed: Vec<Freed>,
    /// Pages of metadata among that.
    pub given_back: usize,
}

impl GroupOfChanges {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.freed.is_empty()
    }

    fn size(&self) -> usize {
        self.images.len() + self.given_back
    }
}

/// Free pages and inodes of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Pages.
    pub pages: u32,
    /// Inodes.
    pub inodes: u32,
}

/// What changes all the time.
#[derive(Debug)]
pub struct Changing {
    /// What will be committed next.
    pub running: GroupOfChanges,
    /// What is being committed.
    pub sealed: Option<GroupOfChanges>,
    /// What is in the journal, and not at home.
    pub committed: FxHashMap<u64, Image>,
    /// What is kept as it is at home.
    pub kept: Kept,
    /// Pages that must not be used: those that a transaction under way has taken, and those that
    /// are given back by what is not durable. First page to end.
    pub held: BTreeMap<u64, u64>,
    /// What is free in each group, as far as it was looked at.
    pub summaries: Vec<Option<Summary>>,
    /// The newest transaction.
    pub transaction: u64,
    /// How often groups were sealed.
    pub seals: u64,
    /// Changes whenever the media may differ from what was read before.
    pub epoch: u64,
    /// Why nothing is changed any more.
    pub failed: Option<Fault>,
    /// Where the journal begins.
    pub tail: Tail,
    /// The next group to be committed.
    pub next_group: u64,
    /// Pages of the ring in use, from the tail on.
    pub ring_used: u64,
    /// How often what is open was opened.
    pub open: BTreeMap<u64, u64>,
}

impl Changing {
    /// The newest version of a page that memory has.
    pub fn newest(&mut self, number: u64) -> Option<Image> {
        let sealed = self.sealed.as_ref();
        let found = self.running.images.get(&number);
        let found = found.or_else(|| sealed?.images.get(&number));
        match found.or_else(|| self.committed.get(&number)) {
            Some(image) => Some(image.clone()),
            None => self.kept.get(number),
        }
    }

    /// Whether a page must not be used yet.
    pub fn is_held(&self, page: u64) -> bool {
        let before = self.held.range(..=page).next_back();
        before.is_some_and(|(_, end)| page < *end)
    }

    /// A run must not be used from now on.
    pub fn hold(&mut self, run: Run) {
        self.held.insert(run.first, run.end());
    }

    /// A run that was held may be used again.
    pub fn release(&mut self, run: Run) {
        self.held.remove(&run.first);
    }
}

/// How much memory may be used, and how much is committed at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Images of a group; also of one transaction.
    pub group_images: usize,
    /// Images that are not at home.
    pub committed_images: usize,
}

impl Limits {
    fn new(geometry: &Geometry, cache_bytes: usize) -> Limits {
        let ring = geometry.ring_pages() as usize;
        let half_of_ring = ring / 2 - 4;
        let half_of_cache = (cache_bytes / PAGE_BYTES / 2).max(64);
        Limits {
            group_images: half_of_ring.min(GROUP_IMAGES_MAX),
            committed_images: half_of_ring.min(half_of_cache),
        }
    }
}

/// The pages of metadata of a file system.
#[derive(Debug)]
pub struct Store<P> {
    /// The pages below.
    pub pages: P,
    /// Where everything is.
    pub geometry: Geometry,
    /// How much there may be of what.
    pub limits: Limits,
    /// What changes.
    pub changing: Shared<Changing>,
    /// Who is inside of which inode.
    pub gates: Gates,
    /// Where those who write a file line up first: at its gate one of them waits at most.
    pub turns: Gates,
}

impl<P: Pages> Store<P> {
    /// What is on the media, of which the journal begins (and ends) at `tail`, in `cache_bytes`
    /// bytes of memory for what is kept.
    pub fn new(pages: P, geometry: Geometry, tail: Tail, cache_bytes: usize) -> Store<P> {
        Store {
            pages,
            geometry,
            limits: Limits::new(&geometry, cache_bytes),
            gates: Gates::default(),
            turns: Gates::default(),
            changing: Shared::new(Changing {
                running: GroupOfChanges::default(),
                sealed: None,
                committed: FxHashMap::default(),
                kept: Kept::new(cache_bytes),
                held: BTreeMap::new(),
                summaries: vec![None; geometry.groups as usize],
                transaction: tail.transaction,
                seals: 0,
                epoch: 0,
                failed: None,
                tail,
                next_group: tail.group,
                ring_used: 0,
                open: BTreeMap::new(),
            }),
        }
    }

    /// Reads the newest version of a page.
    ///
    /// # Errors
    /// Of the media, and whatever is not such a page.
    pub async fn read(&self, number: u64, kind: Kind) -> Result<Image, FileError> {
        if number >= self.geometry.pages {
            return Err(page::damaged(number, "there is no such page").into());
        }
        loop {
            let (found, epoch, generation_max) = work(Op::MetadataLookup, || {
                self.changing
                    .with(|all| (all.newest(number), all.epoch, all.transaction))
            });
            if let Some(image) = found {
                return match page::head(&image).kind.get() == kind.raw() {
                    true => Ok(image),
                    false => Err(page::damaged(number, "it is of another kind").into()),
                };
            }
            let mut image = Arc::new([0; PAGE_BYTES]);
            let bytes = Arc::get_mut(&mut image).expect("it is new");
            self.pages.read(&[Run::one(number)], bytes).await?;
            let wanted = Wanted {
                kind,
                number,
                file_system: self.geometry.file_system,
                generation_max,
            };
            let checked = page::check(&image, wanted);
            let is_current = self.changing.with(|all| {
                let is_current = all.epoch == epoch && all.newest(number).is_none();
                if is_current && checked.is_ok() {
                    all.kept.put(number, image.clone());
                }
                is_current
            });
            if is_current {
                return checked.map(|()| image).map_err(FileError::from);
            }
        }
    }

    /// Whether changes that come on top of the running group must wait until it is committed.
    pub fn is_full_with(&self, all: &Changing, images: usize, given_back: usize) -> bool {
        let more = images + given_back;
        let size = all.running.size();
        size > 0 && size + more > self.limits.group_images
            || all.running.freed.len() > FREED_RUNS_MAX
    }
}
