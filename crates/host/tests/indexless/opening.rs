//! Whose cache it is, what is known after opening it, and how hot it is.

use wharf_host::Client;
use wharf_host::backing::{BackingError, Names};
use wharf_host::indexless::{AddressPlan, IndexlessConfig, Mode, OpenError, Start, Store};

use crate::rig::{Held, NAMES, Session, Shape, read, run, sectors, write};

const STORES: [Store; 3] = [Store::Plain, Store::Fixed, Store::Chunks];

/// A cache with clean, dirty and twice written sectors, closed or not.
fn used(shape: &Shape, closes: bool) -> Held {
    let ended = run(
        Session::create(shape),
        &Held::default(),
        move |cpu, client, _| async move {
            client.opened().await.unwrap();
            write(&client, 10, &[1, 2, 3, 4]).await.unwrap();
            client.drain().await.unwrap();
            assert_eq!(read(&client, 9, 6).await.unwrap(), [0, 1, 2, 3, 4, 0]);
            cpu.sleep_until(cpu.now() + 1_000_000).await;
            write(&client, 12, &[5]).await.unwrap();
            write(&client, 700, &[6]).await.unwrap();
            client.flush().await.unwrap();
            for _ in 0..3 {
                read(&client, 12, 1).await.unwrap();
            }
            if closes {
                client.close().await.unwrap();
            }
        },
    );
    ended.held()
}

/// The same as after a clean end, and warm: what was clean is clean, what was dirty is dirty, and is read without the disk.
#[test]
fn a_cache_that_was_not_closed_is_warm_and_counts_what_it_holds() {
    for store in STORES {
        for closes in [true, false] {
            let shape = Shape::of(store);
            let held = used(&shape, closes);
            let ended = run(
                Session::open(&shape),
                &held,
                |cpu, client, cache| async move {
                    client.opened().await.unwrap();
                    assert_eq!(read(&client, 9, 6).await.unwrap(), [0, 1, 2, 5, 4, 0]);
                    assert_eq!(read(&client, 700, 1).await.unwrap(), [6]);
                    let statistics = client.statistics();
                    assert_eq!((statistics.touches, statistics.hits), (7, 7));
                    cpu.sleep_until(cpu.now() + 10_000_000).await;
                    let status = cache.status(&cpu);
                    assert_eq!((status.cached, status.dirty), (7, 2), "{status:?}");
                    assert_eq!(status.unlearned_max, 0);
                },
            );
            assert!(ended.commands < 80, "{store:?}: {}", ended.commands);
        }
    }
}

/// A part that nobody touches is learned beside what else there is to do, and the limit holds before that is done.
#[test]
fn the_limit_holds_while_parts_are_unknown() {
    let shape = Shape::of(Store::Chunks);
    let ended = run(
        Session::create(&shape),
        &Held::default(),
        |_, client, _| async move {
            // The last part holds nearly all there may be.
            write(&client, 10_000, &[7; 8]).await.unwrap();
            write(&client, 10_020, &[7; 8]).await.unwrap();
            write(&client, 10_040, &[7; 8]).await.unwrap();
            client.flush().await.unwrap();
        },
    );
    let limit = shape.limit;
    run(
        Session::open(&shape),
        &ended.held(),
        move |cpu, client, cache| async move {
            client.opened().await.unwrap();
            for at in 0..20 {
                write(&client, at * 10, &[at; 6]).await.unwrap();
                let status = cache.status(&cpu);
                assert!(
                    status.cached + status.unlearned_max <= limit + 24,
                    "{status:?}"
                );
                assert!(status.cached <= limit, "{status:?}");
            }
            for first in [10_000, 10_020, 10_040] {
                assert_eq!(read(&client, first, 8).await.unwrap(), [7; 8]);
            }
        },
    );
}

/// Of two sectors that are read once after opening, the one that was hot before stays longer.
#[test]
fn heat_comes_back_from_a_snapshot() {
    for closes in [true, false] {
        let mut shape = Shape::of(Store::Plain);
        shape.own.insert_heat = 0;
        let held = {
            let ended = run(
                Session::create(&shape),
                &Held::default(),
                move |cpu, client, _| async move {
                    read(&client, 40, 2).await.unwrap();
                    read(&client, 8, 2).await.unwrap();
                    cpu.sleep_until(cpu.now() + 1_000_000).await;
                    for _ in 0..4 {
                        read(&client, 8, 2).await.unwrap();
                    }
                    match closes {
                        true => client.close().await.unwrap(),
                        false => client.flush().await.unwrap(),
                    }
                },
            );
            ended.held()
        };
        let ended = run(Session::open(&shape), &held, |cpu, client, _| async move {
            client.opened().await.unwrap();
            cpu.sleep_until(cpu.now() + 10_000_000).await;
            // Dirty ones fill the cache; clean cold ones leave first.
            for at in 0..7 {
                write(&client, 100 + 8 * at, &[9; 6]).await.unwrap();
            }
            cpu.sleep_until(cpu.now() + 10_000_000).await;
            let before = client.statistics();
            read(&client, 8, 2).await.unwrap();
            client.statistics().since(&before).hits
        });
        let hits = if closes { 2 } else { 0 };
        assert_eq!(ended.value, hits, "closed: {closes}");
    }
}

/// What each drive holds if it is opened wrongly, and why it is refused. Nothing is written.
fn refused(session: Session, held: &Held) -> OpenError {
    let ended = run(session, held, |_, client, _| async move {
        let error = client.opened().await.unwrap_err();
        // Requests fail, and none hangs.
        read(&client, 0, 4).await.unwrap_err();
        write(&client, 0, &[1]).await.unwrap_err();
        client.flush().await.unwrap_err();
        client.discard(sectors(0, 8)).await.unwrap_err();
        error
    });
    let after = ended.held();
    assert!(
        after.cache == held.cache && after.disk == held.disk,
        "{:?}",
        ended.value
    );
    ended.value
}

#[test]
fn what_is_no_cache_of_this_disk_is_refused_and_not_written() {
    let shape = Shape::of(Store::Chunks);
    let held = used(&shape, true);
    assert_eq!(
        refused(Session::open(&shape), &Held::default()),
        OpenError::NoCache
    );
    let other = Names {
        disk_id: [1; 16],
        ..NAMES
    };
    let as_other = Start::Open { names: Some(other) };
    assert_eq!(
        refused(Session::new(&shape, as_other), &held),
        OpenError::Foreign
    );
    // Another disk, with the names of its own.
    let foreign = {
        let session = Session::new(&shape, Start::Create { names: other });
        let ended = run(session, &Held::default(), |_, client, _| async move {
            client.opened().await.unwrap();
        });
        ended.held()
    };
    let swapped = Held {
        cache: held.cache.clone(),
        disk: foreign.disk,
    };
    let foreign = OpenError::Backing(BackingError::Foreign);
    assert_eq!(refused(Session::open(&shape), &swapped), foreign);
    // A copy of the cache from before.
    let newer = run(Session::open(&shape), &held, |_, client, _| async move {
        client.opened().await.unwrap();
    });
    let old = Held {
        cache: held.cache.clone(),
        disk: newer.held().disk,
    };
    let refusal = refused(Session::open(&shape), &old);
    let is_old = matches!(
        refusal,
        OpenError::Backing(BackingError::OldMetadata { .. })
    );
    assert!(is_old, "{refusal:?}");
}

#[test]
fn a_disk_of_another_size_and_a_drive_that_shows_too_little_are_refused() {
    let shape = Shape::of(Store::Plain);
    let held = used(&shape, true);
    let smaller = Shape {
        disk_sectors: shape.disk_sectors - 1,
        ..shape.clone()
    };
    let (cache, disk) = (shape.disk_sectors, shape.disk_sectors - 1);
    let refusal = refused(Session::open(&smaller), &held);
    assert_eq!(refusal, OpenError::DiskSize { cache, disk });
    let needed = AddressPlan::new(shape.disk_sectors).drive_sectors();
    let little = Shape {
        cache_sectors: needed - 1,
        ..shape.clone()
    };
    let refusal = refused(Session::create(&little), &Held::default());
    let (disk, shown) = (shape.disk_sectors, needed - 1);
    assert_eq!(
        refusal,
        OpenError::TooSmall {
            disk,
            needed,
            shown
        }
    );
    let mut damaged = held.clone();
    let label = damaged.cache.get_mut(&(shape.cache_sectors - 1)).unwrap();
    label[20] ^= 1;
    assert_eq!(refused(Session::open(&shape), &damaged), OpenError::NoCache);
}

/// The cache is what it was made as, whatever else it is told; and one that is made anew forgets what was there.
#[test]
fn what_was_created_counts_and_creating_again_forgets() {
    let shape = Shape::of(Store::Fixed);
    let held = used(&shape, true);
    let told = Shape {
        own: IndexlessConfig {
            store: Store::Plain,
            unit_pages: 8,
            ..shape.own.clone()
        },
        ..shape.clone()
    };
    let ended = run(Session::open(&told), &held, |_, client, cache| async move {
        client.opened().await.unwrap();
        client.drain().await.unwrap();
        cache.set_mode(Mode::Bypass);
        read(&client, 9, 6).await.unwrap()
    });
    assert_eq!(ended.value, [0, 1, 2, 5, 4, 0]);
    let ended = run(
        Session::create(&shape),
        &held,
        |cpu, client, cache| async move {
            client.opened().await.unwrap();
            assert_eq!(cache.status(&cpu).cached, 0);
            read(&client, 9, 6).await.unwrap()
        },
    );
    // What was dirty is given up with the cache; what the disk has is there.
    assert_eq!(ended.value, [0, 1, 2, 3, 4, 0]);
}
