//! Memory that is served: as large as one likes, as much of it used as was written.
//!
//! Problem: a terabyte of memory that a program may write anywhere is to cost what is written, say where
//! that is, and give back what is trimmed.
//!
//! Idea: address space is reserved and filled by the system page by page. A bit for each page, in such
//! memory too, says whether the page was written; reads of others are answered with zeros without looking, as
//! a look would make the system keep a page table for them.
//!
//! * **Write**: bytes first, then the bits. **Trim**: bits first, then the memory is given back. So
//!   whatever order two threads do these in, a page without its bit holds zeros in the end.
//! * Two clients that write the same bytes at the same time have a race of their own: each byte is that of one of them.
//!   Here it is no data race in the sense of the language, as all bytes are moved by the kernel, or as
//!   atomic words.

use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use wharf_runtime::sync::{AtomicU8, AtomicU64, Ordering};

use crate::export::{
    Answer, Can, Data, Export, ExportInfo, Extent, Job, Lent, Outcome, Seat, Tag, Waiting,
};
use crate::proto::Errno;

const PAGE: u64 = 4096;
static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
/// Most that is given back or filled in one step: others have their turn after it.
const STEP_BYTES: u64 = 16 << 20;
/// Most of what was never written that is passed over in one step: 2 MiB of bits.
const SKIP_BYTES: u64 = 64 << 30;
/// The largest export: half of what a process can address.
pub const BYTES_MAX: u64 = 64 << 40;

/// Reserved address space that is zeros where it was not written.
struct Reserved {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is memory without owners; what threads do with it is the business of those who have its
// pointer.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

impl Reserved {
    fn new(bytes: u64) -> rustix::io::Result<Reserved> {
        let bytes = bytes.next_multiple_of(PAGE) as usize;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
        // Memory is to follow what was written: a page of 2 MiB for 4 KiB would not.
        // SAFETY: the mapping was just made; the advice changes no byte.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        let start = NonNull::new(start.cast()).expect("a mapping is not at 0");
        Ok(Reserved { start, bytes })
    }

    /// Makes whole pages zeros and gives their memory back.
    fn give_back(&self, begin: u64, len: u64) {
        debug_assert!(begin + len <= self.bytes as u64);
        // SAFETY: within the mapping. Nobody has a reference into it, only pointers, by which the
        // bytes are zeros from now on.
        let done = unsafe {
            let at = self.start.as_ptr().add(begin as usize);
            madvise(at.cast(), len as usize, Advice::LinuxDontNeed)
        };
        done.expect("private memory can be given back");
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and unmapped once.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// See the module.
pub struct MemoryExport {
    info: ExportInfo,
    bytes: Reserved,
    bits: Reserved,
}

impl MemoryExport {
    /// Memory of `size_bytes` zeros.
    ///
    /// # Errors
    /// If it is larger than [`BYTES_MAX`], or the system refuses so much address space.
    pub fn new(name: &str, size_bytes: u64, read_only: bool) -> Result<MemoryExport, String> {
        if size_bytes > BYTES_MAX {
            return Err(format!("{size_bytes} bytes of memory: {BYTES_MAX} at most"));
        }
        let reserve = |bytes: u64| {
            Reserved::new(bytes.max(1))
                .map_err(|errno| format!("the system does not reserve {bytes} bytes: {errno}"))
        };
        Ok(MemoryExport {
            info: ExportInfo {
                name: name.into(),
                description: "memory".into(),
                size_bytes,
                block_bytes_min: 1,
                block_bytes_preferred: PAGE as u32,
                can: Can {
                    write: !read_only,
                    flush: true,
                    trim: true,
                    zero: true,
                    fast_zero: true,
                    cache: true,
                    status: true,
                    multi_conn: true,
                },
            },
            bytes: reserve(size_bytes)?,
            bits: reserve(size_bytes.div_ceil(PAGE).div_ceil(64) * 8)?,
        })
    }

    fn at(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(offset + len <= self.info.size_bytes, "within the export");
        // SAFETY: within the mapping, as was just checked.
        unsafe { self.bytes.start.as_ptr().add(offset as usize) }
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        debug_assert!(index * 8 < self.bits.bytes as u64);
        // SAFETY: within the mapping, aligned, and only ever used as atomic words.
        unsafe { AtomicU64::from_ptr(self.bits.start.as_ptr().cast::<u64>().add(index as usize)) }
    }

    /// Sets or clears the bits of pages, `end` not included.
    fn mark(&self, first: u64, end: u64, written: bool) {
        let mut page = first;
        while page < end {
            let upto = ((page | 63) + 1).min(end);
            let mask = (u64::MAX >> (64 - (upto - page))) << (page & 63);
            let word = self.word(page / 64);
            // Relaxed looks first: a word that has the bits already is not written, and one of pages that
            // were never written is not brought into memory.
            let now = word.load(Ordering::Relaxed);
            if written && now & mask != mask {
                // Release, with the Acquire of `run`: who sees the bit sees the bytes.
                word.fetch_or(mask, Ordering::Release);
            } else if !written && now & mask != 0 {
                word.fetch_and(!mask, Ordering::AcqRel);
            }
            page = upto;
        }
    }

    /// Notes that bytes were written.
    fn written(&self, offset: u64, len: u64) {
        if len > 0 {
            self.mark(offset / PAGE, (offset + len).div_ceil(PAGE), true);
        }
    }

    /// Whether the page was written, and the end of the run of pages that are alike; at most `end`.
    fn run(&self, page: u64, end: u64) -> (bool, u64) {
        let mut word = self.word(page / 64).load(Ordering::Acquire);
        let written = word >> (page & 63) & 1 == 1;
        let mut at = page;
        loop {
            let unlike = if written { !word } else { word } >> (at & 63);
            if unlike != 0 {
                return (written, (at + u64::from(unlike.trailing_zeros())).min(end));
            }
            at = (at | 63) + 1;
            if at >= end {
                return (written, end);
            }
            word = self.word(at / 64).load(Ordering::Acquire);
        }
    }

    /// Makes the beginning of a range zeros, with its memory given back where it is whole pages; gives how
    /// many bytes that was: all of them, or a step.
    fn punch(&self, offset: u64, len: u64) -> u64 {
        let (end, size) = (offset + len, self.info.size_bytes);
        let first = offset.next_multiple_of(PAGE);
        // What lies behind the end of the export is nobody's.
        let last = match end == size {
            true => end.next_multiple_of(PAGE),
            false => end / PAGE * PAGE,
        };
        if first >= last {
            self.fill(offset, len);
            return len;
        }
        self.fill(offset, first - offset);
        // Runs of written pages alone: an empty terabyte costs a look at its bits.
        let (mut page, pages_end) = (first / PAGE, last / PAGE);
        let skip_end = pages_end.min(page + SKIP_BYTES / PAGE);
        let mut left = STEP_BYTES / PAGE;
        while page < skip_end && left > 0 {
            let (written, run_end) = self.run(page, skip_end);
            let run_end = if written {
                run_end.min(page + left)
            } else {
                run_end
            };
            if written {
                self.mark(page, run_end, false);
                self.bytes.give_back(page * PAGE, (run_end - page) * PAGE);
                left -= run_end - page;
            }
            page = run_end;
        }
        if page < pages_end {
            return page * PAGE - offset;
        }
        self.fill(last.min(end), end - last.min(end));
        len
    }

    /// Writes zeros over the pages of the range that were written.
    fn fill(&self, offset: u64, len: u64) {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let (written, run_end) = self.run(at / PAGE, end.div_ceil(PAGE));
            let upto = (run_end * PAGE).min(end);
            if written {
                self.store_zeros(at, upto - at);
            }
            at = upto;
        }
    }

    fn store_zeros(&self, offset: u64, len: u64) {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let count = (PAGE - at % PAGE).min(end - at);
            store(self.at(at, count), &ZEROS[..count as usize]);
            at += count;
        }
    }

    /// Writes zeros and gives them room.
    fn allocate(&self, offset: u64, len: u64) {
        self.store_zeros(offset, len);
        self.written(offset, len);
    }

    fn extents(&self, offset: u64, len: u64, extents_max: usize) -> Vec<Extent> {
        let (mut at, end) = (offset, offset + len);
        let mut extents = Vec::new();
        while at < end && extents.len() < extents_max {
            let (written, run_end) = self.run(at / PAGE, end.div_ceil(PAGE));
            let upto = (run_end * PAGE).min(end);
            let extent = match written {
                true => Extent::data(upto - at),
                false => Extent::hole(upto - at),
            };
            extent.push(&mut extents);
            at = upto;
        }
        extents
    }
}

/// Copies `from` to memory of an export, where others may store at the same time: as atomic words
/// where words fit.
pub(crate) fn store(to: *mut u8, from: &[u8]) {
    let head = to.align_offset(8).min(from.len());
    let (first, rest) = from.split_at(head);
    store_bytes(to, first);
    let words = rest.chunks_exact(8);
    let tail = words.remainder();
    for (index, word) in words.enumerate() {
        let word = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
        // SAFETY: `at` has checked that the range is the export's, whose bytes are touched as atomics or
        // by the kernel alone; `head` has made it aligned.
        unsafe { AtomicU64::from_ptr(to.add(head).cast::<u64>().add(index)) }
            .store(word, Ordering::Relaxed);
    }
    store_bytes(to.wrapping_add(from.len() - tail.len()), tail);
}

fn store_bytes(to: *mut u8, from: &[u8]) {
    for (at, byte) in from.iter().enumerate() {
        // SAFETY: as in `store`.
        unsafe { AtomicU8::from_ptr(to.add(at)) }.store(*byte, Ordering::Relaxed);
    }
}

/// Copies memory that others may change to `to`.
#[cfg(feature = "tls")]
pub(crate) fn load(from: *const u8, to: &mut [u8]) {
    let from = from.cast_mut();
    let head = from.align_offset(8).min(to.len());
    let (first, rest) = to.split_at_mut(head);
    let byte = |at: usize| {
        // SAFETY: the caller's range, whose bytes are written as atomics or by the kernel alone, or not
        // at all meanwhile.
        unsafe { AtomicU8::from_ptr(from.add(at)) }.load(Ordering::Relaxed)
    };
    first
        .iter_mut()
        .enumerate()
        .for_each(|(at, to)| *to = byte(at));
    let mut words = rest.chunks_exact_mut(8);
    let mut at = head;
    for to in &mut words {
        // SAFETY: as above, and aligned.
        let word = unsafe { AtomicU64::from_ptr(from.add(at).cast()) }.load(Ordering::Relaxed);
        to.copy_from_slice(&word.to_ne_bytes());
        at += 8;
    }
    let tail = words.into_remainder().iter_mut().enumerate();
    tail.for_each(|(i, to)| *to = byte(at + i));
}

impl Export for MemoryExport {
    fn info(&self) -> &ExportInfo {
        &self.info
    }

    fn seat(&self) -> Result<Box<dyn Seat + '_>, String> {
        Ok(Box::new(MemorySeat {
            export: self,
            long: Vec::new(),
        }))
    }
}

/// A trim or zeros of more than a step.
struct Long {
    tag: Tag,
    offset: u64,
    len: u64,
    allocates: bool,
}

struct MemorySeat<'a> {
    export: &'a MemoryExport,
    long: Vec<Long>,
}

impl MemorySeat<'_> {
    fn begin_zeros(&mut self, tag: Tag, offset: u64, len: u64, allocates: bool) -> Option<Outcome> {
        let mut long = Long {
            tag,
            offset,
            len,
            allocates,
        };
        if self.step(&mut long) {
            return Some(Ok(Answer::Nothing));
        }
        self.long.push(long);
        None
    }

    /// Does a step; true if that was the last one.
    fn step(&self, long: &mut Long) -> bool {
        let len = match long.allocates {
            true => {
                // Steps end at pages.
                let end = (long.offset + STEP_BYTES) / PAGE * PAGE;
                let len = long.len.min(end - long.offset);
                self.export.allocate(long.offset, len);
                len
            }
            false => self.export.punch(long.offset, long.len),
        };
        long.offset += len;
        long.len -= len;
        long.len == 0
    }
}

impl Seat for MemorySeat<'_> {
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome> {
        match job {
            Job::Write {
                offset,
                data: Data::Placed(len),
                ..
            } => self.export.written(offset, len as u64),
            Job::Write {
                offset,
                data: Data::Buffer(buffer),
                ..
            } => {
                let to = self.export.at(offset, buffer.len() as u64);
                store(to, &buffer);
                self.export.written(offset, buffer.len() as u64);
            }
            Job::Read { .. } => unreachable!("reads are lent"),
            Job::Flush | Job::Cache { .. } => {}
            Job::Trim { offset, len, .. } => return self.begin_zeros(tag, offset, len, false),
            Job::Zero {
                no_hole: true,
                fast: true,
                ..
            } => return Some(Err(Errno::NotSupported)),
            Job::Zero {
                offset,
                len,
                no_hole,
                ..
            } => return self.begin_zeros(tag, offset, len, no_hole),
            Job::Status {
                offset,
                len,
                extents_max,
            } => {
                let extents = self.export.extents(offset, len, extents_max);
                return Some(Ok(Answer::Extents(extents)));
            }
        }
        Some(Ok(Answer::Nothing))
    }

    fn poll(&mut self, done: &mut dyn FnMut(Tag, Outcome)) {
        let mut index = 0;
        let mut long = std::mem::take(&mut self.long);
        while index < long.len() {
            match self.step(&mut long[index]) {
                true => done(long.swap_remove(index).tag, Ok(Answer::Nothing)),
                false => index += 1,
            }
        }
        self.long = long;
    }

    fn waiting(&self) -> Waiting {
        match self.long.is_empty() {
            true => Waiting::Nothing,
            false => Waiting::Busy,
        }
    }

    fn lend(&mut self, offset: u64, len: usize, runs: &mut Vec<Lent>) -> bool {
        let (mut at, end) = (offset, offset + len as u64);
        while at < end {
            let (written, run_end) = self.export.run(at / PAGE, end.div_ceil(PAGE));
            let upto = (run_end * PAGE).min(end);
            let count = (upto - at) as usize;
            runs.push(match written {
                true => Lent::Bytes(self.export.at(at, upto - at), count),
                false => Lent::Zeros(count),
            });
            at = upto;
        }
        true
    }

    fn place(&mut self, offset: u64, len: usize) -> Option<*mut u8> {
        Some(self.export.at(offset, len as u64))
    }
}
