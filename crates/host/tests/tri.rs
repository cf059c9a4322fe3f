//! `tri`: which messages and commands its requests take, and that no request waits for ever.

mod common;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Rig, Shape, healthy};
use wharf_host::design::Amount;
use wharf_host::tri::TriClient;
use wharf_host::{
    Client, Clock, Design, DesignConfig, Extent, IoError, NoSettings, Tri, TriConfig, WritePolicy,
};
use wharf_runtime::machine::RunSummary;
use wharf_runtime::{Cpu, Idle, Op, Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;

fn steady(_: u32) -> impl FnMut(u64, &Command) -> Fate + Send + 'static {
    |_, _| Fate::Done(10_000)
}

fn stamps(clients: u32) -> Shape {
    Shape {
        page_bytes: 8,
        clients,
        depth: 64,
        drive_pages: 10_000,
        ..Shape::default()
    }
}

fn cache(pages: u64) -> DesignConfig {
    DesignConfig {
        cache_bytes: pages * 4096,
        ..DesignConfig::default()
    }
}

fn managed_by(managers: u32) -> TriConfig {
    TriConfig {
        managers,
        ..TriConfig::default()
    }
}

/// A machine with a design and its services.
fn rig<D: Design>(shape: Shape, config: DesignConfig, own: &D::Config) -> (Rig, Arc<D>) {
    let services = D::needs(&config, own).services;
    let mut rig = Rig::with_services(shape, services, steady);
    let design = rig.design_told(config, own);
    rig.spawn_services(&design);
    (rig, design)
}

async fn read(client: &impl Client, first: u64, pages: u64) -> u64 {
    let mut out = vec![0xee; pages as usize * 8];
    let touch = client.read(Extent::of_pages(first, pages), &mut out).await;
    touch.unwrap().hits
}

async fn write(client: &impl Client, first: u64, pages: u64, value: u8) {
    let data = vec![value; pages as usize * 8];
    client
        .write(Extent::of_pages(first, pages), &data)
        .await
        .unwrap();
}

/// The time of a gauge of a client, in nanoseconds.
fn ns(client: &impl Client, name: &str) -> u64 {
    match client.gauges().get(name) {
        Some(Amount::OfClientsNs(ns) | Amount::OfServicesNs(ns)) => ns,
        Some(Amount::MeanNs { sum_ns, .. }) => sum_ns,
        other => panic!("{name}: {other:?}"),
    }
}

/// How often CPUs of this name did an operation.
fn count(summary: &RunSummary, name: &str, op: Op) -> u64 {
    let of_name = summary.profiles.iter().filter(|p| p.0.starts_with(name));
    of_name.map(|p| p.2.count[op as usize]).sum()
}

#[test]
fn requests_fall_apart_into_a_command_for_each_page_unless_there_is_one_manager() {
    // A manager alone makes one command of what it finds at a time: of each message at worst.
    for (managers, commands) in [(1, 1..=6), (2, 16..=16), (3, 16..=16), (4, 16..=16)] {
        let (mut rig, design) = rig::<Tri>(stamps(1), cache(256), &managed_by(managers));
        rig.spawn_client(0, &design, |_, client| async move {
            assert_eq!(read(&*client, 32, 16).await, 0);
            assert_eq!(read(&*client, 32, 16).await, 16);
        });
        let store = rig.stores[0].clone();
        rig.machine.run_virtual(Seed(1)).unwrap();
        let found = store.count(IoOpcode::Read);
        assert!(commands.contains(&found), "{managers} managers: {found}");
    }
}

#[test]
fn a_page_that_a_client_holds_takes_no_message() {
    let messages = |rounds: u64| {
        let (mut rig, design) = rig::<Tri>(stamps(1), cache(256), &managed_by(2));
        rig.spawn_client(0, &design, move |_, client| async move {
            read(&*client, 0, 6).await;
            for _ in 0..rounds {
                assert_eq!(read(&*client, 0, 6).await, 6);
                write(&*client, 0, 6, 7).await;
            }
            assert!(ns(&*client, "manager_wait") > 0);
            assert_eq!(client.gauges().get("manager_asks"), Some(Amount::Count(6)));
            // The mock takes its time over each read; managers had the requests meanwhile.
            assert!(ns(&*client, "manager_held") > 6 * 1_000);
            assert_eq!(client.open_tickets(), 0);
        });
        let summary = rig.machine.run_virtual(Seed(1)).unwrap();
        count(&summary, "client", Op::MessageSend) + count(&summary, "service", Op::MessageSend)
    };
    // Three pins of each of two managers in a message each; at worst an answer for every page.
    let asked = messages(0);
    assert!((4..=8).contains(&asked), "{asked} messages");
    assert_eq!(messages(100), asked);
}

#[test]
fn a_page_that_another_client_holds_is_pinned_without_an_answer() {
    let (mut rig, design) = rig::<Tri>(stamps(2), cache(256), &managed_by(1));
    let read_by_first = Arc::new(AtomicBool::new(false));
    let is_read = read_by_first.clone();
    rig.spawn_client(0, &design, move |_, client: Rc<TriClient>| async move {
        write(&*client, 5, 1, 9).await;
        is_read.store(true, Ordering::Relaxed);
    });
    rig.spawn_client(1, &design, move |cpu, client: Rc<TriClient>| async move {
        while !read_by_first.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
        let mut out = [0; 8];
        let touch = client.read(Extent::of_pages(5, 1), &mut out).await.unwrap();
        assert_eq!((touch.hits, out), (1, [9; 8]));
        assert_eq!(ns(&*client, "manager_wait"), 0);
    });
    let store = rig.stores[0].clone();
    let summary = rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(count(&summary, "client1", Op::MessageSend), 0);
    assert_eq!(count(&summary, "client1", Op::MessageReceive), 0);
    // A page that is written whole is not read first.
    assert!(store.seen().is_empty());
}

#[test]
fn requests_larger_than_the_cache_and_more_clients_than_frames_come_to_an_end() {
    for (frames, managers, clients) in [(1, 1, 4), (2, 2, 4), (3, 2, 6), (8, 4, 2), (40, 3, 5)] {
        let (mut rig, design) = rig::<Tri>(stamps(clients), cache(frames), &managed_by(managers));
        let done = Arc::new(AtomicU64::new(0));
        for index in 0..clients {
            let done = done.clone();
            rig.spawn_client(index, &design, move |cpu: Cpu, client| async move {
                for task in 0..4 {
                    let (client, done) = (client.clone(), done.clone());
                    cpu.spawn_main("requests", async move {
                        for round in 0..10 {
                            write(&*client, task * 3, 50, round).await;
                            read(&*client, task * 7, 50).await;
                        }
                        client.flush().await.unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
        rig.machine.run_virtual(Seed(frames)).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), u64::from(clients) * 4);
    }
}

/// A worker that had been handed a job counted as idle until it ran: of a burst the first job got it, and
/// all others waited for its whole I/O instead of having workers of their own.
#[test]
fn a_burst_waited_for_the_one_idle_worker() {
    const IO_NS: u64 = 1_000_000;
    const BURST: u64 = 3;
    let fate = |_: u32| |_: u64, _: &Command| Fate::Done(IO_NS);
    let mut rig = Rig::with_services(stamps(1), 1, fate);
    let design: Arc<Tri> = rig.design_told(cache(256), &managed_by(1));
    rig.spawn_services(&design);
    rig.spawn_client(0, &design, |cpu: Cpu, client| async move {
        // From here on there is a worker, without anything to do.
        read(&*client, 5_000, 1).await;
        let began_ns = cpu.now();
        // No neighbours, in one message: as many jobs at once.
        for page in 0..BURST {
            let (client, own) = (client.clone(), cpu.clone());
            cpu.spawn_main("request", async move {
                read(&*client, page * 10, 1).await;
                let took_ns = own.now() - began_ns;
                assert!(took_ns < IO_NS * 3 / 2, "page {page} took {took_ns} ns");
            });
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// What is written whole is not read, unless the published code is asked for: it makes a command of every
/// page that is not in the cache.
#[test]
fn overwritten_pages_are_read_first_where_that_is_asked_for() {
    for (reads_before_overwrite, reads) in [(false, 0), (true, 16)] {
        let own = TriConfig {
            reads_before_overwrite,
            ..managed_by(2)
        };
        let (mut rig, design) = rig::<Tri>(stamps(1), cache(256), &own);
        let store = rig.stores[0].clone();
        rig.spawn_client(0, &design, move |_, client| async move {
            write(&*client, 32, 16, 1).await;
            assert_eq!(store.count(IoOpcode::Read), reads);
            // Pages that are there are read in neither way.
            write(&*client, 32, 16, 2).await;
            assert_eq!(read(&*client, 32, 16).await, 16);
            client.flush().await.unwrap();
            assert_eq!(store.count(IoOpcode::Read), reads);
            for page in 32..48 {
                assert_eq!(store.page(page).unwrap(), [2; 8]);
            }
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

/// A manager that waits for the drive polls its queue pairs all the time; one that waits for messages alone
/// does not. The first was accounted like the second, and a manager's engine cost next to nothing.
#[test]
fn empty_polls_of_queue_pairs_counted_for_nothing() {
    const IO_NS: u64 = 1_000_000;
    let fate = |_: u32| |_: u64, _: &Command| Fate::Done(IO_NS);
    let mut rig = Rig::with_services(stamps(1), 1, fate);
    let design: Arc<Tri> = rig.design_told(cache(256), &managed_by(1));
    rig.spawn_services(&design);
    rig.spawn_client(0, &design, |cpu: Cpu, client: Rc<TriClient>| async move {
        let polled_ns = || ns(&*client, "manager_poll");
        for pages in 1..4 {
            read(&*client, pages * 100, 1).await;
            let all_ns = pages * IO_NS;
            assert!(
                (all_ns * 9 / 10..=all_ns).contains(&polled_ns()),
                "{pages} pages"
            );
        }
        // What a client holds, and time without any request, takes no command.
        let before_ns = polled_ns();
        read(&*client, 100, 1).await;
        cpu.sleep_until(cpu.now() + 10 * IO_NS).await;
        read(&*client, 100, 1).await;
        assert_eq!(polled_ns(), before_ns);
        read(&*client, 900, 1).await;
        assert!(polled_ns() <= before_ns + IO_NS);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Polls of tasks for each page that `tasks` tasks of a client read at a time, none twice. The queue pair
/// has room for 7 commands.
fn polls_a_page(tasks: u64, pages_of_request: u64, frames: u64) -> u64 {
    const PAGES: u64 = 8_192;
    let shape = Shape {
        depth: 8,
        ..stamps(1)
    };
    let mut rig = Rig::with_services(shape, 2, steady);
    let design: Arc<Tri> = rig.design_told(cache(frames), &managed_by(2));
    rig.spawn_services(&design);
    rig.spawn_client(0, &design, move |cpu: Cpu, client| async move {
        let next = Rc::new(std::cell::Cell::new(0));
        for _ in 0..tasks {
            let (client, next) = (client.clone(), next.clone());
            cpu.spawn_main("requests", async move {
                while next.get() < PAGES {
                    let first = next.replace(next.get() + pages_of_request);
                    read(&*client, first, pages_of_request).await;
                }
            });
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap().polls / PAGES
}

/// Every end of a command woke everyone who waited for a place in the queue, and every page that left a
/// private cache everyone who waited for room in it. All but one went to wait again: the work of a run grew
/// with the square of what waited.
#[test]
fn wake_ups_grew_with_the_square_of_what_waits() {
    // With many frames workers wait for the queue, with few requests wait for room.
    for frames in [4_096, 24] {
        let (few, many) = (polls_a_page(8, 1, frames), polls_a_page(512, 1, frames));
        assert!(many <= few + 3, "{frames} frames, tasks: {few} to {many}");
        let (few, many) = (polls_a_page(8, 4, frames), polls_a_page(8, 256, frames));
        assert!(many <= few + 3, "{frames} frames, pages: {few} to {many}");
    }
}

/// A drive that answers its first read after `late_ns`, and all other commands soon; the driver waits
/// for 100 us.
fn rig_with_a_late_read(clients: u32, frames: u64, late_ns: u64) -> (Rig, Arc<Tri>) {
    let mut shape = stamps(clients);
    shape.driver.timeout_ns = 100_000;
    let mut first = true;
    let fate = move |_: u64, _: &Command| match std::mem::take(&mut first) {
        true => Fate::Done(late_ns),
        false => Fate::Done(10_000),
    };
    let mut rig = Rig::with_services(shape, 1, |_| fate);
    let design = rig.design_told(cache(frames), &managed_by(1));
    rig.spawn_services(&design);
    (rig, design)
}

#[test]
fn a_stuck_frame_fails_no_request_that_another_frame_can_serve() {
    const CLIENTS: u32 = 4;
    let (mut rig, design) = rig_with_a_late_read(CLIENTS, 3, 5_000_000);
    for index in 0..CLIENTS {
        rig.spawn_client(index, &design, move |cpu, client| async move {
            if index == 0 {
                let late = client.read(Extent::of_pages(0, 1), &mut [0; 8]).await;
                assert!(late.unwrap_err().is_timeout());
            }
            // All ask at a time when the drive has one of the three frames.
            cpu.sleep_until(200_000).await;
            for round in 0..20 {
                let first = 100 + (round * u64::from(CLIENTS) + u64::from(index)) * 4;
                read(&*client, first, 4).await;
            }
            assert!(cpu.now() < 5_000_000, "done before the drive answers");
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn requests_fail_while_every_frame_is_stuck_or_rests_with_a_client() {
    for frames in [1, 2] {
        let (mut rig, design) = rig_with_a_late_read(1, frames, 5_000_000);
        rig.spawn_client(0, &design, move |cpu, client| async move {
            let mut out = [0; 8];
            let late = client.read(Extent::of_pages(0, 1), &mut out).await;
            assert!(late.unwrap_err().is_timeout());
            // The last frame stays with the client.
            for page in 1..frames {
                assert_eq!(read(&*client, page, 1).await, 0);
            }
            let stuck = client.read(Extent::of_pages(10, 1), &mut out).await;
            assert!(matches!(stuck, Err(IoError::Stuck { page: 10 })));
            cpu.sleep_until(6_000_000).await;
            assert_eq!(read(&*client, 10, 1).await, 0);
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

#[test]
fn a_flush_writes_back_what_other_clients_hold() {
    let (mut rig, design) = rig::<Tri>(stamps(2), cache(256), &managed_by(2));
    let written = Arc::new(AtomicBool::new(false));
    let is_written = written.clone();
    let store = rig.stores[0].clone();
    let keep = Arc::new(AtomicBool::new(true));
    let hold = keep.clone();
    rig.spawn_client(0, &design, move |cpu, client: Rc<TriClient>| async move {
        write(&*client, 0, 8, 1).await;
        // Again, in pages that are there: only their versions tell.
        write(&*client, 0, 8, 2).await;
        is_written.store(true, Ordering::Relaxed);
        while hold.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
    });
    rig.spawn_client(1, &design, move |cpu, client: Rc<TriClient>| async move {
        while !written.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
        for _ in 0..2 {
            client.flush().await.unwrap();
            for page in 0..8 {
                assert_eq!(store.page(page).unwrap(), [2; 8]);
            }
            // The second flush finds nothing to write.
            assert_eq!(store.count(IoOpcode::Write), 8);
        }
        keep.store(false, Ordering::Relaxed);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn write_through_is_on_the_drive_when_it_is_acknowledged() {
    let config = DesignConfig {
        write_policy: WritePolicy::Through,
        ..cache(64)
    };
    let (mut rig, design) = rig::<Tri>(stamps(1), config, &managed_by(2));
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        for value in 1..5 {
            write(&*client, 10, 5, value).await;
            for page in 10..15 {
                assert_eq!(store.page(page).unwrap(), [value; 8]);
            }
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Hits of two clients that read skewed pages, in percent.
fn hit_percent<D: Design>(config: DesignConfig, own: &D::Config) -> u64 {
    let (mut rig, design) = rig::<D>(stamps(2), config, own);
    let hits = Arc::new(AtomicU64::new(0));
    for index in 0..2 {
        let hits = hits.clone();
        rig.spawn_client(index, &design, move |_, client| async move {
            let mut rng: Rng = Seed(7).child("skew").index(index.into()).rng();
            for _ in 0..20_000 {
                let page = rng.below(2_000) * rng.below(2_000) / 2_000;
                hits.fetch_add(read(&*client, page, 1).await, Ordering::Relaxed);
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    hits.load(Ordering::Relaxed) / 400
}

#[test]
fn the_hit_ratio_is_near_that_of_clock() {
    for (pages, managers) in [(200, 2), (600, 1), (600, 4)] {
        let config = cache(pages);
        let clock = hit_percent::<Clock>(config, &NoSettings::default());
        let tri = hit_percent::<Tri>(config, &managed_by(managers));
        assert!(
            tri + 3 >= clock && tri <= clock + 3,
            "{pages} pages: clock {clock} %, tri {tri} %"
        );
    }
}

#[test]
fn a_frame_costs_little_memory() {
    for frames in [100_000u64, 262_144] {
        for clients in [1, 8] {
            let (mut rig, design) = rig::<Tri>(stamps(clients), cache(frames), &managed_by(4));
            let design_too = design.clone();
            rig.spawn_client(0, &design, move |_, client: Rc<TriClient>| async move {
                let private = client.bookkeeping_bytes() as u64 * u64::from(clients);
                let bytes = (design_too.bookkeeping_bytes() as u64 + private) / frames;
                assert!(bytes <= 80, "{bytes} bytes a frame for {frames} frames");
            });
            rig.machine.run_virtual(Seed(1)).unwrap();
        }
    }
}

/// Clients and managers on threads of their own. Every page is written with one value throughout, so
/// that half of a write shows; each client checks the pages that only it writes.
#[test]
fn threads_see_whole_writes_and_lose_none() {
    const SHARED: u64 = 40;
    let shape = Shape {
        clients: 3,
        depth: 64,
        drive_pages: 1_000,
        ..Shape::default()
    };
    let mut rig = Rig::with_services(shape, 2, |drive| healthy(Seed(drive.into()).rng()));
    let design: Arc<Tri> = rig.design_told(cache(48), &managed_by(2));
    rig.spawn_services(&design);
    let done = Arc::new(AtomicU64::new(0));
    for index in 0..3u64 {
        let done = done.clone();
        rig.spawn_client(index as u32, &design, move |cpu: Cpu, client| async move {
            for task in 0..4 {
                let (client, done, own) = (client.clone(), done.clone(), SHARED + index * 4 + task);
                cpu.spawn_main("requests", async move {
                    let mut rng = Seed(1).index(own).rng();
                    let mut page = [0; 4096];
                    let mut value = 0;
                    for _ in 0..600 {
                        let at = rng.below(SHARED);
                        if rng.chance(1, 2) {
                            let data = [rng.below(256) as u8; 4096];
                            client.write(Extent::of_pages(at, 1), &data).await.unwrap();
                        }
                        client
                            .read(Extent::of_pages(at, 1), &mut page)
                            .await
                            .unwrap();
                        assert!(page.iter().all(|&b| b == page[0]), "half of a write");
                        client
                            .read(Extent::of_pages(own, 1), &mut page)
                            .await
                            .unwrap();
                        assert_eq!(page, [value; 4096], "a write was lost");
                        value = rng.below(256) as u8;
                        client
                            .write(Extent::of_pages(own, 1), &[value; 4096])
                            .await
                            .unwrap();
                    }
                    client.flush().await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    }
    let drives = rig.drive_cpus.clone();
    let (clients, services) = (rig.client_cpus.clone(), rig.service_cpus.clone());
    // Client 0 shares its thread with a manager, as on a small machine.
    let groups = [
        vec![clients[0], services[0]],
        vec![clients[1]],
        vec![clients[2], drives[0]],
        vec![services[1]],
    ];
    let stop = Arc::new(AtomicBool::new(false));
    rig.machine.run_threads(&groups, Idle::default(), stop);
    assert_eq!(done.load(Ordering::Relaxed), 12);
}
