//! A window on the drive's memory (CXL.mem): pages of files that the drive's cache has, which a host in the drive's process loads and stores.
//!
//! Problem: a command for a few bytes of a page takes far longer than the bytes.
//!
//! Idea: the drive *shows* pages of its cache to the host, by the file and the page of it that each of them is. A host that
//! finds a page here takes hold of its *word*, copies, and lets go: no command, and no turn of the drive. The drive takes
//! the word before it copies the page itself, and before it hides it.
//!
//! Nothing here is kept in step by hardware. Lines that a host has changed it writes back before it lets go, and lines that it has read it
//! does not keep: so the drive's memory has all that was stored when a word is free. Words and places are the host's
//! memory, as a drive's ring of completions is; the pages are the drive's.
//!
//! What a load takes: [`Times::load_ns`] for the first line, and 1/48 of it for each one behind (so many misses a core has under way:
//! the fill buffers of Intel's Golden Cove), or what the link's bandwidth allows. A line of 64 bytes crosses in 80, and is asked for, or
//! answered, by 16 the other way: the slots of a flit of CXL 2.0 (section 4.2). What is stored in part of a line is loaded before.
//!
//! One window is for hosts in one process, which have one memory anyway. Each other process would need its own.

use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering, spin};

use crate::dma::{DmaRegion, PAGE_BYTES};
use crate::lane::Lane;

/// Bytes of a line.
const LINE: usize = 64;

/// Bytes that a line takes on the link, and a request or an answer without data.
const LINE_ON_LINK: u64 = 80;
const SLOT_ON_LINK: u64 = 16;

/// Places of a line of them.
const PLACES: usize = 8;

/// Lines that a core has under way at once.
const LINES_UNDER_WAY: u64 = 48;

/// A page of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilePage {
    /// The file's number.
    pub number: u64,
    /// The page, from 0.
    pub page: u64,
}

impl FilePage {
    fn hash(self) -> u64 {
        let mixed = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.page;
        let mixed = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32
    }
}

/// The page can be loaded.
const SHOWN: u32 = 1;
/// And stored to.
const WRITABLE: u32 = 2;
/// Somebody stores, or the drive copies: nobody else is there.
const HELD: u32 = 4;
/// One who loads.
const READER: u32 = 8;

/// Who uses a page of the window.
struct Word {
    state: AtomicU32,
    number: AtomicU64,
    page: AtomicU64,
    /// Bytes that the file has of it.
    bytes: AtomicU32,
}

impl Word {
    fn new() -> Word {
        Word {
            state: AtomicU32::new(0),
            number: AtomicU64::new(0),
            page: AtomicU64::new(0),
            bytes: AtomicU32::new(0),
        }
    }

    fn shows(&self, name: FilePage, end: u32) -> bool {
        // Relaxed: who holds the word has it by an acquire that is the partner of the release in `show`.
        self.number.load(Ordering::Relaxed) == name.number
            && self.page.load(Ordering::Relaxed) == name.page
            && end <= self.bytes.load(Ordering::Relaxed)
    }

    /// Takes it, if it shows what is wanted, up to byte `end`.
    fn take(&self, (name, end): (FilePage, usize), needs: u32, adds: u32) -> bool {
        loop {
            // Acquire: partner of the releases of all who change the state.
            let state = self.state.load(Ordering::Acquire);
            if state & needs != needs {
                return false;
            }
            let is_free = state & HELD == 0 && (adds == READER || state < READER);
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            let taken = is_free
                && self
                    .state
                    .compare_exchange_weak(state, state + adds, order, failed)
                    .is_ok();
            if taken {
                break;
            }
            spin();
        }
        if self.shows(name, end as u32) {
            return true;
        }
        self.free(adds);
        false
    }

    fn free(&self, adds: u32) {
        // Release: what was done to the page is done.
        self.state.fetch_sub(adds, Ordering::Release);
    }

    /// For the drive: what it shows, or showed last.
    fn name(&self) -> FilePage {
        FilePage {
            number: self.number.load(Ordering::Relaxed),
            page: self.page.load(Ordering::Relaxed),
        }
    }

    /// For the drive: shows another page, or the same with more rights; gives whether it is another.
    fn show(&self, name: FilePage, bytes: u32, is_writable: bool) -> bool {
        let rights = SHOWN | if is_writable { WRITABLE } else { 0 };
        if self.state.load(Ordering::Relaxed) & SHOWN != 0 {
            // Nobody but the drive says what it shows, and it hides a page before it shows another.
            assert!(
                self.shows(name, 0),
                "a page is hidden before another is shown"
            );
            // A file whose end has moved since then has more bytes there: with less the page is hidden before.
            self.bytes.fetch_max(bytes, Ordering::Relaxed);
            self.state.fetch_or(rights, Ordering::Release);
            return false;
        }
        self.number.store(name.number, Ordering::Relaxed);
        self.page.store(name.page, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        // Release: partner of the acquire in `take`.
        self.state.store(rights, Ordering::Release);
        true
    }

    /// For the drive: waits until nobody is there, and says what it is then.
    fn alone(&self, next: impl Fn(u32) -> u32) {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            // Acquire: partner of the release in `free`. Release: of the acquire in `take`.
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            let is_free = state & HELD == 0 && state < READER;
            if is_free
                && self
                    .state
                    .compare_exchange_weak(state, next(state), order, failed)
                    .is_ok()
            {
                return;
            }
            spin();
        }
    }
}

/// What loads and stores take.
#[derive(Clone)]
pub struct Times {
    /// From a load of a line until it is there, or from a store until it is known to be in the drive's memory; 0 is nothing.
    pub load_ns: u64,
    /// The direction to the host.
    pub to_host: Lane,
    /// The direction from the host.
    pub from_host: Lane,
}

/// See the [module](self).
pub struct Window {
    memory: Arc<DmaRegion>,
    words: Box<[Word]>,
    /// By the hash of what is shown: a line of places each, with a part of the hash in the upper half and one more than the number of the
    /// page of memory in the lower. What finds all of its places taken is not found.
    lines: Box<[[AtomicU64; PLACES]]>,
    /// A bit for each page that hosts have stored to since the drive has looked.
    stored: Box<[AtomicU64]>,
    /// How often a bit was set.
    stores: AtomicU64,
    times: Times,
}

impl Window {
    /// A window on pages that are the drive's, which shows none of them.
    pub fn new(memory: Arc<DmaRegion>, times: Times) -> Window {
        let pages = memory.pages();
        let lines = (2 * pages / PLACES).next_power_of_two();
        Window {
            memory,
            words: (0..pages).map(|_| Word::new()).collect(),
            lines: (0..lines)
                .map(|_| std::array::from_fn(|_| AtomicU64::new(0)))
                .collect(),
            stored: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            stores: AtomicU64::new(0),
            times,
        }
    }

    /// The places of a page of a file, and the part of its hash that is in them.
    fn places(&self, name: FilePage) -> (&[AtomicU64; PLACES], u64) {
        let hash = name.hash();
        let line = &self.lines[hash as usize & (self.lines.len() - 1)];
        (line, hash >> 32 << 32)
    }

    fn find(&self, name: FilePage) -> Option<(u32, &Word)> {
        let (places, hash) = self.places(name);
        // Relaxed: where to look; the word says whether it is there.
        let mut places = places.iter().map(|place| place.load(Ordering::Relaxed));
        let place = places.find(|place| *place as u32 != 0 && place >> 32 << 32 == hash)?;
        let slot = place as u32 - 1;
        Some((slot, &self.words[slot as usize]))
    }

    /// Puts another into one of the places of a page of a file.
    fn replace(&self, name: FilePage, old: u64, new: u64) -> bool {
        let (places, hash) = self.places(name);
        // Relaxed: as in `find`; the drive alone changes them.
        let mut places = places.iter();
        let of = |place: u64| if place == 0 { 0 } else { hash | place };
        let found = places.find(|place| place.load(Ordering::Relaxed) == of(old));
        found.inspect(|place| place.store(of(new), Ordering::Relaxed));
        found.is_some()
    }

    /// Loads bytes of a page, from byte `at` of it on; false if it is not shown, or the file has not all of them.
    ///
    /// # Panics
    /// If they are not within a page.
    pub fn load(&self, cpu: &Cpu, name: FilePage, at: usize, out: &mut [u8]) -> bool {
        assert!(at + out.len() <= PAGE_BYTES, "bytes of one page");
        let Some((slot, word)) = self.find(name) else {
            return false;
        };
        if !word.take((name, at + out.len()), SHOWN, READER) {
            return false;
        }
        // SAFETY: within the page (asserted); who stores to it, and the drive, hold the word alone, and a reader has it.
        unsafe {
            let from = self.memory.page_pointer(slot as usize).add(at);
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len());
        }
        word.free(READER);
        let lines = lines(at, out.len());
        self.stall(cpu, lines, (&self.times.to_host, &self.times.from_host));
        true
    }

    /// Stores bytes to a page, from byte `at` of it on; false if it is not shown to be stored to. The drive's memory has them then.
    ///
    /// # Panics
    /// If they are not within a page.
    pub fn store(&self, cpu: &Cpu, name: FilePage, at: usize, data: &[u8]) -> bool {
        assert!(at + data.len() <= PAGE_BYTES, "bytes of one page");
        let Some((slot, word)) = self.find(name) else {
            return false;
        };
        if !word.take((name, at + data.len()), SHOWN | WRITABLE, HELD) {
            return false;
        }
        // SAFETY: within the page (asserted); the word is held alone.
        unsafe {
            let to = self.memory.page_pointer(slot as usize).add(at);
            std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
        }
        let (bits, bit) = (&self.stored[slot as usize / 64], 1 << (slot % 64));
        // Before the word is free, so that whoever has it next finds that it was stored to.
        if bits.fetch_or(bit, Ordering::Release) & bit == 0 {
            self.stores.fetch_add(1, Ordering::Release);
        }
        word.free(HELD);
        let (all, edges) = (lines(at, data.len()), edges(at, data.len()));
        if edges > 0 {
            self.stall(cpu, edges, (&self.times.to_host, &self.times.from_host));
        }
        self.stall(cpu, all, (&self.times.from_host, &self.times.to_host));
        true
    }

    /// The CPU waits for lines that cross one way, and for what goes the other way for each.
    fn stall(&self, cpu: &Cpu, lines: u64, (data, other): (&Lane, &Lane)) {
        let (data_bytes, other_bytes) = (lines * LINE_ON_LINK, lines * SLOT_ON_LINK);
        data.count(data_bytes);
        other.count(other_bytes);
        let load_ns = self.times.load_ns;
        let now_ns = cpu.now();
        let core_ns = now_ns + (lines.saturating_sub(1) * load_ns) / LINES_UNDER_WAY;
        let link_ns = data.carry(now_ns, data_bytes);
        let link_ns = link_ns.max(other.carry(now_ns, other_bytes));
        cpu.stall_until(core_ns.max(link_ns) + load_ns);
    }

    /// For the drive: a page of its memory is a page of a file, which has `bytes` bytes of it, that hosts may load, and store to if
    /// `is_writable`.
    pub fn show(&self, slot: u32, name: FilePage, bytes: u32, is_writable: bool) {
        let is_new = self.words[slot as usize].show(name, bytes, is_writable);
        if is_new {
            self.replace(name, 0, u64::from(slot) + 1);
            self.times.to_host.count(LINE_ON_LINK);
        }
    }

    /// For the drive: nobody loads a page or stores to it any more. What was stored is told by [`Window::take_stored`].
    pub fn hide(&self, slot: u32) {
        let word = &self.words[slot as usize];
        word.alone(|_| 0);
        self.replace(word.name(), u64::from(slot) + 1, 0);
        self.times.from_host.count(LINE_ON_LINK);
    }

    /// For the drive: nobody loads a page or stores to it until what is given is dropped.
    pub fn hold(&self, slot: u32) -> Holding<'_> {
        let word = &self.words[slot as usize];
        word.alone(|state| state | HELD);
        Holding { word }
    }

    /// How often hosts have stored to a page that they had not since the drive looked: if it is as it was, there is nothing to take.
    pub fn stores(&self) -> u64 {
        // Acquire: partner of the release in `store`.
        self.stores.load(Ordering::Acquire)
    }

    /// For the drive: tells of each page that hosts have stored to since it looked.
    pub fn take_stored(&self, mut tell: impl FnMut(u32)) {
        for (nth, word) in (0..).zip(&self.stored) {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire: partner of the release in `store`.
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                tell(nth * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    /// For the drive: hides all.
    pub fn close(&self) {
        self.words.iter().for_each(|word| word.alone(|_| 0));
    }
}

/// A page that the drive has to itself, until this is dropped.
pub struct Holding<'a> {
    word: &'a Word,
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.word.free(HELD);
    }
}

/// Lines that bytes lie in.
fn lines(at: usize, count: usize) -> u64 {
    ((at + count).div_ceil(LINE) - at / LINE) as u64
}

/// Those of them of which the bytes are a part.
fn edges(at: usize, count: usize) -> u64 {
    let (first, last) = (at / LINE, (at + count) / LINE);
    let is_cut = |place: usize| !place.is_multiple_of(LINE);
    match (is_cut(at), is_cut(at + count)) {
        (true, true) if first == last => 1,
        (begins, ends) => u64::from(begins) + u64::from(ends),
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests;
