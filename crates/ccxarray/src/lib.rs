//! ccXArray.
mod change;
mod entry;
mod epoch;
mod insert;
mod node;
mod reclaim;
mod sync;
mod tags;
mod tree;
mod verify;
mod walk;
mod witness;

pub use entry::{ENTRY_BITS, Entry, TAGS, Tag, Tagged, Tags};
pub use epoch::{Guard, pin, pin_with};
pub use tree::XArray;
pub use verify::Shape;
pub use walk::Iter;
pub use witness::Witness;

#[cfg(all(test, loom))]
mod loom_tests;
