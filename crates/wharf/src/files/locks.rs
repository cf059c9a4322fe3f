//! Locks of open files: those of the drive, which all see who use the image, in whatever process.
//!
//! What this process has goes when it ends, however that is. Closing a file gives back what was locked by it through
//! [`File::lock`] and its like; [`FileDrive::lock`] leaves all to its user.

use std::io;

use wharf_files::locks::{LockKind, LockRange, LockSpace};
use wharf_files::{Errno, FileError, Handle};
use wharf_host::stor::{HeldLock, LockRequest};

use super::cache::Change;
use super::drive::{About, FileDrive};
use super::file::File;
use super::system;

impl FileDrive {
    /// Gives an owner a lock of an open file, in the place of what it has there. If the request waits, this thread
    /// does, and with it a drive that is on it.
    ///
    /// # Errors
    /// `EAGAIN` if somebody else has it, and the request does not wait; `EDEADLK`; `ENOLCK` if there are too many;
    /// `EBADF` if the file is not open for what the lock of a range is for.
    pub fn lock(&self, handle: Handle, request: &LockRequest) -> Result<(), FileError> {
        match self.locked_here(handle, request)? {
            Some(done) => done,
            None => {
                let client = self.client();
                self.done_about(About::Locks, client.lock(handle, request))
            }
        }
    }

    /// As [`FileDrive::lock`], until `stop` says that it is not to be waited for any more: it is asked each millisecond
    /// of a wait, on this thread. A signal's handler may have it say so.
    ///
    /// # Errors
    /// As [`FileDrive::lock`]; `EINTR` if it was stopped.
    pub fn lock_unless(
        &self,
        handle: Handle,
        request: &LockRequest,
        stop: impl FnMut() -> bool,
    ) -> Result<(), FileError> {
        match self.locked_here(handle, request)? {
            Some(done) => done,
            None => {
                let client = self.client();
                self.done_about(
                    About::Locks,
                    client.lock_unless(handle, request, Some(stop)),
                )
            }
        }
    }

    /// Takes a range away from its owner; a whole-file lock, if that is meant.
    ///
    /// # Errors
    /// `ENOLCK` if a lock would be split, and there are too many.
    pub fn unlock(
        &self,
        handle: Handle,
        owner: u64,
        space: LockSpace,
        range: LockRange,
    ) -> Result<(), FileError> {
        let change = Change::Unlock(owner, space, range);
        if let Some(done) = self.changed_here(handle, change) {
            return done;
        }
        let client = self.client();
        self.done_about(About::Locks, client.unlock(handle, owner, space, range))
    }

    /// Takes all that an owner has of a file in a space. Closing a handle does not do that: it comes before.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub fn release_locks(
        &self,
        handle: Handle,
        owner: u64,
        space: LockSpace,
    ) -> Result<(), FileError> {
        let change = Change::Release(owner, space);
        if let Some(done) = self.changed_here(handle, change) {
            return done;
        }
        let client = self.client();
        self.done_about(About::Locks, client.release_locks(handle, owner, space))
    }

    /// The first lock that is in the way of one, if there is any.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub fn test_lock(
        &self,
        handle: Handle,
        request: &LockRequest,
    ) -> Result<Option<HeldLock>, FileError> {
        let cache = self.usable();
        let known = cache.and_then(|cache| cache.borrow_mut().test_lock(handle, request));
        if let Some(found) = known {
            return Ok(found);
        }
        let client = self.client();
        let found = self.done_about(About::Locks, client.test_lock(handle, request))?;
        if let (Some(cache), Some(found)) = (self.usable(), &found) {
            cache.borrow_mut().learn_lock(found);
        }
        Ok(found)
    }

    /// Gives a lock without a command, if this process may grant it, or may do so from now on; none if it takes one.
    fn locked_here(
        &self,
        handle: Handle,
        request: &LockRequest,
    ) -> Result<Option<Result<(), FileError>>, FileError> {
        let Some(cache) = self.usable() else {
            return Ok(None);
        };
        let change = Change::Lock(request);
        let mut done = cache.borrow_mut().change_locks(handle, change);
        if done.is_none() {
            let Some((wanted, may)) = cache.borrow_mut().ask_for_locks(handle) else {
                return Ok(None);
            };
            let client = self.client();
            let lease = self.done_about(About::Locks, client.lease_locks(handle, wanted.word));
            let mut cache = cache.borrow_mut();
            cache.may_lock((wanted, may), *lease.as_ref().unwrap_or(&0));
            lease?;
            done = cache.change_locks(handle, change);
        }
        // Waits are in the drive.
        let waits = |done: &Result<(), Errno>| request.waits && *done == Err(Errno::EAGAIN);
        let done = done.filter(|done| !waits(done));
        Ok(done.map(|done| done.map_err(FileError::from)))
    }

    /// Gives locks back without a command; none if it takes one.
    fn changed_here(&self, handle: Handle, change: Change<'_>) -> Option<Result<(), FileError>> {
        let done = self.usable()?.borrow_mut().change_locks(handle, change)?;
        Some(done.map_err(FileError::from))
    }
}

impl File<'_> {
    /// Locks the whole file, alone; waits while others have it. As `flock` does it: whoever does not ask is not
    /// kept out, and a lock of the other kind is given back first.
    ///
    /// # Errors
    /// `ENOLCK` if there are too many.
    pub fn lock(&self) -> io::Result<()> {
        self.flock(LockKind::Exclusive, true)
    }

    /// Locks the whole file together with others who do; waits while somebody has it alone.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub fn lock_shared(&self) -> io::Result<()> {
        self.flock(LockKind::Shared, true)
    }

    /// As [`File::lock`], without a wait; gives whether it is locked.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub fn try_lock(&self) -> io::Result<bool> {
        unless_held(self.flock(LockKind::Exclusive, false))
    }

    /// As [`File::lock_shared`], without a wait; gives whether it is locked.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub fn try_lock_shared(&self) -> io::Result<bool> {
        unless_held(self.flock(LockKind::Shared, false))
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// `EIO`.
    pub fn unlock(&self) -> io::Result<()> {
        let (whole, all) = (LockSpace::Whole, LockRange::ALL);
        let unlocked = self.drive().unlock(self.handle(), self.owner(), whole, all);
        self.is_locked.set(false);
        unlocked.map_err(system)
    }

    fn flock(&self, kind: LockKind, waits: bool) -> io::Result<()> {
        let request = LockRequest {
            owner: self.owner(),
            space: LockSpace::Whole,
            range: LockRange::ALL,
            kind,
            waits,
            detects: false,
        };
        self.is_locked.set(true);
        let locked = self.drive().lock(self.handle(), &request);
        locked.map_err(system)
    }

    /// An open file is an owner of its own.
    fn owner(&self) -> u64 {
        let Handle { index, generation } = self.handle();
        u64::from(generation) << 32 | u64::from(index)
    }
}

fn unless_held(locked: io::Result<()>) -> io::Result<bool> {
    match locked {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::EAGAIN.number()) => Ok(false),
        Err(error) => Err(error),
    }
}
