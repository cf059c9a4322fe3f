//! The store that programs link.

use std::cell::Cell;

use wharf::drive::config::MediaKind;
use wharf::host::scala::guard::Intent;
use wharf::host::{Clock, Design, IoError, Scala};
use wharf::lab::config::{Sets, load_drive};
use wharf::store::{Client, Store, StoreError, StoreOptions};

fn fill(seed: u64, data: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in data {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
}

/// Writes and reads back a little of everything: aligned, unaligned, small, larger than the cache.
fn exercise<D: Design>(client: &Client<D>) {
    let mut model = vec![0u8; 8 << 20];
    let mut data = vec![0u8; 300_000];
    for round in 0..200u64 {
        let len = [1, 7, 4096, 5000, 65_536, 300_000][round as usize % 6];
        let offset = (round * 7_919_993) % (model.len() as u64 - 300_000);
        fill(round, &mut data[..len]);
        client.write_at(offset, &data[..len]).unwrap();
        model[offset as usize..][..len].copy_from_slice(&data[..len]);
        let from = (round * 3_333_331) % (model.len() as u64 - 300_000);
        client.read_at(from, &mut data[..len]).unwrap();
        assert!(
            data[..len] == model[from as usize..][..len],
            "round {round}"
        );
    }
}

#[test]
fn a_local_store_holds_what_was_written() {
    a_local_store_holds_what_was_written_on::<Clock>();
    a_local_store_holds_what_was_written_on::<Scala>();
}

fn a_local_store_holds_what_was_written_on<D: Design>() {
    let options = StoreOptions::memory(16 << 20).unwrap().cache_bytes(1 << 20);
    let client = Client::<D>::open_local(&options).unwrap();
    assert!(client.bytes() >= 16 << 20);
    exercise(&client);
    client.close().unwrap();
}

#[test]
fn a_store_in_a_file_is_there_when_it_is_opened_again() {
    a_store_in_a_file_is_there_when_it_is_opened_again_on::<Clock>();
    a_store_in_a_file_is_there_when_it_is_opened_again_on::<Scala>();
}

fn a_store_in_a_file_is_there_when_it_is_opened_again_on<D: Design>() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions::file(folder.path().join("store"), 16 << 20).unwrap();
    let mut page = vec![0u8; 10_000];
    for round in 1..4u64 {
        let client = Client::<D>::open_local(&options).unwrap();
        if round > 1 {
            let mut expected = page.clone();
            fill(round - 1, &mut expected);
            client.read_at(123, &mut page).unwrap();
            assert!(page == expected, "round {round}");
        }
        fill(round, &mut page);
        client.write_at(123, &page).unwrap();
        client.close().unwrap();
    }
}

#[test]
fn threads_share_a_store() {
    threads_share_a_store_on::<Clock>();
    threads_share_a_store_on::<Scala>();
}

fn threads_share_a_store_on<D: Design>() {
    let options = StoreOptions::memory(32 << 20)
        .unwrap()
        .cache_bytes(2 << 20)
        .clients(3);
    let store = Store::<D>::open(&options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let store = &store;
            scope.spawn(move || {
                let client = store.client().unwrap();
                let mut data = vec![0u8; 20_000];
                for round in 0..100 {
                    let offset = thread * (10 << 20) + round * 90_001;
                    fill(thread * 1000 + round, &mut data);
                    client.write_at(offset, &data).unwrap();
                }
                client.flush().unwrap();
                for round in 0..100 {
                    let offset = thread * (10 << 20) + round * 90_001;
                    let mut found = vec![0u8; 20_000];
                    fill(thread * 1000 + round, &mut data);
                    client.read_at(offset, &mut found).unwrap();
                    assert!(found == data, "thread {thread}, round {round}");
                }
                client.close().unwrap();
            });
        }
    });
    assert!(matches!(
        store.client(),
        Err(StoreError::NoClientLeft { clients: 3 })
    ));
    store.close().unwrap();
}

#[test]
fn a_store_is_closed_after_its_clients() {
    let options = StoreOptions::memory(4 << 20).unwrap();
    let store = Store::<Clock>::open(&options).unwrap();
    let client = store.client().unwrap();
    assert!(matches!(store.close(), Err(StoreError::ClientsLeft)));
    client.write_at(0, b"still served").unwrap();
    client.close().unwrap();
}

#[test]
fn requests_beyond_the_end_are_refused() {
    let options = StoreOptions::memory(4 << 20).unwrap();
    let client = Client::<Clock>::open_local(&options).unwrap();
    let end = client.bytes();
    assert!(client.read_at(end - 1, &mut [0]).is_ok());
    assert!(client.read_at(end, &mut [0]).is_err());
    assert!(client.write_at(u64::MAX, &[0]).is_err());
}

#[test]
fn pages_are_used_in_place() {
    let options = StoreOptions::memory(16 << 20).unwrap().cache_bytes(1 << 20);
    let client = Client::<Scala>::open_local(&options).unwrap();
    assert!(client.try_pin(3, Intent::Read).is_none(), "not there yet");
    {
        let mut guards = client.pin(3..6, Intent::Write).unwrap();
        assert_eq!(guards.len(), 3);
        for guard in guards.iter_mut() {
            let page = guard.page();
            guard.write(100, &page.to_le_bytes());
        }
        // Pages with a guard to write are not given out twice.
        assert!(matches!(
            client.pin(5..6, Intent::Write),
            Err(IoError::Guarded { page: 5 })
        ));
    }
    for page in 3..6 {
        let guard = client.try_pin(page, Intent::Read).expect("in the cache");
        assert_eq!(guard.try_get::<u64>(100), Some(page));
        // SAFETY: nobody else uses the store.
        assert_eq!(unsafe { guard.as_slice() }[100..108], page.to_le_bytes());
    }
    let mut bytes = [0; 8];
    client.read_at(4 * 4096 + 100, &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 4);
    client.close().unwrap();
}

#[test]
fn values_of_a_page_are_changed_in_place_and_survive_eviction() {
    let options = StoreOptions::memory(16 << 20)
        .unwrap()
        .cache_bytes(64 << 10);
    let client = Client::<Scala>::open_local(&options).unwrap();
    {
        let guards = client.pin(2..4, Intent::Write).unwrap();
        let pages: Vec<&[Cell<u64>]> = guards.iter().map(|guard| guard.cells()).collect();
        assert_eq!(pages[0].len(), 512);
        for round in 1..=3 {
            for (index, word) in (0..).zip(pages.iter().flat_map(|page| page.iter())) {
                word.set(word.get() + index * round);
            }
        }
        // The client's own requests see what is there, and what they write is seen.
        assert_eq!(client.get::<u64>(3 * 4096), Ok(512 * 6));
        client.set(3 * 4096 + 8, 7u64).unwrap();
        assert_eq!(pages[1][1].get(), 7);
    }
    for page in 10..100 {
        client.read_at(page * 4096, &mut [0]).unwrap();
    }
    assert!(client.try_pin(2, Intent::Read).is_none(), "it has left");
    assert_eq!(client.get::<u64>(2 * 4096 + 8 * 100), Ok(600));
    assert_eq!(client.get::<u64>(3 * 4096 + 8), Ok(7));
    client.close().unwrap();
}

#[test]
#[should_panic(expected = "a guard to read does not write")]
fn a_guard_to_read_gives_no_cells() {
    let options = StoreOptions::memory(16 << 20).unwrap();
    let client = Client::<Scala>::open_local(&options).unwrap();
    let guards = client.pin(0..1, Intent::Read).unwrap();
    let _ = guards[0].cells::<u64>();
}

#[test]
fn values_survive_eviction_and_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions::file(folder.path().join("values"), 16 << 20).unwrap();
    let options = options.cache_bytes(256 << 10);
    let words = (4 << 20) / 8;
    let value = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let client = Client::<Scala>::open_local(&options).unwrap();
    for index in 0..words {
        client.set(index * 8, value(index)).unwrap();
    }
    client.close().unwrap();
    let client = Client::<Scala>::open_local(&options).unwrap();
    for index in (0..words).rev() {
        assert_eq!(client.get::<u64>(index * 8).unwrap(), value(index));
    }
    assert!(client.get::<u64>(client.bytes()).is_err());
    client.close().unwrap();
}

#[test]
fn guards_that_fill_the_cache_are_an_error_and_no_deadlock() {
    let options = StoreOptions::memory(16 << 20)
        .unwrap()
        .cache_bytes(64 << 10);
    let client = Client::<Scala>::open_local(&options).unwrap();
    let held = client.pin(0..16, Intent::Read).unwrap();
    assert!(client.pin(16..17, Intent::Read).is_err());
    assert!(client.read_at(0, &mut [0; 4096]).is_ok(), "a hit");
    drop(held);
    assert!(client.pin(16..17, Intent::Read).is_ok());
}

/// Once a store took every drive for one with a single core: pages of the others were said to be in
/// frames of the wrong core.
#[test]
fn drives_of_several_cores_side_by_side_make_a_store() {
    let (mut drive, _) = load_drive("tiny", &Sets::default()).unwrap();
    drive.media.kind = MediaKind::Ram;
    assert!(drive.firmware.cores > 1);
    let options = StoreOptions::drives(vec![drive.clone(), drive]).cache_bytes(128 << 10);
    let client = Client::<Scala>::open_local(&options).unwrap();
    let mut model = vec![0; client.bytes() as usize];
    fill(7, &mut model);
    client.write_at(0, &model).unwrap();
    let mut found = vec![0; model.len()];
    client.read_at(0, &mut found).unwrap();
    assert!(found == model);
    client.close().unwrap();
}
