//! The host's caches and the client: index, clock hand, copy, parity, and what a request costs whoever
//! makes it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_runtime::page_index::{Index, hash_page};
use wharf_runtime::{Op, Rng, Seed, xor_into};
use wharf_wire::dma::DmaSpace;

use super::CalibrateError;
use super::costs::Costs;
use super::sample::Sampler;

/// Pages of the caches that are timed: 512 MiB, far beyond the processor's own caches.
pub(super) const FRAMES: u32 = 1 << 17;

/// Operations of a round.
pub(super) const BATCH: u64 = 1024;

/// Random numbers of pages, for a round.
pub(super) fn random_pages(rng: &mut Rng, pages: u64) -> Vec<u64> {
    (0..BATCH).map(|_| rng.below(pages)).collect()
}

/// Times index, clock hand, copy and parity.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let mut rng = Seed(3).rng();
    let frames = u64::from(FRAMES);
    let mut index = Index::new(FRAMES);
    for page in 0..frames {
        index.insert(page, hash_page(page), page as u32);
    }
    let table: Vec<u64> = (0..frames).collect();
    let lookup = sampler.time(
        BATCH,
        || random_pages(&mut rng, frames),
        |pages| {
            for page in pages.iter() {
                black_box(index.find(*page, hash_page(*page), |frame| {
                    table[frame as usize] == *page
                }));
            }
        },
    );
    let update = sampler.time(
        BATCH,
        || random_pages(&mut rng, frames),
        |pages| {
            for page in pages.iter() {
                let (frame, hash) = (*page as u32, hash_page(*page));
                index.remove(*page, hash, frame, |frame| table[frame as usize]);
                index.insert(*page, hash, frame);
            }
        },
    );
    let lock = sampler.time(
        BATCH,
        || AtomicBool::new(false),
        |taken| lock_and_leave(taken),
    );
    let how = "random look-up in the index of 131,072 pages, and an uncontended lock";
    costs.set(Op::CacheLookup, lookup + lock, how);
    let how = "half of a removal with an insertion there, and an uncontended lock";
    costs.set(Op::CacheUpdate, update / 2.0 + lock, how);
    clock_hand(sampler, table, costs);
    copy(sampler, costs)
}

/// What an uncontended spin lock costs: an exchange and a store.
fn lock_and_leave(taken: &AtomicBool) {
    for _ in 0..BATCH {
        // Acquire and release: partners of each other, as in a lock.
        while taken.swap(true, Ordering::Acquire) {}
        taken.store(false, Ordering::Release);
    }
}

/// One step of the hand: a frame's word is read and its reference bit cleared.
fn clock_hand(sampler: Sampler, mut words: Vec<u64>, costs: &mut Costs) {
    let step = sampler.time(
        words.len() as u64,
        || (),
        |()| {
            words
                .iter_mut()
                .for_each(|word| *word = black_box(*word) & !(1 << 62));
        },
    );
    costs.set(
        Op::ClockStep,
        step,
        "a frame's word read, its reference bit cleared",
    );
}

fn copy(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let space = DmaSpace::new(4096);
    let region = space.register(FRAMES as usize)?;
    for page in 0..FRAMES as usize {
        // SAFETY: no command is in flight and one reference is alive at a time.
        unsafe { region.page_mut(page) }.fill(1);
    }
    let mut rng = Seed(4).rng();
    let mut buffer = vec![0u8; 4096];
    let mut copy = |pages: u64| {
        sampler.time(
            BATCH,
            || random_pages(&mut rng, pages),
            |numbers| {
                for page in numbers.iter() {
                    // SAFETY: as above.
                    buffer.copy_from_slice(unsafe { region.page_mut(*page as usize) });
                    black_box(&buffer);
                }
            },
        )
    };
    let hot = copy(4096);
    let far = copy(u64::from(FRAMES));
    costs.path("copy_page_hot", hot, "4 KiB copied out of 16 MiB");
    costs.set(
        Op::CopyPage,
        far,
        "4 KiB copied out of a random page of 512 MiB",
    );
    let mut rng = Seed(6).rng();
    let xor = sampler.time(
        BATCH,
        || random_pages(&mut rng, u64::from(FRAMES)),
        |numbers| {
            for page in numbers.iter() {
                // SAFETY: as above.
                xor_into(&mut buffer, unsafe { region.page_mut(*page as usize) });
                black_box(&buffer);
            }
        },
    );
    costs.set(
        Op::XorPage,
        xor,
        "4 KiB of a random page of 512 MiB taken into a page at hand",
    );
    let mut rng = Seed(5).rng();
    let between = sampler.time(
        BATCH,
        || random_pages(&mut rng, u64::from(FRAMES) / 2),
        |numbers| {
            for page in numbers.iter() {
                let from = *page as usize;
                let to = FRAMES as usize / 2 + (from * 7 + 3) % (FRAMES as usize / 2);
                // SAFETY: as above, and these are two different pages.
                let (from, to) = unsafe { (region.page_mut(from), region.page_mut(to)) };
                to.copy_from_slice(from);
            }
        },
    );
    costs.set(
        Op::DriveCopy,
        between,
        "4 KiB copied between random pages of 512 MiB",
    );
    Ok(())
}
