//! What clients keep, share, and give back.

use super::*;

/// A pin may fail although it pins: the page that had to make room could not be written back.
#[test]
fn a_page_that_a_failed_pin_has_pinned_is_used_and_given_back() {
    let fate = |number: u64, command: &Command| match command.io_opcode() {
        Some(IoOpcode::Pin) if number == 0 => Fate::Failed(StatusCode::WriteFault, 1_000),
        _ => Fate::Done(1_000),
    };
    let mut rig = Rig::new(shape(1, 1, 1), |_| fate);
    let design: Arc<Scala> = rig.design(cache(10));
    rig.spawn_client(0, &design, |_, client| async move {
        assert_eq!(read_page(&client, 3).await, 0);
        assert!(client.frame_of(3).is_some(), "the client knows of it");
        assert_eq!(client.release_all().await.unwrap(), 1);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(rig.pinning[0].references(), 0);
}

#[test]
fn all_references_are_back_when_all_clients_have_given_their_pages_back() {
    for seed in 0..30 {
        let (clients, drives, cores) = (1 + seed as u32 % 3, 1 + seed as u32 % 2, 2);
        let mut rig = rig(shape(clients, drives, cores));
        let design: Arc<Scala> = rig.design(cache(60));
        for index in 0..clients {
            rig.spawn_client(index, &design, move |_, client| async move {
                let mut rng = Seed(seed).child("client").index(index.into()).rng();
                let mut buffer = vec![0; 40 * PAGE as usize];
                for _ in 0..50 {
                    let extent = Extent::of_pages(rng.below(300), 1 + rng.below(39));
                    let payload = &mut buffer[..extent.bytes as usize];
                    match rng.chance(1, 2) {
                        true => client.read(extent, payload).await.unwrap(),
                        false => client.write(extent, payload).await.unwrap(),
                    };
                    client.verify();
                }
                assert!(client.release_all().await.unwrap() > 0);
                client.verify();
            });
        }
        rig.machine.run_virtual(Seed(seed)).unwrap();
        for drive in &rig.pinning {
            assert_eq!(drive.references(), 0, "seed {seed}");
        }
    }
}

#[test]
fn a_page_of_two_clients_is_in_one_frame_and_writes_are_seen_at_once() {
    let mut rig = rig(shape(2, 2, 2));
    let design: Arc<Scala> = rig.design(cache(64));
    let frames = Arc::new(Mutex::new(Vec::new()));
    for index in 0..2 {
        let frames = frames.clone();
        rig.spawn_client(index, &design, move |cpu, client| async move {
            let mut mine = Vec::new();
            for page in 0..16 {
                read_page(&client, page).await;
                mine.push(client.frame_of(page).unwrap());
            }
            frames.lock().unwrap().push(mine);
            if index == 0 {
                cpu.sleep_until(5_000_000).await;
                write_page(&client, 3, 77).await;
            } else {
                cpu.sleep_until(6_000_000).await;
                assert_eq!(read_page(&client, 3).await, 77);
                assert_eq!(client.statistics().hits, 1);
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    let frames = frames.lock().unwrap();
    assert_eq!(frames[0], frames[1]);
}

#[test]
fn shares_limit_what_each_client_holds() {
    let mut rig = rig(shape(3, 1, 2));
    let design: Arc<Scala> = rig.design_told(
        cache(120),
        &ScalaConfig {
            shares: Shares::of(&[4, 1, 1]),
            ..ScalaConfig::default()
        },
    );
    for (index, pages) in [(0, 80), (1, 20), (2, 20)] {
        rig.spawn_client(index, &design, move |_, client| async move {
            assert_eq!(client.capacity_pages(), pages);
            for page in 0..200 {
                read_page(&client, 200 * u64::from(index) + page).await;
            }
            let first = 200 * u64::from(index);
            let held = (first..first + 200).filter(|&page| client.frame_of(page).is_some());
            assert_eq!(held.count() as u32, pages);
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(rig.pinning[0].references(), 120);
}

#[test]
fn a_client_without_a_share_is_refused_with_what_is_enough() {
    let mut rig = rig(shape(4, 1, 3));
    let design: Arc<Scala> = rig.design(cache(8));
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let error = design.client(Parts::new(&cpu, volume, 0)).err().unwrap();
        assert!(matches!(error, DesignError::SharesTooSmall { .. }));
        assert!(
            error.to_string().contains("at least 49152 bytes"),
            "{error}"
        );
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn an_overwritten_page_is_never_seen_before_it_is_written() {
    for seed in 0..200 {
        let mut rig = rig(shape(3, 1, 1));
        let design: Arc<Scala> = rig.design(cache(12));
        for page in 0..40 {
            rig.stores[0].set_page(page, &[1; PAGE as usize]);
        }
        for index in 0..3 {
            rig.spawn_client(index, &design, move |_, client| async move {
                let mut rng = Seed(seed).index(index.into()).rng();
                for _ in 0..60 {
                    let page = rng.below(40);
                    if rng.chance(1, 2) {
                        write_page(&client, page, 1 + rng.below(9) as u8).await;
                    } else {
                        assert_ne!(read_page(&client, page).await, 0, "seed {seed}");
                    }
                }
            });
        }
        rig.machine.run_virtual(Seed(seed)).unwrap();
    }
}

#[test]
fn a_drive_that_names_a_wrong_frame_is_not_believed() {
    // The drive takes its pages to be dealt out in other stripes than the client does.
    let mut shape = shape(1, 1, 4);
    shape.driver.core_stripe_pages = 1;
    let mut rig = Rig::new(shape, |_| |_: u64, _: &Command| Fate::Done(1_000));
    let design: Arc<Scala> = rig.design(cache(64));
    let hmb = design.hmb_memory(0).unwrap();
    rig.pinning[0].lend(&rig.space, hmb, 4);
    rig.pinning[0].rotate_cores.store(1, Ordering::Relaxed);
    rig.spawn_client(0, &design, |_, client| async move {
        let mut out = [0; PAGE as usize];
        let error = client.read(Extent::of_pages(5, 1), &mut out).await;
        assert!(matches!(error, Err(IoError::WrongFrame { lba: 5, .. })));
        assert!(client.frame_of(5).is_none());
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn all_that_keeps_book_is_a_small_part_of_the_cache() {
    for (clients, pages) in [(1, 32_768u64), (8, 100_000)] {
        let mut rig = rig(Shape {
            page_bytes: 8,
            ..shape(clients, 1, 4)
        });
        let design: Arc<Scala> = rig.design(cache(pages));
        let bytes = Arc::new(AtomicU64::new(design.bookkeeping_bytes() as u64));
        for index in 0..clients {
            let bytes = bytes.clone();
            rig.spawn_client(index, &design, move |_, client| async move {
                let own = client.gauges().get("index_bytes");
                let Some(Amount::Bytes(own)) = own else {
                    panic!("a client has an index");
                };
                bytes.fetch_add(own, Ordering::Relaxed);
            });
        }
        rig.machine.run_virtual(Seed(1)).unwrap();
        let share = bytes.load(Ordering::Relaxed) as f64 / (pages * PAGE) as f64;
        assert!(share < 0.0325, "{share}");
    }
}
