//! The course of a run as a fixed number of intervals, though nobody knows how long it will last.
//!
//! Recording starts with short buckets. When time runs past the last one, neighbours are added
//! together and every bucket counts twice the time. So memory is fixed, a record is a shift, a
//! comparison and three additions, and a finished run has between half and all of its buckets in
//! use. Widths are powers of two of a nanosecond, and all sums are integers: the result does not
//! depend on the order in which events came.

use serde::{Deserialize, Serialize};

use super::ratio;

/// Most points that a timeline can have.
pub const MAX_POINTS: usize = 200;

/// Buckets begin at 2^10 ns, about a microsecond.
const FIRST_SHIFT: u32 = 10;

/// One interval of a run, from `t_s` to the next point's `t_s`; the last ends with the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// Start of the interval, in seconds from the start of the run.
    pub t_s: f64,
    /// Bytes of the requests that completed in it, in 10^6 bytes a second.
    pub mb_s: f64,
    /// Mean latency of these requests, in microseconds; `None` where none completed, and of reports that do not have it.
    #[serde(default)]
    pub latency_us: Option<f64>,
    /// Share of 4 KiB page touches that were hits, as `hit_ratio` of the row; `None` without touches.
    pub hit_ratio: Option<f64>,
    /// Share of the interval in which garbage was collected, averaged over firmware cores.
    pub gc_share: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    bytes: u64,
    requests: u64,
    latency_ns: u64,
    touches: u64,
    hits: u64,
    gc_ns: u64,
}

impl Bucket {
    fn add(&mut self, other: Bucket) {
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.latency_ns += other.latency_ns;
        self.touches += other.touches;
        self.hits += other.hits;
        self.gc_ns += other.gc_ns;
    }
}

/// Collects the events of one run into a timeline; allocates nothing once made.
#[derive(Debug, Clone)]
pub struct TimelineBuilder {
    buckets: Box<[Bucket; MAX_POINTS]>,
    /// A bucket is 2^shift nanoseconds wide.
    shift: u32,
    gc_cores: u32,
}

impl TimelineBuilder {
    /// An empty timeline of drives with `gc_cores` firmware cores in all, each of which may collect
    /// garbage on its own.
    pub fn new(gc_cores: u32) -> Self {
        Self {
            buckets: Box::new([Bucket::default(); MAX_POINTS]),
            shift: FIRST_SHIFT,
            gc_cores: gc_cores.max(1),
        }
    }

    /// Counts a request that completed `t_ns` after the start of the run: its bytes, the 4 KiB pages
    /// that it looked for in a cache (0 for a design without one) and those found there.
    #[inline]
    pub fn record(&mut self, t_ns: u64, bytes: u64, touches: u64, hits: u64) {
        let bucket = self.bucket_at(t_ns);
        bucket.bytes += bytes;
        bucket.touches += touches;
        bucket.hits += hits;
    }

    /// Counts how long a request took that completed `t_ns` after the start of the run.
    #[inline]
    pub fn record_latency(&mut self, t_ns: u64, latency_ns: u64) {
        let bucket = self.bucket_at(t_ns);
        bucket.requests += 1;
        bucket.latency_ns += latency_ns;
    }

    /// Counts one core's garbage collection from `from_ns` to `to_ns` after the start of the run.
    pub fn record_gc(&mut self, from_ns: u64, to_ns: u64) {
        if to_ns <= from_ns {
            return;
        }
        // Widen first: the width must not change under the loop.
        self.bucket_at(to_ns - 1);
        let mut start_ns = from_ns;
        while start_ns < to_ns {
            let index = (start_ns >> self.shift) as usize;
            let end_ns = to_ns.min((index as u64 + 1) << self.shift);
            self.buckets[index].gc_ns += end_ns - start_ns;
            start_ns = end_ns;
        }
    }

    /// Counts hits that became known together: `hits` pages that drives had in frames, some time from `from_ns` to
    /// `to_ns` after the start of the run.
    pub fn record_frame_hits(&mut self, from_ns: u64, to_ns: u64, hits: u64) {
        if to_ns <= from_ns {
            return;
        }
        // Widen first: the width must not change under the loop.
        self.bucket_at(to_ns - 1);
        let up_to = |at_ns: u64| {
            let part = u128::from(hits) * u128::from(at_ns - from_ns);
            (part / u128::from(to_ns - from_ns)) as u64
        };
        let mut start_ns = from_ns;
        while start_ns < to_ns {
            let index = (start_ns >> self.shift) as usize;
            let end_ns = to_ns.min((index as u64 + 1) << self.shift);
            self.buckets[index].hits += up_to(end_ns) - up_to(start_ns);
            start_ns = end_ns;
        }
    }

    /// Adds the events of another timeline of the same run, such as another client's.
    pub fn merge(&mut self, other: &TimelineBuilder) {
        while self.shift < other.shift {
            self.widen();
        }
        for (index, bucket) in other.buckets.iter().enumerate() {
            self.buckets[index >> (self.shift - other.shift)].add(*bucket);
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
            buckets[used - 1].add(*late);
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
        let core_ns = width_ns as f64 * f64::from(self.gc_cores);
        // Hits in frames are spread over a while: no more than there were touches in each part of it.
        let hits = bucket.hits.min(bucket.touches) as f64;
        let latency_us = || {
            rounded(
                ratio(bucket.latency_ns as f64, bucket.requests as f64) / 1e3,
                1e3,
            )
        };
        let hit_ratio = || rounded(ratio(hits, bucket.touches as f64), 1e6);
        TimelinePoint {
            t_s: start_ns as f64 / 1e9,
            mb_s: rounded(bucket.bytes as f64 * 1e3 / width_ns as f64, 1e3),
            latency_us: (bucket.requests > 0).then(latency_us),
            hit_ratio: (bucket.touches > 0).then(hit_ratio),
            gc_share: rounded(ratio(bucket.gc_ns as f64, core_ns).min(1.0), 1e6),
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
            let mut sum = self.buckets[2 * index];
            sum.add(self.buckets[2 * index + 1]);
            self.buckets[index] = sum;
        }
        self.buckets[MAX_POINTS / 2..].fill(Bucket::default());
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

    #[test]
    fn hits_that_become_known_together_are_spread_and_none_is_lost() {
        let mut timeline = TimelineBuilder::new(1);
        timeline.record(300_000, 4096, 100, 5);
        timeline.record_frame_hits(100_000, 300_000, 37);
        timeline.record_frame_hits(7, 7, 0);
        let hits: u64 = timeline.buckets.iter().map(|bucket| bucket.hits).sum();
        assert_eq!(hits, 42);
        let with_hits = timeline.buckets.iter().filter(|bucket| bucket.hits > 0);
        assert!(with_hits.count() > 10);
        let is_early = |(at, bucket): (usize, &Bucket)| {
            bucket.hits > 0 && ((at as u64 + 1) << timeline.shift) <= 100_000
        };
        assert!(!timeline.buckets.iter().enumerate().any(is_early));
    }

    #[test]
    fn nothing_is_lost_while_buckets_widen() {
        let mut timeline = TimelineBuilder::new(1);
        let (mut t_ns, mut bytes) = (0, 0);
        for i in 0..100_000u64 {
            t_ns += 1 + i % 977;
            timeline.record(t_ns, 4096, 2, i % 2);
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
        let mut halves = [TimelineBuilder::new(2), TimelineBuilder::new(2)];
        for (i, &t_ns) in events.iter().enumerate() {
            forward.record(t_ns, t_ns % 9_000, 1, 1);
            forward.record_gc(t_ns, t_ns + 12_345);
            // One half sees a short run only, so that widths differ at the merge.
            let half = &mut halves[usize::from(t_ns > 1_000_000)];
            half.record(t_ns, t_ns % 9_000, 1, 1);
            half.record_gc(t_ns, t_ns + 12_345);
            let t_ns = events[events.len() - 1 - i];
            backward.record(t_ns, t_ns % 9_000, 1, 1);
            backward.record_gc(t_ns, t_ns + 12_345);
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
    fn latencies_are_means_of_what_completed_in_an_interval_also_when_buckets_widen() {
        let mut timeline = TimelineBuilder::new(1);
        timeline.record_latency(10, 4_000);
        timeline.record_latency(20, 8_000);
        timeline.record_latency(900_000, 1_500);
        let points = timeline.finish(1_000_000);
        assert_eq!(points[0].latency_us, Some(6.0));
        let told: Vec<f64> = points.iter().filter_map(|p| p.latency_us).collect();
        assert_eq!(told, [6.0, 1.5]);
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
            timeline.record(t_ns, 1, 0, 0);
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
