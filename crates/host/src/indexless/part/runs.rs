//! The run form: for each run of equal words its gap to the run before, its length and its word.
//!
//! A run begins with a byte: four bits of the word, and the length if it is below 16 (else 0 there,
//! and a number follows). Then the gap. Numbers have seven bits a byte, the lowest first; the
//! highest bit says that more follow.

use super::run::Run;
use crate::indexless::word::Word;

/// All runs, in ascending order.
pub(super) fn iter(bytes: &[u8]) -> impl Iterator<Item = Run> {
    Runs(bytes, 0)
}

/// Writes runs.
pub(super) fn write(runs: &[Run], out: &mut Vec<u8>) {
    let mut end = 0;
    for run in runs {
        let short = if run.count < 16 { run.count as u8 } else { 0 };
        out.push(run.word.bits() << 4 | short);
        if short == 0 {
            push_number(out, run.count);
        }
        push_number(out, run.first - end);
        end = run.first + run.count;
    }
}

fn push_number(out: &mut Vec<u8>, mut value: u16) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is left to read, and where the run before ended.
struct Runs<'a>(&'a [u8], u16);

impl Runs<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("runs are written whole");
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u16 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u16::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        if self.0.is_empty() {
            return None;
        }
        let head = self.byte();
        let count = match head & 0xf {
            0 => self.number(),
            short => u16::from(short),
        };
        let first = self.1 + self.number();
        self.1 = first + count;
        Some(Run {
            first,
            count,
            word: Word::of_bits(head >> 4),
        })
    }
}
