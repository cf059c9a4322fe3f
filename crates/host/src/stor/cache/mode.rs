//! What becomes of a write in the cache of a process.

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
}

impl CacheMode {
    /// Whether there is a cache.
    pub fn is_some(self) -> bool {
        self != CacheMode::None
    }
}
