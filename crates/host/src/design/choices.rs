//! Choices that designs may offer in their own settings, called alike wherever they are.

#[cfg(feature = "designs")]
use serde::{Deserialize, Serialize};

/// Which page leaves a cache next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "designs",
    derive(Serialize, Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Replacement {
    /// By CLOCK: the next that was not used since the hand came by.
    #[default]
    Clock,
    /// By two lists, as in Linux: the oldest of those that were used once.
    Lru,
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
