//! Bursts, small caches, and what waits.

use super::*;

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

/// Every end of a command woke everyone who waited for a place in the queue, and every page that
/// left a private cache everyone who waited for room in it. All but one went to wait again: the
/// work of a run grew with the square of what waited.
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
