//! Named workloads of two papers (those of the second are in `flash.rs`). Ten are like those of the ScalaCache paper, whose traces cannot be shipped: generators
//! fitted to the figures that its Table 2 gives for them.
//!
//! 1. Requests come in **runs**: each next request continues the run at its end, or (with the probability that the
//!    table calls randomness) a new run begins elsewhere.
//! 2. A run is **cold** with a small probability: it covers pages never touched before, which is what
//!    makes compulsory misses, the larger part of the table's misses.
//! 3. Otherwise it is **hot**: it begins at one of the extents of the hot set, drawn by Zipf's law and
//!    scattered. The size of the hot set shapes the reuse distances.
//! 4. A run reads or writes as a whole, by the write share.
//! 5. A run is of one **process**, of [`PROCESSES`]: each extent of the hot set belongs to one of
//!    them by lot, and a cold run to any. (The table does not tell of processes; their number is
//!    assumed.)
//!
//! Everything scales: with fewer requests the hot and the cold range shrink alike, so that a cache
//! shrunk as much (12 GiB for the full number) sees the same hit ratio.

mod flash;
mod table;

use crate::error::WorkloadError;
use crate::generate::{Scatter, SeededRng, Sizes, Zipf, bad, probability};
use crate::request::{ADDRESS_BYTES_MAX, Op, PAGE_BYTES, Request};

/// Cache of the paper's Table 2 runs: 18.75 % of a drive of 64 GiB.
pub const TABLE_CACHE_BYTES: u64 = 12 << 30;

/// One row of the paper's Table 2. Its KB and GB are powers of two (requests times mean size equals data
/// size only so).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableRow {
    /// Name of the workload.
    pub name: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Mean request size in KiB.
    pub mean_kib: f64,
    /// Data moved by all requests, in GiB.
    pub data_gib: f64,
    /// Hit ratio of page touches.
    pub hit_ratio: f64,
    /// Share of requests that do not begin where the one before ended.
    pub randomness: f64,
    /// Mean reuse distance in GiB (distinct data between two touches of a page).
    pub reuse_gib: f64,
}

/// A profile: what the paper says of the workload, and the parameters that reproduce it.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// What it is fitted to.
    pub table: TableRow,
    /// Request sizes in bytes with their weights.
    pub sizes: &'static [(u32, u64)],
    /// Sizes of requests that write, if those are others.
    pub write_sizes: &'static [(u32, u64)],
    /// Share of runs that write.
    pub write_share: f64,
    /// Skew of Zipf's law over the extents of the hot set.
    pub theta: f64,
    /// Share of runs that touch new pages.
    pub cold_share: f64,
    /// Size of the hot set for the table's number of requests.
    pub hot_bytes: u64,
}

/// Processes of a profile, numbered from 0: an assumption, and a multiple of most numbers of
/// clients, so that each client gets as many.
pub const PROCESSES: u32 = 64;

/// Gap after a cold run, so that the next one does not continue it.
const COLD_GAP_BYTES: u64 = PAGE_BYTES;

impl Profile {
    /// All profiles, in the order of the table.
    pub const ALL: &'static [Profile] = &table::PROFILES;

    /// Those of the paper on the flash cache without an index: one is fitted to a sample of a trace, the others are
    /// invented within what the paper says.
    pub const FLASH: &'static [Profile] = &flash::PROFILES;

    /// The profile of this name.
    pub fn by_name(name: &str) -> Option<&'static Profile> {
        Profile::ALL
            .iter()
            .chain(Profile::FLASH)
            .find(|profile| profile.table.name == name)
    }

    /// Mean number of bytes of a run.
    fn run_bytes(&self) -> f64 {
        self.table.mean_kib * 1024.0 / self.table.randomness
    }

    /// Bytes that the cold runs of `requests` requests take up, with 3 % and 64 runs to spare.
    fn cold_bytes(&self, requests: u64) -> f64 {
        let runs = requests as f64 * self.table.randomness * self.cold_share;
        (runs * 1.03 + 64.0) * (self.run_bytes() + COLD_GAP_BYTES as f64)
    }

    /// Address range for so many requests, in bytes: the hot set in proportion to the table's number, and room
    /// for all cold runs.
    pub fn footprint_bytes(&self, requests: u64) -> u64 {
        let scale = requests as f64 / self.table.requests as f64;
        let hot = self.hot_bytes as f64 * scale;
        ((hot + self.cold_bytes(requests)) as u64).next_multiple_of(PAGE_BYTES)
    }

    /// The cache that stands to `requests` requests as 12 GiB to the table's number.
    pub fn cache_bytes(&self, requests: u64) -> u64 {
        let share = u128::from(TABLE_CACHE_BYTES) * u128::from(requests);
        (share / u128::from(self.table.requests)) as u64
    }

    /// Builds the generator. `requests`: the table's number if `None`. `footprint_bytes`: by the number
    /// of requests if `None`; if smaller, the cold range is gone through again and again.
    ///
    /// # Errors
    /// No requests; a footprint too small for one run of the largest requests in either range.
    pub fn generator(
        &self,
        requests: Option<u64>,
        footprint_bytes: Option<u64>,
        seed: u64,
    ) -> Result<ProfileGenerator, WorkloadError> {
        let requests = requests.unwrap_or(self.table.requests);
        if requests == 0 {
            return Err(bad("requests", "0 requests is no workload"));
        }
        let natural = self.footprint_bytes(requests);
        let footprint = footprint_bytes.unwrap_or(natural);
        let sizes = Sizes::new(self.sizes)?;
        let write_sizes = match self.write_sizes {
            [] => sizes.clone(),
            other => Sizes::new(other)?,
        };
        let largest = u64::from(sizes.bytes_max().max(write_sizes.bytes_max()));
        let least = 4 * largest;
        if !(least..=ADDRESS_BYTES_MAX).contains(&footprint) && footprint_bytes.is_some() {
            let name = self.table.name;
            let reason = format!("{footprint} bytes for {name} is not between {least} and 64 PiB");
            return Err(bad("footprint", reason));
        }
        let footprint = footprint.max(least) / PAGE_BYTES * PAGE_BYTES;
        let scale = requests as f64 / self.table.requests as f64;
        let hot_share = self.hot_bytes as f64 * scale / natural as f64;
        let hot_bytes = ((footprint as f64 * hot_share) as u64 / PAGE_BYTES * PAGE_BYTES)
            .clamp(largest, footprint - largest);
        Ok(ProfileGenerator::new(
            self,
            requests,
            footprint,
            hot_bytes,
            [sizes, write_sizes],
            seed,
        ))
    }
}

/// A stream of a profile's requests.
#[derive(Debug, Clone)]
pub struct ProfileGenerator {
    left: u64,
    /// Of reads, and of writes.
    sizes: [Sizes; 2],
    hot_bytes: u64,
    footprint_bytes: u64,
    extent_bytes: u64,
    extents: Zipf,
    scatter: Scatter,
    new_run: u64,
    cold: u64,
    write: u64,
    /// Next byte of the run, its end, and what it does.
    run: Run,
    cold_next: u64,
    run_rng: SeededRng,
    place_rng: SeededRng,
    size_rng: SeededRng,
    process_rng: SeededRng,
    /// The process of each extent.
    owners: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    next: u64,
    limit: u64,
    op: Op,
    is_cold: bool,
    process: u32,
}

impl ProfileGenerator {
    /// Bytes of the address range that the requests stay in.
    pub fn footprint_bytes(&self) -> u64 {
        self.footprint_bytes
    }

    fn new(
        profile: &Profile,
        requests: u64,
        footprint_bytes: u64,
        hot_bytes: u64,
        sizes: [Sizes; 2],
        seed: u64,
    ) -> ProfileGenerator {
        // An extent is as long as a run in the mean, so that extents are touched about evenly.
        let extent_bytes = (profile.run_bytes() as u64)
            .next_multiple_of(PAGE_BYTES)
            .min(hot_bytes);
        let extents = hot_bytes / extent_bytes;
        let name = profile.table.name;
        let rng = |part: &str| SeededRng::child(seed, &format!("{name}/{part}"));
        let mut lots = rng("owners");
        let owner = |_| lots.below(PROCESSES.into()) as u8;
        ProfileGenerator {
            left: requests,
            sizes,
            hot_bytes,
            footprint_bytes,
            extent_bytes,
            extents: Zipf::new(extents, profile.theta),
            scatter: Scatter::new(extents, rng("scatter").bits()),
            new_run: probability(profile.table.randomness),
            cold: probability(profile.cold_share),
            write: probability(profile.write_share),
            run: Run {
                next: 0,
                limit: 0,
                op: Op::Read,
                is_cold: false,
                process: 0,
            },
            cold_next: hot_bytes,
            run_rng: rng("runs"),
            place_rng: rng("places"),
            size_rng: rng("sizes"),
            process_rng: rng("processes"),
            owners: (0..extents).map(owner).collect(),
        }
    }

    fn begin_run(&mut self) {
        if self.run.is_cold {
            self.cold_next = self.run.next + COLD_GAP_BYTES;
        }
        let op = if self.run_rng.chance(self.write) {
            Op::Write
        } else {
            Op::Read
        };
        let is_cold = self.run_rng.chance(self.cold);
        let (next, limit, process) = if is_cold {
            let process = self.process_rng.below(PROCESSES.into()) as u32;
            (self.cold_next, self.footprint_bytes, process)
        } else {
            let extent = self.scatter.place(self.extents.draw(&mut self.place_rng));
            let process = self.owners[extent as usize].into();
            (extent * self.extent_bytes, self.hot_bytes, process)
        };
        self.run = Run {
            next,
            limit,
            op,
            is_cold,
            process,
        };
    }
}

impl Iterator for ProfileGenerator {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        if self.run.limit == 0 || self.run_rng.chance(self.new_run) {
            self.begin_run();
        }
        let sizes = &self.sizes[usize::from(self.run.op == Op::Write)];
        let bytes = sizes.draw(&mut self.size_rng);
        // A run that meets the end of its range goes on at the start of the range.
        if self.run.next + u64::from(bytes) > self.run.limit {
            self.run.next = if self.run.is_cold { self.hot_bytes } else { 0 };
        }
        let request = Request {
            process: self.run.process,
            ..Request::new(self.run.op, self.run.next, bytes)
        };
        self.run.next += u64::from(bytes);
        Some(request)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

/// What a profile's generator really gives, to hold against the table.
#[derive(Debug, Clone, Copy)]
pub struct ProfileFit {
    /// Mean request size in KiB.
    pub mean_kib: f64,
    /// Hit ratio of a textbook CLOCK of [`Profile::cache_bytes`].
    pub hit_ratio: f64,
    /// Share of requests that do not continue the one before.
    pub randomness: f64,
    /// Mean reuse distance in GiB, scaled up to the table's number of requests.
    pub reuse_gib: f64,
    /// Share of requests that write.
    pub write_share: f64,
    /// Distinct pages, in GiB, scaled up likewise.
    pub footprint_gib: f64,
}

impl Profile {
    /// Runs `requests` requests of the profile through the simulators.
    ///
    /// # Errors
    /// As [`Profile::generator`].
    pub fn measure(&self, requests: u64, seed: u64) -> Result<ProfileFit, WorkloadError> {
        use crate::stat::StatCounter;
        use crate::textbook::{Clock, HitCount, PageCache};
        use crate::workload::WorkloadInfo;

        const GIB: f64 = (1u64 << 30) as f64;
        let cache_pages = (self.cache_bytes(requests) / PAGE_BYTES).max(1);
        let mut clock = Clock::new(cache_pages as usize);
        let mut hits = HitCount::default();
        let mut counter = StatCounter::new(true);
        for request in self.generator(Some(requests), None, seed)? {
            counter.add(&request);
            clock.request(&request, &mut hits);
        }
        let name = self.table.name.to_owned();
        let stat = counter.finish(WorkloadInfo::made(name, "generated", requests, None));
        let up = self.table.requests as f64 / requests as f64;
        let reuse = stat
            .reuse
            .as_ref()
            .map_or(0.0, |reuse| reuse.mean_distance_bytes);
        Ok(ProfileFit {
            mean_kib: stat.all().mean_bytes() / 1024.0,
            hit_ratio: hits.ratio(),
            randomness: stat.randomness(),
            reuse_gib: reuse * up / GIB,
            write_share: 1.0 - stat.read_share(),
            footprint_gib: stat.footprint_bytes() as f64 * up / GIB,
        })
    }
}
