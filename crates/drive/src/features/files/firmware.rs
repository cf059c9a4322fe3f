//! What the cores of a drive share to serve files: the file system, which one of them opens at power-on.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use wharf_files::volume::Recovered;
use wharf_files::{Errno, FileError};

use super::access::Access;
use super::compute::ComputeMemory;
use super::find::OpenError;
use super::leases::Leases;
use super::lines::FileSystemOfDrive;
use super::locks::Locks;
use super::near::Near;
use super::sessions::Sessions;
use super::time::Clock;
use crate::memory::DeviceMemory;

/// What has become of the file system.
enum State {
    Opening(Vec<Waker>),
    Open(Rc<FileSystemOfDrive>, Recovered),
    Failed(Rc<OpenError>),
}

/// The file system of a drive, who speaks to it, and what is added to the clock of its times.
pub struct Firmware {
    state: RefCell<State>,
    sessions: Sessions,
    locks: Locks,
    access: Access,
    leases: Rc<Leases>,
    near: Rc<Near>,
    compute: ComputeMemory,
    clock: Rc<Clock>,
}

impl Firmware {
    /// One that waits for the file system to be opened.
    pub(super) fn opening(
        locks: Locks,
        access: Access,
        (memory, near_host_pages): (Option<Rc<DeviceMemory>>, u32),
        compute: ComputeMemory,
    ) -> Firmware {
        let clock = Rc::<Clock>::default();
        Firmware {
            state: RefCell::new(State::Opening(Vec::new())),
            sessions: Sessions::default(),
            locks,
            access,
            leases: Rc::new(Leases::new(clock.clone())),
            near: Rc::new(Near::new(memory, near_host_pages, clock.clone())),
            compute,
            clock,
        }
    }

    /// The file system has been opened, or cannot be.
    pub(super) fn opened(&self, opened: Result<(FileSystemOfDrive, Recovered), OpenError>) {
        let state = match opened {
            Ok((opened, recovered)) => State::Open(Rc::new(opened), recovered),
            Err(failed) => State::Failed(Rc::new(failed)),
        };
        if let State::Opening(waiting) = self.state.replace(state) {
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// The file system, once it has been opened.
    ///
    /// # Errors
    /// `ENXIO` if there is none; of damage.
    pub async fn file_system(&self) -> Result<Rc<FileSystemOfDrive>, FileError> {
        poll_fn(|context| match &mut *self.state.borrow_mut() {
            State::Opening(waiting) => {
                waiting.push(context.waker().clone());
                Poll::Pending
            }
            State::Open(open, _) => Poll::Ready(Ok(open.clone())),
            State::Failed(failed) => Poll::Ready(Err(failed.as_seen())),
        })
        .await
    }

    /// What hosts have open.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Locks of files.
    pub(super) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// A host has closed all, or is gone: its locks, and what it waits for, and its leases end.
    pub(super) fn end_host(&self, host: u32) {
        self.leases.locks.host_leaves(host);
        self.locks.end_session(host);
        self.leases.host_leaves(host);
        self.leases.writers.forget_lost(host);
    }

    /// Who hosts are.
    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// What hosts keep of files.
    pub(super) fn leases(&self) -> &Rc<Leases> {
        &self.leases
    }

    /// Pages of files that hosts have the drive keep.
    pub(super) fn near(&self) -> &Rc<Near> {
        &self.near
    }

    /// Memory for computing.
    pub(super) fn compute(&self) -> &ComputeMemory {
        &self.compute
    }

    /// Pages of files that the drive keeps for hosts, and those of them that the media do not have yet; checks that they are in
    /// order.
    ///
    /// # Panics
    /// If they are not.
    pub fn near_pages(&self) -> (u32, u32) {
        self.near.verify()
    }

    /// What time it is for files, when it is `clock_ns` by the drive's clock.
    pub fn now_ns(&self, clock_ns: u64) -> u64 {
        self.clock.now_ns(clock_ns)
    }

    /// From now on, when it is `clock_ns` by the drive's clock, it is `now_ns` for files.
    pub fn set_time(&self, clock_ns: u64, now_ns: u64) {
        self.clock.set(clock_ns, now_ns);
    }

    /// Whether that has been said.
    pub fn is_time_set(&self) -> bool {
        self.clock.is_set()
    }

    /// The file system, if it is open.
    pub fn open_now(&self) -> Option<Rc<FileSystemOfDrive>> {
        match &*self.state.borrow() {
            State::Open(open, _) => Some(open.clone()),
            State::Opening(_) | State::Failed(_) => None,
        }
    }

    /// What was done to bring the file system up to date, once it is open.
    pub fn recovered(&self) -> Option<Recovered> {
        match &*self.state.borrow() {
            State::Open(_, recovered) => Some(*recovered),
            State::Opening(_) | State::Failed(_) => None,
        }
    }

    /// Why there is no file system, if there is none.
    pub fn failed(&self) -> Option<Rc<OpenError>> {
        match &*self.state.borrow() {
            State::Failed(failed) => Some(failed.clone()),
            State::Opening(_) | State::Open(..) => None,
        }
    }
}

impl OpenError {
    /// As commands see it.
    fn as_seen(&self) -> FileError {
        match self {
            OpenError::Files(error) => *error,
            _ => Errno::ENXIO.into(),
        }
    }
}
