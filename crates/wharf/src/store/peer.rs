//! Who is at the other end of a socket, as the kernel says.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The process that has connected, as it was then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) process: i32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Its supplementary groups.
    pub(super) groups: Vec<u32>,
}

impl Peer {
    /// Asks the kernel (`SO_PEERCRED` and `SO_PEERGROUPS` of Linux).
    ///
    /// # Errors
    /// If it does not say.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let found = rustix::net::sockopt::socket_peercred(stream)?;
        Ok(Peer {
            process: found.pid.as_raw_nonzero().get(),
            uid: found.uid.as_raw(),
            gid: found.gid.as_raw(),
            groups: groups(stream)?,
        })
    }

    /// Whether this process's user may do everything that the other may: it is the same user, or root.
    pub(super) fn owns_this(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

fn groups(stream: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        let mut bytes = (4 * groups.len()) as libc::socklen_t;
        // SAFETY: room for as many bytes as it is told, and where it says how many there were.
        let got = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / 4;
        if got == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // It then says how much room it takes.
        match error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() {
            true => groups.resize(count, 0),
            false => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_who_it_is() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.process, std::process::id() as i32);
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
        let mut own = rustix::process::getgroups().unwrap();
        own.retain(|group| !peer.groups.contains(&group.as_raw()));
        assert!(own.is_empty() && peer.owns_this());
    }
}
