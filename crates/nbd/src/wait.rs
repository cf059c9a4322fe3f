//! Waiting for descriptors, and waking a thread that does.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    Both,
    /// Only whether the other side is gone.
    Neither,
}

impl Interest {
    /// An entry of a set.
    pub(crate) fn on(self, descriptor: RawFd) -> libc::pollfd {
        libc::pollfd {
            fd: descriptor,
            events: match self {
                Interest::Read => libc::POLLIN,
                Interest::Write => libc::POLLOUT,
                Interest::Both => libc::POLLIN | libc::POLLOUT,
                Interest::Neither => 0,
            },
            revents: 0,
        }
    }
}

/// Waits until one of the set is ready, or so long; whatever happened is in the set.
pub(crate) fn wait(set: &mut [libc::pollfd], limit_ns: Option<u64>) -> io::Result<()> {
    let limit = limit_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the set and the time live as long as the call; no signal mask.
    let ready = unsafe {
        libc::ppoll(
            set.as_mut_ptr(),
            set.len() as libc::nfds_t,
            limit,
            std::ptr::null(),
        )
    };
    if ready < 0 {
        set.iter_mut().for_each(|entry| entry.revents = 0);
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        };
    }
    Ok(())
}

/// A bell that wakes a thread which waits for its descriptor.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Bell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Bell(eventfd(0, flags)?))
    }

    /// Readable once it was rung.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Rings it.
    pub fn ring(&self) {
        // Full means that it has been rung often enough.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it silent again.
    pub fn silence(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}
