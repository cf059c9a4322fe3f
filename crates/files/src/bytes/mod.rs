//! wpm: a file system for persistent memory, with a log for each inode.
//!
//! An inode is what its log says. Every operation adds records to the logs of the inodes that it
//! changes, and counts when a word of 8 bytes is stored for each of them: the end of its log.
//! Several words are stored by way of a small journal. Bytes of files go to pages where nothing was.
//! So every operation, a write too, is there after a power cut as a whole or not at all, and is
//! durable when it ends.
//!
//! | file | idea |
//! |---|---|
//! | `layout.rs` | where everything is; words that are obeyed only if whole |
//! | `record.rs`, `log.rs` | what logs are made of; their pages, and reading them |
//! | `node.rs`, `extents.rs` | what a log says, in memory |
//! | `journal.rs` | words that have to be stored together |
//! | `make.rs`, `recover.rs` | a new file system; from the media to one that runs |
//! | `space.rs`, `kept.rs`, `gates.rs`, `turns.rs`, `shared.rs` | what is in use; inodes in memory within a budget; who may go in; who changes which pages; what tasks share |
//! | `store.rs`, `tx.rs` | inodes by number; changes, which count all together |
//! | `names.rs`, `rename.rs`, `data.rs`, `ranges.rs`, `values.rs` | operations on names, bytes, ranges, and values |
//! | `file_system.rs` | all of it as a [`FileSystem`](crate::FileSystem) |
//! | `on_pages.rs` | persistent memory on pages |
//! | `check.rs` | whether all of it fits together, from outside |
//!
//! `docs/file-format-wpm.md` describes what is on the media.
//!
//! Not yet: `accessed_ns` is set by [`set_attributes`](crate::FileSystem::set_attributes) alone; a
//! damaged superblock is not repaired from its copy; a directory is kept in memory whole.

pub use check::{Checked, check};
pub use file_system::Wpm;
pub use make::{Make, MakeError, make};
pub use on_pages::PagesAsLines;
pub use recover::Recovered;

/// The number by which a partition says that it holds wpm (see [`crate::gpt`]).
pub const NUMBER: u8 = 2;

mod check;
mod data;
mod extents;
mod file_system;
mod gates;
mod journal;
mod kept;
mod layout;
mod log;
mod make;
mod names;
mod node;
mod on_pages;
mod ranges;
mod record;
mod recover;
mod rename;
mod shared;
mod space;
mod store;
mod turns;
mod tx;
mod values;

#[cfg(test)]
mod format_test;
#[cfg(test)]
mod hostile_test;
