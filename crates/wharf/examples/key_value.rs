//! A key-value store with a log, on a page cache in the process: a table of where each key's newest value is, and
//! a file that only grows.
//!
//!     cargo run --release -p wharf --example key_value
//!     cargo run --release -p wharf --example key_value -- --records 1000000 --memory 64MiB --workload f
//!
//! 1. *Put* appends a record (lengths, checksum, key, value) to the log and enters its place in the table.
//! 2. *Get* finds the place in the table and reads the record through the cache.
//! 3. *Commit* makes the log durable. Threads that commit at the same time share one sync.
//! 4. *Open* reads the log from its start and stops at the first record that is not whole: what a crash tore.
//!
//! The program loads records, runs YCSB's workload A (half reads, half updates) or F (half reads, half
//! read-modify-write) by several threads with Zipf's law for keys, tears the end of the log as a crash would, opens it
//! again, and checks every value that was committed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};

use clap::{Parser, ValueEnum};
use wharf::lab::config::parse_bytes;
use wharf::page_cache::{File, OpenOptions, PageCache, PageCacheError, PageCacheOptions};
use wharf::runtime::Seed;
use wharf::runtime::clock::Clock;
use wharf::workload::generate::{Scatter, SeededRng, Zipf};

/// Bytes of a record before its key: checksum, lengths of key and value.
const HEAD_BYTES: usize = 12;

/// Parts of the table, each under a lock of its own.
const PARTS: u64 = 64;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "A key-value store with a log, on Wharf's page cache")]
struct Args {
    /// Keys.
    #[arg(long, default_value_t = 20_000)]
    records: u64,
    /// Operations of each thread.
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1000)]
    value: u32,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Updates of a thread between two commits.
    #[arg(long, default_value_t = 100)]
    commit_every: u64,
    /// YCSB's workload.
    #[arg(long, value_enum, default_value_t = Mix::A)]
    workload: Mix,
    /// Memory for cached pages.
    #[arg(long, default_value = "8MiB", value_parser = |s: &str| parse_bytes(s).map_err(|e| e.to_string()))]
    memory: u64,
    /// Where the log is made, and removed again.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mix {
    /// Half reads, half updates.
    A,
    /// Half reads, half read-modify-write.
    F,
}

/// Where a record is in the log.
#[derive(Clone, Copy)]
struct Place {
    offset: u64,
    bytes: u32,
}

/// How far the log reaches, and how far it is durable.
struct Tail {
    end: u64,
    durable: u64,
    is_syncing: bool,
}

/// See the module.
struct Store {
    log: File,
    table: Vec<RwLock<BTreeMap<u64, Place>>>,
    tail: Mutex<Tail>,
    synced: Condvar,
}

/// FNV-1a: enough to tell a torn record.
fn checksum(bytes: &[u8]) -> u32 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    (sum ^ (sum >> 32)) as u32
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// A record: checksum of all that follows, lengths of key and value, key, value.
fn encode(key: u64, value: &[u8]) -> Vec<u8> {
    let mut record = vec![0; 4];
    record.extend_from_slice(&8u32.to_le_bytes());
    record.extend_from_slice(&(value.len() as u32).to_le_bytes());
    record.extend_from_slice(&key.to_le_bytes());
    record.extend_from_slice(value);
    let sum = checksum(&record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
    record
}

/// Key and value of a record; `None` if it is not whole.
fn decode(record: &[u8]) -> Option<(u64, &[u8])> {
    let is_whole = record.len() >= HEAD_BYTES + 8 && word(record, 0) == checksum(&record[4..]);
    let (head, value) = record.split_at_checked(HEAD_BYTES + 8)?;
    let key = u64::from_le_bytes(head[HEAD_BYTES..].try_into().expect("8 bytes"));
    is_whole.then_some((key, value))
}

impl Store {
    /// Opens the log, or makes one, and finds what it holds. What is torn at its end is cut off.
    fn open(cache: &PageCache, path: &Path) -> Result<Store, PageCacheError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let log = options.open(cache, path)?;
        let table: Vec<_> = (0..PARTS).map(|_| RwLock::default()).collect();
        let (mut offset, mut record) = (0, Vec::new());
        loop {
            let mut head = [0; HEAD_BYTES];
            if log.read_at(&mut head, offset)? < HEAD_BYTES {
                break;
            }
            let bytes = HEAD_BYTES as u64 + u64::from(word(&head, 4)) + u64::from(word(&head, 8));
            if bytes > log.len() - offset {
                break;
            }
            record.resize(bytes as usize, 0);
            log.read_exact_at(&mut record, offset)?;
            let Some((key, _)) = decode(&record) else {
                break;
            };
            let place = Place {
                offset,
                bytes: bytes as u32,
            };
            part(&table, key)
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key, place);
            offset += bytes;
        }
        log.set_len(offset)?;
        let tail = Tail {
            end: offset,
            durable: offset,
            is_syncing: false,
        };
        Ok(Store {
            log,
            table,
            tail: Mutex::new(tail),
            synced: Condvar::new(),
        })
    }

    /// The value of a key.
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>, Failure> {
        let found = part(&self.table, key)
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .copied();
        let Some(place) = found else {
            return Ok(None);
        };
        let mut record = vec![0; place.bytes as usize];
        self.log.read_exact_at(&mut record, place.offset)?;
        match decode(&record) {
            Some((found, value)) if found == key => Ok(Some(value.to_vec())),
            _ => Err(format!(
                "the record at byte {} is not that of key {key}",
                place.offset
            )
            .into()),
        }
    }

    /// Gives a key a value. Durable after the next commit.
    fn put(&self, key: u64, value: &[u8]) -> Result<(), PageCacheError> {
        let record = encode(key, value);
        // The part stays locked, so that the table's place is that of the newest record.
        let mut places = part(&self.table, key)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let offset = {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            let offset = tail.end;
            // Under the lock: no hole is left before a record that is there.
            self.log.write_all_at(&record, offset)?;
            tail.end += record.len() as u64;
            offset
        };
        places.insert(
            key,
            Place {
                offset,
                bytes: record.len() as u32,
            },
        );
        Ok(())
    }

    /// Makes durable what was put before. One thread syncs for all that wait.
    fn commit(&self) -> Result<(), PageCacheError> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = tail.end;
        loop {
            if tail.durable >= wanted {
                return Ok(());
            }
            if tail.is_syncing {
                tail = self
                    .synced
                    .wait(tail)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let reached = tail.end;
            tail.is_syncing = true;
            drop(tail);
            let outcome = self.log.sync_data();
            tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.is_syncing = false;
            if outcome.is_ok() {
                tail.durable = reached;
            }
            self.synced.notify_all();
            outcome?;
        }
    }
}

fn part(table: &[RwLock<BTreeMap<u64, Place>>], key: u64) -> &RwLock<BTreeMap<u64, Place>> {
    &table[(key % PARTS) as usize]
}

/// The value of `version` of a key: the version, then bytes that depend on both.
fn value_of(key: u64, version: u64, bytes: u32) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    let mut rng = Seed(key).index(version).rng();
    value.resize_with(8 + bytes as usize, || rng.next_u32() as u8);
    value
}

/// The version of a value that was read, which must be whole.
fn version_of(key: u64, value: &[u8], bytes: u32) -> Result<u64, Failure> {
    let version = u64::from_le_bytes(value[..8].try_into()?);
    match value == value_of(key, version, bytes) {
        true => Ok(version),
        false => Err(format!("the value of key {key} is not what was put").into()),
    }
}

/// What threads share while they work.
struct Work<'a> {
    args: &'a Args,
    store: &'a Store,
    zipf: Zipf,
    scatter: Scatter,
}

/// The newest version of each key that a thread has committed.
type Versions = BTreeMap<u64, u64>;

impl Work<'_> {
    /// One thread's operations. Each key is put by one thread only, so that its versions grow one by one.
    fn run(&self, thread: u64) -> Result<Versions, Failure> {
        let mut rng = SeededRng::child(self.args.seed, &format!("thread {thread}"));
        let (mut committed, mut put) = (Versions::new(), Versions::new());
        for _ in 0..self.args.operations {
            let key = self.scatter.place(self.zipf.draw(&mut rng));
            if rng.below(2) == 0 {
                self.read(key)?;
                continue;
            }
            let key = self.own(key, thread);
            let version = match self.args.workload {
                Mix::A => *put.get(&key).or(committed.get(&key)).unwrap_or(&0),
                Mix::F => self.read(key)?,
            };
            let value = value_of(key, version + 1, self.args.value);
            self.store.put(key, &value)?;
            put.insert(key, version + 1);
            if put.len() as u64 >= self.args.commit_every {
                self.store.commit()?;
                committed.append(&mut put);
            }
        }
        Ok(committed)
    }

    /// Reads a key that was loaded; gives its version.
    fn read(&self, key: u64) -> Result<u64, Failure> {
        let value = self.store.get(key)?.ok_or(format!("key {key} is gone"))?;
        version_of(key, &value, self.args.value)
    }

    /// The key nearest to this one that is the thread's to put.
    fn own(&self, key: u64, thread: u64) -> u64 {
        let Args {
            records, threads, ..
        } = *self.args;
        (key - key % threads + thread) % (records - records % threads)
    }
}

/// Loads all keys, then has the threads work; gives what each key is at least, after a crash.
fn work(args: &Args, cache: &PageCache, path: &Path) -> Result<Versions, Failure> {
    let store = Store::open(cache, path)?;
    for key in 0..args.records {
        store.put(key, &value_of(key, 0, args.value))?;
    }
    store.commit()?;
    let work = Work {
        args,
        store: &store,
        zipf: Zipf::new(args.records, 0.99),
        scatter: Scatter::new(args.records, args.seed),
    };
    let clock = Clock::start();
    let committed: Result<Versions, Failure> = std::thread::scope(|scope| {
        let (work, threads) = (&work, 0..args.threads);
        let threads: Vec<_> = threads.map(|t| scope.spawn(move || work.run(t))).collect();
        let mut all = Versions::new();
        for thread in threads {
            all.append(&mut thread.join().expect("no panic")?);
        }
        Ok(all)
    });
    let seconds = clock.now_ns() as f64 / 1e9;
    let operations = args.threads * args.operations;
    println!(
        "{operations} operations by {} threads, {:.0} each second",
        args.threads,
        operations as f64 / seconds
    );
    committed
}

/// Leaves half a record at the end of the log, as a crash may.
fn tear(path: &Path, args: &Args) -> Result<(), Failure> {
    let record = encode(0, &value_of(0, u64::MAX, args.value));
    let mut log = std::fs::File::options().append(true).open(path)?;
    Ok(std::io::Write::write_all(
        &mut log,
        &record[..record.len() / 2],
    )?)
}

fn check(args: &Args, cache: &PageCache, path: &Path, committed: &Versions) -> Result<(), Failure> {
    let store = Store::open(cache, path)?;
    for key in 0..args.records {
        let value = store.get(key)?.ok_or(format!("key {key} is gone"))?;
        let (version, least) = (
            version_of(key, &value, args.value)?,
            *committed.get(&key).unwrap_or(&0),
        );
        if version < least {
            return Err(
                format!("key {key} has version {version}, and {least} was committed").into(),
            );
        }
    }
    println!(
        "opened again after its end was torn: {} keys, no commit lost",
        args.records
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let path = args
        .folder
        .join(format!("wharf-key-value-{}.log", std::process::id()));
    let outcome = run(&args, &path);
    std::fs::remove_file(&path)?;
    outcome
}

fn run(args: &Args, path: &Path) -> Result<(), Failure> {
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: args.memory,
        ..PageCacheOptions::default()
    })?;
    println!("seed {}", args.seed);
    let committed = work(args, &cache, path)?;
    tear(path, args)?;
    check(args, &cache, path, &committed)?;
    let did = cache.statistics();
    println!(
        "of {} pages touched {} were in the cache; {} written back",
        did.pages, did.hits, did.write_backs
    );
    Ok(())
}
