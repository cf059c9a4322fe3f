//! A key-value store of sorted tables under YCSB's workloads A to F and `db_bench`'s fillrandom and readrandom: what LevelDB asks of files.
//!
//! The store is our model of LevelDB 1.23 with its default options (`include/leveldb/options.h`, `db/dbformat.h`): a log, tables in
//! levels, four tables of level 0 before they are merged, blocks of 4 KiB, no filters, and table indexes that are in memory. Each thread has a store of its own, in a
//! directory of its own.
//!
//! 1. A write appends the record to the log, a `write` for each, and to the table in memory. Nothing of the log is made durable, as LevelDB does
//!    not unless it is asked to.
//! 2. When the log is as long as a table, what is in memory becomes a table of level 0: written in pieces of 64 KiB, made
//!    durable. A new log takes the place of the old one, which is removed.
//! 3. Four tables of level 0 are merged with those of level 1; when that has more than five, or level 2 more than 50, and so on, one of its tables, in turn, is
//!    merged with those of the next level that it overlaps. Tables are read a block at a time, and new ones written as above; the old ones are removed. All data are in
//!    the lowest level at first, which is level 2 or the first that has room for them.
//! 4. A read looks into the tables that may have the key, the newest first, and reads a block of each until it is found. A scan reads a
//!    block of each, and goes on in the lowest level.
//!
//! Ours are: a record has as many bytes as a request (512 if nothing else is said, whole sectors), and so has its line in the log; a block ends with the
//! record that fills 4 KiB, as LevelDB's does; a table has
//! as many bytes as a file's region (LevelDB: 2 MiB, and 4 in memory); merging is done by the thread whose write fills the log, at once; there is no cache of
//! blocks beside that of the design. Of its tables a store has those open that were used last ([`OpenTables`]). A quarter of the files hold data at first, so that there are always files for what is merged.
//!
//! Keys are drawn by Zipf's law with skew 0.99, and scattered by hashing, as YCSB does; D reads what was inserted last. Inserts add up to a quarter
//! of the keys, and write the last one again after that.
//!
//! `db_bench` draws any key as often. Its fillrandom begins with an empty store; its readrandom finds every key, in tables of the lowest level
//! (after a fillrandom of as many writes as keys, more than a third of them would not be there). A value of 4 KiB makes a record of [`VALUE_RECORD_BYTES`].

mod open_tables;

use std::collections::BTreeSet;

use crate::files::flow::own_files;
use crate::files::{FileOpKind, OpenHow, Personality, Regions, Run, Runs};
use crate::generate::{SeededRng, Zipf};
use crate::request::{PAGE_BYTES, SECTOR_BYTES};

use open_tables::OpenTables;

/// Fewest files of a thread.
pub(super) const FILES_MIN: u32 = 48;

/// Most records that a thread's files have room for.
pub(super) const KEYS_MAX: u64 = 1 << 30;

/// Bytes that end a block (`block_size`).
const BLOCK: u64 = PAGE_BYTES;

/// Bytes of a record whose value has 4 KiB: with its key of 16 bytes and headers, in whole sectors, as contents are checked by.
pub(super) const VALUE_RECORD_BYTES: u64 = 4096 + SECTOR_BYTES;

/// Bytes that are written at a time to a table (`util/env_posix.cc`).
const PIECE: u64 = 64 << 10;

/// Tables of level 0 that are merged (`kL0_CompactionTrigger`).
const LEVEL_0_TABLES: usize = 4;

/// Tables of level 1 (10 MB of 2 MB each), and how many times as many each level has as the one before (`MaxBytesForLevel`).
const LEVEL_1_TABLES: usize = 5;
const LEVEL_FACTOR: usize = 10;

/// Skew of the keys' popularity.
const THETA: f64 = 0.99;

/// Most records of a scan.
const SCAN_MAX: u64 = 100;

/// Of a hundred operations: reads, updates, inserts, scans; the rest read and update.
type Mix = [u64; 4];

/// What a workload does (YCSB's `workloads/workloada` to `workloadf`).
fn mix(personality: Personality) -> Mix {
    match personality {
        Personality::LsmA => [50, 50, 0, 0],
        Personality::LsmB => [95, 5, 0, 0],
        Personality::LsmC => [100, 0, 0, 0],
        Personality::LsmD => [95, 0, 5, 0],
        Personality::LsmE => [0, 0, 5, 95],
        Personality::LsmFillRandom => [0, 100, 0, 0],
        Personality::LsmReadRandom => [100, 0, 0, 0],
        _ => [50, 0, 0, 0],
    }
}

/// Which key an operation is about.
#[derive(Debug, Clone)]
enum Keys {
    /// A few much more often than others.
    Popular(Zipf),
    /// As popular, counted from what was inserted last.
    Latest(Zipf),
    /// Any of so many.
    Any(u32),
}

impl Keys {
    fn new(personality: Personality, keys: u32) -> Keys {
        match personality {
            Personality::LsmFillRandom | Personality::LsmReadRandom => Keys::Any(keys),
            Personality::LsmD => Keys::Latest(Zipf::new(keys.into(), THETA)),
            _ => Keys::Popular(Zipf::new(keys.into(), THETA)),
        }
    }

    /// The number of one, of a store that has so many.
    fn draw(&self, there: u32, rng: &mut SeededRng) -> u32 {
        match self {
            Keys::Popular(zipf) => zipf.draw(rng) as u32,
            Keys::Latest(zipf) => there - 1 - zipf.draw(rng) as u32,
            Keys::Any(keys) => rng.below(u64::from(*keys)) as u32,
        }
    }
}

/// Bytes of a block of records of so many bytes: it ends with the record that fills it.
pub(super) fn block_bytes(record_bytes: u64) -> u64 {
    BLOCK.next_multiple_of(record_bytes)
}

/// A sorted table, in a file.
#[derive(Debug, Clone)]
struct Table {
    file: u32,
    keys: Vec<u32>,
}

impl Table {
    fn range(&self) -> (u32, u32) {
        (self.keys[0], *self.keys.last().expect("it has keys"))
    }

    fn overlaps(&self, (first, last): (u32, u32)) -> bool {
        let own = self.range();
        own.0 <= last && first <= own.1
    }

    /// Bytes of its file: whole blocks.
    fn bytes(&self, record_bytes: u64) -> u64 {
        (self.keys.len() as u64 * record_bytes).next_multiple_of(block_bytes(record_bytes))
    }
}

/// A thread's store.
#[derive(Debug, Clone)]
struct Store {
    /// Files that nothing is in.
    free: Vec<u32>,
    log: u32,
    /// Records in the log.
    logged: u64,
    memory: BTreeSet<u32>,
    open: OpenTables,
    /// Level 0 in the order of writing, the others in that of keys.
    levels: Vec<Vec<Table>>,
    /// Where in the keys of each the next table is taken that is merged.
    turns: Vec<u32>,
    /// Keys that were ever written.
    keys: u32,
    rng: SeededRng,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Lsm {
    regions: Regions,
    mix: Mix,
    drawn: Keys,
    /// Records of a table at most.
    table_records: u64,
    /// Keys of a store at first, or of one that is filled.
    keys: u32,
    stores: Vec<Store>,
}

/// Tables of a level below which nothing is merged.
fn most_tables(level: usize) -> usize {
    LEVEL_1_TABLES * LEVEL_FACTOR.pow(level as u32 - 1)
}

/// The key of a number: each has another one, all over the place.
fn key(number: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b1);
    mixed ^ mixed >> 15
}

impl Lsm {
    pub(super) fn new(personality: Personality, regions: Regions, mut rng: SeededRng) -> Lsm {
        // Of whole blocks, which the last one may not go beyond the file by.
        let block = block_bytes(regions.request_bytes);
        let table_records = regions.bytes / block * (block / regions.request_bytes);
        let files = u64::from(regions.files / regions.threads);
        let keys = (files / 4 * table_records) as u32;
        let is_filled = personality != Personality::LsmFillRandom;
        let store = |thread: u32| {
            Store::new(
                own_files(&regions, thread),
                (keys, table_records, is_filled),
                SeededRng::child(rng.bits(), "thread"),
            )
        };
        Lsm {
            stores: (0..regions.threads).map(store).collect(),
            mix: mix(personality),
            drawn: Keys::new(personality, keys),
            table_records,
            keys,
            regions,
        }
    }

    pub(super) fn initial(&self) -> Vec<Option<u64>> {
        let mut all = vec![None; self.regions.files as usize];
        for table in self
            .stores
            .iter()
            .flat_map(|store| store.levels.iter().flatten())
        {
            all[table.file as usize] = Some(table.bytes(self.regions.request_bytes));
        }
        all
    }

    pub(super) fn owners(&self) -> Vec<Option<u32>> {
        let threads = self.regions.threads;
        (0..self.regions.files)
            .map(|file| Some(file % threads))
            .collect()
    }

    /// Plans the next operation of a thread. Some ask nothing of files.
    pub(super) fn plan(&mut self, thread: u32, runs: &mut Runs) {
        let Lsm {
            mix, drawn, keys, ..
        } = self;
        let store = &mut self.stores[thread as usize];
        let mut files = Files {
            runs,
            record_bytes: self.regions.request_bytes,
            table_records: self.table_records,
        };
        let number = drawn.draw(store.keys, &mut store.rng);
        let mut left = store.rng.below(100);
        let nth = mix.iter().position(|share| {
            let is_here = left < *share;
            left = left.saturating_sub(*share);
            is_here
        });
        match nth {
            Some(0) => store.get(key(number), &mut files),
            Some(1) => store.put(key(number), &mut files),
            Some(2) => {
                let most = *keys + *keys / 4;
                store.keys = (store.keys + 1).min(most);
                store.put(key(store.keys - 1), &mut files);
            }
            Some(_) => {
                let records = 1 + store.rng.below(SCAN_MAX);
                store.scan(key(number), records, &mut files);
            }
            None => {
                store.get(key(number), &mut files);
                store.put(key(number), &mut files);
            }
        }
    }
}

/// What is asked of files.
struct Files<'a> {
    runs: &'a mut Runs,
    record_bytes: u64,
    table_records: u64,
}

impl Files<'_> {
    fn push(&mut self, kind: FileOpKind, file: u32, bytes: (u64, u64), piece: u64) {
        self.runs.push_back(Run::new(kind, file, bytes, piece));
    }

    fn open(&mut self, file: u32, how: OpenHow) {
        let run = Run::new(FileOpKind::Open, file, (0, 0), 0);
        self.runs.push_back(Run { how, ..run });
    }

    fn close(&mut self, file: u32) {
        self.push(FileOpKind::Close, file, (0, 0), 0);
    }

    fn make(&mut self, file: u32) {
        self.open(file, OpenHow::CREATE.and(OpenHow::TRUNCATE));
    }

    fn remove(&mut self, file: u32, bytes: u64) {
        self.push(FileOpKind::Remove, file, (0, bytes), 0);
    }

    /// Opens a table if it is not open; another one may be closed for that.
    fn touch(&mut self, open: &mut OpenTables, file: u32, how: OpenHow) {
        let (opens, left) = open.touch(file);
        if let Some(left) = left {
            self.close(left);
        }
        if opens {
            self.open(file, how);
        }
    }

    fn write(&mut self, open: &mut OpenTables, table: &Table) {
        let all = (0, table.bytes(self.record_bytes));
        self.touch(open, table.file, OpenHow::CREATE.and(OpenHow::TRUNCATE));
        self.push(FileOpKind::Write, table.file, all, PIECE);
        self.push(FileOpKind::Fsync, table.file, all, 0);
    }

    /// Reads the blocks of a table that have its records from `nth` on.
    fn read(&mut self, open: &mut OpenTables, table: &Table, (nth, records): (usize, u64)) {
        self.touch(open, table.file, OpenHow::EXISTING);
        let block = block_bytes(self.record_bytes);
        let from = nth as u64 * self.record_bytes / block * block;
        let end = (nth as u64 + records) * self.record_bytes;
        let end = end
            .next_multiple_of(block)
            .min(table.bytes(self.record_bytes));
        self.push(FileOpKind::Read, table.file, (from, end), block);
    }
}

impl Store {
    /// A store for so many keys, with tables of so many records: all in the lowest level, or none yet.
    fn new(
        mut files: Vec<u32>,
        (keys, table_records, is_filled): (u32, u64, bool),
        rng: SeededRng,
    ) -> Store {
        files.reverse();
        let log = files.pop().expect("there are enough files");
        let mut levels = vec![Vec::new(); 2];
        while most_tables(levels.len()) < keys.div_ceil(table_records as u32) as usize {
            levels.push(Vec::new());
        }
        let keys = if is_filled { keys } else { 0 };
        let mut all: Vec<u32> = (0..keys).map(key).collect();
        all.sort_unstable();
        let tables = all.chunks(table_records as usize).map(|keys| Table {
            file: files.pop().expect("there are enough files"),
            keys: keys.to_vec(),
        });
        let lowest = tables.collect();
        levels.push(lowest);
        Store {
            free: files,
            log,
            logged: 0,
            memory: BTreeSet::new(),
            open: OpenTables::default(),
            turns: vec![0; levels.len()],
            levels,
            keys,
            rng,
        }
    }

    /// Tables of levels that may have a key, the newest first.
    fn tables_of(levels: &[Vec<Table>], key: u32) -> impl Iterator<Item = &Table> {
        let (first, sorted) = levels.split_first().expect("there is level 0");
        let may = move |table: &&Table| table.overlaps((key, key));
        let sorted = sorted.iter().filter_map(move |level| {
            let at = level.partition_point(|table| table.range().1 < key);
            level.get(at)
        });
        first.iter().rev().chain(sorted).filter(may)
    }

    fn get(&mut self, key: u32, files: &mut Files<'_>) {
        if self.memory.contains(&key) {
            return;
        }
        for table in Store::tables_of(&self.levels, key) {
            let found = table.keys.binary_search(&key);
            let nth = found.unwrap_or_else(|nth| nth.min(table.keys.len() - 1));
            files.read(&mut self.open, table, (nth, 1));
            if found.is_ok() {
                return;
            }
        }
    }

    fn scan(&mut self, key: u32, records: u64, files: &mut Files<'_>) {
        let below = self.levels.last().expect("there are levels");
        let at = below.partition_point(|table| table.range().1 < key);
        for table in Store::tables_of(&self.levels, key) {
            if below.get(at).is_none_or(|last| last.file != table.file) {
                let nth = table.keys.partition_point(|own| *own < key);
                files.read(&mut self.open, table, (nth, 1));
            }
        }
        let mut left = records;
        for table in &below[at.min(below.len())..] {
            let nth = table.keys.partition_point(|own| *own < key);
            let here = left.min((table.keys.len() - nth) as u64);
            files.read(&mut self.open, table, (nth, here));
            left -= here;
            if left == 0 {
                break;
            }
        }
    }

    fn put(&mut self, key: u32, files: &mut Files<'_>) {
        if self.logged == 0 {
            files.make(self.log);
        }
        let at = self.logged * files.record_bytes;
        let line = (at, at + files.record_bytes);
        files.push(FileOpKind::Write, self.log, line, files.record_bytes);
        self.memory.insert(key);
        self.logged += 1;
        if self.logged == files.table_records {
            self.flush(files);
            self.settle(files);
        }
    }

    /// What is in memory becomes a table of level 0.
    fn flush(&mut self, files: &mut Files<'_>) {
        let keys: Vec<u32> = std::mem::take(&mut self.memory).into_iter().collect();
        let table = self.new_table(keys);
        files.write(&mut self.open, &table);
        self.levels[0].push(table);
        let old = std::mem::replace(&mut self.log, self.free.pop().expect("there are files"));
        files.close(old);
        files.remove(old, self.logged * files.record_bytes);
        self.free.push(old);
        self.logged = 0;
    }

    fn new_table(&mut self, keys: Vec<u32>) -> Table {
        let file = self.free.pop().expect("there are files");
        Table { file, keys }
    }

    /// Merges levels that have too much.
    fn settle(&mut self, files: &mut Files<'_>) {
        if self.levels[0].len() >= LEVEL_0_TABLES {
            let upper = std::mem::take(&mut self.levels[0]);
            self.merge(upper, 1, files);
        }
        for upper in 1..self.levels.len() - 1 {
            while self.levels[upper].len() > most_tables(upper) {
                let (level, turn) = (&mut self.levels[upper], &mut self.turns[upper]);
                let at = level.partition_point(|table| table.range().0 <= *turn);
                let victim = level.remove(if at < level.len() { at } else { 0 });
                *turn = victim.range().0;
                self.merge(vec![victim], upper + 1, files);
            }
        }
    }

    /// Merges tables with those of a level that they overlap.
    fn merge(&mut self, upper: Vec<Table>, level: usize, files: &mut Files<'_>) {
        let ranges = upper.iter().map(Table::range);
        let whole = ranges.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        let whole = whole.expect("there are tables");
        let below = std::mem::take(&mut self.levels[level]);
        let (lower, rest): (Vec<_>, Vec<_>) =
            below.into_iter().partition(|table| table.overlaps(whole));
        let mut keys = Vec::new();
        for table in upper.iter().chain(&lower) {
            files.read(&mut self.open, table, (0, table.keys.len() as u64));
            keys.extend_from_slice(&table.keys);
        }
        keys.sort_unstable();
        keys.dedup();
        let mut tables = rest;
        for part in keys.chunks(files.table_records as usize) {
            let table = self.new_table(part.to_vec());
            files.write(&mut self.open, &table);
            tables.push(table);
        }
        tables.sort_unstable_by_key(Table::range);
        self.levels[level] = tables;
        for table in upper.iter().chain(&lower) {
            if self.open.close(table.file) {
                files.close(table.file);
            }
            files.remove(table.file, table.bytes(files.record_bytes));
            self.free.push(table.file);
        }
    }
}

#[cfg(test)]
mod tests;
