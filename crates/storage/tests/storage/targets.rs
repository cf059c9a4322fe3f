//! Memory, files by io_uring and files by threads keep the same promises.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use wharf_storage::{
    AlignedBuffer, Blocking, Engine, Errno, FileOptions, Full, Io, Op, RamTarget, Segment,
    StorageError, Target, capabilities, open,
};

use crate::model::{Case, check, contents};

const SIZE_BYTES: u64 = (1 << 20) + 3000;

/// A directory on a disk: temporary directories are often in memory, where O_DIRECT means little.
pub fn folder() -> tempfile::TempDir {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map(Into::into);
    let target = target.unwrap_or_else(|| place.join("../../target"));
    std::fs::create_dir_all(&target).expect("the build's directory");
    tempfile::tempdir_in(target).expect("a directory")
}

/// The ways to a file that this system has.
pub fn engines() -> Vec<Engine> {
    if capabilities().available() {
        vec![Engine::Uring, Engine::Threads]
    } else {
        eprintln!("skipped for io_uring: {}", capabilities());
        vec![Engine::Threads]
    }
}

fn options(engine: Engine, direct: bool) -> FileOptions {
    FileOptions {
        create_bytes: Some(SIZE_BYTES),
        direct,
        engine,
        ..FileOptions::default()
    }
}

fn cases(blocks_max: u64) -> impl Iterator<Item = Case> {
    (0..4).map(move |seed| Case {
        seed,
        operations: 400,
        depth: [1, 3, 16, 64][seed as usize],
        blocks_max,
    })
}

#[test]
fn memory_holds_what_was_written() {
    for block_bytes in [512, 4096] {
        for case in cases(100) {
            check(&RamTarget::new("ram", SIZE_BYTES, block_bytes), case);
        }
    }
}

#[test]
fn files_hold_what_was_written_and_keep_their_length() {
    let folder = folder();
    for direct in [true, false] {
        for case in cases(300) {
            for engine in engines() {
                let path = folder
                    .path()
                    .join(format!("{engine:?}-{direct}-{}", case.seed));
                let target = open(&path, &options(engine, direct)).expect("a file");
                let bytes = check(&*target, case);
                drop(target);
                let file = std::fs::read(&path).expect("the file");
                assert_eq!(file.len() as u64, SIZE_BYTES, "its length is kept");
                assert!(file == bytes, "the system sees the same");
                for other in engines() {
                    let target = open(&path, &options(other, !direct)).expect("the file");
                    assert!(
                        contents(&*target) == bytes,
                        "{other:?} reads what {engine:?} wrote"
                    );
                }
            }
        }
    }
}

#[test]
fn the_access_is_told() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join("file");
        let direct = open(&path, &options(engine, true)).expect("a file");
        let buffered = open(&path, &options(engine, false)).expect("a file");
        assert!(buffered.info().access.ends_with("buffered"));
        let name = if engine == Engine::Uring {
            "io_uring"
        } else {
            "threads"
        };
        assert!(
            direct.info().access.starts_with(name),
            "{}",
            direct.info().access
        );
        assert!(direct.info().block_bytes.is_power_of_two());
    }
}

/// Runs one I/O and gives its result.
fn one(target: &dyn Target, op: Op, offset: u64, segment: Segment) -> Result<(), Errno> {
    let mut channel = target.channel(1).expect("a channel");
    let io = Io {
        op,
        offset,
        segments: &[segment],
        tag: 7,
    };
    // SAFETY: the callers keep the memory until this function returns.
    unsafe { channel.submit(io) }.expect("there is room");
    let mut result = None;
    channel.wait(1, &mut |completion| {
        assert_eq!(completion.tag, 7);
        result = Some(completion.result.map_err(|e| e.errno));
    });
    result.expect("it is reported")
}

#[test]
fn a_malformed_io_fails_and_touches_nothing() {
    let folder = folder();
    let mut targets: Vec<Arc<dyn Target>> = vec![Arc::new(RamTarget::new("ram", SIZE_BYTES, 512))];
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        targets.push(open(&path, &options(engine, true)).expect("a file"));
    }
    for target in targets {
        let mut buffer = AlignedBuffer::new(8192);
        buffer.fill(0xaa);
        let whole = Segment::of(&mut buffer);
        let part = Segment {
            len_bytes: 100,
            ..whole
        };
        let nothing = Segment {
            len_bytes: 0,
            ..whole
        };
        let beyond = SIZE_BYTES.next_multiple_of(4096);
        for op in [Op::Read, Op::Write] {
            assert_eq!(one(&*target, op, 100, whole), Err(Errno::INVAL), "offset");
            assert_eq!(one(&*target, op, 0, part), Err(Errno::INVAL), "length");
            assert_eq!(one(&*target, op, 0, nothing), Err(Errno::INVAL), "no bytes");
            assert_eq!(
                one(&*target, op, beyond, whole),
                Err(Errno::INVAL),
                "beyond the end"
            );
            assert_eq!(
                one(&*target, op, 1 << 63, whole),
                Err(Errno::INVAL),
                "far beyond"
            );
        }
        assert!(contents(&*target).iter().all(|b| *b == 0));
    }
}

#[test]
fn a_channel_takes_as_many_as_its_depth() {
    let folder = folder();
    let mut targets: Vec<Arc<dyn Target>> = vec![Arc::new(RamTarget::new("ram", SIZE_BYTES, 512))];
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        targets.push(open(&path, &options(engine, true)).expect("a file"));
    }
    for target in targets {
        assert!(matches!(target.channel(0), Err(StorageError::Depth(0))));
        let mut buffers: Vec<_> = (0..3).map(|_| AlignedBuffer::new(4096)).collect();
        let mut channel = target.channel(2).expect("a channel");
        let mut submit = |channel: &mut dyn wharf_storage::Channel, index: usize| {
            let segment = Segment::of(&mut buffers[index]);
            // SAFETY: the buffers outlive the channel's I/Os, which are waited for.
            unsafe { channel.submit(Io::read(0, &[segment], index as u64)) }
        };
        assert_eq!(submit(&mut *channel, 0), Ok(()));
        assert_eq!(submit(&mut *channel, 1), Ok(()));
        assert_eq!(submit(&mut *channel, 2), Err(Full));
        let mut seen = Vec::new();
        assert_eq!(channel.wait(2, &mut |c| seen.push(c.tag)), 2);
        seen.sort_unstable();
        assert_eq!((seen, channel.in_flight()), (vec![0, 1], 0));
        assert_eq!(submit(&mut *channel, 2), Ok(()));
        drop(channel); // waits for it
    }
}

#[test]
fn a_target_grows_with_zeros_and_shrinks() {
    let folder = folder();
    let mut targets: Vec<Arc<dyn Target>> = vec![Arc::new(RamTarget::new("ram", SIZE_BYTES, 512))];
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        targets.push(open(&path, &options(engine, true)).expect("a file"));
    }
    for target in targets {
        let mut way = Blocking::new(&*target).expect("a channel");
        let last = SIZE_BYTES / 4096 * 4096;
        way.write(last, &[9; 4096]).expect("a write over the end");
        target.set_size(last + 100).expect("smaller");
        target.set_size(last + 8192).expect("larger");
        let mut found = [1; 8192];
        way.read(last, &mut found).expect("a read");
        assert!(
            found[..100].iter().all(|b| *b == 9),
            "{}",
            target.info().access
        );
        assert!(
            found[100..].iter().all(|b| *b == 0),
            "{}",
            target.info().access
        );
    }
}

#[test]
fn registered_memory_is_used_and_other_memory_too() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        let target = open(&path, &options(engine, true)).expect("a file");
        let mut pool = AlignedBuffer::new(1 << 20);
        let mut other = AlignedBuffer::new(8192);
        other.fill(3);
        let mut channel = target.channel(4).expect("a channel");
        // SAFETY: the pool outlives the channel, which is dropped first.
        unsafe { channel.register(&[Segment::of(&mut pool)]) };
        pool[4096..12288].fill(5);
        let first = Segment::of(&mut pool[4096..12288]);
        let (first, second) = ([first], [Segment::of(&mut other)]);
        let ios = [Io::write(0, &first, 1), Io::write(8192, &second, 2)];
        for io in ios {
            // SAFETY: the memory is not touched until both are waited for.
            unsafe { channel.submit(io) }.expect("there is room");
        }
        channel.wait(2, &mut |c| c.result.expect("a write"));
        let back = Segment::of(&mut pool[65536..65536 + 16384]);
        // SAFETY: as above.
        unsafe { channel.submit(Io::read(0, &[back], 3)) }.expect("there is room");
        channel.wait(1, &mut |c| c.result.expect("a read"));
        drop(channel);
        assert!(pool[65536..65536 + 8192].iter().all(|b| *b == 5));
        assert!(pool[65536 + 8192..65536 + 16384].iter().all(|b| *b == 3));
    }
}

#[test]
fn threads_use_one_target_side_by_side() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        let target = open(&path, &options(engine, true)).expect("a file");
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let target = target.clone();
                scope.spawn(move || {
                    let mut way = Blocking::new(&*target).expect("a channel");
                    for round in 0..20u64 {
                        let offset = (round * 4 + u64::from(thread)) * 4096;
                        let mut found = [0; 4096];
                        way.write(offset, &[thread + 1; 4096]).expect("a write");
                        way.flush().expect("a flush");
                        way.read(offset, &mut found).expect("a read");
                        assert_eq!(found, [thread + 1; 4096]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_read_only_target_refuses_writes_and_an_exclusive_one_company() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        let held = FileOptions {
            exclusive: true,
            ..options(engine, true)
        };
        let _first = open(&path, &held).expect("a file");
        assert!(matches!(open(&path, &held), Err(StorageError::InUse(_))));
        let reader = FileOptions {
            read_only: true,
            ..options(engine, true)
        };
        let target = open(&path, &reader).expect("it can be read");
        let mut buffer = AlignedBuffer::new(4096);
        assert_eq!(
            one(&*target, Op::Write, 0, Segment::of(&mut buffer)),
            Err(Errno::ROFS)
        );
        assert_eq!(one(&*target, Op::Read, 0, Segment::of(&mut buffer)), Ok(()));
    }
}

/// Rings that the kernel had not ended yet kept the lock, and so did processes that were being started.
#[test]
fn a_file_that_was_let_go_can_be_held_at_once() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        let held = FileOptions {
            exclusive: true,
            threads: 1,
            ..options(engine, true)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    let started = std::process::Command::new("true").status();
                    assert!(started.expect("a process").success());
                }
            });
            for round in 0..200 {
                let target = open(&path, &held);
                let target = target.unwrap_or_else(|e| panic!("{engine:?} round {round}: {e}"));
                let mut way = Blocking::new(&*target).expect("a channel");
                way.write(0, &[round as u8; 4096]).expect("a write");
            }
        });
    }
}

#[test]
fn what_is_no_storage_is_refused_in_one_line() {
    let folder = folder();
    let missing = open(&folder.path().join("none"), &FileOptions::default());
    let line = missing.err().expect("an error").to_string();
    assert!(
        line.contains("none: cannot open it: No such file"),
        "{line}"
    );
    let options = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    assert!(matches!(
        open(folder.path(), &options),
        Err(StorageError::Kind(_))
    ));
}

#[test]
fn a_file_cut_short_by_others_is_an_error() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        let target = open(&path, &options(engine, true)).expect("a file");
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("the file");
        file.set_len(4096).expect("shorter");
        let mut buffer = AlignedBuffer::new(8192);
        assert_eq!(
            one(&*target, Op::Read, 0, Segment::of(&mut buffer)),
            Err(Errno::IO)
        );
    }
}

/// Growing was `ftruncate`, to a size that was larger than the one last seen: what another process
/// had appended since was cut off.
#[test]
fn growing_a_file_cut_off_what_others_had_appended() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join(format!("{engine:?}"));
        let target = open(&path, &options(engine, true)).expect("a file");
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("the file");
        file.write_all(&[5; 100_000]).expect("it is appended");
        target.grow(SIZE_BYTES + 10).expect("it is longer by now");
        assert_eq!(target.size_bytes(), SIZE_BYTES + 10);
        // A caller that takes back what it made longer does not take what is not its own.
        target.trim(SIZE_BYTES).expect("nothing is to be done");
        let bytes = std::fs::read(&path).expect("the file");
        assert_eq!(bytes.len() as u64, SIZE_BYTES + 100_000);
        assert!(bytes[SIZE_BYTES as usize..].iter().all(|byte| *byte == 5));
        target.grow(1 << 30).expect("much larger");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), 1 << 30);
        assert_eq!(target.size_bytes(), 1 << 30);
    }
}

/// The path was looked up once for each descriptor: they could be of different files.
#[test]
fn descriptors_of_one_target_were_of_two_files() {
    let folder = folder();
    let path = folder.path().join("name");
    for round in 0..200 {
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, vec![1; 8192]).expect("a file");
        std::fs::write(&new, vec![2; 8192]).expect("a file");
        std::fs::rename(&old, &path).expect("it is there");
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::rename(&new, &path).expect("it is another"));
            let target = open(&path, &options(Engine::Auto, true)).expect("a file");
            // Whole blocks go by one descriptor, the end within a block by the other.
            target.set_size(5000).expect("shorter");
            let mut way = Blocking::new(&*target).expect("a channel");
            let mut bytes = [0; 8192];
            way.read(0, &mut bytes).expect("a read");
            assert!(bytes[..5000].iter().all(|byte| *byte == bytes[0]));
            way.write(0, &[9; 8192]).expect("a write");
            way.read(0, &mut bytes).expect("a read");
            assert!(bytes[..5000] == [9; 5000], "round {round}");
        });
    }
}
