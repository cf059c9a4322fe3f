//! The design `scale`: a page cache in the program's own process (ScaleCache).
//!
//! Problem: the page cache of an operating system has one lock on the index of each file, one
//! flusher, and writers that sleep while it works. On many CPUs with many fast drives these are the
//! limit.
//!
//! Idea: nothing that a request does goes through a lock or another CPU.
//!
//! 1. A hit looks the page up in an index without a lock, copies, and looks whether the frame
//!    changed meanwhile. It writes to nothing that others read.
//! 2. A miss takes a frame, by CLOCK if none is free, enters it into the index, and reads.
//! 3. A write pins the page, takes the frame's word for the time of the copy, and marks the page as
//!    dirty.
//! 4. Too many dirty pages: the writers write them back themselves, side by side.
//!
//! It is put together of the [`kit`](crate::kit). Its choices:
//!
//! | file | choice |
//! |---|---|
//! | [`frame_word`], [`frame`] | frames: state, pins and page in words that readers look at before and after |
//! | `pages.rs` | what a CPU knows of pages: the word, the index, counts that it keeps in batches |
//! | `write_back.rs` | a page is claimed under its word; thresholds; writers flush shares |
//! | `reclaim.rs`, [`replacement`] | which page leaves: CLOCK, or two lists |
//! | [`client`] | reads and writes; what is read ahead, also [in steps](crate::kit::stride) |
//! | `hints.rs` | where a thread saw a page last |
//! | [`background`] | what a CPU does for all others |
//! | [`retry`] | when write-backs that failed are tried again |
//! | [`discard`] | pages that leave before their time |
//! | `design.rs` | settings, clients over a volume |
//! | [`shared`], [`local`] | what all CPUs share, what each has: the sum |
//!
//! In the design the volume is one file, or several of equal size ([`VolumeParts`](crate::parts_of_volume::VolumeParts)).
//!
//! # The walk of a hit, a miss and a write
//!
//! The cache is in the program's process; its drives are ordinary ones. It is put together of the
//! kit (`host/kit/`), as `kernel` is; `host/scale/` has its choices.
//!
//! 1. `scale/client.rs`: takes the request page by page (does not know: locks: there are none).
//! 2. `kit/concurrent.rs` or `locked.rs`: page to frame, in `ccxarray` or under a lock (does not
//!    know: bytes, states).
//! * `scale/hints.rs`: in a program: the frame where this thread saw the page last, instead of
//!   the index (does not know: whether it is still there).
//! 3. `scale/frame_word.rs`: a hit: notes the frame's word, copies, looks at the word again;
//!    nothing is written (does not know: which file, which CPU).
//! * *miss*: `kit/memory.rs`, `scale/reclaim.rs`, `scale/replacement/`: a free frame, or the next
//!   that the policy gives up: CLOCK's hand moves on by a stretch of this CPU's own (does not know:
//!   why).
//! * `kit/reading.rs`, `readahead.rs`, `stride.rs`: which pages to read with it: for readers in
//!   order, and in equal steps (does not know: what a frame is).
//! * `kit/transfers.rs`, `scale/write_back.rs`: one request for neighbours; its end fills the
//!   frames and wakes who waits (`runtime/waits.rs`) (does not know: who that is).
//! * *write*: `scale/client.rs`, `pages.rs`: pins the page, takes its word for the copy, marks it as
//!   dirty in state and index (does not know: when it is written back).
//! * `kit/writers.rs`: above the hard threshold: the next dirty pages behind a cursor that all
//!   move on are this CPU's to write (does not know: how).
//! * `kit/write_back.rs`, `scale/write_back.rs`: gathers neighbours; claims pages (dirty to
//!   write-back, under the word) (does not know: why now).
//!
//! A program that links the cache (`crates/cache/`) has the same code over files. A `read_at`,
//! in order: `file.rs` clamps to the length and asks page by page (knows no frames); `thread.rs`
//! finds what the calling thread has (knows no pages); `host/scale/client.rs`,
//! `host/kit/concurrent.rs`, `frame.rs` make the hit, as above (know no files but their numbers,
//! see `key.rs`). On a miss `file.rs` enters the file's gate, so that nobody cuts the file, and
//! `thread.rs` runs the thread's tasks until the read and every transfer that it began have ended;
//! `client.rs`, `reclaim.rs`, `transfers.rs` as above; `host/kit/backing.rs` is the border: frames
//! above it, whatever keeps pages below. There `channels.rs` turns a run of frames into one I/O on
//! this thread's channel (knows no index, no states), and `storage/` does it (knows no caches).
//! What is read ahead is left to the cache's own thread, as a work item
//! (`host/scale/background.rs`), and so is write-back up to the hard threshold. Above it a writer
//! waits for that thread's writes while they keep the storage busy, and flushes when not. A thread
//! that meets a page on its way sleeps until it is woken.

pub mod background;
pub mod client;
#[cfg(feature = "designs")]
mod design;
pub mod discard;
pub mod frame;
pub mod frame_word;
mod hints;
pub mod local;
mod pages;
mod reclaim;
pub mod replacement;
pub mod retry;
pub mod shared;
mod write_back;

#[cfg(feature = "designs")]
pub use design::{DflushAlone, Scale, ScaleClient, ScaleConfig, Variant, Whole};
