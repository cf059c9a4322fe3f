//! How bytes go to a client and come from it: a socket, in clear or encrypted.
//!
//! Bytes are moved by `recvmsg` and `sendmsg` with plain pointers, as some of them lie in memory that other
//! connections change at the same time: no reference to such memory is ever made.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// What a call to receive came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes(usize),
    /// The client has closed its side.
    End,
    /// There is nothing now.
    Empty,
}

/// What a call to send came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Bytes(usize),
    /// There is no room now.
    Full,
}

/// See the module.
pub(crate) enum Transport {
    Clear(Arc<OwnedFd>),
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::TlsTransport>),
}

impl Transport {
    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Transport::Clear(socket) => socket.as_raw_fd(),
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => tls.descriptor(),
        }
    }

    /// Whether a wait for bytes may be left to [`Transport::receive`].
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Transport::Clear(_))
    }

    /// Whether there are bytes to receive, or to send, of which the socket knows nothing.
    pub(crate) fn has_pending(&self) -> bool {
        match self {
            Transport::Clear(_) => false,
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => tls.has_pending(),
        }
    }

    /// Whether bytes that were taken still have to leave.
    pub(crate) fn wants_to_send(&self) -> bool {
        match self {
            Transport::Clear(_) => false,
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => tls.wants_to_send(),
        }
    }

    /// Receives into `list`, and waits for the first byte if `waits`.
    ///
    /// # Safety
    /// The memory of the list may be written.
    pub(crate) unsafe fn receive(
        &mut self,
        list: &[libc::iovec],
        waits: bool,
    ) -> io::Result<Received> {
        match self {
            // SAFETY: the caller's promise.
            Transport::Clear(socket) => unsafe { receive(socket.as_raw_fd(), list, waits) },
            #[cfg(feature = "tls")]
            // SAFETY: the caller's promise.
            Transport::Tls(tls) => unsafe { tls.receive(list) },
        }
    }

    /// Sends from `list` without waiting.
    ///
    /// # Safety
    /// The memory of the list may be read.
    pub(crate) unsafe fn send(&mut self, list: &[libc::iovec]) -> io::Result<Sent> {
        match self {
            // SAFETY: the caller's promise.
            Transport::Clear(socket) => unsafe { send(socket.as_raw_fd(), list) },
            #[cfg(feature = "tls")]
            // SAFETY: the caller's promise.
            Transport::Tls(tls) => unsafe { tls.send(list) },
        }
    }

    /// Hands over what was taken and has not left.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Clear(_) => Ok(()),
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => tls.flush(),
        }
    }
}

fn message(list: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: a message without address and control data is all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = list.as_ptr().cast_mut();
    message.msg_iovlen = list.len() as _;
    message
}

/// # Safety
/// The memory of the list may be written.
unsafe fn receive(socket: RawFd, list: &[libc::iovec], waits: bool) -> io::Result<Received> {
    let mut message = message(list);
    let flags = if waits { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the caller's promise; the message lives as long as the call.
    let count = unsafe { libc::recvmsg(socket, &raw mut message, flags) };
    match count {
        0 => Ok(Received::End),
        1.. => Ok(Received::Bytes(count as usize)),
        _ => match io::Error::last_os_error() {
            e if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
            {
                Ok(Received::Empty)
            }
            error => Err(error),
        },
    }
}

/// # Safety
/// The memory of the list may be read.
unsafe fn send(socket: RawFd, list: &[libc::iovec]) -> io::Result<Sent> {
    let message = message(list);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the caller's promise; the message lives as long as the call.
    let count = unsafe { libc::sendmsg(socket, &raw const message, flags) };
    match count {
        0.. => Ok(Sent::Bytes(count as usize)),
        _ => match io::Error::last_os_error() {
            e if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
            {
                Ok(Sent::Full)
            }
            error => Err(error),
        },
    }
}
