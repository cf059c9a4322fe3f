//! Asynchronous reads and writes of files of the drive, as `<aio.h>` has them.
//!
//! Problem: the C library does them on threads of its own, which call the kernel, and the kernel knows nothing of the drive.
//!
//! Idea: a queue, and one thread that takes from it what the calls of `calls/data.rs` do, one request after the other: so they keep
//! the order that they have among each other. The results go where the C library's `aio_error` and `aio_return` look for them, so these two need nothing.
//!
//! | file | idea |
//! |---|---|
//! | `block.rs` | what the program has in its memory: the request, and where its result goes |
//! | `queue.rs` | the requests, their order, the thread |
//! | `tell.rs` | signals and threads that tell of an end; waiting for one |
//! | `context.rs` | another kind: the kernel's contexts, as libaio has them |
//!
//! Rules, those of POSIX where glibc's differ:
//!
//! * Requests are done in the order in which they were made, but for those of one description: there a higher priority goes first,
//!   and nothing passes what makes a file durable.
//! * A request holds its file open. It is done though the descriptor is closed meanwhile.
//! * A child of a fork has none of its parent's. At the end of a process what was not done is not done.

pub(crate) mod block;
pub(crate) mod context;
pub(crate) mod queue;
pub(crate) mod tell;
