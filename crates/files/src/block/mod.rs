//! wfs: a journaling file system of extents, on pages.
//!
//! | file | idea |
//! |---|---|
//! | `page.rs` | pages of metadata, which are obeyed only if whole and at their place |
//! | `layout.rs`, `groups.rs` | where everything is; what is in use |
//! | `make.rs`, `recover.rs` | a new file system; from the media to one that runs |
//! | `journal.rs`, `commit.rs` | groups of changes in a ring; from memory into it, and from there home |
//! | `store.rs`, `kept.rs`, `shared.rs` | the newest version of each page; memory within a budget; what tasks share |
//! | `tx.rs` | transactions: an operation sees one instant, and takes effect at one |
//! | `tree.rs` | B+trees of records |
//! | `node.rs`, `inodes.rs` | inodes, and where they come from |
//! | `extents.rs`, `directory.rs`, `hash.rs` | a file's pages; a directory's entries |

mod commit;
mod directory;
mod extents;
mod groups;
mod hash;
mod inodes;
mod journal;
mod kept;
mod layout;
mod make;
mod node;
mod page;
mod recover;
mod shared;
mod store;
mod tree;
mod tx;

#[cfg(test)]
mod journal_test;
#[cfg(test)]
mod testing;
