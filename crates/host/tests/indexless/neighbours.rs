//! Neighbours that come into the cache with what was missed: which do, and that they overtake
//! nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wharf_host::Client;
use wharf_host::indexless::planted::Fault;
use wharf_host::indexless::{Mode, Store};
use wharf_runtime::Seed;
use wharf_wire::space::SpaceLevel;

use crate::rig::{Ended, Held, Session, Shape, read, run, write};

const REST_NS: u64 = 1_000_000;

/// Sectors 8 to 15 are in one chunk, or in two units; of them 10 and 11 are read. So many are
/// cached then, and these are.
fn comes_in(store: Store, bytes: u64, level: SpaceLevel, expected: Vec<u64>) {
    let mut shape = Shape::of(store);
    shape.own.fill_neighbours_bytes = bytes;
    let mut session = Session::create(&shape);
    let now = Arc::new(Mutex::new(SpaceLevel::Green));
    session.level = Some(now.clone());
    run(
        session,
        &Held::default(),
        move |cpu, client, cache| async move {
            write(&client, 8, &[1, 2, 3, 4, 5, 6, 7, 8]).await.unwrap();
            client.drain().await.unwrap();
            assert_eq!(cache.status(&cpu).cached, 0);
            *now.lock().unwrap() = level;
            // By its answer the drive says how full it is.
            client.flush().await.unwrap();
            assert_eq!(read(&client, 10, 2).await.unwrap(), [3, 4]);
            cpu.sleep_until(cpu.now() + REST_NS).await;
            let cached = cache.status(&cpu).cached;
            if level > SpaceLevel::Green {
                assert!(cached <= 2, "{cached} came into a cache that is full");
                return;
            }
            assert_eq!(cached, expected.len() as u64, "{store:?}, {bytes} bytes");
            for sector in expected {
                assert_eq!(read(&client, sector, 1).await.unwrap(), [sector - 7]);
            }
            let hits = client.statistics().hits;
            assert_eq!(hits, cached, "{store:?}, {bytes} bytes");
        },
    );
}

#[test]
fn those_of_the_chunk_come_in_up_to_so_many_bytes_and_those_behind_first() {
    for (store, pages, expected) in [
        (Store::Chunks, 0, vec![10, 11]),
        (Store::Chunks, 3, vec![10, 11, 12, 13, 14]),
        (Store::Chunks, 5, vec![9, 10, 11, 12, 13, 14, 15]),
        (Store::Chunks, 16, (8..16).collect()),
        (Store::Fixed, 16, (8..12).collect()),
        (Store::Plain, 16, vec![10, 11]),
    ] {
        comes_in(store, pages * 4096, SpaceLevel::Green, expected);
    }
}

#[test]
fn none_come_in_where_the_drive_of_the_cache_is_getting_full() {
    comes_in(Store::Chunks, 64 << 10, SpaceLevel::Yellow, Vec::new());
}

/// Of 40 units one sector is read while another is written around the cache and flushed: how many
/// were old afterwards.
fn overtaken(fault: Fault, seed: u64) -> Ended<u32> {
    let mut shape = Shape::of(Store::Fixed);
    shape.own.fill_neighbours_bytes = 64 << 10;
    let session = Session {
        fault,
        seed,
        ..Session::create(&shape)
    };
    run(
        session,
        &Held::default(),
        move |cpu, client, cache| async move {
            for unit in 0..40 {
                write(&client, 4 * unit, &[1, 2, 3, 4]).await.unwrap();
            }
            client.drain().await.unwrap();
            cache.set_mode(Mode::WriteThrough);
            let (mut rng, mut old) = (Seed(seed).child("race").rng(), 0);
            for unit in 0..40 {
                let ended = Rc::new(Cell::new(false));
                let (of_reader, reader, done) = (cpu.clone(), client.clone(), ended.clone());
                let begin_ns = cpu.now() + rng.below(40_000);
                cpu.spawn("reader", async move {
                    of_reader.sleep_until(begin_ns).await;
                    assert_eq!(read(&reader, 4 * unit, 1).await.unwrap(), [1]);
                    done.set(true);
                });
                write(&client, 4 * unit + 2, &[9]).await.unwrap();
                client.flush().await.unwrap();
                while !ended.get() {
                    cpu.sleep_until(cpu.now() + 1_000).await;
                }
                cpu.sleep_until(cpu.now() + REST_NS).await;
                let found = read(&client, 4 * unit + 2, 1).await.unwrap();
                old += u32::from(found != [9]);
                cpu.progress();
            }
            old
        },
    )
}

#[test]
fn neighbours_never_overtake_a_write() {
    let old = |fault| (0..20).map(move |seed| overtaken(fault, seed).value);
    assert_eq!(old(Fault::Nothing).sum::<u32>(), 0);
    let wrong: u32 = old(Fault::NeighboursOvertake).sum();
    println!("{wrong} of 800 were old where nobody looked at changes");
    assert!(wrong > 0, "the race did not happen");
}
