//! The design `scale`: CLOCK, read-ahead, who flushes, and threads. (That it keeps every byte is shown in
//! `data.rs`.)

mod common;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Rig, Shape, healthy};
use wharf_host::scale::index::{Concurrent, Index};
use wharf_host::scale::{DflushAlone, Scale, ScaleClient, Variant, Whole};
use wharf_host::{Client, Design, DesignConfig, Extent, IoError, Touch};
use wharf_runtime::machine::Idle;
use wharf_runtime::{Cpu, CpuId, Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

const PAGE: usize = 4096;

/// A machine with the design; with `service`, its background flusher runs.
fn rig<V: Variant>(shape: Shape, frames: u64, service: bool) -> (Rig, Arc<Scale<V>>) {
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(shape, u32::from(service), fate);
    let design = rig.design(DesignConfig {
        cache_bytes: frames * PAGE as u64,
        ..DesignConfig::default()
    });
    if service {
        rig.spawn_services(&design);
    }
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

async fn read<I: Index>(client: &ScaleClient<I>, page: u64, pages: u64) -> Touch {
    let mut out = vec![0; 8 * pages as usize];
    let extent = Extent::of_pages(page, pages);
    client.read(extent, &mut out).await.unwrap()
}

async fn write<I: Index>(client: &ScaleClient<I>, page: u64, pages: u64) -> Result<Touch, IoError> {
    let data = vec![7; 8 * pages as usize];
    client.write(Extent::of_pages(page, pages), &data).await
}

/// CLOCK over frames in the order of their numbers, as a textbook has it.
struct Textbook {
    frames: Vec<Option<(u64, bool)>>,
    hand: usize,
    /// Frames that have never had a page, the next one last.
    free: Vec<usize>,
}

impl Textbook {
    fn new(frames: usize) -> Textbook {
        Textbook {
            frames: vec![None; frames],
            hand: 0,
            free: (0..frames).rev().collect(),
        }
    }

    /// Reads a page; true if it was there.
    fn read(&mut self, page: u64) -> bool {
        let found = self.frames.iter_mut().flatten().find(|f| f.0 == page);
        if let Some(frame) = found {
            frame.1 = true;
            return true;
        }
        if self.free.is_empty() {
            self.sweep();
        }
        let frame = self.free.pop().expect("a frame was freed");
        // The read that brought the page in is its first use.
        self.frames[frame] = Some((page, true));
        false
    }

    /// The hand goes over a stretch of frames at a time, until some are free.
    fn sweep(&mut self) {
        let count = self.frames.len();
        while self.free.is_empty() {
            for _ in 0..count.min(32) {
                match &mut self.frames[self.hand] {
                    Some((_, referenced)) if *referenced => *referenced = false,
                    Some(_) => {
                        self.frames[self.hand] = None;
                        self.free.push(self.hand);
                    }
                    None => {}
                }
                self.hand = (self.hand + 1) % count;
            }
        }
    }
}

#[test]
fn pages_stay_and_go_as_by_clock() {
    for seed in 0..60 {
        let mut rng = Seed(seed).child("clock").rng();
        // So few that no CPU keeps free frames of its own.
        let frames = 1 + rng.below(31);
        let range = 1 + rng.below(frames * 3);
        let (mut rig, design) = rig::<Whole>(stamps(1, 100 * (range + 2)), frames, false);
        rig.spawn_client(0, &design, move |_, client| async move {
            let mut model = Textbook::new(frames as usize);
            for step in 0..600 {
                // So far apart that nothing is read ahead; half of the reads go to a few pages.
                let most = match rng.chance(1, 2) {
                    true => range.div_ceil(5),
                    false => range,
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
fn a_file_read_in_order_is_read_ahead_in_large_requests() {
    let (mut rig, design) = rig::<Whole>(stamps(1, 2_000), 1024, false);
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
    let (mut rig, design) = rig::<Whole>(stamps(1, 2_000), 16_384, true);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, |_, client| async move {
        // Each page of 64..576, scattered: 512 pages are below the background threshold.
        for step in 0..512 {
            write(&client, 64 + step * 37 % 512, 1).await.unwrap();
        }
        client.flush().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    let counts = (store.count(IoOpcode::Write), store.count(IoOpcode::Flush));
    assert_eq!(counts, (2, 1));
}

async fn scatter<I: Index>(client: Rc<ScaleClient<I>>, mut rng: Rng, writes: u32) {
    for _ in 0..writes {
        let (page, pages) = (rng.below(50_000), 1 + rng.below(3));
        write(&client, page, pages).await.unwrap();
    }
}

/// Without a background flusher at all, writers keep the dirty pages below the hard threshold; every one
/// of them takes part.
fn writers_flush<V: Variant>() {
    let (clients, tasks) = (4, 4);
    let (mut rig, design) = rig::<V>(stamps(clients, 100_000), 4_000, false);
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
                    assert!(unwritten <= limits.dirty_hard + more, "{unwritten}");
                    let written = client.statistics().write_backs;
                    assert!(written > 500, "client {index} wrote {written} pages back");
                });
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn writers_above_the_hard_threshold_flush_side_by_side() {
    writers_flush::<Whole>();
    writers_flush::<DflushAlone>();
}

#[test]
fn the_background_flusher_writes_down_to_its_threshold() {
    let (mut rig, design) = rig::<Whole>(stamps(1, 100_000), 4_000, true);
    let shared = design.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        // More than the background threshold of 400, less than the hard one of 800.
        for page in 0..600 {
            write(&client, 5 * page, 1).await.unwrap();
        }
        cpu.sleep_until(cpu.now() + 1_000_000_000).await;
        let dirty = shared.shared().dirty.get();
        assert!((300..=400).contains(&dirty), "{dirty} pages are dirty");
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Write-back fails while the drive refuses writes: the flush says so, the pages stay dirty, and the next
/// flush writes them.
#[test]
fn a_failed_write_back_is_reported_and_its_pages_stay_dirty() {
    let shape = stamps(1, 1_000);
    let mut failures_left = 4;
    let fate = move |_: u64, command: &Command| match command.io_opcode() {
        Some(IoOpcode::Write) if failures_left > 0 => {
            failures_left -= 1;
            Fate::Failed(StatusCode::WriteFault, 1_000)
        }
        _ => Fate::Done(1_000),
    };
    let mut rig = Rig::new(shape, |_| fate);
    let design: Arc<Scale<Whole>> = rig.design(DesignConfig {
        cache_bytes: 100 * PAGE as u64,
        ..DesignConfig::default()
    });
    let (store, shared) = (rig.stores[0].clone(), design.clone());
    rig.spawn_client(0, &design, move |cpu, client| async move {
        write(&client, 3, 2).await.unwrap();
        let mut failed = 0;
        while client.flush().await.is_err() {
            failed += 1;
            assert_eq!(
                shared.shared().verify(&cpu),
                2,
                "both pages are dirty still"
            );
        }
        assert!(failed > 0, "a drive that refuses writes fails a flush");
        assert_eq!(shared.shared().verify(&cpu), 0);
        assert_eq!(store.page(4), Some(vec![7; 8]));
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Whole pages of one byte each, by several clients into the same pages: a reader must find a page
/// of one byte.
async fn uniform(cpu: Cpu, client: Rc<ScaleClient<Concurrent>>, mut rng: Rng, pages: u64) {
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
        let design: Arc<Scale<Whole>> = rig.design(DesignConfig {
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
        let store = rig.stores[0].clone();
        // Clients, the service, the drive, in the order in which the rig adds them.
        let groups = [vec![CpuId(0)], vec![CpuId(1), CpuId(2)], vec![CpuId(3)]];
        let stop = Arc::new(AtomicBool::new(false));
        rig.machine.run_threads(&groups, Idle::default(), stop);
        for page in 0..100 {
            let bytes = store.page(page).unwrap_or(vec![0; PAGE]);
            let one = bytes.iter().all(|byte| *byte == bytes[0]);
            assert!(one, "page {page} on the drive");
        }
    }
}

#[test]
fn equal_seeds_send_the_drive_equal_commands() {
    let commands = |seed| {
        let (mut rig, design) = rig::<Whole>(stamps(3, 60_000), 500, true);
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

#[test]
fn a_cache_without_a_page_or_a_client_is_refused() {
    let space = wharf_wire::dma::DmaSpace::new(8);
    let config = |cache_bytes, clients| DesignConfig {
        cache_bytes,
        clients,
        ..DesignConfig::default()
    };
    for (bytes, clients, what) in [(4095, 1, "4095 bytes"), (1 << 20, 0, "no clients")] {
        let Err(error) = Scale::<Whole>::new(&config(bytes, clients), &space) else {
            panic!("{bytes} bytes for {clients} clients");
        };
        let text = error.to_string();
        assert!(text.contains("'scale'") && text.contains(what), "{text}");
    }
}
