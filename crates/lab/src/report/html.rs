//! The comparison as one self-contained page, for people.
//!
//! Words and tables are written here; the charts are drawn in the browser by the scripts beside
//! this file, from the comparison's JSON that the page carries. The page loads nothing: its content
//! security policy forbids it.
//!
//! What comes from outside (names of files, designs, notes) is text and nothing else: `Escaped`
//! in markup, `\u003c` for `<` in the JSON, text nodes in the scripts.

mod figures;

use std::fmt::{self, Write as _};

use super::format;
use crate::result::{Comparison, Row};

pub(crate) const STYLE: &str = include_str!("assets/report.css");
const CHARTS: &str = concat!(
    include_str!("assets/charts.js"),
    include_str!("assets/zoom.js")
);
const REPORT: &str = concat!(
    include_str!("assets/time.js"),
    include_str!("assets/report.js")
);

/// Text as it may stand in HTML, between tags and in quoted attributes.
pub(crate) struct Escaped<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The page as text.
pub fn render(comparison: &Comparison) -> String {
    let title = Escaped(format!(
        "{} · Wharf {}",
        comparison.workload.name,
        command(comparison)
    ));
    [
        head(&title),
        header(comparison),
        cards(&comparison.rows),
        sections(comparison),
        figures::section(&comparison.rows),
        super::behind::section(&comparison.rows) + &super::files::section(&comparison.rows),
        run(comparison),
        tail(comparison),
    ]
    .concat()
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
"#;

/// How a page begins.
pub(crate) fn head(title: &Escaped<String>) -> String {
    let title = title.to_string();
    HEAD.replace("{style}", STYLE).replace("{title}", &title)
}

/// How a page ends: the place of the read-out, the data, and the script that draws it.
pub(crate) fn end(json: &str, script: &str) -> String {
    format!(
        "</main>\n<div id=\"tip\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>\n{CHARTS}\n{script}</script>\n</body>\n</html>\n",
        in_script(json),
    )
}

/// The places of the charts that every page has, with what a reader has to know about each.
const SECTIONS: &str = r#"
<noscript><p class="notes">The charts need JavaScript. All figures are in the tables below.</p></noscript>
<section>
<h2>At a glance</h2>
<div class="bars" id="bars"></div>
</section>

<section>
<div class="bar-head"><h2>Latency</h2><div class="choices"><span class="choice" id="cdf-zoom"></span><span class="choice" id="cdf-choice"></span></div></div>
<p class="hint">The share of requests that took no longer than a latency. Further left is faster; the
upper end of a curve is its slowest requests. Drag over a part to zoom in; double-click for the whole.</p>
<div class="legend" id="cdf-legend"></div>
<div class="chart" id="cdf"></div>
</section>
"#;

/// The place of the course over time, where one was taken.
const TIME: &str = r#"
<section>
<div class="bar-head"><h2>Over time</h2><div class="choices"><span class="choice" id="time-zoom"></span><span class="choice" id="time-choice"></span></div></div>
<p class="hint">All designs get the same requests: a curve ends when its design has served them. Drag over a part of the time to
zoom in, in all plots; double-click for the whole.</p>
<div class="choices"><span class="choice" id="time-course"></span></div>
<div class="legend" id="time-legend"></div>
<div class="chart" id="time"></div>
</section>
"#;

/// The place of CPU times, where they were taken.
const CPU: &str = r#"
<section>
<h2>Where CPU time goes</h2>
<p class="hint">Per I/O, on the host's CPUs and on the drive's own.</p>
<div class="legend" id="cpu-legend"></div>
<div class="chart" id="cpu"></div>
</section>
"#;

/// The places of all charts that there is something for.
fn sections(c: &Comparison) -> String {
    let mut text = SECTIONS.to_owned();
    if c.rows.iter().any(|row| !row.timeline.is_empty()) {
        text.push_str(TIME);
    }
    if c.rows.iter().any(|row| !row.cpu_breakdown.is_empty()) {
        text.push_str(CPU);
    }
    text
}

/// The command that the comparison is of.
fn command(c: &Comparison) -> &'static str {
    match c.rows.iter().any(|row| row.rounds.is_some()) {
        true => "bench",
        false => "compare",
    }
}

/// What was run, in a sentence, and what has to be known about it.
fn header(c: &Comparison) -> String {
    let names: Vec<&str> = c.rows.iter().map(|row| row.design.as_str()).collect();
    let cache = match c.cache_bytes {
        0 => String::new(),
        _ => format!(", with caches of {}", format::cache(c)),
    };
    let complete = c.rows.iter().all(|row| row.complete);
    let lede = format!(
        "{} {} {} of {} ({} % reads, footprint {}) on {}{cache}: {}, {}.",
        format::listed(&names),
        if complete {
            "served"
        } else {
            "were to serve, and did not all finish,"
        },
        format::counted(c.workload.requests, "request"),
        c.workload.name,
        format::percent(c.workload.read_share),
        format::bytes(c.workload.footprint_bytes),
        format::drives(c),
        format::sending(c),
        format::provenance(c),
    );
    let mut text = format!(
        "<p class=\"kicker\">Wharf {} · seed {} · configuration {}</p>\n\
         <h1>{}</h1>\n<p class=\"lede\">{}</p>\n",
        command(c),
        format::seeds(c),
        Escaped(&c.config_hash),
        Escaped(headline(c)),
        Escaped(lede),
    );
    // What makes figures unfair stands out; what is to be known of any run does not.
    for (class, told) in [("notes", &c.warnings), ("facts", &c.notes)] {
        if !told.is_empty() {
            let _ = write!(text, "<div class=\"{class}\">");
            for line in told {
                let _ = write!(text, "<p>{}</p>", Escaped(line));
            }
            text.push_str("</div>\n");
        }
    }
    text
}

/// The outcome in a line: the design with the most bandwidth against the first, or against none.
fn headline(c: &Comparison) -> String {
    let fastest = c
        .rows
        .iter()
        .max_by(|a, b| a.bandwidth_mb_s.total_cmp(&b.bandwidth_mb_s));
    let (Some(first), Some(fastest)) = (c.rows.first(), fastest) else {
        return format!("{}: no design was run", c.workload.name);
    };
    let figure = format::number(fastest.bandwidth_mb_s);
    match c.rows.len() {
        1 => format!("{} on {}: {figure} MB/s", first.design, c.workload.name),
        _ if fastest.design == first.design => {
            format!(
                "On {}, {} is the fastest with {figure} MB/s",
                c.workload.name, first.design
            )
        }
        _ => {
            let times = format::times(fastest.bandwidth_mb_s, first.bandwidth_mb_s);
            let workload = &c.workload.name;
            format!(
                "On {workload}, {} reaches {times} the bandwidth of {}",
                fastest.design, first.design
            )
        }
    }
}

/// The key numbers of each design.
fn cards(rows: &[Row]) -> String {
    let mut text = String::from("<div class=\"cards\">\n");
    for (index, row) in rows.iter().enumerate() {
        let against = match index {
            0 if rows.len() > 1 => "the baseline".to_owned(),
            0 => String::new(),
            _ => {
                let times = format::times(row.bandwidth_mb_s, rows[0].bandwidth_mb_s);
                format!("{times} the bandwidth of {}", rows[0].design)
            }
        };
        let stopped = if row.complete {
            ""
        } else {
            " <span class=\"badge warn\">stopped early</span>"
        };
        let model = match &row.model {
            Some(model) => format!("<p class=\"hint\">This is {}.</p>\n", Escaped(model)),
            None => String::new(),
        };
        let _ = write!(
            text,
            "<article class=\"card\" style=\"--series: var(--s{})\">\n\
             <header><h3>{}</h3><span><span class=\"badge\">{}</span>{stopped}</span></header>\n\
             <p class=\"big\">{} <small>MB/s {}</small></p>\n<p class=\"against\">{}</p>\n<dl>",
            index % 8,
            Escaped(&row.design),
            row.mode,
            format::number(row.bandwidth_mb_s),
            format::spread(row, "bandwidth_mb_s"),
            Escaped(against),
        );
        for (name, value) in key_figures(row) {
            let _ = write!(text, "<dt>{name}</dt><dd>{value}</dd>");
        }
        let _ = write!(text, "</dl>\n{model}</article>\n");
    }
    text + "</div>\n"
}

fn key_figures(row: &Row) -> Vec<(&'static str, String)> {
    let hit = match (row.hit_ratio, &row.rounds) {
        (Some(ratio), _) => format!("{} %", format::percent(ratio)),
        // The kernel's cache does not tell.
        (None, Some(_)) => "not known".to_owned(),
        (None, None) => "no cache".to_owned(),
    };
    // Where all hits are without a command there is nothing more to say.
    let without = row.no_command_hit_ratio;
    let without = without.filter(|without| Some(*without) != row.hit_ratio);
    let without =
        without.map(|ratio| ("without a command", format!("{} %", format::percent(ratio))));
    let last = match &row.rounds {
        Some(rounds) => ("rounds, I/O per second", figures::spread(rounds)),
        None => {
            let told = row.write_amplification.map(format::number);
            ("write amplification", told.unwrap_or("no writes".into()))
        }
    };
    let mut figures = vec![
        ("I/O per second", format::grouped(row.iops.round() as u64)),
        (
            "p99 latency",
            format!("{} µs", format::number(row.latency_us.p99)),
        ),
        ("hit ratio", hit),
    ];
    figures.extend(without);
    figures.extend([
        (
            "host CPU per I/O",
            format!("{} µs", format::number(row.host_cpu_us_per_io)),
        ),
        last,
        ("reads verified", format::grouped(row.verified_reads)),
    ]);
    figures
}

/// What was run, in full, and what it takes to run it again.
fn run(c: &Comparison) -> String {
    let mut text =
        String::from("<section class=\"long\">\n<div class=\"bar-head\"><h2>The run</h2>");
    text.push_str(
        "<button type=\"button\" class=\"save\" id=\"save\">Save the data as JSON</button></div>\n",
    );
    text.push_str("<dl class=\"run\">\n");
    for (name, value) in figures::run_data(c) {
        let _ = writeln!(
            text,
            "<dt>{}</dt><dd>{}</dd>",
            Escaped(name),
            Escaped(value)
        );
    }
    text + "</dl>\n</section>\n"
}

fn tail(c: &Comparison) -> String {
    let json = serde_json::to_string(c).expect("plain data with string keys");
    format!(
        "<footer>Times marked simulated follow from drive presets and measured CPU costs; times \
         marked measured were taken on the machine's clock. Reads: {}.</footer>\n{}",
        format::verified(c),
        end(&json, REPORT),
    )
}

/// JSON that cannot end the script element it stands in, whatever its strings hold.
fn in_script(json: &str) -> String {
    // A `<` occurs in strings only, where its escape means the same.
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// What stands between two texts, each of which occurs once.
    fn between<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
        assert_eq!(page.matches(start).count(), 1, "{start}");
        let rest = page.split_once(start).expect("occurs once").1;
        rest.split_once(end).expect("is ended").0
    }

    const DATA: &str = "<script type=\"application/json\" id=\"data\">";

    #[test]
    fn the_page_carries_the_whole_comparison() {
        for c in [sample::comparison(8), sample::sparse_comparison()] {
            let page = render(&c);
            let json = between(&page, DATA, "</script>");
            let carried: Comparison = serde_json::from_str(json).expect("JSON as it stands");
            assert_eq!(carried, c);
        }
    }

    #[test]
    fn names_from_outside_are_text_and_never_markup() {
        let hostile =
            "</script><script>alert('&\"{style}\"')</script><!--<img src=x onerror=alert(1)>";
        let mut c = sample::comparison(2);
        let plain = render(&c);
        c.workload.name = hostile.to_owned();
        c.workload.source = crate::result::Source::File {
            path: hostile.to_owned(),
            format: hostile.to_owned(),
        };
        c.workload.fit = Some(hostile.to_owned());
        c.workload.client_rule = hostile.to_owned();
        c.notes.push(hostile.to_owned());
        c.warnings.push(hostile.to_owned());
        c.config_hash = hostile.to_owned();
        c.commit = hostile.to_owned();
        c.cache_spec = hostile.to_owned();
        c.drive.preset = hostile.to_owned();
        c.drive
            .parameters
            .insert(hostile.to_owned(), hostile.into());
        for row in &mut c.rows {
            row.design = hostile.to_owned();
            row.cpu_breakdown[0].category = hostile.to_owned();
        }
        let page = render(&c);
        for tag in ["<script", "</script", "<img", "<!--", "<style"] {
            assert_eq!(
                page.matches(tag).count(),
                plain.matches(tag).count(),
                "{tag}"
            );
        }
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
        let carried: Comparison =
            serde_json::from_str(between(&page, DATA, "</script>")).expect("JSON as it stands");
        assert_eq!(carried, c);
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = render(&sample::comparison(2));
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
        assert!(page.contains(policy));
        for reference in ["src=", "@import", "url(", "<link", "fetch(", "import("] {
            assert!(!page.contains(reference), "{reference}");
        }
        // The only address is the name of the SVG namespace.
        assert_eq!(
            page.matches("://").count(),
            page.matches("http://www.w3.org/2000/svg").count()
        );
    }

    #[test]
    fn every_place_that_the_scripts_draw_in_is_on_the_page_once() {
        let page = render(&sample::comparison(2));
        let calls = [
            "place(\"",
            "getElementById(\"",
            "drawLegend(\"",
            "drawChoice(\"",
            "buttons: \"",
            "charts: \"",
        ];
        let scripts = format!("{CHARTS}{REPORT}");
        let mut places = 0;
        for call in calls {
            for rest in scripts.split(call).skip(1) {
                let id = rest.split('"').next().expect("a quoted name");
                assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
                places += 1;
            }
        }
        assert!(places >= 10, "{places}");
    }

    #[test]
    fn words_and_tables_say_what_the_run_has_and_what_it_lacks() {
        let page = render(&sample::comparison(3));
        for said in [
            "<h1>On sample.csv, scala reaches",
            "direct, clock and scala served 150,000 requests of sample.csv (62 % reads",
            "with caches of 786.43 MiB (18.75% of the footprint)",
            "simulated in virtual time",
            "Sample data: made up",
            "channels = 8, dies_per_channel = 4, gc = greedy",
            "<dt>file</dt><dd>traces/sample.csv</dd>",
            "Latency, writes",
            "<dt>without a command</dt>",
        ] {
            assert!(page.contains(said), "{said}");
        }
        assert!(!page.contains('±'), "one seed");
        let seeded = render(&sample::seeded_comparison(3));
        assert!(seeded.matches("<small>±7.44 %</small>").count() >= 9);
        let sparse = render(&sample::sparse_comparison());
        for said in [
            "stopped early",
            "no cache",
            "not known",
            "no writes",
            "theta = 0.99",
            "Requests sent late",
            "This is a model of something.",
        ] {
            assert!(sparse.contains(said), "{said}");
        }
        assert!(!sparse.contains("Latency, writes"));
    }

    /// A bench's page had rows of the emulator, two empty panels, and other ratios than the terminal.
    #[test]
    fn the_page_of_a_bench_shows_rounds_and_nothing_that_was_not_taken() {
        let mut c = sample::sparse_comparison();
        let rounds = c.rows[1].rounds.clone().expect("rounds");
        for (row, factor) in c.rows.iter_mut().zip([1.0, 1.25]) {
            let mut rounds = rounds.clone();
            rounds.iops_median *= factor;
            (row.iops, row.bandwidth_mb_s) = (rounds.iops_median, rounds.iops_median * 4096e-6);
            row.rounds = Some(rounds);
            row.timeline.clear();
            row.cpu_breakdown.clear();
        }
        let page = render(&c);
        let shown = page.split(DATA).next().expect("what is before the data");
        for absent in [
            "id=\"time\"",
            "id=\"cpu\"",
            "garbage",
            "managers",
            "drive command",
            "write amplification",
        ] {
            assert!(!shown.contains(absent), "{absent}");
        }
        for said in [
            "Wharf bench",
            "slowest and fastest round",
            "1.25× the bandwidth of direct",
        ] {
            assert!(shown.contains(said), "{said}");
        }
        let terminal = crate::report::rounds::render(&c, 100);
        assert!(terminal.contains("clock        IOPS 1.25×"), "{terminal}");
    }

    #[test]
    fn a_run_without_rows_is_a_page_too() {
        let mut c = sample::comparison(1);
        c.rows.clear();
        assert!(render(&c).contains("<h1>sample.csv: no design was run</h1>"));
    }
}
