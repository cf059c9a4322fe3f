//! A file system of Wharf's as a directory of this machine, by FUSE.
//!
//! The kernel asks by numbers of files and by names in directories. Each question carries who asks
//! (user, group, and the other groups of the process); a [`Session`](wharf_files::vfs::Session) of
//! that caller answers, which checks permissions: the kernel checks none, and remembers no names
//! and no attributes, so that it asks at every step of a path.
//!
//! | file | idea |
//! |---|---|
//! | `mount.rs`, `options.rs` | mounting, and how |
//! | `front.rs` | the kernel's questions, each a job for the worker |
//! | `answer.rs` | who asks, and how a result becomes a reply |
//! | `worker.rs` | the one thread that has the file system, the sessions and what is open |
//! | `caller.rs` | who asks |
//! | `convert.rs` | attributes, times, errors and flags as FUSE has them |
//!
//! Not yet: locks beyond this machine's own (the kernel keeps `flock` and `fcntl` locks itself),
//! several threads, the kernel's cache of written pages, names and
//! attributes that are remembered.

mod answer;
mod caller;
mod convert;
mod front;
mod mount;
mod options;
mod worker;

pub use mount::{mount, unmount};
pub use options::MountOptions;
