//! The functions that stand before those of the C library, a file for each family.
//!
//! | file | functions |
//! |---|---|
//! | `open.rs` | opening |
//! | `data.rs`, `vectors.rs` | reading, writing, offsets |
//! | `aio.rs`, `libaio.rs` | asynchronous reads and writes |
//! | `storage.rs` | sizes, storage, making durable, copies between descriptors |
//! | `names.rs` | directories made and removed, links, renames |
//! | `attributes.rs`, `xattrs.rs` | `stat` and its family, owners, bits, times, extended attributes |
//! | `directories.rs` | listings |
//! | `glob.rs`, `ftw.rs`, `fts.rs` | patterns, and walks through trees |
//! | `descriptors.rs` | closing, duplicating, flags, locks |
//! | `process.rs` | forks, programs, working directory, umask |
//! | `execl.rs` | programs, with arguments one by one |
//! | `spawn.rs` | `posix_spawn` |
//! | `streams.rs` | `FILE` |
//! | `temporary.rs` | files and directories with new names |
//! | `memory.rs`, `mapped.rs` | mappings |
//! | `wait.rs` | `poll`, `select`, `epoll` |
//! | `refuse.rs` | what is not there for files of the drive, and says so |

pub(crate) mod aio;
pub(crate) mod attributes;
pub(crate) mod data;
pub(crate) mod descriptors;
pub(crate) mod directories;
#[cfg(target_arch = "x86_64")]
pub(crate) mod execl;
pub(crate) mod fts;
pub(crate) mod ftw;
pub(crate) mod glob;
pub(crate) mod libaio;
mod mapped;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod process;
pub(crate) mod refuse;
pub(crate) mod spawn;
pub(crate) mod storage;
pub(crate) mod streams;
pub(crate) mod temporary;
pub(crate) mod vectors;
pub(crate) mod wait;
pub(crate) mod xattrs;
