//! The paths of the machine's own kernel, and what follows from them for the design that models it.
//!
//! The kernel's steps cannot be called apart, so whole paths are timed, and a step is what one path
//! has and another has not:
//!
//! | step | is | less |
//! |---|---|---|
//! | `system_call` | a request of the lab's client that becomes a `pread` of 4 KiB that hits, random over the file | the client's own part, and the tree's look-up and the copy, as timed in this program |
//! | `file_write` | a `pwrite` of 4 KiB over dirty pages, random over 16 MiB | a `pread` of such pages |
//! | `page_allocator` | a write of a fresh page of a memory file over a write of a present one, and a page of it given back; their mean | the tree's and the lists' update |
//! | `block_submit` | an uncached read submitted through an io_uring, 32 at a time | an empty operation submitted so |
//! | `interrupt` | time missing from a thread that only watches the clock while 32 uncached reads end, for each | |
//! | `context_switch` | a turn of two threads of one processor that wake each other by futex, half of it (one sleeps, one wakes) | a system call |
//!
//! What a hypervisor or a device adds to a single request (a kick, the injection of an interrupt)
//! is shared by a batch and so hardly in these figures: it is the device's time and not the kernel's.
//! The tree's and the lists' own steps are timed on this program's code (`designs.rs`). A
//! difference below nothing is noise and counts as nothing; `system_call` is at least a call that does
//! nothing.

mod file;
mod memory;
mod ring;
mod scratch;
mod switch;

use std::path::Path;
use std::sync::Arc;

use wharf_runtime::Op;

use super::CalibrateError;
use super::costs::Costs;
use super::sample::{Sample, Sampler};

pub(super) use scratch::ScratchFile;

/// Times the kernel's paths on a file in `directory`, and derives the operations. The operations of
/// caches and designs must be there.
pub(super) fn measure(
    sampler: Sampler,
    directory: &Path,
    file_bytes: u64,
    costs: &mut Costs,
) -> Result<(), CalibrateError> {
    let scratch = Arc::new(ScratchFile::new(directory, file_bytes)?);
    // Read and not as it was written: the kernel keeps what is written at once in larger pieces, found sooner.
    scratch.forget()?;
    scratch.load(scratch.pages)?;
    let request = super::client::over_the_kernel(sampler, &scratch)?;
    let how = "a request of the lab's client that becomes such a pread";
    file::measure(sampler, &scratch, costs)?;
    costs.path("client_pread_hit", request, how);
    memory::measure(sampler, costs)?;
    switch::measure(sampler, costs);
    ring::measure(sampler, &scratch, costs)?;
    derive(costs);
    Ok(())
}

/// Makes a small file in `directory`, as [`measure`] will make a large one.
pub(super) fn try_folder(directory: &Path) -> Result<(), CalibrateError> {
    let scratch = ScratchFile::new(directory, 1 << 20)?;
    match scratch.direct {
        Some(_) => Ok(()),
        None => Err(CalibrateError::NoDirect),
    }
}

/// From paths to operations.
fn derive(costs: &mut Costs) {
    let path = |name: &str| costs.find_path(name).expect("timed before");
    let null = path("null_system_call");
    let hit = path("client_pread_hit") - costs.get(Op::ClientRequest);
    let call = (hit - costs.get(Op::TreeLookup) - costs.get(Op::CopyPage)).at_least(null);
    let updates = costs.get(Op::TreeUpdate) + costs.get(Op::ListUpdate);
    let taken = path("memory_page_taken") - path("memory_page_written") - updates;
    let given = path("memory_page_given") - updates;
    let switch = (path("futex_turn") - null) / 2.0;
    let written = path("pwrite_hit_hot") - path("pread_hit_hot");
    let block = block(costs, call);
    costs.set(
        Op::SystemCall,
        call,
        "client_pread_hit - client_request - tree_lookup - copy_page, at least null_system_call",
    );
    costs.set(Op::FileWrite, written, "pwrite_hit_hot - pread_hit_hot");
    costs.set(
        Op::PageAllocator,
        (taken + given) / 2.0,
        "mean of (memory_page_taken - memory_page_written) and memory_page_given, each - tree_update - list_update",
    );
    costs.set(
        Op::ContextSwitch,
        switch,
        "half of (futex_turn - null_system_call)",
    );
    let (submit, interrupt, how) = block;
    costs.set(Op::BlockSubmit, submit, how[0]);
    costs.set(Op::Interrupt, interrupt, how[1]);
}

/// Submission and interrupt; without an io_uring both are half of what an uncached read takes of the
/// thread's processor time.
fn block(costs: &Costs, call: Sample) -> (Sample, Sample, [&'static str; 2]) {
    match (
        costs.find_path("uring_read_submit"),
        costs.find_path("uring_nop"),
        costs.find_path("interrupt_gap"),
    ) {
        (Some(read), Some(nop), Some(gap)) => (
            read - nop,
            gap,
            ["uring_read_submit - uring_nop", "interrupt_gap"],
        ),
        _ => {
            let busy = costs.find_path("direct_read_cpu").expect("timed before");
            let half = (busy - call) / 2.0;
            let how = "half of (direct_read_cpu - system_call): no io_uring here";
            (half, half, [how, how])
        }
    }
}
