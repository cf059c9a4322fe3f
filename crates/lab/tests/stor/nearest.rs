//! Searches for the nearest vectors, in the host, in the drive and in both at once, while others write the same pages: beside a search that
//! looks at all distances of a copy.

use std::rc::Rc;
use std::sync::Arc;

use wharf_drive::Drive;
use wharf_files::{Errno, Handle, OpenFlags};
use wharf_host::design::Amount;
use wharf_host::files::{FileClient, Neighbour, Query};
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Compute, Stor, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::{Cpu, Rng, Seed};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive, new_drive_computing, run_in, run_on};

const THREADS: u32 = 2;

const PAGE: u64 = PAGE_BYTES as u64;

/// Bytes of the file that a thread writes: they end within a page.
const OWN: u64 = 300_000;

/// Frames of the cache.
const FRAMES: u64 = 100;

/// Small whole numbers: squares of distances are exact, in whatever order they are summed.
fn numbers(rng: &mut Rng, count: u64) -> Vec<u8> {
    let number = |_| rng.below(9) as f32 - 4.0;
    (0..count).map(number).flat_map(f32::to_le_bytes).collect()
}

fn numbers_of(bytes: &[u8]) -> Vec<f32> {
    let each = bytes.chunks_exact(4);
    each.map(|number| f32::from_le_bytes(number.try_into().expect("four bytes")))
        .collect()
}

/// Distances and numbers of the nearest.
fn right(data: &[u8], vector: &[u8], count: u32) -> Vec<(f32, u64)> {
    let query = numbers_of(vector);
    let distance = |vector: &[u8]| {
        let squares = numbers_of(vector).into_iter().zip(&query);
        squares.map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
    };
    let each = data.chunks_exact(vector.len()).map(distance).zip(0..);
    let mut all: Vec<(f32, u64)> = each.collect();
    all.sort_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
    all.truncate(count as usize);
    all
}

/// The same for each vector of a query.
fn all_right(data: &[u8], query: Query<'_>) -> Vec<Vec<(f32, u64)>> {
    let each = query.vectors.chunks(query.vector_bytes);
    each.map(|vector| right(data, vector, query.count))
        .collect()
}

fn told(found: &[Vec<Neighbour>]) -> Vec<Vec<(f32, u64)>> {
    let of_one = |found: &Vec<Neighbour>| {
        let each = found.iter().map(|one| (one.distance, one.number));
        each.collect()
    };
    found.iter().map(of_one).collect()
}

struct User {
    files: StorFiles,
    handle: Handle,
    /// Where its part of the file begins.
    base: u64,
    /// What it has there.
    own: Vec<u8>,
}

impl User {
    async fn search(&self, extent: Extent, query: Query<'_>, cpu: &Cpu) -> Vec<Vec<(f32, u64)>> {
        let mut room = vec![0; extent.bytes as usize];
        let found = self
            .files
            .nearest(cpu, self.handle, extent, query, &mut room);
        let found = found.await.expect("it is searched");
        assert_eq!(found.bytes, extent.bytes);
        told(&found.nearest)
    }

    /// Does one thing, chosen at random.
    async fn act(&mut self, rng: &mut Rng, cpu: &Cpu, about: &str) {
        let most = [60_000, 6_000, 6_000][rng.below(3) as usize];
        let bytes = 4 * (1 + rng.below(most));
        let at = 4 * rng.below((OWN - bytes) / 4);
        let part = Extent::new(self.base + at, bytes);
        let own = &mut self.own[at as usize..(at + bytes) as usize];
        if rng.below(3) == 0 {
            own.copy_from_slice(&numbers(rng, bytes / 4));
            let written = self.files.write_at(self.handle, part, own).await;
            written.expect("it is written");
            return;
        }
        let dimensions = [1, 96, 128, 1_024, 1_500, 70_000][rng.below(6) as usize].min(16_384);
        let count = [1, 1, 3, 8, 16][rng.below(5) as usize];
        let vectors = numbers(rng, dimensions * count);
        let query = Query {
            vectors: &vectors,
            vector_bytes: 4 * dimensions as usize,
            count: [1, 10, 300][rng.below(3) as usize],
        };
        if rng.below(4) == 0 {
            // Pages that are read in order come to the host's cache, whoever searches them.
            let first = rng.below(u64::from(THREADS) * OWN / PAGE - 32);
            for page in first..first + 32 {
                let mut out = [0; PAGE_BYTES];
                let page = Extent::of_pages(page, 1);
                let read = self.files.read_at(self.handle, page, &mut out).await;
                read.expect("it is read");
            }
            return;
        }
        if rng.below(4) == 0 {
            // What others write meanwhile is one or the other.
            let all = Extent::new(4 * rng.below(OWN / 4), OWN);
            let found = self.search(all, query, cpu).await;
            let vectors = OWN / query.vector_bytes as u64;
            for found in found {
                assert_eq!(
                    found.len() as u64,
                    vectors.min(query.count.into()),
                    "{about}"
                );
                assert!(found.is_sorted_by(|a, b| a < b), "{about}");
            }
            return;
        }
        // As often as not where pages begin, where ranges are cut.
        let part = match rng.below(2) {
            0 => part,
            _ => {
                let first = (self.base + at).next_multiple_of(PAGE);
                let end = (first + bytes).min(self.base + OWN);
                Extent::new(first, end.saturating_sub(first))
            }
        };
        let found = self.search(part, query, cpu).await;
        let from = (part.offset - self.base) as usize;
        let there = &self.own[from..from + part.bytes as usize];
        assert!(
            found == all_right(there, query),
            "{about}: {part:?} of vectors of {dimensions}"
        );
    }
}

/// Has threads write their parts of a file and search it; gives how many searches were of both sides.
fn search(seed: u64, own: StorConfig) -> u64 {
    let config = DesignConfig {
        cache_bytes: FRAMES * PAGE,
        clients: THREADS,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let both = run_in(&space, 2, THREADS, own, move |one: OneClient| {
        let (cpu, index) = (one.cpu.clone(), one.index);
        let files = stor.files_of(one.client, index);
        async move {
            if index == 0 {
                let made = files.open(b"/vectors", OpenFlags::CREATE, 0o644).await;
                let handle = made.expect("it opens").handle;
                let zeros = vec![0; (u64::from(THREADS) * OWN) as usize];
                let whole = Extent::new(0, zeros.len() as u64);
                let written = files.write_at(handle, whole, &zeros).await;
                written.expect("there is room");
                files.close(handle).await.expect("it is open");
            } else {
                // The file is there then.
                cpu.sleep_until(100_000_000).await;
            }
            let opened = files.open(b"/vectors", OpenFlags::UPDATE, 0).await;
            let mut user = User {
                handle: opened.expect("it opens").handle,
                files,
                base: u64::from(index) * OWN,
                own: vec![0; OWN as usize],
            };
            let mut rng = Seed(seed).index(index.into()).rng();
            for round in 0..50 {
                let about = format!("seed {seed}, thread {index}, round {round}");
                user.act(&mut rng, &cpu, &about).await;
            }
            user.files.close(user.handle).await.expect("it is open");
            let gauges = user.files.gauges();
            match gauges.get("computed_by_both") {
                Some(Amount::Count(both)) => both,
                _ => 0,
            }
        }
    });
    both.iter().sum()
}

const COMPUTES: [Compute; 6] = [
    Compute::Dynamic,
    Compute::Drive,
    Compute::Exec,
    Compute::Presence,
    Compute::Data,
    Compute::Host,
];

#[test]
fn the_nearest_are_found_while_others_write_the_same_pages() {
    let mut split = 0;
    let caches = [CacheMode::Near, CacheMode::WriteBack, CacheMode::None];
    for (number, compute) in (0..).zip(COMPUTES) {
        for (seed, cache) in (number * 10..).zip(caches) {
            let own = StorConfig {
                cache,
                compute,
                threads: THREADS,
                device_share: 0.3,
                window: seed % 2 == 0,
                ..StorConfig::default()
            };
            let both = search(seed, own);
            split += both;
            if matches!(compute, Compute::Drive | Compute::Host | Compute::Presence) {
                assert_eq!(both, 0, "{compute:?}");
            }
        }
    }
    assert!(split > 20, "{split} were split");
}

async fn at_the_end(files: Rc<StorFiles>, cpu: Cpu) {
    let opened = files.open(b"/f", OpenFlags::CREATE, 0o644).await;
    let handle = opened.expect("it opens").handle;
    let mut rng = Seed(1).rng();
    let mut data = numbers(&mut rng, 50_000);
    let vector = numbers(&mut rng, 128);
    let written = files.write_at(handle, Extent::new(0, data.len() as u64), &data);
    written.await.expect("there is room");
    // The drive has not seen the end of it yet, nor the hole.
    files.set_len(handle, 150_003).await.expect("it is cut");
    data.truncate(150_003);
    let written = files.write_at(handle, Extent::new(300_000, 4), &[0; 4]);
    written.await.expect("there is room");
    data.resize(300_004, 0);
    let query = Query {
        vectors: &vector,
        vector_bytes: 256,
        count: 7,
    };
    for (offset, bytes) in [
        (0, 400_000),
        (0, 0),
        (139_264, 262_144),
        (300_000, 512),
        (300_004, 512),
        (1 << 40, 4_096),
    ] {
        let mut room = vec![0; bytes];
        let extent = Extent::new(offset, bytes as u64);
        let found = files.nearest(&cpu, handle, extent, query, &mut room).await;
        let found = found.expect("it is searched");
        let from = data.len().min(offset as usize);
        let there = &data[from..data.len().min(from + bytes)];
        assert_eq!(found.bytes, there.len() as u64);
        let right = all_right(there, query);
        assert_eq!(told(&found.nearest), right, "from byte {offset} on");
    }
    // More answers than a command, or the drive's memory, has room for.
    for count in [20_000, 60_000, 65_536] {
        let many = Query { count, ..query };
        let mut room = vec![0; 150_003];
        let extent = Extent::new(0, room.len() as u64);
        let found = files.nearest(&cpu, handle, extent, many, &mut room).await;
        let found = told(&found.expect("it is searched").nearest);
        assert!(found == all_right(&data[..150_003], many) && found[0].len() == 585);
    }
    for (vectors, vector_bytes, count) in [
        (&[0; 6][..], 6, 1),
        (&[], 4, 1),
        (&[0; 8], 0, 1),
        (&[0; 10], 4, 1),
        (&[0; 4], 4, 0),
        (&[0; 70_000], 70_000, 1),
    ] {
        let query = Query {
            vectors,
            vector_bytes,
            count,
        };
        let mut room = [0; 4_096];
        let extent = Extent::new(0, 4_096);
        let refused = files.nearest(&cpu, handle, extent, query, &mut room).await;
        assert_eq!(refused.expect_err("it is no query").errno(), Errno::EINVAL);
    }
}

/// Searches on such drives, by every way to choose.
fn at_the_end_on(drive: impl Fn() -> Drive, caches: &[CacheMode]) {
    for cache in caches.iter().copied() {
        for compute in COMPUTES {
            let own = StorConfig {
                cache,
                compute,
                device_share: 0.3,
                ..StorConfig::default()
            };
            let config = DesignConfig {
                cache_bytes: FRAMES * PAGE,
                clients: 1,
                ..DesignConfig::default()
            };
            let space = DmaSpace::new(PAGE_BYTES);
            let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
            run_on(drive(), &space, 1, own, move |one: OneClient| {
                let cpu = one.cpu.clone();
                let files = Rc::new(stor.files_of(one.client, one.index));
                at_the_end(files, cpu)
            });
        }
    }
}

#[test]
fn what_ends_within_a_range_is_searched_as_far_as_it_goes() {
    let caches = [CacheMode::Near, CacheMode::WriteBack, CacheMode::None];
    at_the_end_on(|| new_drive(2), &caches);
}

/// A drive that had no memory for a part refused the whole search.
#[test]
fn what_the_drive_has_no_memory_for_is_searched_by_the_host() {
    let caches = [CacheMode::Near, CacheMode::None];
    at_the_end_on(|| new_drive_computing(2, 200 << 10), &caches);
}
