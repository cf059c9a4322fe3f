//! Caches on block devices, and in front of arrays.

use std::path::{Path, PathBuf};
use std::process::Command;

use wharf::runtime::Seed;

use crate::client::Client;
use crate::support::Place;

/// A loop device, given back at its end.
struct Loop(PathBuf);

impl Loop {
    /// Over a file; `None`, and why, where there can be none.
    fn over(file: &Path) -> Option<Loop> {
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output();
        match made {
            Ok(output) if output.status.success() => {
                let name = String::from_utf8(output.stdout).expect("a path");
                Some(Loop(PathBuf::from(name.trim())))
            }
            Ok(output) => {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: no loop device here: {}", reason.trim());
                None
            }
            Err(error) => {
                println!("skipped: no losetup here: {error}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
        assert!(detached.is_ok_and(|status| status.success()));
    }
}

/// Lives of a cache: served, killed, served again, ended, checked, flushed, given up. The disk holds what a vector
/// does, in the end without the cache.
fn live(place: &Place, slow: &[&str], seed: u64) -> Vec<u8> {
    let mut rng = Seed(seed).rng();
    let pair = [&["FAST", "--backing"], slow].concat();
    let run = |command: &str| place.says(&[&[command], &pair[..]].concat());
    let begin = || {
        let server = place.serve_on(slow, &[]);
        let client = Client::new(&server.socket);
        (server, client)
    };
    let (server, mut client) = begin();
    let mut model = vec![1; client.size_bytes as usize];
    client.read(0, &mut model);
    for _ in 0..300 {
        let len = 512 * (1 + rng.below(100)) as usize;
        let at = 512 * rng.below((model.len() - len) as u64 / 512) as usize;
        model[at..at + len].fill_with(|| rng.next_u32() as u8);
        client.write(at as u64, &model[at..at + len]);
    }
    client.flush();
    server.kill();
    run("check");
    let (server, mut client) = begin();
    let verify = |client: &mut Client, model: &[u8]| {
        let mut found = vec![1; model.len()];
        client.read(0, &mut found);
        assert!(found == model, "after a kill");
    };
    verify(&mut client, &model);
    client.trim(1 << 20, 1 << 20);
    client.zero(3 << 20, 1 << 20);
    model[3 << 20..4 << 20].fill(0);
    client.write(1 << 20, &model[1 << 20..2 << 20]);
    drop(client);
    server.stop();
    run("check");
    let (server, mut client) = begin();
    verify(&mut client, &model);
    server.stop();
    run("flush");
    run("detach");
    model
}

/// `wharf cache check` could not open an array: it may not be written to then, and an array is when it is opened.
#[test]
fn an_array_is_a_disk_that_a_cache_can_be_in_front_of() {
    for level in ["0", "10"] {
        let names = &["./a", "./b"][..];
        let place = Place::new();
        let made = [
            "array",
            "create",
            "--level",
            level,
            "--chunk",
            "64KiB",
            "--size=16MiB",
        ];
        let output = place.run_any(&[&made[..], names].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "level {level}: {error}");
        let create = ["create", "FAST", "--size", "64MiB", "--backing"];
        place.says(&[&create[..], names].concat());
        let model = live(&place, names, 31);
        let check = place.run_any(&[&["array", "check"], names].concat());
        let error = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(
            check.status.success() || level == "0",
            "level {level}: {error}"
        );
        let options = wharf_storage::FileOptions::default();
        let open = |name: &&str| wharf_storage::open(&place.path(&name[2..]), &options).unwrap();
        let members: Vec<_> = names.iter().map(open).collect();
        let array = wharf_storage::array::Array::open(&members, false).unwrap();
        let mut found = vec![1; model.len()];
        let mut one = wharf_storage::Blocking::new(&array).unwrap();
        one.read(0, &mut found).unwrap();
        assert!(found == model, "level {level}, without the cache");
    }
}

#[test]
fn block_devices_are_a_cache_and_a_disk() {
    let mut place = Place::new();
    let image = place.path("fast-image");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(64 << 20).unwrap();
    let Some(fast) = Loop::over(&image) else {
        return;
    };
    let Some(slow) = Loop::over(&place.slow) else {
        return;
    };
    let below = std::mem::replace(&mut place.slow, slow.0.clone());
    place.fast = fast.0.clone();
    place.says(&["create", "FAST", "--backing", "SLOW"]);
    let model = live(&place, &["SLOW"], 32);
    drop((fast, slow));
    assert!(std::fs::read(&below).unwrap() == model);
}

/// Nobody could see how well what is cached compresses while it is served.
#[test]
fn metrics_tell_how_much_flash_the_cached_takes() {
    let place = Place::with_cache(&[]);
    let server = place.serve_on(&["SLOW"], &["--metrics", "127.0.0.1:0"]);
    let mut client = Client::new(&server.socket);
    // Half of each page is noise.
    let data = crate::support::content(3);
    client.write(0, &data[..2 << 20]);
    client.flush();
    // The drive is asked once a second.
    let ratio = loop {
        let used = server.metric("wharf_cache_flash_used_bytes");
        if used.is_some_and(|used| used > 1e6) {
            break server.metric("wharf_cache_ratio").expect("a ratio");
        }
        std::thread::yield_now();
    };
    assert!((1.5..2.1).contains(&ratio), "{ratio}");
    assert!(server.metric("wharf_cache_dirty_bytes").unwrap() >= 2e6);
    drop(client);
    server.stop();
}
