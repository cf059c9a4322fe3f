//! Leases: hosts that keep what they know of a file, and are told before it changes.
//!
//! Problem: a host that keeps pages of a file must not show them to anybody after another host has changed the file. To
//! ask it and to wait for its answer would put everybody into the hands of the slowest, which may be stopped or hostile.
//!
//! Idea: a lease is a word in the host's memory, which the drive alone writes. The host looks at it whenever it uses what it
//! keeps, and nobody waits for anybody.
//!
//! 1. Who asks for a lease has its number written to the word ([`Leases::grant`]), unless the file is being changed right now.
//! 2. Every change goes through [`Watched`](super::watched::Watched), which says so before it begins ([`Leases::change`]): 0 is
//!    written to the words of all others, and their leases are forgotten.
//! 3. While the change is under way no lease of the file is given. When it has ended, all may ask anew.
//!
//! What is promised: a read of what a host keeps takes effect when it looks at the word, and finds the lease's number. No
//! change by another had begun when the drive wrote that number; none can begin without 0 in the word; and the number is
//! never written again. So nothing that anybody has been told of is missing in what is kept: the change had not begun to take effect
//! when the look was made. Who makes a change is answered after it, and by the release of the answer everybody who knows
//! of it, however that came, finds 0 in the word.
//!
//! Nothing that a host writes is read: neither the word, nor what is beside it. A host has a limited number of leases, and
//! what it names as words is its own memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wharf_files::FileSystem;
use wharf_runtime::here;
use wharf_wire::dma::DmaWord;
use wharf_wire::file::LEASES_MAX;

use super::lines::FileSystemOfDrive;
use super::lock_leases::LockLeases;
use super::near::{ALL, Near};
use super::time::Clock;
use super::writers::Writers;

/// What stands for all names in the place of a file's number: a lease of it ends before any of them changes.
pub(super) const NAMES: u64 = u64::MAX;

/// How long a lease to write lasts at most, and about how long what is written near is not on the media.
const AGE_NS: u64 = 5_000_000_000;

/// The number of no host.
const NOBODY: u32 = u32::MAX;

/// Numbers of files that one operation changes.
pub(super) type Numbers = SmallVec<[u64; 3]>;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Leases {
    state: RefCell<State>,
    /// Leases to write.
    pub(super) writers: Writers,
    /// Leases of locks.
    pub(super) locks: LockLeases,
    is_ageing: Cell<bool>,
}

#[derive(Default)]
struct State {
    files: FxHashMap<u64, File>,
    /// Of each host the files of its leases, by the addresses of their words.
    hosts: FxHashMap<u32, FxHashMap<u64, u64>>,
    /// The number of the lease that was given last.
    last: u64,
    /// Changes under way of which nobody knows which files they are of.
    changes_of_any: u32,
}

#[derive(Default)]
struct File {
    /// Changes under way.
    changes: u32,
    /// In the order of their hosts, each of which is there once.
    holders: SmallVec<[Holder; 1]>,
}

struct Holder {
    host: u32,
    address: u64,
    word: DmaWord,
}

/// A change that is under way, until this is dropped.
pub(super) struct Change<'a> {
    leases: &'a Leases,
    /// None if nobody knows.
    numbers: Option<Numbers>,
}

impl Leases {
    /// Nobody has one.
    pub(super) fn new(clock: Rc<Clock>) -> Leases {
        Leases {
            writers: Writers::new(clock),
            ..Leases::default()
        }
    }

    /// Gives a host a lease of file `number`, by the word at `address`; gives the lease's number, or 0 if there is none.
    pub(super) fn grant(&self, host: u32, number: u64, address: u64, word: DmaWord) -> u64 {
        let state = &mut *self.state.borrow_mut();
        // The word may be that of another lease, and the file's lease may have another word.
        state.forget_word(host, address);
        state.forget_host(number, host);
        let own = state.hosts.entry(host).or_default();
        let file = state.files.entry(number).or_default();
        let is_changing = file.changes + state.changes_of_any > 0;
        if is_changing || own.len() >= LEASES_MAX as usize {
            word.tell(0);
            state.drop_idle(number);
            return 0;
        }
        state.last += 1;
        word.tell(state.last);
        own.insert(address, number);
        let new = Holder {
            host,
            address,
            word,
        };
        let place = file.holders.partition_point(|holder| holder.host < host);
        file.holders.insert(place, new);
        state.last
    }

    /// As [`Writers::settle`]; who has lost what it had written keeps nothing of the file.
    pub(super) async fn settle(&self, fs: &impl FileSystem, number: u64, host: u32, ends: bool) {
        if let Some(holder) = self.writers.settle(fs, number, host, ends).await {
            self.end(holder, number);
        }
    }

    /// Ends all leases to write each few seconds, and has what is dirty in the drive's cache written, as long as there is any: what was
    /// written goes to the media at last. For who was told to [begin](Leases::begins_ageing).
    pub(super) async fn age(&self, fs: &FileSystemOfDrive, near: &Near) {
        while !self.writers.is_idle() || near.is_any_unwritten() {
            let cpu = here().expect("a drive's tasks run on its cores");
            cpu.sleep_until(cpu.now() + AGE_NS).await;
            for number in self.writers.numbers() {
                self.settle(fs, number, NOBODY, true).await;
            }
            for number in near.numbers() {
                // What cannot be written stays there, and whoever syncs the file is told.
                let _ = near.settle(fs, number, ALL).await;
            }
        }
        self.is_ageing.set(false);
    }

    /// Whether it is for the caller to have [`Leases::age`] run: nobody does.
    pub(super) fn begins_ageing(&self) -> bool {
        !self.is_ageing.replace(true)
    }

    /// A host is to write a file without telling: all others' leases of it end. Gives the number of its lease to write, or none if the file
    /// is being changed right now.
    pub(super) fn begin_writing(&self, host: u32, number: u64) -> Option<u64> {
        let state = &mut *self.state.borrow_mut();
        let changes = state.files.get(&number).map_or(0, |file| file.changes);
        if changes + state.changes_of_any > 0 {
            return None;
        }
        state.forget_file(number, |holder| holder.host != host);
        state.drop_idle(number);
        state.last += 1;
        Some(state.last)
    }

    /// The number of a lease that is of none of a file's bytes.
    pub(super) fn next_number(&self) -> u64 {
        let state = &mut *self.state.borrow_mut();
        state.last += 1;
        state.last
    }

    /// A host is about to change these files: all others' leases of them end.
    pub(super) fn change(&self, host: u32, numbers: Numbers) -> Change<'_> {
        let state = &mut *self.state.borrow_mut();
        for number in &numbers {
            state.forget_file(*number, |holder| holder.host != host);
            state.files.entry(*number).or_default().changes += 1;
        }
        Change {
            leases: self,
            numbers: Some(numbers),
        }
    }

    /// A host is about to change something that nobody knows yet: all others' leases end.
    pub(super) fn change_any(&self, host: u32) -> Change<'_> {
        let state = &mut *self.state.borrow_mut();
        let all: Vec<u64> = state.files.keys().copied().collect();
        for number in all {
            state.forget_file(number, |holder| holder.host != host);
            state.drop_idle(number);
        }
        state.changes_of_any += 1;
        Change {
            leases: self,
            numbers: None,
        }
    }

    /// A host's lease of a file ends.
    pub(super) fn end(&self, host: u32, number: u64) {
        let state = &mut *self.state.borrow_mut();
        state.forget_host(number, host);
        state.drop_idle(number);
    }

    /// A host leaves: its leases end.
    pub(super) fn host_leaves(&self, host: u32) {
        let state = &mut *self.state.borrow_mut();
        let own = state.hosts.remove(&host).unwrap_or_default();
        for number in own.into_values() {
            state.forget_host(number, host);
            state.drop_idle(number);
        }
    }

    /// How many leases there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.state.borrow().hosts.values().map(FxHashMap::len).sum()
    }
}

impl State {
    /// Ends those leases of a file.
    fn forget_file(&mut self, number: u64, ends: impl Fn(&Holder) -> bool) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        file.holders.retain(|holder| {
            let ends = ends(holder);
            if ends {
                forget(&mut self.hosts, holder);
            }
            !ends
        });
    }

    /// Ends the lease that a host has of a file: all hosts have one of names.
    fn forget_host(&mut self, number: u64, host: u32) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let place = file
            .holders
            .binary_search_by_key(&host, |holder| holder.host);
        if let Ok(place) = place {
            forget(&mut self.hosts, &file.holders.remove(place));
        }
    }

    /// Ends the lease that a host has by a word.
    fn forget_word(&mut self, host: u32, address: u64) {
        let own = self.hosts.get(&host);
        if let Some(number) = own.and_then(|own| own.get(&address)).copied() {
            self.forget_host(number, host);
            self.drop_idle(number);
        }
    }

    /// Forgets a file of which there is nothing to know.
    fn drop_idle(&mut self, number: u64) {
        let is_idle = |file: &File| file.changes == 0 && file.holders.is_empty();
        if self.files.get(&number).is_some_and(is_idle) {
            self.files.remove(&number);
        }
    }
}

/// A lease ends: its host is told, and has one less.
fn forget(hosts: &mut FxHashMap<u32, FxHashMap<u64, u64>>, holder: &Holder) {
    holder.word.tell(0);
    if let Some(own) = hosts.get_mut(&holder.host) {
        own.remove(&holder.address);
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let state = &mut *self.leases.state.borrow_mut();
        let Some(numbers) = &self.numbers else {
            state.changes_of_any -= 1;
            return;
        };
        for number in numbers {
            let file = state.files.get_mut(number);
            file.expect("it is there while it is changed").changes -= 1;
            state.drop_idle(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use wharf_wire::dma::{DmaRegion, DmaSpace};

    use super::*;

    struct Hosts {
        leases: Leases,
        words: DmaRegion,
    }

    impl Hosts {
        fn new() -> Hosts {
            Hosts {
                leases: Leases::default(),
                words: DmaSpace::new(4096).register_whole(2).unwrap(),
            }
        }

        fn grant(&self, host: u32, number: u64, index: usize) -> u64 {
            let (word, address) = self.words.word(index);
            self.leases.grant(host, number, address, word)
        }

        fn look(&self, index: usize) -> u64 {
            self.words.word(index).0.look()
        }
    }

    #[test]
    fn a_change_ends_the_leases_of_others_before_it_begins() {
        let hosts = Hosts::new();
        let (mine, its) = (hosts.grant(1, 70, 0), hosts.grant(2, 70, 1));
        let other = hosts.grant(2, 71, 2);
        assert!(mine > 0 && its > mine && other > its);
        let change = hosts.leases.change(1, smallvec![70]);
        assert_eq!(
            (hosts.look(0), hosts.look(1), hosts.look(2)),
            (mine, 0, other)
        );
        // Nobody gets one meanwhile, not even who changes it.
        assert_eq!((hosts.grant(2, 70, 1), hosts.grant(1, 70, 0)), (0, 0));
        assert_eq!((hosts.look(0), hosts.look(1)), (0, 0));
        let second = hosts.leases.change(3, smallvec![70]);
        drop(change);
        assert_eq!(hosts.grant(2, 70, 1), 0);
        drop(second);
        assert_eq!(hosts.grant(2, 70, 1), other + 1);
        assert_eq!(hosts.leases.count(), 2);
    }

    #[test]
    fn what_nobody_knows_is_everything() {
        let hosts = Hosts::new();
        let own = hosts.grant(1, 70, 0);
        hosts.grant(2, 71, 1);
        let change = hosts.leases.change_any(1);
        assert_eq!((hosts.look(0), hosts.look(1)), (own, 0));
        assert_eq!(hosts.grant(2, 72, 3), 0);
        drop(change);
        assert!(hosts.grant(2, 72, 3) > own);
        hosts.leases.host_leaves(2);
        assert_eq!((hosts.look(3), hosts.leases.count()), (0, 1));
    }

    #[test]
    fn a_word_is_of_one_lease_and_a_lease_has_one_word() {
        let hosts = Hosts::new();
        hosts.grant(1, 70, 0);
        let second = hosts.grant(1, 71, 0);
        assert_eq!((hosts.look(0), hosts.leases.count()), (second, 1));
        // The file that lost its word ends nothing.
        drop(hosts.leases.change(2, smallvec![70]));
        assert_eq!(hosts.look(0), second);
        let third = hosts.grant(1, 71, 5);
        assert_eq!(
            (hosts.look(0), hosts.look(5), hosts.leases.count()),
            (0, third, 1)
        );
        hosts.leases.end(1, 71);
        assert_eq!((hosts.look(5), hosts.leases.count()), (0, 0));
        assert!(hosts.leases.state.borrow().files.is_empty());
    }

    #[test]
    fn a_host_has_so_many() {
        let hosts = Hosts::new();
        for index in 0..512 {
            assert!(hosts.grant(1, 1_000 + index as u64, index) > 0);
        }
        assert_eq!(hosts.grant(1, 5, 512), 0);
        assert!(hosts.grant(2, 5, 512) > 0);
        hosts.leases.end(1, 1_000);
        assert!(hosts.grant(1, 5, 513) > 0);
    }
}
