//! Boot through the admin queue, and clients on real threads.

mod common;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Rig, Shape};
use wharf_host::admin::{Admin, AdminError, DriveFacts, offer_queues};
use wharf_host::driver::{Driver, DriverConfig};
use wharf_host::gate::Gate;
use wharf_host::{Client, Clock, Design, DesignConfig, Direct, Extent, Groups, Layout, Volume};
use wharf_runtime::{CostTable, Idle, Machine, Notifier, Seed, Side};
use wharf_wire::command::Command;
use wharf_wire::dma::DmaSpace;
use wharf_wire::features::FeatureId;
use wharf_wire::mock::{Fate, MockDrive};
use wharf_wire::queue::queue_pair;

#[test]
fn a_boot_task_identifies_creates_queues_and_lets_the_clients_go() {
    const CLIENTS: u16 = 3;
    let space = DmaSpace::new(4096);
    let notifier = Notifier::new();
    let (admin_queue, drive_end) = queue_pair(8, &notifier, 0);
    let mut mock = MockDrive::new(&space, &notifier, 500, |_, _| Fate::Done(2_000));
    mock.mdts = 5;
    mock.attach(0, drive_end);
    let store = mock.store();
    let new_queue = |qid, entries| queue_pair(entries, &notifier, u32::from(qid));
    let offers = offer_queues(&space, CLIENTS, 16, new_queue).unwrap();
    let (queues, offers): (Vec<_>, Vec<_>) = offers.into_iter().unzip();
    let gate: Gate<DriveFacts> = Gate::new(u32::from(CLIENTS));
    let mut machine = Machine::new(CostTable::free(), false);
    let mut cpus: Vec<_> = (0..CLIENTS)
        .map(|i| machine.add_cpu(&format!("c{i}"), Side::Host, 1.0))
        .collect();
    let drive_cpu = machine.add_cpu("drive", Side::Drive, 1.0);
    machine.spawn(drive_cpu, "mock", |cpu| mock.run(cpu));
    for (index, queue) in queues.into_iter().enumerate() {
        let (gate, space) = (gate.clone(), space.clone());
        machine.spawn_main(cpus[index], "client", move |cpu| async move {
            let facts = gate.pass(&cpu, index as u32).await;
            assert_eq!((facts.pages, facts.max_transfer_pages), (500, 32));
            let max_transfer_pages = facts.max_transfer_pages;
            let config = DriverConfig {
                max_transfer_pages,
                ..DriverConfig::default()
            };
            let groups = Groups::new();
            let driver = Driver::start(&cpu, queue, &space, &groups, config, false).unwrap();
            let volume = Volume::new(vec![driver], Layout::new(&[facts.pages], 16));
            let region = space.register(40).unwrap();
            let pages: Vec<u64> = (0..40).map(|i| region.address(i)).collect();
            // SAFETY: no command is in flight.
            unsafe { region.page_mut(39) }.fill(index as u8 + 1);
            volume
                .write(&cpu, 100 * index as u64, &pages, false)
                .await
                .unwrap();
        });
    }
    let boot_cpu = cpus.remove(0);
    let boot_space = space.clone();
    machine.spawn_main(boot_cpu, "boot", move |cpu| async move {
        let admin = Admin::start(&cpu, admin_queue, &boot_space, DriverConfig::default()).unwrap();
        let facts = admin.identify().await.unwrap();
        admin.allot_queues(u32::from(CLIENTS)).await.unwrap();
        let few = admin.allot_queues(1_000).await.unwrap_err();
        assert!(matches!(
            few,
            AdminError::TooFewQueues {
                allotted: 64,
                wanted: 1_000,
                ..
            }
        ));
        for offer in &offers {
            admin.create_queue(offer).await.unwrap();
        }
        assert!(
            admin.create_queue(&offers[0]).await.is_err(),
            "an offer is taken once"
        );
        gate.open(&cpu, facts);
        cpu.sleep_until(cpu.now() + 1_000_000).await;
        assert_eq!(admin.statistics().await.unwrap().mapped_pages, 3 * 40);
        let cores = admin.core_statistics(2).await.unwrap();
        assert_eq!((cores[0].core, cores[1].core), (0, 1));
        assert_eq!(admin.smart().await.unwrap().critical_warning, 0);
        assert!(admin.errors().await.unwrap().is_empty());
        assert_eq!(
            admin
                .set_feature(FeatureId::VolatileWriteCache, 1)
                .await
                .unwrap(),
            1
        );
        assert_eq!(
            admin
                .get_feature(FeatureId::VolatileWriteCache)
                .await
                .unwrap(),
            0
        );
        admin.delete_queue(3).await.unwrap();
        admin.format().await.unwrap();
        assert_eq!(admin.statistics().await.unwrap().mapped_pages, 0);
    });
    machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(store.seen().len(), 3 * 2);
}

/// Clients on threads of their own add to counters in the same few pages, a slice for each.
fn threads_share_pages<D: Design>(cache_pages: u64) {
    const CLIENTS: u32 = 3;
    const ROUNDS: u64 = 400;
    let shape = Shape {
        clients: CLIENTS,
        ..Shape::default()
    };
    let mut rig = Rig::new(shape, |_| |_: u64, _: &Command| Fate::Done(0));
    let design: Arc<D> = rig.design(DesignConfig {
        cache_bytes: cache_pages * 4096,
        ..DesignConfig::default()
    });
    let checked = Arc::new(AtomicU64::new(0));
    for index in 0..CLIENTS {
        let checked = checked.clone();
        rig.spawn_client(index, &design, move |_, client: Rc<D::Client>| async move {
            let mut rng = Seed(u64::from(index)).rng();
            let mut model = [0u64; 4];
            for _ in 0..ROUNDS {
                let page = rng.below(4);
                let extent = Extent::new(page * 4096 + 1000 * u64::from(index), 8);
                let mut bytes = [0; 8];
                client.read(extent, &mut bytes).await.unwrap();
                assert_eq!(u64::from_le_bytes(bytes), model[page as usize]);
                model[page as usize] += 1;
                client
                    .write(extent, &model[page as usize].to_le_bytes())
                    .await
                    .unwrap();
                if rng.chance(1, 20) {
                    client.flush().await.unwrap();
                }
                checked.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut groups: Vec<Vec<_>> = rig.client_cpus.iter().map(|&cpu| vec![cpu]).collect();
    groups.push(vec![wharf_runtime::CpuId(CLIENTS)]);
    let idle = Idle {
        spin_passes: 50,
        ..Idle::default()
    };
    rig.machine
        .run_threads(&groups, idle, Arc::new(AtomicBool::new(false)));
    assert_eq!(checked.load(Ordering::Relaxed), ROUNDS * u64::from(CLIENTS));
}

#[test]
fn direct_loses_no_update_of_clients_on_threads() {
    threads_share_pages::<Direct>(0);
}

#[test]
fn clock_loses_no_update_of_clients_on_threads() {
    threads_share_pages::<Clock>(2);
    threads_share_pages::<Clock>(100);
}
