//! Which core a page of the drive belongs to.

use crate::divide::{quotient, remainder};

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
