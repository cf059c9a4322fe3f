//! An index with a line for each cached sector, as Open CAS has: what the bitmap is compared with.
//!
//! Lines are in an array; buckets of a hash table have the numbers of their first lines, and lines are linked within a bucket
//! and in the order of their use. A line has the fields that such a cache keeps of it: which core device and
//! sector it is of, its partition, which of its eight sectors of 512 bytes are valid and which dirty. That is 32 bytes, and
//! four of a bucket; Open CAS itself takes 54 (open-cas-linux, issue 410). The least recently used lines leave.

use super::{Policy, Victim, View, tidy};

/// No line.
const NONE: u32 = u32::MAX;

/// Buckets at first.
const BUCKETS_MIN: usize = 1024;

/// What is known of a cached sector.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Sector of the core device.
    sector: u64,
    /// Neighbours in the bucket.
    next: u32,
    previous: u32,
    /// Neighbours in the order of use.
    older: u32,
    newer: u32,
    /// The core device, of several that share a cache.
    _core: u16,
    /// The partition, of several with limits of their own.
    _partition: u16,
    /// A bit for each 512 bytes.
    _valid: u8,
    _dirty: u8,
}

const _: () = assert!(size_of::<Line>() == 32);

/// See the [module](self).
#[derive(Debug)]
pub struct OpenCas {
    lines: Vec<Line>,
    /// First line of each bucket; a power of two of them.
    buckets: Vec<u32>,
    /// First of the lines that are free, linked by `next`.
    free: u32,
    used: usize,
    oldest: u32,
    newest: u32,
}

impl Default for OpenCas {
    fn default() -> OpenCas {
        OpenCas {
            lines: Vec::new(),
            buckets: vec![NONE; BUCKETS_MIN],
            free: NONE,
            used: 0,
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl OpenCas {
    fn bucket(&self, sector: u64) -> usize {
        let hash = sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - self.buckets.len().ilog2())) as usize
    }

    fn find(&self, sector: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(sector)];
        while at != NONE {
            let line = &self.lines[at as usize];
            if line.sector == sector {
                return Some(at);
            }
            at = line.next;
        }
        None
    }

    fn link_in_bucket(&mut self, at: u32) {
        let bucket = self.bucket(self.lines[at as usize].sector);
        let next = std::mem::replace(&mut self.buckets[bucket], at);
        let line = &mut self.lines[at as usize];
        (line.next, line.previous) = (next, NONE);
        if next != NONE {
            self.lines[next as usize].previous = at;
        }
    }

    fn unlink_in_bucket(&mut self, at: u32) {
        let Line {
            sector,
            next,
            previous,
            ..
        } = self.lines[at as usize];
        match previous {
            NONE => {
                let bucket = self.bucket(sector);
                self.buckets[bucket] = next;
            }
            _ => self.lines[previous as usize].next = next,
        }
        if next != NONE {
            self.lines[next as usize].previous = previous;
        }
    }

    fn make_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        let line = &mut self.lines[at as usize];
        (line.older, line.newer) = (older, NONE);
        match older {
            NONE => self.oldest = at,
            _ => self.lines[older as usize].newer = at,
        }
    }

    fn leave_order(&mut self, at: u32) {
        let Line { older, newer, .. } = self.lines[at as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.lines[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.lines[newer as usize].older = older,
        }
    }

    /// As many buckets as lines, at least half as many.
    fn grow(&mut self) {
        if self.used < self.buckets.len() {
            return;
        }
        self.buckets = vec![NONE; self.buckets.len() * 2];
        let mut at = self.oldest;
        while at != NONE {
            self.link_in_bucket(at);
            at = self.lines[at as usize].newer;
        }
    }

    fn touch(&mut self, sector: u64) {
        if let Some(at) = self.find(sector) {
            self.leave_order(at);
            return self.make_newest(at);
        }
        self.grow();
        let line = Line {
            sector,
            next: NONE,
            previous: NONE,
            older: NONE,
            newer: NONE,
            _core: 0,
            _partition: 0,
            _valid: u8::MAX,
            _dirty: 0,
        };
        let at = match self.free {
            NONE => {
                self.lines.push(line);
                self.lines.len() as u32 - 1
            }
            at => {
                self.free = self.lines[at as usize].next;
                self.lines[at as usize] = line;
                at
            }
        };
        self.used += 1;
        self.link_in_bucket(at);
        self.make_newest(at);
    }

    fn remove(&mut self, sector: u64) {
        let Some(at) = self.find(sector) else {
            return;
        };
        self.unlink_in_bucket(at);
        self.leave_order(at);
        self.lines[at as usize].next = std::mem::replace(&mut self.free, at);
        self.used -= 1;
    }
}

impl Policy for OpenCas {
    fn touched(&mut self, first: u64, count: u32) {
        (first..first + u64::from(count)).for_each(|sector| self.touch(sector));
    }

    fn forgotten(&mut self, first: u64, count: u32) {
        (first..first + u64::from(count)).for_each(|sector| self.remove(sector));
    }

    fn choose(&mut self, _view: View<'_>, budget: u64, out: &mut Vec<Victim>) {
        let mut at = self.oldest;
        for _ in 0..budget {
            if at == NONE {
                break;
            }
            let line = &self.lines[at as usize];
            out.push(Victim {
                first: line.sector,
                count: 1,
            });
            at = line.newer;
        }
        tidy(out);
    }

    fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>() + self.buckets.capacity() * size_of::<u32>()
    }
}
