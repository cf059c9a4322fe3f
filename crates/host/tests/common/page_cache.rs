//! What every page cache is asked for, generic over the design.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::{Client, Design, DesignConfig, Extent, IoError, Touch};
use wharf_runtime::machine::Idle;
use wharf_runtime::{Cpu, CpuId, Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;

use super::{Rig, Shape, healthy};

pub const PAGE: usize = 4096;

/// A machine with the design over `frames` frames; with `service`, its background flusher runs.
pub fn rig<D: Design>(shape: Shape, frames: u64, service: bool) -> (Rig, Arc<D>) {
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(shape, u32::from(service), fate);
    let design = rig.design(of_frames(frames));
    if service {
        rig.spawn_services(&design);
    }
    (rig, design)
}

pub fn of_frames(frames: u64) -> DesignConfig {
    DesignConfig {
        cache_bytes: frames * PAGE as u64,
        ..DesignConfig::default()
    }
}

pub fn stamps(clients: u32, drive_pages: u64) -> Shape {
    Shape {
        page_bytes: 8,
        clients,
        drive_pages,
        depth: 64,
        ..Shape::default()
    }
}

pub async fn read<C: Client>(client: &C, page: u64, pages: u64) -> Touch {
    let mut out = vec![0; 8 * pages as usize];
    let extent = Extent::of_pages(page, pages);
    client.read(extent, &mut out).await.unwrap()
}

pub async fn write<C: Client>(client: &C, page: u64, pages: u64) -> Result<Touch, IoError> {
    let data = vec![7; 8 * pages as usize];
    client.write(Extent::of_pages(page, pages), &data).await
}

/// Writes of one to three pages anywhere.
pub async fn scatter<C: Client>(client: Rc<C>, mut rng: Rng, writes: u32) {
    for _ in 0..writes {
        let (page, pages) = (rng.below(50_000), 1 + rng.below(3));
        write(&*client, page, pages).await.unwrap();
    }
}

/// A file read in order is read ahead in large requests. What was read ahead is no hit when it is touched first: a
/// cache that counted it as one had more hits than one that keeps everything.
pub fn reads_ahead<D: Design>(service: bool) {
    let (mut rig, design) = rig::<D>(stamps(1, 2_000), 1024, service);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, |_, client| async move {
        for page in 0..512 {
            read(&*client, page, 1).await;
        }
        let did = client.statistics();
        let counted = (did.touches, did.hits, did.read_ahead_hits);
        assert_eq!(counted, (512, 0, 511), "each page was touched once");
        for page in (0..512).rev() {
            write(&*client, page, 1).await.unwrap();
        }
        let again = client.statistics().since(&did);
        let counted = (again.touches, again.hits, again.read_ahead_hits);
        assert_eq!(counted, (512, 512, 0), "each page was touched before");
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    let reads = store.count(IoOpcode::Read);
    assert!(
        (16..=22).contains(&reads),
        "{reads} reads of up to 32 pages"
    );
}

/// Neighbours are written back together, in whatever order they were written.
pub fn writes_neighbours_together<D: Design>() {
    let (mut rig, design) = rig::<D>(stamps(1, 2_000), 16_384, true);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, |_, client| async move {
        // Each page of 64..576, scattered: 512 pages are below the background threshold.
        for step in 0..512 {
            write(&*client, 64 + step * 37 % 512, 1).await.unwrap();
        }
        client.flush().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    let counts = (store.count(IoOpcode::Write), store.count(IoOpcode::Flush));
    assert_eq!(counts, (2, 1));
}

/// Equal seeds send the drive equal commands.
pub fn is_deterministic<D: Design>() {
    let commands = |seed| {
        let (mut rig, design) = rig::<D>(stamps(3, 60_000), 500, true);
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
async fn uniform<C: Client>(cpu: Cpu, client: Rc<C>, mut rng: Rng, pages: u64) {
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

/// Threads that share pages never see half of a write. Gives the caches as they are at the end.
pub fn threads_see_whole_writes<D: Design>() -> Vec<Arc<D>> {
    [8, 40, 400].map(threads_on::<D>).into()
}

fn threads_on<D: Design>(frames: u64) -> Arc<D> {
    let shape = Shape {
        clients: 2,
        depth: 64,
        ..Shape::default()
    };
    let fast = |_: u64, _: &Command| Fate::Done(1_000);
    let mut rig = Rig::with_services(shape, 1, |_| fast);
    let design: Arc<D> = rig.design(of_frames(frames));
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
    design
}
