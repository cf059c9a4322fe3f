//! Log page C4h: what the drive's cache of pages of files has, and what it did.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The log page. Counts are since power-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceCacheLog {
    /// Version of this structure: [`DeviceCacheLog::VERSION`].
    pub version: u32,
    /// Whether dirty pages are there after a loss of power: 1 if so, else 0.
    pub is_protected: u32,
    /// Pages that there is room for.
    pub pages: u64,
    /// Most of them for one host.
    pub host_pages: u64,
    /// Pages that are there now.
    pub used_pages: u64,
    /// Those of them that the media do not have yet.
    pub dirty_pages: u64,
    /// Read near commands.
    pub reads: u64,
    /// Write near commands.
    pub writes: u64,
    /// Pages of these that were there.
    pub hits: u64,
    /// Pages that were read from the media.
    pub brought_pages: u64,
    /// Pages that were written to the media.
    pub written_pages: u64,
    /// Pages that left by evict near.
    pub evicted_pages: u64,
    /// Pages that left by a read that took them.
    pub taken_pages: u64,
    /// Pages that left because they were changed by another way, or their file or host was gone.
    pub displaced_pages: u64,
    /// How often there was no room for a page.
    pub no_room: u64,
    /// Pages that a loss of power had left, and that were written to the media at power-up.
    pub restored_pages: u64,
    /// Those of these that could not be written, and are lost.
    pub lost_pages: u64,
}

const _: () = assert!(size_of::<DeviceCacheLog>() == 128);

impl DeviceCacheLog {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 1;

    /// That of a cache in which nothing has happened.
    pub fn new() -> DeviceCacheLog {
        DeviceCacheLog {
            version: DeviceCacheLog::VERSION,
            ..FromZeros::new_zeroed()
        }
    }
}

impl Default for DeviceCacheLog {
    fn default() -> DeviceCacheLog {
        DeviceCacheLog::new()
    }
}
