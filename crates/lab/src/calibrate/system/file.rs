//! Reads and writes of a file: hits in the page cache, misses, write-back, mapped pages.

use std::hint::black_box;
use std::os::unix::fs::FileExt;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};

use super::scratch::{AlignedPage, PAGE_BYTES, ScratchFile};
use crate::calibrate::CalibrateError;
use crate::calibrate::costs::Costs;
use crate::calibrate::sample::Sampler;

/// Operations of a round of hits.
const HITS: u64 = 512;
/// Operations of a round that goes to the device.
const MISSES: u64 = 16;
/// Pages that stay in the processor's caches with what belongs to them: 16 MiB.
const HOT_PAGES: u64 = 4096;

/// Times every path of this file.
pub(super) fn measure(
    sampler: Sampler,
    file: &ScratchFile,
    costs: &mut Costs,
) -> Result<(), CalibrateError> {
    let null = sampler.time(
        HITS,
        || (),
        |()| {
            (0..HITS).for_each(|_| {
                black_box(rustix::process::getppid());
            });
        },
    );
    costs.path("null_system_call", null, "getppid");
    file.load(file.pages)?;
    let pages = file.pages;
    let hot = reads(sampler, file, HITS, HOT_PAGES)?;
    costs.path(
        "pread_hit_hot",
        hot,
        "pread of 4 KiB in the page cache, random over 16 MiB",
    );
    let hit = reads(sampler, file, HITS, pages)?;
    costs.path("pread_hit", hit, "the same, random over the file");
    let write = writes(sampler, file)?;
    costs.path(
        "pwrite_hit_hot",
        write,
        "pwrite of 4 KiB over dirty pages in 16 MiB",
    );
    mapped(sampler, file, costs)?;
    write_back(sampler, file, costs)?;
    file.forget()?;
    let miss = misses(sampler, file)?;
    costs.path(
        "pread_miss",
        miss,
        "pread of 4 KiB not in the page cache (posix_fadvise)",
    );
    direct(sampler, file, costs)
}

fn page(rng: &mut Rng, pages: u64) -> u64 {
    rng.below(pages) * PAGE_BYTES
}

/// Rounds of calls to the system.
fn rounds(
    sampler: Sampler,
    round: impl FnMut() -> std::io::Result<f64>,
) -> std::io::Result<crate::calibrate::Sample> {
    sampler.try_collect(round)
}

fn reads(
    sampler: Sampler,
    file: &ScratchFile,
    batch: u64,
    pages: u64,
) -> std::io::Result<crate::calibrate::Sample> {
    let (mut rng, mut buffer) = (Seed(11).rng(), AlignedPage::new());
    rounds(sampler, || {
        let clock = Clock::start();
        for _ in 0..batch {
            file.cached
                .read_exact_at(&mut buffer.0, page(&mut rng, pages))?;
        }
        Ok(clock.now_ns() as f64 / batch as f64)
    })
}

fn writes(sampler: Sampler, file: &ScratchFile) -> std::io::Result<crate::calibrate::Sample> {
    let (mut rng, buffer) = (Seed(12).rng(), AlignedPage::new());
    for at in 0..HOT_PAGES {
        file.cached.write_all_at(&buffer.0, at * PAGE_BYTES)?;
    }
    rounds(sampler, || {
        let clock = Clock::start();
        for _ in 0..HITS {
            file.cached
                .write_all_at(&buffer.0, page(&mut rng, HOT_PAGES))?;
        }
        Ok(clock.now_ns() as f64 / HITS as f64)
    })
}

/// A page of the file touched through a mapping: the first time, and later.
fn mapped(sampler: Sampler, file: &ScratchFile, costs: &mut Costs) -> std::io::Result<()> {
    let bytes = (file.pages * PAGE_BYTES) as usize;
    let map = |flags: MapFlags| {
        // SAFETY: a new mapping of a file that only this program has, read and never written.
        unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                flags,
                &file.cached,
                0,
            )
        }
    };
    let touch = |base: *mut std::ffi::c_void, offset: u64| {
        // SAFETY: `offset` lies within the mapping, which is alive.
        black_box(unsafe { base.cast::<u8>().add(offset as usize).read_volatile() });
    };
    let mut rng = Seed(13).rng();
    let whole = map(MapFlags::SHARED | MapFlags::POPULATE)?;
    let hit = sampler.time(
        HITS,
        || (),
        |()| {
            (0..HITS).for_each(|_| touch(whole, page(&mut rng, file.pages)));
        },
    );
    // SAFETY: the mapping made above, used no more.
    unsafe { munmap(whole, bytes) }?;
    let fault = rounds(sampler, || {
        let fresh = map(MapFlags::SHARED)?;
        let clock = Clock::start();
        // Far enough apart that no fault maps the pages of another.
        let stride = file.pages / HITS * PAGE_BYTES;
        (0..HITS).for_each(|i| touch(fresh, i * stride));
        let ns = clock.now_ns() as f64 / HITS as f64;
        // SAFETY: the mapping made above, used no more.
        unsafe { munmap(fresh, bytes) }?;
        Ok(ns)
    })?;
    costs.path(
        "mmap_hit",
        hit,
        "a byte of a mapped page, random over the file",
    );
    costs.path("mmap_fault", fault, "the same, the first time");
    Ok(())
}

/// Pages written, then brought to the device.
fn write_back(sampler: Sampler, file: &ScratchFile, costs: &mut Costs) -> std::io::Result<()> {
    let (mut rng, buffer) = (Seed(14).rng(), AlignedPage::new());
    let sample = rounds(sampler, || {
        let clock = Clock::start();
        for _ in 0..MISSES {
            file.cached
                .write_all_at(&buffer.0, page(&mut rng, file.pages))?;
        }
        file.cached.sync_data()?;
        Ok(clock.now_ns() as f64 / MISSES as f64)
    })?;
    let how = "a page of 16 written at random and brought to the device by fdatasync";
    costs.path("write_back", sample, how);
    Ok(())
}

/// Reads of pages that nobody has read since the file left the cache: each page once.
fn misses(sampler: Sampler, file: &ScratchFile) -> std::io::Result<crate::calibrate::Sample> {
    let mut buffer = AlignedPage::new();
    // A step that shares no factor with the number of pages comes by every page once.
    let step = (file.pages as f64 * 0.618) as u64 | 1;
    let mut at = 0;
    rounds(sampler, || {
        let clock = Clock::start();
        for _ in 0..MISSES {
            at = (at + step) % file.pages;
            file.cached.read_exact_at(&mut buffer.0, at * PAGE_BYTES)?;
        }
        Ok(clock.now_ns() as f64 / MISSES as f64)
    })
}

/// Reads past the page cache: their time, and their processor time.
fn direct(sampler: Sampler, file: &ScratchFile, costs: &mut Costs) -> Result<(), CalibrateError> {
    let direct = file.direct.as_ref().ok_or(CalibrateError::NoDirect)?;
    let (mut rng, mut buffer) = (Seed(15).rng(), AlignedPage::new());
    let mut busy = Vec::new();
    let sample = rounds(sampler, || {
        let (clock, before) = (Clock::start(), thread_busy_ns());
        for _ in 0..MISSES {
            direct.read_exact_at(&mut buffer.0, page(&mut rng, file.pages))?;
        }
        busy.push((thread_busy_ns() - before) as f64 / MISSES as f64);
        Ok(clock.now_ns() as f64 / MISSES as f64)
    })?;
    costs.path("direct_read", sample, "pread of 4 KiB with O_DIRECT");
    let how = "processor time of the thread for such a read";
    costs.path("direct_read_cpu", sampler.figure(&busy), how);
    Ok(())
}

/// Processor time of this thread so far.
fn thread_busy_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
