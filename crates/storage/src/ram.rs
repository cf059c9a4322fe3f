//! A target in memory: for tests, and as the fastest thing to compare with.
//!
//! The bytes lie in slabs of 64 KiB with a lock each, made when they are first written.

use std::sync::{Arc, PoisonError, RwLock};

use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::error::StorageError;
use crate::io::{Completion, Io, Op};
use crate::target::{Channel, Ended, Full, Target, TargetInfo, admit, check_depth};
use crate::transfer::Transfer;

const SLAB_BYTES: u64 = 64 << 10;

type Slab = Option<Box<[u8]>>;

/// Bytes in memory.
pub struct RamTarget {
    shared: Arc<Shared>,
}

struct Shared {
    info: TargetInfo,
    size: AtomicU64,
    slabs: RwLock<Vec<RwLock<Slab>>>,
}

impl RamTarget {
    /// `size_bytes` zeros in blocks of `block_bytes`, a power of two.
    pub fn new(name: &str, size_bytes: u64, block_bytes: u32) -> RamTarget {
        assert!(block_bytes.is_power_of_two(), "a block is a power of two");
        let shared = Shared {
            info: TargetInfo {
                name: name.into(),
                block_bytes,
                memory_align_bytes: 1,
                optimal_io_bytes: block_bytes,
                needs_flush: false,
                read_only: false,
                access: "memory".into(),
            },
            size: AtomicU64::new(size_bytes),
            slabs: RwLock::new(slabs(size_bytes)),
        };
        RamTarget {
            shared: Arc::new(shared),
        }
    }
}

fn slabs(size_bytes: u64) -> Vec<RwLock<Slab>> {
    let count = size_bytes.div_ceil(SLAB_BYTES);
    (0..count).map(|_| RwLock::new(None)).collect()
}

impl Target for RamTarget {
    fn info(&self) -> &TargetInfo {
        &self.shared.info
    }

    fn size_bytes(&self) -> u64 {
        self.shared.size.load(Ordering::Relaxed)
    }

    fn set_size(&self, size_bytes: u64) -> Result<(), StorageError> {
        let shared = &self.shared;
        let mut slabs = shared.slabs.write().unwrap_or_else(PoisonError::into_inner);
        slabs.resize_with(size_bytes.div_ceil(SLAB_BYTES) as usize, || {
            RwLock::new(None)
        });
        let within = (size_bytes % SLAB_BYTES) as usize;
        if within != 0
            && let Some(last) = slabs.last_mut()
            && let Some(bytes) = last.get_mut().unwrap_or_else(PoisonError::into_inner)
        {
            // What comes back when it grows again is zeros.
            bytes[within..].fill(0);
        }
        // Relaxed: whoever changes the size has nothing in flight near it.
        shared.size.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        Ok(Box::new(RamChannel {
            shared: self.shared.clone(),
            depth: depth as usize,
            ended: Ended::default(),
            transfer: Transfer::idle(),
        }))
    }
}

struct RamChannel {
    shared: Arc<Shared>,
    depth: usize,
    ended: Ended,
    transfer: Transfer,
}

impl Shared {
    /// Does the whole of `transfer`, whose memory is valid and not used by others.
    fn run(&self, transfer: &mut Transfer) {
        let size = self.size.load(Ordering::Relaxed);
        let slabs = self.slabs.read().unwrap_or_else(PoisonError::into_inner);
        let op = transfer.op;
        transfer.drain(|mut offset, segment| {
            let mut pointer = segment.pointer;
            let mut left = segment.len_bytes as u64;
            while left > 0 {
                let room = if offset < size {
                    (SLAB_BYTES - offset % SLAB_BYTES).min(size - offset)
                } else {
                    left
                };
                let part = left.min(room) as usize;
                let slab = slabs
                    .get((offset / SLAB_BYTES) as usize)
                    .filter(|_| offset < size);
                let within = (offset % SLAB_BYTES) as usize;
                // SAFETY: `submit`'s caller promises that the memory is valid and not used by others.
                unsafe { copy(op, slab, within, pointer, part) };
                pointer = pointer.wrapping_add(part);
                offset += part as u64;
                left -= part as u64;
            }
        });
    }
}

/// Moves `len` bytes between a slab, or what lies beyond the end, and memory.
///
/// # Safety
///
/// `pointer` is valid for `len` bytes, which nobody else touches.
unsafe fn copy(op: Op, slab: Option<&RwLock<Slab>>, within: usize, pointer: *mut u8, len: usize) {
    match (op, slab) {
        (Op::Read, Some(slab)) => {
            let slab = slab.read().unwrap_or_else(PoisonError::into_inner);
            match &*slab {
                // SAFETY: the caller's promise; the slab is other memory.
                Some(bytes) => unsafe {
                    pointer.copy_from_nonoverlapping(bytes[within..within + len].as_ptr(), len);
                },
                // SAFETY: the caller's promise.
                None => unsafe { pointer.write_bytes(0, len) },
            }
        }
        // SAFETY: the caller's promise.
        (Op::Read, None) => unsafe { pointer.write_bytes(0, len) },
        (Op::Write, Some(slab)) => {
            let mut slab = slab.write().unwrap_or_else(PoisonError::into_inner);
            let empty = || vec![0; SLAB_BYTES as usize].into_boxed_slice();
            let bytes = slab.get_or_insert_with(empty);
            // SAFETY: the caller's promise; the slab is other memory.
            unsafe {
                bytes[within..within + len]
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(pointer, len);
            }
        }
        (Op::Write, None) | (Op::Flush, _) => {}
    }
}

impl Channel for RamChannel {
    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.ended.len()
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        if self.ended.len() == self.depth {
            return Err(Full);
        }
        let size_bytes = self.shared.size.load(Ordering::Relaxed);
        let result = admit(&self.shared.info, size_bytes, &io);
        if result.is_ok() && io.op != Op::Flush {
            self.transfer.begin(&io);
            self.shared.run(&mut self.transfer);
        }
        self.ended.push(io.tag, result);
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.ended.report(done)
    }

    fn wait(&mut self, _min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        self.poll(done)
    }
}
