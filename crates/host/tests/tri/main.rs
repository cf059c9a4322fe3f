//! `tri`: which messages and commands its requests take, and that no request waits for ever.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod load;
mod messages;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Rig, Shape, healthy};
use wharf_host::design::Amount;
use wharf_host::tri::TriClient;
use wharf_host::{
    Client, Clock, ClockConfig, Design, DesignConfig, Extent, IoError, Tri, TriConfig, WritePolicy,
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
        let clock = hit_percent::<Clock>(config, &ClockConfig::default());
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
