//! Where clients come in: unix sockets, TCP, and sockets that were handed over by whoever started the program.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{SocketFlags, accept_with, sockopt};

/// The first descriptor that is handed over, by the protocol of systemd.
const FIRST_HANDED_OVER: RawFd = 3;
/// Most that are looked at.
const HANDED_OVER_MAX: u32 = 64;

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    is_tcp: bool,
    /// Removed at the end, if it is still this socket.
    path: Option<(PathBuf, (u64, u64))>,
    name: String,
}

impl Listener {
    /// A unix socket at `path`. One that a dead server left there is replaced.
    ///
    /// # Errors
    /// If somebody listens there, or something else is there.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
                let is_dead = UnixStream::connect(path)
                    .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
                if !is_socket || !is_dead {
                    return Err(error);
                }
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        let identity = identity(path)?;
        Ok(Listener {
            socket: listener.into(),
            is_tcp: false,
            path: Some((path.to_path_buf(), identity)),
            name: path.display().to_string(),
        })
    }

    /// A TCP socket at an address, `HOST:PORT`.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn tcp(address: &str) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        let name = listener.local_addr()?.to_string();
        Ok(Listener {
            socket: listener.into(),
            is_tcp: true,
            path: None,
            name,
        })
    }

    /// The sockets that were handed over to this process (`LISTEN_FDS` and `LISTEN_PID`), which are
    /// taken by whoever calls this first.
    ///
    /// # Errors
    /// If what was handed over does not listen.
    pub fn handed_over() -> io::Result<Vec<Listener>> {
        let number = |name: &str| -> Option<u32> { std::env::var(name).ok()?.parse().ok() };
        let (Some(pid), Some(count)) = (number("LISTEN_PID"), number("LISTEN_FDS")) else {
            return Ok(Vec::new());
        };
        if pid != std::process::id() {
            return Ok(Vec::new());
        }
        let descriptors =
            FIRST_HANDED_OVER..FIRST_HANDED_OVER + count.min(HANDED_OVER_MAX) as RawFd;
        descriptors.map(taken).collect()
    }

    /// Where it is, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// A connection that waits, if there is one.
    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        let socket = accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        if self.is_tcp {
            // Replies are sent whole: nothing is gained by holding back the last piece.
            sockopt::set_tcp_nodelay(&socket, true)?;
            // A client whose machine died is noticed some day.
            sockopt::set_socket_keepalive(&socket, true)?;
        }
        Ok(socket)
    }

    /// Makes [`Listener::accept`] return at once if nobody waits.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, true)?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((path, made)) = &self.path
            && identity(path).is_ok_and(|now| now == *made)
        {
            // What cannot be removed is as it is.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Which file a path is.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let kind = std::fs::symlink_metadata(path)?;
    Ok((kind.dev(), kind.ino()))
}

/// One of the descriptors that were handed over.
fn taken(descriptor: RawFd) -> io::Result<Listener> {
    // SAFETY: by LISTEN_FDS it is open, and it is this process's to use; a descriptor that is not open
    // is refused by the next call, and closing it changes nothing.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    if !sockopt::socket_acceptconn(&socket)? {
        return Err(io::Error::other(format!(
            "descriptor {descriptor}, which was handed over, is no socket that listens"
        )));
    }
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let domain = sockopt::socket_domain(&socket)?;
    Ok(Listener {
        socket,
        is_tcp: domain != rustix::net::AddressFamily::UNIX,
        path: None,
        name: format!("descriptor {descriptor}"),
    })
}
