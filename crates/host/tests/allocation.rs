//! Which pages of a volume are allocated, and giving many up: over every layout, against a plain list.

mod common;

use std::collections::BTreeSet;

use common::{Rig, Shape, check_redundancy, healthy};
use wharf_host::{IoError, Level};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::space::SpaceLevel;
use wharf_wire::status::StatusCode;

/// Runs of a set of pages, as far as they are in a range.
fn runs(set: &BTreeSet<u64>, first: u64, end: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in set.range(first..end) {
        match runs.last_mut() {
            Some((at, count)) if *at + *count == *page => *count += 1,
            _ => runs.push((*page, 1)),
        }
    }
    runs
}

/// What is asked for on a volume: parity and mirrors never show, and no run is cut.
#[test]
fn allocated_pages_of_every_layout_are_those_that_were_written() {
    let layouts = [
        (Level::Raid0, 1),
        (Level::Raid0, 3),
        (Level::Raid10, 4),
        (Level::Raid10, 2),
        (Level::Raid5, 3),
        (Level::Raid5, 5),
    ];
    for (seed, (level, drives)) in (0..24).zip(layouts.into_iter().cycle()) {
        let mut rng = Seed(seed).child("allocation").rng();
        let shape = Shape {
            level,
            drives,
            drive_pages: 1_200,
            stripe_pages: [1, 4, 16][rng.below(3) as usize],
            depth: 64,
            ..Shape::default()
        };
        let mut rig = Rig::new(shape, |_| healthy(Seed(rng.next_u64()).rng()));
        let (layout, stores) = (rig.layout(), rig.stores.clone());
        let space = rig.space.clone();
        rig.spawn_on_volume(0, move |cpu, volume| async move {
            let region = space.register(40).unwrap();
            let addresses: Vec<u64> = (0..40).map(|page| region.address(page)).collect();
            let (pages, mut set) = (volume.pages(), BTreeSet::new());
            let mut rng = Seed(seed).child("client").rng();
            for _ in 0..40 {
                let first = rng.below(pages);
                let count = 1 + rng.below(40.min(pages - first));
                let range = first..first + count;
                match rng.below(8) {
                    0..5 => {
                        let data = &addresses[..count as usize];
                        volume.write(&cpu, first, data, false).await.unwrap();
                        set.extend(range);
                    }
                    5 => {
                        volume.write_zeroes(&cpu, first, count).await.unwrap();
                        set.extend(range);
                    }
                    // Parity knows of whole windows alone: a part of one that is given up stays allocated.
                    _ if level != Level::Raid5 => {
                        volume.deallocate(&cpu, first, count).await.unwrap();
                        set.retain(|page| !range.contains(page));
                    }
                    _ => {}
                }
                let from = rng.below(pages);
                let to = from + rng.below(pages - from + 1);
                let found = volume.allocated(from, to - from).await.unwrap();
                assert_eq!(found, runs(&set, from, to), "seed {seed}: {from} to {to}");
                cpu.progress();
            }
            let beyond = volume.allocated(pages, 1).await;
            assert!(matches!(beyond, Err(IoError::OutOfRange { .. })));
        });
        rig.machine.run_virtual(Seed(seed)).unwrap();
        check_redundancy(&layout, &stores, &[]);
    }
}

/// A thousand scattered pages: four commands a drive, not a thousand, and all of them at once.
#[test]
fn many_ranges_take_few_commands_that_are_in_flight_together() {
    let shape = Shape {
        drives: 2,
        drive_pages: 4_000,
        depth: 32,
        ..Shape::default()
    };
    let mut rig = Rig::new(shape, |_| |_, _: &Command| Fate::Done(100_000));
    let stores = rig.stores.clone();
    rig.spawn_on_volume(0, |cpu, volume| async move {
        let ranges: Vec<(u64, u64)> = (0..2_000).map(|n| (n * 4 + n / 1_000 * 2, 1)).collect();
        let ranges = &ranges[..1_990];
        let began_ns = cpu.now();
        volume.deallocate_many(&cpu, ranges).await.unwrap();
        let took_ns = cpu.now() - began_ns;
        assert!(took_ns < 200_000, "{took_ns} ns for commands of 100,000");
        let pages = volume.pages();
        let beyond = volume.deallocate_many(&cpu, &[(0, 1), (pages, 1)]).await;
        assert!(matches!(beyond, Err(IoError::OutOfRange { .. })));
        volume.deallocate_many(&cpu, &[]).await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    let commands = stores.iter().map(|s| s.count(IoOpcode::DatasetManagement));
    assert_eq!(
        commands.sum::<usize>(),
        8,
        "1,990 ranges by 256, on two drives"
    );
}

/// A drive that does not answer in time may write its answer later: nobody reads it for another's.
#[test]
fn a_late_answer_is_nobody_elses() {
    let mut shape = Shape::default();
    shape.driver.timeout_ns = 50_000;
    shape.driver.retries = 0;
    let mut rig = Rig::new(shape, |_| {
        let mut asked = 0;
        move |_, command: &Command| {
            if command.io_opcode() != Some(IoOpcode::GetLbaStatus) {
                return Fate::Done(100);
            }
            asked += 1;
            match asked {
                1 => Fate::Done(500_000),
                2 => Fate::Failed(StatusCode::InternalError, 100),
                _ => Fate::Done(100),
            }
        }
    });
    let space = rig.space.clone();
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let region = space.register(1).unwrap();
        volume
            .write(&cpu, 5, &[region.address(0)], false)
            .await
            .unwrap();
        let late = volume.allocated(0, 100).await.unwrap_err();
        assert!(late.is_timeout());
        assert_eq!(
            volume.allocated(0, 100).await.unwrap_err(),
            late,
            "not before it has come"
        );
        cpu.sleep_until(cpu.now() + 1_000_000).await;
        let failed = volume.allocated(0, 100).await.unwrap_err();
        assert!(!failed.is_timeout());
        assert_eq!(volume.allocated(0, 100).await, Ok(vec![(5, 1)]));
        // Levels that were not asked for are no levels.
        assert_eq!(volume.space_level(), SpaceLevel::Green);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
