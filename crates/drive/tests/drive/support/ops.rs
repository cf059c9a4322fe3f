//! Operations as values, and a generator of random ones.

use wharf_runtime::Rng;
use wharf_wire::pin::Access;

/// Pages of a transfer at most; ranges of a deallocation at most.
pub const PAGES_MAX: u32 = 9;

/// What a client does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Write {
        lba: u64,
        pages: u32,
        fua: bool,
    },
    Read {
        lba: u64,
        pages: u32,
        fua: bool,
    },
    Verify {
        lba: u64,
        pages: u32,
    },
    WriteZeroes {
        lba: u64,
        pages: u32,
        fua: bool,
        /// The pages are deallocated.
        deac: bool,
    },
    /// A write of pages of zeros.
    WriteBlank {
        lba: u64,
        pages: u32,
        fua: bool,
    },
    /// Asks which pages of a range are allocated.
    Allocated {
        lba: u64,
        pages: u32,
    },
    /// First page and number of pages of each range.
    Deallocate(Vec<(u64, u32)>),
    Flush,
    SetWriteCache(bool),
    /// Pins the pages of a window that `mask` names, uses them, and unpins them, now or with the next
    /// pin.
    Pin {
        lba: u64,
        mask: u32,
        access: Access,
        may_wait: bool,
        /// How long each write takes, in nanoseconds.
        write_ns: u64,
    },
    Format {
        erase: bool,
    },
    /// Waits until nothing of this client is in flight.
    Drain,
}

/// How often each kind comes, and where it goes.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Pages of the namespace.
    pub namespace_pages: u64,
    /// Whether the drive is a disk.
    pub is_disk: bool,
    /// Whether this client may send admin commands.
    pub admin: bool,
    /// Share of pins, in percent.
    pub pin_percent: u64,
    /// Share of writes among the rest, in percent; the others keep their proportions.
    pub write_percent: u64,
}

impl Mix {
    /// A list of `count` operations.
    pub fn draw(&self, rng: &mut Rng, count: usize) -> Vec<Op> {
        (0..count).map(|_| self.one(rng)).collect()
    }

    fn one(&self, rng: &mut Rng) -> Op {
        if self.pin_percent > 0 && rng.chance(self.pin_percent, 100) {
            return self.pin(rng);
        }
        if rng.chance(self.write_percent, 100) {
            let (lba, pages) = self.range(rng);
            let fua = rng.chance(1, 6);
            return match rng.chance(1, 10) {
                true => Op::WriteBlank { lba, pages, fua },
                false => Op::Write { lba, pages, fua },
            };
        }
        let (lba, pages) = self.range(rng);
        match rng.below(100) {
            0..40 => Op::Read {
                lba,
                pages,
                fua: rng.chance(1, 8),
            },
            40..44 => Op::Verify { lba, pages },
            // A disk does not know what is allocated.
            44..48 if self.is_disk => Op::Flush,
            44..48 => Op::Allocated { lba, pages },
            48..60 => Op::WriteZeroes {
                lba,
                pages,
                fua: rng.chance(1, 3),
                deac: rng.chance(1, 2),
            },
            60..76 => {
                let ranges = 1 + rng.below(3);
                Op::Deallocate((0..ranges).map(|_| self.range(rng)).collect())
            }
            76..88 => Op::Flush,
            88..94 => Op::Drain,
            94..98 if self.admin => Op::SetWriteCache(rng.chance(1, 2)),
            98..100 if self.admin => Op::Format {
                erase: rng.chance(1, 2),
            },
            _ => Op::Drain,
        }
    }

    fn pin(&self, rng: &mut Rng) -> Op {
        let (lba, pages) = self.range(rng);
        let mask = rng.below(1 << pages) as u32 | 1;
        let access = match rng.below(5) {
            0..2 => Access::Read,
            2..4 => Access::Write,
            _ => Access::Overwrite,
        };
        Op::Pin {
            lba,
            mask,
            access,
            may_wait: rng.chance(1, 2),
            write_ns: if rng.chance(1, 3) {
                rng.below(3_000)
            } else {
                0
            },
        }
    }

    /// A range that lies, half of the time, in the first eighth of the namespace.
    fn range(&self, rng: &mut Rng) -> (u64, u32) {
        let hot = rng.chance(1, 2);
        let space = if hot {
            (self.namespace_pages / 8).max(1)
        } else {
            self.namespace_pages
        };
        let lba = rng.below(space);
        let longest = (self.namespace_pages - lba).min(u64::from(PAGES_MAX));
        let pages = if rng.chance(1, 2) {
            1
        } else {
            1 + rng.below(longest) as u32
        };
        (lba, pages.min(longest as u32))
    }
}
