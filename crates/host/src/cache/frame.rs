//! The frame table's entry: which page a frame holds and in what state, in 8 bytes.

/// Bits for the page number: a volume of up to 4 PiB.
const PAGE_BITS: u32 = 40;

/// Pages that the table can name are below this.
pub const PAGES_MAX: u64 = 1 << PAGE_BITS;

const PAGE_MASK: u64 = PAGES_MAX - 1;
const PRESENT: u64 = 1 << 40;
const BUSY: u64 = 1 << 41;
const WRITING: u64 = 1 << 42;
const DIRTY: u64 = 1 << 44;
const STUCK: u64 = 1 << 45;
/// One use; two bits count them.
const USE: u64 = 1 << 46;
const USES: u64 = 3 * USE;

/// One frame's page and state.
///
/// * empty: no page;
/// * *busy*: the page is in the index, its data is not there yet; a request holds the frame;
/// * ready: the data may be read and changed under the shard's lock;
/// * ready and *writing*: the drive reads the data; it may be read but not changed;
/// * *stuck*, with busy or writing: the drive did not answer in time, nobody should wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame(u64);

impl Frame {
    /// A frame that is to be filled with `page`: busy, clean, not used.
    #[inline]
    pub fn busy(page: u64) -> Frame {
        debug_assert!(page < PAGES_MAX);
        Frame(page | PRESENT | BUSY)
    }

    /// The page, of a frame that has one.
    #[inline]
    pub fn page(self) -> u64 {
        self.0 & PAGE_MASK
    }

    /// True if it holds `page`, busy or ready.
    #[inline]
    pub fn holds(self, page: u64) -> bool {
        self.0 & (PAGE_MASK | PRESENT) == page | PRESENT
    }

    /// True if it has no page.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 & PRESENT == 0
    }

    /// True while the data is not there.
    #[inline]
    pub fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// True while the drive reads the data.
    #[inline]
    pub fn is_writing(self) -> bool {
        self.0 & WRITING != 0
    }

    /// True if the frame cannot be given another page now.
    #[inline]
    pub fn is_pinned(self) -> bool {
        self.0 & (BUSY | WRITING) != 0
    }

    /// True if the drive has left it hanging.
    #[inline]
    pub fn is_stuck(self) -> bool {
        self.0 & STUCK != 0
    }

    /// True if the drive does not have the data.
    #[inline]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// The data is there.
    #[inline]
    pub fn set_ready(&mut self) {
        self.0 &= !(BUSY | STUCK);
    }

    /// The drive reads the data, or has done so.
    #[inline]
    pub fn set_writing(&mut self, writing: bool) {
        self.0 = self.0 & !(WRITING | STUCK) | if writing { WRITING } else { 0 };
    }

    /// It was used once more; three uses are counted at most.
    #[inline]
    pub fn count_use(&mut self) {
        if self.0 & USES != USES {
            self.0 += USE;
        }
    }

    /// Uses since the last time that this was asked.
    #[inline]
    pub fn take_uses(&mut self) -> u8 {
        let uses = (self.0 & USES) / USE;
        self.0 &= !USES;
        uses as u8
    }

    /// Changed, or written to the drive.
    #[inline]
    pub fn set_dirty(&mut self, dirty: bool) {
        self.0 = self.0 & !DIRTY | if dirty { DIRTY } else { 0 };
    }

    /// The drive does not answer.
    pub fn set_stuck(&mut self) {
        self.0 |= STUCK;
    }
}
