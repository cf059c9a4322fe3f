//! Figures of a cache that is served, for whoever scrapes them on another thread.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use wharf_host::design::Client as _;
use wharf_host::indexless::{Mode, Status};

use super::FlashCache;

/// What is told; the thread that has the cache notes it now and then.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Option<Noted>>);

#[derive(Debug)]
struct Noted {
    pages: u64,
    hits: u64,
    status: Status,
    /// Bytes of flash that are used, and that there are.
    flash: Option<(u64, u64)>,
}

impl Figures {
    /// Notes what the cache says of itself.
    pub fn note(&self, cache: &FlashCache) {
        let statistics = cache.client().statistics();
        let flash = cache.engine().space_lately().map(|space| {
            let bytes = |granules: u64| granules * u64::from(space.granule_bytes);
            (bytes(space.used), bytes(space.capacity))
        });
        let noted = Noted {
            flash,
            pages: statistics.touches,
            hits: statistics.hits,
            status: cache.status(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(noted);
    }

    /// Adds them to a page as Prometheus reads it.
    pub fn write(&self, text: &mut String) {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Noted {
            pages,
            hits,
            status,
            flash,
        }) = &*noted
        else {
            return;
        };
        let mut put = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP wharf_cache_{name} {help}");
            let _ = writeln!(text, "# TYPE wharf_cache_{name} {kind}");
            let _ = writeln!(text, "wharf_cache_{name} {value}");
        };
        let sectors = 4096;
        put(
            "touched_pages_total",
            "counter",
            "Pages of 4 KiB that requests touched.",
            *pages,
        );
        put(
            "hit_pages_total",
            "counter",
            "Of these, pages that were in the cache.",
            *hits,
        );
        put(
            "cached_bytes",
            "gauge",
            "Bytes in the cache, as far as known.",
            status.cached * sectors,
        );
        put(
            "dirty_bytes",
            "gauge",
            "Bytes that the disk has not got yet.",
            status.dirty * sectors,
        );
        put(
            "limit_bytes",
            "gauge",
            "Bytes that are cached at most.",
            status.limit * sectors,
        );
        let age_ms = status.dirty_age_max_ns / 1_000_000;
        put(
            "dirty_age_max_milliseconds",
            "gauge",
            "No dirty byte is older.",
            age_ms,
        );
        put(
            "memory_bytes",
            "gauge",
            "Memory of the bitmap.",
            status.bitmap_bytes,
        );
        put(
            "stuck",
            "gauge",
            "The disk takes nothing.",
            status.is_stuck.into(),
        );
        let mode = match status.mode {
            Mode::WriteBack => 0,
            Mode::WriteThrough => 1,
            Mode::Bypass => 2,
        };
        put(
            "mode",
            "gauge",
            "Write-back 0, write-through 1, bypass 2.",
            mode,
        );
        if let Some((used, capacity)) = *flash {
            put(
                "flash_used_bytes",
                "gauge",
                "Bytes of flash that what is cached takes.",
                used,
            );
            put(
                "flash_bytes",
                "gauge",
                "Bytes of flash that it may take.",
                capacity,
            );
            let ratio = (status.cached * sectors) as f64 / used.max(1) as f64;
            let name = "ratio";
            let _ = writeln!(
                text,
                "# HELP wharf_cache_{name} Bytes cached for each of flash."
            );
            let _ = writeln!(text, "# TYPE wharf_cache_{name} gauge");
            let _ = writeln!(text, "wharf_cache_{name} {ratio:.4}");
        }
        let name = "around_pages_total";
        let _ = writeln!(
            text,
            "# HELP wharf_cache_{name} Pages that did not come into the cache."
        );
        let _ = writeln!(text, "# TYPE wharf_cache_{name} counter");
        for (reason, count) in &status.reasons {
            let reason = reason.name();
            let _ = writeln!(text, "wharf_cache_{name}{{reason=\"{reason}\"}} {count}");
        }
    }
}
