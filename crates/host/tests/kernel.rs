//! The design `kernel` beside slow models of what Linux does: lists, read-ahead, thresholds.
//! (That it keeps every byte is shown in `data.rs`.)

mod common;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{Rig, Shape, healthy};
use wharf_host::kernel::KernelClient;
use wharf_host::{Client, DesignConfig, Extent, Kernel, Touch};
use wharf_runtime::machine::Idle;
use wharf_runtime::{Cpu, CpuId, Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::{Fate, MockStore};
use wharf_wire::opcode::IoOpcode;

const PAGE: usize = 4096;

/// A machine with the design, its service running.
fn rig(shape: Shape, frames: u64) -> (Rig, Arc<Kernel>) {
    let mut rig = Rig::with_services(shape, 1, |drive| healthy(Seed(9).index(drive.into()).rng()));
    let design: Arc<Kernel> = rig.design(DesignConfig {
        cache_bytes: frames * PAGE as u64,
        ..DesignConfig::default()
    });
    rig.spawn_services(&design);
    (rig, design)
}

fn stamps(clients: u32, drive_pages: u64) -> Shape {
    Shape {
        page_bytes: 8,
        clients,
        drive_pages,
        depth: 64,
        ..Shape::default()
    }
}

async fn read(client: &KernelClient, page: u64, pages: u64) -> Touch {
    let mut out = vec![0; 8 * pages as usize];
    client
        .read(Extent::of_pages(page, pages), &mut out)
        .await
        .unwrap()
}

async fn write(client: &KernelClient, page: u64, pages: u64) {
    let data = vec![7; 8 * pages as usize];
    client
        .write(Extent::of_pages(page, pages), &data)
        .await
        .unwrap();
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
                let hit = read(&client, page, 1).await.hits == 1;
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
                read(&client, 7 * page, 1).await;
            }
        }
        for page in 0..10_000 {
            read(&client, 1_000 + page, 1).await;
        }
        let mut hits = 0;
        for page in 0..100 {
            hits += read(&client, 7 * page, 1).await.hits;
        }
        assert_eq!(hits, 100);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn a_file_read_in_order_is_read_ahead_in_large_requests() {
    let (mut rig, design) = rig(stamps(1, 2_000), 1024);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, |_, client| async move {
        for page in 0..512 {
            read(&client, page, 1).await;
        }
        let statistics = client.statistics();
        assert_eq!((statistics.touches, statistics.hits), (512, 511));
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    let reads = store.count(IoOpcode::Read);
    assert!(
        (16..=22).contains(&reads),
        "{reads} reads of up to 32 pages"
    );
}

#[test]
fn neighbours_are_written_back_together_in_whatever_order_they_were_written() {
    let (mut rig, design) = rig(stamps(1, 2_000), 16_384);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, |_, client| async move {
        // Each page of 64..576, scattered: 512 pages are below the background threshold.
        for step in 0..512 {
            write(&client, 64 + step * 37 % 512, 1).await;
        }
        client.flush().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(
        (store.count(IoOpcode::Write), store.count(IoOpcode::Flush)),
        (2, 1)
    );
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

async fn scatter(client: Rc<KernelClient>, mut rng: Rng, writes: u32) {
    for _ in 0..writes {
        write(&client, rng.below(50_000), 1 + rng.below(3)).await;
    }
}

#[test]
fn few_dirty_pages_are_left_alone_until_they_are_old() {
    let (mut rig, design) = rig(stamps(1, 2_000), 1_000);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        write(&client, 3, 50).await;
        cpu.sleep_until(20_000_000_000).await;
        assert_eq!(store.count(IoOpcode::Write), 0);
        cpu.sleep_until(50_000_000_000).await;
        assert_eq!(store.count(IoOpcode::Write), 1);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn equal_seeds_send_the_drive_equal_commands() {
    let commands = |seed| {
        let (mut rig, design) = rig(stamps(3, 60_000), 500);
        for index in 0..3 {
            rig.spawn_client(index, &design, move |cpu, client| async move {
                for task in 0..3 {
                    let rng = Seed(seed).index(index.into()).index(task).rng();
                    cpu.spawn_main("writer", scatter(client.clone(), rng, 300));
                }
            });
        }
        let store = rig.stores[0].clone();
        rig.machine.run_virtual(Seed(seed)).unwrap();
        store.seen()
    };
    for seed in 0..3 {
        assert_eq!(commands(seed), commands(seed), "seed {seed}");
    }
    assert_ne!(commands(0), commands(1));
}

/// Whole pages of one byte each, by several clients into the same pages: a reader must find a page
/// of one byte.
async fn uniform(cpu: Cpu, client: Rc<KernelClient>, mut rng: Rng, pages: u64) {
    let mut out = vec![0; PAGE];
    for _ in 0..400 {
        let extent = Extent::of_pages(rng.below(pages), 1);
        if rng.chance(1, 3) {
            out.fill(rng.next_u32() as u8);
            client.write(extent, &out).await.unwrap();
        } else {
            client.read(extent, &mut out).await.unwrap();
            assert!(out.iter().all(|byte| *byte == out[0]), "half of a write");
        }
        cpu.progress();
    }
    client.flush().await.unwrap();
}

#[test]
fn threads_that_share_pages_never_see_half_of_a_write() {
    for frames in [8, 40, 400] {
        let shape = Shape {
            clients: 2,
            depth: 64,
            ..Shape::default()
        };
        let fast = |_: u64, _: &Command| Fate::Done(1_000);
        let mut rig = Rig::with_services(shape, 1, |_| fast);
        let design: Arc<Kernel> = rig.design(DesignConfig {
            cache_bytes: frames * PAGE as u64,
            ..DesignConfig::default()
        });
        rig.spawn_services(&design);
        for index in 0..2 {
            rig.spawn_client(index, &design, move |cpu, client| async move {
                for task in 0..4 {
                    let rng = Seed(frames).index(index.into()).index(task).rng();
                    cpu.spawn_main("task", uniform(cpu.clone(), client.clone(), rng, 100));
                }
            });
        }
        let store: Arc<MockStore> = rig.stores[0].clone();
        // Clients, the service, the drive, in the order in which the rig adds them.
        let groups = [vec![CpuId(0)], vec![CpuId(1), CpuId(2)], vec![CpuId(3)]];
        let stop = Arc::new(AtomicBool::new(false));
        rig.machine.run_threads(&groups, Idle::default(), stop);
        for page in 0..100 {
            let bytes = store.page(page).unwrap_or(vec![0; PAGE]);
            assert!(
                bytes.iter().all(|byte| *byte == bytes[0]),
                "page {page} on the drive"
            );
        }
        assert_eq!(design.shared().unwritten(), 0);
    }
}
