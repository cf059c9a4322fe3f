//! Which pages of files the drive's cache has for a process: OmniIndex (OmniCache, FAST 2024, section 4.2.1).
//!
//! Problem: with two caches a look-up must say which of them has a page, and threads that use different parts of a file must not wait for
//! each other.
//!
//! Idea: a file has a tree of *nodes*, one for each range of up to 2 MiB of which the drive has pages, with a bit for each page.
//! Trees are looked up and changed side by side without a lock ([`Concurrent`]). Whoever has a page move from one cache to the other locks
//! that page, and whoever uses it in the drive's cache locks it as shared: ranges of pages, not nodes.
//!
//! What the host's own cache has, and what of it is dirty, is said by its own tree and the marks in that. There is no second truth.
//!
//! A bit that is set says that the page may be there: the drive may have given it up since. A bit that is not set says that it is not: a
//! page for which there is no node leaves the drive's cache at once.

use std::ops::Range;
use std::sync::Arc;

use wharf_runtime::range_lock::{Locker, RangeGuard, RangeLocks};
use wharf_runtime::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use wharf_runtime::wake::Mailboxes;
use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::PAGE_BYTES;

use super::super::ages::{self, Part, RANGE_PAGES_MAX, range_pages};
use crate::design::Reclaim;
use crate::key::{PAGES_MAX, PageKey};
use crate::kit::concurrent::Concurrent;
use crate::kit::index::Index;
use crate::stor::{StorConfig, Without};

/// Nodes that are looked at for the one that was used least lately.
const LOOKS: u32 = 64;

/// A range whose last use is so long ago is noted to be used again.
const NOTE_NS: u64 = 1_000;

/// No range.
const NOTHING: u64 = u64::MAX;

/// Ranges that may leave: those that were not used since then; and since then, if nothing is known of their pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old {
    pub(super) before_ns: u64,
    pub(super) empty_before_ns: u64,
}

/// A range of a file of which the drive has pages.
struct Node {
    /// Its file and first page; [`NOTHING`] if it is free.
    key: AtomicU64,
    used_ns: AtomicU64,
    /// A bit for each page.
    on_device: [AtomicU64; (RANGE_PAGES_MAX / 64) as usize],
}

impl Default for Node {
    fn default() -> Node {
        Node {
            key: AtomicU64::new(NOTHING),
            used_ns: AtomicU64::new(0),
            on_device: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Node {
    /// Whether the drive has nothing of its range, as it seems.
    fn is_empty(&self) -> bool {
        let mut words = self.on_device.iter();
        words.all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Pages of its range that the drive may have.
    fn pages(&self) -> u64 {
        let words = self.on_device.iter();
        let counts = words.map(|word| word.load(Ordering::Relaxed).count_ones());
        counts.map(u64::from).sum()
    }
}

/// See the module.
pub(crate) struct OmniIndex {
    /// Of each file, by its place.
    trees: Box<[Concurrent]>,
    nodes: Box<[Node]>,
    /// Nodes that are free, and the first that nobody has used yet.
    free: Lock<Vec<u32>>,
    unused: AtomicU32,
    /// Where the next look for a node that was not used for long begins.
    hand: AtomicU32,
    range_pages: u64,
    /// Pages that may be there, and those for which there is room.
    pages: AtomicU64,
    pages_max: u64,
    /// Pages that the drive is bringing ahead: they need room too.
    coming: AtomicU64,
    locks: Arc<RangeLocks>,
    /// A lock is of a whole file.
    locks_files: bool,
    /// A range is on its way out.
    evicts: AtomicBool,
}

impl OmniIndex {
    /// Of a process for which the drive has room for `near_bytes` bytes.
    pub(in crate::stor::cache) fn new(
        own: &StorConfig,
        near_bytes: u64,
        mailboxes: &Arc<Mailboxes>,
    ) -> OmniIndex {
        let pages_max = near_bytes / PAGE_BYTES as u64;
        let (files, nodes) = match pages_max {
            0 => (0, 0),
            // Each has a page at least, but for those that the drive has given up.
            pages => (own.cache_files, pages + pages / 8 + 1),
        };
        OmniIndex {
            trees: (0..files).map(|_| Concurrent::default()).collect(),
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            free: Lock::new(Vec::new()),
            unused: AtomicU32::new(0),
            hand: AtomicU32::new(0),
            range_pages: range_pages(pages_max),
            pages: AtomicU64::new(0),
            pages_max,
            coming: AtomicU64::new(0),
            locks: Arc::new(RangeLocks::new(mailboxes.clone())),
            locks_files: own.without == Without::Ranges,
            evicts: AtomicBool::new(false),
        }
    }

    /// Locks pages of a file, for who uses them where they are (`is_shared`), or has them be somewhere else.
    pub(super) async fn lock(&self, cpu: &Cpu, locker: Locker, (slot, pages): Part) -> RangeGuard {
        let (first, count) = self.locked(slot, &pages);
        self.locks.lock_as(cpu, locker, first, count).await
    }

    /// The same, if nobody has locked any of them in a way that keeps this one out.
    pub(super) fn try_lock(
        &self,
        cpu: &Cpu,
        locker: Locker,
        (slot, pages): Part,
    ) -> Option<RangeGuard> {
        let (first, count) = self.locked(slot, &pages);
        self.locks.try_lock_as(cpu, locker, first, count)
    }

    fn locked(&self, slot: u32, pages: &Range<u64>) -> (u64, u64) {
        if self.locks_files {
            // All lock the same page.
            return (PageKey::new(slot, 0).word(), 1);
        }
        let first = PageKey::new(slot, pages.start).word();
        (first, pages.end - pages.start)
    }

    fn find(&self, cpu: &Cpu, slot: u32, page: u64) -> Option<&Node> {
        let node = self.trees.get(slot as usize)?;
        let node = node.get(cpu, page / self.range_pages)?;
        Some(&self.nodes[node as usize])
    }

    /// Whether the drive may have a page. It stays so while the page is locked.
    pub(super) fn is_on_device(&self, cpu: &Cpu, slot: u32, page: u64) -> bool {
        self.is_any_on_device(cpu, &(slot, page..page + 1))
    }

    /// Whether the drive may have any page of a part.
    pub(super) fn is_any_on_device(&self, cpu: &Cpu, (slot, pages): &Part) -> bool {
        self.words(pages).any(|(first, mut words)| {
            self.find(cpu, *slot, first).is_some_and(|node| {
                // Relaxed: the lock of the page orders it after whoever had it move.
                words.any(|(word, bits)| node.on_device[word].load(Ordering::Relaxed) & bits != 0)
            })
        })
    }

    /// The ranges of a part could not leave: others are tried before them.
    pub(super) fn stay_all(&self, cpu: &Cpu, part: &Part) {
        for (slot, pages) in self.ranges_of(part) {
            if let Some(node) = self.find(cpu, slot, pages.start) {
                node.used_ns.store(cpu.now(), Ordering::Relaxed);
            }
        }
    }

    /// Whether there is room for so many pages more.
    pub(super) fn has_room(&self, pages: u64) -> bool {
        // Relaxed: a guess; the drive says how it is.
        pages <= self.free_pages()
    }

    /// The drive begins to bring so many pages ahead.
    pub(super) fn begin_coming(&self, pages: u64) {
        self.coming.fetch_add(pages, Ordering::Relaxed);
    }

    /// It has brought them, or not.
    pub(super) fn end_coming(&self, pages: u64) {
        self.coming.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Pages that may be there.
    pub(in crate::stor::cache) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// The drive has pages of a part now, which the caller has locked; false if there was no room to note all of them: those must not stay
    /// there, as nobody would know of them.
    #[must_use]
    pub(in crate::stor::cache) fn note(&self, cpu: &Cpu, (slot, pages): &Part) -> bool {
        let mut is_known = true;
        for (first, words) in self.words(pages) {
            let Some(node) = self.node(cpu, *slot, first) else {
                is_known = false;
                continue;
            };
            let now_ns = cpu.now();
            if now_ns > node.used_ns.load(Ordering::Relaxed) + NOTE_NS {
                node.used_ns.store(now_ns, Ordering::Relaxed);
            }
            for (word, bits) in words {
                let word = &node.on_device[word];
                if word.load(Ordering::Relaxed) & bits != bits {
                    let new = bits & !word.fetch_or(bits, Ordering::Relaxed);
                    let count = u64::from(new.count_ones());
                    self.pages.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
        is_known
    }

    /// The bits of pages: of each range the first page, and its words with the bits in them.
    fn words(
        &self,
        pages: &Range<u64>,
    ) -> impl Iterator<Item = (u64, impl Iterator<Item = (usize, u64)> + use<>)> + use<> {
        let (range_pages, pages) = (self.range_pages, pages.clone());
        let ranges = pages.start / range_pages..pages.end.div_ceil(range_pages);
        ranges.map(move |range| {
            let start = range * range_pages;
            let first = pages.start.max(start) - start;
            let end = pages.end.min(start + range_pages) - start;
            let words = first / 64..end.div_ceil(64);
            let of_word = move |word: u64| {
                let from = first.max(word * 64) - word * 64;
                let to = end.min(word * 64 + 64) - word * 64;
                let bits = (u64::MAX << from) & (u64::MAX >> (64 - to));
                (word as usize, bits)
            };
            (start + first, words.map(of_word))
        })
    }

    /// The node of a page, which is made if there is none; nothing if there are too many.
    fn node(&self, cpu: &Cpu, slot: u32, page: u64) -> Option<&Node> {
        if let Some(node) = self.find(cpu, slot, page) {
            return Some(node);
        }
        let number = self.take(cpu)?;
        let (range, node) = (page / self.range_pages, &self.nodes[number as usize]);
        node.used_ns.store(cpu.now(), Ordering::Relaxed);
        let tree = self.trees.get(slot as usize)?;
        if tree.insert(cpu, range, number) {
            let key = PageKey::new(slot, range * self.range_pages);
            // With the load in `victim`.
            node.key.store(key.word(), Ordering::Release);
            return Some(node);
        }
        // Another thread was faster.
        self.free.with(cpu, |free| free.push(number));
        self.find(cpu, slot, page)
    }

    /// A node that is free.
    fn take(&self, cpu: &Cpu) -> Option<u32> {
        if let Some(node) = self.free.with(cpu, Vec::pop) {
            return Some(node);
        }
        let all = self.nodes.len() as u32;
        let next = |unused| (unused < all).then_some(unused + 1);
        let order = Ordering::Relaxed;
        self.unused.fetch_update(order, order, next).ok()
    }

    /// The drive has no page of a part any more, which the caller has locked alone. Nodes stay.
    pub(super) fn clear(&self, cpu: &Cpu, (slot, pages): &Part) {
        for (first, words) in self.words(pages) {
            let Some(node) = self.find(cpu, *slot, first) else {
                continue;
            };
            for (word, bits) in words {
                let word = &node.on_device[word];
                if word.load(Ordering::Relaxed) & bits != 0 {
                    let old = bits & word.fetch_and(!bits, Ordering::Relaxed);
                    let count = u64::from(old.count_ones());
                    self.pages.fetch_sub(count, Ordering::Relaxed);
                }
            }
        }
    }

    /// A range that is so old, which is to leave now; nothing if one is leaving already, or there is none but that
    /// of `but`. Of many ranges as many as 64 are looked at, each time others.
    pub(super) fn begin_evict(&self, but: (u32, u64), old: Old) -> Option<Part> {
        // With the release in `end_evict`.
        if self.evicts.swap(true, Ordering::Acquire) {
            return None;
        }
        let victim = self.victim(but, old);
        if victim.is_none() {
            self.end_evict();
        }
        victim
    }

    fn victim(&self, (slot, page): (u32, u64), old: Old) -> Option<Part> {
        let but = PageKey::new(slot, page / self.range_pages * self.range_pages);
        let others = self.looked().filter(|(key, _)| *key != but);
        // Nodes without pages go first: others may need them.
        let age = |node: &Node| {
            let (is_empty, used_ns) = (node.is_empty(), node.used_ns.load(Ordering::Relaxed));
            let before_ns = if is_empty {
                old.empty_before_ns
            } else {
                old.before_ns
            };
            (used_ns < before_ns).then_some((!is_empty, used_ns))
        };
        let aged = others.filter_map(|(key, node)| Some((age(node)?, key.word())));
        let (_, key) = aged.min()?;
        Some(self.part_of(PageKey::of_word(key)))
    }

    /// Of as many ranges as are looked at, each time others, those that were used least lately and have `need` pages together, `most` of
    /// them at most: in order of file and offset, joined. Those of which no page is known to be there come with them, if they were not
    /// used since then.
    pub(super) fn oldest(
        &self,
        cpu: &Cpu,
        (need, most): (u64, usize),
        empty_before_ns: u64,
    ) -> Vec<Part> {
        let looked = self.looked().filter_map(|(key, node)| {
            let used_ns = node.used_ns.load(Ordering::Relaxed);
            let used_ns = match node.is_empty() {
                true if used_ns >= empty_before_ns => return None,
                true => 0,
                false => used_ns,
            };
            Some((used_ns, self.part_of(key)))
        });
        let pages_of = |(slot, pages): &Part| {
            let node = self.find(cpu, *slot, pages.start);
            node.map_or(0, Node::pages)
        };
        ages::oldest(looked.collect(), need, most, pages_of)
    }

    /// Free pages, as it seems.
    pub(in crate::stor::cache) fn free_pages(&self) -> u64 {
        let coming = self.coming.load(Ordering::Relaxed);
        self.pages_max.saturating_sub(self.pages() + coming)
    }

    /// The nodes that are looked at now, with what they are of.
    fn looked(&self) -> impl Iterator<Item = (PageKey, &Node)> {
        let used = self.unused.load(Ordering::Relaxed);
        let looks = LOOKS.min(used);
        let hand = match used {
            0 => 0,
            used => self.hand.fetch_add(looks, Ordering::Relaxed) % used,
        };
        let looked = (0..looks).map(move |step| &self.nodes[((hand + step) % used) as usize]);
        let keyed = looked.map(|node| (node.key.load(Ordering::Acquire), node));
        let named = keyed.filter(|(key, _)| *key != NOTHING);
        named.map(|(key, node)| (PageKey::of_word(key), node))
    }

    fn part_of(&self, key: PageKey) -> Part {
        let end = (key.page() + self.range_pages).min(PAGES_MAX);
        (key.file(), key.page()..end)
    }

    /// It has left.
    pub(super) fn end_evict(&self) {
        self.evicts.store(false, Ordering::Release);
    }

    /// The same of each range of a part that begins and ends where ranges do.
    pub(super) fn remove_all(&self, cpu: &Cpu, part: &Part) {
        self.ranges_of(part)
            .for_each(|part| self.remove(cpu, &part));
    }

    /// Its ranges.
    pub(super) fn ranges_of(&self, (slot, pages): &Part) -> impl Iterator<Item = Part> + use<> {
        let (slot, count) = (*slot, self.range_pages);
        let firsts = pages.clone().step_by(count as usize);
        firsts.map(move |first| (slot, first..first + count))
    }

    /// The node of a range is free: the drive has no page of it any more, and the caller has it locked alone.
    pub(super) fn remove(&self, cpu: &Cpu, (slot, pages): &Part) {
        let range = pages.start / self.range_pages;
        let Some(tree) = self.trees.get(*slot as usize) else {
            return;
        };
        let Some(number) = tree.get(cpu, range) else {
            return;
        };
        self.clear(cpu, &(*slot, pages.clone()));
        tree.remove(cpu, range, Reclaim::Eager);
        let node = &self.nodes[number as usize];
        node.key.store(NOTHING, Ordering::Relaxed);
        self.free.with(cpu, |free| free.push(number));
    }

    /// The first range of a file from a page on of which the drive may have pages.
    pub(super) fn next(&self, cpu: &Cpu, slot: u32, page: u64) -> Option<Part> {
        let tree = self.trees.get(slot as usize)?;
        let (range, _) = tree.next(cpu, page.div_ceil(self.range_pages))?;
        let first = range * self.range_pages;
        Some((slot, first..first + self.range_pages))
    }

    /// Bytes of memory that the nodes take, and the trees of nodes.
    pub(in crate::stor::cache) fn bytes(&self) -> u64 {
        let nodes = u64::from(self.unused.load(Ordering::Relaxed));
        let trees = self.trees.iter().map(Index::nodes).sum::<u64>();
        nodes * size_of::<Node>() as u64 + trees * crate::kit::index::NODE_BYTES
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    fn on_cpu<F: Future<Output = ()> + 'static>(test: impl FnOnce(Cpu) -> F + Send + 'static) {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("client", Side::Host, 1.0);
        machine.spawn_main(id, "test", test);
        machine.run_virtual(Seed(1)).expect("it ends");
    }

    fn old(before_ns: u64) -> Old {
        Old {
            before_ns,
            empty_before_ns: before_ns,
        }
    }

    /// However lately they were used, if they are empty.
    const EMPTY: Old = Old {
        before_ns: 0,
        empty_before_ns: u64::MAX,
    };

    fn new(near_bytes: u64) -> OmniIndex {
        let own = StorConfig {
            cache_files: 4,
            ..StorConfig::default()
        };
        OmniIndex::new(&own, near_bytes, &Mailboxes::new(1))
    }

    #[test]
    fn no_cache_has_no_nodes() {
        assert!(new(0).nodes.is_empty() && new(0).trees.is_empty());
    }

    #[test]
    fn pages_are_there_from_when_they_are_noted_until_they_are_cleared() {
        on_cpu(|cpu| async move {
            let index = new(64 << 20);
            assert!(index.note(&cpu, &(3, 250..260)));
            let is_there = |slot, page| index.is_on_device(&cpu, slot, page);
            assert!(is_there(3, 250) && is_there(3, 259));
            assert!(!is_there(3, 249) && !is_there(3, 260) && !is_there(2, 255));
            let any = |pages| index.is_any_on_device(&cpu, &(3, pages));
            assert!(any(0..251) && any(259..900) && !any(0..250) && !any(260..900));
            assert_eq!(index.pages.load(Ordering::Relaxed), 10);
            assert!(index.note(&cpu, &(3, 255..256)));
            index.clear(&cpu, &(3, 258..600));
            assert!(is_there(3, 257) && !is_there(3, 258));
            assert_eq!(index.pages.load(Ordering::Relaxed), 8);
            assert!(index.has_room(16_384 - 8) && !index.has_room(16_384 - 7));
            assert_eq!(index.next(&cpu, 3, 1), Some((3, 256..512)));
            index.remove(&cpu, &(3, 256..512));
            assert!(!is_there(3, 256) && is_there(3, 255));
            assert_eq!(index.next(&cpu, 3, 1), None);
        });
    }

    #[test]
    fn bits_of_many_pages_are_those_of_each() {
        let index = new(4 << 30);
        for pages in [
            0..1,
            5..6,
            0..512,
            60..70,
            63..64,
            64..128,
            500..1_100,
            1_024..1_025,
        ] {
            let mut found = Vec::new();
            for (first, words) in index.words(&pages) {
                let range = first / 512 * 512;
                for (word, bits) in words {
                    let of_word = (0..64).filter(|bit| bits >> bit & 1 != 0);
                    found.extend(of_word.map(|bit| range + word as u64 * 64 + bit));
                }
            }
            assert!(
                found.iter().copied().eq(pages.clone()),
                "{pages:?}: {found:?}"
            );
        }
    }

    #[test]
    fn the_range_that_was_used_least_lately_goes_and_one_at_a_time() {
        on_cpu(|cpu| async move {
            let index = new(1 << 20);
            for (slot, page) in [(1, 0), (1, 4), (2, 0), (1, 1)] {
                assert!(index.note(&cpu, &(slot, page..page + 1)));
                cpu.sleep_until(cpu.now() + 10_000).await;
            }
            let first_ns = 9_000;
            assert_eq!(
                index.begin_evict((1, 4), old(first_ns)),
                None,
                "all are young"
            );
            assert_eq!(index.begin_evict((1, 4), old(u64::MAX)), Some((2, 0..4)));
            assert_eq!(
                index.begin_evict((1, 4), old(u64::MAX)),
                None,
                "one is going"
            );
            index.remove(&cpu, &(2, 0..4));
            index.end_evict();
            assert_eq!(index.begin_evict((0, 9), old(u64::MAX)), Some((1, 4..8)));
            index.end_evict();
            index.remove(&cpu, &(1, 4..8));
            assert_eq!(index.begin_evict((1, 2), old(u64::MAX)), None);
            assert_eq!(index.begin_evict((0, 0), old(u64::MAX)), Some((1, 0..4)));
        });
    }

    #[test]
    fn nodes_are_used_again_and_their_number_has_a_limit() {
        on_cpu(|cpu| async move {
            let index = new(8 << 12);
            for round in 0..100 {
                assert!(index.note(&cpu, &(0, round..round + 1)));
                index.remove(&cpu, &(0, round..round + 1));
            }
            assert_eq!(index.unused.load(Ordering::Relaxed), 1);
            assert!(!index.note(&cpu, &(0, 0..100)), "there is no room");
            assert!(!index.has_room(1));
            let known = (0..100).filter(|page| index.is_on_device(&cpu, 0, *page));
            assert_eq!(known.count(), 10);
            // A node that has no pages any more goes, however lately it was used.
            index.clear(&cpu, &(0, 4..5));
            assert_eq!(index.begin_evict((0, 0), EMPTY), Some((0, 4..5)));
            index.remove(&cpu, &(0, 4..5));
            index.end_evict();
            assert_eq!(index.begin_evict((0, 0), EMPTY), None);
            assert!(index.note(&cpu, &(0, 20..21)));
        });
    }
}
