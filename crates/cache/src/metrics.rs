//! Statistics by the facade `metrics`: whichever recorder a program has installed gets them.
//!
//! The cache counts for itself, so that a hit pays for no recorder: its counts are handed over when the program asks for that.

use crate::{PageCache, PageCacheStatistics};

type Count = fn(&PageCacheStatistics) -> u64;

/// Counters: name, what it counts, and where it is.
pub(crate) const COUNTERS: [(&str, &str, Count); 8] = [
    ("wharf_cache_reads_total", "Calls that read", |s| s.reads),
    ("wharf_cache_writes_total", "Calls that wrote", |s| s.writes),
    ("wharf_cache_syncs_total", "Calls that synced", |s| s.syncs),
    (
        "wharf_cache_pages_total",
        "Pages of 4096 bytes that reads and writes touched",
        |s| s.pages,
    ),
    (
        "wharf_cache_hits_total",
        "Of the pages touched, those found in the cache, where an earlier call had touched them",
        |s| s.hits,
    ),
    (
        "wharf_cache_read_ahead_hits_total",
        "Of the pages touched, those that reading ahead had brought",
        |s| s.read_ahead_hits,
    ),
    (
        "wharf_cache_evictions_total",
        "Pages that left the cache for others",
        |s| s.evictions,
    ),
    (
        "wharf_cache_write_backs_total",
        "Pages written to storage",
        |s| s.write_backs,
    ),
];

/// The only gauge: dirty pages.
pub(crate) const DIRTY_PAGES: &str = "wharf_cache_dirty_pages";

impl PageCache {
    /// Hands [the statistics](PageCache::statistics) to the recorder that the program has installed: counters
    /// `wharf_cache_reads_total` and the like, and the gauge `wharf_cache_dirty_pages`, with the label `cache`, which tells several
    /// caches apart. Call it as often as figures are looked at: before each answer to Prometheus, say.
    pub fn record_metrics(&self, cache: &str) {
        let did = self.statistics();
        for (name, what, count) in COUNTERS {
            metrics::describe_counter!(name, metrics::Unit::Count, what);
            metrics::counter!(name, "cache" => cache.to_string()).absolute(count(&did));
        }
        let what = "Dirty pages of 4096 bytes";
        metrics::describe_gauge!(DIRTY_PAGES, metrics::Unit::Count, what);
        metrics::gauge!(DIRTY_PAGES, "cache" => cache.to_string()).set(did.dirty_pages as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dashboard beside the example asks for each of them, and for no others.
    #[test]
    fn the_dashboard_shows_all_that_is_counted() {
        let dashboard = include_str!("../examples/grafana.json");
        let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let mut asked: Vec<_> = dashboard
            .match_indices("wharf_cache_")
            .map(|(at, _)| {
                let rest = &dashboard[at..];
                &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())]
            })
            .collect();
        asked.sort_unstable();
        asked.dedup();
        let mut counted: Vec<_> = COUNTERS.iter().map(|(name, ..)| *name).collect();
        counted.push(DIRTY_PAGES);
        counted.sort_unstable();
        assert_eq!(asked, counted);
    }
}
