//! Memory that two processes map: a memory file of fixed length.
//!
//! The owner makes it and hands a descriptor to the other process, over a socket. It is *sealed*:
//! nobody can change its length, so that no access to a mapping of it ever faults, whatever the other
//! process does. It can do one thing: write to it. So what is read from shared memory is read once,
//! checked, and never trusted.
//!
//! Two kinds of memory are for one writer. What the maker alone may change is sealed against all further
//! writing ([`SharedMemory::create_to_tell`]). Of what one other process may change, others get a
//! [descriptor to read](SharedMemory::descriptor_to_read). And memory for one other process after the other
//! is a *place* ([`SharedMemory::place`]): it is [renewed](SharedMemory::renew) for each of them, so that the one before has nothing of
//! it, and takes neither memory nor a descriptor while nobody is there.

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, open,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

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
    /// None where another process has made it (children of this one are not to find it), and of a place.
    file: Mutex<Option<OwnedFd>>,
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
        let file = make(bytes)?;
        let start = map(&file, bytes, WRITABLE, None)?;
        seal(&file, SealFlags::SEAL).map_err(|source| system(bytes, source))?;
        Ok(SharedMemory::of(Some(file), start, bytes))
    }

    /// Makes memory of `bytes` bytes that nobody writes but through this mapping of it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create_to_tell(bytes: usize) -> Result<SharedMemory, MemoryError> {
        let file = make(bytes)?;
        let start = map(&file, bytes, WRITABLE, None)?;
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        seal(&file, seals).map_err(|source| system(bytes, source))?;
        Ok(SharedMemory::of(Some(file), start, bytes))
    }

    /// Maps memory that another process has made with `bytes` bytes.
    ///
    /// # Errors
    /// If it is not such memory; if the system refuses.
    pub fn open(file: OwnedFd, bytes: usize) -> Result<SharedMemory, MemoryError> {
        SharedMemory::open_for(file, bytes, WRITABLE)
    }

    /// As [`SharedMemory::open`], to read alone: a write to it ends the process.
    ///
    /// # Errors
    /// As there.
    pub fn open_to_read(file: OwnedFd, bytes: usize) -> Result<SharedMemory, MemoryError> {
        SharedMemory::open_for(file, bytes, ProtFlags::READ)
    }

    fn open_for(
        file: OwnedFd,
        bytes: usize,
        access: ProtFlags,
    ) -> Result<SharedMemory, MemoryError> {
        let found = fstat(&file)
            .map_err(|source| system(bytes, source))?
            .st_size as u64;
        let is_sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if found != bytes as u64 || !is_sealed {
            return Err(MemoryError::Unexpected { bytes, found });
        }
        let start = map(&file, bytes, access, None)?;
        Ok(SharedMemory::of(None, start, bytes))
    }

    fn of(file: Option<OwnedFd>, start: NonNull<u8>, bytes: usize) -> SharedMemory {
        SharedMemory {
            file: Mutex::new(file),
            start,
            bytes,
        }
    }

    fn file(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the file of memory that this process has made.
    fn with_file<R>(&self, f: impl FnOnce(&OwnedFd) -> R) -> R {
        f(self.file().as_ref().expect("its maker alone hands it on"))
    }

    /// A descriptor, for another process to map it.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// If another process has made it.
    pub fn descriptor(&self) -> Result<OwnedFd, MemoryError> {
        let file = self.with_file(OwnedFd::try_clone);
        file.map_err(|source| MemoryError::System {
            bytes: self.bytes,
            source,
        })
    }

    /// A descriptor, for another process to map it and not to write to it.
    ///
    /// # Errors
    /// If the system refuses, or has no `/proc`.
    ///
    /// # Panics
    /// If another process has made it.
    pub fn descriptor_to_read(&self) -> Result<OwnedFd, MemoryError> {
        let opened = self.with_file(|file| {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        });
        opened.map_err(|source| system(self.bytes, source))
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

    /// A place for memory of `bytes` bytes that other processes use one after the other: addresses, where this process alone
    /// finds zeros until it is [renewed](SharedMemory::renew). Untouched it takes no memory.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn place(bytes: usize) -> Result<SharedMemory, MemoryError> {
        let start = map_nothing(bytes, None)?;
        Ok(SharedMemory::of(None, start, bytes))
    }

    /// Puts new memory in its place, all zeros; gives the descriptor by which another process maps it. What processes have mapped so far
    /// is memory of theirs alone. In this process pointers into it stay valid.
    ///
    /// # Errors
    /// If the system refuses; then all is as it was.
    pub fn renew(&self) -> Result<OwnedFd, MemoryError> {
        let file = make(self.bytes)?;
        seal(&file, SealFlags::SEAL).map_err(|source| system(self.bytes, source))?;
        map(&file, self.bytes, WRITABLE, Some(self.start))?;
        Ok(file)
    }

    /// Gives the memory back of a place that nobody uses. Pointers into it stay valid.
    ///
    /// # Errors
    /// If the system refuses; then all is as it was.
    pub fn give_back(&self) -> Result<(), MemoryError> {
        map_nothing(self.bytes, Some(self.start)).map(drop)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `map`, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// A memory file of `bytes` bytes.
fn make(bytes: usize) -> Result<OwnedFd, MemoryError> {
    let make = || {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("wharf", flags)?;
        ftruncate(&file, bytes as u64)?;
        seal(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(file)
    };
    make().map_err(|source| system(bytes, source))
}

fn seal(file: &OwnedFd, seals: SealFlags) -> rustix::io::Result<()> {
    fcntl_add_seals(file, seals)
}

/// Maps a file, in the place of a mapping of the same length or where the system likes.
fn map(
    file: &OwnedFd,
    bytes: usize,
    access: ProtFlags,
    place: Option<NonNull<u8>>,
) -> Result<NonNull<u8>, MemoryError> {
    let (at, flags) = match place {
        None => (std::ptr::null_mut(), MapFlags::SHARED),
        Some(start) => (start.as_ptr().cast(), MapFlags::SHARED | MapFlags::FIXED),
    };
    // SAFETY: a new mapping at an address of the system's choice overlaps nothing. At a given one it takes
    // the place of the whole mapping that its owner has there: addresses stay valid, and what is behind
    // them is what other processes could have written, as at any time.
    let start = unsafe { mmap(at, bytes, access, flags, file, 0) };
    let start = start.map_err(|source| system(bytes, source))?;
    // SAFETY: the range is the mapping just made. Both are wishes: children do not get the memory, and
    // pages are huge where the system gives such to memory files.
    unsafe {
        let _ = madvise(start, bytes, Advice::LinuxDontFork);
        let _ = madvise(start, bytes, Advice::LinuxHugepage);
    }
    Ok(NonNull::new(start.cast()).expect("a mapping is not at address 0"))
}

/// Maps no file, likewise: pages that are there when they are touched.
fn map_nothing(bytes: usize, place: Option<NonNull<u8>>) -> Result<NonNull<u8>, MemoryError> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let (at, flags) = match place {
        None => (std::ptr::null_mut(), flags),
        Some(start) => (start.as_ptr().cast(), flags | MapFlags::FIXED),
    };
    // SAFETY: as in `map`.
    let start = unsafe { mmap_anonymous(at, bytes, WRITABLE, flags) };
    let start = start.map_err(|source| system(bytes, source))?;
    Ok(NonNull::new(start.cast()).expect("a mapping is not at address 0"))
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

    /// The first byte.
    fn first(memory: &SharedMemory) -> u8 {
        // SAFETY: inside; nobody else uses it.
        unsafe { memory.at(0, 1).read_volatile() }
    }

    fn set_first(memory: &SharedMemory, byte: u8) {
        // SAFETY: as above.
        unsafe { memory.at(0, 1).write_volatile(byte) };
    }

    #[test]
    fn two_mappings_are_one_memory_and_its_length_stays() {
        let made = SharedMemory::create(8192).unwrap();
        let opened = SharedMemory::open(made.descriptor().unwrap(), 8192).unwrap();
        set_first(&made, 7);
        assert_eq!(first(&opened), 7);
        assert!(ftruncate(made.descriptor().unwrap(), 0).is_err(), "sealed");
        let wrong = SharedMemory::open(made.descriptor().unwrap(), 4096);
        assert!(matches!(
            wrong,
            Err(MemoryError::Unexpected { found: 8192, .. })
        ));
    }

    #[test]
    fn memory_to_tell_is_written_by_its_maker_alone() {
        let made = SharedMemory::create_to_tell(4096).unwrap();
        assert!(SharedMemory::open(made.descriptor().unwrap(), 4096).is_err());
        let read = SharedMemory::open_to_read(made.descriptor().unwrap(), 4096).unwrap();
        set_first(&made, 9);
        assert_eq!(first(&read), 9);
        // Not even by a file descriptor.
        assert!(rustix::io::write(made.descriptor().unwrap(), &[1]).is_err());
    }

    #[test]
    fn a_descriptor_to_read_maps_to_read() {
        let made = SharedMemory::create(4096).unwrap();
        let to_read = || made.descriptor_to_read().unwrap();
        assert!(SharedMemory::open(to_read(), 4096).is_err());
        let read = SharedMemory::open_to_read(to_read(), 4096).unwrap();
        set_first(&made, 3);
        assert_eq!(first(&read), 3);
    }

    /// Who had taken a slot and left kept its memory mapped, and wrote to the queue of the next.
    #[test]
    fn renewed_memory_is_out_of_reach_of_who_had_it_before() {
        let made = SharedMemory::place(4096).unwrap();
        let at = made.at(0, 1);
        set_first(&made, 9);
        let before = SharedMemory::open(made.renew().unwrap(), 4096).unwrap();
        assert_eq!((first(&made), first(&before)), (0, 0));
        set_first(&made, 1);
        let after = SharedMemory::open(made.renew().unwrap(), 4096).unwrap();
        assert_eq!((first(&made), first(&before), at), (0, 1, made.at(0, 1)));
        set_first(&before, 2);
        assert_eq!(first(&made), 0);
        set_first(&made, 5);
        assert_eq!((first(&after), first(&before)), (5, 2));
        made.give_back().unwrap();
        set_first(&after, 6);
        assert_eq!((first(&made), at), (0, made.at(0, 1)));
    }
}
