//! The page cache on a block device: a loop device over a file, where the system lets the test make one.

use std::path::{Path, PathBuf};
use std::process::Command;

use wharf::page_cache::{Advice, OpenOptions, PageCache, PageCacheError, PageCacheOptions};
use wharf::runtime::Seed;

const DEVICE_BYTES: usize = 8 << 20;

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
        assert!(
            detached.is_ok_and(|status| status.success()),
            "{} stays",
            self.0.display()
        );
    }
}

#[test]
fn a_device_holds_what_was_written_and_keeps_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::write(&image, vec![0; DEVICE_BYTES]).unwrap();
    let Some(device) = Loop::over(&image) else {
        return;
    };
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: 1 << 20,
        ..PageCacheOptions::default()
    });
    let cache = cache.unwrap();
    let mut model = vec![0; DEVICE_BYTES];
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(&cache, &device.0)
    };
    let file = open().unwrap();
    assert_eq!(file.len(), DEVICE_BYTES as u64);
    let mut rng = Seed(5).rng();
    for _ in 0..3_000 {
        let len = 1 + rng.below(20_000) as usize;
        let at = rng.below((DEVICE_BYTES - len) as u64) as usize;
        if rng.chance(1, 2) {
            model[at..at + len].fill_with(|| rng.next_u32() as u8);
            file.write_all_at(&model[at..at + len], at as u64).unwrap();
        } else {
            let mut out = vec![0xee; len];
            file.read_exact_at(&mut out, at as u64).unwrap();
            assert!(out == model[at..at + len], "{len} bytes at {at}");
        }
    }
    let end = DEVICE_BYTES as u64;
    let beyond = file.write_all_at(b"xy", end - 1);
    assert!(
        matches!(beyond, Err(PageCacheError::NoRoom { .. })),
        "{beyond:?}"
    );
    let cut = file.set_len(end / 2);
    assert!(matches!(cut, Err(PageCacheError::NoRoom { .. })), "{cut:?}");
    file.advise(0, end, Advice::DontNeed).unwrap();
    file.close().unwrap();
    let again = open().unwrap();
    let mut out = vec![0; DEVICE_BYTES];
    again.read_exact_at(&mut out, 0).unwrap();
    assert!(out == model, "the device's bytes");
    again.close().unwrap();
    drop(device);
    assert!(
        std::fs::read(&image).unwrap() == model,
        "the bytes below the device"
    );
}
