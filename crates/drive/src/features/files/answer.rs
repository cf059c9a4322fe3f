//! How commands for files end.

use wharf_files::Errno;
use wharf_wire::status::StatusCode;

/// Bytes that the link carries for a completion.
pub(super) const COMPLETION_BYTES: u32 = 16;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAnswer {
    /// The status.
    pub status: StatusCode,
    /// The result, of up to 63 bits.
    pub result: u64,
    /// Bytes that the link carries to the host before the completion.
    pub to_host_bytes: u32,
    /// It is not over: another task answers it later, and this one has done with it.
    pub is_parked: bool,
}

impl FileAnswer {
    /// It was done, with this result.
    pub fn done(result: u64) -> FileAnswer {
        FileAnswer {
            status: StatusCode::Success,
            result,
            to_host_bytes: 0,
            is_parked: false,
        }
    }

    /// It was done, and the link carries the completion.
    pub(super) fn completed(result: u64) -> FileAnswer {
        FileAnswer {
            to_host_bytes: COMPLETION_BYTES,
            ..FileAnswer::done(result)
        }
    }

    /// It failed, as POSIX has a number for it.
    pub(super) fn errno(errno: Errno) -> FileAnswer {
        FileAnswer {
            result: errno.number().unsigned_abs().into(),
            to_host_bytes: COMPLETION_BYTES,
            ..FileAnswer::failed(StatusCode::FileError)
        }
    }

    /// Another task answers it later.
    pub(super) fn parked() -> FileAnswer {
        FileAnswer {
            is_parked: true,
            ..FileAnswer::done(0)
        }
    }

    /// It failed.
    pub fn failed(status: StatusCode) -> FileAnswer {
        FileAnswer {
            status,
            ..FileAnswer::done(0)
        }
    }
}
