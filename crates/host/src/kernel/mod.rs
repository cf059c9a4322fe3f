//! What a page cache of an operating system is made of.

pub mod xarray;
