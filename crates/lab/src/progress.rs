//! The progress lines of running simulations: on a terminal only, and cheap to keep up to date.
//!
//! There is a line for each run under way. They are drawn to standard error a few times a second and nowhere
//! else; in a pipe they do not exist. A line shows the design, the share done, the simulated time, requests by second of
//! wall time and the time left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressState, ProgressStyle};

/// Requests between two calls of [`Progress::update`] that are often enough for a smooth line.
pub const UPDATE_EVERY: u64 = 4096;

/// The lines of all runs under way, one below the other.
///
/// Nothing is shown when standard error is no terminal.
#[derive(Default)]
pub struct Bars(MultiProgress);

impl Bars {
    /// Starts the line of `design`; `requests` is `None` when their number is not known beforehand.
    pub fn start(&self, design: &str, requests: Option<u64>) -> Progress {
        let bar = self.0.add(ProgressBar::new(requests.unwrap_or(0)));
        Progress::with_bar(bar, design, requests.is_some())
    }
}

/// The progress of one design through the workload.
pub struct Progress {
    bar: ProgressBar,
    /// Time on the run's own clock, read when the line is drawn.
    time_ns: Arc<AtomicU64>,
}

impl Progress {
    /// A progress that is never shown.
    pub fn hidden() -> Self {
        Self::with_bar(ProgressBar::hidden(), "", true)
    }

    fn with_bar(bar: ProgressBar, design: &str, known: bool) -> Self {
        let template = match known {
            true => "{prefix:10} {bar:24} {percent:>3} %  {run_time:>9}  {rate:>12}  {eta:>4} left",
            false => "{prefix:10} {human_pos} requests  {run_time:>9}  {rate:>12}",
        };
        let time_ns = Arc::new(AtomicU64::new(0));
        let shown_ns = Arc::clone(&time_ns);
        let style = ProgressStyle::with_template(template)
            .expect("a fixed template")
            .progress_chars("━╸─")
            .with_key(
                "run_time",
                move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = write_time(out, shown_ns.load(Relaxed));
                },
            )
            .with_key(
                "rate",
                |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = write_rate(out, state.per_sec());
                },
            );
        // A run that ends in an error leaves no half line behind either.
        let bar = bar.with_finish(ProgressFinish::AndClear);
        bar.set_style(style);
        bar.set_prefix(design.to_owned());
        Self { bar, time_ns }
    }

    /// Tells how far the run is: requests done, and nanoseconds on the run's own clock.
    ///
    /// A few tens of nanoseconds unless the line is due to be drawn; made to be called once in
    /// [`UPDATE_EVERY`] requests.
    pub fn update(&self, requests_done: u64, time_ns: u64) {
        self.time_ns.store(time_ns, Relaxed);
        self.bar.set_position(requests_done);
    }

    /// Ends the line and takes it off the terminal: the table says what came of it.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Time on the run's clock with a unit that suits it.
fn write_time(out: &mut dyn std::fmt::Write, ns: u64) -> std::fmt::Result {
    match ns {
        0..1_000_000 => write!(out, "{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => write!(out, "{} ms", ns / 1_000_000),
        1_000_000_000..600_000_000_000 => write!(out, "{:.1} s", ns as f64 / 1e9),
        _ => write!(out, "{:.1} min", ns as f64 / 6e10),
    }
}

/// Requests by second with a unit that suits them.
fn write_rate(out: &mut dyn std::fmt::Write, per_second: f64) -> std::fmt::Result {
    match per_second {
        0.0..1e4 => write!(out, "{per_second:.0} req/s"),
        0.0..1e6 => write!(out, "{:.0} k req/s", per_second / 1e3),
        _ => write!(out, "{:.2} M req/s", per_second / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget, TermLike};

    use super::*;

    #[test]
    fn the_line_shows_design_share_and_time() {
        let term = InMemoryTerm::new(4, 100);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        let progress = Progress::with_bar(
            ProgressBar::with_draw_target(Some(1_000), target),
            "clock",
            true,
        );
        progress.update(250, 12_345_678);
        progress.bar.tick();
        let line = term.contents();
        assert!(line.starts_with("clock "), "{line}");
        assert!(line.contains(" 25 %") && line.contains("12 ms"), "{line}");
        assert!(line.contains("req/s") && line.contains("left"), "{line}");
        assert!(line.chars().count() < usize::from(term.width()), "{line}");
        progress.finish();
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn runs_side_by_side_have_a_line_each() {
        let term = InMemoryTerm::new(6, 100);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        let bars = Bars(MultiProgress::with_draw_target(target));
        let (clock, scala) = (bars.start("clock", Some(10)), bars.start("scala", Some(10)));
        clock.update(5, 1);
        scala.update(2, 1);
        clock.bar.tick();
        scala.bar.tick();
        let lines = term.contents();
        let lines: Vec<&str> = lines.lines().collect();
        assert!(
            lines[0].starts_with("clock ") && lines[0].contains(" 50 %"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("scala ") && lines[1].contains(" 20 %"),
            "{lines:?}"
        );
        clock.finish();
        scala.finish();
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn a_run_of_unknown_length_counts_requests() {
        let term = InMemoryTerm::new(4, 100);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        let progress =
            Progress::with_bar(ProgressBar::with_draw_target(None, target), "direct", false);
        progress.update(123_456, 90_000_000_000);
        progress.bar.tick();
        let line = term.contents();
        assert!(
            line.contains("123,456 requests") && line.contains("90.0 s"),
            "{line}"
        );
    }

    #[test]
    fn times_and_rates_have_a_unit_that_suits_them() {
        let time = |ns| {
            let mut text = String::new();
            write_time(&mut text, ns)
                .map(|()| text)
                .expect("writes to a string")
        };
        assert_eq!([time(5_000), time(2_000_000)], ["5 µs", "2 ms"]);
        assert_eq!(
            [time(1_500_000_000), time(1_200_000_000_000)],
            ["1.5 s", "20.0 min"]
        );
        let rate = |per_second| {
            let mut text = String::new();
            write_rate(&mut text, per_second)
                .map(|()| text)
                .expect("writes to a string")
        };
        assert_eq!([rate(950.0), rate(1.5e6)], ["950 req/s", "1.50 M req/s"]);
    }
}
