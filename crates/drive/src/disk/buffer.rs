//! Written sectors that are not on the platter yet: the write cache, and on the way there without one.

use std::collections::BTreeMap;

/// Runs on either side of the head that the elevator looks at.
const NEIGHBOURS: usize = 16;

/// The most sectors that are written at a time, so that other commands get a turn.
pub const RUN_SECTORS: u32 = 256;

#[derive(Debug)]
struct Dirty {
    /// Number of the first write that is not on the platter.
    seq: u64,
    since_ns: u64,
    data: Box<[u8]>,
}

/// Neighbouring sectors that are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Since when the first has waited.
    pub since_ns: u64,
}

/// Sectors that were written and are not on the platters yet.
#[derive(Debug)]
pub struct WriteBuffer {
    sectors_max: usize,
    dirty: BTreeMap<u32, Dirty>,
    /// Sectors in the order in which they were first written.
    by_age: BTreeMap<u64, u32>,
    seq: u64,
}

impl WriteBuffer {
    /// An empty buffer of `sectors_max` sectors.
    pub fn new(sectors_max: usize) -> WriteBuffer {
        WriteBuffer {
            sectors_max,
            dirty: BTreeMap::new(),
            by_age: BTreeMap::new(),
            seq: 0,
        }
    }

    /// Sectors in it.
    pub fn sectors(&self) -> usize {
        self.dirty.len()
    }

    /// Sectors that fit.
    pub fn sectors_max(&self) -> usize {
        self.sectors_max
    }

    /// Number of the latest write.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether a sector can be put now.
    pub fn takes(&self, sector: u32) -> bool {
        self.dirty.len() < self.sectors_max || self.dirty.contains_key(&sector)
    }

    /// Takes what a sector is to hold.
    pub fn put(&mut self, now_ns: u64, sector: u32, data: &[u8]) {
        self.seq += 1;
        if let Some(dirty) = self.dirty.get_mut(&sector) {
            return dirty.data.copy_from_slice(data);
        }
        let (seq, since_ns) = (self.seq, now_ns);
        let data = data.into();
        self.dirty.insert(
            sector,
            Dirty {
                seq,
                since_ns,
                data,
            },
        );
        self.by_age.insert(seq, sector);
    }

    /// What a sector holds that is in the buffer.
    pub fn get(&self, sector: u32) -> Option<&[u8]> {
        self.dirty.get(&sector).map(|dirty| &*dirty.data)
    }

    /// A sector is on the platter, or to be forgotten.
    pub fn remove(&mut self, sector: u32) {
        if let Some(dirty) = self.dirty.remove(&sector) {
            self.by_age.remove(&dirty.seq);
        }
    }

    /// Forgets all sectors of a range.
    pub fn forget(&mut self, first: u32, count: u32) {
        let held: Vec<u32> = self
            .dirty
            .range(first..first + count)
            .map(|(s, _)| *s)
            .collect();
        held.into_iter().for_each(|sector| self.remove(sector));
    }

    /// Whether all writes up to number `seq` are on the platter.
    pub fn is_settled(&self, seq: u64) -> bool {
        self.by_age
            .first_key_value()
            .is_none_or(|(oldest, _)| *oldest > seq)
    }

    /// As [`WriteBuffer::is_settled`], of the writes to a range.
    pub fn range_is_settled(&self, first: u32, count: u32, seq: u64) -> bool {
        self.dirty
            .range(first..first + count)
            .all(|(_, dirty)| dirty.seq > seq)
    }

    /// The run that begins at `first`, at most [`RUN_SECTORS`] long.
    fn run_from(&self, first: u32) -> Run {
        let sectors = self.dirty.range(first..).zip(first..);
        let together = sectors.take_while(|((sector, _), at)| *sector == at);
        let count = together.take(RUN_SECTORS as usize).count() as u32;
        let since_ns = self.dirty[&first].since_ns;
        Run {
            first,
            count,
            since_ns,
        }
    }

    /// Runs near `sector`, on both sides, and that of the oldest write.
    pub fn runs_near(&self, sector: u32) -> Vec<Run> {
        let mut firsts = Vec::new();
        let (mut at, mut found) = (sector, 0);
        while found < NEIGHBOURS
            && let Some((first, _)) = self.dirty.range(at..).next()
        {
            firsts.push(*first);
            at = *first + self.run_from(*first).count;
            found += 1;
        }
        let mut below = self.dirty.range(..sector).rev().map(|(s, _)| *s).peekable();
        found = 0;
        let mut length = 0;
        while found < NEIGHBOURS
            && let Some(one) = below.next()
        {
            length += 1;
            let goes_on = one > 0 && below.peek() == Some(&(one - 1));
            if !goes_on || length == RUN_SECTORS {
                firsts.push(one);
                (found, length) = (found + 1, 0);
            }
        }
        firsts.extend(self.by_age.first_key_value().map(|(_, oldest)| *oldest));
        firsts
            .into_iter()
            .map(|first| self.run_from(first))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_on_both_sides_of_the_head() {
        let mut buffer = WriteBuffer::new(4096);
        for sector in (10..20).chain(30..31).chain(100..700).chain(900..905) {
            buffer.put(5, sector, &[1; 8]);
        }
        let firsts: Vec<(u32, u32)> = buffer
            .runs_near(120)
            .iter()
            .map(|r| (r.first, r.count))
            .collect();
        let ahead = [(120, 256), (376, 256), (632, 68), (900, 5)];
        let behind = [(100, 256), (30, 1), (10, 10)];
        let oldest = [(10, 10)];
        let all: Vec<_> = ahead.into_iter().chain(behind).chain(oldest).collect();
        assert_eq!(firsts, all);
        assert!(WriteBuffer::new(1).runs_near(7).is_empty());
    }

    #[test]
    fn a_write_is_settled_when_its_sectors_have_gone() {
        let mut buffer = WriteBuffer::new(2);
        buffer.put(0, 7, &[1; 8]);
        buffer.put(0, 9, &[2; 8]);
        assert!(!buffer.takes(8) && buffer.takes(9));
        let seq = buffer.seq();
        buffer.put(0, 7, &[3; 8]);
        assert_eq!(buffer.get(7), Some(&[3; 8][..]));
        buffer.remove(9);
        assert!(!buffer.is_settled(seq) && buffer.range_is_settled(8, 5, seq));
        buffer.remove(7);
        assert!(buffer.is_settled(seq) && buffer.sectors() == 0);
        buffer.put(0, 7, &[3; 8]);
        // A later write does not count.
        assert!(buffer.is_settled(seq));
    }
}
