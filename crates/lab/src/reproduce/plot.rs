//! Figures as SVG, drawn here so that a page needs no script: bars, curves, stacked bars.
//!
//! Colours and text styles are classes and variables of the report's style sheet, so that plots follow
//! light and dark and look as those of `wharf compare` do.

use std::fmt::Write as _;

use super::figure::Plot;
use super::marks::{Basis, Mark};
use super::outcome::FoundPanel;
use crate::report::format;
use crate::report::html::Escaped;

const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// A mark that stands higher than so many times our highest value is drawn at the upper edge.
const MARKS_MOST: f64 = 2.5;

/// Ticks on the vertical axis, about.
const TICKS: f64 = 5.0;

/// The axes' scale.
struct Axes {
    most: f64,
    step: f64,
    points: usize,
}

impl Axes {
    fn new(most: f64, points: usize) -> Axes {
        let step = nice_step(most / TICKS);
        Axes {
            most: (most / step).ceil().max(1.0) * step,
            step,
            points,
        }
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.most * (HEIGHT - BOTTOM - TOP)
    }

    /// Width of a point's place.
    fn place(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.points as f64
    }

    /// Left end of a point's place.
    fn x(&self, point: usize) -> f64 {
        LEFT + self.place() * point as f64
    }

    /// Width of a bar with the gap to the next one.
    fn bar_width(&self, panel: &FoundPanel) -> f64 {
        (self.place() * 0.8 / panel.series.len() as f64).min(46.0)
    }

    /// Left end of a series' bar at a point.
    fn bar(&self, point: usize, series: usize, panel: &FoundPanel) -> f64 {
        let width = self.bar_width(panel);
        let margin = (self.place() - width * panel.series.len() as f64) / 2.0;
        self.x(point) + margin + width * series as f64
    }
}

/// The next of 1, 2, 5, 10 and so on.
fn nice_step(rough: f64) -> f64 {
    if rough.is_nan() || rough <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let fits = nice.into_iter().find(|step| *step >= rough * 0.999);
    fits.unwrap_or(10.0 * power)
}

/// The panel as an SVG element with a legend above it; a sentence if it has no values.
pub(super) fn draw(panel: &FoundPanel, plot: Plot, points: &str, axis: &str) -> String {
    let values = panel.series.iter().flat_map(|s| s.values.iter().flatten());
    if values.clone().next().is_none() {
        return "<p class=\"empty\">No values: none of the runs could be made.</p>\n".into();
    }
    let most = match plot {
        Plot::Stacks => heights(panel).fold(0.0, f64::max),
        _ => values.copied().fold(0.0, f64::max),
    };
    let marked = panel.marks.iter().map(|mark| mark.value);
    let marked = marked.fold(0.0, f64::max).min(MARKS_MOST * most);
    let axes = Axes::new(most.max(marked), panel.points.len());
    let mut text = legend(panel, plot);
    let _ = write!(
        text,
        "<div class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        Escaped(axis)
    );
    grid(&mut text, &axes, panel, points);
    match plot {
        Plot::Bars => bars(&mut text, &axes, panel),
        Plot::Lines => lines(&mut text, &axes, panel),
        Plot::Stacks => stacks(&mut text, &axes, panel),
    }
    for mark in &panel.marks {
        draw_mark(&mut text, &axes, panel, plot, mark);
    }
    text + "</svg></div>\n"
}

/// Heights of stacked bars.
pub(super) fn heights(panel: &FoundPanel) -> impl Iterator<Item = f64> {
    (0..panel.points.len()).map(|point| {
        let layers = panel.series.iter();
        layers.filter_map(|series| series.values[point]).sum()
    })
}

/// A colour for each series; the lighter half of the palette comes again for an ideal line.
pub(super) fn colour(index: usize) -> String {
    format!("var(--s{})", index % 8)
}

/// Layers beyond the palette's eight are paler.
pub(super) fn opacity(index: usize) -> &'static str {
    if index < 8 { "1" } else { "0.5" }
}

fn legend(panel: &FoundPanel, plot: Plot) -> String {
    let mut text = String::from("<div class=\"legend\">");
    for (index, series) in panel.series.iter().enumerate() {
        let mark = match plot {
            Plot::Lines => format!(
                "<svg width=\"22\" height=\"10\"><line x1=\"0\" x2=\"22\" y1=\"5\" y2=\"5\" stroke=\"{}\" stroke-width=\"2\"{}/></svg>",
                colour(index),
                dash(&series.name)
            ),
            _ => format!(
                "<i class=\"swatch\" style=\"background:{};opacity:{}\"></i>",
                colour(index),
                opacity(index)
            ),
        };
        let _ = write!(
            text,
            "<span class=\"key\">{mark}{}</span>",
            Escaped(&series.name)
        );
    }
    for basis in [Basis::Value, Basis::Ratio, Basis::MeanRatio] {
        if panel.marks.iter().any(|mark| mark.basis == basis) {
            let _ = write!(
                text,
                "<span class=\"key\"><svg width=\"16\" height=\"14\">{}</svg>{}</span>",
                sign(basis, 8.0, 7.0),
                said_of(basis)
            );
        }
    }
    text + "</div>\n"
}

/// What a mark says, for the legend.
fn said_of(basis: Basis) -> &'static str {
    match basis {
        Basis::Value => "paper",
        Basis::Ratio => "paper: its ratio × our value of what is compared with",
        Basis::MeanRatio => {
            "paper: its mean ratio × our value of what is compared with (the paper has no single ones)"
        }
    }
}

/// The sign of a mark: full for a value of the paper's, hollow for a ratio, flat for a mean.
fn sign(basis: Basis, x: f64, y: f64) -> String {
    let (class, half) = match basis {
        Basis::Value => ("mark full", 5.5),
        Basis::Ratio => ("mark", 5.5),
        Basis::MeanRatio => ("mark", 2.5),
    };
    format!(
        "<path class=\"{class}\" d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z\"/>",
        x - 5.5,
        y - half,
        x + 5.5,
        y + half
    )
}

fn draw_mark(text: &mut String, axes: &Axes, panel: &FoundPanel, plot: Plot, mark: &Mark) {
    let x = match plot {
        Plot::Bars => axes.bar(mark.point, mark.series, panel) + axes.bar_width(panel) / 2.0,
        _ => axes.x(mark.point) + axes.place() / 2.0,
    };
    let is_above = mark.value > axes.most;
    let _ = write!(
        text,
        "<g>{}<title>{}, {}, {}: {}{} (claim {})</title></g>",
        sign(mark.basis, x, axes.y(mark.value.min(axes.most))),
        said_of(mark.basis),
        Escaped(&panel.series[mark.series].name),
        Escaped(&panel.points[mark.point]),
        format::number(mark.value),
        if is_above { ", above the axis" } else { "" },
        Escaped(&mark.claim)
    );
}

/// Lines of what perfect scaling would give are dashed.
pub(super) fn dash(name: &str) -> &'static str {
    match name.ends_with("ideal") {
        true => " stroke-dasharray=\"5 4\"",
        false => "",
    }
}

fn grid(text: &mut String, axes: &Axes, panel: &FoundPanel, points: &str) {
    let mut tick = 0.0;
    while tick <= axes.most * 1.0001 {
        let y = axes.y(tick);
        let _ = write!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 7.0,
            y + 4.0,
            tick_text(tick)
        );
        tick += axes.step;
    }
    for (index, point) in panel.points.iter().enumerate() {
        let _ = write!(
            text,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            axes.x(index) + axes.place() / 2.0,
            HEIGHT - BOTTOM + 17.0,
            Escaped(point)
        );
    }
    let _ = write!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (WIDTH + LEFT - RIGHT) / 2.0,
        HEIGHT - 6.0,
        Escaped(points)
    );
}

/// Round numbers without zeros that say nothing.
fn tick_text(tick: f64) -> String {
    match tick {
        0.0 => "0".into(),
        1e6.. => format!("{} M", format::plain(tick / 1e6)),
        1000.0.. => format::grouped(tick.round() as u64),
        _ => {
            let text = format!("{tick:.4}");
            text.trim_end_matches('0').trim_end_matches('.').into()
        }
    }
}

/// A rectangle with its read-out.
struct Bar<'a> {
    x: f64,
    width: f64,
    from: f64,
    to: f64,
    index: usize,
    name: &'a str,
    point: &'a str,
}

fn bar(text: &mut String, axes: &Axes, bar: &Bar) {
    let (top, bottom) = (axes.y(bar.to), axes.y(bar.from));
    let _ = write!(
        text,
        "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" opacity=\"{}\"><title>{}, {}: {}</title></rect>",
        bar.x,
        bar.width,
        bottom - top,
        colour(bar.index),
        opacity(bar.index),
        Escaped(bar.name),
        Escaped(bar.point),
        format::number(bar.to - bar.from)
    );
}

fn bars(text: &mut String, axes: &Axes, panel: &FoundPanel) {
    let width = axes.bar_width(panel);
    for (index, series) in panel.series.iter().enumerate() {
        for (point, value) in series.values.iter().enumerate() {
            let x = axes.bar(point, index, panel);
            match value {
                Some(value) => bar(
                    text,
                    axes,
                    &Bar {
                        x,
                        width: width * 0.92,
                        from: 0.0,
                        to: *value,
                        index,
                        name: &series.name,
                        point: &panel.points[point],
                    },
                ),
                None => {
                    let _ = write!(
                        text,
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">–</text>",
                        x + width / 2.0,
                        axes.y(0.0) - 3.0
                    );
                }
            }
        }
    }
}

fn stacks(text: &mut String, axes: &Axes, panel: &FoundPanel) {
    let width = (axes.place() * 0.6).min(120.0);
    for (point, name) in panel.points.iter().enumerate() {
        let mut from = 0.0;
        for (index, series) in panel.series.iter().enumerate() {
            let Some(value) = series.values[point] else {
                continue;
            };
            let layer = Bar {
                x: axes.x(point) + (axes.place() - width) / 2.0,
                width,
                from,
                to: from + value,
                index,
                name: &series.name,
                point: name,
            };
            bar(text, axes, &layer);
            from += value;
        }
    }
}

fn lines(text: &mut String, axes: &Axes, panel: &FoundPanel) {
    for (index, series) in panel.series.iter().enumerate() {
        let mut path = String::new();
        let mut marks = String::new();
        let mut pen_up = true;
        for (point, value) in series.values.iter().enumerate() {
            let Some(value) = value else {
                pen_up = true;
                continue;
            };
            let (x, y) = (axes.x(point) + axes.place() / 2.0, axes.y(*value));
            let _ = write!(path, "{}{x:.1} {y:.1}", if pen_up { 'M' } else { 'L' });
            let _ = write!(
                marks,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{}\"><title>{}, {}: {}</title></circle>",
                colour(index),
                Escaped(&series.name),
                Escaped(&panel.points[point]),
                format::number(*value)
            );
            pen_up = false;
        }
        let _ = write!(
            text,
            "<path class=\"curve\" d=\"{path}\" stroke=\"{}\"{}/>{marks}",
            colour(index),
            dash(&series.name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::FoundSeries;
    use super::*;

    fn panel(values: &[Option<f64>]) -> FoundPanel {
        FoundPanel {
            title: String::new(),
            points: (0..values.len()).map(|i| format!("p{i}")).collect(),
            marks: Vec::new(),
            series: vec![
                FoundSeries {
                    name: "a<b".into(),
                    values: values.to_vec(),
                },
                FoundSeries {
                    name: "a ideal".into(),
                    values: values.to_vec(),
                },
            ],
        }
    }

    #[test]
    fn every_value_is_drawn_once_and_names_are_text() {
        let panel = panel(&[Some(3.0), None, Some(10.0)]);
        let bars = draw(&panel, Plot::Bars, "points", "axis");
        assert_eq!(bars.matches("<rect").count(), 4);
        assert_eq!(bars.matches(">–</text>").count(), 2);
        assert!(bars.contains("a&lt;b") && !bars.contains("a<b"));
        let lines = draw(&panel, Plot::Lines, "points", "axis");
        assert_eq!(lines.matches("<circle").count(), 4);
        assert_eq!(lines.matches("<path").count(), 2);
        let stacks = draw(&panel, Plot::Stacks, "points", "axis");
        assert_eq!(stacks.matches("<rect").count(), 4);
        // Both layers of the higher bar lie within the axes.
        assert!(stacks.contains(">20</text>"), "{stacks}");
    }

    #[test]
    fn marks_of_the_paper_have_a_legend_and_stay_on_the_axes() {
        let mut panel = panel(&[Some(3.0), Some(10.0)]);
        let mark = |point, value, basis| Mark {
            series: 0,
            point,
            value,
            basis,
            claim: "a<b".into(),
        };
        panel.marks = vec![mark(0, 12.0, Basis::Value), mark(1, 900.0, Basis::Ratio)];
        for plot in [Plot::Bars, Plot::Lines] {
            let text = draw(&panel, plot, "points", "axis");
            // One in the legend and one in the plot, of either kind.
            assert_eq!(text.matches("class=\"mark full\"").count(), 2);
            assert_eq!(text.matches("class=\"mark\"").count(), 2);
            assert!(
                text.contains("<title>paper, a&lt;b, p0: 12.0 (claim a&lt;b)</title>"),
                "{text}"
            );
            assert!(text.contains("p1: 900, above the axis"), "{text}");
            // The axis reaches to two and a half times our values, and no farther.
            assert!(text.contains(">25</text>") && !text.contains(">900</text>"));
        }
    }

    #[test]
    fn a_panel_without_values_says_so() {
        let text = draw(&panel(&[None, None]), Plot::Bars, "points", "axis");
        assert!(text.contains("No values") && !text.contains("<svg"));
    }

    #[test]
    fn steps_are_round() {
        for (rough, step) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (37.0, 50.0),
            (600.0, 1000.0),
            (0.03, 0.05),
        ] {
            assert!((nice_step(rough) - step).abs() < 1e-9, "{rough}");
        }
    }
}
