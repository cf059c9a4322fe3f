//! File systems that run where their pages are: in the drive, on its firmware cores, or on the
//! host, above a page cache.

#[allow(dead_code)] // until the operations on files are here, tests alone use most of it
mod block;
pub mod pages;
