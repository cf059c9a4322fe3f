//! Uncached reads through an io_uring: what submission takes, and what their ends take away from a
//! thread that does nothing but watch the clock.

use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};

use super::scratch::{AlignedPage, PAGE_BYTES, ScratchFile};
use crate::calibrate::CalibrateError;
use crate::calibrate::costs::Costs;
use crate::calibrate::sample::Sampler;

/// Operations in flight at once.
const BATCH: usize = 32;

/// A pause of the clock longer than this, in nanoseconds, is another program that ran: it counts
/// for nothing.
const FOREIGN_NS: u64 = 100_000;

/// A step of the clock that took at least so many usual steps is a pause.
const PAUSE_STEPS: u64 = 4;

/// Longest watch without a call to the system, in nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;

/// Times empty operations, submissions and the gaps. Where the system has no io_uring it says so.
pub(super) fn measure(
    sampler: Sampler,
    file: &ScratchFile,
    costs: &mut Costs,
) -> Result<(), CalibrateError> {
    let direct = file.direct.as_ref().ok_or(CalibrateError::NoDirect)?;
    let mut ring = match IoUring::new(2 * BATCH as u32) {
        Ok(ring) => ring,
        Err(error) => {
            let line = format!(
                "io_uring: the system refuses it ({error}): block_submit and interrupt come from processor time"
            );
            costs.skipped.push(line);
            return Ok(());
        }
    };
    let (mut nops, mut submits, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = Reader {
        fd: types::Fd(direct.as_raw_fd()),
        pages: file.pages,
        buffers: (0..BATCH).map(|_| AlignedPage::new()).collect(),
        rng: Seed(16).rng(),
    };
    for _ in 0..sampler.groups * sampler.rounds * 4 {
        let nop = || opcode::Nop::new().build();
        nops.push(submit(&mut ring, (0..BATCH).map(|_| nop()))?);
        drain(&mut ring)?;
        let entries = reader.entries();
        submits.push(submit(&mut ring, entries.into_iter())?);
        gaps.push(watch(&mut ring)? as f64 / BATCH as f64);
    }
    let how = "an empty operation submitted to an io_uring and done, 32 at a time";
    costs.path("uring_nop", sampler.figure(&nops), how);
    let how = "an uncached read of 4 KiB submitted so";
    costs.path("uring_read_submit", sampler.figure(&submits), how);
    let how =
        "time missing from a thread that watches the clock, for each of 32 such reads that end";
    costs.path("interrupt_gap", sampler.figure(&gaps), how);
    Ok(())
}

/// Makes random reads.
struct Reader {
    fd: types::Fd,
    pages: u64,
    buffers: Vec<Box<AlignedPage>>,
    rng: Rng,
}

impl Reader {
    fn entries(&mut self) -> Vec<squeue::Entry> {
        let (fd, pages, rng) = (self.fd, self.pages, &mut self.rng);
        let entry = |buffer: &mut Box<AlignedPage>| {
            let offset = rng.below(pages) * PAGE_BYTES;
            opcode::Read::new(fd, buffer.0.as_mut_ptr(), PAGE_BYTES as u32)
                .offset(offset)
                .build()
        };
        self.buffers.iter_mut().map(entry).collect()
    }
}

/// Submits a batch in one call; nanoseconds for each.
fn submit(
    ring: &mut IoUring,
    entries: impl Iterator<Item = squeue::Entry>,
) -> Result<f64, CalibrateError> {
    let clock = Clock::start();
    for entry in entries {
        // SAFETY: the buffer and the file outlive the operation: every batch is waited for before
        // the next begins and before the reader is dropped.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.expect("the ring has room for a batch");
    }
    ring.submit()?;
    Ok(clock.now_ns() as f64 / BATCH as f64)
}

/// Takes a batch of completions.
fn drain(ring: &mut IoUring) -> Result<(), CalibrateError> {
    let mut left = BATCH;
    while left > 0 {
        ring.submit_and_wait(1)?;
        left -= ring.completion().count();
    }
    Ok(())
}

/// Watches the clock until a batch has ended; the sum of its pauses beyond the usual step.
fn watch(ring: &mut IoUring) -> Result<u64, CalibrateError> {
    let clock = Clock::start();
    let usual_ns = usual_step(&clock);
    let (mut left, mut missing_ns) = (BATCH, 0);
    while left > 0 {
        let mut last_ns = clock.now_ns();
        for _ in 0..64 {
            let now_ns = clock.now_ns();
            let step_ns = now_ns - last_ns;
            if (PAUSE_STEPS * usual_ns..FOREIGN_NS).contains(&step_ns) {
                missing_ns += step_ns - usual_ns;
            }
            last_ns = now_ns;
        }
        for done in ring.completion() {
            left -= 1;
            if done.result() < 0 {
                return Err(std::io::Error::from_raw_os_error(-done.result()).into());
            }
        }
        if left > 0 && last_ns > PATIENCE_NS {
            // A system that posts completions only when it is called.
            ring.submit_and_wait(1)?;
        }
    }
    Ok(missing_ns)
}

/// The time between two looks at the clock when nothing comes between.
fn usual_step(clock: &Clock) -> u64 {
    let steps = (0..64).map(|_| {
        let before = clock.now_ns();
        clock.now_ns() - before
    });
    steps.min().unwrap_or(0).max(1)
}
