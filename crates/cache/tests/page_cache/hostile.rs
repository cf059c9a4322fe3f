//! What others do to files while a cache has them open, or opens them.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use wharf_cache::{File, PageCache, PageCacheOptions};

use crate::{PAGE, create, in_file, of_pages, open, small};

/// Longer than anything here takes that ends at all.
const EVER: Duration = Duration::from_secs(30);

fn begin_of(file: &File) -> [u8; 4] {
    let mut out = [0; 4];
    file.read_exact_at(&mut out, 0).unwrap();
    out
}

/// A path was asked which file it is, and then opened: a file that took its place in between was
/// believed to be the one that was there before, and its bytes were given for that one's for as
/// long as it was open.
#[test]
fn a_path_that_was_replaced_gave_the_bytes_of_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), b"AAAA").unwrap();
    std::fs::write(path("b"), b"BBBB").unwrap();
    std::fs::hard_link(path("a"), path("name")).unwrap();
    let (cache, has_ended) = (small(64), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if has_ended.load(SeqCst) {
                    break;
                }
                let _ = std::fs::remove_file(path("tmp"));
                std::fs::hard_link(path(["a", "b"][turn % 2]), path("tmp")).unwrap();
                std::fs::rename(path("tmp"), path("name")).unwrap();
            }
        });
        let open = |name| super::open(&cache, path(name)).unwrap();
        for round in 0..1_500 {
            let name = open("name");
            let wrong = [(open("a"), b"AAAA"), (open("b"), b"BBBB")]
                .iter()
                .any(|(file, bytes)| begin_of(file) != **bytes);
            let found = begin_of(&name);
            if wrong || ![*b"AAAA", *b"BBBB"].contains(&found) {
                has_ended.store(true, SeqCst);
                panic!("round {round}: the bytes of another file");
            }
        }
        has_ended.store(true, SeqCst);
    });
}

/// A loop device, which a test in a machine of its own may make; gone at the end.
struct Loop(String);

impl Loop {
    fn of(image: &Path) -> Option<Loop> {
        let mut make = Command::new("losetup");
        let made = make.args(["--show", "-f"]).arg(image).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        made.status.success().then(|| Loop(name.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A node is a file of its own, with an inode of its own: a device by two of them was two files
/// with two sets of pages.
#[test]
fn a_device_by_two_nodes_was_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let (image, node) = (folder.path().join("image"), folder.path().join("node"));
    std::fs::write(&image, vec![0; 64 * PAGE]).unwrap();
    let Some(device) = Loop::of(&image) else {
        return eprintln!("skipped: no loop device can be made here");
    };
    let number = rustix::fs::stat(device.0.as_str()).unwrap().st_rdev;
    let (kind, mode) = (rustix::fs::FileType::BlockDevice, 0o600.into());
    if rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, number).is_err() {
        return eprintln!("skipped: no node can be made here");
    }
    let cache = small(32);
    let one = open(&cache, &device.0).unwrap();
    let other = match open(&cache, &node) {
        Ok(file) => file,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert_eq!(one.len(), 64 * PAGE as u64);
    one.write_all_at(b"not synced", 5).unwrap();
    let mut out = [0; 10];
    other.read_exact_at(&mut out, 5).unwrap();
    assert_eq!(&out, b"not synced");
}

/// Opening a FIFO waits until somebody opens its other end; it was done while the table of files
/// was locked.
#[test]
fn a_fifo_held_up_all_who_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("fifo"), folder.path().join("file"));
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, 0o600.into(), 0).unwrap();
    std::fs::write(&file, b"bytes").unwrap();
    let cache = small(32);
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let (cache, path) = (&cache, &path);
        scope.spawn(move || {
            let _ = tell.send(cache.open(path).map(drop));
        });
        let refused = told.recv_timeout(EVER);
        if refused.is_err() {
            // Lets it go, so that the test ends.
            drop(
                std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(path),
            );
        }
        let text = refused.expect("an answer").unwrap_err().to_string();
        assert!(text.contains("neither a file nor a block device"), "{text}");
    });
    assert_eq!(begin_of(&cache.open(&file).unwrap()), *b"byte");
}

/// A write made the file as long as the cache knew it to be, and so shorter than it was.
#[test]
fn bytes_that_others_had_appended_were_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let cache = small(32);
    let file = create(&cache, &path);
    file.write_all_at(b"ours", 0).unwrap();
    let mut other = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    other.write_all(&[0; 4]).unwrap();
    other.write_all(&[7; 20_000]).unwrap();
    file.sync_all().unwrap();
    file.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 20_004);
    assert_eq!(&bytes[..4], b"ours");
    assert!(bytes[4..].iter().all(|byte| *byte == 7));
}

/// The threads of a cache kept the descriptors of all files that they had used, until they came by
/// again: the space of a file that was closed and removed stayed taken.
#[test]
fn a_closed_file_stayed_open_for_a_thread_that_slept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let cache = PageCache::new(&PageCacheOptions {
        background: false,
        ..of_pages(16)
    })
    .unwrap();
    let file = create(&cache, &path);
    file.write_all_at(&vec![7; 40 * PAGE], 0).unwrap();
    let (go, begin) = channel::<()>();
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        let of_thread = file.clone();
        scope.spawn(move || {
            of_thread.read_exact_at(&mut [0; PAGE], 0).unwrap();
            drop(of_thread);
            tell.send(()).unwrap();
            // Sleeps, and does not use the cache again.
            let _ = begin.recv();
        });
        told.recv().unwrap();
        file.close().unwrap();
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let open = descriptors
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .filter(|target| *target == path)
            .count();
        drop(go);
        assert_eq!(open, 0, "descriptors of a file that is closed");
    });
}

/// A file that threads open and close all the time, each with a page of its own: what one wrote it
/// finds again, through closes of others that were the last.
#[test]
fn a_file_that_is_opened_while_it_is_closed_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let cache = small(32);
    create(&cache, &path).set_len(8 * PAGE as u64).unwrap();
    let one = |thread: u64| {
        let offset = thread * PAGE as u64;
        for round in 0..300u16 {
            let file = open(&cache, &path).unwrap();
            let mut out = [0; 2];
            file.read_exact_at(&mut out, offset).unwrap();
            assert_eq!(u16::from_le_bytes(out), round, "thread {thread}");
            file.write_all_at(&(round + 1).to_le_bytes(), offset)
                .unwrap();
        }
    };
    std::thread::scope(|scope| {
        let one = &one;
        (0..3).for_each(|thread| drop(scope.spawn(move || one(thread))));
    });
    let bytes = in_file(&path);
    for thread in 0..3 {
        assert_eq!(bytes[thread * PAGE..][..2], 300u16.to_le_bytes());
    }
    let mut last = [1];
    std::fs::File::open(&path)
        .unwrap()
        .read_exact_at(&mut last, 8 * PAGE as u64 - 1)
        .unwrap();
    assert_eq!(last, [0]);
}
