//! The comparison as text for a terminal or a pipe: designs as rows, then what was run.
//!
//! Plain text without colours or control characters, so that a terminal and a pipe get the same.
//! Where the table is too wide it is cut into two, one above the other.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use super::format::{
    self, cache, cost_table, drives, grouped, number, optional, optional_percent, seeds, sending,
    times, verified, workload,
};
use crate::result::{Comparison, Row};

/// The width to write for when the output is no terminal.
pub const PIPE_WIDTH: usize = 100;

/// A column: its heading, the figure of a row, and the field that it is.
type Column = (&'static str, fn(&Row) -> String, &'static str);

const SPEED: [Column; 7] = [
    ("MB/s", |row| number(row.bandwidth_mb_s), "bandwidth_mb_s"),
    ("IOPS", |row| grouped(row.iops.round() as u64), "iops"),
    (
        "mean\nµs",
        |row| number(row.latency_us.mean),
        "latency_us.mean",
    ),
    (
        "p50\nµs",
        |row| number(row.latency_us.p50),
        "latency_us.p50",
    ),
    (
        "p99\nµs",
        |row| number(row.latency_us.p99),
        "latency_us.p99",
    ),
    (
        "p99.9\nµs",
        |row| number(row.latency_us.p99_9),
        "latency_us.p99_9",
    ),
    (
        "p99.99\nµs",
        |row| number(row.latency_us.p99_99),
        "latency_us.p99_99",
    ),
];

const WORK: [Column; 9] = [
    ("hit\n%", |row| optional_percent(row.hit_ratio), "hit_ratio"),
    (
        "no cmd\n%",
        |row| optional_percent(row.no_command_hit_ratio),
        "no_command_hit_ratio",
    ),
    (
        "ahead\n%",
        |row| optional_percent(row.read_ahead_hit_ratio),
        "read_ahead_hit_ratio",
    ),
    (
        "read\n/page",
        |row| optional(row.pages_read_per_page),
        "pages_read_per_page",
    ),
    (
        "link\nB/B",
        |row| optional(row.link_bytes_per_byte),
        "link_bytes_per_byte",
    ),
    (
        "CPU\nµs/IO",
        |row| number(row.host_cpu_us_per_io),
        "host_cpu_us_per_io",
    ),
    (
        "cmds\n/IO",
        |row| number(row.commands_per_io),
        "commands_per_io",
    ),
    (
        "WA",
        |row| optional(row.write_amplification),
        "write_amplification",
    ),
    (
        "GC\n%",
        |row| format!("{:.1}", row.gc_share * 100.0),
        "gc_share",
    ),
];

/// The width of the terminal that standard output goes to, in columns; [`PIPE_WIDTH`] in a pipe.
pub fn stdout_width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return PIPE_WIDTH;
    }
    match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => PIPE_WIDTH,
    }
}

/// The comparison as text at most `width` columns wide, as far as its names allow.
pub fn render(comparison: &Comparison, width: usize) -> String {
    let mut text = figures(&comparison.rows, width, |row, column| column.1(row));
    if comparison.seeds > 1 {
        let _ = writeln!(
            text,
            "\nof {} seeds; the standard deviation of one run, in % of the mean:\n",
            comparison.seeds
        );
        text += &figures(&comparison.rows, width, spread);
    }
    ratios(&mut text, &comparison.rows);
    text += &super::behind::table(&comparison.rows);
    text += &super::files::table(&comparison.rows);
    text.push('\n');
    for (name, value) in provenance(comparison) {
        wrapped(&mut text, name, &value, width);
    }
    text
}

/// What designs report of themselves, a line for each figure.
pub fn gauges(comparison: &Comparison) -> String {
    let mut text = String::from("reported by designs:\n");
    for row in &comparison.rows {
        for (name, gauge) in &row.gauges {
            let value = format::gauge(gauge);
            let _ = writeln!(text, "  {:<14} {name:<16} {value}", row.design);
        }
    }
    text
}

/// How far the runs of several seeds lie apart in a figure.
fn spread(row: &Row, column: &Column) -> String {
    let spread = row.spread.get(column.2);
    spread.map_or_else(
        || "–".to_owned(),
        |spread| number(spread.relative() * 100.0),
    )
}

/// One table if it fits, else two with the same rows.
fn figures(rows: &[Row], width: usize, cell: fn(&Row, &Column) -> String) -> String {
    let all: Vec<Column> = SPEED.into_iter().chain(WORK).collect();
    let fits = |table: &String| table.lines().all(|line| line.chars().count() <= width);
    let tables = |columns: &[Column]| [2, 1].map(|padding| table(rows, columns, padding, cell));
    if let Some(one) = tables(&all).into_iter().find(fits) {
        return one;
    }
    let [speed, work] = [&SPEED[..], &WORK].map(|columns| {
        let [wide, narrow] = tables(columns);
        if fits(&wide) { wide } else { narrow }
    });
    format!("{speed}\n{work}")
}

fn table(
    rows: &[Row],
    columns: &[Column],
    padding: u16,
    cell: fn(&Row, &Column) -> String,
) -> String {
    let heads = columns.iter().map(|column| column.0);
    let heads: Vec<&str> = ["design", "mode"].into_iter().chain(heads).collect();
    let cells = rows.iter().map(|row| {
        let mut cells = vec![name(row), row.mode.to_string()];
        cells.extend(columns.iter().map(|column| cell(row, column)));
        cells
    });
    aligned(&heads, cells, 2, padding)
}

/// A line for each row: its name under `head`, then its cells under `heads`.
pub(crate) fn of_cells(head: &str, heads: &[&str], rows: &[(&Row, Vec<String>)]) -> String {
    let heads: Vec<&str> = [head].into_iter().chain(heads.iter().copied()).collect();
    let cells = rows.iter().map(|(row, cells)| {
        let name = name(row);
        [name].into_iter().chain(cells.iter().cloned()).collect()
    });
    aligned(&heads, cells, 1, 2)
}

/// A table whose first `texts` columns are texts and the others figures.
pub(crate) fn aligned(
    heads: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    texts: usize,
    padding: u16,
) -> String {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads);
    for cells in rows {
        table.add_row(cells);
    }
    let last = heads.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { padding }));
        if index >= texts {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

/// The design's name, marked when its run was stopped.
fn name(row: &Row) -> String {
    if row.complete {
        row.design.clone()
    } else {
        format!("{}*", row.design)
    }
}

/// What each design gains and loses against the first.
fn ratios(text: &mut String, rows: &[Row]) {
    let Some((base, others)) = rows.split_first().filter(|(_, others)| !others.is_empty()) else {
        return;
    };
    let names = others
        .iter()
        .map(|row| name(row).chars().count())
        .max()
        .unwrap_or(0);
    let _ = writeln!(text, "\nagainst {}:", name(base));
    for row in others {
        let _ = writeln!(
            text,
            "  {:names$}  bandwidth {}, mean {}, p99 {}, host CPU {}, commands {}",
            name(row),
            times(row.bandwidth_mb_s, base.bandwidth_mb_s),
            times(row.latency_us.mean, base.latency_us.mean),
            times(row.latency_us.p99, base.latency_us.p99),
            times(row.host_cpu_us_per_io, base.host_cpu_us_per_io),
            times(row.commands_per_io, base.commands_per_io),
        );
    }
}

/// What was run, as lines of a name and a value.
fn provenance(c: &Comparison) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("workload", workload(c)),
        (
            "sent",
            format!("{}, {}", sending(c), c.workload.client_rule),
        ),
        ("drive", drives(c)),
        ("cache", cache(c)),
        ("reads", verified(c)),
        (
            "seed",
            format!(
                "{}, configuration {}, commit {}",
                seeds(c),
                c.config_hash,
                c.commit
            ),
        ),
        ("costs", cost_table(c)),
    ];
    if let Some(fit) = &c.workload.fit {
        lines.push((
            "fit",
            format!("{fit}: addresses beyond the drive were brought onto it"),
        ));
    }
    if c.workload.bad_lines > 0 {
        let count = grouped(c.workload.bad_lines);
        lines.push((
            "bad lines",
            format!("{count} of the trace could not be read, left out"),
        ));
    }
    for (row, model) in c
        .rows
        .iter()
        .filter_map(|row| Some((row, row.model.as_ref()?)))
    {
        lines.push(("model", format!("{} is {model}", row.design)));
    }
    let drifts = c.rows.iter().filter_map(|row| Some((row, row.drift_us?)));
    lines.extend(drifts.map(|(row, drift)| {
        let (mean, max) = (number(drift.mean), number(drift.max));
        (
            "drift",
            format!(
                "{}: requests sent {mean} µs late in the mean, {max} at most",
                row.design
            ),
        )
    }));
    for row in c.rows.iter().filter(|row| !row.complete) {
        let (done, all) = (grouped(row.requests), grouped(c.workload.requests));
        lines.push((
            "stopped*",
            format!("{} after {done} of {all} requests", row.design),
        ));
    }
    lines.extend(c.warnings.iter().map(|told| ("warning", told.clone())));
    lines.extend(c.notes.iter().map(|note| ("note", note.clone())));
    lines
}

/// Writes a name and its value, the value broken between words to fit and set under itself.
pub(crate) fn wrapped(text: &mut String, name: &str, value: &str, width: usize) {
    const INDENT: usize = 11;
    let mut column = INDENT;
    let _ = write!(text, "{name:<INDENT$}");
    for word in value.split_whitespace() {
        let length = word.chars().count();
        if column > INDENT && column + length + 1 > width {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = INDENT;
        }
        if column > INDENT {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn widest(text: &str) -> usize {
        text.lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn every_design_is_one_line_of_one_table_within_130_columns() {
        let c = sample::comparison(5);
        let text = render(&c, 130);
        assert!(widest(&text) <= 130, "{}:\n{text}", widest(&text));
        for row in &c.rows {
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| line.starts_with(&row.design) && line.contains("simulated"))
                .collect();
            assert_eq!(lines.len(), 1, "{}:\n{text}", row.design);
            assert_eq!(
                lines[0].split_whitespace().count(),
                2 + SPEED.len() + WORK.len()
            );
        }
        assert!(!text.contains('\x1b'));
        assert!(text.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn a_narrow_terminal_gets_two_tables_and_wrapped_lines() {
        for (designs, width) in [(8, PIPE_WIDTH), (3, 80)] {
            let text = render(&sample::comparison(designs), width);
            assert!(widest(&text) <= width, "{}:\n{text}", widest(&text));
            let heads = text
                .lines()
                .filter(|line| line.starts_with("design"))
                .count();
            assert_eq!(heads, 2, "{text}");
        }
    }

    #[test]
    fn the_spread_of_several_seeds_is_a_table_of_its_own() {
        let text = render(&sample::seeded_comparison(2), 130);
        let (_, spread) = text.split_once("of 2 seeds; the standard").expect("said");
        let line = spread.lines().find(|line| line.starts_with("clock"));
        let cells: Vec<&str> = line.expect("a line").split_whitespace().collect();
        // Bandwidths of 1 and 0.9; latencies of 1 and 1 / 0.9; the same median.
        assert_eq!(cells[2..6], ["7.44", "7.44", "7.44", "0"], "{spread}");
        assert!(text.contains("1 to 2, configuration"), "{text}");
        assert!(!render(&sample::comparison(2), 130).contains("deviation"));
    }

    #[test]
    fn what_was_run_is_said_below() {
        let text = render(&sample::comparison(2), PIPE_WIDTH);
        for said in [
            "sample.csv (a trace in msr format): 150,000 requests, 62 % reads, footprint 4 GiB",
            "closed loop, 8 clients, depth 32, by address: 1 MiB stripes",
            "1 drive sample-ssd of 32 GiB",
            "786.43 MiB (18.75% of the footprint)",
            "checked against the last write, all right",
            "5a3c0de05a3c0de0",
            "sample-costs, no machine of 2000-01-01",
            "Sample data: made up",
            "against direct:",
        ] {
            assert!(text.contains(said), "{said} is not in:\n{text}");
        }
    }

    #[test]
    fn figures_that_a_run_lacks_are_dashes_and_a_stopped_run_is_marked() {
        let text = render(&sample::sparse_comparison(), PIPE_WIDTH);
        assert!(
            text.contains("clock*") && text.contains("measured"),
            "{text}"
        );
        assert!(
            text.contains("stopped*   clock after 75,000 of 150,000 requests"),
            "{text}"
        );
        assert!(text.contains("direct: requests sent 1.50 µs late in the mean, 310 at most"));
        assert!(
            text.contains("open loop by timestamps, 2 times as fast, 8 clients"),
            "{text}"
        );
        assert!(text.contains(" – "), "{text}");
    }

    #[test]
    fn a_run_without_rows_is_still_said() {
        let mut c = sample::comparison(1);
        assert!(!render(&c, PIPE_WIDTH).contains("against direct"));
        c.rows.clear();
        let text = render(&c, PIPE_WIDTH);
        assert!(text.contains("seed       1,"), "{text}");
    }
}
