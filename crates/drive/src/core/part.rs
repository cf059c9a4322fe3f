//! What controller and cores say to each other: parts of commands, and answers.

use wharf_wire::status::StatusCode;

use crate::divide::{quotient, remainder};

/// What a part asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOp {
    /// Pages to host memory.
    Read,
    /// Pages from host memory.
    Write,
    /// Read pages without moving them.
    Verify,
    /// Pages read as zeros from now on.
    Deallocate,
    /// The same, on behalf of a write zeroes command.
    WriteZeroes,
    /// Everything acknowledged becomes durable.
    Flush,
    /// Every page is deallocated, durably; with `count` = 1 the flash is erased too.
    Format,
    /// Leave statistics on the shelf.
    Report,
    /// Turn the volatile write cache on (`count` = 1) or off (0).
    SetWriteCache,
}

/// A part of a command: what one core has to do for it.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// First PRP of the command.
    pub prp1: u64,
    /// Second PRP of the command: a page or a list.
    pub prp2: u64,
    /// When the data of a write have arrived from the host, in nanoseconds.
    pub data_ready_ns: u64,
    /// First logical page, local to the core.
    pub first: u32,
    /// Logical pages.
    pub count: u32,
    /// Pages of the command's transfer.
    pub transfer_pages: u32,
    /// Which of them is the part's first.
    pub transfer_first: u32,
    /// The controller's slot of the command.
    pub slot: u16,
    /// What to do.
    pub op: PartOp,
    /// Answer only when it is durable.
    pub fua: bool,
}

const _: () = assert!(size_of::<Part>() <= 64);

/// The answer to a part.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The controller's slot of the command.
    pub slot: u16,
    /// How it went.
    pub status: StatusCode,
    /// The first page that failed, local to the core; of no meaning after success.
    pub lpn: u32,
}

/// Why a part failed, and where.
#[derive(Debug, Clone, Copy)]
pub struct Failed {
    /// What the host is told.
    pub status: StatusCode,
    /// The page, local to the core.
    pub lpn: u32,
}

/// How logical addresses go round the cores: stripe by stripe.
#[derive(Debug, Clone, Copy)]
pub struct Striping {
    /// Pages of a stripe.
    pub stripe_pages: u32,
    /// Cores.
    pub cores: u32,
}

impl Striping {
    /// The core of a page, and its number there.
    #[inline]
    pub fn locate(&self, page: u64) -> (u32, u32) {
        let stripe = quotient(page, self.stripe_pages);
        let within = remainder(page, self.stripe_pages);
        let core = remainder(stripe, self.cores);
        let local = quotient(stripe, self.cores) * u64::from(self.stripe_pages) + within;
        (core as u32, local as u32)
    }

    /// The page that is number `local` of `core`.
    pub fn page_of(&self, core: u32, local: u32) -> u64 {
        let stripe = u64::from(local / self.stripe_pages) * u64::from(self.cores) + u64::from(core);
        stripe * u64::from(self.stripe_pages) + u64::from(local % self.stripe_pages)
    }

    /// How many pages below `page` belong to `core`: a range of the drive is one range of a core.
    pub fn pages_below(&self, page: u64, core: u32) -> u32 {
        let stripe_pages = u64::from(self.stripe_pages);
        let round = stripe_pages * u64::from(self.cores);
        let rest = (page % round).saturating_sub(u64::from(core) * stripe_pages);
        (page / round * stripe_pages + rest.min(stripe_pages)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_below_counts_what_locate_places() {
        let striping = Striping {
            stripe_pages: 3,
            cores: 4,
        };
        let mut counts = [0u32; 4];
        for page in 0..100u64 {
            for core in 0..4 {
                assert_eq!(
                    striping.pages_below(page, core),
                    counts[core as usize],
                    "{page} {core}"
                );
            }
            let (core, local) = striping.locate(page);
            assert_eq!(local, counts[core as usize]);
            assert_eq!(striping.page_of(core, local), page);
            counts[core as usize] += 1;
        }
    }
}
