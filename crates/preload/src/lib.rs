//! What `wharf run` puts before a program's C library, so that a path of the program's own choice is a drive's file system.
//!
//! Problem: a program that is not built for it is to work with files of a drive, without a kernel module, without root, and
//! without going through the kernel for each call.
//!
//! Idea: the dynamic linker takes the functions of this library before those of the C library. Each looks whether it is
//! asked for a path or a descriptor of the drive. If so it asks the drive, by queues in memory that it shares with the
//! process that serves it; if not, the C library's function does what it always did.
//!
//! The walk of a `read`: `calls/data.rs` looks the descriptor up (`table.rs`), takes the offset from the page that all
//! holders of the descriptor share (`page.rs`), looks at what this process keeps of the file, and has the drive read if that is not
//! enough (`drive.rs`).
//!
//! | file | idea |
//! |---|---|
//! | `place.rs`, `find.rs` | which paths lead to the drive; the working directory |
//! | `page.rs` | an open file description, in a page that processes share |
//! | `table.rs` | which descriptors are files of the drive |
//! | `drive.rs` | the drive, as this process uses it; forks |
//! | `links.rs` | symbolic links that lead out of the drive |
//! | `locks.rs` | locks of files |
//! | `aio/` | asynchronous reads and writes: a queue, and a thread |
//! | `record.rs` | `wharf run --record`: this process's part |
//! | `next.rs` | the functions behind these |
//! | `begin.rs`, `end.rs` | what a process finds when it begins: descriptors that it was given; what it gives back when it ends |
//! | `audit.rs` | what is refused, for `wharf run --audit` |
//! | `convert.rs`, `errno.rs` | words of file systems as those of the C library |
//! | `calls/` | the functions, a file for each family |
//!
//! Descriptors are the kernel's own: see `page.rs`. What passes by this library (programs that are linked statically, system
//! calls of their own) gets `EBADF` for a descriptor of the drive, and finds the machine's own files at its place.

// Unit tests are of what stands for itself: nothing calls the functions there, which would stand before the tests' own.
#![cfg_attr(test, allow(dead_code))]

mod aio;
mod audit;
mod begin;
mod calls;
mod convert;
mod drive;
mod end;
mod errno;
mod find;
mod links;
mod locks;
mod next;
mod page;
mod place;
mod record;
mod table;
