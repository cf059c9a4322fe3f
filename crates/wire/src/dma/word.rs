//! A word of host memory by which the drive tells the host something at any time, without a command.
//!
//! The drive writes it, the host looks at it. A host that writes it itself deceives nobody but itself: the drive never reads
//! such words.

use std::ptr::NonNull;
use std::sync::Arc;

use wharf_runtime::sync::{AtomicU64, Ordering};

use super::region::RegionMemory;
use super::{DmaFault, DmaRegion, DmaSpace, PAGE_BYTES};

/// Words of a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// See the module. The memory stays as long as this is there.
pub struct DmaWord {
    word: NonNull<AtomicU64>,
    _memory: Arc<RegionMemory>,
}

impl DmaWord {
    fn new(pointer: *mut u64, memory: &Arc<RegionMemory>) -> DmaWord {
        DmaWord {
            word: NonNull::new(pointer.cast()).expect("a mapping is not at address 0"),
            _memory: memory.clone(),
        }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: an aligned word inside the mapping, which this keeps; other processes use it by atomics too, or are
        // hosts that harm themselves.
        unsafe { self.word.as_ref() }
    }

    /// Tells a value: all that was done before is seen by whoever sees it.
    #[inline]
    pub fn tell(&self, value: u64) {
        // Release: partner of the acquire in `look`.
        self.word().store(value, Ordering::Release);
    }

    /// The value that was told last.
    #[inline]
    pub fn look(&self) -> u64 {
        // Acquire: partner of the release in `tell`.
        self.word().load(Ordering::Acquire)
    }
}

impl DmaSpace {
    /// The word at `address`, a multiple of 8 in a region of whole pages.
    ///
    /// # Errors
    /// If there is no such word.
    pub fn word(&self, address: u64) -> Result<DmaWord, DmaFault> {
        let pointer = self.word_pointer(address)?;
        let (memory, _) = self.resolve(address)?;
        Ok(DmaWord::new(pointer, memory))
    }
}

impl DmaRegion {
    /// Word number `index` of a region of whole pages, and its address.
    ///
    /// # Panics
    /// If the region has no such word.
    pub fn word(&self, index: usize) -> (DmaWord, u64) {
        assert!(
            self.page_bytes() == PAGE_BYTES,
            "words are in regions of whole pages"
        );
        let (page, within) = (index / PAGE_WORDS, index % PAGE_WORDS);
        let first = self.page_pointer(page).cast::<u64>();
        // SAFETY: within the page, which is inside the mapping.
        let pointer = unsafe { first.add(within) };
        let address = self.address(page) + (within * size_of::<u64>()) as u64;
        (DmaWord::new(pointer, &self.memory), address)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_drive_tells_is_what_the_host_sees() {
        let space = DmaSpace::new(PAGE_BYTES);
        let region = space.register_whole(2).unwrap();
        for index in [0, 511, 512, 1023] {
            let (word, address) = region.word(index);
            assert_eq!(word.look(), 0);
            space.word(address).unwrap().tell(index as u64 + 7);
            assert_eq!(word.look(), index as u64 + 7);
        }
        assert!(space.word(region.address(1) + 4096).is_err());
        assert!(space.word(region.address(0) + 4).is_err());
        assert!(space.word(8).is_err());
    }

    /// A file of one number, whose changes are told by a word as the drive tells them: what is kept of it is never older than
    /// what one who looks knows to have ended.
    #[test]
    #[allow(clippy::disallowed_methods)] // what threads see of each other is what is tested
    fn who_knows_of_a_change_finds_the_word_changed() {
        const CHANGES: u64 = 200_000;
        let space = DmaSpace::new(PAGE_BYTES);
        let region = space.register_whole(1).unwrap();
        let (value, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (word, _) = region.word(3);
                for change in 1..=CHANGES {
                    word.tell(0);
                    // Release: partner of the acquire where it is kept.
                    value.store(change, Ordering::Release);
                    // Release: partner of the acquire below; it stands for the answer to who made the change.
                    ended.store(change, Ordering::Release);
                    // A lease is given anew.
                    word.tell(change);
                }
            });
            let (word, _) = region.word(3);
            let (mut lease, mut kept, mut hits) = (0, 0, 0_u64);
            while kept < CHANGES {
                // Acquire: partner of the release above.
                let least = ended.load(Ordering::Acquire);
                if lease != 0 && word.look() == lease {
                    assert!(kept >= least, "{kept} is older than {least}");
                    hits += 1;
                    continue;
                }
                lease = word.look();
                // Acquire: the next look comes after it.
                kept = value.load(Ordering::Acquire);
                if word.look() != lease {
                    lease = 0;
                }
            }
            println!("{hits} hits");
        });
    }
}
