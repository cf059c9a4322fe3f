//! Positioned access to an image file, with a switch that stops all writes as a kill would.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags};
use wharf_runtime::clock::Clock;

use super::syncing::{HeldSyncs, Syncer, Syncing};
use crate::media::HostFault;

/// Where a simulated kill of the process strikes; see [`FileImage::kill_at`](super::FileImage).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillPoint {
    /// Writes to the file that still succeed.
    pub writes: u64,
    /// Bytes of the write after them that still reach the file.
    pub torn_bytes: usize,
}

/// Zeros that are written at a time.
const ZEROS_BYTES: u64 = 1 << 20;

/// How long a file system that was full is not asked again.
const FULL_NS: u64 = 100_000_000;

/// What statfs says of file systems that are memory: nothing is waited for there.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// An open image file. The cores share it: positioned reads and writes do not interfere.
#[derive(Debug)]
pub struct Store {
    file: Arc<File>,
    path: PathBuf,
    syncer: Syncer,
    /// Whether the file is memory.
    is_in_memory: bool,
    /// Until when the file system counts as full.
    full_until_ns: Mutex<u64>,
    clock: Clock,
    /// Whether barriers reach the disk: see [`FileOptions`](super::FileOptions).
    ordered: bool,
    /// Whether the file system cannot read without waiting.
    always_waits: AtomicBool,
    /// Whether `kill` is to be looked at: no write takes the lock otherwise.
    armed: AtomicBool,
    kill: Mutex<Option<KillPoint>>,
    /// All that reached the file, in order, for tests that let a crash forget some of it.
    #[cfg(test)]
    pub journal: Mutex<Vec<Event>>,
}

/// What reached the file.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Write { at: u64, bytes: Vec<u8> },
    Sync,
}

type Access<T> = Result<T, Box<HostFault>>;

impl Store {
    pub fn new(file: File, path: PathBuf, ordered: bool) -> Self {
        // Linux' magic numbers have 32 bits, whatever the type is here.
        let kind = rustix::fs::fstatfs(&file).map(|about| about.f_type as u32);
        Self {
            file: Arc::new(file),
            path,
            syncer: Syncer::default(),
            is_in_memory: kind.is_ok_and(|kind| IN_MEMORY.contains(&kind)),
            full_until_ns: Mutex::new(0),
            clock: Clock::start(),
            ordered,
            always_waits: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            kill: Mutex::new(None),
            #[cfg(test)]
            journal: Mutex::new(Vec::new()),
        }
    }

    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    pub fn kill_at(&self, point: KillPoint) {
        *self.kill.lock().expect("no panic under this lock") = Some(point);
        self.armed.store(true, Ordering::Release);
    }

    fn fault(&self, action: &'static str, cause: io::Error) -> Box<HostFault> {
        Box::new(HostFault {
            action,
            path: self.path.clone(),
            cause,
        })
    }

    /// Counts a write against the kill point; the bytes of it that still count, if it is hit.
    fn killed(&self) -> Option<usize> {
        if !self.armed.load(Ordering::Acquire) {
            return None;
        }
        let mut kill = self.kill.lock().expect("no panic under this lock");
        let point = kill.as_mut()?;
        match point.writes.checked_sub(1) {
            Some(left) => {
                point.writes = left;
                None
            }
            None => Some(std::mem::take(&mut point.torn_bytes)),
        }
    }

    pub fn read_at(&self, action: &'static str, out: &mut [u8], at: u64) -> Access<()> {
        self.file
            .read_exact_at(out, at)
            .map_err(|cause| self.fault(action, cause))
    }

    /// As [`Store::read_at`], without waiting for the disk: false if what is asked for is on its way into the system's
    /// cache. Where the file system cannot say so, it waits.
    pub fn read_if_near(&self, action: &'static str, out: &mut [u8], at: u64) -> Access<bool> {
        // Relaxed: whoever comes too late finds out for itself.
        if out.is_empty() || self.always_waits.load(Ordering::Relaxed) {
            return self.read_at(action, out, at).map(|()| true);
        }
        let bytes = out.len();
        let mut pieces = [io::IoSliceMut::new(out)];
        let read = rustix::io::preadv2(&self.file, &mut pieces, at, ReadWriteFlags::NOWAIT);
        match read {
            Ok(count) if count == bytes => Ok(true),
            // The end of the file: nothing is on its way.
            Ok(0) => self.read_at(action, out, at).map(|()| true),
            Ok(_) | Err(Errno::AGAIN) => {
                // Advice that is not taken costs time alone: the reader waits in the end.
                let len = NonZeroU64::new(bytes as u64);
                let _ = rustix::fs::fadvise(&self.file, at, len, Advice::WillNeed);
                Ok(false)
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.always_waits.store(true, Ordering::Relaxed);
                self.read_at(action, out, at).map(|()| true)
            }
            Err(errno) => Err(self.fault(action, errno.into())),
        }
    }

    #[cfg(test)]
    fn note(&self, event: Event) {
        self.journal
            .lock()
            .expect("no panic under this lock")
            .push(event);
    }

    pub fn write_at(&self, action: &'static str, bytes: &[u8], at: u64) -> Access<()> {
        #[cfg(test)]
        self.note(Event::Write {
            at,
            bytes: bytes.to_vec(),
        });
        let Some(torn) = self.killed() else {
            return self
                .file
                .write_all_at(bytes, at)
                .map_err(|cause| self.fault(action, cause));
        };
        let torn = &bytes[..torn.min(bytes.len())];
        self.file
            .write_all_at(torn, at)
            .map_err(|cause| self.fault(action, cause))?;
        Err(self.fault(
            action,
            io::Error::other("the process was killed (simulated)"),
        ))
    }

    /// Gives the space of a range back to the file system; it reads as zeros afterwards.
    ///
    /// Where the file system cannot do that, the range is left as it is: nothing relies on it.
    pub fn punch(&self, action: &'static str, at: u64, bytes: u64) -> Access<()> {
        if self.killed().is_some() {
            return Err(self.fault(
                action,
                io::Error::other("the process was killed (simulated)"),
            ));
        }
        #[cfg(test)]
        self.note(Event::Write {
            at,
            bytes: vec![0; bytes as usize],
        });
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = rustix::fs::fallocate(&self.file, mode, at, bytes);
        // There may be room again.
        *self.full_until_ns() = 0;
        match punched {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(self.fault(action, errno.into())),
        }
    }

    /// Makes a range zeros.
    pub fn zero(&self, action: &'static str, at: u64, bytes: u64) -> Access<()> {
        let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, mode, at, bytes).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; ZEROS_BYTES.min(bytes) as usize];
        let (mut at, end) = (at, at + bytes);
        while at < end {
            let step = ZEROS_BYTES.min(end - at);
            self.write_at(action, &zeros[..step as usize], at)?;
            at += step;
        }
        Ok(())
    }

    pub fn sync(&self) -> Access<()> {
        self.check_sync()?;
        if self.syncer.is_held() {
            let late = io::Error::other("the disk does not answer (simulated)");
            return Err(self.fault("sync", late));
        }
        #[cfg(test)]
        self.note(Event::Sync);
        self.file
            .sync_data()
            .map_err(|cause| self.fault("sync", cause))
    }

    fn check_sync(&self) -> Access<()> {
        match self.killed() {
            None => Ok(()),
            Some(_) => Err(self.fault(
                "sync",
                io::Error::other("the process was killed (simulated)"),
            )),
        }
    }

    /// Begins a sync beside, of all that was written before.
    pub fn begin_sync(&self, period: Option<u32>) -> Access<Syncing> {
        self.check_sync()?;
        Ok(self.syncer.begin(&self.file, period))
    }

    /// Waits for a sync beside.
    pub fn end_sync(&self, syncing: &Syncing) -> Access<()> {
        syncing.wait().map_err(|cause| self.fault("sync", cause))
    }

    /// See [`FileImage::hold_syncs`](super::FileImage::hold_syncs).
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.syncer.hold()
    }

    /// Whether a sync has nothing to wait for.
    pub fn syncs_at_once(&self) -> bool {
        self.is_in_memory && !self.syncer.is_held()
    }

    fn full_until_ns(&self) -> MutexGuard<'_, u64> {
        let until_ns = self.full_until_ns.lock();
        until_ns.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives ranges of the file room on its file system, each by its start and length, so that
    /// writes to them find some; false if there is none left. Where the file system cannot say,
    /// writes find out.
    pub fn reserve(&self, ranges: &[(u64, u64)]) -> bool {
        let mut until_ns = self.full_until_ns();
        if *until_ns > 0 && self.clock.now_ns() < *until_ns {
            return false;
        }
        let has_room = |(at, bytes): &(u64, u64)| {
            let made = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, *at, *bytes);
            !matches!(made, Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
        };
        let is_full = !ranges.iter().all(has_room);
        *until_ns = match is_full {
            true => self.clock.now_ns() + FULL_NS,
            false => 0,
        };
        !is_full
    }

    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Keeps writes before it from reaching the disk after writes behind it, if that is wanted.
    pub fn barrier(&self) -> Access<()> {
        if self.ordered { self.sync() } else { Ok(()) }
    }

    /// The first byte from `at` on that is not in a hole; `None` if there is no such byte.
    ///
    /// Where the file system does not know its holes, that is `at` itself.
    pub fn next_data(&self, at: u64) -> Option<u64> {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(at)) {
            Ok(found) => Some(found),
            Err(rustix::io::Errno::NXIO) => None,
            Err(_) => Some(at),
        }
    }
}

/// Reads a range of the file from its start to its end.
pub struct RangeReader<'a> {
    pub store: &'a Store,
    pub at: u64,
    pub end: u64,
}

impl io::Read for RangeReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = (self.end - self.at).min(out.len() as u64) as usize;
        let read = self.store.file.read_at(&mut out[..bytes], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
