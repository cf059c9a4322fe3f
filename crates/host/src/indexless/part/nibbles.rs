//! Words of sixteen sectors at a time: four bits each in a `u64`, the lowest sector in the lowest
//! bits.
//!
//! A class of sectors is a mask with the lowest bit of each of its nibbles set: classes are
//! combined by bits, and counted by one instruction.

use super::run::Counts;

/// Sectors of a `u64`.
pub const NIBBLES: u32 = 16;

/// The lowest bit of each nibble.
const LOW: u64 = 0x1111_1111_1111_1111;

/// All that are in the cache.
#[inline]
fn cached(word: u64) -> u64 {
    (word >> 3 | word >> 2) & LOW
}

/// All that the disk has not.
#[inline]
fn dirty(word: u64) -> u64 {
    word >> 2 & LOW
}

/// All with any heat.
#[inline]
fn hot(word: u64) -> u64 {
    (word | word >> 1) & LOW
}

/// All of a range, as a class.
#[inline]
pub(super) fn class_of(from: u32, to: u32) -> u64 {
    debug_assert!(from < to && to <= NIBBLES);
    LOW >> ((NIBBLES - (to - from)) * 4) << (from * 4)
}

/// How many sectors are what.
#[inline]
pub(super) fn counts(word: u64) -> Counts {
    let (cached, dirty) = (cached(word), dirty(word));
    let cold = cached & !hot(word);
    // Those that are leaving are dirty, and have not the highest bit.
    let staying = word >> 3 & LOW;
    Counts {
        cached: cached.count_ones() as u16,
        dirty: dirty.count_ones() as u16,
        cold_clean: (cold & !dirty).count_ones() as u16,
        cold_dirty: (cold & dirty & staying).count_ones() as u16,
    }
}

/// Clean sectors cooler if `clean`, dirty ones if `dirties`.
#[inline]
pub fn cooler(word: u64, clean: bool, dirties: bool) -> u64 {
    let dirty = dirty(word);
    let chosen = if clean { !dirty } else { 0 } | if dirties { dirty } else { 0 };
    // Heat is in the low bits: where there is some, nothing is borrowed.
    word - (hot(word) & chosen)
}

/// Whether a sector in a range is in the cache and has no heat.
#[inline]
pub fn any_cold(word: u64, from: u32, to: u32) -> bool {
    cached(word) & !hot(word) & class_of(from, to) != 0
}

/// Sectors of a range hotter by one, but for those that are cold or as hot as can be.
#[inline]
pub fn hotter(word: u64, from: u32, to: u32) -> u64 {
    let hottest = word & word >> 1 & LOW;
    word + (hot(word) & !hottest & class_of(from, to))
}

/// What a read goes by, as words without heat: of sectors that are leaving the same as of dirty
/// ones.
#[inline]
pub fn places(word: u64) -> u64 {
    let flags = word & (LOW * 0b1100);
    flags | (flags & (LOW * 0b0100)) << 1
}

/// Runs of equal words that begin in `word`, of sectors that are cached; `before` is the word of
/// the sector before.
#[inline]
pub(super) fn runs_begun(word: u64, before: u64) -> u32 {
    let differs = word ^ (word << 4 | before);
    let differs = differs | differs >> 1;
    let differs = (differs | differs >> 2) & LOW;
    (differs & cached(word)).count_ones()
}

/// Calls `each` with first sector, count and word of each run of equal words from `from` up to
/// `to`.
#[inline]
pub fn each_run(word: u64, from: u32, to: u32, mut each: impl FnMut(u32, u32, u8)) {
    let mut at = from;
    while at < to {
        let rest = word >> (at * 4);
        let nibble = rest & 0xf;
        let same = (rest ^ (nibble * LOW)).trailing_zeros() / 4;
        let count = same.min(to - at);
        each(at, count, nibble as u8);
        at += count;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_runtime::Seed;

    use super::*;
    use crate::indexless::word::{Place, Word};

    /// Words as there are.
    fn some(rng: &mut wharf_runtime::Rng) -> Vec<Word> {
        let one = |rng: &mut wharf_runtime::Rng| match rng.below(4) {
            0 => Word::ABSENT,
            1 => Word::clean(rng.below(4) as u8),
            2 => Word::dirty(rng.below(4) as u8),
            _ => Word::dirty(rng.below(4) as u8).leaving(),
        };
        let mut words: Vec<Word> = (0..16).map(|_| one(rng)).collect();
        // Runs, too.
        (1..16).for_each(|at| {
            if rng.chance(1, 2) {
                words[at] = words[at - 1];
            }
        });
        words
    }

    fn joined(words: &[Word]) -> u64 {
        let each = (0..).zip(words);
        each.fold(0, |all, (at, word): (u32, _)| {
            all | u64::from(word.bits()) << (at * 4)
        })
    }

    #[test]
    fn sixteen_at_a_time_are_as_one_by_one() {
        let mut rng = Seed(9).rng();
        for _ in 0..20_000 {
            let words = some(&mut rng);
            let word = joined(&words);
            let mut expected = Counts::default();
            words.iter().for_each(|word| expected.add(*word, 1));
            assert_eq!(counts(word), expected);
            let (clean, dirty) = (rng.chance(1, 2), rng.chance(1, 2));
            let cool = |word: &Word| match if word.is_dirty() { dirty } else { clean } {
                true => word.cooler(),
                false => *word,
            };
            let cooled: Vec<Word> = words.iter().map(cool).collect();
            assert_eq!(cooler(word, clean, dirty), joined(&cooled));
            let from = rng.below(16) as u32;
            let to = from + 1 + rng.below(16 - u64::from(from)) as u32;
            let range = from as usize..to as usize;
            assert_eq!(
                any_cold(word, from, to),
                words[range.clone()]
                    .iter()
                    .any(|w| w.is_cached() && w.heat() == 0)
            );
            let warm = |(at, word): (usize, &Word)| match range.contains(&at) && word.heat() > 0 {
                true => word.warmer(),
                false => *word,
            };
            let warmed: Vec<Word> = words.iter().enumerate().map(warm).collect();
            assert_eq!(hotter(word, from, to), joined(&warmed));
            let place = |word: &Word| match word.place() {
                Place::Disk => Word::ABSENT,
                Place::Clean => Word::clean(0),
                Place::Dirty => Word::dirty(0),
            };
            let read: Vec<Word> = words.iter().map(place).collect();
            assert_eq!(places(word), joined(&read));
            let mut found = Vec::new();
            let mut runs: Vec<u8> = Vec::new();
            each_run(word, from, to, |at, count, nibble| {
                assert_eq!(at as usize, from as usize + found.len());
                found.extend((0..count).map(|_| Word::of_bits(nibble)));
                assert_ne!(runs.last(), Some(&nibble), "equal neighbours are one run");
                runs.push(nibble);
            });
            assert_eq!(found, words[range]);
            let before = some(&mut rng)[0];
            let all = [vec![before], words].concat();
            let begun = all
                .windows(2)
                .filter(|two| two[1].is_cached() && two[0] != two[1]);
            assert_eq!(runs_begun(word, before.bits().into()), begun.count() as u32);
        }
    }
}
