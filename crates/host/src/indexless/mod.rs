//! `indexless`: a cache on the flash of a drive that compresses, without an index (Hao et al.).
//!
//! | file | idea |
//! |---|---|
//! | `word.rs` | four bits of a sector |
//! | `part/` | the words of 8192 sectors, in several forms |
//! | `shard.rs`, `bitmap.rs` | all parts, behind locks |
//! | `policy/` | which sectors leave |

pub mod bitmap;
#[cfg(test)]
mod bitmap_tests;
pub mod part;
pub mod policy;
mod shard;
mod stretch;
pub mod word;
