//! The raw form: four bits for each sector, two sectors a byte, the lower one in the low bits.

use super::{Run, SECTORS};
use crate::indexless::word::Word;

/// Bytes of the form.
pub(super) const BYTES: usize = SECTORS as usize / 2;

/// The word of a sector.
#[inline]
pub(super) fn get(bytes: &[u8], sector: u32) -> Word {
    Word::of_bits(bytes[sector as usize / 2] >> (sector % 2 * 4) & 0xf)
}

/// Sets the word of a sector.
#[inline]
pub(super) fn set(bytes: &mut [u8], sector: u32, word: Word) {
    let byte = &mut bytes[sector as usize / 2];
    let shift = sector % 2 * 4;
    *byte = *byte & !(0xf << shift) | word.bits() << shift;
}

/// All sectors that are not absent, in ascending order, as runs of one.
pub(super) fn iter(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let words = bytes
        .chunks_exact(8)
        .map(|eight| u64::from_le_bytes(eight.try_into().expect("eight bytes")));
    let some = (0..).zip(words).filter(|(_, word)| *word != 0);
    some.flat_map(|(index, word)| {
        let nibble = move |sector: u16| (word >> (sector * 4) & 0xf) as u8;
        let cached = (0..16).filter(move |sector| nibble(*sector) != 0);
        cached.map(move |sector| Run {
            first: index * 16 + sector,
            count: 1,
            word: Word::of_bits(nibble(sector)),
        })
    })
}

/// The form with these runs.
pub(super) fn of_runs(runs: &[Run]) -> Box<[u8]> {
    let mut bytes = vec![0; BYTES].into_boxed_slice();
    for run in runs {
        for sector in run.first..run.first + run.count {
            set(&mut bytes, u32::from(sector), run.word);
        }
    }
    bytes
}
