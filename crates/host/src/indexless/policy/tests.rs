//! The scan against the paper's steps, and what every policy promises.

use std::collections::BTreeMap;

use wharf_runtime::Seed;

use super::*;
use crate::indexless::bitmap_tests::on_a_cpu;
use crate::indexless::part::SECTORS;
use crate::indexless::word::Word;

type Model = BTreeMap<u64, Word>;

/// Sectors in runs of up to `run_max`, of any words.
fn some_sectors(rng: &mut wharf_runtime::Rng, space: u64, wanted: u64, run_max: u64) -> Model {
    let mut model = Model::new();
    while (model.len() as u64) < wanted {
        let count = 1 + rng.below(run_max);
        let first = rng.below(space - count);
        let heat = rng.below(5).saturating_sub(1) as u8;
        let word = match rng.below(2) {
            0 => Word::clean(heat),
            _ => Word::dirty(heat),
        };
        model.extend((first..first + count).map(|sector| (sector, word)));
    }
    model
}

fn bitmap_of(cpu: &Cpu, model: &Model, space: u64) -> Bitmap {
    let bitmap = Bitmap::new(space, 1 << 16, false);
    for (sector, word) in model {
        bitmap.change(cpu, *sector, 1, |_| *word).unwrap();
    }
    bitmap
}

fn words_of(cpu: &Cpu, bitmap: &Bitmap) -> Model {
    let (mut model, mut from) = (Model::new(), 0);
    while let Some(part) = bitmap.find_part(cpu, from, |_| true) {
        bitmap.visit(cpu, part, &mut Vec::new(), |runs| {
            for run in runs {
                let begin = part * u64::from(SECTORS);
                let sectors = run.first..run.end();
                model.extend(sectors.map(|s| (begin + u64::from(s), run.word)));
            }
            false
        });
        from = part + 1;
    }
    model
}

fn sectors_of(victims: &[Victim]) -> Vec<u64> {
    let each = victims.iter();
    each.flat_map(|v| v.first..v.first + u64::from(v.count))
        .collect()
}

/// Section III-A, steps 1 to 6, on a plain map, with every size in sectors: what leaves.
fn by_the_paper(model: &Model, round: u64, entry: u64, entries_max: usize) -> Vec<u64> {
    let mut leaves = Vec::new();
    // Step 6 repeats the others with 1001 and 1101, and so on.
    for heat in 0..4 {
        let (mut size_cc, mut gone) = (0, Vec::new());
        let (mut table, mut first, mut size_dc, mut cont) = (Vec::new(), 0, 0, 0);
        let left = round - leaves.len() as u64;
        // Steps 1 to 4.
        let mut previous = None;
        for (&sector, &word) in model {
            if word == Word::clean(heat) {
                gone.push(sector);
                size_cc += 1;
                if size_cc == left {
                    leaves.extend(gone);
                    leaves.sort();
                    return leaves;
                }
            } else if word == Word::dirty(heat) {
                if size_dc == 0 {
                    first = sector;
                } else if previous == Some(sector - 1) {
                    cont += 1;
                }
                size_dc += 1;
                previous = Some(sector);
                if size_dc == entry {
                    table.push((first, cont, size_dc));
                    (size_dc, cont) = (0, 0);
                }
            }
        }
        if size_dc > 0 {
            table.push((first, cont, size_dc));
        }
        leaves.extend(gone);
        // Step 5.
        table.sort_by_key(|(first, cont, _)| (u64::MAX - *cont, *first));
        let mut chosen = 0;
        for (first, _, size) in table.into_iter().take(entries_max) {
            if chosen >= left {
                break;
            }
            chosen += size;
            let dirty = model
                .range(first..)
                .filter(|(_, word)| **word == Word::dirty(heat));
            leaves.extend(dirty.take(size as usize).map(|(sector, _)| *sector));
        }
        if leaves.len() as u64 >= round {
            break;
        }
    }
    leaves.sort();
    leaves
}

#[test]
fn the_scan_takes_what_the_steps_of_the_paper_take() {
    on_a_cpu(|cpu| {
        for seed in 0..60 {
            let mut rng = Seed(seed).rng();
            let space = 40 * u64::from(SECTORS);
            let (wanted, run_max) = (1 + rng.below(9000), 1 + rng.below(300));
            let model = some_sectors(&mut rng, space, wanted, run_max);
            let bitmap = bitmap_of(cpu, &model, space);
            // As in the paper: 200 GB, entries of 100 MB, rounds of ten entries.
            let limit = 2000 * (1 + rng.below(40));
            let (entry, round) = (limit / 2000, limit / 200);
            let mut scan = Scan::new(ScanRules::PAPER);
            let mut victims = Vec::new();
            let view = View {
                cpu,
                bitmap: &bitmap,
                limit,
            };
            scan.choose(view, round, &mut victims);
            let expected = by_the_paper(&model, round, entry, usize::MAX);
            assert_eq!(sectors_of(&victims), expected, "seed {seed}");
        }
    });
}

#[test]
fn every_policy_frees_the_budget_or_all_and_nothing_twice() {
    on_a_cpu(|cpu| {
        for seed in 0..40 {
            let mut rng = Seed(seed).rng();
            let space = 20 * u64::from(SECTORS);
            let (wanted, run_max) = (1 + rng.below(3000), 1 + rng.below(60));
            let model = some_sectors(&mut rng, space, wanted, run_max);
            let bitmap = bitmap_of(cpu, &model, space);
            let rules = ScanRules {
                clean_share: [0.0, 0.5, 1.0][rng.below(3) as usize],
                resumes: rng.below(2) == 0,
                ..ScanRules::default()
            };
            let exact = ScanRules {
                continuity: Continuity::Exact,
                ..rules
            };
            let mut policies: [(&str, Box<dyn Policy>); 5] = [
                ("scan", Box::new(Scan::new(rules))),
                ("ideal", Box::new(Scan::new(exact))),
                ("lru", Box::new(Lru::default())),
                ("fifo", Box::new(Fifo::default())),
                ("improved LRU", Box::new(ImprovedLru::new(rules))),
            ];
            let budget = 1 + rng.below(model.len() as u64 * 5 / 4);
            for (name, policy) in &mut policies {
                model.keys().for_each(|sector| policy.touched(*sector, 1));
                let view = View {
                    cpu,
                    bitmap: &bitmap,
                    limit: model.len() as u64,
                };
                let mut victims = Vec::new();
                policy.choose(view, budget, &mut victims);
                let sectors = sectors_of(&victims);
                assert!(
                    sectors.windows(2).all(|two| two[0] < two[1]),
                    "{name}, seed {seed}"
                );
                assert!(
                    sectors.iter().all(|sector| model.contains_key(sector)),
                    "{name}"
                );
                let least = match *name {
                    // Both halves may choose the same.
                    "improved LRU" => budget.min(model.len() as u64) / 2,
                    _ => budget.min(model.len() as u64),
                };
                let count = sectors.len() as u64;
                assert!(
                    count >= least && count <= budget,
                    "{name}, seed {seed}: {count} of {budget}"
                );
            }
        }
    });
}

#[test]
fn nothing_hot_leaves_before_what_is_cold_and_as_clean() {
    on_a_cpu(|cpu| {
        for seed in 0..40 {
            let mut rng = Seed(seed).rng();
            let space = 20 * u64::from(SECTORS);
            let model = some_sectors(&mut rng, space, 2000, 40);
            let bitmap = bitmap_of(cpu, &model, space);
            let mut victims = Vec::new();
            let view = View {
                cpu,
                bitmap: &bitmap,
                limit: 2000,
            };
            let budget = 1 + rng.below(1500);
            Scan::new(ScanRules::default()).choose(view, budget, &mut victims);
            let gone: std::collections::BTreeSet<_> = sectors_of(&victims).into_iter().collect();
            for dirty in [false, true] {
                let heats = |leaves: bool| {
                    let of = model
                        .iter()
                        .filter(move |(_, word)| word.is_dirty() == dirty);
                    let of = of.filter(|(sector, _)| gone.contains(sector) == leaves);
                    of.map(|(_, word)| word.heat()).collect::<Vec<_>>()
                };
                let (hottest, coldest) = (
                    heats(true).into_iter().max(),
                    heats(false).into_iter().min(),
                );
                if let (Some(hottest), Some(coldest)) = (hottest, coldest) {
                    assert!(
                        hottest <= coldest,
                        "seed {seed}: {hottest} left, {coldest} stayed"
                    );
                }
            }
        }
    });
}

#[test]
fn exact_ranks_leave_fewer_and_longer_runs_than_the_table() {
    on_a_cpu(|cpu| {
        let (mut better, mut equal) = (0, 0);
        for seed in 0..30 {
            let mut rng = Seed(seed).rng();
            let space = 20 * u64::from(SECTORS);
            let model = some_sectors(&mut rng, space, 4000, 80);
            let dirty: Model = model.into_keys().map(|s| (s, Word::dirty(0))).collect();
            let bitmap = bitmap_of(cpu, &dirty, space);
            let view = View {
                cpu,
                bitmap: &bitmap,
                limit: 4000,
            };
            let runs = |continuity| {
                let rules = ScanRules {
                    continuity,
                    entry_sectors_min: 40,
                    ..ScanRules::default()
                };
                let mut victims = Vec::new();
                Scan::new(rules).choose(view, 400, &mut victims);
                victims.len()
            };
            let (exact, table) = (runs(Continuity::Exact), runs(Continuity::Table));
            assert!(
                exact <= table,
                "seed {seed}: {exact} runs, {table} by the table"
            );
            better += usize::from(exact < table);
            equal += usize::from(exact == table);
        }
        assert!(better > equal);
    });
}

#[test]
fn sectors_get_cooler_only_while_too_few_of_their_kind_are_cold() {
    on_a_cpu(|cpu| {
        let space = 4 * u64::from(SECTORS);
        // 500 dirty of heat 3, 500 clean of which 60 are cold.
        let word = |s: u64| match s {
            0..500 => Word::dirty(3),
            500..560 => Word::clean(0),
            _ => Word::clean(2),
        };
        let model: Model = (0..1000).map(|s| (s * 9, word(s))).collect();
        let heats = |rules: ScanRules, rounds: u32| {
            let bitmap = bitmap_of(cpu, &model, space);
            let view = View {
                cpu,
                bitmap: &bitmap,
                limit: 1000,
            };
            let mut scan = Scan::new(rules);
            // Nothing really leaves: what counts is what is cold.
            (0..rounds).for_each(|_| scan.choose(view, 100, &mut Vec::new()));
            let words = words_of(cpu, &bitmap);
            (words[&0].heat(), words[&(999 * 9)].heat())
        };
        let ours = ScanRules::default();
        assert_eq!(
            heats(ours, 1),
            (2, 2),
            "60 of 1000 are above the share of clean ones"
        );
        let more = ScanRules {
            clean_cold_share: 0.07,
            ..ours
        };
        assert_eq!(heats(more, 1), (2, 1));
        assert_eq!(heats(more, 2), (1, 0));
        let none = ScanRules {
            dirty_cold_share: 0.0,
            ..ours
        };
        assert_eq!(heats(none, 3), (3, 2));
        assert_eq!(heats(ScanRules::PAPER, 2), (1, 0));
    });
}

#[test]
fn a_scan_that_resumes_goes_round_and_one_that_does_not_begins_at_the_lowest_address() {
    on_a_cpu(|cpu| {
        let space = 10 * u64::from(SECTORS);
        let part = u64::from(SECTORS);
        let model: Model = (0..10).map(|p| (p * part, Word::clean(0))).collect();
        let first = |rules: ScanRules| {
            let bitmap = bitmap_of(cpu, &model, space);
            let view = View {
                cpu,
                bitmap: &bitmap,
                limit: 10,
            };
            let mut scan = Scan::new(rules);
            let chosen = (0..4).map(|_| {
                let mut victims = Vec::new();
                scan.choose(view, 4, &mut victims);
                victims[0].first / part
            });
            chosen.collect::<Vec<_>>()
        };
        assert_eq!(first(ScanRules::PAPER), [0, 0, 0, 0]);
        // The third round wraps: 8, 9, 0, 1.
        assert_eq!(first(ScanRules::default()), [0, 4, 0, 2]);
    });
}
