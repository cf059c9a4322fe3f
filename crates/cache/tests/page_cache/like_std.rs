//! A file of the cache beside one of the standard library: the same calls give the same.

use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use wharf_cache::{File, OpenOptions, PageCache, PageCacheError, PageCacheOptions};
use wharf_runtime::{Rng, Seed};

use crate::{PAGE, create, fill, small};

/// What a file can do by the traits of the standard library.
trait Streams: Read + Write + Seek + FileExt {}
impl<T: Read + Write + Seek + FileExt> Streams for T {}

/// One random call; what it gave, in words. Linux writes to the end of a file that is open to append, whatever the offset is: this
/// alone is not alike.
fn step(file: &mut impl Streams, rng: &mut Rng, appends: bool) -> String {
    let place = rng.below(5 * PAGE as u64);
    let mut data = vec![0; rng.below(2 * PAGE as u64) as usize];
    match rng.below(7) {
        3 if appends => String::new(),
        0 => {
            fill(rng, &mut data);
            // Both write all of it.
            format!("{:?}", file.write(&data).map_err(|e| e.kind()))
        }
        1 => {
            let count = file.read(&mut data).map_err(|e| e.kind());
            format!("{count:?} {data:?}")
        }
        2 => {
            let seek = match rng.below(3) {
                0 => SeekFrom::Start(place),
                1 => SeekFrom::Current(place as i64 - 2 * PAGE as i64),
                _ => SeekFrom::End(place as i64 - 4 * PAGE as i64),
            };
            format!("{:?}", file.seek(seek).map_err(|e| e.kind()))
        }
        3 => {
            fill(rng, &mut data);
            format!(
                "{:?}",
                file.write_all_at(&data, place).map_err(|e| e.kind())
            )
        }
        4 => {
            // What a buffer holds after an error is nobody's promise.
            let read = file.read_exact_at(&mut data, place).map_err(|e| e.kind());
            format!("{:?}", read.map(|()| data))
        }
        5 => {
            let count = file.read_at(&mut data, place).map_err(|e| e.kind());
            format!("{count:?} {data:?}")
        }
        _ => format!("{:?} {:?}", file.flush(), file.stream_position().ok()),
    }
}

#[test]
fn the_traits_of_std_do_what_they_do_for_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, appends) in [(1, false), (2, false), (3, true)] {
        println!("seed {seed}");
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        let cache = small(16);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(!appends)
            .append(appends)
            .create(true);
        let mut file = options.open(&cache, &ours).unwrap();
        let mut of_std = std::fs::File::options()
            .read(true)
            .write(!appends)
            .append(appends)
            .create(true)
            .open(&plain)
            .unwrap();
        let (mut rng, mut same) = (Seed(seed).rng(), Seed(seed).rng());
        for number in 0..600 {
            let got = step(&mut file, &mut rng, appends);
            let expected = step(&mut of_std, &mut same, appends);
            assert!(
                got == expected,
                "call {number}: {got} instead of {expected}"
            );
        }
        file.close().unwrap();
        assert!(std::fs::read(&ours).unwrap() == std::fs::read(&plain).unwrap());
        std::fs::remove_file(ours).unwrap();
        std::fs::remove_file(plain).unwrap();
    }
}

/// All 64 sets of options, on a file that is there and on none: opened or refused alike, with equal bytes left.
#[test]
fn options_open_and_refuse_what_those_of_std_do() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
    let cache = small(16);
    for set in 0..64u32 {
        let has = |bit: u32| set & 1 << bit != 0;
        for is_there in [true, false] {
            for path in [&ours, &plain] {
                let _ = std::fs::remove_file(path);
                if is_there {
                    std::fs::write(path, b"there").unwrap();
                }
            }
            let mut options = OpenOptions::new();
            options.read(has(0)).write(has(1)).append(has(2));
            options.truncate(has(3)).create(has(4)).create_new(has(5));
            let opened = options.open(&cache, &ours).map_err(std::io::Error::from);
            let mut of_std = std::fs::OpenOptions::new();
            of_std.read(has(0)).write(has(1)).append(has(2));
            of_std.truncate(has(3)).create(has(4)).create_new(has(5));
            let (got, expected) = (
                opened.map(drop).map_err(|e| e.kind()),
                of_std.open(&plain).map(drop).map_err(|e| e.kind()),
            );
            assert_eq!(got, expected, "options {set:06b}, there: {is_there}");
            let bytes = |path: &Path| std::fs::read(path).map_err(|e| e.kind());
            assert_eq!(bytes(&ours), bytes(&plain), "options {set:06b}");
        }
    }
}

#[test]
fn errors_have_the_kinds_of_std_and_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let cache = small(16);
    let is = |outcome: Result<(), PageCacheError>, kind: ErrorKind| {
        let error = std::io::Error::from(outcome.unwrap_err());
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("file"), "{error}");
    };
    is(cache.open(&path).map(drop), ErrorKind::NotFound);
    let file = create(&cache, &path);
    file.write_all_at(b"five.", 0).unwrap();
    is(file.read_exact_at(&mut [0; 6], 0), ErrorKind::UnexpectedEof);
    is(file.pin(5).map(drop), ErrorKind::UnexpectedEof);
    is(file.write_all_at(b"x", u64::MAX), ErrorKind::StorageFull);
    let reader = cache.open(&path).unwrap();
    is(reader.write_all_at(b"x", 0), ErrorKind::PermissionDenied);
    let writer = OpenOptions::new().write(true).open(&cache, &path).unwrap();
    let read = writer.read_at(&mut [0], 0).map(drop);
    is(read, ErrorKind::PermissionDenied);
    is(writer.pin(0).map(drop), ErrorKind::PermissionDenied);
    let too_small = PageCache::new(&PageCacheOptions {
        memory_bytes: 1,
        ..PageCacheOptions::default()
    });
    let error = std::io::Error::from(too_small.map(drop).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Threads that append by handles of their own lose no record, and tear none.
#[test]
fn records_that_threads_append_are_all_there_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let cache = small(32);
    let append = || -> File {
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .open(&cache, &path)
            .unwrap()
    };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let mut file = append();
            scope.spawn(move || {
                for number in 0..200 {
                    let record = format!("{thread} {number:03} {}\n", "x".repeat(100));
                    file.write_all(record.as_bytes()).unwrap();
                }
            });
        }
    });
    let mut next = [0; 3];
    for line in BufReader::new(cache.open(&path).unwrap()).lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (thread, number) = (number(), number());
        assert_eq!((number, line.len()), (next[thread], 106), "{line}");
        next[thread] += 1;
    }
    assert_eq!(next, [200; 3]);
}

/// Handles have positions of their own; `&File` moves that of its handle.
#[test]
fn a_clone_begins_where_its_handle_is_and_goes_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(16);
    let mut file = cache.create(folder.path().join("file")).unwrap();
    let mut writer = BufWriter::new(&file);
    writer.write_all(b"abcdef").unwrap();
    writer.into_inner().unwrap();
    file.seek(SeekFrom::Start(2)).unwrap();
    let (mut clone, mut two) = (file.clone(), [0; 2]);
    clone.read_exact(&mut two).unwrap();
    assert_eq!(&two, b"cd");
    (&file).read_exact(&mut two).unwrap();
    assert_eq!(&two, b"cd");
    assert_eq!(file.stream_position().unwrap(), 4);
}
