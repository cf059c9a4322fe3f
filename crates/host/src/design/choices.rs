//! Choices that designs may offer in their own settings, called alike wherever they are.

#[cfg(feature = "designs")]
use serde::{Deserialize, Serialize};

/// Which page leaves a cache next: policies of `wharf-policy`, and that of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "designs",
    derive(Serialize, Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Replacement {
    /// The next that was not used since the hand came by.
    #[default]
    Clock,
    /// By two lists, as in Linux: the oldest of those that were used once.
    TwoLists,
    /// The one that came first.
    Fifo,
    /// The one whose last use is longest ago.
    Lru,
    /// 2Q: new pages pass a queue first.
    #[cfg_attr(feature = "designs", serde(rename = "2q"))]
    TwoQ,
    /// ARC: pages used once and pages used again, with a border that moves.
    Arc,
    /// LIRS: by how many others were used between its last two uses.
    Lirs,
    /// SIEVE: a hand in a queue.
    Sieve,
    /// S3-FIFO: a short queue for new pages, a long one, and keys of pages that left.
    #[cfg_attr(feature = "designs", serde(rename = "s3-fifo"))]
    S3Fifo,
    /// W-TinyLFU: new pages join the others if they were used more often of late.
    #[cfg_attr(feature = "designs", serde(rename = "w-tinylfu"))]
    WTinyLfu,
}

impl Replacement {
    /// All of them, by the names that configurations have for them.
    pub const ALL: [(&'static str, Replacement); 10] = [
        ("clock", Replacement::Clock),
        ("two-lists", Replacement::TwoLists),
        ("fifo", Replacement::Fifo),
        ("lru", Replacement::Lru),
        ("2q", Replacement::TwoQ),
        ("arc", Replacement::Arc),
        ("lirs", Replacement::Lirs),
        ("sieve", Replacement::Sieve),
        ("s3-fifo", Replacement::S3Fifo),
        ("w-tinylfu", Replacement::WTinyLfu),
    ];

    /// The one that a configuration calls so.
    pub fn by_name(name: &str) -> Option<Replacement> {
        let found = Replacement::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, replacement)| *replacement)
    }

    /// Bytes of memory that it takes for each page of the cache, about: links, and keys of pages that left.
    pub fn bytes_per_page(self) -> u64 {
        match self {
            Replacement::Clock => 0,
            Replacement::Fifo | Replacement::Lru | Replacement::Sieve => 8,
            Replacement::TwoLists => 12,
            Replacement::TwoQ => 48,
            Replacement::S3Fifo => 64,
            Replacement::WTinyLfu => 40,
            Replacement::Arc | Replacement::Lirs => 128,
        }
    }
}

/// When nodes of an index go that have become empty, in designs whose index is changed side by
/// side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "designs",
    derive(Serialize, Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Reclaim {
    /// With the last page of theirs.
    #[default]
    Eager,
    /// When their part of the file is deleted, or the file closed. Until then they are there, to be
    /// used again: as the ScaleCache paper has it (section 3.2.3).
    Lazy,
}
