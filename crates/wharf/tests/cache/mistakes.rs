//! Bad input: one clear line, exit code 2, and not a byte is different.

use std::os::unix::fs::FileExt;

use crate::support::{DISK_BYTES, Place};

const CREATE: [&str; 4] = ["create", "FAST", "--backing", "SLOW"];

#[test]
fn what_is_in_the_way_stays() {
    let place = Place::with_cache(&[]);
    let line = place.refuses(&[&CREATE[..], &["--size", "64MiB"]].concat());
    assert!(
        line.contains("holds a cache") && line.contains("--force"),
        "{line}"
    );
    std::fs::write(place.path("other"), vec![5; 70_000_000]).unwrap();
    let line = place.refuses(&["create", "./other", "--backing", "SLOW"]);
    assert!(line.contains("--force"), "{line}");
    // Over chunks and units the disk is written over.
    for store in ["chunks", "fixed"] {
        let more = ["--store", store, "--size", "64MiB"];
        let line = place.refuses(&[&["create", "./new", "--backing", "SLOW"], &more[..]].concat());
        assert!(line.contains("holds data: --force"), "{line}");
    }
}

#[test]
fn paths_that_lead_nowhere_or_elsewhere_are_refused() {
    let place = Place::with_cache(&[]);
    std::fs::create_dir(place.path("folder")).unwrap();
    for (arguments, says) in [
        (["info", "./none", "", ""], "No such file"),
        (["info", "SLOW", "", ""], "holds no cache"),
        (["info", "./folder", "", ""], "folder"),
        (["check", "./none", "--backing", "SLOW"], "No such file"),
        (["check", "FAST", "--backing", "./none"], "No such file"),
        (
            ["check", "FAST", "--backing", "./folder"],
            "neither a file nor a block device",
        ),
        (["check", "SLOW", "--backing", "FAST"], "swapped"),
        (["check", "FAST", "--backing", "FAST"], "swapped"),
        (["create", "./none", "--backing", "SLOW"], "--size"),
        (["create", "./folder", "--backing", "SLOW"], "folder"),
        (["create", "./new", "--backing", "FAST"], "swapped"),
        (["create", "SLOW", "--backing", "SLOW"], "they are two"),
        (["flush", "SLOW", "--backing", "SLOW"], "they are two"),
        (["detach", "FAST", "--backing", "./none"], "No such file"),
    ] {
        let arguments: Vec<&str> = arguments.into_iter().filter(|a| !a.is_empty()).collect();
        let line = place.refuses(&arguments);
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
    for (arguments, says) in [
        (vec!["--cache", "FAST"], "required"),
        (vec!["--backing", "SLOW"], "--cache"),
        (vec!["--cache", "SLOW", "--backing", "FAST"], "swapped"),
        (
            vec!["--cache", "FAST", "--backing", "SLOW", "--size", "1G"],
            "--size",
        ),
    ] {
        let arguments = [&["serve", "nbd", "--socket", "./s"], &arguments[..]].concat();
        let output = place.run_any(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn choices_that_cannot_be_are_refused() {
    let place = Place::new();
    for (more, says) in [
        (["--size", "1MiB"], "too small"),
        (["--size", "nothing"], "--size"),
        (["--codec", "gzip"], "--codec gzip"),
        (["--store", "tape"], "--store tape"),
        (["--disk-codec", "gzip"], "--disk-codec gzip"),
        (["--limit", "much"], "--limit"),
        (["--export-size", "1GiB"], "--export-size"),
    ] {
        let mut arguments = [&CREATE[..], &more[..]].concat();
        if more[0] != "--size" {
            arguments.extend(["--size", "64MiB"]);
        }
        let line = place.refuses(&arguments);
        assert!(line.contains(says), "{more:?}: {line}");
        assert!(!place.fast.exists(), "{more:?}");
    }
    std::fs::write(place.path("tiny"), [1; 100]).unwrap();
    let line = place.refuses(&["create", "FAST", "--backing", "./tiny", "--size", "64MiB"]);
    assert!(line.contains("too small"), "{line}");
    assert!(!place.fast.exists());
}

#[test]
fn a_disk_that_is_not_what_it_was_is_refused() {
    let place = Place::with_cache(&[]);
    let serve = ["--cache", "FAST", "--backing", "SLOW"];
    // Another disk of this size.
    std::fs::write(place.path("other"), vec![3; DISK_BYTES]).unwrap();
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "./other"]);
    assert!(line.contains("is not the disk of the cache"), "{line}");
    // Mounted and written to behind the cache's back: one byte within the first MiB.
    let disk = std::fs::OpenOptions::new()
        .write(true)
        .open(&place.slow)
        .unwrap();
    disk.write_all_at(b"!", 5000).unwrap();
    let line = place.refuses_to_serve(&serve);
    assert!(
        line.contains("was changed since its cache was closed"),
        "{line}"
    );
    disk.write_all_at(&[place.first_byte_at(5000)], 5000)
        .unwrap();
    place.says(&["check", "FAST", "--backing", "SLOW"]);
    // Shrunk, and grown.
    for bytes in [DISK_BYTES - 4096, DISK_BYTES + 4096] {
        disk.set_len(bytes as u64).unwrap();
        let line = place.refuses_to_serve(&serve);
        assert!(line.contains("give back the size"), "{line}");
    }
}

#[test]
fn a_disk_that_moved_after_a_kill_is_asked_for_where_it_was() {
    let place = Place::with_cache(&[]);
    place.serve().kill();
    std::fs::copy(&place.slow, place.path("other")).unwrap();
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "./other"]);
    assert!(line.contains("was last used with"), "{line}");
    place.serve().stop();
}

#[test]
fn a_cache_in_use_is_nobody_elses() {
    let place = Place::with_cache(&[]);
    let server = place.serve();
    for arguments in [
        ["info", "FAST", "", ""],
        ["check", "FAST", "--backing", "SLOW"],
        ["flush", "FAST", "--backing", "SLOW"],
        ["create", "./new", "--backing", "SLOW"],
    ] {
        let mut arguments: Vec<&str> = arguments.into_iter().filter(|a| !a.is_empty()).collect();
        if arguments[0] == "create" {
            arguments.extend(["--size", "64MiB"]);
        }
        let line = place.refuses(&arguments);
        assert!(line.contains("in use"), "{arguments:?}: {line}");
    }
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "SLOW"]);
    assert!(line.contains("in use"), "{line}");
    server.stop();
    place.serve().stop();
}

/// Chunks know whose they are: neither another cache nor another disk is taken for theirs.
#[test]
fn chunks_of_another_cache_are_refused() {
    let place = Place::new();
    for name in ["slow1", "slow2"] {
        let file = std::fs::File::create(place.path(name)).unwrap();
        file.set_len(160 << 20).unwrap();
    }
    let create = |fast, slow| {
        let more = ["--size", "64MiB", "--store", "chunks"];
        place.says(&[&["create", fast, "--backing", slow], &more[..]].concat())
    };
    create("./fast1", "./slow1");
    create("./fast2", "./slow2");
    let line = place.refuses_to_serve(&["--cache", "./fast1", "--backing", "./slow2"]);
    assert!(line.contains("is not the disk of the cache"), "{line}");
    let line = place.refuses(&[
        "create",
        "./fast3",
        "--backing",
        "./slow1",
        "--size",
        "64MiB",
    ]);
    assert!(line.contains("the chunks of a cache"), "{line}");
    place.says(&["check", "./fast1", "--backing", "./slow1"]);
}

/// What is damaged is found before anything is written.
#[test]
fn a_damaged_cache_is_refused() {
    let place = Place::with_cache(&[]);
    let image = std::fs::OpenOptions::new()
        .write(true)
        .open(&place.fast)
        .unwrap();
    // Both labels.
    let good = std::fs::read(&place.fast).unwrap();
    image.write_all_at(&[9; 2048], 1024).unwrap();
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "SLOW"]);
    assert!(line.contains("holds no cache"), "{line}");
    image.write_all_at(&good[1024..3072], 1024).unwrap();
    // The image's own header.
    image.write_all_at(&[9; 8], 16).unwrap();
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "SLOW"]);
    assert!(line.contains("damaged"), "{line}");
    image.write_all_at(&good[..72], 0).unwrap();
    image.set_len(good.len() as u64 / 2).unwrap();
    let line = place.refuses_to_serve(&["--cache", "FAST", "--backing", "SLOW"]);
    assert!(line.contains("truncated"), "{line}");
}
