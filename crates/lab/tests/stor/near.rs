//! Files with a cache in the host and one in the drive: threads of a process that use parts of the same pages see what each wrote, and
//! a page is in one of both caches, whichever way it went.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_files::{Handle, OpenFlags};
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{
    CacheMode, Eviction, Placement, ReadFill, Stor, StorConfig, StorFiles, Without,
};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::{Cpu, Notify, Rng, Seed};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, run_in};

const PAGE: u64 = PAGE_BYTES as u64;

/// Threads, and tasks of each.
const THREADS: u32 = 3;
const TASKS: u32 = 2;

/// When all tasks have ended for sure.
const ALL_ENDED_NS: u64 = 20_000_000_000;

/// Bytes of each page that are a task's own.
const OWN: u64 = 600;

/// A task, which uses bytes of its own of all pages, and a page that nobody else writes.
struct User {
    files: Rc<StorFiles>,
    handle: Handle,
    number: u32,
    /// Pages of which each task has bytes. Behind them each task has one.
    pages: u64,
    /// What its bytes of each page are.
    right: Vec<u8>,
    /// Its own page.
    own: Vec<u8>,
}

impl User {
    async fn write(&self, part: Extent, value: u8) {
        let data = vec![value; part.bytes as usize];
        let written = self.files.write_at(self.handle, part, &data).await;
        written.expect("it is written");
    }

    async fn read(&self, part: Extent) -> Vec<u8> {
        let mut out = vec![0xee; part.bytes as usize];
        let read = self.files.read_at(self.handle, part, &mut out).await;
        assert_eq!(read.expect("it is read").bytes, part.bytes);
        out
    }

    fn check(&self, page: u64, out: &[u8], about: &str) {
        let right = self.right[page as usize];
        let is_right = out.iter().all(|byte| *byte == right);
        assert!(is_right, "{about}, task {}, page {page}", self.number);
    }

    /// Does one thing, chosen at random, with one of the pages of all.
    async fn use_shared(&mut self, rng: &mut Rng, value: u8, about: &str) {
        let from = u64::from(self.number) * OWN;
        let page = rng.below(self.pages);
        let part = Extent::new(page * PAGE + from, OWN);
        match rng.below(8) {
            0..3 => {
                self.write(part, value).await;
                self.right[page as usize] = value;
            }
            3..6 => self.check(page, &self.read(part).await, about),
            6 => {
                let whole = Extent::new(0, self.pages * PAGE);
                let sync = self.files.sync(self.handle, whole, true);
                sync.await.expect("it is durable");
            }
            _ => {
                // Several pages in order, as large as requests of others are small.
                for page in page..(page + 9).min(self.pages) {
                    let out = self.read(Extent::of_pages(page, 1)).await;
                    self.check(page, &out[from as usize..(from + OWN) as usize], about);
                }
            }
        }
    }

    /// The same with its own page.
    async fn use_own(&mut self, rng: &mut Rng, value: u8, about: &str) {
        let first = (self.pages + u64::from(self.number)) * PAGE;
        let (offset, bytes) = match rng.below(3) {
            0 => (0, PAGE),
            _ => (rng.below(PAGE - OWN), OWN),
        };
        let part = Extent::new(first + offset, bytes);
        let own = &mut self.own[offset as usize..(offset + bytes) as usize];
        match rng.below(2) {
            0 => {
                own.fill(value);
                self.write(part, value).await;
            }
            _ => {
                let right = own.to_vec();
                let is_right = self.read(part).await == right;
                assert!(is_right, "{about}, task {}, its own page", self.number);
            }
        }
    }
}

/// Has a task use its bytes at random and in order; every read is checked.
async fn use_file(files: Rc<StorFiles>, cpu: Cpu, pages: u64, number: u32, seed: u64) {
    let mut rng = Seed(seed).child("task").index(number.into()).rng();
    let opened = files.open(b"/shared", OpenFlags::CREATE, 0o644).await;
    let mut user = User {
        handle: opened.expect("it opens").handle,
        files,
        number,
        pages,
        right: vec![0; pages as usize],
        own: vec![0; PAGE as usize],
    };
    for round in 0..160_u64 {
        cpu.yield_now().await;
        let value = (round % 250) as u8 + 1;
        let about = format!("seed {seed}, round {round}");
        match rng.below(3) {
            0 => user.use_own(&mut rng, value, &about).await,
            _ => user.use_shared(&mut rng, value, &about).await,
        }
    }
    let closed = user.files.close(user.handle).await;
    closed.expect("it is open");
}

/// Has tasks of several threads share a file of so many pages, with a cache of so many frames; gives how many pages they loaded or
/// stored without a command.
fn share(seed: u64, pages: u64, frames: u32, own: StorConfig) -> u64 {
    let config = DesignConfig {
        cache_bytes: u64::from(frames) * PAGE,
        clients: THREADS,
        ..DesignConfig::default()
    };
    let excludes = own.without != Without::Exclusion;
    let has_window = own.window && own.without != Without::NearIo;
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let loaded = run_in(&space, 2, THREADS, own, move |one: OneClient| {
        let (cpu, index) = (one.cpu.clone(), one.index);
        let files = Rc::new(stor.files_of(one.client, index));
        async move {
            if index == 0 {
                let all = OpenFlags::CREATE;
                let opened = files.open(b"/shared", all, 0o644).await.expect("it opens");
                let pages = pages + u64::from(THREADS * TASKS);
                let zeros = vec![0; (pages * PAGE) as usize];
                let whole = Extent::new(0, pages * PAGE);
                let written = files.write_at(opened.handle, whole, &zeros).await;
                written.expect("there is room");
                files.sync_all().await.expect("it is written");
                files.close(opened.handle).await.expect("it is open");
            } else {
                // The file is there then.
                cpu.sleep_until(50_000_000).await;
            }
            // With the last one who has it open, its pages leave the drive's cache.
            let opened = files.open(b"/shared", OpenFlags::READ, 0).await;
            let handle = opened.expect("it opens").handle;
            let (left, ended) = (Rc::new(Cell::new(TASKS)), Rc::new(Notify::new()));
            for number in 0..TASKS {
                let work = use_file(
                    files.clone(),
                    cpu.clone(),
                    pages,
                    index * TASKS + number,
                    seed,
                );
                let (cpu_of, left, ended) = (cpu.clone(), left.clone(), ended.clone());
                cpu.spawn("task", async move {
                    work.await;
                    left.set(left.get() - 1);
                    ended.notify_all(&cpu_of);
                });
            }
            while left.get() > 0 {
                ended.wait(&cpu).await;
            }
            // No thread has a page on its way any more.
            assert!(cpu.now() < ALL_ENDED_NS);
            cpu.sleep_until(ALL_ENDED_NS).await;
            if excludes {
                let both = files.pages_in_both(handle).await;
                assert_eq!(both.expect("the drive answers"), 0, "seed {seed}");
            }
            files.close(handle).await.expect("it is open");
            files.sync_all().await.expect("it is written");
            files.statistics().blocks.window_hits
        }
    });
    let loaded = loaded.iter().sum();
    assert_eq!(loaded > 0, has_window, "seed {seed}: {loaded} pages");
    loaded
}

/// What seeds have threads share.
fn share_as(seed: u64, window: bool, eviction: Eviction) {
    let own = StorConfig {
        cache: CacheMode::Near,
        threads: THREADS,
        // Both are full all the time, one of them is, and none is.
        device_share: [0.2, 0.5, 0.3][seed as usize % 3],
        read_fill: [ReadFill::Host, ReadFill::Paper][seed as usize / 3 % 2],
        epoch_ns: [0, 1_000_000_000][seed as usize / 6 % 2],
        window,
        eviction,
        inactive_ns: [0, 500_000, 30_000_000_000][seed as usize / 2 % 3],
        prefetch_pages: match eviction {
            Eviction::Clock => 0,
            Eviction::TwoStep => [512, 0][seed as usize / 4 % 2],
        },
        ..StorConfig::default()
    };
    let frames = [24, 40, 60][seed as usize % 3];
    share(seed, 40, frames, own);
}

#[test]
fn threads_that_use_parts_of_the_same_pages_see_what_they_wrote_and_no_page_is_in_both_caches() {
    for seed in 0..24 {
        share_as(seed, seed % 2 == 0, Eviction::Clock);
    }
}

#[test]
fn so_it_is_where_pages_leave_in_two_steps() {
    for seed in 0..24 {
        share_as(seed, seed % 2 == 0, Eviction::TwoStep);
    }
}

/// What had a page come to the drive's cache when the process had no node left to note that: nobody knew of it, and it came to the
/// host's cache too.
#[test]
fn a_page_that_was_not_noted_was_in_both_caches() {
    for (seed, window) in [(177, false), (6, true), (151, true), (199, true)] {
        share_as(seed, window, Eviction::Clock);
    }
}

#[test]
fn with_a_part_left_out_nothing_is_lost_either() {
    let parts = [Without::Ranges, Without::Exclusion, Without::NearIo];
    for (seed, without) in (0..12).flat_map(|seed| parts.map(|part| (seed, part))) {
        let own = StorConfig {
            cache: CacheMode::Near,
            threads: THREADS,
            placement: Placement::RoundRobin,
            device_share: 0.5,
            epoch_ns: 0,
            window: seed % 2 == 0,
            without,
            ..StorConfig::default()
        };
        share(seed, 9, 16, own);
    }
}

#[test]
fn a_page_that_moves_while_others_use_it_loses_nothing() {
    for seed in 0..24 {
        let own = StorConfig {
            cache: CacheMode::Near,
            threads: THREADS,
            // Commands of one thread overtake those of another.
            placement: Placement::RoundRobin,
            device_share: 0.5,
            epoch_ns: 0,
            window: seed / 2 % 2 == 0,
            eviction: [Eviction::Clock, Eviction::TwoStep][seed as usize / 4 % 2],
            inactive_ns: 50_000,
            prefetch_pages: [512, 0][seed as usize / 8 % 2],
            ..StorConfig::default()
        };
        share(seed, [5, 7][seed as usize % 2], 12, own);
    }
}
