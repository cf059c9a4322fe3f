//! What `wharf serve` serves: exports over what the other modules hold.
//!
//! | file | idea |
//! |---|---|
//! | `target.rs` | a file, a block device or an array, straight: I/Os of a channel, many under way |
//! | `cached.rs` | a file behind a page cache: hits at once, the rest on threads beside |
//! | `store.rs` | an emulated drive behind any design that a store can have: requests are its tasks |
//! | `flash.rs` | a disk behind a flash cache: requests are tasks of the cache's thread |
//! | `requests.rs` | requests as those of a design's client |
//! | `extents.rs` | where a file has data |
//!
//! Memory is `wharf_nbd::memory`. All of them are exports of [`wharf_nbd`], which says what a seat is.

mod cached;
mod extents;
mod flash;
mod requests;
mod store;
mod target;

pub use cached::CachedExport;
pub use flash::FlashExport;
pub use store::StoreExport;
pub use target::{Serving, TargetExport};
