//! The disk of a flash cache on real storage: sectors of 4096 bytes over a channel of
//! `wharf-storage`.
//!
//! The walk of a read: the keeper's task cuts it into pieces, submits each as an I/O into aligned
//! memory of its own, and sleeps; the thread's [`Reactor`] wakes it. So a thread with a cache never
//! waits for the disk while it has anything else to do, and where it has not, it sleeps on a
//! descriptor of the reactor together with the sockets of its clients.
//!
//! After a flush that failed nobody knows what of the writes before it the disk has (Linux forgets
//! them, and says so once). So from then on writes and flushes fail, until the disk is opened
//! again; reads go on.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_host::backing::{SECTOR_BYTES, Sectors};
use wharf_host::error::IoError;
use wharf_nbd::Errno as NbdErrno;
use wharf_runtime::Cpu;
use wharf_storage::{Errno, Op, StorageError, Target};

use super::reactor::{Pending, Reactor, Way};

/// Sectors of an I/O, at most: 1 MiB.
const PIECE_SECTORS: usize = 256;
/// Holes are made in steps of so many bytes.
const HOLE_BYTES: u64 = 256 << 20;

/// See the module.
pub struct TargetSectors {
    reactor: Rc<Reactor>,
    way: Rc<Way>,
    target: Arc<dyn Target>,
    sectors: u64,
    /// Why writes fail from now on.
    broken: Cell<Option<IoError>>,
}

impl TargetSectors {
    /// The first `sectors` sectors of a target, for tasks of `cpu` on this thread.
    ///
    /// # Errors
    /// If there can be no channel to it.
    pub fn new(
        cpu: &Cpu,
        target: Arc<dyn Target>,
        sectors: u64,
    ) -> Result<TargetSectors, StorageError> {
        let reactor = Reactor::of_thread().map_err(StorageError::Thread)?;
        let way = Way::new(&reactor, cpu, &*target)?;
        Ok(TargetSectors {
            reactor,
            way,
            target,
            sectors,
            broken: Cell::new(None),
        })
    }

    fn check(&self, first: u64, sectors: u64) -> Result<(), IoError> {
        match first.checked_add(sectors) {
            Some(end) if end <= self.sectors => Ok(()),
            _ => Err(IoError::OutOfRange {
                first,
                pages: sectors,
                volume_pages: self.sectors,
            }),
        }
    }

    fn check_write(&self) -> Result<(), IoError> {
        self.broken.get().map_or(Ok(()), Err)
    }

    async fn begin(&self, op: Op, sector: u64, data: Option<&[u8]>, len: usize) -> Pending {
        let mut buffer = self.reactor.take_buffer(len);
        if let Some(data) = data {
            buffer[..len].copy_from_slice(data);
        }
        let offset = sector * SECTOR_BYTES as u64;
        self.way.submit(op, offset, buffer, len).await
    }

    /// Waits for an I/O, and gives what it has read to `take`.
    async fn end(&self, pending: Pending, take: impl FnOnce(&[u8])) -> Result<(), IoError> {
        let (buffer, outcome) = pending.0.wait(&self.way.cpu).await;
        if outcome.is_ok() {
            take(&buffer);
        }
        self.reactor.give_back(buffer);
        outcome
    }

    /// Makes a hole, in steps, on a thread beside. False if there are none here.
    async fn punch(&self, first: u64, sectors: u64) -> Result<bool, IoError> {
        let bytes = SECTOR_BYTES as u64;
        let (at, end) = (first * bytes, (first + sectors) * bytes);
        let end = end.min(self.target.size_bytes());
        if self.target.holes().is_none() || at >= end {
            return Ok(at >= end);
        }
        let target = self.target.clone();
        let punched = self.reactor.call(&self.way.cpu, move || {
            let holes = target.holes().expect("it has");
            let mut at = at;
            while at < end {
                let step = HOLE_BYTES.min(end - at);
                let done = holes.punch(at, step);
                done.map_err(|errno| NbdErrno::of_system(errno.raw_os_error()))?;
                at += step;
            }
            Ok(())
        });
        match punched.0.wait(&self.way.cpu).await {
            Ok(()) => Ok(true),
            Err(true) => Ok(false),
            Err(false) => Err(IoError::System {
                doing: "making a hole in the disk",
                offset: at,
                errno: Errno::IO.raw_os_error(),
            }),
        }
    }
}

impl Sectors for TargetSectors {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        self.check(first, (out.len() / SECTOR_BYTES) as u64)?;
        let mut begun = Vec::new();
        let mut at = first;
        for piece in out.chunks(PIECE_SECTORS * SECTOR_BYTES) {
            begun.push(self.begin(Op::Read, at, None, piece.len()).await);
            at += (piece.len() / SECTOR_BYTES) as u64;
        }
        let pieces = out.chunks_mut(PIECE_SECTORS * SECTOR_BYTES);
        for (piece, pending) in pieces.zip(begun) {
            let take = |from: &[u8]| piece.copy_from_slice(&from[..piece.len()]);
            self.end(pending, take).await?;
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        self.check(first, (data.len() / SECTOR_BYTES) as u64)?;
        self.check_write()?;
        let mut begun = Vec::new();
        let mut at = first;
        for piece in data.chunks(PIECE_SECTORS * SECTOR_BYTES) {
            begun.push(self.begin(Op::Write, at, Some(piece), piece.len()).await);
            at += (piece.len() / SECTOR_BYTES) as u64;
        }
        let mut outcome = Ok(());
        for pending in begun {
            // All of them: who is told of an error may write the same again at once.
            outcome = outcome.and(self.end(pending, |_| ()).await);
        }
        outcome
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.check_write()?;
        let pending = self.begin(Op::Flush, 0, None, 0).await;
        let outcome = self.end(pending, |_| ()).await;
        if let Err(error) = outcome {
            self.broken.set(Some(error));
        }
        outcome
    }

    async fn forget(&self, first: u64, sectors: u64) -> Result<(), IoError> {
        self.check(first, sectors)?;
        // A hint: where it cannot be done the sectors keep their room.
        let _ = self.punch(first, sectors).await;
        Ok(())
    }

    async fn zero(&self, first: u64, sectors: u64) -> Result<bool, IoError> {
        self.check(first, sectors)?;
        self.check_write()?;
        self.punch(first, sectors).await
    }
}

#[cfg(test)]
#[path = "sectors_tests.rs"]
mod tests;
