//! The index against a map of sectors, and against the list by use that the other policies have.

use std::collections::BTreeMap;

use wharf_runtime::{Cpu, Seed};

use super::bitmap::{Bitmap, Totals};
use super::bitmap_tests::on_a_cpu;
use super::index::LineIndex;
use super::part::{Run, SECTORS};
use super::policy::{Lru, Policy, Victim, View};
use super::stretch::Stretch;
use super::word::{Place, Word};

const SPACE: u64 = 3 * SECTORS as u64 - 100;

fn totals(model: &BTreeMap<u64, Word>) -> Totals {
    Totals {
        cached: model.len() as u64,
        dirty: model.values().filter(|word| word.is_dirty()).count() as u64,
    }
}

fn sectors_of(victims: &[Victim]) -> Vec<u64> {
    let each = victims.iter();
    each.flat_map(|victim| victim.first..victim.first + u64::from(victim.count))
        .collect()
}

fn places(found: &[Stretch]) -> Vec<Place> {
    let each = found.iter();
    each.flat_map(|one| vec![one.place; one.count as usize])
        .collect()
}

/// Goes through all entries from one on, a few at a time, as a drain does.
fn all_dirty(cpu: &Cpu, index: &LineIndex, from: u64) -> Vec<u64> {
    let (mut found, mut at, mut is_round) = (Vec::new(), from, from == 0);
    loop {
        let (victims, next) = index.dirty(cpu, at, 7);
        found.extend(sectors_of(&victims));
        at = next;
        if at == 0 && std::mem::replace(&mut is_round, true) {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn the_index_is_what_a_map_and_a_list_are() {
    on_a_cpu(|cpu| {
        for seed in 0..4 {
            let mut rng = Seed(seed).rng();
            // Fewer entries than there will be: it grows.
            let index = LineIndex::new(64);
            index.begin(cpu, SPACE, false);
            let bitmap = Bitmap::new(SPACE, 1 << 16, false);
            let (mut model, mut list) = (BTreeMap::new(), Lru::default());
            for step in 0..4000 {
                let most = [1, 8, 60][rng.below(3) as usize];
                let count = 1 + rng.below(most);
                // Few places, so that there are hits.
                let first = rng.below(300) * 80;
                let word = match rng.below(6) {
                    0 | 1 => Word::clean(0),
                    2 => Word::dirty(1),
                    3 => Word::dirty(0).leaving(),
                    _ => Word::ABSENT,
                };
                let sectors = first..first + count;
                if rng.chance(1, 2) {
                    index.change(cpu, first, count as u32, |_| word).unwrap();
                    for sector in sectors.clone() {
                        match word.is_cached() {
                            true => {
                                if model.insert(sector, word).is_none() {
                                    list.touched(sector, 1);
                                }
                            }
                            false => {
                                model.remove(&sector);
                                list.forgotten(sector, 1);
                            }
                        }
                    }
                } else {
                    index.touched(cpu, first, count as u32);
                    let cached = sectors.clone().filter(|sector| model.contains_key(sector));
                    cached.for_each(|sector| list.touched(sector, 1));
                }
                let (mut found, mut leaving) = (Vec::new(), Vec::new());
                index.look(cpu, first, count as u32, &mut found).unwrap();
                let word_of = |sector| model.get(&sector).copied().unwrap_or(Word::ABSENT);
                let expected: Vec<Place> = sectors.clone().map(|s| word_of(s).place()).collect();
                assert_eq!(places(&found), expected);
                assert!(found.windows(2).all(|pair| pair[0].place != pair[1].place));
                let wanted = Word::is_leaving;
                (index.look_for(cpu, first, count as u32, wanted, &mut leaving)).unwrap();
                let those = sectors.filter(|sector| word_of(*sector).is_leaving());
                assert_eq!(places(&leaving).len(), those.count());
                assert_eq!(index.totals(), totals(&model));
                if step % 50 == 0 {
                    let (budget, mut victims) = (1 + rng.below(200), Vec::new());
                    let view = View {
                        cpu,
                        bitmap: &bitmap,
                        limit: SPACE,
                    };
                    list.choose(view, budget, &mut victims);
                    assert_eq!(index.oldest(cpu, budget), victims);
                    let dirty = model.iter().filter(|(_, word)| word.is_dirty());
                    let dirty: Vec<u64> = dirty.map(|(sector, _)| *sector).collect();
                    assert_eq!(all_dirty(cpu, &index, rng.below(80)), dirty);
                }
            }
            assert!(model.len() > 300, "it grew to {}", model.len());
        }
    });
}

#[test]
fn parts_are_unknown_to_the_index_until_they_are_learned() {
    on_a_cpu(|cpu| {
        let index = LineIndex::new(100);
        index.begin(cpu, SPACE, true);
        let border = u64::from(SECTORS) - 2;
        let learned = [Run {
            first: SECTORS as u16 - 1,
            count: 1,
            word: Word::dirty(0),
        }];
        assert!(index.learn(cpu, 0, &learned));
        assert_eq!(index.find_unknown(cpu, 0), Some(1));
        let mut found = Vec::new();
        let unknown = index.look(cpu, border, 4, &mut found).unwrap_err();
        assert_eq!((unknown.0, places(&found).len()), (1, 2));
        let unknown = index.change(cpu, border, 4, |_| Word::clean(0));
        assert_eq!(unknown.unwrap_err().0, 1);
        assert!(index.learn(cpu, 1, &[]) && !index.learn(cpu, 1, &learned));
        assert_eq!(index.find_unknown(cpu, 0), Some(2));
        index.end_learning(cpu);
        assert_eq!(index.find_unknown(cpu, 0), None);
        let (cached, dirty) = (2, 0);
        assert_eq!(index.totals(), Totals { cached, dirty });
    });
}

#[test]
fn entries_that_left_are_used_again() {
    on_a_cpu(|cpu| {
        let index = LineIndex::new(128);
        index.begin(cpu, SPACE, false);
        let before = index.memory_bytes(cpu);
        for round in 0..50 {
            let first = round * 97;
            (index.change(cpu, first, 128, |_| Word::clean(0))).unwrap();
            assert_eq!(
                sectors_of(&index.oldest(cpu, 3)),
                [first, first + 1, first + 2]
            );
            (index.change(cpu, first, 128, |_| Word::ABSENT)).unwrap();
        }
        assert_eq!(index.memory_bytes(cpu), before);
    });
}
