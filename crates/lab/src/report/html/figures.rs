//! The tables of the page: every figure of every design, and the data of the run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Escaped;
use crate::report::format;
use crate::result::{Comparison, Latency, Rounds, Row, Source, ratio};

/// A line of the table: what, its unit, the field that it is, the figure of a row.
type Figure = (&'static str, &'static str, &'static str, fn(&Row) -> String);

const RUN: [Figure; 7] = [
    ("times", "", "", |row| row.mode.to_string()),
    ("requests", "", "requests", |row| requests(row)),
    ("reads", "", "reads", |row| format::grouped(row.reads)),
    ("writes", "", "writes", |row| format::grouped(row.writes)),
    ("reads verified", "", "verified_reads", |row| {
        format::grouped(row.verified_reads)
    }),
    ("elapsed", "s", "elapsed_seconds", |row| {
        format::number(row.elapsed_seconds)
    }),
    ("wall clock", "s", "", |row| {
        format::number(row.wall_seconds)
    }),
];

const SPEED: [Figure; 2] = [
    ("bandwidth", "MB/s", "bandwidth_mb_s", |row| {
        format::number(row.bandwidth_mb_s)
    }),
    ("I/O per second", "1/s", "iops", |row| {
        format::grouped(row.iops.round() as u64)
    }),
];

/// What a row on real storage is known to have done.
const WORK_MEASURED: [Figure; 2] = [
    (
        "hits: pages found in memory, touched before",
        "%",
        "hit_ratio",
        |row| format::optional_percent(row.hit_ratio),
    ),
    ("host CPU per I/O", "µs", "host_cpu_us_per_io", |row| {
        format::number(row.host_cpu_us_per_io)
    }),
];

const WORK: [Figure; 14] = [
    (
        "hits: pages found in memory, touched before",
        "%",
        "hit_ratio",
        |row| format::optional_percent(row.hit_ratio),
    ),
    (
        "of all touches, hits without a command",
        "%",
        "no_command_hit_ratio",
        |row| format::optional_percent(row.no_command_hit_ratio),
    ),
    (
        "first touches of pages read ahead",
        "%",
        "read_ahead_hit_ratio",
        |row| format::optional_percent(row.read_ahead_hit_ratio),
    ),
    (
        "pages read from drives by pages asked for",
        "",
        "pages_read_per_page",
        |row| format::optional(row.pages_read_per_page),
    ),
    (
        "bytes on the link by byte",
        "",
        "link_bytes_per_byte",
        |row| format::optional(row.link_bytes_per_byte),
    ),
    (
        "pages that a drive had in a frame when asked",
        "%",
        "frame_hit_ratio",
        |row| format::optional_percent(row.frame_hit_ratio),
    ),
    ("host CPU per I/O", "µs", "host_cpu_us_per_io", |row| {
        format::number(row.host_cpu_us_per_io)
    }),
    ("drive commands per I/O", "", "commands_per_io", |row| {
        format::number(row.commands_per_io)
    }),
    (
        "a drive command, issue to completion",
        "µs",
        "command_us",
        |row| format::number(row.command_us),
    ),
    (
        "of that, served by a core",
        "µs",
        "command_service_us",
        |row| format::number(row.command_service_us),
    ),
    ("write amplification", "", "write_amplification", |row| {
        format::optional(row.write_amplification)
    }),
    ("time collecting garbage", "%", "gc_share", |row| {
        format::percent_cell(row.gc_share)
    }),
    (
        "requests affected by it",
        "%",
        "gc_affected.requests",
        |row| format::percent_cell(ratio(row.gc_affected.requests as f64, row.requests as f64)),
    ),
    (
        "their p99.99 latency",
        "µs",
        "gc_affected.latency_us.p99_99",
        |row| format::optional(row.gc_affected.latency_us.map(|latency| latency.p99_99)),
    ),
];

/// A figure of a latency summary: what, the field that it is, the figure.
type LatencyFigure = (&'static str, &'static str, fn(&Latency) -> f64);
/// A line of the table of rows that took turns: what, its unit, the figure of a row.
type OfRounds = (&'static str, &'static str, fn(&Rounds) -> String);

const ROUNDS: [OfRounds; 5] = [
    ("rounds", "", |rounds| rounds.runs.len().to_string()),
    ("slowest and fastest round", "1/s", spread),
    ("final flush, median", "s", |rounds| {
        format::number(rounds.flush_seconds_median)
    }),
    ("memory limited by", "", |rounds| {
        Escaped(&rounds.memory_limited_by).to_string()
    }),
    ("memory of the process at most", "", |rounds| {
        format::bytes(rounds.memory_peak_bytes)
    }),
];

/// The I/Os a second of the slowest and of the fastest round.
pub fn spread(rounds: &Rounds) -> String {
    let [least, most] = [rounds.iops_least, rounds.iops_most].map(|iops| iops.round() as u64);
    format!("{} to {}", format::grouped(least), format::grouped(most))
}

const LATENCY: [LatencyFigure; 6] = [
    ("mean", "mean", |l| l.mean),
    ("p50", "p50", |l| l.p50),
    ("p99", "p99", |l| l.p99),
    ("p99.9", "p99_9", |l| l.p99_9),
    ("p99.99", "p99_99", |l| l.p99_99),
    ("max", "max", |l| l.max),
];

/// Requests served, marked when they are not all.
fn requests(row: &Row) -> String {
    let mark = if row.complete { "" } else { " (stopped)" };
    format!("{}{mark}", format::grouped(row.requests))
}

/// The table of all figures: figures as lines, designs as columns.
pub fn section(rows: &[Row]) -> String {
    let mut text = String::from(
        "<section class=\"long\">\n<h2>All figures</h2>\n<div class=\"scroll\">\
         <table class=\"figures\">\n<thead><tr><th></th>",
    );
    for row in rows {
        let _ = write!(text, "<th scope=\"col\">{}</th>", Escaped(&row.design));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    group(&mut text, "Run", rows, &RUN);
    group(&mut text, "Throughput", rows, &SPEED);
    turns(&mut text, rows);
    latencies(
        &mut text,
        "Latency, all requests",
        "latency_us",
        rows,
        |row| Some(row.latency_us),
    );
    latencies(
        &mut text,
        "Latency, reads",
        "read_latency_us",
        rows,
        |row| row.read_latency_us,
    );
    latencies(
        &mut text,
        "Latency, writes",
        "write_latency_us",
        rows,
        |row| row.write_latency_us,
    );
    latencies(
        &mut text,
        "Latency, flushes",
        "flush_latency_us",
        rows,
        |row| row.flush_latency_us,
    );
    drift(&mut text, rows);
    match rows.iter().all(|row| row.rounds.is_some()) {
        // Real storage tells nothing of what happens within.
        true => group(&mut text, "Work", rows, &WORK_MEASURED),
        false => group(&mut text, "Work", rows, &WORK),
    }
    reported(&mut text, rows);
    text + "</tbody>\n</table></div>\n</section>\n"
}

fn heading(text: &mut String, name: &str, columns: usize) {
    let _ = writeln!(
        text,
        "<tr class=\"group\"><th scope=\"rowgroup\">{name}</th><td colspan=\"{columns}\"></td></tr>",
    );
}

fn line(text: &mut String, name: &str, unit: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(
        text,
        "<tr><th scope=\"row\">{name} <small>{unit}</small></th>"
    );
    for cell in cells {
        let _ = write!(text, "<td>{cell}</td>");
    }
    text.push_str("</tr>\n");
}

fn group(text: &mut String, name: &str, rows: &[Row], figures: &[Figure]) {
    heading(text, name, rows.len());
    for (name, unit, path, figure) in figures {
        let cells = rows.iter().map(|row| with_spread(row, path, figure(row)));
        line(text, name, unit, cells);
    }
}

/// A figure, with how far the runs of several seeds lie apart in it.
fn with_spread(row: &Row, path: &str, figure: String) -> String {
    match format::spread(row, path) {
        none if none.is_empty() => figure,
        spread => format!("{figure} <small>{spread}</small>"),
    }
}

/// What designs report of themselves; nothing when none does.
fn reported(text: &mut String, rows: &[Row]) {
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.gauges.keys()).collect();
    if names.is_empty() {
        return;
    }
    heading(text, "Reported by designs", rows.len());
    for name in names {
        let path = format!("gauges.{name}.value");
        let cells = rows.iter().map(|row| match row.gauges.get(name) {
            Some(gauge) => with_spread(row, &path, format::gauge(gauge)),
            None => "–".to_owned(),
        });
        line(text, &name.replace('_', " "), "", cells);
    }
}

/// The rounds of rows that took turns; nothing when none did.
fn turns(text: &mut String, rows: &[Row]) {
    if rows.iter().all(|row| row.rounds.is_none()) {
        return;
    }
    heading(
        text,
        "Rounds, of which throughput is the median",
        rows.len(),
    );
    for (name, unit, figure) in ROUNDS {
        let cells = rows
            .iter()
            .map(|row| row.rounds.as_ref().map_or("–".to_owned(), figure));
        line(text, name, unit, cells);
    }
}

/// Latencies of one kind of request, whose field is `path`; nothing when no design has any.
fn latencies(
    text: &mut String,
    name: &str,
    path: &str,
    rows: &[Row],
    of: fn(&Row) -> Option<Latency>,
) {
    if rows.iter().all(|row| of(row).is_none()) {
        return;
    }
    heading(text, name, rows.len());
    for (name, part, figure) in LATENCY {
        let cells = rows.iter().map(|row| {
            let figure = format::optional(of(row).as_ref().map(figure));
            with_spread(row, &format!("{path}.{part}"), figure)
        });
        line(text, name, "µs", cells);
    }
}

/// How late the requests of an open loop were sent; nothing in a closed loop.
fn drift(text: &mut String, rows: &[Row]) {
    if rows.iter().all(|row| row.drift_us.is_none()) {
        return;
    }
    heading(text, "Requests sent late", rows.len());
    let mean = rows
        .iter()
        .map(|row| format::optional(row.drift_us.map(|drift| drift.mean)));
    line(text, "mean", "µs", mean);
    let max = rows
        .iter()
        .map(|row| format::optional(row.drift_us.map(|drift| drift.max)));
    line(text, "max", "µs", max);
}

/// The data of the run as names and values.
pub fn run_data(c: &Comparison) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| lines.push((name.to_owned(), value));
    add("workload", format::workload(c));
    match &c.workload.source {
        Source::File { path, .. } => add("file", path.clone()),
        Source::Generator { parameters, .. } => add("parameters", parameters_text(parameters)),
    }
    add(
        "sent",
        format!(
            "{}; to clients {}",
            format::sending(c),
            c.workload.client_rule
        ),
    );
    if let Some(fit) = &c.workload.fit {
        add(
            "fit",
            format!("{fit}: addresses beyond the drive were brought onto it"),
        );
    }
    if c.workload.bad_lines > 0 {
        let count = format::grouped(c.workload.bad_lines);
        add(
            "bad lines",
            format!("{count} could not be read and were left out"),
        );
    }
    add("drive", format::drives(c));
    add("drive parameters", parameters_text(&c.drive.parameters));
    add("cache", format::cache(c));
    add("seed", format::seeds(c));
    add("configuration", c.config_hash.clone());
    add("cost table", format::cost_table(c));
    add("Wharf commit", c.commit.clone());
    add("data format", c.schema.clone());
    lines
}

/// Parameters by name, as `name = value`.
fn parameters_text(parameters: &std::collections::BTreeMap<String, serde_json::Value>) -> String {
    let written = |(name, value): (&String, &serde_json::Value)| match value.as_str() {
        Some(text) => format!("{name} = {text}"),
        None => format!("{name} = {value}"),
    };
    match parameters.is_empty() {
        true => "none".to_owned(),
        false => parameters
            .iter()
            .map(written)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
