//! A cache whose file system is full.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use wharf::runtime::{Rng, Seed};

use crate::client::Client;
use crate::support::{DISK_BYTES, Place, content, text};

/// A small file system in memory, gone at its end.
struct Small(PathBuf);

impl Small {
    /// At a folder; `None`, and why, where there can be none.
    fn at(folder: PathBuf, mebibytes: u32) -> Option<Small> {
        std::fs::create_dir(&folder).expect("a folder");
        let size = format!("size={mebibytes}m");
        let arguments = ["-t", "tmpfs", "-o", &size, "tmpfs", text(&folder)];
        let made = Command::new("mount").args(arguments).output();
        match made {
            Ok(output) if output.status.success() => Some(Small(folder)),
            Ok(output) => {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: no tmpfs of its own: {}", reason.trim());
                None
            }
            Err(error) => {
                println!("skipped: no mount here: {error}");
                None
            }
        }
    }

    fn resize_to(&self, mebibytes: u32) {
        let size = format!("remount,size={mebibytes}m");
        let mut mount = Command::new("mount");
        let resized = mount.args(["-o", &size, text(&self.0)]).status();
        assert!(resized.is_ok_and(|status| status.success()));
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // A server that is being killed may still have it for a moment.
        let ended = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(ended.is_ok_and(|status| status.success()));
    }
}

/// Writes all of the disk anew, in an order of chance, with what does not compress.
fn write_all(client: &mut Client, rng: &mut Rng, model: &mut [u8]) {
    const STEP: usize = 32 << 10;
    let mut places: Vec<usize> = (0..model.len() / STEP).collect();
    for last in (1..places.len()).rev() {
        places.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for (count, place) in places.into_iter().enumerate() {
        let at = place * STEP;
        let noise = &mut model[at..at + STEP];
        for word in noise.chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        client.write(at as u64, noise);
        if count % 100 == 99 {
            client.flush();
        }
    }
    client.flush();
}

fn verify(client: &mut Client, model: &[u8]) {
    let mut found = vec![1; model.len()];
    client.read(0, &mut found);
    for (at, (found, held)) in found.chunks(4096).zip(model.chunks(4096)).enumerate() {
        assert!(found == held, "page {at}");
    }
}

fn dirty(place: &Place) -> u64 {
    let told = place.says(&["info", "FAST", "--json"]);
    let info: Value = serde_json::from_str(&told).unwrap();
    info["dirty_bytes"].as_u64().unwrap()
}

/// Where FAST's file system was full, writes of what was not cached failed with EPERM until the cache was
/// served again.
#[test]
fn writes_go_around_a_cache_whose_file_system_is_full_and_come_back() {
    let mut place = Place::new();
    let Some(small) = Small::at(place.path("small"), 100) else {
        return;
    };
    place.fast = small.0.join("fast");
    place.says(&["create", "FAST", "--backing", "SLOW", "--size", "64MiB"]);
    small.resize_to(20);
    let (mut model, mut rng) = (content(1), Seed(21).rng());
    assert_eq!(model.len(), DISK_BYTES);
    let server = place.serve_on(&["SLOW"], &["--metrics", "127.0.0.1:0"]);
    let mut client = Client::new(&server.socket);
    for _ in 0..3 {
        write_all(&mut client, &mut rng, &mut model);
        verify(&mut client, &model);
    }
    // How much room there is changes at once, as collection gives blocks back: what went around for want of it is counted.
    let around = server.metric("wharf_cache_around_pages_total{reason=\"level\"}");
    assert!(around > Some(1000.0), "{around:?} pages went around");
    server.kill();
    place.says(&["check", "FAST", "--backing", "SLOW"]);
    let in_little_room = dirty(&place);
    let server = place.serve();
    let mut client = Client::new(&server.socket);
    verify(&mut client, &model);
    write_all(&mut client, &mut rng, &mut model);
    small.resize_to(100);
    // The file system counts as full for a tenth of a second more.
    for _ in 0..20 {
        write_all(&mut client, &mut rng, &mut model);
    }
    verify(&mut client, &model);
    drop(client);
    server.stop();
    let in_much_room = dirty(&place);
    assert!(
        in_much_room > in_little_room + (4 << 20),
        "{in_much_room} bytes dirty with room, {in_little_room} without"
    );
    place.says(&["check", "FAST", "--backing", "SLOW"]);
    place.says(&["detach", "FAST", "--backing", "SLOW"]);
    assert!(std::fs::read(&place.slow).unwrap() == model);
}
