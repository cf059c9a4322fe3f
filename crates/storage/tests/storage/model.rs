//! A target beside a flat array of bytes: random reads, writes and flushes, many at a time.

use std::collections::BTreeMap;

use wharf_runtime::{Rng, Seed};
use wharf_storage::{AlignedBuffer, Channel, Io, Op, Segment, Target};

/// What a case does.
#[derive(Clone, Copy)]
pub struct Case {
    pub seed: u64,
    pub operations: u32,
    pub depth: u32,
    /// The most blocks of one I/O.
    pub blocks_max: u64,
}

struct Pending {
    op: Op,
    offset: u64,
    buffers: Vec<AlignedBuffer>,
}

impl Pending {
    fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.buffers.iter().map(|b| b.len() as u64).sum::<u64>()
    }
}

/// A model, and what is under way beside it.
pub struct Model<'a> {
    target: &'a dyn Target,
    pub bytes: Vec<u8>,
    rng: Rng,
    pending: BTreeMap<u64, Pending>,
    next_tag: u64,
}

impl<'a> Model<'a> {
    /// A model of a target that holds `bytes`.
    pub fn new(target: &'a dyn Target, bytes: Vec<u8>, seed: u64) -> Model<'a> {
        assert_eq!(bytes.len() as u64, target.size_bytes());
        Model {
            target,
            bytes,
            rng: Seed(seed).child("model").rng(),
            pending: BTreeMap::new(),
            next_tag: 0,
        }
    }

    fn block(&self) -> u64 {
        u64::from(self.target.info().block_bytes)
    }

    /// A random I/O whose range no other under way touches, except reads reads.
    fn draw(&mut self, blocks_max: u64) -> Option<Pending> {
        let kind = self.rng.below(100);
        if kind < 4 {
            let (op, offset, buffers) = (Op::Flush, 0, Vec::new());
            return Some(Pending {
                op,
                offset,
                buffers,
            });
        }
        let blocks = self.target.size_bytes().div_ceil(self.block());
        let first = self.rng.below(blocks);
        let longest = blocks_max.min(blocks - first);
        let count = if self.rng.chance(1, 2) {
            1 + self.rng.below(longest.min(4))
        } else {
            1 + self.rng.below(longest)
        };
        let op = if kind < 50 { Op::Read } else { Op::Write };
        let pieces = if self.rng.chance(1, 2) {
            1
        } else {
            1 + self.rng.below(count.min(40))
        };
        let mut buffers = Vec::new();
        let mut left = count;
        for piece in 0..pieces {
            let most = left - (pieces - piece - 1);
            let part = if piece + 1 == pieces {
                left
            } else {
                1 + self.rng.below(most)
            };
            left -= part;
            let mut buffer = AlignedBuffer::new((part * self.block()) as usize);
            let mut word = self.rng.next_u64();
            for chunk in buffer.chunks_mut(8) {
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
                word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            }
            buffers.push(buffer);
        }
        let offset = first * self.block();
        let drawn = Pending {
            op,
            offset,
            buffers,
        };
        let apart = |other: &Pending| {
            let (a, b) = (drawn.range(), other.range());
            a.end <= b.start || b.end <= a.start || (op == Op::Read && other.op == Op::Read)
        };
        self.pending.values().all(apart).then_some(drawn)
    }

    fn check(&mut self, tag: u64) {
        let ended = self.pending.remove(&tag).expect("it was submitted once");
        let mut at = ended.offset as usize;
        for buffer in &ended.buffers {
            let stored = self.bytes.len().saturating_sub(at).min(buffer.len());
            match ended.op {
                Op::Read => {
                    assert!(
                        buffer[..stored] == self.bytes[at..at + stored],
                        "read at {at} of {} bytes",
                        buffer.len()
                    );
                    assert!(
                        buffer[stored..].iter().all(|b| *b == 0),
                        "zeros beyond the end"
                    );
                }
                Op::Write => self.bytes[at..at + stored].copy_from_slice(&buffer[..stored]),
                Op::Flush => {}
            }
            at += buffer.len();
        }
    }

    /// Runs random I/Os, and waits for all of them.
    pub fn run(&mut self, channel: &mut dyn Channel, operations: u32, blocks_max: u64) {
        for _ in 0..operations {
            let full = channel.in_flight() == channel.depth();
            if full || self.rng.chance(1, 4) {
                let min = usize::from(full || self.rng.chance(1, 2)).min(channel.in_flight());
                self.collect(channel, min);
            }
            let Some(mut drawn) = self
                .draw(blocks_max)
                .filter(|_| channel.in_flight() < channel.depth())
            else {
                continue;
            };
            let segments: Vec<_> = drawn.buffers.iter_mut().map(|b| Segment::of(b)).collect();
            let tag = self.next_tag;
            self.next_tag += 1;
            let io = Io {
                op: drawn.op,
                offset: drawn.offset,
                segments: &segments,
                tag,
            };
            // SAFETY: the buffers are kept in `pending`, untouched, until the I/O is reported.
            unsafe { channel.submit(io) }.expect("there is room");
            self.pending.insert(tag, drawn);
        }
        let left = channel.in_flight();
        self.collect(channel, left);
        assert!(self.pending.is_empty(), "everything submitted is reported");
    }

    fn collect(&mut self, channel: &mut dyn Channel, min: usize) {
        let mut tags = Vec::new();
        let mut note = |completion: wharf_storage::Completion| {
            completion.result.expect("no fault was injected");
            tags.push(completion.tag);
        };
        let count = if min == 0 {
            channel.poll(&mut note)
        } else {
            channel.wait(min, &mut note)
        };
        assert_eq!(count, tags.len());
        assert!(count >= min, "it waits for as many as asked");
        for tag in tags {
            self.check(tag);
        }
    }
}

/// Runs a case on a target that holds zeros, then reads all of it by a second channel.
pub fn check(target: &dyn Target, case: Case) -> Vec<u8> {
    let zeros = vec![0; target.size_bytes() as usize];
    let mut model = Model::new(target, zeros, case.seed);
    let mut channel = target.channel(case.depth).expect("a channel");
    model.run(&mut *channel, case.operations, case.blocks_max);
    drop(channel);
    let bytes = model.bytes;
    assert!(
        contents(target) == bytes,
        "seed {}: what is stored at the end",
        case.seed
    );
    bytes
}

/// All bytes of a target.
pub fn contents(target: &dyn Target) -> Vec<u8> {
    let block = u64::from(target.info().block_bytes);
    let size = target.size_bytes();
    let mut all = vec![0; size.next_multiple_of(block) as usize];
    let mut reader = wharf_storage::Blocking::new(target).expect("a channel");
    reader.read(0, &mut all).expect("it is readable");
    all.truncate(size as usize);
    all
}
