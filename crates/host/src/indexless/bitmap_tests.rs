//! The bitmap against a map of sectors.

use std::collections::BTreeMap;

use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};

use super::bitmap::{Bitmap, Stretch, Totals};
use super::part::{Run, SECTORS};
use super::word::{Place, Word};

/// Runs `test` on a CPU of a machine of its own.
pub(super) fn on_a_cpu(test: impl FnOnce(&Cpu) + Send + 'static) {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("test", Side::Host, 1.0);
    machine.spawn_main(id, "test", move |cpu| async move { test(&cpu) });
    machine.run_virtual(Seed(1)).unwrap();
}

type Model = BTreeMap<u64, Word>;

fn stretches_of(model: &Model, first: u64, count: u32) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    for sector in first..first + u64::from(count) {
        let place = model.get(&sector).map_or(Place::Disk, |word| word.place());
        match out.last_mut() {
            Some(last) if last.place == place => last.count += 1,
            _ => out.push(Stretch {
                first: sector,
                count: 1,
                place,
            }),
        }
    }
    out
}

fn check(cpu: &Cpu, bitmap: &Bitmap, model: &Model, heat: bool) {
    let dirty = model.values().filter(|word| word.is_dirty()).count() as u64;
    let totals = Totals {
        cached: model.len() as u64,
        dirty,
    };
    assert_eq!(bitmap.totals(), totals);
    let mut found = Model::new();
    let mut from = 0;
    while let Some(part) = bitmap.find_part(cpu, from, |_| true) {
        bitmap.visit(cpu, part, &mut Vec::new(), |runs| {
            for run in runs {
                for sector in run.first..run.end() {
                    found.insert(part * u64::from(SECTORS) + u64::from(sector), run.word);
                }
            }
            false
        });
        from = part + 1;
    }
    if heat {
        let differs = found.iter().zip(model).find(|(a, b)| a != b);
        assert!(
            found.len() == model.len() && differs.is_none(),
            "{differs:?}"
        );
    } else {
        assert!(found.keys().eq(model.keys()));
    }
}

/// Sectors of so many parts, and a budget of two raw parts a shard at most.
fn small(parts: u64, recovers: bool) -> Bitmap {
    Bitmap::new(parts * u64::from(SECTORS) - 100, 8192, recovers)
}

#[test]
fn the_bitmap_is_what_a_map_is_through_packing_and_scans() {
    on_a_cpu(|cpu| {
        for seed in 0..4 {
            let mut rng = Seed(seed).rng();
            let bitmap = small(70, false);
            let mut model = Model::new();
            for step in 0..3000 {
                let most = [1, 8, 200, 9000][rng.below(4) as usize];
                let count = 1 + rng.below(most);
                let first = rng.below(bitmap.sectors() - count + 1);
                let sectors = first..first + count;
                let mut found = Vec::new();
                match rng.below(8) {
                    0..4 => {
                        bitmap.access(cpu, first, count as u32, &mut found).unwrap();
                        assert_eq!(found, stretches_of(&model, first, count as u32));
                        for (_, word) in model.range_mut(sectors) {
                            *word = word.warmer();
                        }
                    }
                    4 => {
                        let word = Word::clean(rng.below(4) as u8);
                        bitmap.change(cpu, first, count as u32, |_| word).unwrap();
                        model.extend(sectors.map(|sector| (sector, word)));
                    }
                    5 => {
                        bitmap
                            .change(cpu, first, count as u32, |_| Word::dirty(0))
                            .unwrap();
                        model.extend(sectors.map(|sector| (sector, Word::dirty(0))));
                    }
                    6 => {
                        bitmap
                            .change(cpu, first, count as u32, |_| Word::ABSENT)
                            .unwrap();
                        model.retain(|sector, _| !sectors.contains(sector));
                    }
                    _ => {
                        let part = rng.below(bitmap.parts());
                        bitmap.visit(cpu, part, &mut Vec::new(), |runs| {
                            runs.iter_mut().for_each(|run| run.word = run.word.cooler());
                            true
                        });
                        let begin = part * u64::from(SECTORS);
                        for (_, word) in model.range_mut(begin..begin + u64::from(SECTORS)) {
                            *word = word.cooler();
                        }
                    }
                }
                if step % 500 == 0 {
                    check(cpu, &bitmap, &model, true);
                }
            }
            check(cpu, &bitmap, &model, true);
        }
    });
}

#[test]
fn memory_is_that_of_packed_parts_and_a_few_raw_ones() {
    on_a_cpu(|cpu| {
        let mut rng = Seed(3).rng();
        let bitmap = small(1024, false);
        for _ in 0..1024 * 256 {
            let sector = rng.below(bitmap.sectors());
            bitmap.change(cpu, sector, 1, |_| Word::clean(0)).unwrap();
        }
        let each = bitmap.memory_bytes(cpu) as f64 / bitmap.totals().cached as f64;
        // 64 raw parts of 4096 bytes are 1 byte a sector here; the rest is packed.
        assert!((2.0..2.6).contains(&each), "{each}");
        let raw = 64.0 * 4096.0 / bitmap.totals().cached as f64;
        assert!(each - raw < 1.6, "{each} with {raw} of raw parts");
    });
}

#[test]
fn parts_are_unknown_until_they_are_learned() {
    on_a_cpu(|cpu| {
        let bitmap = small(40, true);
        let mut found = Vec::new();
        let unknown = bitmap.access(cpu, 8190, 4, &mut found).unwrap_err();
        assert_eq!((unknown.0, bitmap.find_unknown(cpu, 0)), (0, Some(0)));
        bitmap.learn(
            cpu,
            0,
            &[Run {
                first: 8191,
                count: 1,
                word: Word::dirty(0),
            }],
        );
        let unknown = bitmap.change(cpu, 8190, 4, |_| Word::ABSENT).unwrap_err();
        assert_eq!(unknown.0, 1);
        (1..40).for_each(|part| assert!(bitmap.learn(cpu, part, &[])));
        // What is known is not learned again.
        bitmap.learn(
            cpu,
            3,
            &[Run {
                first: 0,
                count: 9,
                word: Word::clean(0),
            }],
        );
        assert_eq!(bitmap.find_unknown(cpu, 0), None);
        assert_eq!(bitmap.totals(), Totals::default());
        let part = bitmap.find_part(cpu, 0, |_| true);
        assert_eq!(part, None);
    });
}
