//! Random work of threads of two processes that have both caches: each finds what any of them had written before it began to look, and nothing
//! that nobody had begun to write, wherever it is. Both caches are smaller than the file, so pages come and leave all the time.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use wharf::files::{Coherence, Keeping, WriteMode};
use wharf_files::{Sync, vfs::Target};
use wharf_runtime::{Rng, Seed};

use super::*;

const PAGE: usize = 4096;

/// Pages of the file. A process keeps 256 at least.
const PAGES: usize = 400;
const DRIVE_PAGES: usize = 48;

/// What has one value at a time, over and over. A page has eight.
const CELL: usize = 512;
const CELLS: usize = PAGES * PAGE / CELL;

/// Cells of neighbouring pages: of every other block each thread writes some, and those between are one thread's.
const BLOCK: usize = 4 * PAGE / CELL;
const BLOCKS: usize = CELLS / BLOCK;

const PROCESSES: usize = 2;
const THREADS: usize = 8;
const ROUNDS: usize = 300;

/// What is written to a file: values of each cell, one more each time.
struct File {
    began: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
    /// It is so long at least.
    bytes: AtomicU64,
}

impl File {
    fn new() -> File {
        let zeros = || (0..CELLS).map(|_| AtomicU64::new(0)).collect();
        File {
            began: zeros(),
            ended: zeros(),
            bytes: AtomicU64::new(0),
        }
    }
}

/// The file that a process uses mostly.
fn name(process: usize) -> String {
    format!("/cells{process}")
}

/// A thread at a file.
struct Worker<'a> {
    number: usize,
    process: &'a Process,
    file: &'a File,
    name: String,
    handle: Handle,
    random: Rng,
}

impl<'a> Worker<'a> {
    fn new(
        number: usize,
        process: &'a Process,
        (which, file): (usize, &'a File),
        seed: u64,
    ) -> Worker<'a> {
        let name = name(which);
        Worker {
            number,
            process,
            file,
            handle: process.open(name.as_bytes()),
            name,
            random: Seed(seed).index((which * THREADS + number) as u64).rng(),
        }
    }

    fn below(&mut self, most: usize) -> usize {
        self.random.below(most as u64) as usize
    }

    fn work(&mut self) {
        match self.below(100) {
            0..10 => {
                let block = 2 * self.below(BLOCKS / 2);
                let cell = block * BLOCK + self.below(BLOCK / THREADS) * THREADS + self.number;
                self.write(cell..cell + 1);
            }
            10..18 => {
                let block = 2 * (self.below(BLOCKS / 2 / THREADS) * THREADS + self.number) + 1;
                let first = self.below(4);
                let pages = 1 + self.below(4 - first);
                let cells = |pages: usize| block * BLOCK + pages * (PAGE / CELL);
                self.write(cells(first)..cells(first + pages));
            }
            18..52 => {
                let from = self.below(CELLS) * CELL;
                self.read(from + 64..from + 128);
            }
            52..80 => self.read_pages(1),
            80..88 => self.read_pages(17),
            88..92 => {
                let first = self.below(PAGES - 10);
                (first..first + 10).for_each(|page| self.read(page * PAGE..(page + 1) * PAGE));
            }
            92..95 => self.look_at_size(),
            95..96 => {
                let synced = |drive: &FileDrive| block_on(drive.sync(self.handle, Sync::Data));
                self.process.with(synced).unwrap();
            }
            _ => {
                self.close();
                self.handle = self.process.open(self.name.as_bytes());
            }
        }
    }

    fn write(&mut self, cells: Range<usize>) {
        let mut data = Vec::new();
        for cell in cells.clone() {
            let value = 1 + self.file.began[cell].fetch_add(1, SeqCst);
            data.extend((0..CELL / 8).flat_map(|_| value.to_le_bytes()));
        }
        let place = Place::At((cells.start * CELL) as u64);
        let write = |drive: &FileDrive| block_on(drive.write(now_ns(), self.handle, place, &data));
        let written = self.process.with(write).unwrap();
        assert_eq!(written.bytes, data.len() as u64);
        for cell in cells.clone() {
            self.file.ended[cell].fetch_add(1, SeqCst);
        }
        let end = (cells.end * CELL) as u64;
        self.file.bytes.fetch_max(end, SeqCst);
    }

    fn read_pages(&mut self, pages: usize) {
        let first = self.below(PAGES + 1 - pages);
        self.read(first * PAGE..(first + pages) * PAGE);
    }

    fn read(&self, bytes: Range<usize>) {
        let cells = bytes.start / CELL..bytes.end.div_ceil(CELL);
        let low: Vec<u64> = cells
            .clone()
            .map(|cell| self.file.ended[cell].load(SeqCst))
            .collect();
        let size = self.file.bytes.load(SeqCst) as usize;
        let mut found = vec![0xee; bytes.len()];
        let read = |drive: &FileDrive| {
            block_on(drive.read(now_ns(), self.handle, bytes.start as u64, &mut found))
        };
        let count = self.process.with(read).unwrap() as usize;
        assert!(
            count >= size.min(bytes.end).saturating_sub(bytes.start),
            "{count} bytes of {bytes:?}"
        );
        for (nth, word) in found[..count].as_chunks::<8>().0.iter().enumerate() {
            let cell = (bytes.start + nth * 8) / CELL;
            let (value, low) = (u64::from_le_bytes(*word), low[cell - cells.start]);
            let high = self.file.began[cell].load(SeqCst);
            assert!(
                (low..=high).contains(&value),
                "cell {cell}: {value} of {low} to {high}"
            );
            let first = (cell * CELL).saturating_sub(bytes.start);
            assert_eq!(found[first..first + 8], *word, "cell {cell} has two values");
        }
    }

    fn look_at_size(&self) {
        let low = self.file.bytes.load(SeqCst);
        let caller = Caller::root();
        let by = By {
            caller: &caller,
            now_ns: now_ns(),
        };
        let stat = |drive: &FileDrive| block_on(drive.stat(by, Target::Handle(self.handle)));
        let found = self.process.with(stat).unwrap();
        assert!(
            found.bytes >= low,
            "{} bytes, and there were {low}",
            found.bytes
        );
    }

    fn close(&self) {
        let close = |drive: &FileDrive| block_on(drive.close(self.handle));
        self.process.with(close).unwrap();
    }
}

/// How many pages of a file are in the drive's cache when a process has asked for so many, which it has room for.
fn room(process: &Process) -> u64 {
    let handle = process.open(name(0).as_bytes());
    for nth in 0..2 * DRIVE_PAGES {
        let page = nth * 11 % DRIVE_PAGES;
        let mut out = [0; 9];
        let at = (page * PAGE + 100) as u64;
        let read = process.with(|drive| block_on(drive.read(now_ns(), handle, at, &mut out)));
        assert_eq!(read.unwrap(), 9);
    }
    process.drive.cache_counts().unwrap().near_hits
}

#[test]
fn threads_of_two_processes_find_what_any_of_them_wrote_in_whichever_cache() {
    // With one thread of its own, a process keeps writes too.
    for (seed, threads_of_first, writes, coherence) in [
        (1, THREADS / 2, WriteMode::WriteBack, Coherence::Leases),
        (2, THREADS - 1, WriteMode::WriteBack, Coherence::Leases),
        (3, THREADS / 2, WriteMode::WriteThrough, Coherence::Leases),
        (4, THREADS / 2, WriteMode::WriteAround, Coherence::Leases),
        (5, THREADS - 1, WriteMode::WriteBack, Coherence::None),
        (6, THREADS / 2, WriteMode::WriteAround, Coherence::None),
    ] {
        println!("seed {seed}");
        // Without coherence a process finds what its own threads wrote, and has its file for itself.
        let of_other = match coherence {
            Coherence::Leases => 5,
            Coherence::None => 0,
        };
        let attach = |socket: &Path, bytes| {
            let keeping = Keeping {
                is_omni: true,
                writes,
                coherence,
                ..Keeping::of_bytes(bytes)
            };
            FileDrive::attach_keeping(socket, keeping)
        };
        let served = Served::with_cache((DRIVE_PAGES * PAGE) as u64);
        let files: [File; PROCESSES] = std::array::from_fn(|_| File::new());
        let processes: [Process; PROCESSES] =
            std::array::from_fn(|_| Process::of(&served, attach, 1));
        std::thread::scope(|threads| {
            for number in 0..THREADS {
                let (which, files) = (usize::from(number >= threads_of_first), &files);
                let process = &processes[which];
                threads.spawn(move || {
                    let other = (which + 1) % PROCESSES;
                    let own = Worker::new(number, process, (which, &files[which]), seed);
                    let its = Worker::new(number, process, (other, &files[other]), seed);
                    let mut workers = [own, its];
                    for _ in 0..ROUNDS {
                        let at = usize::from(workers[0].below(100) < of_other);
                        workers[at].work();
                    }
                    workers.iter().for_each(Worker::close);
                });
            }
        });
        // What each process has of the time is the machine's to say.
        let counts = processes.iter().map(|process| {
            let counts = process.drive.cache_counts().unwrap();
            println!("{counts:?}");
            [counts.near_reads, counts.misses, counts.near_writes]
        });
        let all = counts.reduce(|one, other| std::array::from_fn(|at| one[at] + other[at]));
        let [reads, misses, near_writes] = all.unwrap();
        assert!(reads > 20 && misses > 20);
        // Only what the drive may take later goes to its cache.
        match writes {
            WriteMode::WriteBack => assert!(near_writes > 3),
            _ => assert_eq!(near_writes, 0),
        }
        let last = Process::of(&served, FileDrive::attach_omni, 1 << 20);
        for (which, file) in files.iter().enumerate() {
            let all = Worker::new(0, &last, (which, file), seed);
            all.look_at_size();
            if which == 0 {
                let pages = DRIVE_PAGES as u64;
                assert_eq!(
                    room(&last),
                    pages,
                    "of closed files the drive's cache has no page"
                );
            }
            all.read(0..PAGES * PAGE);
        }
        for process in processes.into_iter().chain([last]) {
            process.drive.end().unwrap();
        }
        served.end();
    }
}
