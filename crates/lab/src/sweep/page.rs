//! A sweep as one self-contained page: a curve for each design over the first axis of numbers, and all figures.

use serde_json::{Value, json};

use super::{Report, SweepRow};
use crate::report::format;
use crate::report::html::{Escaped, end, head};

const SWEEP: &str = include_str!("../report/assets/sweep.js");

/// The page as text.
pub fn render(report: &Report) -> String {
    let notes = match report.gap() {
        Some(gap) => format!("<div class=\"notes\"><p>{}</p></div>\n", Escaped(gap)),
        None => String::new(),
    };
    format!(
        "{head}<header><h1>{heading}</h1>\n<p class=\"lede\">{about}</p>\n{notes}</header>\n{curves}\
         <section>\n<h2>All figures</h2>\n<div class=\"scroll\">{table}</div>\n</section>\n\
         {end}",
        head = head(&Escaped(format!("{} · Wharf sweep", heading(report)))),
        end = end(&data(report).to_string(), SWEEP),
        heading = Escaped(heading(report)),
        about = Escaped(report.about()),
        curves = curves(report),
        table = table(report),
    )
}

/// What was changed of what.
fn heading(report: &Report) -> String {
    let workloads = report.workloads();
    let designs: Vec<&str> = report.designs.iter().map(String::as_str).collect();
    let keys: Vec<&str> = report.axes.iter().map(|a| a.axis.key.as_str()).collect();
    let on = match workloads.is_empty() {
        true => String::new(),
        false => format!(" on {}", format::listed(&workloads)),
    };
    let by = match keys.is_empty() {
        true => String::new(),
        false => format!(", by {}", format::listed(&keys)),
    };
    format!("{}{on}{by}", format::listed(&designs))
}

/// The place of the curves, if there is an axis of numbers.
fn curves(report: &Report) -> String {
    let Some(axis) = report.axes.iter().find(|axis| axis.unit.is_some()) else {
        return "<section>\n<h2>Curves</h2>\n<p class=\"hint\">No value that was changed is a number: there are no curves, and the table has all figures.</p>\n\
                </section>\n"
            .into();
    };
    format!(
        "<noscript><p class=\"notes\">The curves need JavaScript. All figures are in the table below.</p></noscript>\n\
         <section>\n<div class=\"bar-head\"><h2>By {}</h2><span class=\"choice\" id=\"zoom\"></span></div>\n<div id=\"choices\"></div>\n<div class=\"legend\" id=\"legend\"></div>\n\
         <div class=\"grid-of-charts\" id=\"charts\"></div>\n</section>\n",
        Escaped(&axis.axis.key)
    )
}

/// What the scripts draw: axes, and of each row what curves need.
fn data(report: &Report) -> Value {
    let row = |row: &SweepRow| {
        let axes: Vec<&String> = report
            .axes
            .iter()
            .filter_map(|axis| row.axes.get(&axis.axis.key))
            .collect();
        json!({
            "axes": axes,
            "design": row.row.design,
            "bandwidth_mb_s": row.row.bandwidth_mb_s,
            "mean_us": row.row.latency_us.mean,
            "p99_us": row.row.latency_us.p99,
            "hit_ratio": row.row.hit_ratio,
            "cache_bytes": row.cache_bytes,
        })
    };
    json!({
        "axes": report.axes,
        "designs": report.designs,
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn table(report: &Report) -> String {
    // Axes and the design are words, and stand on the left.
    let cells = |tag: &str, texts: Vec<String>| -> String {
        let cell = |(at, text): (usize, &String)| {
            let class = if at <= report.axes.len() {
                " class=\"word\""
            } else {
                ""
            };
            let tag = if at == 0 { "th" } else { tag };
            format!("<{tag}{class}>{}</{tag}>", Escaped(text))
        };
        texts.iter().enumerate().map(cell).collect()
    };
    let heads = report.heads().into_iter().map(String::from).collect();
    let line = |row| format!("<tr>{}</tr>\n", cells("td", report.cells(row)));
    let lines: String = report.rows.iter().map(line).collect();
    format!(
        "<table class=\"figures\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>",
        cells("th", heads)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::result::Comparison;
    use crate::sweep::{Axis, ReportAxis, Unit};
    use std::collections::BTreeMap;

    /// A report of two sizes of a cache, whose names are `name`.
    fn report(name: &str, is_number: bool) -> Report {
        let Comparison { rows, .. } = sample::comparison(2);
        let values = ["1%", "5%"].map(String::from);
        let axis = Axis::new(name, values.to_vec()).unwrap();
        let row = |value: &String, row: &crate::result::Row| SweepRow {
            point: "0".into(),
            axes: BTreeMap::from([(name.into(), value.clone())]),
            workload: name.into(),
            footprint_bytes: 4096,
            seed: 1,
            seeds: 1,
            cache_bytes: 4096,
            config_hash: "0".into(),
            row: row.clone(),
        };
        let pairs = values
            .iter()
            .flat_map(|value| rows.iter().map(|r| row(value, r)).collect::<Vec<_>>());
        Report {
            schema: "wharf.sweep/1",
            sweep: "0".into(),
            commit: "c".into(),
            cost_tables: Vec::new(),
            axes: vec![ReportAxis {
                axis,
                unit: is_number.then_some(Unit::Share),
                numbers: if is_number {
                    vec![0.01, 0.05]
                } else {
                    Vec::new()
                },
            }],
            designs: rows.iter().map(|row| row.design.clone()).collect(),
            points: 5,
            missing: vec!["clock with a=b".into()],
            rows: pairs.collect(),
        }
    }

    #[test]
    fn every_place_that_the_script_draws_in_is_on_the_page_once() {
        let page = render(&report("cache", true));
        let mut places = 0;
        for rest in SWEEP.split("getElementById(\"").skip(1) {
            let id = rest.split('"').next().unwrap();
            assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
            places += 1;
        }
        assert!(places >= 4, "{places}");
        assert!(page.contains("1 of 5 points are missing: clock with a=b"));
        assert_eq!(page.matches("<tr>").count(), 5);
        for reference in ["src=", "@import", "url(", "<link", "fetch("] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn words_alone_give_a_table_and_no_curves() {
        let page = render(&report("policy", false));
        assert!(page.contains("there are no curves") && !page.contains(" id=\"charts\""));
    }

    #[test]
    fn names_from_outside_are_text_and_never_markup() {
        let hostile = "</script><img src=x onerror=alert('1')>";
        let (page, plain) = (
            render(&report(hostile, true)),
            render(&report("cache", true)),
        );
        for tag in ["<script", "</script", "<img"] {
            assert_eq!(
                page.matches(tag).count(),
                plain.matches(tag).count(),
                "{tag}"
            );
        }
    }
}
