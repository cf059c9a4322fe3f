//! The offset form, for sectors that lie scattered: their positions as Elias and Fano have it, and
//! three bits for each (dirty, heat).
//!
//! Of `n` ascending positions below 8192 the low `l` bits are kept as they are, and the high ones
//! as a string of bits in which a one stands for a position and a zero for a step to the next
//! value. `l` is chosen so that there are about as many ones as zeros. That takes about
//! `2 + log2(8192 / n)` bits a position (Elias, 1974; Fano, 1971).
//!
//! Bytes: `n` (2), then low bits, high bits and words, each from a byte of its own on.

use super::bits::{BitWriter, bits_at, set_bits};
use super::run::{Run, SECTORS, is_plain};
use crate::indexless::word::{Place, Word};

/// Bits of a sector's word.
const WORD_BITS: u32 = 3;

/// Where the parts of the form are.
struct Layout {
    count: usize,
    low_bits: u32,
    /// Byte at which the high bits begin.
    high: usize,
    /// Byte at which the words begin.
    words: usize,
}

impl Layout {
    fn new(count: usize) -> Layout {
        // As many low bits as make high parts about as many as positions.
        let low_bits = (SECTORS / count.max(1) as u32).max(1).ilog2();
        let high = 2 + (count * low_bits as usize).div_ceil(8);
        let high_bits = count + (SECTORS >> low_bits) as usize;
        Layout {
            count,
            low_bits,
            high,
            words: high + high_bits.div_ceil(8),
        }
    }

    fn of(bytes: &[u8]) -> Layout {
        Layout::new(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    fn bytes(&self) -> usize {
        self.words + (self.count * WORD_BITS as usize).div_ceil(8)
    }

    /// The sector of entry `index`, whose one is bit number `one` of the high bits.
    #[inline]
    fn sector(&self, bytes: &[u8], index: usize, one: usize) -> u32 {
        let low_at = 16 + index * self.low_bits as usize;
        let low = bits_at(bytes, low_at, self.low_bits);
        ((one - index) as u32) << self.low_bits | low
    }

    #[inline]
    fn word(&self, bytes: &[u8], index: usize) -> Word {
        let at = self.words * 8 + index * WORD_BITS as usize;
        let bits = bits_at(bytes, at, WORD_BITS) as u8;
        match bits & 0b100 {
            0 => Word::clean(bits),
            _ => Word::dirty(bits & 0b011),
        }
    }
}

fn code(word: Word) -> u32 {
    debug_assert!(word.is_cached() && !word.is_leaving());
    u32::from(word.place() == Place::Dirty) << 2 | u32::from(word.heat())
}

/// Bytes of the form with `count` sectors.
pub(super) fn bytes_of(count: usize) -> usize {
    Layout::new(count).bytes()
}

/// Writes the sectors of the runs.
pub(super) fn write(runs: &[Run], out: &mut Vec<u8>) {
    let count = runs.iter().map(|run| usize::from(run.count)).sum();
    let layout = Layout::new(count);
    let sectors = || runs.iter().flat_map(|run| run.first..run.first + run.count);
    out.extend_from_slice(&(count as u16).to_le_bytes());
    let mut low = BitWriter::after(std::mem::take(out));
    for sector in sectors() {
        low.push(u32::from(sector), layout.low_bits);
    }
    let mut high = BitWriter::after(low.into_bytes());
    let (mut at, steps) = (0, SECTORS >> layout.low_bits);
    for sector in sectors() {
        let step = u32::from(sector) >> layout.low_bits;
        while at < step {
            high.push(0, 1);
            at += 1;
        }
        high.push(1, 1);
    }
    (at..steps).for_each(|_| high.push(0, 1));
    let mut words = BitWriter::after(high.into_bytes());
    for run in runs {
        (0..run.count).for_each(|_| words.push(code(run.word), WORD_BITS));
    }
    *out = words.into_bytes();
}

/// The position behind the `wanted`-th zero, for some of which there are so many.
#[inline]
fn behind_zero(bits: &[u8], wanted: usize) -> usize {
    let mut left = wanted;
    if left == 0 {
        return 0;
    }
    for (index, eight) in bits.chunks(8).enumerate() {
        let mut word = [0xff; 8];
        word[..eight.len()].copy_from_slice(eight);
        let mut zeros = !u64::from_le_bytes(word);
        let count = zeros.count_ones() as usize;
        if count < left {
            left -= count;
            continue;
        }
        // Whole bytes, then bit by bit.
        let mut at = index * 64;
        loop {
            let count = (zeros & 0xff).count_ones() as usize;
            if count >= left {
                break;
            }
            (left, zeros, at) = (left - count, zeros >> 8, at + 8);
        }
        (1..left).for_each(|_| zeros &= zeros - 1);
        return at + zeros.trailing_zeros() as usize + 1;
    }
    bits.len() * 8
}

/// The entry of a sector.
#[inline]
fn find(layout: &Layout, bytes: &[u8], sector: u32) -> Option<usize> {
    // Behind the `wanted`-th zero are the entries with these high bits.
    let wanted = (sector >> layout.low_bits) as usize;
    let high = &bytes[layout.high..layout.words];
    let mut at = behind_zero(high, wanted);
    let mut ones = at - wanted;
    let bit = |at: usize| {
        high.get(at / 8)
            .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    };
    while ones < layout.count && bit(at) {
        let found = layout.sector(bytes, ones, at);
        if found >= sector {
            return (found == sector).then_some(ones);
        }
        (ones, at) = (ones + 1, at + 1);
    }
    None
}

/// The word of a sector.
pub(super) fn get(bytes: &[u8], sector: u32) -> Word {
    let layout = Layout::of(bytes);
    find(&layout, bytes, sector).map_or(Word::ABSENT, |index| layout.word(bytes, index))
}

/// The word of a sector, and what `change` makes of it: that is its word then, if the form can have it in place.
pub(super) fn change(bytes: &mut [u8], sector: u32, change: impl Fn(Word) -> Word) -> (Word, Word) {
    let layout = Layout::of(bytes);
    let Some(index) = find(&layout, bytes, sector) else {
        return (Word::ABSENT, change(Word::ABSENT));
    };
    let old = layout.word(bytes, index);
    let new = change(old);
    if new != old && is_plain(new) {
        let at = layout.words * 8 + index * WORD_BITS as usize;
        set_bits(bytes, at, WORD_BITS, code(new));
    }
    (old, new)
}

/// All sectors, in ascending order, as runs of one.
pub(super) fn iter(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let layout = Layout::of(bytes);
    let high = &bytes[layout.high..layout.words];
    let ones = high.iter().enumerate().flat_map(|(at, byte)| {
        let set = move |bit: &usize| byte >> bit & 1 == 1;
        (0..8).filter(set).map(move |bit| at * 8 + bit)
    });
    ones.enumerate().map(move |(index, one)| Run {
        first: layout.sector(bytes, index, one) as u16,
        count: 1,
        word: layout.word(bytes, index),
    })
}
