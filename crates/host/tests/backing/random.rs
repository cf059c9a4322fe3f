use std::sync::{Arc, Mutex};

use wharf_host::backing::{Backing, ChunkConfig, DiskZones, rebuild};
use wharf_runtime::Seed;

use crate::support::{
    Device, Loss, Model, Power, Shape, contents_of, created, open, play, random_ops, run,
};

/// Random writes, discards and reads, with collection going on; then the store is opened anew, and then its
/// mapping is made anew from the disk alone: always it holds what a flat vector does.
#[test]
fn a_store_is_a_flat_vector_through_collection_reopening_and_rebuilding() {
    let mut collected = 0;
    for seed in 0..25 {
        println!("seed {seed}");
        let mut rng = Seed(seed).child("store").rng();
        let shape = Shape {
            stamps: rng.chance(1, 2),
            config: ChunkConfig {
                chunk_pages_max: 1 + rng.below(4) as u32,
                mapping_groups: 1 + rng.below(4) as usize,
            },
            pages: 120,
            zones: 6,
            ..Shape::default()
        };
        let power = Power::on();
        let (disk, metadata) = created(shape, &power);
        let model = Arc::new(Mutex::new(Model::new(shape.pages)));
        for round in 0..3 {
            let ops = random_ops(&mut rng, shape.pages, 300);
            let (d, m, held) = (disk.clone(), metadata.clone(), model.clone());
            collected += run(move |cpu| async move {
                let store = open(&cpu, shape, &d, &m).await.unwrap();
                assert_eq!(store.epoch(), 2 + round);
                play(&store, &shape, &held, &ops).await.unwrap();
                store.flush().await.unwrap();
                store.verify().await.unwrap();
                let all = contents_of(&store, &shape, 0, shape.pages).await.unwrap();
                assert_eq!(all, held.lock().unwrap().now);
                assert!(store.groups_in_memory() <= shape.config.mapping_groups.max(1) + 1);
                store.counters().collected_zones
            });
        }
        // The cache drive is lost.
        disk.settle(Loss::None, &mut rng);
        let (other, d) = (Device::new(1 + 1, &power), disk.clone());
        let expected = model.lock().unwrap().now.clone();
        run(move |cpu| async move {
            let zones = DiskZones::new(d.clone(), shape.zone_sectors);
            let rebuilt = rebuild(&zones, &other, [3; 16]).await.unwrap();
            assert!(rebuilt.chunks > 0 && rebuilt.pages == shape.pages);
            let store = open(&cpu, shape, &d, &other).await.unwrap();
            store.verify().await.unwrap();
            let all = contents_of(&store, &shape, 0, shape.pages).await.unwrap();
            assert_eq!(all, expected);
        });
    }
    assert!(collected > 25, "{collected} zones were collected");
}

/// Several tasks write and read their own pages at once.
#[test]
fn tasks_share_a_store() {
    let shape = Shape {
        pages: 120,
        ..Shape::default()
    };
    let (disk, metadata) = created(shape, &Power::on());
    run(move |cpu| async move {
        let store = std::rc::Rc::new(open(&cpu, shape, &disk, &metadata).await.unwrap());
        let left = std::rc::Rc::new(std::cell::Cell::new(4));
        for task in 0..4u64 {
            let (store, left, cpu_of) = (store.clone(), left.clone(), cpu.clone());
            cpu.spawn("task", async move {
                for round in 0..30u64 {
                    for at in 0..30 {
                        let value = 1 + (round << 8 | task);
                        let page = crate::support::page(&shape, value);
                        store.write(4 * at + task, &page).await.unwrap();
                        let found = contents_of(&*store, &shape, 4 * at + task, 1)
                            .await
                            .unwrap();
                        assert_eq!(found, [value]);
                        cpu_of.yield_now().await;
                    }
                }
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            cpu.sleep_until(cpu.now() + 1_000).await;
            cpu.progress();
        }
        store.flush().await.unwrap();
        store.verify().await.unwrap();
    });
}

/// 256 chunks of a page each in a group, and then one over all of them.
#[test]
fn a_group_may_be_in_256_pieces() {
    let shape = Shape {
        zones: 12,
        pages: 256,
        config: ChunkConfig {
            chunk_pages_max: 4,
            mapping_groups: 4,
        },
        ..Shape::default()
    };
    let (disk, metadata) = created(shape, &Power::on());
    run(move |cpu| async move {
        let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
        for at in (0..256).rev() {
            store
                .write(at, &crate::support::page(&shape, 1000 + at))
                .await
                .unwrap();
        }
        store.flush().await.unwrap();
        assert_eq!(store.counters().written_chunks, 256);
        let again = open(&cpu, shape, &disk, &metadata).await.unwrap();
        again.verify().await.unwrap();
        let all = contents_of(&again, &shape, 0, 256).await.unwrap();
        assert!(all.into_iter().eq(1000..1256));
        assert_eq!(again.counters().read_chunks, 256);
    });
}
