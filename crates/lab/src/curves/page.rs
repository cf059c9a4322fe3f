//! Curves as one self-contained page.

use super::Curves;
use crate::report::html::{Escaped, end, head};

const CURVES: &str = include_str!("../report/assets/curves.js");

/// The page as text.
pub fn render(curves: &Curves) -> String {
    let json = serde_json::to_string(curves).expect("plain data");
    format!(
        "{head}<header><h1>{trace}</h1>\n<p class=\"lede\">{heading}</p></header>\n\
         <noscript><p class=\"notes\">The curves need JavaScript. All figures are in the table below.</p></noscript>\n\
         <section>\n<div class=\"bar-head\"><h2>Hit ratio by size of the cache</h2><span class=\"choice\" id=\"zoom\"></span></div>\n\
         <p class=\"hint\">The share of uses of a page that found it in the cache. Higher is better; a page that is not there always comes. \
         Drag over a part to zoom in; double-click for the whole.</p>\n\
         <div class=\"legend\" id=\"legend\"></div>\n<div class=\"chart\" id=\"curves\"></div>\n</section>\n\
         <section>\n<h2>All figures</h2>\n<div class=\"scroll\">{table}</div>\n</section>\n\
         {end}",
        head = head(&Escaped(format!("{} · Wharf mrc", curves.trace))),
        end = end(&json, CURVES),
        trace = Escaped(&curves.trace),
        heading = Escaped(curves.heading()),
        table = table(curves),
    )
}

fn table(curves: &Curves) -> String {
    let cell = |tag, text: &str| format!("<{tag}>{text}</{tag}>");
    let heads: String = curves.heads().iter().map(|head| cell("th", head)).collect();
    let line = |line: Vec<String>| {
        let (size, figures) = line.split_first().expect("it begins with a size");
        let figures: String = figures.iter().map(|figure| cell("td", figure)).collect();
        format!("<tr>{}{figures}</tr>\n", cell("th", size))
    };
    let lines: String = curves.lines().into_iter().map(line).collect();
    format!(
        "<table class=\"figures\">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>"
    )
}
