//! Memory that two processes map: a memory file of fixed length.
//!
//! The owner makes it and hands its descriptor to the other process, over a socket. It is *sealed*:
//! nobody can change its length, so that no access to a mapping of it ever faults, whatever the other
//! process does. It can do one thing: write to it. So what is read from shared memory is read once,
//! checked, and never trusted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Shared memory that cannot be had, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system refused.
    #[error("cannot share {bytes} bytes of memory: {source}; use a smaller cache")]
    System {
        /// Bytes asked for.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A descriptor of something else.
    #[error(
        "shared memory of {found} bytes was handed over where {bytes} sealed ones were expected: \
         use the same version of Wharf in both processes"
    )]
    Unexpected {
        /// Bytes expected.
        bytes: usize,
        /// Bytes that it has.
        found: u64,
    },
}

/// See the module. It begins as zeros.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory, valid on every thread until it is dropped.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; who may touch what is the rule of those who use it.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes memory of `bytes` bytes.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(bytes: usize) -> Result<SharedMemory, MemoryError> {
        let make = || {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("wharf", flags)?;
            ftruncate(&file, bytes as u64)?;
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            fcntl_add_seals(&file, seals)?;
            Ok(file)
        };
        let file = make().map_err(|source| system(bytes, source))?;
        SharedMemory::map(file, bytes)
    }

    /// Maps memory that another process has made with `bytes` bytes.
    ///
    /// # Errors
    /// If it is not such memory; if the system refuses.
    pub fn open(file: OwnedFd, bytes: usize) -> Result<SharedMemory, MemoryError> {
        let found = fstat(&file)
            .map_err(|source| system(bytes, source))?
            .st_size as u64;
        let is_sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if found != bytes as u64 || !is_sealed {
            return Err(MemoryError::Unexpected { bytes, found });
        }
        SharedMemory::map(file, bytes)
    }

    fn map(file: OwnedFd, bytes: usize) -> Result<SharedMemory, MemoryError> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice overlaps nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let start = start.map_err(|source| system(bytes, source))?;
        // SAFETY: the range is the mapping just made. Both are wishes: children do not get the
        // memory, and pages are huge where the system gives such to memory files.
        unsafe {
            let _ = madvise(start, bytes, Advice::LinuxDontFork);
            let _ = madvise(start, bytes, Advice::LinuxHugepage);
        }
        Ok(SharedMemory {
            file,
            start: NonNull::new(start.cast()).expect("a mapping is not at address 0"),
            bytes,
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the bytes from `offset` on are, `bytes` of them.
    ///
    /// # Panics
    /// If they are not all inside.
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "outside of it");
        // SAFETY: inside the mapping.
        unsafe { self.start.add(offset) }
    }

    /// Makes it all zeros again. Nobody in this process may use it; the other process is not asked.
    pub fn clear(&self) {
        // SAFETY: the whole mapping; the system takes its pages away and gives new ones, of zeros.
        let removed =
            unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxRemove) };
        if removed.is_err() {
            // SAFETY: the whole mapping. Another process that still writes harms its own use alone.
            unsafe { self.start.as_ptr().write_bytes(0, self.bytes) };
        }
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `map`, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn system(bytes: usize, source: rustix::io::Errno) -> MemoryError {
    MemoryError::System {
        bytes,
        source: source.into(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_memory_and_its_length_stays() {
        let made = SharedMemory::create(8192).unwrap();
        let descriptor = || made.as_fd().try_clone_to_owned().unwrap();
        let opened = SharedMemory::open(descriptor(), 8192).unwrap();
        // SAFETY: inside both; nobody else uses them.
        unsafe { made.at(5000, 1).write(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { opened.at(5000, 1).read() }, 7);
        assert!(ftruncate(&opened.file, 0).is_err(), "sealed");
        made.clear();
        // SAFETY: as above.
        assert_eq!(unsafe { opened.at(5000, 1).read() }, 0);
        let wrong = SharedMemory::open(descriptor(), 4096);
        assert!(matches!(
            wrong,
            Err(MemoryError::Unexpected { found: 8192, .. })
        ));
    }
}
