//! A concurrent radix tree from 64-bit indices to words with tags: the page index of a cache.
//!
//! Problem: many threads look pages of a file up, insert and evict them, and mark them dirty; a flusher wants
//! "the next dirty page" in order. With one lock for writers they wait for each other; a hash map has no order.
//!
//! Idea (ScaleCache, EuroSys 2024, section 3.2, which calls it ccXArray): the tree of 64-slot nodes that operating systems
//! use, with every change a compare-and-exchange of one word.
//!
//! 1. A slot is one word: an entry with its tags, or a child ([`Entry`], [`Tag`]).
//! 2. **Look-ups write nothing.** Nodes that leave the tree are kept until no [`Guard`] can have seen them.
//! 3. **Inserts** fill an empty slot, making nodes on the way; the height changes by one exchange of the root.
//! 4. **Tags** change with the entry's word, so they cannot outlive it. Bits in the nodes above only lead to them; there may
//!    be too many, and searches clear those.
//! 5. **Empty nodes** stay for the next entry, until [`XArray::reclaim`] or [`XArray::reclaim_leaf`], which run beside everything
//!    else.
//!
//! Nobody waits for anybody: a thread that sleeps at any point delays no other.
//!
//! # Example: pages of a file
//!
//! ```
//! use ccxarray::{Entry, Tag, Tagged, Tags, XArray, pin};
//!
//! /// A frame number, and whether the page is being evicted.
//! #[derive(Debug, Clone, Copy, PartialEq, Eq)]
//! struct Page { frame: u32, evicting: bool }
//!
//! impl Entry for Page {
//!     fn into_bits(self) -> u64 {
//!         u64::from(self.frame) << 1 | u64::from(self.evicting)
//!     }
//!     fn from_bits(bits: u64) -> Page {
//!         Page { frame: (bits >> 1) as u32, evicting: bits & 1 == 1 }
//!     }
//! }
//!
//! let file = XArray::<Page>::new();
//! // One guard does for many operations.
//! let guard = pin();
//! for page in 0..100 {
//!     let entry = Page { frame: 1000 + page as u32, evicting: false };
//!     file.insert(page, entry, &guard).expect("a page that is not there");
//! }
//! assert_eq!(file.get(7, &guard).unwrap().frame, 1007);
//!
//! // A writer marks pages; a flusher finds them in order.
//! file.set_tag(70, Tag::Dirty, &guard);
//! file.set_tag(7, Tag::Dirty, &guard);
//! let dirty: Vec<u64> = file.range_tagged(Tag::Dirty, .., &guard).map(|(page, _)| page).collect();
//! assert_eq!(dirty, [7, 70]);
//!
//! // From dirty to write-back in one step, which an eviction cannot come between.
//! let written = file.update(7, &guard, |page| {
//!     let tags = page.tags.without(Tag::Dirty).with(Tag::Writeback);
//!     Some(Tagged { tags, ..page })
//! });
//! assert!(written.is_ok());
//!
//! // An eviction takes only what is clean, in the very step that takes it.
//! let is_clean = |page: Tagged<Page>| page.tags == Tags::NONE;
//! assert!(file.remove_if(7, &guard, is_clean).is_err());
//! assert!(file.remove_if(8, &guard, is_clean).is_ok());
//!
//! // Truncate; nodes go too.
//! let gone = file.retain(64.., &guard, |_page, _entry| false);
//! assert_eq!((gone, file.nodes(&guard)), (36, 1));
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `entry` | what a word holds |
//! | `node` | slots, bits, and who may do what to a node |
//! | `tree` | the root, the way down, look-ups |
//! | `insert`, `change` | filling slots; changing what is in them |
//! | `tags` | the bits that lead to tags, and why none is lost |
//! | `walk` | searches in order |
//! | `reclaim` | nodes leave the tree |
//! | `epoch`, `cost_hook`, `sync` | when nodes are freed; lines for a simulator; the one source of atomics |
//! | `verify` | a look at the whole tree |
//! | [`locked`] | the same tree with one lock for writers |

mod change;
mod cost_hook;
mod entry;
mod epoch;
mod insert;
pub mod locked;
mod node;
mod reclaim;
mod sync;
mod tags;
mod tree;
mod verify;
mod walk;

pub use cost_hook::CostHook;
pub use entry::{ENTRY_BITS, Entry, TAGS, Tag, Tagged, Tags};
pub use epoch::{Guard, pin, pin_with};
pub use tree::XArray;
pub use verify::Shape;
pub use walk::Iter;

#[cfg(all(test, loom))]
mod loom_tests;
