//! A table of figures that only some rows have: for the terminal, and as a section of the page. Both are
//! empty where there are no lines.

use std::fmt::Write as _;

use super::html::Escaped;
use super::table::aligned;

/// As text, after an empty line. `texts` columns at the left are words; `padding` is between columns.
pub(super) fn table<const N: usize>(
    heads: &[&str; N],
    lines: Vec<[String; N]>,
    (texts, padding): (usize, u16),
) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let cells = lines.into_iter().map(Vec::from);
    format!("\n{}", aligned(heads, cells, texts, padding))
}

/// As a section of the page.
pub(super) fn section<const N: usize>(
    title: &str,
    heads: &[&str; N],
    lines: Vec<[String; N]>,
) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<section class=\"long\">\n<h2>{title}</h2>\n<table class=\"figures\">\n<thead><tr>"
    );
    for head in heads {
        let _ = write!(text, "<th>{}</th>", Escaped(head.replace('\n', " ")));
    }
    text += "</tr></thead>\n<tbody>\n";
    for line in lines {
        text += "<tr>";
        for cell in line {
            let _ = write!(text, "<td>{}</td>", Escaped(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>\n</section>\n"
}
