//! What policies hit of a trace, over the size of a cache: curves without a drive.
//!
//! 1. Each page of 4 KiB that a read or a write touches is a use, in order; flushes and discards are none (`docs/traces.md`). A page that is not
//!    in the cache always comes.
//! 2. Of a sample only pages are taken whose hash is below a share of all hashes, and caches are smaller by the same share (SHARDS, Waldspurger
//!    and others, FAST 2015). Uses that the sample has more or fewer than that share of all are taken for uses of the most used page, as its
//!    correction says.
//! 3. Each policy with each size is a simulation of its own, and they run side by side.
//!
//! `size.rs` is how sizes are written, `table.rs` and `page.rs` are the answers for people.

mod page;
mod size;
mod table;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Serialize;
use wharf_policy::{Kind, Stream};
use wharf_runtime::Seed;
use wharf_workload::{Request, WorkloadError};

pub use page::render;
pub use size::{Size, SizeError};

/// The format of the JSON.
pub const SCHEMA: &str = "wharf.mrc/1";

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Curves of a trace.
#[derive(Debug, Clone, Serialize)]
pub struct Curves {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What the trace is called.
    pub trace: String,
    /// Reads and writes.
    pub requests: u64,
    /// Uses of pages.
    pub page_touches: u64,
    /// Pages that are used: of a sample an estimate.
    pub distinct_pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The share of pages that were looked at.
    pub sample: f64,
    /// A row for each policy and size.
    pub rows: Vec<Row>,
}

/// A policy with a size.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The policy.
    pub policy: &'static str,
    /// Pages that the cache has room for.
    pub cache_pages: u64,
    /// The same in bytes.
    pub cache_bytes: u64,
    /// By the pages that are used.
    pub cache_share: f64,
    /// Uses that found their page in the cache, by all uses.
    pub hit_ratio: f64,
}

/// A trace, as far as curves need it.
pub struct Uses {
    name: String,
    requests: u64,
    /// Of all pages, not of the sample alone.
    touches: u64,
    sample: f64,
    stream: Stream<(u32, u64)>,
    /// Bytes of memory that they may take.
    room_bytes: u64,
}

/// Uses between two looks at how much memory they take.
const LOOK_EVERY: u64 = 1 << 16;

impl Uses {
    /// Of no request yet; of pages this share is looked at.
    pub fn new(name: &str, sample: f64) -> Uses {
        Uses {
            name: name.into(),
            requests: 0,
            touches: 0,
            sample,
            stream: Stream::default(),
            room_bytes: u64::MAX,
        }
    }

    /// The same in so much memory: it is an error if they do not fit.
    pub fn within(self, room_bytes: u64) -> Uses {
        Uses { room_bytes, ..self }
    }

    /// Those of all requests.
    ///
    /// # Errors
    /// What reading them says; more uses than there are numbers.
    pub fn take(
        &mut self,
        requests: impl IntoIterator<Item = Result<Request, WorkloadError>>,
    ) -> Result<(), CurvesError> {
        for request in requests {
            let request = request?;
            if !request.op.moves_data() {
                continue;
            }
            self.requests += 1;
            for page in request.pages() {
                self.touch((request.stream, page))?;
            }
        }
        self.check()
    }

    /// Those of pages by number, each of a request of its own.
    ///
    /// # Errors
    /// No pages; more than there are numbers.
    pub fn take_pages(&mut self, pages: impl IntoIterator<Item = u64>) -> Result<(), CurvesError> {
        for page in pages {
            self.requests += 1;
            self.touch((0, page))?;
        }
        self.check()
    }

    /// One use of a page, of which a device and a number are the name.
    fn touch(&mut self, key: (u32, u64)) -> Result<(), CurvesError> {
        /// Uses that can be numbered.
        const MOST: u64 = u32::MAX as u64 - 1;
        self.touches += 1;
        // Compared as whole numbers: all hashes are below it if all are taken.
        let below = || (self.sample * 2f64.powi(64)) as u128;
        if self.sample >= 1.0 || u128::from(hash(key)) < below() {
            if self.stream.len() == MOST {
                return Err(CurvesError::TooMany);
            }
            if self.stream.len().is_multiple_of(LOOK_EVERY) {
                self.check_room()?;
            }
            self.stream.push(key);
        }
        Ok(())
    }

    /// There is memory for the uses that come until the next look.
    fn check_room(&self) -> Result<(), CurvesError> {
        match self.stream.bytes_with(LOOK_EVERY as usize) > self.room_bytes {
            true => Err(CurvesError::NoRoom {
                trace: self.name.clone(),
                touches: self.touches - 1,
                room_mib: self.room_bytes >> 20,
            }),
            false => Ok(()),
        }
    }

    /// There is something to look at.
    fn check(&self) -> Result<(), CurvesError> {
        match self.stream.is_empty() {
            true => Err(CurvesError::Nothing(self.name.clone())),
            false => Ok(()),
        }
    }

    /// Pages that are used, by the sample.
    pub fn distinct(&self) -> u64 {
        (f64::from(self.stream.distinct()) / self.sample).round() as u64
    }

    /// Bytes of memory that each simulation takes beside what it has of the trace.
    pub fn run_bytes(&self) -> u64 {
        /// Of a page that is used: where it is, its links, its key among those that left. Of a use: its next one, and a place in a heap.
        const OF_PAGE: u64 = 80;
        const OF_USE: u64 = 12;
        u64::from(self.stream.distinct()) * OF_PAGE + self.stream.len() * OF_USE
    }

    /// Simulates each policy with each size, so many at a time. `done` is called after each, and says whether to go on: if not, there are no
    /// curves.
    pub fn curves(
        &self,
        kinds: &[Kind],
        sizes: &[Size],
        jobs: usize,
        done: impl Fn() -> ControlFlow<()> + Sync,
    ) -> Option<Curves> {
        let distinct = self.distinct();
        let mut pages: Vec<u64> = sizes.iter().map(|size| size.pages(distinct)).collect();
        pages.sort_unstable();
        pages.dedup();
        let points: Vec<(Kind, u64)> = kinds
            .iter()
            .flat_map(|kind| pages.iter().map(|pages| (*kind, *pages)))
            .collect();
        let (next, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let mut own = Vec::new();
            // Relaxed: who gets which point does not matter, nor who begins one too many.
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && let Some((kind, pages)) = points.get(at)
                && !is_stopped.load(Ordering::Relaxed)
            {
                own.push((at, self.hit_ratio(*kind, *pages)));
                is_stopped.fetch_or(done().is_break(), Ordering::Relaxed);
            }
            own
        };
        let mut ratios: Vec<(usize, f64)> = std::thread::scope(|scope| {
            let workers = (0..jobs.max(1)).map(|_| scope.spawn(work));
            let workers: Vec<_> = workers.collect();
            let ended = workers.into_iter().map(|worker| worker.join());
            ended
                .flat_map(|own| own.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        if is_stopped.into_inner() {
            return None;
        }
        ratios.sort_by_key(|(at, _)| *at);
        let row = |(&(kind, pages), (_, hit_ratio)): (&(Kind, u64), (usize, f64))| Row {
            policy: kind.name(),
            cache_pages: pages,
            cache_bytes: pages * PAGE,
            cache_share: pages as f64 / distinct.max(1) as f64,
            hit_ratio,
        };
        Some(Curves {
            schema: SCHEMA,
            trace: self.name.clone(),
            requests: self.requests,
            page_touches: self.touches,
            distinct_pages: distinct,
            page_bytes: PAGE,
            sample: self.sample,
            rows: points.iter().zip(ratios).map(row).collect(),
        })
    }

    fn hit_ratio(&self, kind: Kind, pages: u64) -> f64 {
        let frames = (pages as f64 * self.sample).round() as u64;
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        let hits = self.stream.hits(kind, frames) as f64;
        let sampled = self.stream.len() as f64;
        let expected = self.touches as f64 * self.sample;
        match self.sample < 1.0 && frames > 0 {
            true => ((hits + expected - sampled) / expected).clamp(0.0, 1.0),
            false => hits / sampled,
        }
    }
}

/// Why there are no curves.
#[derive(Debug, thiserror::Error)]
pub enum CurvesError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] WorkloadError),
    /// Nothing is used.
    #[error("{0} has no reads and writes to look at: it has none, or the sample is too small")]
    Nothing(String),
    /// There is not enough memory.
    #[error(
        "{trace} has more than the {touches} uses of pages that fit into {room_mib} MiB of memory, which can be had: look at a sample (--sample 1%), or \
         take the first --requests"
    )]
    NoRoom {
        /// The trace.
        trace: String,
        /// Uses that were read.
        touches: u64,
        /// The memory.
        room_mib: u64,
    },
    /// More than can be numbered.
    #[error("the trace uses more than 4 billion pages: look at a sample of them (--sample 1%)")]
    TooMany,
}

/// A number for a page, evenly spread.
fn hash((stream, page): (u32, u64)) -> u64 {
    Seed(page).index(u64::from(stream)).0
}

impl Curves {
    /// As JSON, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read grew until the process was killed.
    #[test]
    fn uses_beyond_their_memory_are_an_error() {
        let pages = || (0..1_000_000).map(|page| page * 7);
        let taken = |room_bytes| Uses::new("t", 1.0).within(room_bytes).take_pages(pages());
        let line = taken(20 << 20).unwrap_err().to_string();
        assert!(line.starts_with("t has more than the "), "{line}");
        assert!(line.contains("fit into 20 MiB of memory"), "{line}");
        assert!(taken(u64::MAX).is_ok());
        // A sample is of fewer.
        let sampled = Uses::new("t", 0.01).within(20 << 20).take_pages(pages());
        assert!(sampled.is_ok());
    }
}
