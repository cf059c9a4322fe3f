//! A key-value store of records under YCSB's workloads A and F: what its log and its reads ask of files.
//!
//! The store is our model of a log-structured one (the paper runs YCSB on RocksDB, whose own traffic depends on
//! its version and its options). Records have 8 KiB (ScaleCache, section 4.3).
//!
//! 1. A record is where it was written last. A read reads it there, whoever wrote it: its pages, no index.
//! 2. Each thread has a log, in files of its own. An update appends the record to the log; each 32nd makes what
//!    has been appended since durable (a group commit; our choice).
//! 3. A file is two halves. When the one in use is full, the records that are still there are read and written to the
//!    other, which is made durable; the full one is discarded, and the thread goes on to its next file.
//!
//! Workload A: half of the operations read a record, half update one. Workload F: half read a record, half read
//! and update one. Records are drawn by Zipf's law with skew 0.99, as YCSB does, and scattered over the files.

use crate::files::flow::own_files;
use crate::files::{FileOpKind, Personality, Regions, Run, Runs};
use crate::generate::{Scatter, SeededRng, Zipf};

/// Bytes of a record.
const RECORD_BYTES: u64 = 8192;

/// Updates of a thread that are made durable together.
const GROUP: u32 = 32;

/// Skew of the records' popularity.
const THETA: f64 = 0.99;

/// Where a record is: the file, and the slot there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    file: u32,
    slot: u64,
}

/// A file of a log.
#[derive(Debug, Clone)]
struct Log {
    /// The first slot of the half in use.
    first: u64,
    /// The records in its slots, in order; those that have been updated since are elsewhere.
    records: Vec<u32>,
}

/// A thread.
#[derive(Debug, Clone)]
struct Thread {
    files: Vec<u32>,
    /// Which of them it appends to.
    at: usize,
    /// Updates since the last flush.
    unflushed: u32,
    rng: SeededRng,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Store {
    regions: Regions,
    reads_before_update: bool,
    half_slots: u64,
    logs: Vec<Log>,
    places: Vec<Place>,
    zipf: Zipf,
    scatter: Scatter,
    threads: Vec<Thread>,
}

impl Store {
    pub(super) fn new(personality: Personality, regions: Regions, mut rng: SeededRng) -> Store {
        let half_slots = regions.bytes / 2 / RECORD_BYTES;
        // The halves in use are half full of records that are there.
        let slots_used = half_slots / 2;
        let files = u64::from(regions.files);
        let records = files * slots_used;
        let place = |record: u64| Place {
            file: (record % files) as u32,
            slot: record / files,
        };
        let log = |file: u64| Log {
            first: 0,
            records: (0..slots_used)
                .map(|slot| (slot * files + file) as u32)
                .collect(),
        };
        let mut thread = |thread: u32| Thread {
            files: own_files(&regions, thread),
            at: 0,
            unflushed: 0,
            rng: SeededRng::child(rng.bits(), "thread"),
        };
        Store {
            reads_before_update: personality == Personality::YcsbF,
            half_slots,
            logs: (0..files).map(log).collect(),
            places: (0..records).map(place).collect(),
            zipf: Zipf::new(records, THETA),
            threads: (0..regions.threads).map(&mut thread).collect(),
            scatter: Scatter::new(records, rng.bits()),
            regions,
        }
    }

    pub(super) fn initial(&self) -> Vec<Option<u64>> {
        let bytes = |log: &Log| Some(log.records.len() as u64 * RECORD_BYTES);
        self.logs.iter().map(bytes).collect()
    }

    /// Every thread reads records of all files.
    pub(super) fn owners(&self) -> Vec<Option<u32>> {
        vec![None; self.logs.len()]
    }

    /// Plans the next operation of a thread.
    pub(super) fn plan(&mut self, thread: u32, runs: &mut Runs) {
        let rng = &mut self.threads[thread as usize].rng;
        let record = self.scatter.place(self.zipf.draw(rng)) as u32;
        let reads = rng.below(2) == 0;
        if reads || self.reads_before_update {
            self.push(runs, FileOpKind::Read, self.places[record as usize], 1);
        }
        if !reads {
            self.update(thread, record, runs);
        }
    }

    /// Adds `slots` slots from a place on; one run with what precedes, if that goes on so.
    fn push(&self, runs: &mut Runs, kind: FileOpKind, place: Place, slots: u64) {
        let at = place.slot * RECORD_BYTES;
        let end = at + slots * RECORD_BYTES;
        match runs.back_mut() {
            Some(last) if (last.kind, last.file, last.end) == (kind, place.file, at) => {
                last.end = end;
            }
            _ => {
                let piece = self.regions.request_bytes;
                runs.push_back(Run::new(kind, place.file, (at, end), piece));
            }
        }
    }

    fn update(&mut self, thread: u32, record: u32, runs: &mut Runs) {
        let (file, log) = self.log_of(thread);
        if log.records.len() as u64 == self.half_slots {
            self.compact(file, runs);
            let thread = &mut self.threads[thread as usize];
            thread.at = (thread.at + 1) % thread.files.len();
            thread.unflushed = 0;
        }
        let (file, log) = self.log_of(thread);
        let slot = log.first + log.records.len() as u64;
        if slot == log.first + self.half_slots {
            // All that the log has is still needed: this update is left out.
            return;
        }
        let place = Place { file, slot };
        self.push(runs, FileOpKind::Write, place, 1);
        self.logs[file as usize].records.push(record);
        self.places[record as usize] = place;
        let thread = &mut self.threads[thread as usize];
        thread.unflushed += 1;
        if thread.unflushed == GROUP {
            thread.unflushed = 0;
            self.flush(file, runs);
        }
    }

    /// The file that a thread appends to.
    fn log_of(&self, thread: u32) -> (u32, &Log) {
        let thread = &self.threads[thread as usize];
        let file = thread.files[thread.at];
        (file, &self.logs[file as usize])
    }

    /// Makes the half in use of a file durable.
    fn flush(&self, file: u32, runs: &mut Runs) {
        let log = &self.logs[file as usize];
        let slot = log.first;
        self.push(
            runs,
            FileOpKind::Fdatasync,
            Place { file, slot },
            log.records.len() as u64,
        );
    }

    /// Moves what is needed of a file to its other half.
    fn compact(&mut self, file: u32, runs: &mut Runs) {
        let old = self.logs[file as usize].clone();
        let new = self.half_slots - old.first;
        let needed: Vec<(u64, u32)> = (old.first..)
            .zip(old.records)
            .filter(|(slot, record)| self.places[*record as usize] == Place { file, slot: *slot })
            .collect();
        for (slot, _) in &needed {
            self.push(runs, FileOpKind::Read, Place { file, slot: *slot }, 1);
        }
        for (slot, (_, record)) in (new..).zip(&needed) {
            let place = Place { file, slot };
            self.push(runs, FileOpKind::Write, place, 1);
            self.places[*record as usize] = place;
        }
        self.logs[file as usize] = Log {
            first: new,
            records: needed.into_iter().map(|(_, record)| record).collect(),
        };
        self.flush(file, runs);
        let slot = old.first;
        self.push(
            runs,
            FileOpKind::Punch,
            Place { file, slot },
            self.half_slots,
        );
    }
}
