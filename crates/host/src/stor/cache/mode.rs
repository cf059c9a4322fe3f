//! What becomes of a write in the cache of a process, and what else there is to choose.

use serde::{Deserialize, Serialize};

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// There is no cache.
    #[default]
    None,
    /// It stays in the cache until its page is written back.
    WriteBack,
    /// It goes to the drive, and the cache forgets the pages that it touches.
    WriteAround,
    /// It goes to the cache and to the drive.
    WriteThrough,
    /// It stays in the cache if it makes the file longer, or its page is there. All else that is read or written goes by way of the
    /// cache in the drive's memory, and bytes alone cross the link (OmniCache).
    Near,
}

impl CacheMode {
    /// Whether the drive has another one.
    pub fn is_near(self) -> bool {
        self == CacheMode::Near
    }

    /// Whether there is a cache.
    pub fn is_some(self) -> bool {
        self != CacheMode::None
    }
}

/// What becomes of pages in neither cache, of which a part is read, if the drive's cache has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadFill {
    /// They go to the host's cache, as far as that has room without pushing out others.
    #[default]
    Host,
    /// They stay where they are, and only their bytes cross the link: what the paper says, and no more. Pages come to the host's cache
    /// by who goes through files in order, and by what makes them longer.
    Paper,
}

/// Which pages leave before there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// None leave the host's cache: the policy of the cache names one when one is needed. A range that was not used for long leaves the
    /// drive's cache when that has no room.
    #[default]
    Clock,
    /// Those of inactive files leave either cache in the background, then those of the ranges that were used least lately.
    TwoStep,
}

/// A part of the way by both caches that is left out, so that what it does is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Without {
    /// None is.
    #[default]
    Nothing,
    /// Locks of ranges of pages: a lock is of a whole file, as that of the paper's artifact.
    Ranges,
    /// A page in one of both caches: one that comes to the host's stays in the drive's too.
    Exclusion,
    /// Bytes on the link: whole pages cross it.
    NearIo,
}
