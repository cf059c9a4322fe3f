//! The design `kernel` beside slow models of what Linux does: lists, read-ahead, thresholds.
//! (That it keeps every byte is shown in `data.rs`.)

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use common::page_cache::{self, read, scatter, stamps, write};
use common::{Rig, Shape};
use wharf_host::{Client, DesignConfig, Kernel, KernelDflush};
use wharf_runtime::Seed;
use wharf_wire::opcode::IoOpcode;

/// A machine with the design, its service running.
fn rig(shape: Shape, frames: u64) -> (Rig, Arc<Kernel>) {
    page_cache::rig(shape, frames, true)
}

#[test]
fn every_file_has_a_tree_and_readers_of_its_own() {
    let fate = |drive: u32| common::healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(1, 400), 1, fate);
    let design: Arc<Kernel> = rig.design(DesignConfig {
        files: 4,
        ..page_cache::of_frames(1_000)
    });
    rig.spawn_services(&design);
    let seen = design.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let entries = |file| {
            let tree = seen.shared().tree(file);
            tree.with(&cpu, |tree| tree.size().entries)
        };
        let pages = || [0, 1, 2, 3].map(entries);
        for page in 0..100 {
            read(&*client, page, 1).await;
        }
        assert_eq!(
            pages(),
            [100, 0, 0, 0],
            "nothing is read ahead of a file's end"
        );
        let touch = write(&*client, 199, 2).await.unwrap();
        assert_eq!((touch.pages, pages()), (2, [100, 1, 1, 0]));
        client.flush().await.unwrap();
        seen.shared().verify(&cpu);
    });
    let store = rig.stores[0].clone();
    rig.machine.run_virtual(Seed(1)).unwrap();
    for page in [199, 200] {
        assert_eq!(store.page(page), Some(vec![7; 8]));
    }
}

/// Two lists as one finds them in a textbook on Linux, oldest page first.
#[derive(Default)]
struct TwoLists {
    frames: usize,
    inactive: Vec<u64>,
    active: Vec<u64>,
    referenced: BTreeSet<u64>,
    last: Option<u64>,
}

impl TwoLists {
    /// Reads a page; true if it was there.
    fn read(&mut self, page: u64) -> bool {
        let hit = self.inactive.contains(&page) || self.active.contains(&page);
        if !hit {
            if self.inactive.len() + self.active.len() == self.frames {
                self.evict();
            }
            self.inactive.push(page);
        }
        if self.last.replace(page) != Some(page) {
            self.mark(page);
        }
        hit
    }

    fn mark(&mut self, page: u64) {
        let is_new = self.referenced.insert(page);
        if !is_new && self.inactive.contains(&page) {
            self.inactive.retain(|other| *other != page);
            self.active.push(page);
            self.referenced.remove(&page);
        }
    }

    fn evict(&mut self) {
        while self.inactive.len() < self.active.len() {
            self.inactive.push(self.active.remove(0));
        }
        let victim = self.inactive.remove(0);
        self.referenced.remove(&victim);
    }
}

#[test]
fn pages_stay_and_go_as_by_two_lists() {
    for seed in 0..60 {
        let mut rng = Seed(seed).child("lists").rng();
        // Below 32 frames nothing is batched.
        let frames = 1 + rng.below(31);
        let range = 1 + rng.below(frames * 3);
        let (mut rig, design) = rig(stamps(1, 100 * (range + 2)), frames);
        rig.spawn_client(0, &design, move |_, client| async move {
            let mut model = TwoLists {
                frames: frames as usize,
                ..TwoLists::default()
            };
            for step in 0..600 {
                // So far apart that nothing is read ahead; half of the reads go to a few pages.
                let most = if rng.chance(1, 2) {
                    range.div_ceil(5)
                } else {
                    range
                };
                let page = 100 * (1 + rng.below(most));
                let hit = read(&*client, page, 1).await.hits == 1;
                assert_eq!(hit, model.read(page), "seed {seed} step {step} page {page}");
            }
        });
        rig.machine.run_virtual(Seed(seed)).unwrap();
    }
}

#[test]
fn a_scan_does_not_push_out_what_is_used_again() {
    let (mut rig, design) = rig(stamps(1, 20_000), 1024);
    rig.spawn_client(0, &design, |_, client| async move {
        for _ in 0..3 {
            for page in 0..100 {
                read(&*client, 7 * page, 1).await;
            }
        }
        for page in 0..10_000 {
            read(&*client, 1_000 + page, 1).await;
        }
        let mut hits = 0;
        for page in 0..100 {
            hits += read(&*client, 7 * page, 1).await.hits;
        }
        assert_eq!(hits, 100);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn a_file_read_in_order_is_read_ahead_in_large_requests() {
    page_cache::reads_ahead::<Kernel>(true);
}

#[test]
fn neighbours_are_written_back_together_in_whatever_order_they_were_written() {
    page_cache::writes_neighbours_together::<Kernel>();
}

#[test]
fn dirty_pages_stay_below_the_hard_threshold_and_the_flusher_keeps_up() {
    let (clients, tasks) = (4, 4);
    let (mut rig, design) = rig(stamps(clients, 100_000), 4_000);
    for index in 0..clients {
        rig.spawn_client(index, &design, move |cpu, client| async move {
            for task in 0..tasks {
                let (client, rng) = (client.clone(), Seed(index.into()).index(task).rng());
                cpu.spawn_main("writer", scatter(client, rng, 1_500));
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    let shared = design.shared();
    let peak = shared.dirty_peak.load(Relaxed);
    let limits = shared.limits;
    assert_eq!((limits.dirty_background, limits.dirty_hard), (400, 800));
    let more = u64::from(clients) * tasks * limits.dirty_step;
    assert!(
        peak > limits.dirty_background && peak <= limits.dirty_hard + more,
        "{peak}"
    );
}

/// The same writers without a flusher at all: they write all of it, and nobody is throttled for
/// long.
#[test]
fn writers_of_kernel_dflush_keep_the_dirty_pages_down_by_themselves() {
    let (clients, tasks) = (4, 4);
    let (mut rig, design) = page_cache::rig::<KernelDflush>(stamps(clients, 100_000), 4_000, false);
    for index in 0..clients {
        let shared = design.clone();
        rig.spawn_client(index, &design, move |cpu, client| async move {
            for task in 0..tasks {
                let (client, shared) = (client.clone(), shared.clone());
                let rng = Seed(index.into()).index(task).rng();
                cpu.spawn_main("writer", async move {
                    scatter(client.clone(), rng, 1_500).await;
                    let limits = shared.shared().limits;
                    let more = u64::from(clients) * tasks * limits.dirty_step;
                    let unwritten = shared.shared().unwritten();
                    assert!(unwritten <= limits.free_run() + more, "{unwritten}");
                    let written = client.statistics().write_backs;
                    assert!(written > 500, "client {index} wrote {written} pages back");
                });
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Reset to the first page at each threshold, it wrote pages that are dirtied often again and
/// again, and left old ones behind them. Ends of the flusher's requests were all its own, though
/// half of the drives' interrupts are served by the CPU that shares their queues.
#[test]
fn every_other_drive_ends_the_flushers_requests_on_its_neighbour() {
    let busy_ns = |services: u32| {
        let shape = Shape {
            drives: 2,
            ..stamps(1, 50_000)
        };
        let fate = |drive: u32| common::healthy(Seed(9).index(drive.into()).rng());
        let mut rig = Rig::with_services(shape, services, fate);
        let design: Arc<Kernel> = rig.design(page_cache::of_frames(4_000));
        rig.spawn_services(&design);
        let seen = design.clone();
        rig.spawn_client(0, &design, move |cpu, client| async move {
            for page in 0..700 {
                write(&*client, 17 * page, 1).await.unwrap();
            }
            cpu.sleep_until(cpu.now() + 1_000_000_000).await;
            assert!(seen.shared().common.background_written.load(Relaxed) >= 300);
            client.flush().await.unwrap();
            seen.shared().verify(&cpu);
        });
        let summary = rig.machine.run_virtual(Seed(1)).unwrap();
        let of = |name: &str| {
            let mut profiles = summary.profiles.iter();
            let found = profiles.find(|(cpu, ..)| cpu == name);
            found.map_or(0, |(.., profile)| profile.total_ns())
        };
        [of("service0"), of("service1")]
    };
    let ([alone, nobody], [flusher, neighbour]) = (busy_ns(1), busy_ns(2));
    assert_eq!(nobody, 0);
    assert!(
        neighbour > 0 && flusher < alone,
        "{flusher} of {alone} ns, and {neighbour}"
    );
}

#[test]
fn the_flusher_goes_on_where_it_stopped() {
    let (mut rig, design) = rig(stamps(1, 10_000), 4_000);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        // Neighbours would be written together.
        let write_pages = async |pages: std::ops::Range<u64>| {
            for page in pages {
                write(&*client, 2 * page, 1).await.unwrap();
            }
        };
        let written = |page: u64| {
            let writes = store.seen().into_iter();
            let writes = writes.filter(|c| c.opcode == IoOpcode::Write.raw());
            writes.filter(|c| c.slba() == 2 * page).count()
        };
        // The background threshold is 400 pages.
        write_pages(0..600).await;
        cpu.sleep_until(1_000_000_000).await;
        assert_eq!((written(0), written(500)), (1, 0));
        write_pages(0..150).await;
        cpu.sleep_until(2_000_000_000).await;
        assert_eq!((written(0), written(250)), (1, 1));
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn few_dirty_pages_are_left_alone_until_they_are_old() {
    let (mut rig, design) = rig(stamps(1, 2_000), 1_000);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        write(&*client, 3, 50).await.unwrap();
        cpu.sleep_until(20_000_000_000).await;
        assert_eq!(store.count(IoOpcode::Write), 0);
        cpu.sleep_until(50_000_000_000).await;
        assert_eq!(store.count(IoOpcode::Write), 1);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn equal_seeds_send_the_drive_equal_commands() {
    page_cache::is_deterministic::<Kernel>();
    page_cache::is_deterministic::<KernelDflush>();
}

#[test]
fn threads_that_share_pages_never_see_half_of_a_write() {
    for design in page_cache::threads_see_whole_writes::<Kernel>() {
        assert_eq!(design.shared().unwritten(), 0);
    }
}
