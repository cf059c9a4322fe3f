//! Requests that could not be served.

use wharf_wire::opcode::{AdminOpcode, IoOpcode};
use wharf_wire::status::{Status, StatusCode};

/// A completion that belongs to no command in flight: the drive is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "drive {drive}: completion of command {cid:#06x} ({status}), which is not in flight: ignored"
)]
pub struct Stray {
    /// Which drive of the volume.
    pub drive: u16,
    /// The identifier in the completion.
    pub cid: u16,
    /// The status in the completion.
    pub status: Status,
}

/// What is wrong with the store on a disk behind a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DiskFault {
    /// There is no room.
    #[error("the disk behind the cache is full: discard data, or use a larger disk")]
    Full,
    /// What the disk holds of a page is damaged.
    #[error("page {page} cannot be read from the disk behind the cache: it is damaged there")]
    Damaged {
        /// The page.
        page: u64,
    },
    /// What the cache had of a page, and the disk has not, is lost.
    #[error(
        "page {page} is lost: the drive of the cache does not give it back, and the disk has an older one"
    )]
    Lost {
        /// The page.
        page: u64,
    },
    /// Somebody else has the disk.
    #[error("somebody else has opened the disk behind the cache: this cache does not write to it")]
    Fenced,
    /// The store is no store, or not this cache's, or cannot be on the disk.
    #[error("the disk behind the cache holds no store of this cache, or cannot hold one")]
    Foreign,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The store on the disk behind a cache.
    #[error(transparent)]
    Disk(#[from] DiskFault),
    /// The drive answered with an error, after any retries.
    #[error("drive {drive}: {} of page {lba} failed: {status}", opcode_name(*opcode, *admin))]
    Status {
        /// Which drive of the volume.
        drive: u16,
        /// The command's opcode.
        opcode: u8,
        /// True for a command of the admin queue.
        admin: bool,
        /// The command's first page on the drive; 0 if it has none.
        lba: u64,
        /// What the drive said.
        status: Status,
    },
    /// The drive did not answer in time.
    #[error(
        "drive {drive}: {} of page {lba} was not answered in time: is the drive overloaded or \
         dead? A longer driver timeout may help",
        opcode_name(*opcode, *admin)
    )]
    Timeout {
        /// Which drive of the volume.
        drive: u16,
        /// The command's opcode.
        opcode: u8,
        /// True for a command of the admin queue.
        admin: bool,
        /// The command's first page on the drive; 0 if it has none.
        lba: u64,
    },
    /// The drive's answer to a question makes no sense.
    #[error("drive {drive}: an answer on what is allocated makes no sense: the drive is broken")]
    BadAnswer {
        /// Which drive of the volume.
        drive: u16,
    },
    /// A page of the cache is held by a command that the drive has not answered.
    #[error("page {page} is held by a command that timed out: wait for the drive, then try again")]
    Stuck {
        /// The page of the volume.
        page: u64,
    },
    /// Another client does not give a page free.
    #[error(
        "page {page}: another client writes to it, or seems to, for longer than a drive may take: \
         drop its guard to write, or end it, then try again"
    )]
    InUse {
        /// The page of the volume.
        page: u64,
    },
    /// There is no room for one more pinned page.
    #[error(
        "page {page}: all {pages} pages that this client may hold there are pinned: drop guards, \
         or give it a larger share of the cache"
    )]
    NoRoom {
        /// The page of the volume.
        page: u64,
        /// Pages of the volume that the client can hold beside one another where this one belongs.
        pages: u32,
    },
    /// A second guard to write on a page.
    #[error("page {page}: this client has a guard to write on it: drop that one first")]
    Guarded {
        /// The page of the volume.
        page: u64,
    },
    /// More guards than a page can count.
    #[error("page {page}: two million guards are on it: drop those that are done with")]
    Guards {
        /// The page of the file.
        page: u64,
    },
    /// A page that has to go has a guard, and nobody is left who could drop it.
    #[error(
        "page {page} has a guard that was never dropped: everything is written, but the page and \
         the file's place stay taken"
    )]
    Kept {
        /// The page of the file.
        page: u64,
    },
    /// The drive says that a page is where it cannot be.
    #[error(
        "drive {drive}: page {lba} is said to be at {address:#x}, which is no frame of its core"
    )]
    WrongFrame {
        /// Which drive of the volume.
        drive: u16,
        /// The page on the drive.
        lba: u64,
        /// The address.
        address: u64,
    },
    /// Pages beyond the end of the volume.
    #[error(
        "{pages} pages from page {first} on do not lie within a volume of {volume_pages} pages"
    )]
    OutOfRange {
        /// First page.
        first: u64,
        /// Number of pages.
        pages: u64,
        /// Pages of the volume.
        volume_pages: u64,
    },
    /// A buffer that does not fit the request.
    #[error("a buffer of {found} bytes does not fit a request that takes {expected}")]
    Payload {
        /// Bytes that the request takes.
        expected: usize,
        /// Bytes of the buffer.
        found: usize,
    },
    /// The system refused an I/O on ordinary storage.
    #[error("{doing} at byte {offset} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// What was tried: read, write, flush.
        doing: &'static str,
        /// Where in the file; 0 for a flush.
        offset: u64,
        /// The system's number for the reason.
        errno: i32,
    },
    /// Pages of the cache that were acknowledged could not be written to the drive.
    #[error(
        "{failures} write-backs failed since the last flush: their pages stay in the cache and \
         are tried again"
    )]
    WriteBack {
        /// Failed write-backs since this client's last flush.
        failures: u64,
    },
}

impl IoError {
    /// True if the drive may still use the buffers of the request.
    pub fn is_timeout(&self) -> bool {
        matches!(self, IoError::Timeout { .. } | IoError::Stuck { .. })
    }

    /// True if the drive gave up since a frame's word said that somebody writes to it.
    pub fn is_frame_busy(&self) -> bool {
        matches!(self, IoError::Status { status, .. } if status.code() == Some(StatusCode::FrameBusy))
    }
}

fn opcode_name(opcode: u8, admin: bool) -> String {
    let known = match admin {
        true => AdminOpcode::from_raw(opcode).map(|o| o.to_string()),
        false => IoOpcode::from_raw(opcode).map(|o| o.to_string()),
    };
    known.unwrap_or_else(|| format!("command {opcode:#04x}"))
}
