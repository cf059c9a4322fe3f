//! A figure's first plot in small, for the index: shapes without words.

use std::fmt::Write as _;

use super::figure::Plot;
use super::outcome::FoundPanel;
use super::plot::{colour, dash, heights, opacity};

const WIDTH: f64 = 132.0;
const HEIGHT: f64 = 56.0;

/// The panel as an SVG element that has no text; empty if the panel has no values.
pub(super) fn draw(panel: &FoundPanel, plot: Plot) -> String {
    let values = panel.series.iter().flat_map(|s| s.values.iter().flatten());
    let most = match plot {
        Plot::Stacks => heights(panel).fold(0.0, f64::max),
        _ => values.copied().fold(0.0, f64::max),
    };
    if most <= 0.0 {
        return String::new();
    }
    let small = Small {
        panel,
        most,
        place: WIDTH / panel.points.len() as f64,
    };
    let shapes = match plot {
        Plot::Bars => small.bars(),
        Plot::Lines => small.lines(),
        Plot::Stacks => small.stacks(),
    };
    format!(
        "<svg class=\"thumb\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" aria-hidden=\"true\">{shapes}</svg>"
    )
}

struct Small<'a> {
    panel: &'a FoundPanel,
    most: f64,
    /// Width of a point's place.
    place: f64,
}

impl Small<'_> {
    fn y(&self, value: f64) -> f64 {
        HEIGHT - 1.0 - value / self.most * (HEIGHT - 3.0)
    }

    fn bars(&self) -> String {
        let mut text = String::new();
        let width = (self.place * 0.8 / self.panel.series.len() as f64).min(14.0);
        let margin = (self.place - width * self.panel.series.len() as f64) / 2.0;
        for (index, series) in self.panel.series.iter().enumerate() {
            for (point, value) in series.values.iter().enumerate() {
                if let Some(value) = value {
                    let x = self.place * point as f64 + margin + width * index as f64;
                    self.rect(&mut text, (x, width * 0.92), (0.0, *value), index);
                }
            }
        }
        text
    }

    fn stacks(&self) -> String {
        let mut text = String::new();
        let width = (self.place * 0.6).min(40.0);
        for point in 0..self.panel.points.len() {
            let x = self.place * point as f64 + (self.place - width) / 2.0;
            let mut from = 0.0;
            for (index, series) in self.panel.series.iter().enumerate() {
                let value = series.values[point].unwrap_or_default();
                self.rect(&mut text, (x, width), (from, from + value), index);
                from += value;
            }
        }
        text
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        for (index, series) in self.panel.series.iter().enumerate() {
            let mut path = String::new();
            let mut pen = 'M';
            for (point, value) in series.values.iter().enumerate() {
                let Some(value) = value else {
                    pen = 'M';
                    continue;
                };
                let x = self.place * (point as f64 + 0.5);
                let _ = write!(path, "{pen}{x:.1} {:.1}", self.y(*value));
                pen = 'L';
            }
            let (colour, dash) = (colour(index), dash(&series.name));
            let _ = write!(
                text,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dash}/>"
            );
        }
        text
    }

    fn rect(
        &self,
        text: &mut String,
        (x, width): (f64, f64),
        (from, to): (f64, f64),
        index: usize,
    ) {
        let (top, bottom) = (self.y(to), self.y(from));
        let _ = write!(
            text,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\" opacity=\"{}\"/>",
            bottom - top,
            colour(index),
            opacity(index)
        );
    }
}
