//! The sessions of a drive that is served: which there are, and taking them back. For whoever owns the process that serves it.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use wharf_wire::file::Revoke;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::attach::asked;
use super::handshake::{self, Ask};

/// A process that has attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SessionRow {
    /// Number of its session.
    pub session: u64,
    /// When its claims expire, in nanoseconds since 1970.
    pub expires_ns: u64,
    /// The process.
    pub process: i32,
    /// Its user, as it was when it showed who it is.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Bit 0: it may name any user. Bit 1: it may change nothing.
    pub rights: u32,
}

/// The sessions of the drive that is served at `socket`.
///
/// # Errors
/// If nobody serves one there, or does not say.
pub fn sessions(socket: &Path) -> io::Result<Vec<SessionRow>> {
    let mut connection = asked(socket, &Ask::list())?;
    let mut count = [0; 4];
    connection.read_exact(&mut count).map_err(refused)?;
    let count = u32::from_ne_bytes(count);
    let mut rows = vec![SessionRow::new_zeroed(); count.min(1 << 16) as usize];
    connection.read_exact(rows.as_mut_bytes())?;
    Ok(rows)
}

/// Takes sessions back: what they have open is closed, and the drive does nothing for them any more. A process may attach
/// anew, if it still gets at the socket.
///
/// # Errors
/// If nobody serves a drive at `socket`, or does not do it for this process.
pub fn revoke(socket: &Path, kind: Revoke, which: u64) -> io::Result<()> {
    done(asked(socket, &Ask::revoke(kind, which))?)
}

/// Gives the drive that is served at `socket` a new key. Who is there goes on until its claims expire.
///
/// # Errors
/// As [`revoke`].
pub fn new_key(socket: &Path) -> io::Result<()> {
    done(asked(socket, &Ask::new_key())?)
}

fn done(mut connection: UnixStream) -> io::Result<()> {
    let mut outcome = [0; 4];
    connection.read_exact(&mut outcome).map_err(refused)?;
    match u32::from_ne_bytes(outcome) {
        handshake::DONE => Ok(()),
        _ => Err(io::Error::other("the drive has not done it")),
    }
}

/// Who may not ask gets no answer.
fn refused(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            let why = "only the user who serves the drive, and root, may do that";
            io::Error::new(ErrorKind::PermissionDenied, why)
        }
        _ => error,
    }
}
