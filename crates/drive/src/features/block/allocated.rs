//! Allocated pages as runs: of a core, and of the drive.

use std::cell::RefCell;

use wharf_runtime::Op;

use crate::config::Striping;
use crate::core::Core;

/// Map entries that are looked at before other work gets a turn.
const LOOK_STEP: u32 = 4096;

/// Map entries that are looked at for one command once a run is found: what is told then ends there,
/// so that who asks for all to the end need not wait until all of it was looked at.
const LOOK_MAX: u32 = 4 * LOOK_STEP;

/// What cores have found for commands that are not answered yet, by their slots.
#[derive(Default)]
pub(super) struct Allocated {
    found: RefCell<Vec<(u16, CoreRuns)>>,
}

impl Allocated {
    /// Keeps what a core has found.
    pub fn put(&self, slot: u16, runs: CoreRuns) {
        self.found.borrow_mut().push((slot, runs));
    }

    /// Takes it.
    pub fn take(&self, slot: u16) -> CoreRuns {
        let mut found = self.found.borrow_mut();
        let index = found.iter().position(|(of, _)| *of == slot);
        found.swap_remove(index.expect("every core has answered")).1
    }
}

/// Allocated pages of a core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CoreRuns {
    /// First page and end of each run, in order; runs do not meet.
    pub runs: Vec<(u32, u32)>,
    /// Pages before this one, and from the range's first on, were looked at.
    pub looked_to: u32,
}

impl CoreRuns {
    /// Looks at `count` pages from `first` on, until there are more runs than `runs_max`, or no more pages, or some run and
    /// no more looks.
    pub async fn find(core: &Core, first: u32, count: u32, runs_max: usize) -> CoreRuns {
        let (mut found, end) = (CoreRuns::default(), first + count);
        found.looked_to = first;
        let mut looks_left = LOOK_MAX;
        while found.looked_to < end
            && found.runs.len() <= runs_max
            && (looks_left > 0 || found.runs.is_empty())
        {
            let looked = core.with_ftl(|ftl| {
                let mut looked = 0;
                while looked < LOOK_STEP && found.looked_to < end && found.runs.len() <= runs_max {
                    looked += 1;
                    let Some(lpn) = ftl.next_known(found.looked_to, end) else {
                        found.looked_to = end;
                        break;
                    };
                    found.looked_to = lpn + 1;
                    if ftl.place(lpn).is_mapped() {
                        found.add(lpn);
                    }
                }
                looked
            });
            looks_left = looks_left.saturating_sub(looked);
            core.cpu.work_n(Op::MapLookup, looked, || ());
            core.cpu.yield_now().await;
        }
        if found.runs.len() > runs_max {
            // The last run has begun and may go on: what is told ends before it.
            let (begun, _) = found.runs.pop().expect("one more than are wanted");
            found.looked_to = begun;
        }
        found
    }

    fn add(&mut self, lpn: u32) {
        match self.runs.last_mut() {
            Some((_, end)) if *end == lpn => *end += 1,
            _ => self.runs.push((lpn, lpn + 1)),
        }
    }

    /// Of the pages from `lpn` on the first that is allocated (or not), as far as is known: what was not
    /// looked at is neither.
    fn first_that(&self, lpn: u32, allocated: bool) -> u32 {
        let index = self.runs.partition_point(|(_, end)| *end <= lpn);
        match (self.runs.get(index), allocated) {
            (Some((first, _)), true) => (*first).max(lpn),
            (Some((first, end)), false) if *first <= lpn => *end,
            (None, true) => self.looked_to.max(lpn),
            (_, false) => lpn,
        }
    }
}

/// The runs of the drive (first page, pages) in `range` (first page, end), at most `runs_max`; and whether they
/// are all.
pub(super) fn merge(
    cores: &[CoreRuns],
    striping: Striping,
    range: (u64, u64),
    runs_max: usize,
) -> (Vec<(u64, u32)>, bool) {
    let (mut page, end) = range;
    // How far all cores have looked: the next page of each that it has not looked at.
    let horizon = (0..)
        .zip(cores)
        .map(|(core, found)| striping.page_of(core, found.looked_to));
    let horizon = horizon.min().unwrap_or(end).min(end);
    // Of the pages from `page` on the first that is allocated, or not.
    let first_that = |page: u64, allocated: bool| {
        let firsts = (0..).zip(cores).map(|(core, found)| {
            let local = striping.pages_below(page, core);
            striping.page_of(core, found.first_that(local, allocated))
        });
        firsts.min().unwrap_or(horizon).min(horizon)
    };
    let mut runs = Vec::new();
    loop {
        let first = first_that(page, true);
        if first >= horizon {
            return (runs, horizon >= end);
        }
        if runs.len() == runs_max {
            return (runs, false);
        }
        // A run has no more pages than its field can say; what is left is another.
        let most = first + u64::from(u32::MAX);
        page = first_that(first, false).min(most);
        runs.push((first, (page - first) as u32));
    }
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;

    fn runs_of(allocated: &[bool], first: u32, end: u32, runs_max: usize) -> CoreRuns {
        let mut found = CoreRuns {
            looked_to: first,
            ..CoreRuns::default()
        };
        for lpn in first..end {
            if allocated[lpn as usize] {
                found.add(lpn);
            }
            if found.runs.len() > runs_max {
                found.looked_to = found.runs.pop().unwrap().0;
                return found;
            }
            found.looked_to = lpn + 1;
        }
        found
    }

    /// Asked again from behind the last run, the drive tells what a plain list tells, and never nothing.
    #[test]
    fn runs_of_cores_are_the_runs_of_the_drive() {
        for seed in 0..400 {
            println!("seed {seed}");
            let mut rng = Seed(seed).rng();
            let striping = Striping {
                stripe_pages: 1 + rng.below(5) as u32,
                cores: 1 + rng.below(4) as u32,
            };
            let round = u64::from(striping.stripe_pages * striping.cores);
            let pages = round * (1 + rng.below(40));
            let (mut is_on, chance) = (false, 1 + rng.below(20));
            let all: Vec<bool> = (0..pages)
                .map(|_| {
                    is_on ^= rng.chance(1, chance);
                    is_on
                })
                .collect();
            let mut of_cores = vec![Vec::new(); striping.cores as usize];
            for (page, is_on) in (0..).zip(&all) {
                of_cores[striping.locate(page).0 as usize].push(*is_on);
            }
            let first = rng.below(pages);
            let end = first + 1 + rng.below(pages - first);
            let runs_max = 1 + rng.below(6) as usize;
            let (mut found, mut page) = (vec![false; pages as usize], first);
            loop {
                let cores: Vec<CoreRuns> = (0..)
                    .zip(&of_cores)
                    .map(|(core, own)| {
                        let local = |page| striping.pages_below(page, core);
                        runs_of(own, local(page), local(end), runs_max)
                    })
                    .collect();
                let (runs, is_whole) = merge(&cores, striping, (page, end), runs_max);
                assert!(runs.len() <= runs_max);
                for (first, count) in &runs {
                    let run = *first..*first + u64::from(*count);
                    assert!(page <= run.start && run.end <= end);
                    page = run.end;
                    run.for_each(|page| found[page as usize] = true);
                }
                if is_whole {
                    break;
                }
                assert!(!runs.is_empty(), "no progress from page {page}");
            }
            let wanted = (0..pages).map(|page| (first..end).contains(&page) && all[page as usize]);
            assert!(wanted.eq(found.iter().copied()), "pages {first} to {end}");
        }
    }
}
