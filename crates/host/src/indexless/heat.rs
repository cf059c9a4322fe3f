//! Snapshots of heat: what is hot stays so when a cache is opened again.
//!
//! A part's words, four bits each, fill one sector of the metadata. They are a hint: of each sector the
//! heat counts if the snapshot has it in the state that the drive says it is in, and a snapshot that
//! was lost or is old is no error. (An index has no heat, and no snapshots.) Snapshots are written when the cache is closed, and of a few parts in turn after
//! rounds of eviction.

use super::keeper::Keeper;
use super::part::SECTORS;
use super::word::Word;
use crate::backing::{SECTOR_BYTES, Sectors};

/// Rounds of eviction between snapshots.
const ROUNDS: u64 = 8;

/// Parts of a snapshot beside other work, at most: 4 MiB.
const PARTS: u64 = 1024;

/// Parts of a snapshot at the end, at most: 1 GiB, which is 8 TiB of addresses in use.
pub(super) const PARTS_AT_END: u64 = 1 << 18;

impl<S: Sectors + 'static> Keeper<S> {
    /// Writes snapshots of some parts, now and then.
    pub(super) async fn snapshot_sometimes(&self) {
        let rounds = self.rounds.get() + 1;
        self.rounds.set(rounds);
        if rounds.is_multiple_of(ROUNDS) {
            self.snapshot(PARTS).await;
        }
    }

    /// Writes snapshots of at most so many parts, going on where the last ended. What cannot be written is left out.
    pub(super) async fn snapshot(&self, parts_max: u64) {
        let Some(bitmap) = self.known.bitmap.bitmap() else {
            return;
        };
        let mut from = self.snapshot_from.get();
        for _ in 0..parts_max {
            let next = bitmap.find_part(&self.cpu, from, |counts| counts.cached > 0);
            let Some(part) = next else {
                from = 0;
                break;
            };
            let mut sector = vec![0; SECTOR_BYTES];
            bitmap.visit(&self.cpu, part, &mut Vec::new(), |runs| {
                for run in runs {
                    for at in run.first..run.end() {
                        put(&mut sector, usize::from(at), run.word);
                    }
                }
                false
            });
            if self
                .own
                .write(self.known.plan.own_heat(part), &sector)
                .await
                .is_err()
            {
                break;
            }
            from = part + 1;
        }
        self.snapshot_from.set(from);
    }

    /// The words of a part as they were; none if they cannot be read.
    pub(super) async fn read_heat(&self, part: u64) -> Vec<Word> {
        let mut sector = vec![0; SECTOR_BYTES];
        let at = self.known.plan.own_heat(part);
        match self.own.read(at, &mut sector).await {
            Ok(()) => (0..SECTORS as usize).map(|at| get(&sector, at)).collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn put(sector: &mut [u8], at: usize, word: Word) {
    sector[at / 2] |= word.bits() << (at % 2 * 4);
}

fn get(sector: &[u8], at: usize) -> Word {
    Word::of_bits(sector[at / 2] >> (at % 2 * 4) & 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_from_a_snapshot() {
        let words = [
            Word::clean(3),
            Word::ABSENT,
            Word::dirty(1),
            Word::dirty(2).leaving(),
        ];
        let mut sector = vec![0; SECTOR_BYTES];
        for at in 0..SECTORS as usize {
            put(&mut sector, at, words[at % 4]);
        }
        for at in 0..SECTORS as usize {
            assert_eq!(get(&sector, at), words[at % 4]);
        }
    }
}
