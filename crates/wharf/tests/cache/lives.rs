//! Lives of a cache: served, killed, served again, flushed, lost, given up; the disk is what a
//! vector is.

use serde_json::Value;
use wharf::runtime::{Rng, Seed};

use crate::client::Client;
use crate::support::{DISK_BYTES, Place, content};

/// Random work, and what it makes of the disk. Gives what the disk holds.
fn work(client: &mut Client, rng: &mut Rng, model: &mut [u8], steps: u32) {
    let sectors = (model.len() / 512) as u64;
    for _ in 0..steps {
        let most = rng.below(600) + 1;
        let count = 1 + rng.below(most);
        let first = rng.below(sectors - count);
        let (from, to) = ((first * 512) as usize, ((first + count) * 512) as usize);
        match rng.below(12) {
            0..6 => {
                let mut data = vec![0; to - from];
                for word in data.chunks_mut(16) {
                    word[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
                }
                client.write(from as u64, &data);
                model[from..to].copy_from_slice(&data);
            }
            6 => {
                client.zero(from as u64, (to - from) as u32);
                model[from..to].fill(0);
            }
            7 => client.flush(),
            _ => {
                let mut found = vec![1; to - from];
                client.read(from as u64, &mut found);
                assert!(found == model[from..to], "bytes {from} to {to}");
            }
        }
    }
}

fn verify(client: &mut Client, model: &[u8]) {
    let mut found = vec![1; model.len()];
    client.read(0, &mut found);
    for (at, (found, held)) in found.chunks(4096).zip(model.chunks(4096)).enumerate() {
        assert!(found == held, "page {at}");
    }
}

fn info(place: &Place) -> Value {
    serde_json::from_str(&place.says(&["info", "FAST", "--json"])).unwrap()
}

fn cached(place: &Place) -> (u64, u64) {
    let info = info(place);
    let bytes = |key: &str| info[key].as_u64().unwrap();
    (bytes("cached_bytes"), bytes("dirty_bytes"))
}

/// Data that was there before the cache is served, and stays where it is.
#[test]
fn a_disk_with_data_is_served_at_once_and_stands_alone_in_the_end() {
    let place = Place::with_cache(&[]);
    let mut model = content(1);
    assert!(std::fs::read(&place.slow).unwrap() == model);
    let mut rng = Seed(11).rng();
    for round in 0..4 {
        let server = place.serve();
        let mut client = Client::new(&server.socket);
        assert_eq!(client.size_bytes, DISK_BYTES as u64);
        verify(&mut client, &model);
        work(&mut client, &mut rng, &mut model, 150);
        verify(&mut client, &model);
        drop(client);
        server.stop();
        place.says(&["check", "FAST", "--backing", "SLOW"]);
        if round == 1 {
            place.says(&["flush", "FAST", "--backing", "SLOW"]);
            assert_eq!(cached(&place).1, 0, "nothing is dirty after a flush");
            assert!(cached(&place).0 > 0, "what was cached stays cached");
            assert!(std::fs::read(&place.slow).unwrap() == model);
        }
    }
    assert!(cached(&place).1 > 0, "writes wait in the cache");
    let told = place.says(&["detach", "FAST", "--backing", "SLOW"]);
    assert!(told.contains("without the cache"), "{told}");
    assert!(std::fs::read(&place.slow).unwrap() == model);
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "SLOW"]);
    assert!(line.contains("was detached"), "{line}");
}

/// A cache that is killed has lost nothing that was flushed, and is still warm.
#[test]
fn a_kill_leaves_what_was_flushed_and_a_warm_cache() {
    for more in [
        &[][..],
        &["--store", "chunks", "--force"],
        &["--store", "fixed", "--force"],
    ] {
        let place = Place::new();
        if more.contains(&"chunks") {
            let disk = std::fs::OpenOptions::new()
                .write(true)
                .open(&place.slow)
                .unwrap();
            disk.set_len(160 << 20).unwrap();
        }
        let create = ["create", "FAST", "--backing", "SLOW", "--size", "64MiB"];
        place.says(&[&create[..], more].concat());
        let mut rng = Seed(12).rng();
        let mut model = match more.is_empty() {
            true => content(1),
            false => vec![0; 8 << 20],
        };
        for _ in 0..3 {
            let server = place.serve();
            let mut client = Client::new(&server.socket);
            verify(&mut client, &model);
            work(&mut client, &mut rng, &mut model, 120);
            client.flush();
            server.kill();
            let (cached, dirty) = cached(&place);
            assert!(dirty > 0 && cached >= dirty, "{more:?}: {cached}, {dirty}");
            place.says(&["check", "FAST", "--backing", "SLOW"]);
        }
        let server = place.serve();
        verify(&mut Client::new(&server.socket), &model);
        server.stop();
        place.says(&["flush", "FAST", "--backing", "SLOW"]);
        place.says(&["check", "FAST", "--backing", "SLOW"]);
    }
}

/// What was flushed to the disk survives the loss of the cache.
#[test]
fn a_cache_that_is_lost_is_made_anew_from_the_disk() {
    for more in [&[][..], &["--store", "chunks", "--force"]] {
        let place = Place::new();
        let is_plain = more.is_empty();
        if !is_plain {
            let disk = std::fs::OpenOptions::new()
                .write(true)
                .open(&place.slow)
                .unwrap();
            disk.set_len(160 << 20).unwrap();
        }
        let create = ["create", "FAST", "--backing", "SLOW", "--size", "64MiB"];
        place.says(&[&create[..], more].concat());
        let mut rng = Seed(13).rng();
        let mut model = match is_plain {
            true => content(1),
            false => vec![0; 16 << 20],
        };
        let server = place.serve();
        let mut client = Client::new(&server.socket);
        work(&mut client, &mut rng, &mut model, 200);
        drop(client);
        server.stop();
        place.says(&["flush", "FAST", "--backing", "SLOW"]);
        // One page that only the cache has.
        let server = place.serve();
        let mut client = Client::new(&server.socket);
        client.write(8192, &[9; 4096]);
        client.flush();
        server.kill();
        std::fs::rename(&place.fast, place.path("lost")).unwrap();
        let rebuild = ["rebuild", "FAST", "--backing", "SLOW", "--size", "64MiB"];
        let told = place.says(&[&rebuild[..], &["--old", "./lost"]].concat());
        assert!(told.contains("lost: 4096 bytes at byte 8192"), "{told}");
        place.says(&["check", "FAST", "--backing", "SLOW"]);
        let server = place.serve();
        verify(&mut Client::new(&server.socket), &model);
        server.stop();
        if !is_plain {
            // The lost cache is found, and is nobody's any more.
            let line = place.refuses_to_serve(&["--cache", "./lost", "--backing", "SLOW"]);
            assert!(line.contains("is not the disk of the cache"), "{line}");
        }
    }
}

/// `info` and `check` write nothing, also to a cache that was killed.
#[test]
fn looking_changes_nothing() {
    let place = Place::with_cache(&[]);
    let server = place.serve();
    let mut client = Client::new(&server.socket);
    let mut model = content(1);
    work(&mut client, &mut Seed(14).rng(), &mut model, 60);
    client.flush();
    server.kill();
    let before = (
        std::fs::read(&place.fast).unwrap(),
        std::fs::read(&place.slow).unwrap(),
    );
    let found = info(&place);
    assert_eq!(found["state"], "open");
    assert_eq!(found["store"], "plain");
    assert!(found["ratio"].as_f64().unwrap() > 1.2, "{found}");
    assert!(found["bitmap_bytes"].as_u64().unwrap() > 0, "{found}");
    place.says(&["check", "FAST", "--backing", "SLOW"]);
    let after = (
        std::fs::read(&place.fast).unwrap(),
        std::fs::read(&place.slow).unwrap(),
    );
    assert!(before == after);
}

/// A clean copy that is not what the disk holds is found.
#[test]
fn a_check_finds_a_stale_copy() {
    use std::os::unix::fs::FileExt;
    let place = Place::with_cache(&[]);
    let server = place.serve();
    let mut client = Client::new(&server.socket);
    client.read(20 << 20, &mut vec![0; 64 << 10]);
    drop(client);
    server.stop();
    assert_eq!(cached(&place), (64 << 10, 0));
    let told = place.says(&["check", "FAST", "--backing", "SLOW"]);
    assert!(told.contains("16 clean sectors"), "{told}");
    let disk = std::fs::OpenOptions::new()
        .write(true)
        .open(&place.slow)
        .unwrap();
    disk.write_all_at(&[1; 10], (20 << 20) + 8192 + 100)
        .unwrap();
    let output = place.run(&["check", "FAST", "--backing", "SLOW"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("sector 5122: its clean copy"), "{told}");
}

/// Trimmed ranges read as zeros here, and are holes of the disk.
#[test]
fn a_trim_gives_room_back() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::with_cache(&[]);
    let before = std::fs::metadata(&place.slow).unwrap().blocks();
    let server = place.serve();
    let mut client = Client::new(&server.socket);
    client.write(4 << 20, &[3; 1 << 20]);
    client.trim(0, 24 << 20);
    client.flush();
    let mut found = vec![1; 24 << 20];
    client.read(0, &mut found);
    assert!(found.iter().all(|byte| *byte == 0));
    drop(client);
    server.stop();
    let after = std::fs::metadata(&place.slow).unwrap().blocks();
    assert!(after * 2 < before, "{after} of {before} blocks");
}

/// A cache that is cut while it is served gives errors or the truth, and comes to an end.
#[test]
fn a_cache_that_is_cut_while_it_is_served_answers() {
    let place = Place::with_cache(&[]);
    let model = content(1);
    let server = place.serve();
    let mut client = Client::new(&server.socket);
    let mut data = content(2);
    data.truncate(4 << 20);
    client.write(0, &data);
    client.flush();
    let fast = std::fs::OpenOptions::new()
        .write(true)
        .open(&place.fast)
        .unwrap();
    fast.set_len(2 << 20).unwrap();
    let mut errors = 0;
    for at in (0..8 << 20).step_by(1 << 20) {
        let mut found = vec![1; 4096];
        match client.try_read(at as u64, &mut found) {
            true if at < data.len() => assert!(found == data[at..at + 4096], "byte {at}"),
            true => assert!(found == model[at..at + 4096], "byte {at}"),
            false => errors += 1,
        }
    }
    assert!(errors > 0, "what was cut away is an error");
    drop(client);
    server.end();
}
