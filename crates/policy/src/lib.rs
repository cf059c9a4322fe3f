//! Which page leaves a cache when another one comes.
//!
//! A [`Policy`] knows the frames of a cache by number, and of their pages only a key: that one came, was used, left. It never sees data and
//! never asks for a page, so a simulation and a cache that moves bytes use the same one.
//!
//! The walk of a page that is not there: [`Policy::evict`] says which frame it gets, if none is empty; whoever has that frame gives it the page,
//! and says so ([`Policy::insert`]). On its way a policy looks at frames, and the cache answers whether that one may go, and how often it was used
//! since ([`Look`]): so a hit need not tell a policy that counts uses, and marks what is at hand. Policies that put pages in the order of their uses
//! are told of each one ([`Policy::hit`]).
//!
//! | policy | file | who made it |
//! |---|---|---|
//! | FIFO, LRU | `fifo.rs`, `lru.rs` | textbooks |
//! | CLOCK | `clock.rs` | Corbató, 1968; with one bit it is FIFO with reinsertion |
//! | 2Q | `two_q.rs` | Johnson and Shasha, VLDB 1994 |
//! | LIRS | `lirs.rs` | Jiang and Zhang, SIGMETRICS 2002 |
//! | ARC | `arc.rs` | Megiddo and Modha, FAST 2003 |
//! | W-TinyLFU | `tiny_lfu.rs` | Einziger, Friedman and Manes, ACM Transactions on Storage 2017 |
//! | SIEVE | `sieve.rs` | Zhang and others, NSDI 2024 |
//! | S3-FIFO | `s3_fifo.rs` | Yang and others, SOSP 2023 |
//! | Belady's MIN, which knows the future: a bound and no policy | `belady.rs` | Belady, 1966 |
//!
//! [`Kind`] names them; [`AnyPolicy`] is one that is chosen while a program runs; `stream.rs` is a simulation of any of them over numbered pages.
//! `lists.rs` and `ghosts.rs` are what they are made of: lists of frames, and the keys of pages that left.

mod any;
mod arc;
mod belady;
mod clock;
mod fifo;
mod ghosts;
mod kind;
mod lirs;
mod lists;
mod look;
mod lru;
mod s3_fifo;
mod sieve;
mod stream;
mod tiny_lfu;
mod two_q;

pub use any::AnyPolicy;
pub use arc::Arc;
pub use belady::belady;
pub use clock::Clock;
pub use fifo::Fifo;
pub use kind::{Kind, UnknownPolicy};
pub use lirs::Lirs;
pub use look::{Look, Victim};
pub use lru::Lru;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use stream::{Stream, simulate};
pub use tiny_lfu::TinyLfu;
pub use two_q::TwoQ;

/// Which page leaves. See the [crate](self).
pub trait Policy {
    /// One for a cache of so many frames, all of which are empty.
    fn new(frames: u32) -> Self;

    /// Whether it is to be told of each use, in order. Else the cache counts uses, three at most, and says so when it is [looked for](Look::Used).
    fn hears_uses(&self) -> bool {
        false
    }

    /// The page in a frame is used, for a policy that hears of it.
    fn hit(&mut self, _frame: u32) {}

    /// No frame is empty: looks for one whose page leaves. `coming` is the key of the page that it leaves for, if that is known: [`Policy::insert`] of
    /// both follows.
    fn evict(&mut self, coming: Option<u64>, look: impl FnMut(u32) -> Look) -> Victim;

    /// The page of this key has come to a frame, which was empty or has just been given up.
    fn insert(&mut self, frame: u32, key: u64);

    /// The page of a frame is gone, without room being needed: it was discarded.
    fn remove(&mut self, frame: u32);

    /// Bytes of memory that it takes, beside itself.
    fn bytes(&self) -> usize;
}

/// The policy that the book writes.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/new-policy.md")]
struct Book;
