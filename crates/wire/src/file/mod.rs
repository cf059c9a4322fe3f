//! Commands for files: what a host says to a file system that runs in the drive.
//!
//! There are two kinds. Commands on an *open file* have all that they say in themselves: a handle,
//! an offset, a length. Commands with *names* have a request at the beginning of their buffer, and
//! those that answer do so in the same buffer, from its beginning.
//!
//! | file | idea |
//! |---|---|
//! | `access.rs` | keys, claims, tokens: who may speak for whom |
//! | `command.rs` | the fields of all of these commands |
//! | `request.rs` | who asks, where paths begin, names, values |
//! | `answer.rs` | attributes, what was opened, entries of directories, how much there is |
//! | `lease.rs`, `write_area.rs` | leases; where a host that writes under one keeps what it has written |
//! | `lock.rs` | locks |
//! | `near.rs` | the drive's cache of pages of files |
//! | `vector.rs` | functions of bytes that the drive computes |
//! | `log.rs` | the log page that says what has become of the file system |
//! | `device_cache_log.rs` | that of the drive's cache |
//! | `transfer.rs` | data pointers that begin at any multiple of 4 |
//!
//! Every command has a *token* of 16 bytes that proves who sends it, on a drive that has been given a key. On others it is 0,
//! and who asks is whom each request names.
//!
//! Words such as `Open` or `Stat` mean what they mean in POSIX; errors are the numbers of Linux.

mod access;
mod answer;
mod command;
mod device_cache_log;
mod lease;
mod lock;
mod log;
mod near;
mod request;
mod transfer;
mod vector;
pub mod write_area;

#[cfg(test)]
pub(crate) use access::revoke_fields;
pub use access::{ACTS_FOR_OTHERS, CLAIM_GROUPS_MAX, Claims, DriveKey, READS_ONLY, Revoke, Token};
pub use answer::{
    DirectoryHead, DirectoryRow, FileAttributes, FileKind, FileSystemStatus, ListWriter,
    OpenAnswer, entries,
};
pub use command::{
    AttributeOperation, FileHandle, HandleOperation, OpenMode, PathChange, PathRequest, RenameMode,
    XattrMode,
};
#[cfg(test)]
pub(crate) use command::{
    attribute_fields, file_fields, handle_fields, open_fields, path_fields, sync_file_fields,
    write_file_fields,
};
pub use device_cache_log::DeviceCacheLog;
pub use lease::LEASES_MAX;
#[cfg(test)]
pub(crate) use lease::lease_fields;
#[cfg(test)]
pub(crate) use lock::lock_fields;
pub use lock::{FileLock, LockOperation, LockState, LockWords};
pub use log::{FileSystemLog, FileSystemState, LOG_TEXT_BYTES};
pub use near::{Evict, NearResult};
#[cfg(test)]
pub(crate) use near::{evict_near_fields, read_near_fields, write_near_fields};
pub use request::{Caller, Names, Request, RequestError, RequestHead, Start, StartKind, TIME_NOW};
pub use request::{GROUPS_MAX, LINKS_LEAVE, REQUEST_HEAD_BYTES, STAYS_ID, STAYS_MODE, TIME_STAYS};
pub use transfer::{ByteTransfer, byte_transfer};
pub use vector::{
    PlaceKind, STEP_DURABLE, STEP_KEEP, STEP_WHOLE, STEPS_MAX, StepOutcome, VECTOR_BUFFERS,
    VECTOR_HEAD_BYTES, VectorCodec, VectorFunction, VectorHead, VectorPlace, VectorStep,
};

/// The longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 4095;

/// The longest value of an extended attribute, in bytes.
pub const VALUE_BYTES_MAX: usize = 65_536;

/// The longest request, in bytes: a head, two paths, and a value.
pub const REQUEST_BYTES_MAX: usize = REQUEST_HEAD_BYTES + 2 * PATH_BYTES_MAX + VALUE_BYTES_MAX;
