//! The progress of running simulations, on standard error, cheap to keep up to date.
//!
//! On a terminal there is a line for each run under way, drawn a few times a second: the design, the share done, the simulated time,
//! requests by second of wall time and the time left. In a pipe there is nothing, or, as plain text for a log, the same as a line of
//! its own every ten seconds and one at the end ([`Shown`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressState, ProgressStyle};

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

/// Time between two lines of a log.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// When a log gets its next line, by the time since a bar began.
struct Log {
    next_ms: AtomicU64,
}

impl Log {
    /// One that has lines, if that is how progress is shown.
    fn begin() -> Option<Log> {
        (Shown::now() == Shown::Plain).then(|| Log {
            next_ms: AtomicU64::new(LOG_EVERY.as_millis() as u64),
        })
    }

    /// Whether a line is due; then the next one is not until ten seconds later.
    fn is_due(&self, elapsed: Duration) -> bool {
        let (now_ms, next_ms) = (elapsed.as_millis() as u64, self.next_ms.load(Relaxed));
        let after_ms = now_ms + LOG_EVERY.as_millis() as u64;
        now_ms >= next_ms
            && self
                .next_ms
                .compare_exchange(next_ms, after_ms, Relaxed, Relaxed)
                .is_ok()
    }
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
    log: Option<Log>,
    what: &'static str,
}

impl Steps {
    /// So many steps, of `what`.
    pub fn new(steps: u64, what: &'static str) -> Steps {
        let style =
            ProgressStyle::with_template("{bar:24} {pos} of {len} {prefix}  {msg}  {eta} left");
        let bar = bar(steps).with_finish(ProgressFinish::AndClear);
        bar.set_style(style.expect("a fixed template").progress_chars("━╸─"));
        bar.set_prefix(what);
        let log = Log::begin();
        Steps { bar, log, what }
    }

    /// Says what is done now.
    pub fn now(&self, doing: String) {
        if self.log.is_some() {
            eprintln!("{}", self.line(&doing));
        }
        self.bar.set_message(doing);
    }

    /// One more is done.
    pub fn step(&self) {
        self.reach(self.bar.position() + 1, self.bar.length().unwrap_or(0));
    }

    /// So many are done, of so many.
    pub fn reach(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        let is_due = |log: &Log| log.is_due(self.bar.elapsed());
        if self.log.as_ref().is_some_and(is_due) {
            eprintln!("{}", self.line(&self.bar.message()));
        }
    }

    fn line(&self, doing: &str) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let line = format!(
            "{done} of {all} {}, {} s  {doing}",
            self.what,
            self.bar.elapsed().as_secs()
        );
        line.trim_end().into()
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
#[derive(Default)]
pub struct Bars(MultiProgress);

impl Bars {
    /// Starts the line of `design`; `requests` is `None` when their number is not known beforehand.
    pub fn start(&self, design: &str, requests: Option<u64>) -> Progress {
        let bar = match Shown::now() {
            Shown::Auto => self.0.add(bar(requests.unwrap_or(0))),
            Shown::Plain | Shown::None => bar(requests.unwrap_or(0)),
        };
        Progress::with_bar(bar, design, requests.is_some(), Log::begin())
    }
}

/// The progress of one design through the workload.
pub struct Progress {
    bar: ProgressBar,
    log: Option<Log>,
    /// Time on the run's own clock, read when the line is drawn.
    time_ns: Arc<AtomicU64>,
}

impl Progress {
    /// A progress that is never shown.
    pub fn hidden() -> Self {
        Self::with_bar(ProgressBar::hidden(), "", true, None)
    }

    fn with_bar(bar: ProgressBar, design: &str, known: bool, log: Option<Log>) -> Self {
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
        Self { bar, log, time_ns }
    }

    /// Tells how far the run is: requests done, and nanoseconds on the run's own clock.
    ///
    /// A few tens of nanoseconds unless the line is due to be drawn; made to be called once in
    /// [`UPDATE_EVERY`] requests.
    pub fn update(&self, requests_done: u64, time_ns: u64) {
        self.time_ns.store(time_ns, Relaxed);
        self.bar.set_position(requests_done);
        let is_due = |log: &Log| log.is_due(self.bar.elapsed());
        if self.log.as_ref().is_some_and(is_due) {
            eprintln!("{}", self.line(requests_done));
        }
    }

    /// The line of a log: the share done, the time in the run, requests by second and the time left.
    fn line(&self, done: u64) -> String {
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

impl Drop for Progress {
    /// Takes the line off the terminal: the table says what came of it. A log says that the run has ended.
    fn drop(&mut self) {
        if self.log.is_some() {
            let seconds = self.bar.elapsed().as_secs_f64();
            eprintln!("{}: ended after {seconds:.1} s", self.bar.prefix());
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
        drop(clock);
        drop(scala);
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn a_log_gets_a_line_every_ten_seconds() {
        let log = Log {
            next_ms: AtomicU64::new(10_000),
        };
        let is_due = |seconds| log.is_due(Duration::from_secs(seconds));
        let lines = [0, 9, 10, 11, 19, 20, 55, 56, 64, 65].map(is_due);
        let expected = [
            false, false, true, false, false, true, true, false, false, true,
        ];
        assert_eq!(lines, expected);
        let progress = Progress::with_bar(
            ProgressBar::hidden().with_prefix("clock"),
            "clock",
            true,
            None,
        );
        progress.bar.set_length(1_000);
        progress.update(250, 12_345_678);
        let line = progress.line(250);
        assert!(
            line.starts_with("clock: 25 % of 1000 requests, 12 ms, "),
            "{line}"
        );
        assert!(line.ends_with(" s left"), "{line}");
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
