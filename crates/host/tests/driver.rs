//! The driver against a mock drive: order, wrap, full queues, timeouts, retries, stray completions.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::{Rig, Shape, healthy};
use wharf_host::driver::{Driver, DriverConfig};
use wharf_host::{IoError, Volume};
use wharf_runtime::{Cpu, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

fn driver_of(volume: &Rc<Volume>) -> Rc<Driver> {
    volume.drivers()[0].clone()
}

/// Runs `tasks` tasks on the CPU and waits for all.
async fn join<F: Future<Output = ()> + 'static>(cpu: &Cpu, tasks: Vec<F>) {
    let left = Rc::new(Cell::new(tasks.len()));
    for task in tasks {
        let left = left.clone();
        cpu.spawn_main("task", async move {
            task.await;
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        cpu.sleep_until(cpu.now() + 1_000).await;
    }
}

#[test]
fn answers_out_of_order_reach_their_own_requests_while_both_rings_wrap_many_times() {
    for seed in 0..20 {
        let shape = Shape {
            depth: 2 + seed as u32 % 5,
            ..Shape::default()
        };
        let mut rig = Rig::new(shape, |_| healthy(Seed(seed).child("drive").rng()));
        let (space, store) = (rig.space.clone(), rig.stores[0].clone());
        (0..1_000).for_each(|lba| store.set_page(lba, &[lba as u8; 4096]));
        rig.spawn_on_volume(0, move |cpu, volume| async move {
            // More tasks than slots: the queue is full most of the time.
            let task = |number: u64| {
                let (cpu, volume) = (cpu.clone(), volume.clone());
                let region = space.register(3).unwrap();
                async move {
                    for round in 0..40 {
                        let first = (number * 97 + round * 31) % 990;
                        let pages: Vec<u64> = (0..3).map(|i| region.address(i)).collect();
                        volume.read(&cpu, first, &pages).await.unwrap();
                        for i in 0..3 {
                            // SAFETY: the read is done and nothing else names the page.
                            let page = unsafe { region.page_mut(i) };
                            assert_eq!(page[77], (first + i as u64) as u8, "seed {seed}");
                        }
                    }
                }
            };
            join(&cpu, (0..8).map(task).collect()).await;
            let statistics = driver_of(&volume).statistics();
            assert_eq!((statistics.reads, statistics.strays), (320, 0));
            assert_eq!(statistics.read_bytes, 320 * 3 * 4096);
        });
        rig.machine.run_virtual(Seed(seed)).unwrap();
    }
}

#[test]
fn one_doorbell_announces_several_commands() {
    let mut rig = Rig::new(Shape::default(), |_| |_: u64, _: &Command| Fate::Done(500));
    let store = rig.stores[0].clone();
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let driver = driver_of(&volume);
        let group = volume.open_group();
        for _ in 0..5 {
            let slot = driver.reserve().await;
            driver.issue(slot, &group, Command::flush(1), &[]);
        }
        cpu.sleep_until(cpu.now() + 10_000).await;
        assert_eq!(
            store.count(IoOpcode::Flush),
            0,
            "unseen before the doorbell"
        );
        driver.ring();
        group.wait(&cpu).await.unwrap();
        assert_eq!(store.count(IoOpcode::Flush), 5);
        assert!(group.is_quiet());
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn a_timeout_ends_the_wait_and_the_late_answer_frees_slot_and_group() {
    let driver = DriverConfig {
        timeout_ns: 100_000,
        ..DriverConfig::default()
    };
    let shape = Shape {
        depth: 2,
        driver,
        ..Shape::default()
    };
    let fate = |number: u64, _: &Command| Fate::Done(if number == 0 { 300_000 } else { 1_000 });
    let mut rig = Rig::new(shape, |_| fate);
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let driver = driver_of(&volume);
        let group = volume.open_group();
        let slot = driver.reserve().await;
        driver.issue(slot, &group, Command::verify(1, 5, 2), &[]);
        driver.ring();
        let start_ns = cpu.now();
        let error = group.wait(&cpu).await.unwrap_err();
        assert_eq!(
            error,
            IoError::Timeout {
                drive: 0,
                opcode: 0x0c,
                admin: false,
                lba: 5
            }
        );
        assert!((90_000..120_000).contains(&(cpu.now() - start_ns)));
        assert!(!group.is_quiet(), "the drive still has it");
        // The only slot is reserved until the late answer; then the next command has it.
        driver.execute(Command::flush(1), &[]).await.unwrap();
        assert!(cpu.now() >= 300_000 && group.is_quiet());
        let statistics = driver.statistics();
        assert_eq!(
            (statistics.timeouts, statistics.late, statistics.strays),
            (1, 1, 0)
        );
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn a_drive_that_never_answers_times_out_every_command() {
    let driver = DriverConfig {
        timeout_ns: 50_000,
        ..DriverConfig::default()
    };
    let mut rig = Rig::new(
        Shape {
            driver,
            ..Shape::default()
        },
        |_| |_: u64, _: &Command| Fate::Silence,
    );
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        for round in 1..=7u64 {
            let error = volume.flush(&cpu).await.unwrap_err();
            assert!(matches!(error, IoError::Timeout { .. }));
            assert_eq!(driver_of(&volume).statistics().timeouts, round);
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn a_retryable_status_is_tried_again_as_often_as_configured() {
    let fails = |times: u64| {
        move |number: u64, _: &Command| match number < times {
            true => Fate::Failed(StatusCode::CommandInterrupted, 1_000),
            false => Fate::Done(1_000),
        }
    };
    for (times, succeeds) in [(0, true), (3, true), (4, false)] {
        let mut rig = Rig::new(Shape::default(), |_| fails(times));
        rig.spawn_on_volume(0, move |_, volume| async move {
            let driver = driver_of(&volume);
            let outcome = driver.execute(Command::verify(1, 9, 1), &[]).await;
            assert_eq!(outcome.is_ok(), succeeds);
            let statistics = driver.statistics();
            assert_eq!(statistics.retries, times.min(3));
            assert_eq!(statistics.errors, u64::from(!succeeds));
            assert_eq!(statistics.commands(), 1);
        });
        rig.machine.run_virtual(Seed(times)).unwrap();
    }
}

#[test]
fn a_final_status_surfaces_with_command_and_place() {
    let fate = |_: u64, _: &Command| Fate::Failed(StatusCode::UnrecoveredReadError, 1_000);
    let mut rig = Rig::new(Shape::default(), |_| fate);
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let error = volume.read(&cpu, 7, &[1 << 40]).await.unwrap_err();
        let IoError::Status {
            opcode: 2,
            lba: 7,
            status,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(status.code(), Some(StatusCode::UnrecoveredReadError));
        assert!(
            error
                .to_string()
                .starts_with("drive 0: read of page 7 failed: unrecovered read")
        );
        assert_eq!(driver_of(&volume).statistics().retries, 0);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn stray_and_second_answers_are_counted_and_harm_nothing() {
    let fate = |number: u64, _: &Command| match number {
        1 => Fate::Misdirected(0xfff),
        2 => Fate::Misdirected(3),
        n if n % 3 == 0 => Fate::Twice(1_000),
        _ => Fate::Done(1_000),
    };
    let driver = DriverConfig {
        timeout_ns: 100_000,
        ..DriverConfig::default()
    };
    let mut rig = Rig::new(
        Shape {
            driver,
            ..Shape::default()
        },
        |_| fate,
    );
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let driver = driver_of(&volume);
        for round in 0..30 {
            let outcome = volume.flush(&cpu).await;
            assert_eq!(outcome.is_ok(), round != 1 && round != 2, "round {round}");
        }
        cpu.sleep_until(cpu.now() + 10_000).await;
        assert_eq!(driver.statistics().strays, 2 + 10);
        let stray = driver.stray().unwrap();
        assert!(
            stray.to_string().contains("which is not in flight"),
            "{stray}"
        );
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn a_striped_volume_reads_what_it_wrote_in_one_command_per_drive() {
    for drives in 1..=3 {
        let shape = Shape {
            drives,
            drive_pages: 100,
            stripe_pages: 4,
            ..Shape::default()
        };
        let mut rig = Rig::new(shape, |d| healthy(Seed(u64::from(d)).rng()));
        let (space, layout, stores) = (rig.space.clone(), rig.layout(), rig.stores.clone());
        rig.spawn_on_volume(0, move |cpu, volume| async move {
            let (from, to) = (space.register(50).unwrap(), space.register(50).unwrap());
            let addresses =
                |r: &wharf_wire::dma::DmaRegion| (0..50).map(|i| r.address(i)).collect::<Vec<_>>();
            for i in 0..50 {
                // SAFETY: no command is in flight.
                unsafe { from.page_mut(i) }.fill(i as u8 + 1);
            }
            volume
                .write(&cpu, 3, &addresses(&from), true)
                .await
                .unwrap();
            volume.read(&cpu, 3, &addresses(&to)).await.unwrap();
            for i in 0..50 {
                // SAFETY: no command is in flight.
                assert_eq!(unsafe { to.page_mut(i) }, vec![i as u8 + 1; 4096]);
                let (drive, lba) = layout.locate(3 + i as u64);
                assert_eq!(stores[drive].page(lba).unwrap()[0], i as u8 + 1);
            }
            for store in &stores {
                assert_eq!(
                    (store.count(IoOpcode::Write), store.count(IoOpcode::Read)),
                    (1, 1)
                );
                assert!(store.seen()[0].fua());
            }
            volume.deallocate(&cpu, 10, 20).await.unwrap();
            for page in 3..53 {
                let (drive, lba) = layout.locate(page);
                let gone = (10..30).contains(&page);
                assert_eq!(
                    stores[drive].page(lba).is_none(),
                    gone,
                    "{drives} drives, page {page}"
                );
            }
            let beyond = volume.read(&cpu, layout.pages() - 1, &[0, 0]).await;
            assert!(matches!(beyond, Err(IoError::OutOfRange { .. })));
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

#[test]
fn transfers_larger_than_the_drive_takes_are_split() {
    let driver = DriverConfig {
        max_transfer_pages: 8,
        ..DriverConfig::default()
    };
    for drives in [1, 2] {
        let shape = Shape {
            drives,
            driver,
            ..Shape::default()
        };
        let mut rig = Rig::new(shape, |d| healthy(Seed(u64::from(d)).rng()));
        let (space, stores) = (rig.space.clone(), rig.stores.clone());
        rig.spawn_on_volume(0, move |cpu, volume| async move {
            let region = space.register(100).unwrap();
            let addresses: Vec<u64> = (0..100).map(|i| region.address(i)).collect();
            volume.write(&cpu, 1, &addresses, false).await.unwrap();
            for store in stores {
                assert!(store.seen().iter().all(|c| c.pages() <= 8));
                let pages: u32 = store.seen().iter().map(|c| c.pages()).sum();
                assert_eq!(pages, 100 / drives);
            }
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}
