//! The rows' ways to the file, behind one trait, so that all of them are driven by the same loop.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::Advice;
use rustix::mm::{MapFlags, ProtFlags};
use wharf_storage::{AlignedBuffer, Channel, FileOptions, Io, Op, Segment, Target};

use super::job::{Design, Job};
use super::row::Touched;
use crate::page_cache::{File as CachedFile, OpenOptions, PageCache, PageCacheOptions};

/// What went wrong, as a line.
pub(super) type Outcome = Result<(), String>;

/// One thread's way to the file.
pub(super) trait Way {
    /// Is told of all buffers that requests will have, before the first one. They outlive the way.
    fn meet(&mut self, _slots: &mut [Slot]) {}

    /// Begins a read or write of all of a slot's buffer at byte `offset`. The buffer is the way's until
    /// [`Way::end`] gives it back.
    fn begin(&mut self, slot: Slot, op: Op, offset: u64);

    /// Waits until at least one request has ended; gives back those that have.
    fn end(&mut self, ended: &mut Vec<(Slot, Outcome)>);

    /// Makes durable what has been written.
    fn flush(&mut self) -> Outcome;
}

/// A buffer on its way, and whose it is.
pub(super) struct Slot {
    pub(super) index: usize,
    pub(super) buffer: AlignedBuffer,
}

/// The file, opened for a row; threads take their ways from it.
pub(super) enum Opened {
    Scale { cache: PageCache, file: CachedFile },
    Direct(Arc<dyn Target>),
    Kernel(File),
    Mapped { file: File, map: Mapping },
}

impl Opened {
    /// Opens the file as `design` does. The kernel is told in which order it will be used, as fio tells it.
    pub(super) fn open(design: Design, path: &Path, job: &Job) -> Result<Opened, String> {
        let read_only = !job.pattern.writes();
        match design {
            Design::Scale => {
                let options = PageCacheOptions {
                    memory_bytes: job.memory_bytes,
                    replacement: job.replacement,
                    threads_max: job.threads + 1,
                    files_max: 1,
                    ..PageCacheOptions::default()
                };
                let cache = PageCache::new(&options).map_err(line)?;
                let mut options = OpenOptions::new();
                let options = options.read(true).write(!read_only);
                let file = options.open(&cache, path).map_err(line)?;
                Ok(Opened::Scale { cache, file })
            }
            Design::Direct => {
                let options = FileOptions {
                    read_only,
                    ..FileOptions::default()
                };
                let target = wharf_storage::open(path, &options).map_err(line)?;
                Ok(Opened::Direct(target))
            }
            Design::Kernel | Design::KernelMmap => {
                let mut how = std::fs::OpenOptions::new();
                let file = how.read(true).write(!read_only).open(path).map_err(line)?;
                let advice = match job.pattern.is_random() {
                    true => Advice::Random,
                    false => Advice::Sequential,
                };
                rustix::fs::fadvise(&file, 0, None, advice).map_err(line)?;
                if design == Design::Kernel {
                    return Ok(Opened::Kernel(file));
                }
                let map = Mapping::new(&file, job).map_err(line)?;
                Ok(Opened::Mapped { file, map })
            }
        }
    }

    /// A way for the calling thread.
    pub(super) fn way(&self, depth: u32) -> Result<Box<dyn Way + '_>, String> {
        Ok(match self {
            Opened::Direct(target) => Box::new(Rings {
                channel: target.channel(depth).map_err(line)?,
                slots: (0..depth).map(|_| None).collect(),
            }),
            Opened::Scale { file, .. } => Box::new(Calls::of(file)),
            Opened::Kernel(file) => Box::new(Calls::of(file)),
            Opened::Mapped { file, map } => Box::new(Calls::of((file, map))),
        })
    }

    /// Pages touched and found in the cache; only a page cache of ours tells.
    pub(super) fn hits(&self) -> Option<Touched> {
        match self {
            Opened::Scale { cache, .. } => {
                let statistics = cache.statistics();
                Some(Touched {
                    pages: statistics.pages,
                    hits: statistics.hits,
                    read_ahead_hits: statistics.read_ahead_hits,
                })
            }
            _ => None,
        }
    }
}

fn line(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A way on which each call returns when its work is done.
trait Calling {
    fn read(&self, offset: u64, out: &mut [u8]) -> Outcome;
    fn write(&self, offset: u64, data: &[u8]) -> Outcome;
    fn sync(&self) -> Outcome;
}

impl Calling for &CachedFile {
    fn read(&self, offset: u64, out: &mut [u8]) -> Outcome {
        self.read_exact_at(out, offset).map_err(line)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Outcome {
        self.write_all_at(data, offset).map_err(line)
    }

    fn sync(&self) -> Outcome {
        self.sync_data().map_err(line)
    }
}

impl Calling for &File {
    fn read(&self, offset: u64, out: &mut [u8]) -> Outcome {
        self.read_exact_at(out, offset).map_err(line)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Outcome {
        self.write_all_at(data, offset).map_err(line)
    }

    fn sync(&self) -> Outcome {
        self.sync_data().map_err(line)
    }
}

impl Calling for (&File, &Mapping) {
    fn read(&self, offset: u64, out: &mut [u8]) -> Outcome {
        let from = self.1.at(offset, out.len());
        // SAFETY: within the mapping. Other threads may write the page meanwhile, as they may in any shared
        // mapping: the stamps tell, and nothing but bytes is made of what is copied.
        unsafe { from.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Outcome {
        let to = self.1.at(offset, data.len());
        // SAFETY: within the mapping, which is writable; a block has one writer at a time.
        unsafe { to.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        Ok(())
    }

    fn sync(&self) -> Outcome {
        // Writes dirty pages of mappings too.
        self.0.sync_data().map_err(line)
    }
}

/// A [`Calling`] as a way: a request has ended when it has begun.
struct Calls<C> {
    calling: C,
    ended: Vec<(Slot, Outcome)>,
}

impl<C: Calling> Calls<C> {
    fn of(calling: C) -> Calls<C> {
        Calls {
            calling,
            ended: Vec::new(),
        }
    }
}

impl<C: Calling> Way for Calls<C> {
    fn begin(&mut self, mut slot: Slot, op: Op, offset: u64) {
        let outcome = match op {
            Op::Read => self.calling.read(offset, &mut slot.buffer),
            Op::Write => self.calling.write(offset, &slot.buffer),
            Op::Flush => self.calling.sync(),
        };
        self.ended.push((slot, outcome));
    }

    fn end(&mut self, ended: &mut Vec<(Slot, Outcome)>) {
        ended.append(&mut self.ended);
    }

    fn flush(&mut self) -> Outcome {
        self.calling.sync()
    }
}

/// A channel of `wharf_storage`: many requests at a time.
struct Rings {
    /// First, so that it has ended its I/Os before their buffers go.
    channel: Box<dyn Channel>,
    slots: Vec<Option<Slot>>,
}

impl Way for Rings {
    fn meet(&mut self, slots: &mut [Slot]) {
        let buffers = slots.iter_mut().map(|slot| Segment::of(&mut slot.buffer));
        let buffers: Vec<Segment> = buffers.collect();
        // SAFETY: they outlive the way, and so the channel. Should a panic end one before, the kernel keeps its pages until the
        // channel is gone, and nothing is under way to them.
        unsafe { self.channel.register(&buffers) };
    }

    fn begin(&mut self, slot: Slot, op: Op, offset: u64) {
        let index = slot.index;
        let slot = self.slots[index].insert(slot);
        let io = Io {
            op,
            offset,
            segments: &[Segment::of(&mut slot.buffer)],
            tag: index as u64,
        };
        // SAFETY: the buffer stays in its place in `slots`, untouched, until the I/O is reported; it owns its
        // memory, which does not move with it.
        unsafe { self.channel.submit(io) }.expect("as many slots as the channel takes");
    }

    fn end(&mut self, ended: &mut Vec<(Slot, Outcome)>) {
        let slots = &mut self.slots;
        self.channel.wait(1, &mut |completion| {
            let slot = slots[completion.tag as usize].take();
            let slot = slot.expect("a request that had begun");
            ended.push((slot, completion.result.map_err(line)));
        });
    }

    fn flush(&mut self) -> Outcome {
        let mut outcome = Ok(());
        // SAFETY: a flush has no memory.
        unsafe { self.channel.submit(Io::flush(0)) }.expect("nothing is under way");
        self.channel.wait(1, &mut |completion| {
            outcome = completion.result.map_err(line)
        });
        outcome
    }
}

/// A shared mapping of the file.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: memory; who uses it says how.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, job: &Job) -> rustix::io::Result<Mapping> {
        let len_bytes = job.file_bytes as usize;
        let protection = match job.pattern.writes() {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        let advice = match job.pattern.is_random() {
            true => rustix::mm::Advice::Random,
            false => rustix::mm::Advice::Sequential,
        };
        // SAFETY: a new mapping at a place of the kernel's choice; the bench keeps the file as long as it is.
        let start = unsafe {
            let start = rustix::mm::mmap(
                std::ptr::null_mut(),
                len_bytes,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )?;
            rustix::mm::madvise(start, len_bytes, advice)?;
            start
        };
        Ok(Mapping {
            start: NonNull::new(start.cast()).expect("a mapping is not at 0"),
            len_bytes,
        })
    }

    fn at(&self, offset: u64, bytes: usize) -> *mut u8 {
        let offset = offset as usize;
        assert!(offset + bytes <= self.len_bytes, "within the file");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more. It cannot fail for a whole mapping.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
