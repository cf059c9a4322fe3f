//! What `scala` promises beyond the data that requests see: whose frames are whose, guards, shares,
//! the choice of victims, and that everything is given back.

mod common;

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::pinning::PinState;
use common::{Rig, Shape, healthy};
use wharf_host::design::Amount;
use wharf_host::driver::DriverConfig;
use wharf_host::scala::client::ScalaClient;
use wharf_host::scala::guard::Intent;
use wharf_host::{
    Client, Design, DesignConfig, DesignError, Extent, IoError, Parts, Scala, ScalaConfig, Shares,
};
use wharf_runtime::{Cpu, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::pin::Access;
use wharf_wire::status::StatusCode;

const PAGE: u64 = 4096;

fn shape(clients: u32, drives: u32, cores: u32) -> Shape {
    Shape {
        clients,
        drives,
        drive_pages: 5_000,
        pins: true,
        driver: DriverConfig {
            cores,
            core_stripe_pages: 2,
            ..DriverConfig::default()
        },
        ..Shape::default()
    }
}

fn rig(shape: Shape) -> Rig {
    Rig::new(shape, |drive| healthy(Seed(u64::from(drive)).rng()))
}

fn cache(pages: u64) -> DesignConfig {
    DesignConfig {
        cache_bytes: pages * PAGE,
        ..DesignConfig::default()
    }
}

/// Runs one client against a cache of `pages` pages.
fn alone<F: Future<Output = ()> + 'static>(
    pages: u64,
    run: impl FnOnce(Cpu, Rc<ScalaClient>) -> F + Send + 'static,
) -> Arc<PinState> {
    let mut rig = rig(shape(1, 1, 1));
    let design: Arc<Scala> = rig.design(cache(pages));
    rig.spawn_client(0, &design, run);
    rig.machine.run_virtual(Seed(1)).unwrap();
    rig.pinning[0].clone()
}

async fn read_page(client: &ScalaClient, page: u64) -> u8 {
    let mut out = [0; PAGE as usize];
    client
        .read(Extent::of_pages(page, 1), &mut out)
        .await
        .unwrap();
    out[17]
}

async fn write_page(client: &ScalaClient, page: u64, value: u8) {
    let data = [value; PAGE as usize];
    client
        .write(Extent::of_pages(page, 1), &data)
        .await
        .unwrap();
}

/// A pin may fail although it pins: the page that had to make room could not be written back.
#[test]
fn a_page_that_a_failed_pin_has_pinned_is_used_and_given_back() {
    let fate = |number: u64, command: &Command| match command.io_opcode() {
        Some(IoOpcode::Pin) if number == 0 => Fate::Failed(StatusCode::WriteFault, 1_000),
        _ => Fate::Done(1_000),
    };
    let mut rig = Rig::new(shape(1, 1, 1), |_| fate);
    let design: Arc<Scala> = rig.design(cache(10));
    rig.spawn_client(0, &design, |_, client| async move {
        assert_eq!(read_page(&client, 3).await, 0);
        assert!(client.frame_of(3).is_some(), "the client knows of it");
        assert_eq!(client.release_all().await.unwrap(), 1);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(rig.pinning[0].references(), 0);
}

#[test]
fn all_references_are_back_when_all_clients_have_given_their_pages_back() {
    for seed in 0..30 {
        let (clients, drives, cores) = (1 + seed as u32 % 3, 1 + seed as u32 % 2, 2);
        let mut rig = rig(shape(clients, drives, cores));
        let design: Arc<Scala> = rig.design(cache(60));
        for index in 0..clients {
            rig.spawn_client(index, &design, move |_, client| async move {
                let mut rng = Seed(seed).child("client").index(index.into()).rng();
                let mut buffer = vec![0; 40 * PAGE as usize];
                for _ in 0..50 {
                    let extent = Extent::of_pages(rng.below(300), 1 + rng.below(39));
                    let payload = &mut buffer[..extent.bytes as usize];
                    match rng.chance(1, 2) {
                        true => client.read(extent, payload).await.unwrap(),
                        false => client.write(extent, payload).await.unwrap(),
                    };
                    client.verify();
                }
                assert!(client.release_all().await.unwrap() > 0);
                client.verify();
            });
        }
        rig.machine.run_virtual(Seed(seed)).unwrap();
        for drive in &rig.pinning {
            assert_eq!(drive.references(), 0, "seed {seed}");
        }
    }
}

#[test]
fn a_page_of_two_clients_is_in_one_frame_and_writes_are_seen_at_once() {
    let mut rig = rig(shape(2, 2, 2));
    let design: Arc<Scala> = rig.design(cache(64));
    let frames = Arc::new(Mutex::new(Vec::new()));
    for index in 0..2 {
        let frames = frames.clone();
        rig.spawn_client(index, &design, move |cpu, client| async move {
            let mut mine = Vec::new();
            for page in 0..16 {
                read_page(&client, page).await;
                mine.push(client.frame_of(page).unwrap());
            }
            frames.lock().unwrap().push(mine);
            if index == 0 {
                cpu.sleep_until(5_000_000).await;
                write_page(&client, 3, 77).await;
            } else {
                cpu.sleep_until(6_000_000).await;
                assert_eq!(read_page(&client, 3).await, 77);
                assert_eq!(client.statistics().hits, 1);
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    let frames = frames.lock().unwrap();
    assert_eq!(frames[0], frames[1]);
}

#[test]
fn missing_pages_of_a_request_take_one_command_for_each_drive() {
    let mut rig = rig(shape(1, 2, 2));
    let design: Arc<Scala> = rig.design(cache(64));
    rig.spawn_client(0, &design, |_, client| async move {
        let mut out = vec![0; 24 * PAGE as usize];
        // Holes among the pages, then pages that must leave for others.
        for (first, pages) in [(2, 1), (9, 3), (0, 24), (100, 24), (200, 24)] {
            let payload = &mut out[..(pages * PAGE) as usize];
            let extent = Extent::of_pages(first, pages);
            client.read(extent, payload).await.unwrap();
        }
        assert!(client.statistics().evictions > 0);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    for drive in &rig.pinning {
        let seen = drive.seen();
        let pins = |c: &&Command| c.io_opcode() == Some(IoOpcode::Pin);
        assert_eq!(seen.iter().filter(pins).count(), seen.len());
        // The first two requests may be on one drive alone.
        assert!((3..=5).contains(&seen.len()), "{}", seen.len());
    }
}

#[test]
fn shares_limit_what_each_client_holds() {
    let mut rig = rig(shape(3, 1, 2));
    let design: Arc<Scala> = rig.design_told(
        cache(120),
        &ScalaConfig {
            shares: Shares::of(&[4, 1, 1]),
            ..ScalaConfig::default()
        },
    );
    for (index, pages) in [(0, 80), (1, 20), (2, 20)] {
        rig.spawn_client(index, &design, move |_, client| async move {
            assert_eq!(client.capacity_pages(), pages);
            for page in 0..200 {
                read_page(&client, 200 * u64::from(index) + page).await;
            }
            let first = 200 * u64::from(index);
            let held = (first..first + 200).filter(|&page| client.frame_of(page).is_some());
            assert_eq!(held.count() as u32, pages);
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(rig.pinning[0].references(), 120);
}

#[test]
fn a_client_without_a_share_is_refused_with_what_is_enough() {
    let mut rig = rig(shape(4, 1, 3));
    let design: Arc<Scala> = rig.design(cache(8));
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let error = design.client(Parts::new(&cpu, volume, 0)).err().unwrap();
        assert!(matches!(error, DesignError::SharesTooSmall { .. }));
        assert!(
            error.to_string().contains("at least 49152 bytes"),
            "{error}"
        );
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn clean_pages_leave_first_while_a_drive_says_that_it_collects() {
    for gc_aware in [false, true] {
        let mut rig = rig(shape(1, 1, 1));
        let design: Arc<Scala> = rig.design_told(
            cache(32),
            &ScalaConfig {
                gc_aware,
                ..ScalaConfig::default()
            },
        );
        let state = rig.pinning[0].clone();
        rig.spawn_client(0, &design, move |_, client| async move {
            for page in 0..16 {
                write_page(&client, page, 1).await;
            }
            for page in 16..32 {
                read_page(&client, page).await;
            }
            state.collects.store(true, Ordering::Relaxed);
            // The drive says so in the answer to the next command.
            read_page(&client, 100).await;
            let before = client.statistics().write_backs;
            for page in 101..112 {
                read_page(&client, page).await;
            }
            let dirty = client.statistics().write_backs - before;
            assert_eq!(dirty, if gc_aware { 0 } else { 11 });
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

/// Every miss had the hand go round all dirty pages until it met the request's own slot: then that one
/// page was fetched, and the hand set out again.
#[test]
fn a_request_went_page_by_page_while_a_drive_collected_and_all_pages_were_dirty() {
    let mut rig = rig(shape(1, 1, 1));
    let design: Arc<Scala> = rig.design(cache(32));
    let state = rig.pinning[0].clone();
    let seen = state.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        state.collects.store(true, Ordering::Relaxed);
        for page in 0..32 {
            write_page(&client, page, 1).await;
        }
        let mut out = [0; 8 * PAGE as usize];
        client
            .read(Extent::of_pages(100, 8), &mut out)
            .await
            .unwrap();
        assert_eq!(client.statistics().write_backs, 8);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(seen.seen().len(), 32 + 1, "one command for eight pages");
}

/// A page that was being fetched for another task ended the command that came before it, and what followed
/// was asked for when that had been answered.
#[test]
fn pages_on_their_way_to_another_task_cut_a_request_into_commands() {
    let fate = |_: u64, _: &Command| Fate::Done(1_000_000);
    let mut rig = Rig::new(shape(1, 1, 1), |_| fate);
    let design: Arc<Scala> = rig.design(cache(32));
    let state = rig.pinning[0].clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        for (page, begins_ns) in [(2, 0), (5, 800_000)] {
            let (cpu, client) = (cpu.clone(), client.clone());
            cpu.clone().spawn_main("other", async move {
                cpu.sleep_until(begins_ns).await;
                read_page(&client, page).await;
            });
        }
        cpu.sleep_until(900_000).await;
        let mut out = [0; 8 * PAGE as usize];
        let read = client.read(Extent::of_pages(0, 8), &mut out);
        assert_eq!(read.await.unwrap().hits, 2);
        assert!(cpu.now() < 2_000_000, "{}", cpu.now());
        client.verify();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(state.seen().len(), 3);
}

/// Announcements are counted by hash, and every overwrite of a page that a client does not hold makes one: a
/// reader of such a page waited for all of them, though the page was there.
#[test]
fn a_reader_of_a_page_in_a_frame_waited_for_who_was_about_to_overwrite_it() {
    let fate = |_: u64, command: &Command| match command.access() {
        Ok(Access::Overwrite) => Fate::Done(2_000_000),
        _ => Fate::Done(100_000),
    };
    let mut rig = Rig::new(shape(3, 1, 1), |_| fate);
    let design: Arc<Scala> = rig.design(cache(30));
    rig.stores[0].set_page(5, &[1; PAGE as usize]);
    rig.spawn_client(0, &design, |_, client| async move {
        assert_eq!(read_page(&client, 5).await, 1);
    });
    rig.spawn_client(1, &design, |cpu, client| async move {
        cpu.sleep_until(1_000_000).await;
        write_page(&client, 5, 2).await;
    });
    rig.spawn_client(2, &design, |cpu, client| async move {
        cpu.sleep_until(1_100_000).await;
        assert_eq!(read_page(&client, 5).await, 1);
        assert!(cpu.now() < 1_300_000, "{}", cpu.now());
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn guards_keep_their_pages_and_write_in_place() {
    let drive = alone(8, |_, client| async move {
        write_page(&client, 5, 9).await;
        let guard = client.try_pin(5, Intent::Read).unwrap();
        assert_eq!(guard.try_get::<u16>(4094), Some(0x0909));
        let frame = client.frame_of(5);
        for page in 10..40 {
            read_page(&client, page).await;
        }
        assert_eq!(client.frame_of(5), frame);
        drop(guard);
        assert!(client.try_pin(1_000, Intent::Read).is_none());
        {
            let mut guards = client.pin(50..54, Intent::Write).await.unwrap();
            assert_eq!(guards.iter().map(|g| g.page()).sum::<u64>(), 206);
            guards[1].write(100, &[1, 2, 3]);
            // SAFETY: nobody else uses the page.
            unsafe { guards[2].as_mut_slice() }.fill(8);
            let again = client.pin(49..52, Intent::Write).await.err().unwrap();
            assert_eq!(again, IoError::Guarded { page: 50 });
            assert!(client.try_pin(53, Intent::Write).is_none());
            // Requests of the client itself are not kept waiting.
            write_page(&client, 53, 4).await;
            assert_eq!(read_page(&client, 53).await, 4);
        }
        client.flush().await.unwrap();
        for page in 60..100 {
            read_page(&client, page).await;
        }
        assert_eq!(read_page(&client, 52).await, 8);
        let guards = client.pin(51..52, Intent::Read).await.unwrap();
        let mut bytes = [0; 5];
        guards[0].read(99, &mut bytes).await.unwrap();
        assert_eq!(bytes, [0, 1, 2, 3, 0]);
        drop(guards);
        client.release_all().await.unwrap();
    });
    assert_eq!(drive.references(), 0);
    assert_eq!(drive.store.page(53).unwrap()[0], 4);
}

#[test]
fn guards_that_fill_the_share_are_an_error_that_names_it() {
    alone(8, |_, client| async move {
        let guards = client.pin(0..8, Intent::Read).await.unwrap();
        let error = client.pin(8..9, Intent::Read).await.err().unwrap();
        assert_eq!(error, IoError::NoRoom { page: 8, pages: 8 });
        drop(guards);
        assert!(client.pin(8..9, Intent::Read).await.is_ok());
        let error = client.pin(20..40, Intent::Read).await.err().unwrap();
        assert!(matches!(error, IoError::NoRoom { pages: 8, .. }));
        let beyond = client.pin(4_999..5_001, Intent::Read).await.err().unwrap();
        assert!(matches!(beyond, IoError::OutOfRange { .. }));
        assert!(client.release_all().await.unwrap() > 0);
    });
}

#[test]
fn a_request_waits_for_a_guard_of_another_task_and_of_another_client() {
    let mut rig = rig(shape(2, 1, 1));
    let design: Arc<Scala> = rig.design(cache(16));
    let ends = Arc::new(AtomicU64::new(0));
    let ends_too = ends.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let holder = client.clone();
        let (holder_cpu, ends) = (cpu.clone(), ends_too.clone());
        cpu.spawn_main("holder", async move {
            let mut guards = holder.pin(0..8, Intent::Write).await.unwrap();
            holder_cpu.sleep_until(4_000_000).await;
            guards[0].write(17, &[5]);
            ends.fetch_add(1, Ordering::Relaxed);
        });
        cpu.sleep_until(1_000_000).await;
        // All eight slots of this client are pinned.
        read_page(&client, 100).await;
        assert!(cpu.now() >= 4_000_000);
        ends_too.fetch_add(1, Ordering::Relaxed);
    });
    let ends_too = ends.clone();
    rig.spawn_client(1, &design, move |cpu, client| async move {
        cpu.sleep_until(1_000_000).await;
        assert_eq!(read_page(&client, 0).await, 5);
        assert!(cpu.now() >= 4_000_000);
        ends_too.fetch_add(1, Ordering::Relaxed);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(ends.load(Ordering::Relaxed), 3);
}

#[test]
fn guards_are_taken_in_order_so_nobody_waits_in_a_circle() {
    let mut rig = rig(shape(2, 1, 1));
    let design: Arc<Scala> = rig.design(cache(32));
    for index in 0..2 {
        rig.spawn_client(index, &design, move |cpu, client| async move {
            let mut out = [0; 8 * PAGE as usize];
            let read = client.read(Extent::of_pages(0, 8), &mut out);
            read.await.unwrap();
            cpu.sleep_until(1_000_000 + 1_000_000 * u64::from(index))
                .await;
            if index == 1 {
                // Waits for page 3, and must not have page 5 meanwhile.
                return drop(client.pin(2..7, Intent::Write).await.unwrap());
            }
            let first = client.pin(3..4, Intent::Write).await.unwrap();
            cpu.sleep_until(3_000_000).await;
            let second = client.pin(5..6, Intent::Write).await.unwrap();
            assert!(cpu.now() < 3_500_000, "{}", cpu.now());
            drop((first, second));
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Who met a guard to write that was not dropped, or a word that said so, waited for ever.
#[test]
fn a_call_never_ended_while_another_client_kept_its_page() {
    let mut shape = shape(2, 1, 1);
    shape.driver.timeout_ns = 3_000_000;
    let mut rig = rig(shape);
    let design: Arc<Scala> = rig.design(cache(16));
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let guards = client.pin(2..3, Intent::Write).await.unwrap();
        cpu.sleep_until(100_000_000).await;
        drop(guards);
    });
    rig.spawn_client(1, &design, move |cpu, client| async move {
        cpu.sleep_until(1_000_000).await;
        let in_use = IoError::InUse { page: 2 };
        let mut out = [0; 3 * PAGE as usize];
        // Missing, then held; among others, which are served.
        for _ in 0..2 {
            let begun_ns = cpu.now();
            let read = client.read(Extent::of_pages(1, 3), &mut out).await;
            assert_eq!(read.map(drop), Err(in_use));
            assert!((3_000_000..4_000_000).contains(&(cpu.now() - begun_ns)));
        }
        let written = client.write(Extent::of_pages(2, 1), &out[..PAGE as usize]);
        assert_eq!(written.await.map(drop), Err(in_use));
        assert_eq!(client.pin(2..3, Intent::Write).await.err(), Some(in_use));
        let guards = client.pin(2..3, Intent::Read).await.unwrap();
        assert_eq!(guards[0].read(0, &mut out[..9]).await, Err(in_use));
        drop(guards);
        client.verify();
        assert_eq!(read_page(&client, 1).await, 0);
        cpu.sleep_until(100_000_001).await;
        write_page(&client, 2, 3).await;
        assert_eq!(read_page(&client, 2).await, 3);
        client.release_all().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn an_overwritten_page_is_never_seen_before_it_is_written() {
    for seed in 0..200 {
        let mut rig = rig(shape(3, 1, 1));
        let design: Arc<Scala> = rig.design(cache(12));
        for page in 0..40 {
            rig.stores[0].set_page(page, &[1; PAGE as usize]);
        }
        for index in 0..3 {
            rig.spawn_client(index, &design, move |_, client| async move {
                let mut rng = Seed(seed).index(index.into()).rng();
                for _ in 0..60 {
                    let page = rng.below(40);
                    if rng.chance(1, 2) {
                        write_page(&client, page, 1 + rng.below(9) as u8).await;
                    } else {
                        assert_ne!(read_page(&client, page).await, 0, "seed {seed}");
                    }
                }
            });
        }
        rig.machine.run_virtual(Seed(seed)).unwrap();
    }
}

#[test]
fn a_drive_that_names_a_wrong_frame_is_not_believed() {
    // The drive takes its pages to be dealt out in other stripes than the client does.
    let mut shape = shape(1, 1, 4);
    shape.driver.core_stripe_pages = 1;
    let mut rig = Rig::new(shape, |_| |_: u64, _: &Command| Fate::Done(1_000));
    let design: Arc<Scala> = rig.design(cache(64));
    let hmb = design.hmb_memory(0).unwrap();
    rig.pinning[0].lend(&rig.space, hmb, 4);
    rig.pinning[0].rotate_cores.store(1, Ordering::Relaxed);
    rig.spawn_client(0, &design, |_, client| async move {
        let mut out = [0; PAGE as usize];
        let error = client.read(Extent::of_pages(5, 1), &mut out).await;
        assert!(matches!(error, Err(IoError::WrongFrame { lba: 5, .. })));
        assert!(client.frame_of(5).is_none());
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn all_that_keeps_book_is_a_small_part_of_the_cache() {
    for (clients, pages) in [(1, 32_768u64), (8, 100_000)] {
        let mut rig = rig(Shape {
            page_bytes: 8,
            ..shape(clients, 1, 4)
        });
        let design: Arc<Scala> = rig.design(cache(pages));
        let bytes = Arc::new(AtomicU64::new(design.bookkeeping_bytes() as u64));
        for index in 0..clients {
            let bytes = bytes.clone();
            rig.spawn_client(index, &design, move |_, client| async move {
                let own = client.gauges().get("index_bytes");
                let Some(Amount::Bytes(own)) = own else {
                    panic!("a client has an index");
                };
                bytes.fetch_add(own, Ordering::Relaxed);
            });
        }
        rig.machine.run_virtual(Seed(1)).unwrap();
        let share = bytes.load(Ordering::Relaxed) as f64 / (pages * PAGE) as f64;
        assert!(share < 0.0325, "{share}");
    }
}
