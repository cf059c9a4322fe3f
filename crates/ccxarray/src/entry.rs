//! Entries, tags, and the words that hold them.
//!
//! A slot of a node is one word, and the lowest bit says whether it is in use:
//!
//! ```text
//! leaf, in use    | 60 bits of the entry                 | 3 tags | 1 |
//! inner, in use   | address of the child, a multiple of 64        | 1 |
//! empty           | number of a freeze, or 0                      | 0 |
//! ```
//!
//! Entry and tags change together in one compare-and-exchange, so a tag can neither outlive its
//! entry nor be lost to a change beside it.

use std::fmt;

/// Bits that an entry may have.
pub const ENTRY_BITS: u32 = 60;

/// Number of tags.
pub const TAGS: usize = 3;

const PRESENT: u64 = 1;
const TAGS_SHIFT: u32 = 1;
const TAGS_MASK: u64 = ((1 << TAGS) - 1) << TAGS_SHIFT;
const ENTRY_SHIFT: u32 = TAGS_SHIFT + TAGS as u32;

/// What a tree holds: a number, an address, a frame with state bits; anything of 60 bits.
///
/// The tree copies entries and never frees what they may point to: that is the business of who
/// takes them out ([`Guard::defer`](crate::Guard::defer) waits until no reader can have a copy).
pub trait Entry: Copy + Send + Sync {
    /// The entry as a number below 2^60; equal entries have equal numbers.
    fn into_bits(self) -> u64;

    /// The entry of a number that [`Entry::into_bits`] gave.
    fn from_bits(bits: u64) -> Self;
}

impl Entry for u64 {
    #[inline(always)]
    fn into_bits(self) -> u64 {
        self
    }

    #[inline(always)]
    fn from_bits(bits: u64) -> u64 {
        bits
    }
}

impl Entry for u32 {
    #[inline(always)]
    fn into_bits(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn from_bits(bits: u64) -> u32 {
        bits as u32
    }
}

/// A mark on an entry, which can be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tag {
    /// The page differs from what is stored.
    Dirty = 0,
    /// The page is on its way to storage.
    Writeback = 1,
    /// The page was dirty when a flush began, which is to write it.
    ToWrite = 2,
}

impl Tag {
    /// All of them.
    pub const ALL: [Tag; TAGS] = [Tag::Dirty, Tag::Writeback, Tag::ToWrite];
}

/// A set of tags.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Tags(u8);

impl Tags {
    /// No tag.
    pub const NONE: Tags = Tags(0);

    /// The set and one more.
    #[must_use]
    pub fn with(self, tag: Tag) -> Tags {
        Tags(self.0 | 1 << tag as u8)
    }

    /// The set without one.
    #[must_use]
    pub fn without(self, tag: Tag) -> Tags {
        Tags(self.0 & !(1 << tag as u8))
    }

    /// True if the tag is in the set.
    pub fn has(self, tag: Tag) -> bool {
        self.0 >> tag as u8 & 1 == 1
    }

    /// True if there is no tag in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that `other` does not have.
    pub(crate) fn beyond(self, other: Tags) -> Tags {
        Tags(self.0 & !other.0)
    }

    /// The tags of the set.
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        Tag::ALL.into_iter().filter(move |&tag| self.has(tag))
    }
}

impl From<Tag> for Tags {
    fn from(tag: Tag) -> Tags {
        Tags::NONE.with(tag)
    }
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// An entry with its tags, as they were at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tagged<E> {
    /// The entry.
    pub entry: E,
    /// Its tags.
    pub tags: Tags,
}

/// The content of a slot. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// Nothing, in a slot that was never frozen.
    pub const EMPTY: Word = Word(0);

    /// Nothing, in a slot that was frozen by the freeze `number` of its node, which is not 0.
    pub fn frozen(number: u64) -> Word {
        Word(number << 1)
    }

    /// A child of an inner node, by its address.
    pub fn child(address: u64) -> Word {
        debug_assert!(address & PRESENT == 0, "nodes are aligned");
        Word(address | PRESENT)
    }

    /// An entry.
    ///
    /// # Panics
    /// If the entry has more than 60 bits.
    #[inline]
    pub fn entry<E: Entry>(tagged: Tagged<E>) -> Word {
        let bits = tagged.entry.into_bits();
        assert!(bits >> ENTRY_BITS == 0, "an entry of the tree has 60 bits");
        Word(bits << ENTRY_SHIFT | u64::from(tagged.tags.0) << TAGS_SHIFT | PRESENT)
    }

    /// True if there is an entry, or a child.
    #[inline(always)]
    pub fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// The address of the child in a present word of an inner node.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 - PRESENT
    }

    /// The entry in a present word of a leaf.
    #[inline(always)]
    pub fn to_entry<E: Entry>(self) -> E {
        E::from_bits(self.0 >> ENTRY_SHIFT)
    }

    /// The tags in a word of a leaf; none if it is empty.
    #[inline]
    pub fn tags(self) -> Tags {
        if self.is_present() {
            Tags(((self.0 & TAGS_MASK) >> TAGS_SHIFT) as u8)
        } else {
            Tags::NONE
        }
    }

    /// Entry and tags in a word of a leaf.
    #[inline]
    pub fn tagged<E: Entry>(self) -> Option<Tagged<E>> {
        self.is_present().then(|| Tagged {
            entry: self.to_entry(),
            tags: self.tags(),
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_they_are_given() {
        for entry in [0u64, 1, (1 << ENTRY_BITS) - 1] {
            let mut tags = Tags::NONE;
            for tag in Tag::ALL {
                let word = Word::entry(Tagged { entry, tags });
                assert!(word.is_present());
                assert_eq!(word.tagged(), Some(Tagged { entry, tags }));
                tags = tags.with(tag);
                assert!(tags.has(tag) && !tags.without(tag).has(tag));
            }
        }
        for empty in [Word::EMPTY, Word::frozen(1), Word::frozen(u64::MAX >> 4)] {
            assert_eq!(empty.tagged::<u64>(), None);
            assert_eq!(empty.tags(), Tags::NONE);
        }
        assert_eq!(Word::child(640).address(), 640);
        assert!(Word::child(640).is_present());
    }

    #[test]
    #[should_panic(expected = "an entry of the tree has 60 bits")]
    fn an_entry_too_wide_is_refused() {
        Word::entry(Tagged {
            entry: 1u64 << ENTRY_BITS,
            tags: Tags::NONE,
        });
    }

    #[test]
    fn sets_of_tags_print_their_members() {
        let tags = Tags::from(Tag::Dirty).with(Tag::ToWrite);
        assert_eq!(format!("{tags:?}"), "{Dirty, ToWrite}");
    }
}
