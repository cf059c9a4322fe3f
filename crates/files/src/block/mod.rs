//! wfs: a journaling file system of extents, on pages.
//!
//! | file | idea |
//! |---|---|
//! | `page.rs` | pages of metadata, which are obeyed only if whole and at their place |
//! | `layout.rs`, `groups.rs` | where everything is; what is in use |
//! | `make.rs`, `recover.rs` | a new file system; from the media to one that runs |
//! | `journal.rs`, `commit.rs` | groups of changes in a ring; from memory into it, and from there home |
//! | `store.rs`, `kept.rs`, `shared.rs` | the newest version of each page; memory within a budget; what tasks share |
//! | `tx.rs`, `merge.rs` | transactions: an operation sees one instant, and takes effect at one; two that meet in a page that many inodes share |
//! | `tree.rs`, `records.rs` | B+trees of records; the records of a node |
//! | `node.rs`, `inodes.rs` | inodes, and where they come from |
//! | `extents.rs`, `directory.rs`, `hash.rs` | a file's pages; a directory's entries |
//! | `links.rs`, `xattrs.rs` | targets of symbolic links; extended attributes |
//! | `gates.rs` | who may go in to an inode: the protocol of several tasks |
//! | `orphans.rs` | what has to be cut or given back later: a list on the media |
//! | `names.rs`, `rename.rs`, `data.rs`, `space.rs` | operations on names, bytes, and storage |
//! | `file_system.rs` | all of it as a [`FileSystem`](crate::FileSystem) |
//!
//! `docs/file-format.md` describes what is on the media; [`check`](mod@crate::check) tells from that alone
//! whether it fits together.
//!
//! Not yet: `accessed_ns` is set by [`set_attributes`](crate::FileSystem::set_attributes) alone.

pub use crate::check::{Checked, check};
pub use file_system::{Recovered, Wfs};
pub use gates::{Gates, How, Inside};
pub use make::{Make, MakeError, make};
pub use recover::Replayed;

/// The number by which a partition says that it holds wfs (see [`crate::gpt`]).
pub const NUMBER: u8 = 1;

mod commit;
mod data;
mod directory;
mod extents;
mod file_system;
mod gates;
mod groups;
mod hash;
mod inodes;
mod journal;
mod kept;
mod layout;
mod links;
mod make;
mod merge;
mod names;
mod node;
mod orphans;
mod page;
mod records;
mod recover;
mod rename;
mod shared;
mod space;
mod store;
mod tree;
mod tx;
mod xattrs;

#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod edges_test;
#[cfg(test)]
mod faults_test;
#[cfg(test)]
mod format_test;
#[cfg(test)]
mod hostile_test;
#[cfg(test)]
mod journal_test;
#[cfg(test)]
mod model_test;
#[cfg(test)]
mod payload_test;
#[cfg(test)]
mod program;
#[cfg(test)]
mod tasks_test;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod together_test;
