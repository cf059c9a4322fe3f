//! Rows that took turns on real storage, as text: medians with their spread, then what was run.

use std::fmt::Write as _;

use super::format::{bytes, grouped, number, optional_percent, plain, times};
use super::table;
use crate::result::{Comparison, Rounds, Row, Source, ratio};

/// A column: its heading and the figure of a row.
type Column = (&'static str, fn(&Row, &Rounds) -> String);

const COLUMNS: [Column; 10] = [
    ("IOPS\nmedian", |_, r| grouped(r.iops_median.round() as u64)),
    ("least", |_, r| grouped(r.iops_least.round() as u64)),
    ("most", |_, r| grouped(r.iops_most.round() as u64)),
    ("mean\nµs", |row, _| number(row.latency_us.mean)),
    ("p50\nµs", |row, _| number(row.latency_us.p50)),
    ("p99\nµs", |row, _| number(row.latency_us.p99)),
    ("p99.9\nµs", |row, _| number(row.latency_us.p99_9)),
    ("flush\ns", |_, r| number(r.flush_seconds_median)),
    ("hit\n%", |row, _| optional_percent(row.hit_ratio)),
    ("CPU\nµs/IO", |row, _| number(row.host_cpu_us_per_io)),
];

/// The comparison of rows that have [`Row::rounds`], as text `width` columns wide or a little more.
pub fn render(comparison: &Comparison, width: usize) -> String {
    let rows: Vec<(&Row, &Rounds)> = comparison
        .rows
        .iter()
        .filter_map(|row| Some((row, row.rounds.as_ref()?)))
        .collect();
    let lines = rows
        .iter()
        .map(|(row, rounds)| (*row, COLUMNS.iter().map(|c| c.1(row, rounds)).collect()))
        .collect::<Vec<_>>();
    let mut text = table::of_cells("row", &COLUMNS.map(|column| column.0), &lines);
    against_first(&mut text, &rows);
    text.push('\n');
    for (name, value) in provenance(comparison, &rows) {
        table::wrapped(&mut text, name, &value, width);
    }
    text
}

fn against_first(text: &mut String, rows: &[(&Row, &Rounds)]) {
    let Some(((base, first), others)) = rows.split_first().filter(|(_, rest)| !rest.is_empty())
    else {
        return;
    };
    let _ = writeln!(text, "\nagainst {}:", base.design);
    for (row, rounds) in others {
        let _ = writeln!(
            text,
            "  {:12} IOPS {}, p50 {}, p99.9 {}, CPU {}",
            row.design,
            times(rounds.iops_median, first.iops_median),
            times(row.latency_us.p50, base.latency_us.p50),
            times(row.latency_us.p99_9, base.latency_us.p99_9),
            times(row.host_cpu_us_per_io, base.host_cpu_us_per_io),
        );
    }
}

/// What was run, as lines of a name and a value.
fn provenance(c: &Comparison, rows: &[(&Row, &Rounds)]) -> Vec<(&'static str, String)> {
    let w = &c.workload;
    let mut lines = vec![(
        "file",
        format!("{}, {}", c.drive.preset, bytes(c.drive.capacity_bytes)),
    )];
    if let Source::Generator { parameters, .. } = &w.source {
        let said = |(name, value): (&String, &serde_json::Value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        };
        let said: Vec<String> = parameters.iter().map(said).collect();
        lines.push(("job", said.join(" ")));
    }
    lines.push(("memory", format!("{} for pages", bytes(c.cache_bytes))));
    for (row, rounds) in rows {
        let limit = rounds.memory_limit_bytes;
        let limit = limit.map_or("none".to_owned(), bytes);
        let (by, peak) = (&rounds.memory_limited_by, bytes(rounds.memory_peak_bytes));
        lines.push((
            "",
            format!(
                "{}: limit {limit} by {by}; the process had {peak} at most",
                row.design
            ),
        ));
    }
    let verified = rows.iter().map(|(row, _)| row.verified_reads).sum();
    let written = rows.iter().any(|(row, _)| row.writes > 0);
    let written = if written {
        ", and every page that was written"
    } else {
        ""
    };
    lines.push((
        "data",
        format!("{} reads checked{written}: all right", grouped(verified)),
    ));
    for (row, rounds) in rows {
        let spread = ratio(rounds.iops_most, rounds.iops_least);
        if spread > 1.5 {
            lines.push((
                "spread",
                format!(
                    "{}: rounds differ {}-fold: other work on this machine?",
                    row.design,
                    plain(spread)
                ),
            ));
        }
        if !row.complete {
            lines.push(("stopped", format!("{} before its end", row.design)));
        }
    }
    lines.push(("seed", format!("{}, commit {}", c.seed, c.commit)));
    lines.extend(c.warnings.iter().map(|told| ("warning", told.clone())));
    lines.extend(c.notes.iter().map(|note| ("note", note.clone())));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn rows_show_medians_with_their_spread_and_what_limited_them() {
        let mut c = sample::sparse_comparison();
        c.rows[0].rounds = c.rows[1].rounds.clone();
        let text = render(&c, 100);
        for said in [
            "IOPS",
            "median",
            "against direct:",
            "direct: limit 64 MiB by a sample; the process had 80 MiB at most",
            "theta=0.99",
            "rounds differ 2-fold",
            "stopped    clock before its end",
        ] {
            assert!(text.contains(said), "{said} is not in:\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn rows_without_rounds_are_left_out() {
        let text = render(&sample::comparison(2), 100);
        assert!(!text.contains("against"), "{text}");
    }
}
