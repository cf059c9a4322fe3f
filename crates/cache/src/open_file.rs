//! An open file, as all threads share it: its storage, its length, and who may change that.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use wharf_host::key::PAGES_MAX;
use wharf_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use wharf_storage::{StorageError, Target};

/// See the module.
///
/// *Length* and *extent*: a write first stretches the extent, so that its pages are written back whole, and
/// the length when its bytes are there to be read.
pub(super) struct OpenFile {
    pub target: Arc<dyn Target>,
    /// Its number in the cache, while it is open.
    pub number: u32,
    can_grow: bool,
    len: AtomicU64,
    extent: AtomicU64,
    /// Held shared by whoever brings pages in or writes to them, and alone by who cuts the file.
    gate: RwLock<()>,
    /// Held by whoever writes behind the last byte, so that the next one writes behind that.
    appending: Mutex<()>,
    writes_under_way: AtomicU64,
    /// A thread changes the size, or waits until it may.
    is_resized: AtomicBool,
    /// A write has failed that had stretched the extent.
    overshot: AtomicBool,
    is_closed: AtomicBool,
}

impl OpenFile {
    pub fn new(target: Arc<dyn Target>, number: u32, can_grow: bool) -> OpenFile {
        let size_bytes = target.size_bytes();
        OpenFile {
            target,
            number,
            can_grow,
            len: AtomicU64::new(size_bytes),
            extent: AtomicU64::new(size_bytes),
            gate: RwLock::new(()),
            appending: Mutex::new(()),
            writes_under_way: AtomicU64::new(0),
            is_resized: AtomicBool::new(false),
            overshot: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    pub fn name(&self) -> &str {
        &self.target.info().name
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        // Acquire: partner of the release in `stretch_len`: the bytes below are there.
        self.len.load(Ordering::Acquire)
    }

    /// The end of what has been, or is being, written.
    pub fn extent(&self) -> u64 {
        self.extent.load(Ordering::Acquire)
    }

    /// Whether its storage can be made longer and shorter.
    pub fn can_grow(&self) -> bool {
        self.can_grow
    }

    /// The most bytes that it can have.
    pub fn room(&self) -> u64 {
        match self.can_grow {
            true => PAGES_MAX * 4096,
            false => self.target.size_bytes(),
        }
    }

    pub fn stretch_extent(&self, end: u64) {
        if self.extent() < end {
            self.extent.fetch_max(end, Ordering::AcqRel);
        }
    }

    /// A write failed: the extent may lie behind what will ever be the length.
    pub fn note_failed_write(&self) {
        self.overshot.store(true, Ordering::Relaxed);
    }

    /// Makes the storage as long as the file, for the last handle goes.
    pub fn settle(&self) -> Result<(), StorageError> {
        match self.can_grow && self.overshot.load(Ordering::Relaxed) {
            true => self.resize_alone(|| self.target.trim(self.len())),
            false => self.resize_alone(|| self.grow(self.len())),
        }
    }

    pub fn stretch_len(&self, end: u64) {
        if self.len() < end {
            self.len.fetch_max(end, Ordering::AcqRel);
        }
    }

    /// Cuts the length; the extent follows when no page beyond is left. The gate is held alone.
    pub fn cut_len(&self, end: u64) {
        self.len.store(end, Ordering::Release);
    }

    pub fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to append, for a moment.
    pub fn turn_to_append(&self) -> MutexGuard<'_, ()> {
        self.appending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`OpenFile::enter`], for who need not: nothing if somebody cuts or closes the file, or has closed it.
    pub fn try_enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let gate = self.gate.try_read().ok()?;
        // Relaxed: it is changed under the gate.
        (!self.is_closed.load(Ordering::Relaxed)).then_some(gate)
    }

    /// The last handle goes. The gate is held alone.
    pub fn note_close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub fn enter_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the storage is to be made longer for a write up to byte `end`.
    pub fn must_grow(&self, end: u64) -> bool {
        self.target.size_bytes() < end
    }

    /// Begins to change the size of the storage, alone: from now on no write begins. False if another thread is at it.
    /// The caller waits until [there are no writes](OpenFile::has_writes), changes it, and [ends](OpenFile::end_resize).
    ///
    /// The system makes zeros of what lies behind the end of a file in its last page, in its own cache. A write of
    /// that page around it, at the same time, may be lost; Linux notices, and the next `fsync` fails.
    pub fn try_begin_resize(&self) -> bool {
        // SeqCst, as all of this and `try_begin_write`: one of the two sees the other.
        !self.is_resized.swap(true, Ordering::SeqCst)
    }

    /// True if writes to the storage are under way.
    pub fn has_writes(&self) -> bool {
        self.writes_under_way.load(Ordering::SeqCst) > 0
    }

    /// Writes may begin again.
    pub fn end_resize(&self) {
        self.is_resized.store(false, Ordering::SeqCst);
    }

    /// Makes the storage at least `end` bytes long. The caller has begun to change its size.
    pub fn grow(&self, end: u64) -> Result<(), StorageError> {
        match self.must_grow(end) {
            true => self.target.grow(end),
            false => Ok(()),
        }
    }

    /// Makes the storage `end` bytes long if it is longer; a write under way that passes the new end would make it
    /// longer again. No write under way is the caller's.
    pub fn shrink(&self, end: u64) -> Result<(), StorageError> {
        self.extent.store(end, Ordering::Release);
        self.resize_alone(|| {
            let outcome = match self.target.size_bytes() > end {
                true => self.target.set_size(end),
                false => Ok(()),
            };
            if outcome.is_err() {
                self.cut_len(self.target.size_bytes());
                self.stretch_extent(self.len());
            }
            outcome
        })
    }

    /// Changes the size when no write is under way; none of them is the caller's.
    fn resize_alone(
        &self,
        change: impl FnOnce() -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        while !self.try_begin_resize() {
            std::thread::yield_now();
        }
        while self.has_writes() {
            std::thread::yield_now();
        }
        let outcome = change();
        self.end_resize();
        outcome
    }

    /// Begins a write to the storage; false while its size changes.
    pub fn try_begin_write(&self) -> bool {
        // Those who wait here must not be counted again and again: who changes the size waits for a
        // moment in which nobody is.
        if self.is_resized.load(Ordering::SeqCst) {
            return false;
        }
        self.writes_under_way.fetch_add(1, Ordering::SeqCst);
        let may = !self.is_resized.load(Ordering::SeqCst);
        if !may {
            self.end_write();
        }
        may
    }

    pub fn end_write(&self) {
        self.writes_under_way.fetch_sub(1, Ordering::SeqCst);
    }
}
