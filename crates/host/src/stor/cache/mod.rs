//! The cache of a process before the commands for files (StorStack, section 3.3).
//!
//! Problem: every operation that is a command waits for the drive, also one that reads what was read a moment ago.
//!
//! Idea: pages of files are kept in the process's own memory, where no other process can spoil them. It is the page cache of
//! [`scale`](crate::scale) with other storage below: frames, index, replacement, write-back and reading ahead are the same;
//! the pages of a file come and go by commands for that file.
//!
//! 1. A read that finds its pages is an ordinary function: no task, no command, no lock. Otherwise it enters the
//!    file's gate beside others, and reads what is missing, and some pages more if it reads in order.
//! 2. A write copies into pages, which are dirty then. Only a page that the drive has, and of which it writes a part, is read
//!    first. Writes that make the file longer, and what takes pages away, are alone in the file.
//! 3. Dirty pages go to the drive in runs of as many as one command takes: when too many are dirty, when their frame is
//!    needed, and at `fsync`, which then has the drive make them durable. Nothing is lost by closing a file.
//! 4. A write-back that fails leaves its page dirty, and every open file of that file hears of it once, at its next `fsync`.
//!
//! The cache belongs to a *process*: clients that are its threads share it. Nothing keeps it in step with those of other
//! processes: what others write to a file that is in the cache is not seen, as in the paper.
//!
//! Times of a file are those of what reached the drive: a dirty page is a change that the drive has not seen yet, and reading
//! a page that is in the cache is none. Room is looked for when pages are written back, so that `fsync` may say that there is none.
//!
//! | file | idea |
//! |---|---|
//! | `mode.rs` | what becomes of a write, and other choices |
//! | `process.rs`, `thread.rs` | what the threads of a process share, and what each has; `opened.rs`: what it has open |
//! | `node.rs` | a file: its ends, its gate, the drive's open file by which its pages come and go |
//! | `ages.rs`, `leave.rs` | eviction in two steps: which pages leave first; how they leave |
//! | `table.rs` | which files have a place in the cache |
//! | `backing.rs` | pages of a file as commands |
//! | `open.rs` | opening and closing |
//! | `data.rs` | reading and writing |
//! | `compute/` | computing on files, on the side that is expected to be faster |
//! | `near/` | the same where the drive has a cache too |
//! | `change.rs` | sizes, holes, making durable |
//! | `client.rs` | all of it as whoever is given any file client has it |

mod ages;
mod backing;
mod change;
mod client;
mod compute;
mod data;
mod leave;
mod mode;
mod near;
mod node;
mod open;
mod opened;
mod process;
mod table;
mod thread;

pub use client::StorFiles;
pub use compute::{Compute, Load, Sides};
pub use mode::{CacheMode, Eviction, ReadFill, Without};
pub(super) use process::Process;
