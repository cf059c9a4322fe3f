//! Sorts a file that is larger than the memory for it, on a page cache in the process.
//!
//!     cargo run --release -p wharf --example external_sort
//!     cargo run --release -p wharf --example external_sort -- --records 20000000 --memory 256MiB --folder /data
//!
//! Records are 100 bytes, of which the first 10 are the key, as in the sort benchmark.
//!
//! 1. *Runs*: each thread takes the next part of the input that fits its share of the memory, sorts it, and writes it to
//!    the same place of a second file.
//! 2. *Merge*: a heap of the runs' first records; the smallest leaves for the output, and its run's next comes. Each run is
//!    read a piece at a time, and the page cache reads ahead of it.
//!
//! Half of the memory is the page cache's, half is for sorting. The output must be in order and have the input's
//! records: their number, and the sum of their checksums.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use wharf::lab::config::parse_bytes;
use wharf::page_cache::{File, PageCache, PageCacheError, PageCacheOptions};
use wharf::runtime::Seed;
use wharf::runtime::clock::Clock;

const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;

/// Records read or written at a time.
const PIECE: u64 = 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Record = [u8; RECORD_BYTES];

#[derive(Parser)]
#[command(about = "An external sort on Wharf's page cache")]
struct Args {
    /// Records of 100 bytes.
    #[arg(long, default_value_t = 400_000)]
    records: u64,
    /// Memory, for the page cache and for sorting.
    #[arg(long, default_value = "8MiB", value_parser = |s: &str| parse_bytes(s).map_err(|e| e.to_string()))]
    memory: u64,
    /// Threads that sort runs.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Where three files are made, and removed again.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seed of the random records.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Number of records and sum of their checksums: equal for the same records in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Contents {
    records: u64,
    sum: u64,
}

impl Contents {
    fn add(&mut self, record: &Record) {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        self.records += 1;
        self.sum = self
            .sum
            .wrapping_add(record.iter().fold(0xcbf2_9ce4_8422_2325, mix));
    }
}

fn key(record: &Record) -> &[u8] {
    &record[..KEY_BYTES]
}

/// Records that are written one after another, a piece at a time.
struct Writer<'a> {
    file: &'a File,
    next: u64,
    piece: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// From record `first` of the file on.
    fn new(file: &'a File, first: u64) -> Writer<'a> {
        let piece = Vec::with_capacity(PIECE as usize * RECORD_BYTES);
        Writer {
            file,
            next: first * RECORD_BYTES as u64,
            piece,
        }
    }

    fn push(&mut self, record: &Record) -> Result<(), PageCacheError> {
        self.piece.extend_from_slice(record);
        match self.piece.len() == PIECE as usize * RECORD_BYTES {
            true => self.end(),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), PageCacheError> {
        self.file.write_all_at(&self.piece, self.next)?;
        self.next += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }
}

/// Records that are read one after another, a piece at a time.
struct Reader<'a> {
    file: &'a File,
    /// Records that are not in the piece yet.
    left: std::ops::Range<u64>,
    piece: Vec<u8>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a File, records: std::ops::Range<u64>) -> Reader<'a> {
        Reader {
            file,
            left: records,
            piece: Vec::new(),
            at: 0,
        }
    }

    fn next(&mut self) -> Result<Option<Record>, PageCacheError> {
        if self.at == self.piece.len() {
            let count = PIECE.min(self.left.end - self.left.start);
            if count == 0 {
                return Ok(None);
            }
            self.piece.resize(count as usize * RECORD_BYTES, 0);
            self.file
                .read_exact_at(&mut self.piece, self.left.start * RECORD_BYTES as u64)?;
            self.left.start += count;
            self.at = 0;
        }
        let record = self.piece[self.at..][..RECORD_BYTES]
            .try_into()
            .expect("a whole record");
        self.at += RECORD_BYTES;
        Ok(Some(record))
    }
}

/// Writes random records.
fn make(args: &Args, file: &File) -> Result<Contents, PageCacheError> {
    let (mut rng, mut contents) = (Seed(args.seed).child("records").rng(), Contents::default());
    let mut writer = Writer::new(file, 0);
    for number in 0..args.records {
        let mut record = [0; RECORD_BYTES];
        record[..KEY_BYTES].fill_with(|| rng.next_u32() as u8);
        record[KEY_BYTES..][..8].copy_from_slice(&number.to_le_bytes());
        contents.add(&record);
        writer.push(&record)?;
    }
    writer.end()?;
    Ok(contents)
}

/// Sorts parts of the input, each as many records as `run`, until there are none left.
fn sort_runs(
    args: &Args,
    input: &File,
    runs: &File,
    run: u64,
    next: &AtomicU64,
) -> Result<(), PageCacheError> {
    let mut records: Vec<Record> = Vec::with_capacity(run as usize);
    loop {
        let first = next.fetch_add(run, Ordering::Relaxed);
        if first >= args.records {
            return Ok(());
        }
        let mut reader = Reader::new(input, first..args.records.min(first + run));
        records.clear();
        while let Some(record) = reader.next()? {
            records.push(record);
        }
        records.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        let mut writer = Writer::new(runs, first);
        for record in &records {
            writer.push(record)?;
        }
        writer.end()?;
    }
}

/// Merges the runs.
fn merge(args: &Args, runs: &File, run: u64, output: &File) -> Result<(), PageCacheError> {
    let starts = (0..args.records).step_by(run as usize);
    let mut readers: Vec<_> = starts
        .map(|first| Reader::new(runs, first..args.records.min(first + run)))
        .collect();
    let mut heap = BinaryHeap::new();
    for (number, reader) in readers.iter_mut().enumerate() {
        heap.extend(reader.next()?.map(|record| Reverse((record, number))));
    }
    let mut writer = Writer::new(output, 0);
    while let Some(Reverse((record, number))) = heap.pop() {
        writer.push(&record)?;
        heap.extend(
            readers[number]
                .next()?
                .map(|record| Reverse((record, number))),
        );
    }
    writer.end()
}

/// What the output holds, which must be in order.
fn check(args: &Args, output: &File) -> Result<Contents, Failure> {
    let (mut reader, mut contents) = (Reader::new(output, 0..args.records), Contents::default());
    let mut before: Option<Record> = None;
    while let Some(record) = reader.next()? {
        if before.is_some_and(|before| key(&before) > key(&record)) {
            return Err(format!("record {} is out of order", contents.records).into());
        }
        contents.add(&record);
        before = Some(record);
    }
    Ok(contents)
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let name = |part| {
        args.folder
            .join(format!("wharf-sort-{}-{part}", std::process::id()))
    };
    let paths = ["input", "runs", "output"].map(name);
    let outcome = run(&args, &paths);
    for path in paths.iter().filter(|path| path.exists()) {
        std::fs::remove_file(path)?;
    }
    outcome
}

fn run(args: &Args, paths: &[PathBuf; 3]) -> Result<(), Failure> {
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: args.memory / 2,
        ..PageCacheOptions::default()
    })?;
    let open = |path: &Path| cache.create(path);
    let [input, runs, output] = [open(&paths[0])?, open(&paths[1])?, open(&paths[2])?];
    println!("seed {}", args.seed);
    let made = make(args, &input)?;
    let clock = Clock::start();
    let run = (args.memory / 2 / args.threads / RECORD_BYTES as u64).max(1);
    let next = AtomicU64::new(0);
    let sorted: Result<(), PageCacheError> = std::thread::scope(|scope| {
        let sort = || sort_runs(args, &input, &runs, run, &next);
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(sort)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    });
    sorted?;
    merge(args, &runs, run, &output)?;
    output.sync_all()?;
    let seconds = clock.now_ns() as f64 / 1e9;
    if check(args, &output)? != made {
        return Err("the output has other records than the input".into());
    }
    let megabytes = (args.records * RECORD_BYTES as u64) as f64 / 1e6;
    println!(
        "{megabytes:.0} MB sorted in {} runs with {} KiB of memory: {:.1} MB/s; in order, and all are there",
        args.records.div_ceil(run),
        args.memory / 1024,
        megabytes / seconds
    );
    Ok(())
}
