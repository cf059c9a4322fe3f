//! A file system of Wharf's as a directory of this machine, by FUSE.
//!
//! The kernel asks by numbers of files and by names in directories. Each question carries who asks
//! (user, group, and the other groups of the process); a [`Service`](wharf_files::vfs::Service)
//! answers for that caller, and checks permissions: the kernel checks none. It remembers names and
//! attributes where nobody gets further by that than by asking (`memory.rs`).
//!
//! | file | idea |
//! |---|---|
//! | `mount.rs`, `options.rs` | mounting, and how |
//! | `front.rs` | the kernel's questions, each a job for the worker |
//! | `answer.rs` | who asks, and how a result becomes a reply |
//! | `memory.rs` | what the kernel may remember |
//! | `worker.rs` | the one thread that has the file system |
//! | `caller.rs` | who asks |
//! | `convert.rs` | attributes, times, errors and flags as FUSE has them |
//!
//! Not yet: locks beyond this machine's own (the kernel keeps `flock` and `fcntl` locks itself),
//! several threads, the kernel's cache of written pages.

mod answer;
mod caller;
mod convert;
mod front;
mod memory;
mod mount;
mod options;
mod worker;

pub use caller::asking;
pub use mount::{mount, unmount};
pub use options::MountOptions;
