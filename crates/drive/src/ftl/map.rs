//! The map: where each logical page is, 4 bytes a page.
//!
//! It has one of two forms, chosen once:
//!
//! * *flat*: an entry for every logical page. Of a drive that shows what it can hold nearly all are
//!   used.
//! * *sparse* (`sparse_map.rs`): memory follows what is there. Of a drive that shows much more than
//!   it can hold, most entries would never be used.
//!
//! A flat map costs what an array does: the check of an index against the array's end is the one
//! that leads to the sparse form, whose array is empty.

use std::ops::Range;

use super::entry::{Entry, Place};
use super::hint::MapHint;
use super::sparse_map::SparseMap;
use crate::media::{SlabError, ZeroedSlab};

/// See the [module](self).
pub(super) struct Map {
    /// Empty if the map is sparse.
    flat: ZeroedSlab<u32>,
    sparse: Option<Box<SparseMap>>,
    pages: u32,
}

impl Map {
    /// A map of `pages` logical pages: sparse with `entries_max`, which is how many pages may hold
    /// something other than zeros, or be cached, at a time.
    pub fn new(pages: u32, entries_max: Option<u64>) -> Result<Map, SlabError> {
        let (flat, sparse) = match entries_max {
            None => (pages as usize, None),
            Some(entries) => (0, Some(Box::new(SparseMap::new(pages, entries)?))),
        };
        Ok(Map {
            flat: ZeroedSlab::new("the map", flat)?,
            sparse,
            pages,
        })
    }

    /// The entry of a page.
    #[inline]
    pub fn get(&self, lpn: u32) -> u32 {
        match self.flat.get(lpn as usize) {
            Some(entry) => *entry,
            None => self.get_sparse(lpn),
        }
    }

    /// Changes the entry of a page.
    #[inline]
    pub fn set(&mut self, lpn: u32, entry: u32) {
        match self.flat.get_mut(lpn as usize) {
            Some(at) => *at = entry,
            None => self.set_sparse(lpn, entry),
        }
    }

    #[inline(never)]
    fn get_sparse(&self, lpn: u32) -> u32 {
        assert!(lpn < self.pages, "page {lpn} of {}", self.pages);
        self.sparse.as_ref().expect("a flat map has all").get(lpn)
    }

    #[inline(never)]
    fn set_sparse(&mut self, lpn: u32, entry: u32) {
        assert!(lpn < self.pages, "page {lpn} of {}", self.pages);
        let sparse = self.sparse.as_mut().expect("a flat map has all");
        sparse.set(lpn, entry);
    }

    /// Brings an entry near: the page will be looked up soon.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        self.flat.prefetch(lpn as usize);
    }

    /// Lets others bring entries near, of a flat map.
    pub fn hint(&self) -> MapHint {
        MapHint::new(&self.flat)
    }

    /// All entries, of a flat map.
    pub fn flat(&self) -> Option<&[u32]> {
        self.sparse.is_none().then_some(&*self.flat)
    }

    /// The sparse form.
    pub fn sparse(&self) -> Option<&SparseMap> {
        self.sparse.as_deref()
    }

    /// The first page of `range` that may be allocated, or cached: in a flat map any page may be.
    #[inline]
    pub fn next_known(&self, range: Range<u32>) -> Option<u32> {
        match &self.sparse {
            None => (!range.is_empty()).then_some(range.start),
            Some(sparse) => sparse.next_known(range),
        }
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        let sparse = self.sparse.as_ref().map_or(0, |sparse| sparse.bytes());
        sparse + size_of_val(&*self.flat) as u64
    }
}

/// What a page's entry tells below the frame that caches the page, if the entry tells that.
#[inline]
pub(super) fn uncached(entry: u32) -> Option<Place> {
    match Entry::decode(entry) {
        Entry::Uncached(place) => Some(place),
        Entry::Cached(_) => None,
    }
}
