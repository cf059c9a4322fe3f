//! The course of a run as a fixed number of intervals, though nobody knows how long it will last.
//!
//! Recording starts with short buckets. When time runs past the last one, neighbours are added
//! together and every bucket counts twice the time. So memory is fixed, a record is a shift, a
//! comparison, four additions and a count in a histogram, and a finished run has between half and
//! all of its buckets in use. Widths are powers of two of a nanosecond, and all sums are integers:
//! the result does not depend on the order in which events came.
//!
//! Latencies of a bucket are a histogram with 16 steps for each power of two, of 2.3 kB: 460 kB for
//! all buckets. Histograms of one kind add up count by count, as the other sums do.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::latency::{LATENCY_MAX_NS, quantile_us};
use super::ratio;

/// Most points that a timeline can have.
pub const MAX_POINTS: usize = 200;

/// Buckets begin at 2^10 ns, about a microsecond.
const FIRST_SHIFT: u32 = 10;

/// The finest step of latencies, in nanoseconds.
const LATENCY_STEP_NS: u64 = 8;

/// One interval of a run, from `t_s` to the next point's `t_s`; the last ends with the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// Start of the interval, in seconds from the start of the run.
    pub t_s: f64,
    /// Bytes of the requests that completed in it, in 10^6 bytes a second.
    pub mb_s: f64,
    /// Latencies of the requests that completed in it; `None` without requests.
    pub latency_us: Option<IntervalLatency>,
    /// Share of 4 KiB page touches that were hits, as `hit_ratio` of the row; `None` without touches.
    pub hit_ratio: Option<f64>,
    /// Flash pages programmed by pages written to the drives; `None` where none was written. Pages are programmed a while
    /// after they were written: of a short interval it may be below 1.
    pub write_amplification: Option<f64>,
    /// Share of the interval in which garbage was collected, averaged over firmware cores.
    pub gc_share: f64,
    /// Valid pages that garbage collection moved.
    pub gc_moved_pages: u64,
}

/// The latencies of an interval, in microseconds.
///
/// Each percentile is the upper end of its histogram's step: too high by up to a sixteenth or 8 ns, never too low.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IntervalLatency {
    /// The mean, of their exact sum.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
}

/// A request that completed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Completed {
    /// From when it was sent.
    pub latency_ns: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The 4 KiB pages that it looked for in a cache; 0 for a design without one.
    pub touches: u64,
    /// Those that it found there.
    pub hits: u64,
}

/// What drives did between two readings of their statistics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sampled {
    /// Touched pages that they had in frames.
    pub frame_hits: u64,
    /// Pages programmed, for whatever reason.
    pub programmed_pages: u64,
    /// Pages programmed for the host alone.
    pub host_pages: u64,
    /// Valid pages that garbage collection moved.
    pub gc_moved_pages: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    bytes: u64,
    latency_ns: u64,
    touches: u64,
    hits: u64,
    gc_ns: u64,
    programmed_pages: u64,
    host_pages: u64,
    gc_moved_pages: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.bytes += other.bytes;
        self.latency_ns += other.latency_ns;
        self.touches += other.touches;
        self.hits += other.hits;
        self.gc_ns += other.gc_ns;
        self.programmed_pages += other.programmed_pages;
        self.host_pages += other.host_pages;
        self.gc_moved_pages += other.gc_moved_pages;
    }
}

#[derive(Debug, Clone)]
struct Bucket {
    sums: Sums,
    latencies_ns: Histogram<u32>,
}

impl Bucket {
    fn new() -> Bucket {
        let latencies_ns = Histogram::new_with_bounds(LATENCY_STEP_NS, LATENCY_MAX_NS, 1);
        Bucket {
            sums: Sums::default(),
            latencies_ns: latencies_ns.expect("fixed bounds"),
        }
    }

    fn add(&mut self, other: &Bucket) {
        self.sums.add(other.sums);
        let added = self.latencies_ns.add(&other.latencies_ns);
        added.expect("histograms of one kind");
    }

    /// Forgets everything, and keeps the memory.
    fn clear(&mut self) {
        self.sums = Sums::default();
        self.latencies_ns.reset();
    }

    fn latency(&self) -> Option<IntervalLatency> {
        let at = |quantile| quantile_us(&self.latencies_ns, quantile);
        let mean_ns = ratio(self.sums.latency_ns as f64, self.latencies_ns.len() as f64);
        (!self.latencies_ns.is_empty()).then(|| IntervalLatency {
            mean: rounded(mean_ns / 1e3, 1e3),
            p50: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
        })
    }
}

/// Collects the events of one run into a timeline; allocates nothing once made.
#[derive(Debug, Clone)]
pub struct TimelineBuilder {
    /// As many as there can be points.
    buckets: Box<[Bucket]>,
    /// A bucket is 2^shift nanoseconds wide.
    shift: u32,
    gc_cores: u32,
}

impl TimelineBuilder {
    /// An empty timeline of drives with `gc_cores` firmware cores in all, each of which may collect
    /// garbage on its own.
    pub fn new(gc_cores: u32) -> Self {
        Self {
            buckets: (0..MAX_POINTS).map(|_| Bucket::new()).collect(),
            shift: FIRST_SHIFT,
            gc_cores: gc_cores.max(1),
        }
    }

    /// Counts a request that completed `t_ns` after the start of the run.
    #[inline]
    pub fn record(&mut self, t_ns: u64, request: Completed) {
        let bucket = self.bucket_at(t_ns);
        bucket.sums.bytes += request.bytes;
        bucket.sums.latency_ns += request.latency_ns;
        bucket.sums.touches += request.touches;
        bucket.sums.hits += request.hits;
        bucket.latencies_ns.saturating_record(request.latency_ns);
    }

    /// Counts one core's garbage collection from `from_ns` to `to_ns` after the start of the run.
    pub fn record_gc(&mut self, from_ns: u64, to_ns: u64) {
        self.spread(from_ns, to_ns, to_ns.saturating_sub(from_ns), |sums| {
            &mut sums.gc_ns
        });
    }

    /// Counts what drives did at some time from `from_ns` to `to_ns` after the start of the run: it is spread
    /// evenly over that time.
    pub fn record_sampled(&mut self, from_ns: u64, to_ns: u64, did: Sampled) {
        self.spread(from_ns, to_ns, did.frame_hits, |sums| &mut sums.hits);
        self.spread(from_ns, to_ns, did.programmed_pages, |sums| {
            &mut sums.programmed_pages
        });
        self.spread(from_ns, to_ns, did.host_pages, |sums| &mut sums.host_pages);
        self.spread(from_ns, to_ns, did.gc_moved_pages, |sums| {
            &mut sums.gc_moved_pages
        });
    }

    /// Divides `amount` among the buckets from `from_ns` to `to_ns`, by the time that each has of it.
    fn spread(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        amount: u64,
        sum: impl Fn(&mut Sums) -> &mut u64,
    ) {
        if to_ns <= from_ns || amount == 0 {
            return;
        }
        // Widen first: the width must not change under the loop.
        self.bucket_at(to_ns - 1);
        let up_to = |at_ns: u64| {
            let part = u128::from(amount) * u128::from(at_ns - from_ns);
            (part / u128::from(to_ns - from_ns)) as u64
        };
        let mut start_ns = from_ns;
        while start_ns < to_ns {
            let index = (start_ns >> self.shift) as usize;
            let end_ns = to_ns.min((index as u64 + 1) << self.shift);
            *sum(&mut self.buckets[index].sums) += up_to(end_ns) - up_to(start_ns);
            start_ns = end_ns;
        }
    }

    /// Adds the events of another timeline of the same run, such as another client's.
    pub fn merge(&mut self, other: &TimelineBuilder) {
        while self.shift < other.shift {
            self.widen();
        }
        for (index, bucket) in other.buckets.iter().enumerate() {
            self.buckets[index >> (self.shift - other.shift)].add(bucket);
        }
    }

    /// The points of a run that lasted `elapsed_ns`; none for a run that took no time.
    ///
    /// The last interval ends with the run. Where that would leave it shorter than half a bucket it
    /// is added to the one before, so that a few last requests do not make a peak. What was recorded
    /// after `elapsed_ns` counts in the last interval.
    pub fn finish(&self, elapsed_ns: u64) -> Vec<TimelinePoint> {
        if elapsed_ns == 0 {
            return Vec::new();
        }
        let mut whole = self.clone();
        whole.widen_to(elapsed_ns - 1);
        whole.points(elapsed_ns)
    }

    /// The points of a run that ends within the buckets.
    fn points(&self, elapsed_ns: u64) -> Vec<TimelinePoint> {
        let width_ns = 1u64 << self.shift;
        let mut used = elapsed_ns.div_ceil(width_ns) as usize;
        let last_ns = elapsed_ns - (used as u64 - 1) * width_ns;
        if used > 1 && last_ns < width_ns / 2 {
            used -= 1;
        }
        let mut buckets = self.buckets[..used].to_vec();
        for late in &self.buckets[used..] {
            buckets[used - 1].add(late);
        }
        let point = |(index, bucket): (usize, &Bucket)| {
            let start_ns = index as u64 * width_ns;
            let end_ns = if index + 1 == used {
                elapsed_ns
            } else {
                start_ns + width_ns
            };
            self.point(bucket, start_ns, end_ns - start_ns)
        };
        buckets.iter().enumerate().map(point).collect()
    }

    fn point(&self, bucket: &Bucket, start_ns: u64, width_ns: u64) -> TimelinePoint {
        let sums = bucket.sums;
        let core_ns = width_ns as f64 * f64::from(self.gc_cores);
        // Hits in frames are spread over a while: no more than there were touches in each part of it.
        let hits = sums.hits.min(sums.touches);
        let share = |part: u64, of: u64| rounded(ratio(part as f64, of as f64), 1e6);
        TimelinePoint {
            t_s: start_ns as f64 / 1e9,
            mb_s: rounded(sums.bytes as f64 * 1e3 / width_ns as f64, 1e3),
            latency_us: bucket.latency(),
            hit_ratio: (sums.touches > 0).then(|| share(hits, sums.touches)),
            write_amplification: (sums.host_pages > 0)
                .then(|| share(sums.programmed_pages, sums.host_pages)),
            gc_share: rounded(ratio(sums.gc_ns as f64, core_ns).min(1.0), 1e6),
            gc_moved_pages: sums.gc_moved_pages,
        }
    }

    #[inline]
    fn bucket_at(&mut self, t_ns: u64) -> &mut Bucket {
        if t_ns >> self.shift >= MAX_POINTS as u64 {
            self.widen_to(t_ns);
        }
        &mut self.buckets[(t_ns >> self.shift) as usize]
    }

    #[cold]
    fn widen_to(&mut self, t_ns: u64) {
        while t_ns >> self.shift >= MAX_POINTS as u64 {
            self.widen();
        }
    }

    /// Makes every bucket twice as wide.
    fn widen(&mut self) {
        for index in 0..MAX_POINTS / 2 {
            // What stood at `index` was added to an earlier one: its memory moves on to be cleared.
            self.buckets.swap(index, 2 * index);
            let (sums, rest) = self.buckets.split_at_mut(2 * index + 1);
            sums[index].add(&rest[0]);
        }
        for bucket in &mut self.buckets[MAX_POINTS / 2..] {
            bucket.clear();
        }
        self.shift += 1;
    }
}

/// A figure for a chart needs no more than a few digits, and the file is shorter without the rest.
fn rounded(value: f64, per_unit: f64) -> f64 {
    (value * per_unit).round() / per_unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(bytes: u64, touches: u64, hits: u64) -> Completed {
        Completed {
            latency_ns: 1_000 + bytes,
            bytes,
            touches,
            hits,
        }
    }

    fn frame_hits(frame_hits: u64) -> Sampled {
        Sampled {
            frame_hits,
            ..Sampled::default()
        }
    }

    #[test]
    fn hits_that_become_known_together_are_spread_and_none_is_lost() {
        let mut timeline = TimelineBuilder::new(1);
        timeline.record(300_000, completed(4096, 100, 5));
        timeline.record_sampled(100_000, 300_000, frame_hits(37));
        timeline.record_sampled(7, 7, frame_hits(0));
        let hits: u64 = timeline.buckets.iter().map(|bucket| bucket.sums.hits).sum();
        assert_eq!(hits, 42);
        let with_hits = timeline
            .buckets
            .iter()
            .filter(|bucket| bucket.sums.hits > 0);
        assert!(with_hits.count() > 10);
        let is_early = |(at, bucket): (usize, &Bucket)| {
            bucket.sums.hits > 0 && ((at as u64 + 1) << timeline.shift) <= 100_000
        };
        assert!(!timeline.buckets.iter().enumerate().any(is_early));
    }

    #[test]
    fn nothing_is_lost_while_buckets_widen() {
        let mut timeline = TimelineBuilder::new(1);
        let (mut t_ns, mut bytes) = (0, 0);
        for i in 0..100_000u64 {
            t_ns += 1 + i % 977;
            timeline.record(t_ns, completed(4096, 2, i % 2));
            bytes += 4096;
        }
        let points = timeline.finish(t_ns);
        assert!(points.len() <= MAX_POINTS && points.len() >= MAX_POINTS / 2);
        let mut ends: Vec<f64> = points.iter().skip(1).map(|p| p.t_s).collect();
        ends.push(t_ns as f64 / 1e9);
        let sum: f64 = points
            .iter()
            .zip(&ends)
            .map(|(p, end)| p.mb_s * 1e6 * (end - p.t_s))
            .sum();
        assert!((sum / bytes as f64 - 1.0).abs() < 1e-5, "{sum} of {bytes}");
        assert!(points.iter().all(|p| p.gc_share == 0.0));
        assert!(
            points
                .iter()
                .all(|p| (p.hit_ratio.expect("touched") - 0.25).abs() < 0.05)
        );
    }

    #[test]
    fn the_order_and_the_division_of_events_do_not_matter() {
        let events: Vec<u64> = (0..10_000u64).map(|i| i * i % 50_000_017).collect();
        let mut forward = TimelineBuilder::new(2);
        let mut backward = TimelineBuilder::new(2);
        let did = Sampled {
            frame_hits: 1,
            programmed_pages: 7,
            host_pages: 3,
            gc_moved_pages: 4,
        };
        let mut halves = [TimelineBuilder::new(2), TimelineBuilder::new(2)];
        for (i, &t_ns) in events.iter().enumerate() {
            forward.record(t_ns, completed(t_ns % 9_000, 1, 1));
            forward.record_gc(t_ns, t_ns + 12_345);
            forward.record_sampled(t_ns, t_ns + 1, did);
            // One half sees a short run only, so that widths differ at the merge.
            let half = &mut halves[usize::from(t_ns > 1_000_000)];
            half.record(t_ns, completed(t_ns % 9_000, 1, 1));
            half.record_gc(t_ns, t_ns + 12_345);
            half.record_sampled(t_ns, t_ns + 1, did);
            let t_ns = events[events.len() - 1 - i];
            backward.record(t_ns, completed(t_ns % 9_000, 1, 1));
            backward.record_gc(t_ns, t_ns + 12_345);
            backward.record_sampled(t_ns, t_ns + 1, did);
        }
        let [mut short, long] = halves;
        assert!(short.shift < long.shift);
        let mut other_way = long.clone();
        other_way.merge(&short);
        short.merge(&long);
        let want = forward.finish(50_000_017);
        assert_eq!(want, backward.finish(50_000_017));
        assert_eq!(want, short.finish(50_000_017));
        assert_eq!(want, other_way.finish(50_000_017));
    }

    #[test]
    fn percentiles_are_of_the_interval_and_as_exact_as_said() {
        let mut timeline = TimelineBuilder::new(1);
        // 100,000 requests in two halves of a second: the second half is a hundred times as slow.
        for i in 0..100_000u64 {
            let latency_ns = (1 + i % 1_000) * if i < 50_000 { 100 } else { 10_000 };
            let request = Completed {
                latency_ns,
                ..Completed::default()
            };
            timeline.record(i * 10_000, request);
        }
        let counted: u64 = timeline.buckets.iter().map(|b| b.latencies_ns.len()).sum();
        assert_eq!(counted, 100_000);
        let points = timeline.finish(1_000_000_000);
        let near = |got: f64, want: f64| got >= want && got <= want * 1.0625 + 0.008;
        for (at_s, factor) in [(0.25, 1.0), (0.75, 100.0)] {
            let point = points.iter().rev().find(|point| point.t_s <= at_s);
            let latency = point.and_then(|point| point.latency_us).expect("requests");
            // An interval has some hundreds of the thousand latencies: all of them come in two intervals.
            assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.p99_9);
            assert!(latency.p99_9 <= 100.0 * factor * 1.0625, "{latency:?}");
            assert!(latency.p50 >= 0.1 * factor, "{latency:?}");
        }
        let mut whole = TimelineBuilder::new(1);
        for latency_ns in (1..=1_000).map(|i| i * 100) {
            let request = Completed {
                latency_ns,
                ..Completed::default()
            };
            whole.record(5, request);
        }
        let latency = whole.finish(10)[0].latency_us.expect("requests");
        assert_eq!(latency.mean, 50.05);
        assert!(
            near(latency.p50, 50.0) && near(latency.p99, 99.0),
            "{latency:?}"
        );
        assert!(near(latency.p99_9, 99.9), "{latency:?}");
    }

    #[test]
    fn what_drives_did_is_spread_and_none_is_lost() {
        let mut timeline = TimelineBuilder::new(1);
        let did = |host_pages, gc_moved_pages| Sampled {
            frame_hits: 0,
            programmed_pages: host_pages + gc_moved_pages,
            host_pages,
            gc_moved_pages,
        };
        // From half of a millisecond on, collection moves two pages for each that is written; then nothing is written.
        timeline.record_sampled(0, 500_000, did(1_000, 0));
        timeline.record_sampled(500_000, 900_000, did(1_000, 2_000));
        let points = timeline.finish(1_000_000);
        let moved: u64 = points.iter().map(|point| point.gc_moved_pages).sum();
        assert_eq!(moved, 2_000);
        let at = |t_s: f64| {
            points
                .iter()
                .rev()
                .find(|point| point.t_s <= t_s)
                .expect("from 0 on")
        };
        assert_eq!(at(0.000_2).write_amplification, Some(1.0));
        let collecting = at(0.000_7).write_amplification.expect("pages were written");
        assert!((collecting - 3.0).abs() < 0.2, "{collecting}");
        assert_eq!(at(0.000_95).write_amplification, None);
        assert!(points.iter().all(|point| point.latency_us.is_none()));
    }

    #[test]
    fn memory_does_not_grow_with_a_run() {
        let mut timeline = TimelineBuilder::new(1);
        let counters = |timeline: &TimelineBuilder| -> usize {
            let buckets = timeline.buckets.iter();
            buckets
                .map(|bucket| bucket.latencies_ns.distinct_values())
                .sum()
        };
        let at_first = counters(&timeline);
        assert!(at_first * size_of::<u32>() <= 480_000, "{at_first}");
        for i in 0..63 {
            let request = Completed {
                latency_ns: u64::MAX >> (i + 1),
                ..Completed::default()
            };
            timeline.record(1 << i, request);
        }
        assert_eq!(counters(&timeline), at_first);
        assert_eq!(timeline.buckets.len(), MAX_POINTS);
        let longest = timeline.finish(1 << 62)[0].latency_us.expect("requests");
        assert!(longest.p99_9 >= 3.6e9, "an hour and no more: {longest:?}");
    }

    #[test]
    fn gc_is_spread_over_the_intervals_it_covers() {
        let mut timeline = TimelineBuilder::new(2);
        // 1 ms in 200 buckets of 8,192 ns: GC of one core of two from 0.25 to 0.75 ms.
        timeline.record_gc(250_000, 750_000);
        timeline.record_gc(800_000, 800_000);
        let points = timeline.finish(1_000_000);
        let share_at = |t_s: f64| {
            points
                .iter()
                .rev()
                .find(|p| p.t_s <= t_s)
                .expect("from 0 on")
                .gc_share
        };
        assert_eq!(share_at(0.000_1), 0.0);
        assert_eq!(share_at(0.000_5), 0.5);
        assert_eq!(share_at(0.000_9), 0.0);
        let mean = points.iter().map(|p| p.gc_share).sum::<f64>() / points.len() as f64;
        assert!((mean - 0.25).abs() < 0.005, "{mean}");
    }

    #[test]
    fn a_few_last_nanoseconds_make_no_peak() {
        let mut timeline = TimelineBuilder::new(1);
        for t_ns in 0..=10_240 {
            timeline.record(t_ns, completed(1, 0, 0));
        }
        // The last event falls into an eleventh bucket of which 1 ns was run.
        let points = timeline.finish(10_241);
        assert_eq!(points.len(), 10);
        assert!(
            points.iter().all(|p| (p.mb_s - 1_000.0).abs() < 2.0),
            "{points:?}"
        );
        assert!(points.iter().all(|p| p.hit_ratio.is_none()));
    }

    #[test]
    fn runs_without_time_or_events_are_fine() {
        let timeline = TimelineBuilder::new(0);
        assert!(timeline.finish(0).is_empty());
        assert_eq!(timeline.finish(1).len(), 1);
        // A run may outlast its last event by any time.
        let points = timeline.finish(u64::MAX);
        assert!(points.len() >= MAX_POINTS / 2);
        assert!(points.iter().all(|p| p.mb_s == 0.0));
    }
}
