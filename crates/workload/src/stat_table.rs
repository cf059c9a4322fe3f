//! The table that `wharf trace stat` prints.

use std::fmt;

use crate::stat::WorkloadStat;

/// Streams listed by number.
const STREAMS_SHOWN: usize = 8;

/// A size in the largest binary unit that leaves at least 1.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 || value.fract() == 0.0 {
        0
    } else {
        1
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A number with commas between thousands.
pub(crate) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

fn duration(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match s {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 600.0 => format!("{s:.1} s"),
        s if s < 2.0 * 86_400.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

struct Rows<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Rows<'_, '_> {
    fn row(&mut self, name: &str, value: impl fmt::Display) -> fmt::Result {
        writeln!(self.0, "{name:<14}{value}")
    }
}

impl fmt::Display for WorkloadStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = Rows(f);
        self.head(&mut rows)?;
        self.requests_part(&mut rows)?;
        self.pages_part(&mut rows)?;
        self.histogram(&mut rows)
    }
}

impl WorkloadStat {
    fn head(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        let info = &self.info;
        let how = if info.detected {
            "by content"
        } else {
            "as given"
        };
        rows.row("trace", &info.name)?;
        rows.row(
            "format",
            format_args!("{} ({how}), {}", info.format, info.compression.name()),
        )?;
        for note in &info.notes {
            rows.row("", note)?;
        }
        if info.lines > 0 {
            rows.row(
                "lines",
                format_args!(
                    "{}: {} bad, {} without a request",
                    thousands(info.lines),
                    thousands(info.bad_lines),
                    thousands(info.skipped_lines)
                ),
            )?;
        }
        for bad in &info.first_bad_lines {
            rows.row("", format_args!("bad {bad}"))?;
        }
        Ok(())
    }

    fn requests_part(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        let requests = self.requests();
        rows.row("requests", thousands(requests))?;
        for (name, op) in [("reads", self.reads), ("writes", self.writes)] {
            rows.row(
                name,
                format_args!(
                    "{} ({}), mean {}, {} in all",
                    thousands(op.requests),
                    percent(op.requests, requests),
                    size(op.mean_bytes()),
                    size(op.bytes as f64)
                ),
            )?;
        }
        if self.flushes > 0 {
            rows.row("flushes", thousands(self.flushes))?;
        }
        if self.discards.requests > 0 {
            rows.row(
                "discards",
                format_args!(
                    "{}, mean {}, {} in all",
                    thousands(self.discards.requests),
                    size(self.discards.mean_bytes()),
                    size(self.discards.bytes as f64)
                ),
            )?;
        }
        rows.row(
            "request size",
            format_args!(
                "mean {}, from {} to {}",
                size(self.all().mean_bytes()),
                size(f64::from(self.bytes_min)),
                size(f64::from(self.bytes_max))
            ),
        )?;
        rows.row(
            "aligned",
            format_args!("{} to 4 KiB", percent(self.page_aligned, requests)),
        )?;
        rows.row("sequential", percent(self.sequential, requests))?;
        if let (Some(time), Some(ns)) = (self.time, self.duration_ns()) {
            let disorder = match time.backwards {
                0 => String::new(),
                n => format!(", {} requests earlier than the one before", thousands(n)),
            };
            rows.row("duration", format_args!("{}{disorder}", duration(ns)))?;
        }
        Ok(())
    }

    fn pages_part(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.row(
            "footprint",
            format_args!(
                "{} distinct 4 KiB pages = {}",
                thousands(self.unique_pages),
                size(self.footprint_bytes() as f64)
            ),
        )?;
        rows.row(
            "page touches",
            format_args!(
                "{}, {:.2} per page",
                thousands(self.page_touches),
                self.touches_per_page()
            ),
        )?;
        if let Some(reuse) = &self.reuse {
            rows.row(
                "reuse",
                format_args!("mean distance {}", size(reuse.mean_distance_bytes)),
            )?;
            for point in &reuse.lru {
                rows.row(
                    "",
                    format_args!(
                        "LRU of {:.1} % of the footprint: {:.1} % hits",
                        100.0 * point.share,
                        100.0 * point.hit_ratio
                    ),
                )?;
            }
        }
        let end = self
            .streams
            .iter()
            .map(|stream| stream.end_bytes)
            .max()
            .unwrap_or(0);
        rows.row(
            "devices",
            format_args!(
                "{}, highest address {}",
                thousands(self.streams.len() as u64),
                size(end as f64)
            ),
        )?;
        if self.streams.len() > 1 {
            let mut largest = self.streams.clone();
            largest.sort_by_key(|stream| (std::cmp::Reverse(stream.requests), stream.stream));
            for stream in largest.iter().take(STREAMS_SHOWN) {
                rows.row(
                    "",
                    format_args!(
                        "{}: {} requests, up to {}",
                        stream.stream,
                        thousands(stream.requests),
                        size(stream.end_bytes as f64)
                    ),
                )?;
            }
        }
        Ok(())
    }

    fn histogram(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        writeln!(rows.0, "\n{:>12} {:>14} {:>14}", "size", "reads", "writes")?;
        for bucket in &self.sizes {
            writeln!(
                rows.0,
                "{:>12} {:>14} {:>14}",
                format!("{}+", size(bucket.bytes_from as f64)),
                thousands(bucket.reads),
                thousands(bucket.writes)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Op, Request};
    use crate::workload::Workload;

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(size(512.0), "512 B");
        assert_eq!(size(4096.0), "4 KiB");
        assert_eq!(size(11_356.0), "11.1 KiB");
        assert_eq!(duration(1_500_000), "1.5 ms");
    }

    #[test]
    fn the_table_names_every_figure() {
        let requests = vec![
            Request {
                time_ns: 0,
                ..Request::new(Op::Write, 0, 8192)
            },
            Request {
                time_ns: 2_000_000_000,
                ..Request::new(Op::Read, 8192, 4096)
            },
            Request {
                time_ns: 1_000_000_000,
                ..Request::new(Op::Read, 0, 512)
            },
        ];
        let stat = WorkloadStat::of(Workload::from_requests("three", requests), true).unwrap();
        assert_eq!(
            (stat.page_touches, stat.unique_pages, stat.sequential),
            (4, 3, 1)
        );
        assert_eq!(
            stat.reuse.as_ref().unwrap().mean_distance_bytes,
            2.0 * 4096.0
        );
        let table = stat.to_string();
        for part in [
            "three",
            "66.7 %",
            "2.0 s, 1 requests earlier",
            "1.33 per page",
            "8 KiB+",
        ] {
            assert!(table.contains(part), "{part} not in\n{table}");
        }
    }
}
