use std::sync::{Arc, Mutex};

use wharf_host::backing::{Backing, BackingError, ChunkConfig, Packer};
use wharf_runtime::Seed;

use crate::support::{Model, Op, Power, Shape, contents_of, created, open, page, play, run};

/// Incompressible pages, more than fit.
fn shape() -> Shape {
    Shape {
        zones: 8,
        pages: 600,
        stamps: false,
        config: ChunkConfig {
            chunk_pages_max: 4,
            mapping_groups: 4,
        },
        ..Shape::default()
    }
}

fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Seed(seed).child("noise").rng();
    (0..4096).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn a_full_disk_refuses_keeps_what_it_has_and_recovers() {
    let shape = shape();
    let (disk, metadata) = created(shape, &Power::on());
    run(move |cpu| async move {
        let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
        let mut held = 0;
        let refused = loop {
            match store.write(held, &noise(held)).await {
                Ok(()) => held += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, BackingError::Full);
        assert!(held > 200 && held < 600, "{held}");
        let level = store.level();
        assert!(level.is_nearly_full && level.used_share > 0.98, "{level:?}");
        // Every path answers, again and again.
        for round in 0..3u64 {
            assert_eq!(
                store.write(held, &noise(9_999)).await,
                Err(BackingError::Full)
            );
            store.flush().await.unwrap();
            for at in 0..held {
                store.write(at, &noise(at + 1000 * round)).await.unwrap();
            }
            let mut out = vec![0; 4096];
            for at in 0..held {
                store.read(at, &mut out).await.unwrap();
                assert_eq!(out, noise(at + 1000 * round));
            }
        }
        store.verify().await.unwrap();
        // Discarding makes room, also where it has to be written down.
        store.discard(10, 60).await.unwrap();
        store.flush().await.unwrap();
        for at in 0..40 {
            store.write(held + at, &noise(at)).await.unwrap();
        }
        assert_eq!(contents_of_bytes(&store, 10).await, vec![0; 4096]);
        store.discard(0, shape.pages).await.unwrap();
        store.flush().await.unwrap();
        assert!(store.level().used_share < 0.7 && !store.level().is_nearly_full);
        store.verify().await.unwrap();
        let again = open(&cpu, shape, &disk, &metadata).await.unwrap();
        // Zeros that are left of a chunk of zeros take its room.
        for at in 0..held - 4 {
            again.write(at, &noise(at)).await.unwrap();
        }
    });
}

async fn contents_of_bytes(store: &impl Backing, at: u64) -> Vec<u8> {
    let mut out = vec![1; 4096];
    store.read(at, &mut out).await.unwrap();
    out
}

/// Chunks that are nearly all dead do not fill the disk for ever: they are compressed anew.
#[test]
fn what_is_left_of_large_chunks_gives_its_room_back() {
    let shape = shape();
    let (disk, metadata) = created(shape, &Power::on());
    run(move |cpu| async move {
        let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
        let four: Vec<u8> = (0..4).flat_map(noise).collect();
        for at in 0..55 {
            store.write(4 * at, &four).await.unwrap();
        }
        // Three of four pages become zeros: every chunk keeps a page.
        for at in 0..55 {
            store.discard(4 * at + 1, 3).await.unwrap();
        }
        for at in 300..420 {
            store.write(at, &noise(at)).await.unwrap();
        }
        assert!(store.counters().repacked_chunks > 0);
        let mut out = vec![0; 4096];
        for at in 0..55 {
            store.read(4 * at, &mut out).await.unwrap();
            assert_eq!(out, noise(0));
        }
        store.verify().await.unwrap();
    });
}

/// Random operations on a disk that is nearly always full: what is refused changes nothing.
#[test]
fn random_operations_at_the_brink_never_hang_nor_lose() {
    for seed in 0..6 {
        println!("seed {seed}");
        let shape = Shape {
            zones: 5,
            pages: 256,
            ..Shape::default()
        };
        let (disk, metadata) = created(shape, &Power::on());
        let refused = run(move |cpu| async move {
            let mut rng = Seed(seed).child("brink").rng();
            let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
            let model = Arc::new(Mutex::new(Model::new(shape.pages)));
            let mut refused = 0;
            for _ in 0..600 {
                let first = rng.below(shape.pages);
                // A chunk at a time, so that a refusal is of all of it.
                let count = 1 + rng.below(4.min(shape.pages - first).min(4 - first % 4));
                let op = match rng.below(10) {
                    0 => Op::Discard(first, count),
                    1 => Op::Read(first, count),
                    2 => Op::Flush,
                    _ => Op::Write(first, count),
                };
                let before = model.lock().unwrap().clone();
                match play(&store, &shape, &model, &[op]).await {
                    Ok(()) => {}
                    Err(BackingError::Full) => {
                        *model.lock().unwrap() = before;
                        refused += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            store.flush().await.unwrap();
            store.verify().await.unwrap();
            let all = contents_of(&store, &shape, 0, shape.pages).await.unwrap();
            assert_eq!(all, model.lock().unwrap().now);
            refused
        });
        assert!(refused > 0, "seed {seed}: never full");
    }
}

/// Uniform overwrites of single pages: the write amplification is that of a log under greedy cleaning, where a
/// zone that is cleaned has the live share `v` with `u = (v - 1) / ln v` at fill `u`, and it is `1 / (1 - v)`.
#[test]
fn write_amplification_by_fill_is_that_of_theory() {
    let mut curve = Vec::new();
    for percent in [50, 60, 70, 80] {
        let found = write_amplification(percent as f64 / 100.0);
        let fill = percent as f64 / 100.0;
        let (mut low, mut high) = (0.0001, 0.9999);
        while high - low > 1e-6 {
            let middle: f64 = (low + high) / 2.0;
            match (middle - 1.0) / middle.ln() < fill {
                true => low = middle,
                false => high = middle,
            }
        }
        let theory = 1.0 / (1.0 - low);
        println!("{percent} % full: write amplification {found:.2}, theory {theory:.2}");
        curve.push((found, theory));
    }
    for (found, theory) in &curve {
        assert!(found / theory > 0.75 && found / theory < 1.3, "{curve:?}");
    }
    assert!(curve.windows(2).all(|two| two[1].0 > two[0].0), "{curve:?}");
}

fn write_amplification(fill: f64) -> f64 {
    let shape = Shape {
        zones: 40,
        zone_sectors: 128,
        pages: 16_384,
        stamps: true,
        config: ChunkConfig {
            chunk_pages_max: 4,
            mapping_groups: 64,
        },
    };
    let (disk, metadata) = created(shape, &Power::on());
    run(move |cpu| async move {
        let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
        // Live bytes of all zones as a share: pages are added until it is reached.
        let mut rng = Seed(3).child("overwrites").rng();
        let mut pages = 0;
        let share = |shares: &[f64]| shares.iter().sum::<f64>() / (shares.len() - 3) as f64;
        while share(&store.live_shares()) < fill {
            store.write(pages, &page(&shape, 1 + pages)).await.unwrap();
            pages += 1;
        }
        for number in 0..4 * pages {
            store
                .write(rng.below(pages), &page(&shape, 1 << 32 | number))
                .await
                .unwrap();
        }
        let before = store.counters();
        for number in 0..4 * pages {
            store
                .write(rng.below(pages), &page(&shape, 2 << 32 | number))
                .await
                .unwrap();
        }
        let now = store.counters();
        let written = (now.written_bytes - before.written_bytes) as f64;
        1.0 + (now.moved_bytes - before.moved_bytes) as f64 / written
    })
}

/// The packer of a shape gives stamps back: the tests above would not see it if it did not.
#[test]
fn shapes_have_the_packer_that_they_name() {
    assert!(matches!(Shape::default().packer(), Packer::Stamps(_)));
    assert!(matches!(shape().packer(), Packer::Bytes(_)));
}
