//! The progress of running simulations, on standard error, cheap to keep up to date.
//!
//! On a terminal there is a line for each run under way, drawn a few times a second: the design, the share done, the simulated time,
//! requests by second of wall time and the time left. In a pipe there is nothing, or, as plain text for a log, the same as a line of
//! its own every ten seconds (`log.rs`) and one at the end ([`Shown`]). What takes long is foretold (`forecast.rs`).

mod forecast;
mod log;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use forecast::{Forecast, Share, about};
use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressState, ProgressStyle};
use log::{Line, say};

/// Requests between two calls of [`Progress::update`] that are often enough for a smooth line.
pub const UPDATE_EVERY: u64 = 4096;

/// How the progress of all that this process runs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Shown {
    /// Drawn where standard error is a terminal, and nothing in a pipe.
    #[default]
    Auto,
    /// Lines for a log.
    Plain,
    /// Nothing.
    None,
}

/// What standard error is belongs to the process, and so does this.
static SHOWN: AtomicU8 = AtomicU8::new(Shown::Auto as u8);

impl Shown {
    /// Shows progress this way from here on.
    pub fn set(self) {
        SHOWN.store(self as u8, Relaxed);
    }

    /// The way that was set last.
    pub fn now() -> Shown {
        let all = [Shown::Auto, Shown::Plain, Shown::None];
        all[usize::from(SHOWN.load(Relaxed))]
    }
}

/// A line of a log, if that is how progress is shown.
fn logged<T: Line + 'static>(thing: T) -> Option<Arc<T>> {
    (Shown::now() == Shown::Plain).then(|| {
        let thing = Arc::new(thing);
        log::begin(&thing);
        thing
    })
}

/// A bar for drawing, hidden unless progress is drawn.
fn bar(length: u64) -> ProgressBar {
    match Shown::now() {
        Shown::Auto => ProgressBar::new(length),
        Shown::Plain | Shown::None => {
            let hidden = ProgressBar::hidden();
            hidden.set_length(length);
            hidden
        }
    }
}

/// The progress of work in steps: simulations, turns, bytes.
pub struct Steps {
    bar: ProgressBar,
    log: Option<Arc<StepsLine>>,
}

/// The line of steps in a log.
struct StepsLine {
    bar: ProgressBar,
    what: &'static str,
}

impl Line for StepsLine {
    fn line(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let elapsed = self.bar.elapsed();
        let of = match all {
            0 => String::new(),
            all => format!(" of {all}"),
        };
        let mut line = format!("{done}{of} {}, {} s", self.what, elapsed.as_secs());
        if (1..all).contains(&done) {
            let left = elapsed.mul_f64((all - done) as f64 / done as f64);
            line += &format!(", {} left", about(left));
        }
        line += &format!("  {}", self.bar.message());
        line.trim_end().into()
    }
}

impl Steps {
    /// So many steps, of `what`.
    pub fn new(steps: u64, what: &'static str) -> Steps {
        Steps::drawn(
            steps,
            what,
            "{bar:24} {pos} of {len} {prefix}  {msg}  {eta} left",
        )
    }

    /// Steps of `what` whose number shows at their end.
    pub fn counted(what: &'static str) -> Steps {
        Steps::drawn(0, what, "{human_pos} {prefix}  {elapsed}")
    }

    fn drawn(steps: u64, what: &'static str, template: &str) -> Steps {
        let style = ProgressStyle::with_template(template).expect("a fixed template");
        let bar = bar(steps).with_finish(ProgressFinish::AndClear);
        bar.set_style(style.progress_chars("━╸─"));
        bar.set_prefix(what);
        let line = bar.clone();
        let log = logged(StepsLine { bar: line, what });
        Steps { bar, log }
    }

    /// Says what is done now.
    pub fn now(&self, doing: String) {
        self.bar.set_message(doing);
        if let Some(log) = &self.log {
            say(&log.line());
        }
    }

    /// One more is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// So many are done, of so many.
    pub fn reach(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The lines of all runs under way, one below the other.
///
/// Nothing is shown when standard error is no terminal.
pub struct Bars {
    lines: MultiProgress,
    forecast: Option<Arc<Forecast>>,
}

impl Bars {
    /// Of so many runs; 0 if that is not known, and no time is foretold.
    pub fn of(runs: u64) -> Bars {
        Bars::on(MultiProgress::new(), runs)
    }

    fn on(lines: MultiProgress, runs: u64) -> Bars {
        let forecast = (runs > 0).then(|| Arc::new(Forecast::of(runs, lines.clone())));
        if let Some(forecast) = &forecast
            && runs > 1
            && Shown::now() == Shown::Plain
        {
            log::begin(forecast);
        }
        Bars { lines, forecast }
    }

    /// Starts the line of `design`; `requests` is `None` when their number is not known beforehand.
    pub fn start(&self, design: &str, requests: Option<u64>) -> Progress {
        let bar = match Shown::now() {
            Shown::Auto => self.lines.add(bar(requests.unwrap_or(0))),
            Shown::Plain | Shown::None => bar(requests.unwrap_or(0)),
        };
        let share = self.forecast.clone().map(Share::new);
        Progress::with_bar(bar, design, requests.is_some(), share)
    }
}

/// The progress of one design through the workload.
pub struct Progress {
    bar: ProgressBar,
    log: Option<Arc<RunLine>>,
    share: Option<Share>,
    /// Time on the run's own clock, read when the line is drawn.
    time_ns: Arc<AtomicU64>,
}

/// The line of a run in a log.
struct RunLine {
    bar: ProgressBar,
    time_ns: Arc<AtomicU64>,
}

impl Line for RunLine {
    /// The share done, the time in the run, requests by second and the time left.
    fn line(&self) -> String {
        let done = self.bar.position();
        let seconds = self.bar.elapsed().as_secs_f64().max(1e-3);
        let mut line = format!("{}: ", self.bar.prefix());
        let all = self.bar.length().filter(|all| *all > 0);
        line += &match all {
            Some(all) => format!("{} % of {all} requests, ", done.min(all) * 100 / all),
            None => format!("{done} requests, "),
        };
        // Nothing that is written to a text fails.
        let _ = write_time(&mut line, self.time_ns.load(Relaxed));
        line += ", ";
        let _ = write_rate(&mut line, done as f64 / seconds);
        if let Some(all) = all.filter(|_| done > 0) {
            let left = seconds * all.saturating_sub(done) as f64 / done as f64;
            line += &format!(", {left:.0} s left");
        }
        line
    }
}

impl Progress {
    /// A progress that is never shown.
    pub fn hidden() -> Self {
        let bar = ProgressBar::hidden();
        let time_ns = Arc::new(AtomicU64::new(0));
        let (log, share) = (None, None);
        Self {
            bar,
            log,
            share,
            time_ns,
        }
    }

    fn with_bar(bar: ProgressBar, design: &str, known: bool, share: Option<Share>) -> Self {
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
        let line = RunLine {
            bar: bar.clone(),
            time_ns: Arc::clone(&time_ns),
        };
        let log = logged(line);
        Self {
            bar,
            log,
            share,
            time_ns,
        }
    }

    /// Tells how far the run is: requests done, and nanoseconds on the run's own clock.
    ///
    /// A few tens of nanoseconds unless the line is due to be drawn; made to be called once in
    /// [`UPDATE_EVERY`] requests.
    pub fn update(&self, requests_done: u64, time_ns: u64) {
        self.time_ns.store(time_ns, Relaxed);
        self.bar.set_position(requests_done);
        if let (Some(share), Some(all)) = (&self.share, self.bar.length()) {
            share.reach(requests_done, all);
        }
    }
}

impl Drop for Progress {
    /// Takes the line off the terminal: the table says what came of it. A log says that the run has ended.
    fn drop(&mut self) {
        if self.log.is_some() {
            let seconds = self.bar.elapsed().as_secs_f64();
            say(&format!(
                "{}: ended after {seconds:.1} s",
                self.bar.prefix()
            ));
        }
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
            None,
        );
        progress.update(250, 12_345_678);
        progress.bar.tick();
        let line = term.contents();
        assert!(line.starts_with("clock "), "{line}");
        assert!(line.contains(" 25 %") && line.contains("12 ms"), "{line}");
        assert!(line.contains("req/s") && line.contains("left"), "{line}");
        assert!(line.chars().count() < usize::from(term.width()), "{line}");
        drop(progress);
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn runs_side_by_side_have_a_line_each() {
        let term = InMemoryTerm::new(6, 100);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        let bars = Bars::on(MultiProgress::with_draw_target(target), 0);
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
        drop(clock);
        drop(scala);
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn a_line_of_a_log_says_how_far_a_run_is() {
        let bar = ProgressBar::hidden().with_prefix("clock");
        bar.set_length(1_000);
        bar.set_position(250);
        let time_ns = Arc::new(AtomicU64::new(12_345_678));
        let line = RunLine { bar, time_ns }.line();
        let start = "clock: 25 % of 1000 requests, 12 ms, ";
        assert!(
            line.starts_with(start) && line.ends_with(" s left"),
            "{line}"
        );
    }

    #[test]
    fn a_line_of_a_log_says_how_far_steps_are() {
        let bar = ProgressBar::hidden();
        let what = "simulations";
        bar.set_length(0);
        bar.set_position(7);
        bar.set_message("reading");
        let line = || {
            StepsLine {
                bar: bar.clone(),
                what,
            }
            .line()
        };
        assert_eq!(line(), "7 simulations, 0 s  reading");
        bar.set_length(10);
        assert_eq!(line(), "7 of 10 simulations, 0 s, about 10 s left  reading");
    }

    #[test]
    fn a_run_of_unknown_length_counts_requests() {
        let term = InMemoryTerm::new(4, 100);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        let progress = Progress::with_bar(
            ProgressBar::with_draw_target(None, target),
            "direct",
            false,
            None,
        );
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
