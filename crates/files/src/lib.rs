//! File systems that run where their pages are: in the drive, on its firmware cores, or on the
//! host, above a page cache.

pub mod pages;
