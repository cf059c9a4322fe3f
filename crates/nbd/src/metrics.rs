//! What connections did, counted where it happens and added up by who asks.
//!
//! Each thread that serves has a [`Meter`] of its own, whose numbers nobody else writes: counting costs a
//! load and a store. A scrape adds them up, as the text that Prometheus reads.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::export::Export;
use crate::session::Kind;

/// Upper bounds of the buckets of latencies in microseconds.
const BUCKETS_US: [u64; 14] = [
    5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000, 10_000_000,
];

/// A number that one thread adds to.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, n: u64) {
        // Relaxed, and no read-modify-write: nobody else writes it.
        let now = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.0.store(now, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Of one kind of request.
#[derive(Debug, Default)]
struct OfKind {
    begun: Count,
    ended: Count,
    errors: Count,
    bytes: Count,
    latency_ns: Count,
    buckets: [Count; BUCKETS_US.len() + 1],
}

/// One thread's numbers.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Meter {
    kinds: [OfKind; Kind::ALL.len()],
}

impl Meter {
    #[inline]
    pub(crate) fn begin(&self, kind: Kind) {
        self.kinds[kind as usize].begun.add(1);
    }

    #[inline]
    pub(crate) fn end(&self, kind: Kind, bytes: u64, is_error: bool, latency_ns: u64) {
        let of = &self.kinds[kind as usize];
        of.ended.add(1);
        of.latency_ns.add(latency_ns);
        if is_error {
            of.errors.add(1);
        } else {
            of.bytes.add(bytes);
        }
        let bucket = BUCKETS_US.partition_point(|us| us * 1000 < latency_ns);
        of.buckets[bucket].add(1);
    }
}

/// All numbers of a server.
#[derive(Default)]
pub struct Metrics {
    meters: Mutex<Vec<Arc<Meter>>>,
    connections_begun: AtomicU64,
    connections_ended: AtomicU64,
    refused: AtomicU64,
    /// What is served, which may have figures of its own.
    export: OnceLock<Arc<dyn Export>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "metrics of {:?}", self.meters)
    }
}

impl Metrics {
    /// Numbers for another thread. Those of threads that have ended are given out again, with what
    /// they have counted.
    pub(crate) fn meter(&self) -> Arc<Meter> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let free = meters.iter().find(|meter| Arc::strong_count(meter) == 1);
        if let Some(meter) = free {
            return meter.clone();
        }
        let meter = Arc::new(Meter::default());
        meters.push(meter.clone());
        meter
    }

    /// Has the figures of what is served told, too.
    pub(crate) fn tell_of(&self, export: Arc<dyn Export>) {
        let told = self.export.set(export);
        assert!(told.is_ok(), "a server serves one export");
    }

    pub(crate) fn connection_begins(&self) {
        self.connections_begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_ends(&self) {
        self.connections_ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it as Prometheus reads it (text format 0.0.4).
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (begun, ended) = (&self.connections_begun, &self.connections_ended);
        let ended = ended.load(Ordering::Relaxed);
        let begun = begun.load(Ordering::Relaxed);
        family(&mut text, "connections", "gauge", "Connections now.");
        put(&mut text, "connections", "", begun.saturating_sub(ended));
        let help = "Connections that were let in.";
        family(&mut text, "connections_total", "counter", help);
        put(&mut text, "connections_total", "", begun);
        let help = "Connections that were closed at once, as there were too many.";
        family(&mut text, "connections_refused_total", "counter", help);
        let refused = self.refused.load(Ordering::Relaxed);
        put(&mut text, "connections_refused_total", "", refused);
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kinds = |name: &str, value: &dyn Fn(&OfKind) -> u64, text: &mut String| {
            for kind in Kind::ALL {
                let sum = meters.iter().map(|m| value(&m.kinds[kind as usize])).sum();
                put(text, name, &format!("{{command=\"{}\"}}", kind.name()), sum);
            }
        };
        for (name, kind, help, value) in FAMILIES {
            family(&mut text, name, kind, help);
            of_kinds(name, value, &mut text);
        }
        let name = "request_duration_seconds";
        family(
            &mut text,
            name,
            "histogram",
            "From the request's arrival to its reply.",
        );
        for kind in Kind::ALL {
            let of = || meters.iter().map(|m| &m.kinds[kind as usize]);
            let label = format!("command=\"{}\"", kind.name());
            let mut count = 0;
            for bucket in 0..=BUCKETS_US.len() {
                count += of().map(|k| k.buckets[bucket].get()).sum::<u64>();
                let bound = BUCKETS_US
                    .get(bucket)
                    .map_or("+Inf".to_string(), |us| format!("{}", *us as f64 / 1e6));
                let labels = format!("{{{label},le=\"{bound}\"}}");
                put(&mut text, "request_duration_seconds_bucket", &labels, count);
            }
            let sum_ns: u64 = of().map(|k| k.latency_ns.get()).sum();
            let _ = writeln!(
                text,
                "wharf_nbd_{name}_sum{{{label}}} {}",
                sum_ns as f64 / 1e9
            );
            let labels = format!("{{{label}}}");
            put(&mut text, "request_duration_seconds_count", &labels, count);
        }
        if let Some(export) = self.export.get() {
            export.metrics(&mut text);
        }
        text
    }
}

type Value = &'static (dyn Fn(&OfKind) -> u64 + Sync);

/// Name, type, help and value of what is told of each kind of request.
const FAMILIES: [(&str, &str, &str, Value); 4] = [
    (
        "requests_total",
        "counter",
        "Requests that were answered.",
        &|k| k.ended.get(),
    ),
    (
        "errors_total",
        "counter",
        "Requests that were answered with an error.",
        &|k| k.errors.get(),
    ),
    (
        "bytes_total",
        "counter",
        "Bytes of requests that were done.",
        &|k| k.bytes.get(),
    ),
    ("in_flight", "gauge", "Requests that are under way.", &|k| {
        let ended = k.ended.get();
        k.begun.get().saturating_sub(ended)
    }),
];

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP wharf_nbd_{name} {help}");
    let _ = writeln!(text, "# TYPE wharf_nbd_{name} {kind}");
}

fn put(text: &mut String, name: &str, labels: &str, value: u64) {
    let _ = writeln!(text, "wharf_nbd_{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_add_up_and_stay_when_a_thread_ends() {
        let metrics = Metrics::default();
        let (one, other) = (metrics.meter(), metrics.meter());
        one.begin(Kind::Read);
        one.end(Kind::Read, 4096, false, 7_000);
        other.begin(Kind::Read);
        other.begin(Kind::Write);
        other.end(Kind::Write, 512, true, 3_000_000_000_000);
        drop(one);
        let again = metrics.meter();
        again.begin(Kind::Read);
        again.end(Kind::Read, 4096, false, 5_000);
        let text = metrics.text();
        let expect = |line: &str| assert!(text.lines().any(|l| l == line), "{line} in {text}");
        expect("wharf_nbd_requests_total{command=\"read\"} 2");
        expect("wharf_nbd_bytes_total{command=\"read\"} 8192");
        expect("wharf_nbd_in_flight{command=\"read\"} 1");
        expect("wharf_nbd_errors_total{command=\"write\"} 1");
        expect("wharf_nbd_bytes_total{command=\"write\"} 0");
        expect("wharf_nbd_request_duration_seconds_bucket{command=\"read\",le=\"0.000005\"} 1");
        expect("wharf_nbd_request_duration_seconds_bucket{command=\"read\",le=\"0.00001\"} 2");
        expect("wharf_nbd_request_duration_seconds_bucket{command=\"write\",le=\"10\"} 0");
        expect("wharf_nbd_request_duration_seconds_bucket{command=\"write\",le=\"+Inf\"} 1");
        expect("wharf_nbd_request_duration_seconds_count{command=\"read\"} 2");
    }
}
