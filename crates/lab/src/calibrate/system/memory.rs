//! Pages of a file in memory (`memfd`): taken, written again, given back. No device and no file
//! system's log takes part, so what a fresh page costs more is allocator, tree and lists.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use wharf_runtime::clock::Clock;

use super::scratch::{AlignedPage, PAGE_BYTES};
use crate::calibrate::costs::Costs;
use crate::calibrate::sample::Sampler;

/// Pages of a round.
const PAGES: u64 = 512;

/// Times the three paths.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> std::io::Result<()> {
    let file = File::from(memfd_create("wharf-calibrate", MemfdFlags::CLOEXEC)?);
    let buffer = AlignedPage::new();
    let write_all = || (0..PAGES).try_for_each(|at| file.write_all_at(&buffer.0, at * PAGE_BYTES));
    let mut rounds = [const { Vec::new() }; 3];
    for _ in 0..sampler.groups * sampler.rounds {
        let clock = Clock::start();
        write_all()?;
        let taken = clock.now_ns();
        write_all()?;
        let written = clock.now_ns();
        ftruncate(&file, 0)?;
        let ends = [taken, written - taken, clock.now_ns() - written];
        for (all, span) in rounds.iter_mut().zip(ends) {
            all.push(span as f64 / PAGES as f64);
        }
    }
    let [taken, written, given] = rounds.map(|all| sampler.figure(&all));
    let how = "a page of a memory file written for the first time";
    costs.path("memory_page_taken", taken, how);
    costs.path(
        "memory_page_written",
        written,
        "a present page of it written",
    );
    let how = "a page of it given back, 512 in one call";
    costs.path("memory_page_given", given, how);
    Ok(())
}
