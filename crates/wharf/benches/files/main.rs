//! What an operation on a file costs: through `wharf::files` in the process, and in any directories of this machine.
//!
//!     cargo bench -p wharf --bench files -- [--image FILE] [--rounds N] [--quick] [--only OPERATION] [NAME=DIR]...
//!
//! `.ci/files-bench` gives it directories worth a comparison (a mount of wharf, tmpfs, ext4 on a loop device over tmpfs, a FUSE
//! pass-through). All ways take turns, round by round and operation by operation, in one process on one thread; a cell is the
//! median of the rounds and, in brackets, the least, in nanoseconds for one operation. The first round warms up and is not counted.
//!
//! The library keeps nothing of a file: each of its reads goes to the drive. So its reads stand beside cached ones of directories,
//! and, in the last row, beside reads of directories past their cache (`O_DIRECT`) and beside reads of a block of a drive.
//!
//! | file | idea |
//! |---|---|
//! | `way.rs` | the operations, by the library and by the system |
//! | `table.rs` | medians, and ratios |

mod table;
mod way;

use std::path::PathBuf;

use wharf::files::{Mount, NewImage, make};
use wharf::host::direct::Direct;
use wharf::runtime::clock::Clock;
use wharf::runtime::{Rng, Seed};
use wharf::store::{Client, StoreOptions};

use table::Table;
use way::{Blocks, Directory, Library, Way};

/// Bytes of the file that is read and written.
const FILE_BYTES: u64 = 16 << 20;

/// Names that are made, opened, asked for, renamed and removed in a round.
const NAMES: u64 = 2_000;

/// An operation, how often it is done in a round, and how.
struct Operation {
    name: &'static str,
    count: u64,
    run: fn(&dyn Way, &mut Rng, u64) -> Option<()>,
}

/// In their order: names are there from their creation to their removal.
const OPERATIONS: [Operation; 14] = [
    Operation {
        name: "pread 4096",
        count: 20_000,
        run: |way, rng, n| reads::<4096>(way, rng, n),
    },
    Operation {
        name: "pread 1024",
        count: 20_000,
        run: |way, rng, n| reads::<1024>(way, rng, n),
    },
    Operation {
        name: "pread 64",
        count: 20_000,
        run: |way, rng, n| reads::<64>(way, rng, n),
    },
    Operation {
        name: "pwrite 4096",
        count: 10_000,
        run: |way, rng, n| writes::<4096>(way, rng, n),
    },
    Operation {
        name: "pwrite 1024",
        count: 10_000,
        run: |way, rng, n| writes::<1024>(way, rng, n),
    },
    Operation {
        name: "fstat",
        count: 20_000,
        run: |way, _, n| (0..n).try_for_each(|_| way.fstat()),
    },
    Operation {
        name: "create + close",
        count: NAMES,
        run: |way, _, n| each_name(n, |name| way.create(name)),
    },
    Operation {
        name: "open + close",
        count: NAMES,
        run: |way, _, n| each_name(n, |name| way.open(name)),
    },
    Operation {
        name: "stat",
        count: NAMES,
        run: |way, _, n| each_name(n, |name| way.stat(name)),
    },
    Operation {
        name: "rename",
        count: NAMES,
        run: |way, _, n| {
            (0..n).try_for_each(|i| way.rename(&format!("n{i:05}"), &format!("m{i:05}")))
        },
    },
    Operation {
        name: "unlink",
        count: NAMES,
        run: |way, _, n| (0..n).try_for_each(|i| way.unlink(&format!("m{i:05}"))),
    },
    Operation {
        name: "append 4096 + fsync",
        count: 40,
        run: |way, _, n| (0..n).try_for_each(|_| way.append()),
    },
    Operation {
        name: "pread 4096 past caches",
        count: 10_000,
        run: |way, rng, n| uncached(way, rng, n),
    },
    Operation {
        name: "pwrite 4096 past caches",
        count: 4_000,
        run: |way, rng, n| uncached_writes(way, rng, n),
    },
];

fn each_name(n: u64, mut each: impl FnMut(&str) -> Option<()>) -> Option<()> {
    (0..n).try_for_each(|i| each(&format!("n{i:05}")))
}

fn place<const N: usize>(rng: &mut Rng) -> u64 {
    rng.next_u64() % (FILE_BYTES / N as u64) * N as u64
}

fn reads<const N: usize>(way: &dyn Way, rng: &mut Rng, n: u64) -> Option<()> {
    let mut out = [0; N];
    (0..n).try_for_each(|_| way.read(place::<N>(rng), &mut out))
}

fn writes<const N: usize>(way: &dyn Way, rng: &mut Rng, n: u64) -> Option<()> {
    let data = [7; N];
    (0..n).try_for_each(|_| way.write(place::<N>(rng), &data))
}

/// As `O_DIRECT` wants its memory.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn uncached(way: &dyn Way, rng: &mut Rng, n: u64) -> Option<()> {
    let mut out = Page([0; 4096]);
    (0..n).try_for_each(|_| way.read_uncached(place::<4096>(rng), &mut out.0))
}

fn uncached_writes(way: &dyn Way, rng: &mut Rng, n: u64) -> Option<()> {
    let data = Page([9; 4096]);
    (0..n).try_for_each(|_| way.write_uncached(place::<4096>(rng), &data.0))
}

/// What is asked for.
struct Args {
    image: Option<PathBuf>,
    rounds: usize,
    /// Counts are divided by this.
    divisor: u64,
    /// What the names of the operations to be done begin with.
    only: String,
    directories: Vec<(String, PathBuf)>,
}

fn args() -> Args {
    let mut found = Args {
        image: None,
        rounds: 7,
        divisor: 1,
        only: String::new(),
        directories: Vec::new(),
    };
    let mut given = std::env::args().skip(1);
    let usage =
        "usage: files [--image FILE] [--rounds N] [--quick] [--only OPERATION] [NAME=DIR]...";
    while let Some(arg) = given.next() {
        match &*arg {
            "--bench" => {}
            "--quick" => found.divisor = 20,
            "--only" => found.only = given.next().expect(usage),
            "--image" => found.image = Some(given.next().expect(usage).into()),
            "--rounds" => found.rounds = given.next().and_then(|n| n.parse().ok()).expect(usage),
            other => {
                let (name, directory) = other.split_once('=').unwrap_or((other, other));
                found.directories.push((name.into(), directory.into()));
            }
        }
    }
    assert!(found.rounds > 0, "{usage}");
    found
}

fn main() {
    let args = args();
    // In memory, where the system has such a place: no disk is measured.
    let folder = match std::path::Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm"),
        false => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder");
    let image = args.image.unwrap_or_else(|| folder.path().join("image"));
    let new = NewImage::of_bytes(512 << 20);
    make(&image, &new).expect("an image");
    let mount = Mount::open(&image).expect("the image");
    let in_memory = Mount::in_memory(&new).expect("a file system");
    let blocks = StoreOptions::memory(64 << 20).expect("a drive");
    let blocks = Client::<Direct>::open_local(&blocks).expect("a drive");
    let mut ways: Vec<(String, Box<dyn Way + '_>)> = vec![
        (
            "wharf::files".into(),
            Box::new(Library::new(&mount, FILE_BYTES)),
        ),
        (
            "wharf::files, in memory".into(),
            Box::new(Library::new(&in_memory, FILE_BYTES)),
        ),
        (
            "block of a drive, in memory".into(),
            Box::new(Blocks::new(blocks, FILE_BYTES)),
        ),
    ];
    for (name, directory) in args.directories {
        ways.push((name, Box::new(Directory::new(directory, FILE_BYTES))));
    }
    let names = ways.iter().map(|(name, _)| name.clone()).collect();
    let mut table = Table::new(names, OPERATIONS.map(|operation| operation.name).to_vec());
    for round in 0..=args.rounds {
        for (row, operation) in OPERATIONS.iter().enumerate() {
            if !operation.name.starts_with(&args.only) {
                continue;
            }
            let count = (operation.count / args.divisor).max(2);
            for (column, (_, way)) in ways.iter().enumerate() {
                // Every way gets the same places.
                let mut rng = Seed(round as u64).rng();
                let clock = Clock::start();
                let done = (operation.run)(&**way, &mut rng, count);
                let ns = clock.now_ns() as f64 / count as f64;
                if done.is_some() && round > 0 {
                    table.note(row, column, ns);
                }
            }
        }
    }
    print!("{table}");
    for (_, way) in &ways {
        way.clean();
    }
    drop(ways);
    mount.close().expect("the image is closed");
}
