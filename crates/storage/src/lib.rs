//! Ordinary storage behind one asynchronous trait: files, block devices, memory, and arrays of them.
//!
//! A [`Target`] is storage that threads share; each uses it through a [`Channel`] of its own, as in SPDK's
//! bdev and I/O channel. The crate takes threads, atomics and the clock from `wharf-runtime`, and knows
//! nothing of emulated drives or caches. It runs in real time only: a system call cannot be told what
//! time it is.
//!
//! | file | idea |
//! |---|---|
//! | [`target`] | the trait's two halves, and what every target checks |
//! | [`mod@io`] | one I/O: what is asked, how it ended |
//! | [`Opened`] | which file a path is, once and for all |
//! | [`file`](mod@file) | files and devices: O_DIRECT, and the end of a file within a block |
//! | [`holes`] | parts of files that take no room
//! | [`group`] | channels of one thread that are waited for together |
//! | [`uring`] | the way by io_uring, and what this kernel's can do |
//! | `threads` | the way by plain system calls on threads |
//! | [`mod@custom`] | storage of users' own, on such threads |
//! | `calls` | the way by such calls on the caller's thread, where there is no other |
//! | [`ram`] | memory |
//! | [`mod@array`] | RAID-0, 5 and 10 of any targets |
//! | [`faulty`] | errors, delays, death and power cuts, for tests of everything above |
//! | [`blocking`] | one I/O at a time, for what is rare |
//! | [`buffer`] | aligned memory |
//! | `transfer` | what is left of an I/O after each step |

#[cfg(feature = "arrays")]
pub mod array;
pub mod blocking;
pub mod buffer;
mod calls;
pub mod custom;
pub mod error;
#[cfg(feature = "faulty")]
pub mod faulty;
pub mod file;
pub mod group;
pub mod holes;
pub mod io;
mod opening;
pub mod ram;
pub mod target;
mod threads;
mod transfer;
pub mod uring;

pub use blocking::Blocking;
pub use buffer::AlignedBuffer;
pub use custom::{Storage, custom};
pub use error::StorageError;
pub use file::{Engine, FileOptions, open};
pub use group::PollGroup;
pub use holes::Holes;
pub use io::{Completion, Io, IoError, Op, Segment};
pub use opening::{FileId, Opened};
pub use ram::RamTarget;
pub use rustix::io::Errno;
pub use target::{Channel, Full, Target, TargetInfo};
pub use uring::{Capabilities, capabilities};
