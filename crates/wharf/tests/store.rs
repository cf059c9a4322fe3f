//! The store that programs link.

use wharf::host::Clock;
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
fn exercise(client: &Client<Clock>) {
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
    let options = StoreOptions::memory(16 << 20).unwrap().cache_bytes(1 << 20);
    let client = Client::<Clock>::open_local(&options).unwrap();
    assert!(client.bytes() >= 16 << 20);
    exercise(&client);
    client.close().unwrap();
}

#[test]
fn a_store_in_a_file_is_there_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions::file(folder.path().join("store"), 16 << 20).unwrap();
    let mut page = vec![0u8; 10_000];
    for round in 1..4u64 {
        let client = Client::<Clock>::open_local(&options).unwrap();
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
    let options = StoreOptions::memory(32 << 20)
        .unwrap()
        .cache_bytes(2 << 20)
        .clients(3);
    let store = Store::<Clock>::open(&options).unwrap();
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
