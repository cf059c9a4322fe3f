//! The records of a node of a [tree](super::tree): a key and bytes each, one behind the other in the
//! order of their keys, and from the end of the page backwards where each begins, so that a search
//! halves.

use std::sync::Arc;

use wharf_runtime::Op;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::page::{self, Header, Image};
use super::tx::damage;
use crate::cost::work;
use crate::errno::FileError;
use crate::pages::{PAGE_BYTES, PageBytes};

/// The first bytes of a node.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeHead {
    /// Of the page.
    pub header: Header,
    /// The number of the file or directory whose tree it is.
    pub owner: U64,
    /// 0 of leaves, and 1 more than its children's of others.
    pub level: U16,
    /// Records.
    pub records: U16,
    /// 0.
    pub reserved: U32,
}

/// Bytes of the head of a node.
const HEAD_BYTES: usize = size_of::<NodeHead>();

/// Bytes of a record besides its value: key, length, and where it begins.
pub const RECORD_BYTES: usize = 8 + 2 + 2;

/// Bytes of a node for records.
pub const ROOM_BYTES: usize = PAGE_BYTES - HEAD_BYTES;

/// Most bytes of a value: at least twelve records fit into a node.
pub const VALUE_BYTES_MAX: usize = 300;

/// The records of a node.
pub struct View<'a> {
    bytes: &'a PageBytes,
    page: u64,
    /// How many.
    pub records: usize,
}

impl<'a> View<'a> {
    /// Those of a node that `owner` has at a level.
    ///
    /// # Errors
    /// Damage: it is no such node. As of all that follow.
    pub fn new(bytes: &'a PageBytes, page: u64, owner: u64, level: u16) -> Result<Self, FileError> {
        let head: &NodeHead = page::of(bytes);
        let records = usize::from(head.records.get());
        let is_sound = head.owner.get() == owner
            && head.level.get() == level
            && records > 0
            && records <= ROOM_BYTES / RECORD_BYTES;
        match is_sound {
            true => Ok(View {
                bytes,
                page,
                records,
            }),
            false => Err(damage(page, "it is no such node of this tree")),
        }
    }

    /// Where a record begins, as the list says.
    fn begins(&self, index: usize) -> usize {
        let slot = list_of(index + 1);
        usize::from(u16::from_le_bytes([self.bytes[slot], self.bytes[slot + 1]]))
    }

    /// The bytes from where a record begins on.
    fn record(&self, index: usize) -> Result<&'a [u8], FileError> {
        let at = self.begins(index);
        match self.bytes.get(at..) {
            Some(record) if at >= HEAD_BYTES && record.len() >= 10 => Ok(record),
            _ => Err(damage(self.page, "a record lies outside of its node")),
        }
    }

    /// The key of a record.
    pub fn key(&self, index: usize) -> Result<u64, FileError> {
        let record = self.record(index)?;
        Ok(u64::from_le_bytes(record[..8].try_into().expect("8 bytes")))
    }

    /// The bytes of a record.
    pub fn value(&self, index: usize) -> Result<&'a [u8], FileError> {
        let record = self.record(index)?;
        let length = usize::from(u16::from_le_bytes([record[8], record[9]]));
        let value = record.get(10..10 + length);
        let value = value.filter(|value| value.len() <= VALUE_BYTES_MAX);
        value.ok_or_else(|| damage(self.page, "a record lies outside of its node"))
    }

    /// How many records have keys below `key`.
    pub fn below(&self, key: u64) -> Result<usize, FileError> {
        let (mut low, mut high) = (0, self.records);
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle)? < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// Which child a key belongs to.
    pub fn child_of(&self, key: u64) -> Result<usize, FileError> {
        let below = match key.checked_add(1) {
            Some(above) => self.below(above)?,
            None => self.records,
        };
        Ok(below.saturating_sub(1))
    }

    /// The page that a record of a node above the leaves has.
    pub fn child(&self, index: usize) -> Result<u64, FileError> {
        let value = self.value(index)?.try_into();
        let value = value.map_err(|_| damage(self.page, "a child is no page number"))?;
        Ok(u64::from_le_bytes(value))
    }

    /// All of them, in order.
    pub fn all(&self) -> Result<Records<'a>, FileError> {
        let record = |index| Ok((self.key(index)?, self.value(index)?));
        let records: Result<Records<'a>, FileError> = (0..self.records).map(record).collect();
        let records = records?;
        let is_ordered = records.windows(2).all(|two| two[0].0 < two[1].0);
        match is_ordered && bytes_of(&records) <= ROOM_BYTES {
            true => Ok(records),
            false => Err(damage(self.page, "the records of a node overlap")),
        }
    }

    /// Where the records end: they lie one behind the other in the order of their keys.
    fn end(&self) -> Result<usize, FileError> {
        let (mut at, mut last) = (HEAD_BYTES, None);
        for index in 0..self.records {
            let key = self.key(index)?;
            let is_next = self.begins(index) == at && last.is_none_or(|last| last < key);
            at += 10 + self.value(index)?.len();
            if !is_next || at > list_of(self.records) {
                return Err(damage(self.page, "the records of a node overlap"));
            }
            last = Some(key);
        }
        Ok(at)
    }

    /// Bytes of all records, with what the list has of them.
    pub fn bytes(&self) -> Result<usize, FileError> {
        Ok(self.end()? - HEAD_BYTES + 2 * self.records)
    }
}

/// Where the list begins that says where so many records begin.
fn list_of(records: usize) -> usize {
    PAGE_BYTES - 2 * records
}

/// Says in the list where a record begins.
fn put_begin(bytes: &mut PageBytes, index: usize, at: usize) {
    let slot = list_of(index + 1);
    bytes[slot..slot + 2].copy_from_slice(&(at as u16).to_le_bytes());
}

/// Writes a record; where the next one begins.
fn put_record(bytes: &mut PageBytes, at: usize, key: u64, value: &[u8]) -> usize {
    let end = at + 10 + value.len();
    bytes[at..at + 8].copy_from_slice(&key.to_le_bytes());
    bytes[at + 8..at + 10].copy_from_slice(&(value.len() as u16).to_le_bytes());
    bytes[at + 10..end].copy_from_slice(value);
    end
}

/// What is done to a node: whether the record of an index goes, and what comes there.
#[derive(Clone, Copy)]
pub struct Edit<'a> {
    /// Which.
    pub index: usize,
    /// Whether it goes.
    pub goes: bool,
    /// What comes in its place, or before it.
    pub comes: Option<(u64, &'a [u8])>,
}

/// Changes one record of a node, if there is room. False if not, and then nothing is changed.
///
/// # Errors
/// Damage.
pub fn edit(image: &mut Image, view: &View<'_>, edit: Edit<'_>) -> Result<bool, FileError> {
    let Edit { index, goes, comes } = edit;
    let (gone, came) = (usize::from(goes), usize::from(comes.is_some()));
    let end = view.end()?;
    let begins = |index| match index < view.records {
        true => view.begins(index),
        false => end,
    };
    // What is behind the change moves from `behind` to `to`.
    let (from, behind) = (begins(index), begins(index + gone));
    let to = from + comes.map_or(0, |(_, value)| 10 + value.len());
    let (new_end, records) = (end - behind + to, view.records - gone + came);
    if new_end > list_of(records) {
        return Ok(false);
    }
    work(Op::DirectoryUpdate, || {
        let bytes = Arc::make_mut(image);
        bytes.copy_within(behind..end, to);
        bytes[new_end.min(end)..end].fill(0);
        for old in index + gone..view.records {
            put_begin(bytes, old - gone + came, view.begins(old) - behind + to);
        }
        if let Some((key, value)) = comes {
            put_begin(bytes, index, from);
            put_record(bytes, from, key, value);
        }
        if records < view.records {
            bytes[list_of(view.records)..list_of(records)].fill(0);
        }
        let head: &mut NodeHead = page::of_mut(bytes);
        head.records = (records as u16).into();
    });
    Ok(true)
}

/// Records of a node that is to be rebuilt.
pub type Records<'a> = Vec<(u64, &'a [u8])>;

/// Bytes that records take in a node.
pub fn bytes_of(records: &[(u64, &[u8])]) -> usize {
    let bytes = |(_, value): &(u64, &[u8])| RECORD_BYTES + value.len();
    records.iter().map(bytes).sum()
}

/// Writes records into a node. They fit.
pub fn build(image: &mut Image, owner: u64, level: u16, records: &[(u64, &[u8])]) {
    debug_assert!(bytes_of(records) <= ROOM_BYTES);
    debug_assert!(records.is_sorted_by_key(|(key, _)| *key));
    work(Op::DirectoryUpdate, || {
        let bytes = Arc::make_mut(image);
        bytes[HEAD_BYTES..].fill(0);
        let head: &mut NodeHead = page::of_mut(bytes);
        head.owner = owner.into();
        head.level = level.into();
        head.records = (records.len() as u16).into();
        let mut at = HEAD_BYTES;
        for (index, (key, value)) in records.iter().enumerate() {
            put_begin(bytes, index, at);
            at = put_record(bytes, at, *key, value);
        }
    });
}

/// Where to split records that do not fit into one node, `grown` being the one that was added.
pub fn split_point(records: &[(u64, &[u8])], grown: usize) -> usize {
    if grown == records.len() - 1 {
        return grown;
    }
    let half = bytes_of(records) / 2;
    let mut before = 0;
    let is_first_half = |(_, value): &&(u64, &[u8])| {
        before += RECORD_BYTES + value.len();
        before <= half
    };
    let point = records.iter().take_while(is_first_half).count();
    point.clamp(1, records.len() - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use wharf_runtime::Seed;

    /// The bytes of a node with these records.
    fn built(records: &BTreeMap<u64, Vec<u8>>) -> Image {
        let mut image: Image = Arc::new([0; PAGE_BYTES]);
        let records: Records<'_> = records.iter().map(|(key, v)| (*key, &v[..])).collect();
        build(&mut image, 5, 0, &records);
        image
    }

    #[test]
    fn a_node_that_is_changed_is_the_node_that_would_be_built() {
        let mut rng = Seed(3).child("records").rng();
        let mut records = BTreeMap::from([(7, vec![1; 20])]);
        let mut image = built(&records);
        let mut refused = 0;
        for round in 0..4_000 {
            let old = image.clone();
            let view = View::new(&old, 9, 5, 0).unwrap();
            let key = rng.below(60);
            let index = view.below(key).unwrap();
            let goes = records.contains_key(&key);
            let bytes = vec![round as u8; rng.below(VALUE_BYTES_MAX as u64 + 1) as usize];
            let comes = (!goes || rng.chance(1, 2)).then_some((key, &bytes[..]));
            if comes.is_none() && records.len() == 1 {
                continue;
            }
            let change = Edit { index, goes, comes };
            if edit(&mut image, &view, change).unwrap() {
                match comes {
                    Some(_) => records.insert(key, bytes),
                    None => records.remove(&key),
                };
            } else {
                refused += 1;
            }
            assert!(image == built(&records), "round {round}");
            let view = View::new(&image, 9, 5, 0).unwrap();
            let all: Vec<_> = records.iter().map(|(key, v)| (*key, &v[..])).collect();
            assert_eq!(view.bytes().unwrap(), bytes_of(&all));
        }
        assert!((100..3_000).contains(&refused), "{refused}");
    }
}
