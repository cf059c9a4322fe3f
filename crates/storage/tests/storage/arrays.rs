//! Arrays hold what was written: healthy, without members, while rebuilt, from several threads.

use std::sync::Arc;

use wharf_runtime::Seed;
use wharf_storage::array::{
    Array, ArrayError, CheckReport, CreateOptions, Level, MemberState, Standing, create, describe,
    holds_data,
};
use wharf_storage::faulty::{Loss, Rates};
use wharf_storage::{Blocking, FileOptions, RamTarget, Target};

use crate::model::{Case, Model, check, contents};
use crate::support::{Bench, CHUNK_BYTES, REDUNDANT, write};
use crate::targets::{engines, folder};

const STRIPES: u64 = 12;
const BLOCKS_MAX: u64 = 100;

fn agrees(array: &Array) -> bool {
    let report = array
        .check(false, &mut |_, _| {})
        .expect("it can be checked");
    report.mismatches == 0
}

#[test]
fn every_level_holds_what_was_written() {
    for (level, members) in REDUNDANT.into_iter().chain([(Level::Raid0, 3)]) {
        for seed in 0..6 {
            let bench = Bench::new(level, members, STRIPES, 5, seed);
            if seed % 2 == 1 {
                let rates = Rates {
                    delay_polls_max: 5,
                    ..Rates::default()
                };
                bench.members.iter().for_each(|m| m.set_rates(rates));
            }
            let array = bench.open();
            let depth = [1, 4, 32][seed as usize % 3];
            let bytes = check(
                &array,
                Case {
                    seed,
                    operations: 300,
                    depth,
                    blocks_max: BLOCKS_MAX,
                },
            );
            assert!(agrees(&array), "{level:?} of {members}");
            array.close().expect("it closes");
            assert!(
                contents(&bench.open()) == bytes,
                "the same when opened again"
            );
        }
    }
}

#[test]
fn arrays_of_files_hold_what_was_written() {
    let folder = folder();
    for engine in engines() {
        for (level, members) in [(Level::Raid0, 2), (Level::Raid5, 3), (Level::Raid10, 4)] {
            let options = FileOptions {
                create_bytes: Some((1 << 20) + 4 * (64 << 10)),
                engine,
                exclusive: true,
                ..FileOptions::default()
            };
            let open = |i| {
                let path = folder.path().join(format!("{engine:?}-{level:?}-{i}"));
                wharf_storage::open(&path, &options).expect("a file")
            };
            let targets: Vec<_> = (0..members).map(open).collect();
            let made = CreateOptions {
                chunk_bytes: 16 << 10,
                journal_slots: 20,
                zeroed: true,
                ..CreateOptions::new(level, [3; 16])
            };
            create(&targets, &made, &mut |_, _| {}).expect("an array");
            let array = Array::open(&targets, false).expect("it opens");
            let case = Case {
                seed: 1,
                operations: 200,
                depth: 16,
                blocks_max: BLOCKS_MAX,
            };
            let bytes = check(&array, case);
            assert!(agrees(&array), "{engine:?} {level:?}");
            array.close().expect("it closes");
            let array = Array::open(&targets, false).expect("it opens");
            assert!(contents(&array) == bytes, "{engine:?} {level:?}");
        }
    }
}

#[test]
fn members_fail_at_any_point_and_are_rebuilt_while_in_use() {
    for (level, members) in REDUNDANT {
        for seed in 0..8 {
            let mut bench = Bench::new(level, members, STRIPES, 5, seed);
            let mut rng = Seed(seed).child("victims").rng();
            let array = bench.open();
            let mut model = Model::new(&array, vec![0; array.size_bytes() as usize], seed);
            for round in 0..3 {
                let victim = rng.below(u64::from(members)) as usize;
                let dies_between = rng.chance(1, 2);
                let mut channel = array.channel(16).expect("a channel");
                model.run(&mut *channel, 60, BLOCKS_MAX);
                if dies_between {
                    bench.members[victim].die();
                } else {
                    // Fails some I/Os, the first failed write leaves it out.
                    let rates = Rates {
                        read_errors_ppm: 300_000,
                        write_errors_ppm: 300_000,
                        delay_polls_max: 3,
                    };
                    bench.members[victim].set_rates(rates);
                }
                model.run(&mut *channel, 150, BLOCKS_MAX);
                bench.members[victim].die();
                assert!(
                    contents(&array) == model.bytes,
                    "{level:?} {members} seed {seed} round {round}"
                );
                model.run(&mut *channel, 60, BLOCKS_MAX);
                assert_eq!(
                    array.states()[victim],
                    MemberState::Failed,
                    "a dead member is left out"
                );

                let spare = bench.spare(STRIPES);
                array
                    .replace(victim as u32, spare.clone())
                    .expect("a spare");
                bench.members[victim] = spare;
                let mut rebuild = array.rebuild().expect("possible").expect("to do");
                while rebuild.step().expect("it is filled") {
                    if rng.chance(1, 3) {
                        model.run(&mut *channel, 5, BLOCKS_MAX);
                    }
                }
                drop(rebuild);
                assert!(array.rebuild().expect("possible").is_none());
                assert!(
                    agrees(&array),
                    "{level:?} {members} seed {seed} round {round}"
                );
            }
            let bytes = model.bytes;
            array.close().expect("it closes");
            let array = bench.open();
            assert!(array.states().iter().all(|s| *s == MemberState::Active));
            assert!(contents(&array) == bytes);
        }
    }
}

#[test]
fn a_rebuild_that_was_cut_goes_on_from_a_mark() {
    let mut bench = Bench::new(Level::Raid5, 3, STRIPES, 5, 1);
    bench.members[1].die();
    let array = bench.open_without(&[1]);
    let mut model = Model::new(&array, vec![0; array.size_bytes() as usize], 1);
    let mut channel = array.channel(4).expect("a channel");
    model.run(&mut *channel, 100, BLOCKS_MAX);
    let spare = bench.spare(STRIPES);
    array.replace(1, spare.clone()).expect("a spare");
    bench.members[1] = spare;
    let mut rebuild = array.rebuild().expect("possible").expect("to do");
    for _ in 0..5 {
        assert!(rebuild.step().expect("a step"));
    }
    model.run(&mut *channel, 50, BLOCKS_MAX);
    let bytes = model.bytes;
    bench.power.cut();
    drop((channel, rebuild, array));
    bench.power.come_back();
    bench
        .members
        .iter()
        .for_each(|m| m.settle(Loss::Some).expect("memory"));

    let array = bench.open();
    assert_eq!(array.states()[1], MemberState::Rebuilding);
    assert!(
        contents(&array) == bytes,
        "nothing is read that was not rebuilt"
    );
    let rebuild = array.rebuild().expect("possible").expect("to do");
    rebuild
        .finish(&mut |done, total| assert!(done <= total))
        .expect("it is filled");
    assert!(agrees(&array));
    assert!(contents(&array) == bytes);
}

#[test]
fn threads_use_one_array_side_by_side_while_it_is_rebuilt() {
    for (level, members) in REDUNDANT {
        let mut bench = Bench::new(level, members, 64, 7, 3);
        bench.members[0].die();
        let array = bench.open_without(&[0]);
        let spare = bench.spare(64);
        array.replace(0, spare.clone()).expect("a spare");
        bench.members[0] = spare;
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let array = &array;
                scope.spawn(move || {
                    // Blocks of all threads alternate, so they meet in windows.
                    let mut way = Blocking::new(array).expect("a channel");
                    let blocks = array.size_bytes() / 512 / 3;
                    let mut rng = Seed(thread).rng();
                    let mut mine = vec![0u8; blocks as usize];
                    for round in 0..400u32 {
                        let block = rng.below(blocks);
                        let value = (round % 250 + 1) as u8;
                        way.write((block * 3 + thread) * 512, &[value; 512])
                            .expect("a write");
                        mine[block as usize] = value;
                    }
                    for (block, value) in (0..).zip(&mine) {
                        let mut found = [0; 512];
                        let offset: u64 = (block * 3 + thread) * 512;
                        way.read(offset, &mut found).expect("a read");
                        assert_eq!(found, [*value; 512], "{level:?}");
                    }
                });
            }
            let rebuild = array.rebuild().expect("possible").expect("to do");
            rebuild.finish(&mut |_, _| {}).expect("it is filled");
        });
        assert!(agrees(&array), "{level:?} of {members}");
    }
}

#[test]
fn one_error_of_a_read_costs_nothing() {
    for (level, members) in REDUNDANT {
        let bench = Bench::new(level, members, STRIPES, 5, 2);
        let array = bench.open();
        let mut model = Model::new(&array, vec![0; array.size_bytes() as usize], 2);
        let mut channel = array.channel(8).expect("a channel");
        model.run(&mut *channel, 100, BLOCKS_MAX);
        bench.members[1].set_rates(Rates {
            read_errors_ppm: 1_000_000,
            ..Rates::default()
        });
        model.run(&mut *channel, 200, BLOCKS_MAX);
        drop(channel);
        bench.members[1].set_rates(Rates::default());
        assert!(
            array.states().iter().all(|s| *s == MemberState::Active),
            "reads leave nobody out"
        );
        assert!(agrees(&array));
        assert!(contents(&array) == model.bytes);
    }
}

#[test]
fn a_stale_member_is_found() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid10, 4)] {
        let bench = Bench::new(level, members, STRIPES, 5, 4);
        let array = bench.open();
        bench.members[2].die();
        let data = vec![1; 3 * CHUNK_BYTES as usize];
        assert!(write(&array, 0, &data), "it goes on without");
        bench.members[2].live();
        array.close().expect("it closes");

        let told = describe(&bench.targets()).expect("members");
        assert_eq!(told.members[2].0, Standing::Stale);
        assert_eq!(told.members[1].0, Standing::Active);
        let told = describe(&bench.targets()[1..2]).expect("members");
        assert_eq!(told.members[2], (Standing::Failed, None));
        assert_eq!(told.members[0], (Standing::Missing, None));
        let array = bench.open();
        assert_eq!(array.stale(), [2]);
        assert_eq!(array.states()[2], MemberState::Failed);
        assert!(contents(&array)[..data.len()] == data[..]);
    }
}

#[test]
fn a_missing_member_is_not_taken_lightly() {
    let bench = Bench::new(Level::Raid5, 3, STRIPES, 5, 4);
    let mut targets = bench.targets();
    targets.remove(1);
    assert!(matches!(
        Array::open(&targets, false),
        Err(ArrayError::Missing(1))
    ));
    targets.remove(1);
    match Array::open(&targets, true) {
        Err(ArrayError::TooFew(out)) => assert_eq!(out, [1, 2]),
        other => panic!("{:?}", other.err()),
    }
    let twice = [bench.targets()[0].clone(), bench.targets()[0].clone()];
    assert!(matches!(
        Array::open(&twice, true),
        Err(ArrayError::Twice { member: 0, .. })
    ));
}

#[test]
fn more_failures_than_can_be_borne_are_errors() {
    let bench = Bench::new(Level::Raid5, 4, STRIPES, 5, 5);
    let array = bench.open();
    bench.members[0].die();
    bench.members[1].die();
    let mut data = vec![1; 3 * CHUNK_BYTES as usize];
    assert!(!write(&array, 0, &data));
    let mut way = Blocking::new(&array).expect("a channel");
    assert!(way.read(0, &mut data).is_err());
}

#[test]
fn a_check_finds_and_mends_what_disagrees() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid10, 2)] {
        let bench = Bench::new(level, members, STRIPES, 5, 6);
        let array = bench.open();
        let data = vec![3; 5 * CHUNK_BYTES as usize];
        assert!(write(&array, 0, &data));
        let mut behind = Blocking::new(&*bench.members[1]).expect("a channel");
        behind
            .write((1 << 20) + 512, &[9; 512])
            .expect("a write behind its back");
        let found = array.check(false, &mut |_, _| {}).expect("a check");
        assert_eq!(
            (found.windows, found.mismatches, found.repaired),
            (STRIPES, 1, 0)
        );
        let mended = array.check(true, &mut |_, _| {}).expect("a check");
        assert_eq!((mended.mismatches, mended.repaired), (1, 1));
        assert!(agrees(&array));
    }
}

#[test]
fn an_array_of_used_members_agrees_from_the_start() {
    for (level, count) in REDUNDANT {
        let members: Vec<Arc<dyn Target>> = (0..count)
            .map(|i| {
                let ram = RamTarget::new("used", (1 << 20) + 4 * CHUNK_BYTES, 512);
                let bytes = vec![i as u8 + 1; ram.size_bytes() as usize];
                Blocking::new(&ram)
                    .expect("a channel")
                    .write(0, &bytes)
                    .expect("a write");
                Arc::new(ram) as Arc<dyn Target>
            })
            .collect();
        assert!(holds_data(&*members[0]).expect("it is readable"));
        let options = CreateOptions {
            chunk_bytes: CHUNK_BYTES,
            journal_slots: 4,
            ..CreateOptions::new(level, [1; 16])
        };
        create(&members, &options, &mut |_, _| {}).expect("an array");
        let array = Array::open(&members, false).expect("it opens");
        let report = array.check(false, &mut |_, _| {}).expect("a check");
        assert_eq!(
            report,
            CheckReport {
                windows: 4,
                mismatches: 0,
                repaired: 0
            }
        );
    }
}

#[test]
fn an_open_array_with_channels_is_not_closed() {
    let bench = Bench::new(Level::Raid5, 3, STRIPES, 5, 7);
    let array = bench.open();
    let _channel = array.channel(1).expect("a channel");
    assert!(matches!(array.close(), Err(ArrayError::InUse)));
}
