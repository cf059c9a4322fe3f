//! What a workload is: counts, mix, sizes, footprint, reuse.

use serde::Serialize;

use crate::error::WorkloadError;
use crate::footprint::Footprint;
use crate::layout::{StreamExtent, StreamSurvey};
use crate::request::{Op, PAGE_BYTES, Request};
use crate::reuse::StackDistances;
use crate::workload::{Workload, WorkloadInfo};

/// Buckets of the size histogram: sizes below 2^31.
const SIZE_BUCKETS: usize = 31;

/// Cache sizes, as divisors of the footprint, for which the hit ratio under LRU is given.
const CACHE_DIVISORS: [u64; 5] = [64, 16, 8, 4, 2];

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OpStat {
    /// Their number.
    pub requests: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl OpStat {
    /// Mean size in bytes; 0 if there are none.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.requests.max(1) as f64
    }
}

/// Requests of sizes from a power of two to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// Smallest size in bytes; the bucket ends below twice that.
    pub bytes_from: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// The times of a trace that has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimeStat {
    /// Earliest, in ns on the trace's clock.
    pub first_ns: u64,
    /// Latest.
    pub last_ns: u64,
    /// Requests whose time lies before that of the request before.
    pub backwards: u64,
}

/// Reuse of pages, by LRU stack distance (distinct other pages between two touches).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReuseStat {
    /// Mean over all touches but the first of each page, in bytes of pages.
    pub mean_distance_bytes: f64,
    /// Hit ratio of page touches under LRU, for caches of some shares of the footprint.
    pub lru: Vec<LruPoint>,
}

/// Hit ratio at one cache size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LruPoint {
    /// Cache size in pages.
    pub cache_pages: u64,
    /// The same as a share of the footprint.
    pub share: f64,
    /// Hits divided by touches.
    pub hit_ratio: f64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadStat {
    /// Name, format, bad lines.
    pub info: WorkloadInfo,
    /// Reads.
    pub reads: OpStat,
    /// Writes.
    pub writes: OpStat,
    /// Flushes, which are in no other figure.
    pub flushes: u64,
    /// Discards, which are in no other figure.
    pub discards: OpStat,
    /// Smallest request in bytes.
    pub bytes_min: u32,
    /// Largest request in bytes.
    pub bytes_max: u32,
    /// Sizes by powers of two, empty ends cut off.
    pub sizes: Vec<SizeBucket>,
    /// Distinct 4 KiB pages, counted per stream.
    pub unique_pages: u64,
    /// Touches of 4 KiB pages.
    pub page_touches: u64,
    /// Requests of which offset and size are multiples of 4 KiB.
    pub page_aligned: u64,
    /// Requests that begin where the one before on their stream ended.
    pub sequential: u64,
    /// Streams (devices, volumes, files) in order of appearance.
    pub streams: Vec<StreamExtent>,
    /// Times, where the trace has them.
    pub time: Option<TimeStat>,
    /// Reuse distances, if asked for.
    pub reuse: Option<ReuseStat>,
}

impl WorkloadStat {
    /// Reads through a workload and counts. `with_reuse` adds stack distances (about 0.2 µs and 40
    /// bytes a page).
    ///
    /// # Errors
    /// The workload cannot be read to its end.
    pub fn of(mut workload: Workload, with_reuse: bool) -> Result<WorkloadStat, WorkloadError> {
        let mut counter = StatCounter::new(with_reuse);
        let mut batch = Vec::new();
        while workload.next_batch(&mut batch)? {
            batch.iter().for_each(|request| counter.add(request));
        }
        Ok(counter.finish(workload.info()))
    }

    /// Number of reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests
    }

    /// Both kinds together.
    pub fn all(&self) -> OpStat {
        OpStat {
            requests: self.requests(),
            bytes: self.reads.bytes + self.writes.bytes,
        }
    }

    /// Share of requests that are reads.
    pub fn read_share(&self) -> f64 {
        self.reads.requests as f64 / self.requests().max(1) as f64
    }

    /// Share of requests that do not begin where the one before ended.
    pub fn randomness(&self) -> f64 {
        1.0 - self.sequential as f64 / self.requests().max(1) as f64
    }

    /// Bytes of the distinct pages.
    pub fn footprint_bytes(&self) -> u64 {
        self.unique_pages * PAGE_BYTES
    }

    /// Page touches divided by distinct pages: 1 is no reuse at all.
    pub fn touches_per_page(&self) -> f64 {
        self.page_touches as f64 / self.unique_pages.max(1) as f64
    }

    /// From the earliest to the latest time.
    pub fn duration_ns(&self) -> Option<u64> {
        self.time.map(|time| time.last_ns - time.first_ns)
    }
}

/// Counts requests one by one.
pub struct StatCounter {
    ops: [OpStat; 2],
    flushes: u64,
    discards: OpStat,
    sizes: [[u64; 2]; SIZE_BUCKETS],
    bytes_min: u32,
    bytes_max: u32,
    footprint: Footprint,
    page_touches: u64,
    page_aligned: u64,
    sequential: u64,
    streams: StreamSurvey,
    /// End of the last request, per stream.
    ends: Vec<u64>,
    time: Option<TimeStat>,
    time_before: u64,
    reuse: Option<ReuseCounter>,
}

impl StatCounter {
    /// Counts of nothing yet.
    pub fn new(with_reuse: bool) -> StatCounter {
        StatCounter {
            ops: [OpStat::default(); 2],
            flushes: 0,
            discards: OpStat::default(),
            sizes: [[0; 2]; SIZE_BUCKETS],
            bytes_min: u32::MAX,
            bytes_max: 0,
            footprint: Footprint::default(),
            page_touches: 0,
            page_aligned: 0,
            sequential: 0,
            streams: StreamSurvey::default(),
            ends: Vec::new(),
            time: None,
            time_before: 0,
            reuse: with_reuse.then(ReuseCounter::default),
        }
    }

    /// Counts a request.
    pub fn add(&mut self, request: &Request) {
        let op = match request.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => {
                self.flushes += 1;
                return;
            }
            Op::Discard => {
                self.discards.requests += 1;
                self.discards.bytes += u64::from(request.bytes);
                return;
            }
        };
        self.ops[op].requests += 1;
        self.ops[op].bytes += u64::from(request.bytes);
        self.sizes[request.bytes.max(1).ilog2() as usize % SIZE_BUCKETS][op] += 1;
        self.bytes_min = self.bytes_min.min(request.bytes);
        self.bytes_max = self.bytes_max.max(request.bytes);
        self.page_aligned += u64::from(request.is_page_aligned());
        let stream = self.streams.add(request);
        match self.ends.get_mut(stream) {
            Some(end) => {
                self.sequential += u64::from(*end == request.offset);
                *end = request.end();
            }
            None => self.ends.push(request.end()),
        }
        let pages = request.pages();
        self.page_touches += pages.end - pages.start;
        self.footprint.insert(request.stream, pages.clone());
        if let Some(time) = request.time() {
            self.add_time(time);
        }
        if let Some(reuse) = &mut self.reuse {
            pages.for_each(|page| reuse.touch((request.stream, page)));
        }
    }

    fn add_time(&mut self, time_ns: u64) {
        let fresh = TimeStat {
            first_ns: time_ns,
            last_ns: time_ns,
            backwards: 0,
        };
        let time = self.time.get_or_insert(fresh);
        time.first_ns = time.first_ns.min(time_ns);
        time.last_ns = time.last_ns.max(time_ns);
        time.backwards += u64::from(time_ns < self.time_before);
        self.time_before = time_ns;
    }

    /// The result.
    pub fn finish(self, info: WorkloadInfo) -> WorkloadStat {
        let used = |bucket: &[u64; 2]| bucket[0] + bucket[1] > 0;
        let first = self.sizes.iter().position(used).unwrap_or(0);
        let end = self
            .sizes
            .iter()
            .rposition(used)
            .map_or(first, |last| last + 1);
        let bucket = |i: usize| {
            let [reads, writes] = self.sizes[i];
            SizeBucket {
                bytes_from: 1 << i,
                reads,
                writes,
            }
        };
        let unique_pages = self.footprint.unique_pages();
        WorkloadStat {
            info,
            reads: self.ops[0],
            writes: self.ops[1],
            flushes: self.flushes,
            discards: self.discards,
            bytes_min: self.bytes_min.min(self.bytes_max),
            bytes_max: self.bytes_max,
            sizes: (first..end).map(bucket).collect(),
            unique_pages,
            page_touches: self.page_touches,
            page_aligned: self.page_aligned,
            sequential: self.sequential,
            streams: self.streams.extents().to_vec(),
            time: self.time,
            reuse: self.reuse.map(|reuse| reuse.finish(unique_pages)),
        }
    }
}

/// Stack distances in a histogram fine enough for hit ratios: exact below 256, then 128 steps per
/// power of two.
#[derive(Default)]
struct ReuseCounter {
    distances: StackDistances<(u32, u64)>,
    histogram: Vec<u64>,
    first_touches: u64,
    sum: u128,
}

const STEPS: u64 = 128;

impl ReuseCounter {
    fn touch(&mut self, page: (u32, u64)) {
        let Some(distance) = self.distances.touch(page) else {
            self.first_touches += 1;
            return;
        };
        self.sum += u128::from(distance);
        let bucket = bucket_of(distance);
        if bucket >= self.histogram.len() {
            self.histogram.resize(bucket + 1, 0);
        }
        self.histogram[bucket] += 1;
    }

    fn finish(self, unique_pages: u64) -> ReuseStat {
        let reuses: u64 = self.histogram.iter().sum();
        let touches = reuses + self.first_touches;
        let point = |divisor: u64| {
            let cache_pages = (unique_pages / divisor).max(1);
            let near = self
                .histogram
                .iter()
                .take(bucket_of(cache_pages))
                .sum::<u64>();
            LruPoint {
                cache_pages,
                share: 1.0 / divisor as f64,
                hit_ratio: near as f64 / touches.max(1) as f64,
            }
        };
        ReuseStat {
            mean_distance_bytes: self.sum as f64 / reuses.max(1) as f64 * PAGE_BYTES as f64,
            lru: CACHE_DIVISORS.map(point).to_vec(),
        }
    }
}

/// Distances of one bucket differ by less than 1/128.
fn bucket_of(distance: u64) -> usize {
    if distance < 2 * STEPS {
        return distance as usize;
    }
    let shift = distance.ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (distance >> shift)) as usize
}
