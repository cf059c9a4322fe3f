//! Generators: endless patterns cut to a number of requests, the same from a seed on every machine,
//! without an allocation per request.

mod alias;
mod rng;
mod scatter;
mod sizes;
mod threads;
mod zipf;

pub use alias::AliasTable;
pub use rng::{SeededRng, probability};
pub use scatter::Scatter;
pub use sizes::Sizes;
pub use threads::{Threads, ThreadsSpec};
pub use zipf::Zipf;

use crate::error::WorkloadError;
use crate::request::{ADDRESS_BYTES_MAX, Op, Request};

/// Where the requests of a generator go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// One after another, and again from the start at the end of the footprint.
    Sequential,
    /// Any block alike.
    Uniform,
    /// Block ranks by Zipf's law, ranks scattered over the footprint.
    Zipf {
        /// Skew: 0 is uniform, 0.99 the habit of benchmarks.
        theta: f64,
    },
}

impl Pattern {
    /// Names of the patterns as workloads.
    pub const NAMES: [&str; 3] = ["sequential", "uniform", "zipf"];
}

/// All that shapes a generated workload.
#[derive(Debug, Clone)]
pub struct GeneratorSpec {
    /// Addresses.
    pub pattern: Pattern,
    /// Number of requests.
    pub requests: u64,
    /// Bytes of the address range that they stay in.
    pub footprint_bytes: u64,
    /// Sizes.
    pub sizes: Sizes,
    /// Share of reads, from 0 to 1.
    pub read_share: f64,
    /// Seed.
    pub seed: u64,
}

/// A stream of generated requests; offsets are multiples of the sizes' alignment.
#[derive(Debug, Clone)]
pub struct Generator {
    left: u64,
    offsets: Offsets,
    sizes: Sizes,
    read_threshold: u64,
    all_reads: bool,
    offset_rng: SeededRng,
    size_rng: SeededRng,
    op_rng: SeededRng,
    align_bytes: u64,
    footprint_bytes: u64,
}

#[derive(Debug, Clone)]
enum Offsets {
    Sequential { next: u64 },
    Uniform { blocks: u64 },
    Zipf { zipf: Zipf, scatter: Scatter },
}

pub(crate) fn bad(parameter: &'static str, reason: impl Into<String>) -> WorkloadError {
    WorkloadError::BadParameter {
        parameter,
        reason: reason.into(),
    }
}

pub(crate) fn check_share(parameter: &'static str, share: f64) -> Result<(), WorkloadError> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(bad(parameter, format!("{share} is not between 0 and 1")))
}

impl Generator {
    /// Checks the specification and builds the tables.
    ///
    /// # Errors
    /// No requests, a footprint smaller than the largest request or larger than the address
    /// space, a share or a skew out of range.
    pub fn new(spec: &GeneratorSpec) -> Result<Generator, WorkloadError> {
        if spec.requests == 0 {
            return Err(bad("requests", "0 requests is no workload"));
        }
        check_share("read share", spec.read_share)?;
        let align_bytes = spec.sizes.alignment_bytes();
        let footprint_bytes = spec.footprint_bytes / align_bytes * align_bytes;
        let largest = spec.sizes.bytes_max();
        if footprint_bytes < u64::from(largest) || footprint_bytes > ADDRESS_BYTES_MAX {
            let given = spec.footprint_bytes;
            return Err(bad(
                "footprint",
                format!("{given} bytes is not between one request ({largest} bytes) and 64 PiB"),
            ));
        }
        let blocks = footprint_bytes / align_bytes;
        let offsets = match spec.pattern {
            Pattern::Sequential => Offsets::Sequential { next: 0 },
            Pattern::Uniform => Offsets::Uniform { blocks },
            Pattern::Zipf { theta } if (0.0..=8.0).contains(&theta) => Offsets::Zipf {
                zipf: Zipf::new(blocks, theta),
                scatter: Scatter::new(blocks, SeededRng::child(spec.seed, "scatter").bits()),
            },
            Pattern::Zipf { theta } => {
                return Err(bad("theta", format!("{theta} is not between 0 and 8")));
            }
        };
        Ok(Generator {
            left: spec.requests,
            offsets,
            sizes: spec.sizes.clone(),
            read_threshold: probability(spec.read_share),
            all_reads: spec.read_share >= 1.0,
            offset_rng: SeededRng::child(spec.seed, "offsets"),
            size_rng: SeededRng::child(spec.seed, "sizes"),
            op_rng: SeededRng::child(spec.seed, "ops"),
            align_bytes,
            footprint_bytes,
        })
    }
}

impl Iterator for Generator {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let bytes = self.sizes.draw(&mut self.size_rng);
        // A request that would cross the end of the footprint is moved back to end there.
        let last = self.footprint_bytes - u64::from(bytes);
        let offset = match &mut self.offsets {
            Offsets::Sequential { next } => {
                let offset = if *next > last { 0 } else { *next };
                *next = offset + u64::from(bytes);
                offset
            }
            Offsets::Uniform { blocks } => self.offset_rng.below(*blocks) * self.align_bytes,
            Offsets::Zipf { zipf, scatter } => {
                scatter.place(zipf.draw(&mut self.offset_rng)) * self.align_bytes
            }
        };
        let is_read = self.all_reads || self.op_rng.chance(self.read_threshold);
        let op = if is_read { Op::Read } else { Op::Write };
        Some(Request::new(op, offset.min(last), bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}
