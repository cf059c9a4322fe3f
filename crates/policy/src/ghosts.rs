//! Keys of pages that left, in the order in which they did.

use rustc_hash::FxHashMap;

use crate::lists::{Links, List, NONE};

#[derive(Debug)]
pub(crate) struct Ghosts {
    places: FxHashMap<u64, u32>,
    keys: Vec<u64>,
    links: Links,
    list: List,
    free: Vec<u32>,
    most: u32,
    /// See [`Ghosts::recall`].
    recalled: Option<u64>,
}

impl Ghosts {
    /// So many keys at most.
    pub(crate) fn new(most: u32) -> Ghosts {
        Ghosts {
            places: FxHashMap::default(),
            keys: Vec::new(),
            links: Links::new(0),
            list: List::default(),
            free: Vec::new(),
            most,
            recalled: None,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.list.len()
    }

    pub(crate) fn has(&self, key: u64) -> bool {
        self.places.contains_key(&key)
    }

    /// Notes a key, if it is not noted; the oldest ones go where there is no room.
    pub(crate) fn push(&mut self, key: u64) {
        if self.most == 0 || self.has(key) {
            return;
        }
        if self.list.len() == self.most {
            self.pop();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.links.grow();
            self.keys.push(0);
            self.keys.len() as u32 - 1
        });
        self.keys[place as usize] = key;
        self.links.push(&mut self.list, place);
        self.places.insert(key, place);
    }

    /// Forgets the oldest key.
    pub(crate) fn pop(&mut self) {
        let place = self.links.pop(&mut self.list);
        if place != NONE {
            self.places.remove(&self.keys[place as usize]);
            self.free.push(place);
        }
    }

    /// The page of a key is to come, and another one leaves for it: that it was noted is not forgotten until it is there.
    pub(crate) fn recall(&mut self, key: Option<u64>) {
        if self.recalled.is_none() || self.recalled != key {
            self.recalled = key.filter(|key| self.remove(*key));
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let words = self.keys.capacity() + 2 * self.places.capacity();
        8 * words + self.links.bytes() + 4 * self.free.capacity()
    }

    /// Forgets the key of a page that has come; true if it was noted.
    pub(crate) fn comes_back(&mut self, key: u64) -> bool {
        self.recalled.take() == Some(key) || self.remove(key)
    }

    /// Forgets a key; true if it was noted.
    pub(crate) fn remove(&mut self, key: u64) -> bool {
        let Some(place) = self.places.remove(&key) else {
            return false;
        };
        self.links.remove(&mut self.list, place);
        self.free.push(place);
        true
    }
}
