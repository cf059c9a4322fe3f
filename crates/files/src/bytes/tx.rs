//! Changes: records for the logs of some inodes, which count all together or not at all.
//!
//! 1. Behind the gates of all inodes concerned, the records are added to them in memory.
//! 2. They are stored behind the ends of the logs, or whole logs are written anew; a fence.
//! 3. One word is stored for each inode, the end of its log: by itself if it is one, else by way of
//!    the journal. A new inode has its word in step 2: nothing leads to it before step 3.
//! 4. What is not in use any more may be used again.
//!
//! Until step 3 everything can be taken back, and is if the change is dropped. If the media fail
//! in it, or any fence fails, nobody knows what is on them, and the file system takes no changes any
//! more (`store.rs`).

use std::sync::Arc;

use smallvec::SmallVec;
use wharf_runtime::Op;
use zerocopy::IntoBytes;

use super::gates::{self, Inside};
use super::journal::{self, NOTES};
use super::layout::{GENERATION_MAX, Geometry, PAGE, Slot, damaged};
use super::log::{HEAD_BYTES, LogHead, page_of_end, read_slot};
use super::node::Node;
use super::record::{Record, Whose};
use super::store::{Store, reserve};
use crate::cost::work;
use crate::errno::{Errno, Fault, FileError};
use crate::lines::Lines;
use crate::pages::Run;

/// An inode that is being changed.
#[derive(Debug)]
struct Opened {
    node: Node,
    /// What is new in its log.
    records: Vec<Vec<u8>>,
    is_new: bool,
    is_gone: bool,
}

/// A change that is being made.
pub struct Tx<'a, L: Lines> {
    store: &'a Store<L>,
    opened: SmallVec<[Opened; 4]>,
    /// Pages that were taken for it.
    taken: Vec<Run>,
    /// Pages that are free when it is done.
    freed: Vec<Run>,
    /// Whether pages may be taken that are kept for those who give others back.
    gives_back: bool,
    /// A new inode that is open from the beginning.
    opens: Option<u64>,
    /// The last field: the gates are left last.
    inside: SmallVec<[Inside<'a>; 4]>,
}

impl<L: Lines> Store<L> {
    /// Begins a change, behind the gates of these inodes; each of them has to be loaded.
    ///
    /// # Errors
    /// `EROFS`, `ESTALE`.
    pub async fn begin(&self, numbers: &[u64]) -> Result<Tx<'_, L>, FileError> {
        let mut tx = self.prepare();
        tx.go_in(numbers).await?;
        Ok(tx)
    }

    /// A change that is behind no gates so far, and can take pages.
    pub fn prepare(&self) -> Tx<'_, L> {
        Tx {
            store: self,
            opened: SmallVec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            gives_back: false,
            opens: None,
            inside: SmallVec::new(),
        }
    }
}

/// Where the pages of a log go, and what it said last.
struct Chain {
    whose: Whose,
    end: u64,
    /// Bytes that are to be stored, up to `end`.
    bytes: Vec<u8>,
    new_pages: Vec<u64>,
}

impl<'a, L: Lines> Tx<'a, L> {
    /// The file system.
    pub fn store(&self) -> &'a Store<L> {
        self.store
    }

    /// Goes through the gates of these inodes; each of them has to be loaded.
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub async fn go_in(&mut self, numbers: &[u64]) -> Result<(), FileError> {
        let store = self.store;
        store.check_is_writable()?;
        let mut all = numbers.iter();
        all.try_for_each(|number| store.check_number(*number))?;
        debug_assert!(self.inside.is_empty(), "all gates are gone through at once");
        self.inside = store.gates.all_alone(numbers).await;
        store.check_is_writable()
    }

    /// Pages that are kept for it may be taken too: it will give others back.
    pub fn gives_back(&mut self) {
        self.gives_back = true;
    }

    /// Takes up an inode behind whose gate this is.
    ///
    /// # Errors
    /// `ESTALE`; of the media; damage.
    pub async fn load(&mut self, number: u64) -> Result<(), FileError> {
        if self
            .opened
            .iter()
            .any(|opened| opened.node.number == number)
        {
            return Ok(());
        }
        // It is read, if need be, and then nobody else has it.
        drop(self.store.node(number).await?);
        let taken = self.store.with(|state| state.kept.take(number));
        let node = match taken {
            Some(node) => Arc::unwrap_or_clone(node),
            // It had to make room at once.
            None => super::log::load(&self.store.lines, &self.store.geometry, number).await?,
        };
        self.opened.push(Opened {
            node,
            records: Vec::new(),
            is_new: false,
            is_gone: false,
        });
        Ok(())
    }

    fn place_of(&self, number: u64) -> usize {
        let mut all = self.opened.iter();
        let place = all.position(|opened| opened.node.number == number);
        place.expect("a change names its inodes when it begins")
    }

    /// An inode as it is by now.
    pub fn node(&self, number: u64) -> &Node {
        &self.opened[self.place_of(number)].node
    }

    /// Adds a record to an inode.
    ///
    /// # Errors
    /// If it cannot be, which is damage.
    pub fn push(&mut self, number: u64, record: &Record) -> Result<(), FileError> {
        let place = self.place_of(number);
        let (geometry, opened) = (&self.store.geometry, &mut self.opened[place]);
        let freed = &mut self.freed;
        let applied = work(Op::LogRecord, || opened.node.apply(geometry, record, freed));
        applied.map_err(|what| damaged(opened.node.log.end, what))?;
        opened.records.push(record.encode());
        Ok(())
    }

    /// Takes the storage of an inode, and its number, away.
    pub fn remove(&mut self, number: u64) {
        let place = self.place_of(number);
        self.opened[place].is_gone = true;
    }

    /// Whether an inode is open.
    pub fn is_open(&self, number: u64) -> bool {
        self.store.with(|state| state.opens.contains_key(&number))
    }

    /// A new inode is open when the change is made.
    pub fn open_when_done(&mut self, number: u64) {
        self.opens = Some(number);
    }

    /// Where pages are looked for if there is no better place.
    pub fn next_page(&self) -> u64 {
        self.store.with(|state| state.next_page)
    }

    /// Takes up to `most` pages that lie side by side, at `goal` if it is free.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn take(&mut self, goal: u64, most: u64) -> Result<Run, FileError> {
        let kept_back = match self.gives_back {
            true => 0,
            false => reserve(&self.store.geometry),
        };
        let run = self.store.with(|state| {
            let room = state.space.free().saturating_sub(kept_back);
            let run = state.space.take(goal, most.min(room))?;
            state.next_page = run.end();
            Some(run)
        });
        let run = run.ok_or(Errno::ENOSPC)?;
        self.taken.push(run);
        Ok(run)
    }

    /// Takes a page anywhere.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn take_one(&mut self) -> Result<u64, FileError> {
        Ok(self.take(self.next_page(), 1)?.first)
    }

    /// Gives back what was taken last, and is not used after all.
    fn give_back_newest(&mut self, count: usize) {
        let kept = self.taken.len() - count;
        let runs = self.taken.split_off(kept);
        self.store
            .with(|state| runs.into_iter().for_each(|run| state.space.give(run)));
    }

    /// A new inode, without records so far; its number.
    ///
    /// # Errors
    /// `ENOSPC`; of the media.
    pub async fn create(&mut self) -> Result<u64, FileError> {
        let geometry = self.store.geometry;
        loop {
            let slot = self.store.with(|state| state.slots.take(0, 1));
            let slot = slot.ok_or(Errno::ENOSPC)?.first;
            // A slot that is damaged, or was used as often as one can be, stays taken.
            let uses = match read_slot(&self.store.lines, &geometry, slot).await {
                Ok((uses, 0)) if uses <= GENERATION_MAX => uses,
                _ => continue,
            };
            let number = Geometry::number_of(slot, uses);
            self.store.with(|state| state.unborn.insert(number));
            self.opened.push(Opened {
                node: Node::new(number),
                records: Vec::new(),
                is_new: true,
                is_gone: false,
            });
            return Ok(number);
        }
    }

    /// Makes the change, durably.
    ///
    /// # Errors
    /// `ENOSPC`; of the media.
    pub async fn commit(mut self) -> Result<(), FileError> {
        for place in 0..self.opened.len() {
            self.place(place).await?;
        }
        let mut words: SmallVec<[(u64, u64); journal::WORDS_MAX]> = SmallVec::new();
        for opened in self.opened.iter().filter(|opened| !opened.is_new) {
            let at = self.log_end_at(opened.node.number);
            if opened.is_gone {
                words.push((at, 0));
            } else if !opened.records.is_empty() {
                words.push((at, self.store.geometry.word(at, opened.node.log.end)));
            }
        }
        match words[..] {
            [] => {}
            [(at, word)] => {
                self.store.fence().await?;
                self.store_alone(at, word).await?;
            }
            _ => self.store_together(&words).await?,
        }
        self.done();
        Ok(())
    }

    fn log_end_at(&self, number: u64) -> u64 {
        let slot = self.store.geometry.slot_of(number);
        let (slot, _) = slot.expect("it is in a slot");
        self.store.geometry.log_end_at(slot)
    }

    async fn store_alone(&self, at: u64, word: u64) -> Result<(), FileError> {
        let stored = async {
            self.store.store_word(at, word).await?;
            self.store.fence().await
        };
        stored.await.map_err(|error| self.unknown(error))
    }

    async fn store_together(&self, words: &[(u64, u64)]) -> Result<(), FileError> {
        let store = self.store;
        let slot = store.with(|state| {
            state.next_note = (state.next_note + 1) % NOTES;
            state.next_note
        });
        let _inside = store.gates.alone(gates::journal(slot)).await;
        let (noted, at, note) = journal::note(slot, words);
        store.store(at, note.body()).await?;
        store.fence().await?;
        let stored = async {
            let (at, mark) = noted.mark(&store.geometry);
            store.store_word(at, mark).await?;
            store.fence().await?;
            for (at, word) in words {
                store.store_word(*at, *word).await?;
            }
            store.fence().await?;
            let (at, none) = noted.no_mark();
            store.store_word(at, none).await?;
            store.fence().await
        };
        stored.await.map_err(|error| self.unknown(error))
    }

    /// Nobody knows whether the change was made.
    fn unknown(&self, error: FileError) -> FileError {
        self.store.give_up(match error {
            FileError::Io(fault) => fault,
            FileError::Errno(_) => Fault::Flush,
        });
        error
    }

    /// Stores what is new in the log of an inode; it counts when the word says so.
    async fn place(&mut self, place: usize) -> Result<(), FileError> {
        let opened = &self.opened[place];
        if opened.records.is_empty() || opened.is_gone {
            return Ok(());
        }
        let (log, node) = (&opened.node.log, &opened.node);
        let more = pages_more(log.end, &opened.records);
        let pages = log.pages.len() as u64 + more;
        if more > 0 && !opened.is_new && pages > 2 * node.log_pages_needed() + 1 {
            let snapshot: Vec<Vec<u8>> = node.snapshot().map(|record| record.encode()).collect();
            let before = self.taken.len();
            match self.append(place, 0, snapshot).await {
                Ok(chain) => {
                    let log = &mut self.opened[place].node.log;
                    let old = std::mem::replace(&mut log.pages, chain.new_pages);
                    log.end = chain.end;
                    self.freed.extend(old.into_iter().map(Run::one));
                    return Ok(());
                }
                Err(FileError::Errno(Errno::ENOSPC)) => {
                    self.give_back_newest(self.taken.len() - before);
                }
                Err(error) => return Err(error),
            }
        }
        let records = self.opened[place].records.clone();
        let end = self.opened[place].node.log.end;
        let chain = self.append(place, end, records).await?;
        let log = &mut self.opened[place].node.log;
        log.pages.extend(chain.new_pages);
        log.end = chain.end;
        match self.opened[place].is_new {
            true => self.place_slot(place).await,
            false => Ok(()),
        }
    }

    /// Stores records behind an address, or in a new chain if that is 0.
    async fn append(
        &mut self,
        place: usize,
        end: u64,
        records: Vec<Vec<u8>>,
    ) -> Result<Chain, FileError> {
        let mut chain = Chain {
            whose: Whose {
                number: self.opened[place].node.number,
                file_system: self.store.geometry.file_system,
            },
            end,
            bytes: Vec::new(),
            new_pages: Vec::new(),
        };
        for mut record in records {
            if !fits(chain.end, record.len()) {
                self.flush(&mut chain).await?;
                let page = self.take_one()?;
                let head = LogHead::new(chain.whose, page, chain.end);
                chain.bytes.extend_from_slice(head.as_bytes());
                chain.end = page * PAGE + HEAD_BYTES;
                chain.new_pages.push(page);
            }
            chain.whose.seal(chain.end, &mut record);
            chain.end += record.len() as u64;
            chain.bytes.extend_from_slice(&record);
        }
        self.flush(&mut chain).await?;
        Ok(chain)
    }

    async fn flush(&self, chain: &mut Chain) -> Result<(), FileError> {
        let bytes = chain.bytes.len() as u64;
        if bytes > 0 {
            let at = chain.end - bytes;
            self.store.store(at, &chain.bytes).await?;
            chain.bytes.clear();
        }
        Ok(())
    }

    /// Stores the slot of a new inode: nothing leads to it so far.
    async fn place_slot(&self, place: usize) -> Result<(), FileError> {
        let (geometry, node) = (&self.store.geometry, &self.opened[place].node);
        let (slot, generation) = geometry.slot_of(node.number).expect("it is in a slot");
        let at = geometry.slot_at(slot);
        let bytes = Slot {
            uses: geometry.word(at, generation + 1).into(),
            log_end: geometry.word(at + 8, node.log.end).into(),
        };
        self.store.store(at, bytes.as_bytes()).await
    }

    /// The change was made.
    fn done(&mut self) {
        let (store, opened) = (self.store, std::mem::take(&mut self.opened));
        let (taken, mut freed) = (
            std::mem::take(&mut self.taken),
            std::mem::take(&mut self.freed),
        );
        drop(taken);
        store.with(|state| {
            if let Some(number) = self.opens {
                state.opens.insert(number, 1);
            }
            for opened in opened {
                let number = opened.node.number;
                if opened.is_new {
                    state.unborn.remove(&number);
                }
                if opened.is_gone {
                    freed.extend(opened.node.runs());
                    freed.extend(opened.node.log.pages.iter().map(|page| Run::one(*page)));
                    if let Some((slot, _)) = store.geometry.slot_of(number) {
                        state.slots.give(Run::one(slot));
                    }
                } else {
                    state.kept.put(Arc::new(opened.node));
                }
            }
            freed.into_iter().for_each(|run| state.space.give(run));
        });
    }
}

/// Whether a record of so many bytes can stand behind an address.
fn fits(end: u64, bytes: usize) -> bool {
    end > 0 && end + bytes as u64 <= (page_of_end(end) + 1) * PAGE
}

/// Pages that records need behind an address.
fn pages_more(end: u64, records: &[Vec<u8>]) -> u64 {
    let (mut end, mut pages) = (end, 0);
    for record in records {
        if !fits(end, record.len()) {
            // Any page will do for counting.
            (pages, end) = (pages + 1, PAGE + HEAD_BYTES);
        }
        end += record.len() as u64;
    }
    pages
}

impl<L: Lines> Drop for Tx<'_, L> {
    /// Takes back what was not made.
    fn drop(&mut self) {
        if self.opened.is_empty() && self.taken.is_empty() {
            return;
        }
        let opened = std::mem::take(&mut self.opened);
        let taken = std::mem::take(&mut self.taken);
        self.store.with(|state| {
            for opened in opened {
                if opened.is_new {
                    state.unborn.remove(&opened.node.number);
                    if let Some((slot, _)) = self.store.geometry.slot_of(opened.node.number) {
                        state.slots.give(Run::one(slot));
                    }
                } else if opened.records.is_empty() {
                    state.kept.put(Arc::new(opened.node));
                }
            }
            // What the media hold is not known any more: nothing of it may be used again.
            if !state.is_read_only {
                taken.into_iter().for_each(|run| state.space.give(run));
            }
        });
    }
}
