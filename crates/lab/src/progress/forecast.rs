//! How long all runs of a command will take, foretold from how far they are: each counts alike, so it is about right.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar};

use super::Shown;
use super::log::{Line, say};

/// Time after which it is foretold.
const MEASURED: Duration = Duration::from_secs(3);

/// What takes less is not worth a word.
const SHORT: Duration = Duration::from_secs(20);

/// Parts of a run that are counted.
const PARTS: u64 = 1_000;

/// How far all runs are.
pub(super) struct Forecast {
    /// Reads the time since the beginning.
    clock: ProgressBar,
    runs: u64,
    parts_done: AtomicU64,
    is_told: AtomicBool,
    terminal: MultiProgress,
}

impl Forecast {
    /// Of so many runs, shown above the bars of `terminal`.
    pub fn of(runs: u64, terminal: MultiProgress) -> Forecast {
        Forecast {
            clock: ProgressBar::hidden(),
            runs,
            parts_done: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            terminal,
        }
    }

    /// Time that is left; none if nothing is done or nothing is known.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let (done, all) = (self.parts_done.load(Relaxed), self.runs * PARTS);
        let left = (done > 0).then(|| all.saturating_sub(done) as f64 / done as f64)?;
        Some(elapsed.mul_f64(left))
    }

    /// The line that foretells the time, once it is due.
    fn foretold(&self, elapsed: Duration) -> Option<String> {
        if elapsed < MEASURED || self.is_told.load(Relaxed) {
            return None;
        }
        let all = self.left(elapsed)? + elapsed;
        let is_first = !self.is_told.swap(true, Relaxed);
        (is_first && all >= SHORT).then(|| match self.runs {
            1 => format!("{} in all", about(all)),
            runs => format!("{} in all, for {runs} runs", about(all)),
        })
    }

    fn tell(&self) {
        let Some(line) = self.foretold(self.clock.elapsed()) else {
            return;
        };
        match Shown::now() {
            // Nothing, where standard error is no terminal.
            Shown::Auto => drop(self.terminal.println(line)),
            Shown::Plain => say(&line),
            Shown::None => {}
        }
    }
}

impl Line for Forecast {
    fn line(&self) -> String {
        let elapsed = self.clock.elapsed();
        let percent = self.parts_done.load(Relaxed) * 100 / (self.runs * PARTS);
        let mut line = format!(
            "all: {percent} % of {} runs, {} s",
            self.runs,
            elapsed.as_secs()
        );
        if let Some(left) = self.left(elapsed) {
            line += &format!(", {} left", about(left));
        }
        line
    }
}

/// One run's share of a forecast: the whole of it when it is dropped.
pub(super) struct Share {
    of: std::sync::Arc<Forecast>,
    parts: AtomicU64,
}

impl Share {
    pub fn new(of: std::sync::Arc<Forecast>) -> Share {
        let parts = AtomicU64::new(0);
        Share { of, parts }
    }

    /// So many requests are done, of so many.
    pub fn reach(&self, done: u64, all: u64) {
        let now = done.min(all) * (PARTS - 1) / all.max(1);
        let before = self.parts.fetch_max(now, Relaxed);
        self.of
            .parts_done
            .fetch_add(now.saturating_sub(before), Relaxed);
        self.of.tell();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let before = *self.parts.get_mut();
        self.of.parts_done.fetch_add(PARTS - before, Relaxed);
        self.of.tell();
    }
}

/// A time as people say it.
pub(super) fn about(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0..90.0 => format!("about {} s", (seconds / 10.0).ceil().max(1.0) * 10.0),
        0.0..5_400.0 => format!("about {:.0} min", seconds / 60.0),
        _ => format!("about {:.1} h", seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_time_is_foretold_once_from_what_is_done() {
        let forecast = Arc::new(Forecast::of(4, MultiProgress::new()));
        let (one, other) = (Share::new(forecast.clone()), Share::new(forecast.clone()));
        assert_eq!(forecast.foretold(seconds(5)), None, "nothing is done");
        one.reach(500, 1_000);
        other.reach(501, 1_000);
        assert_eq!(forecast.foretold(seconds(2)), None, "too early");
        assert_eq!(
            forecast.foretold(seconds(60)).as_deref(),
            Some("about 4 min in all, for 4 runs")
        );
        assert_eq!(forecast.foretold(seconds(61)), None, "once");
        drop(one);
        assert_eq!(forecast.parts_done.load(Relaxed), 1_500);
        assert_eq!(forecast.left(seconds(90)), Some(seconds(150)));
        assert!(forecast.line().starts_with("all: 37 % of 4 runs, "));
        other.reach(1_000, 1_000);
        other.reach(900, 1_000);
        drop(other);
        assert_eq!(forecast.parts_done.load(Relaxed), 2_000);
    }

    #[test]
    fn what_is_short_is_not_foretold() {
        let forecast = Arc::new(Forecast::of(1, MultiProgress::new()));
        Share::new(forecast.clone()).reach(0, 0);
        assert_eq!(forecast.parts_done.load(Relaxed), PARTS);
        assert_eq!(forecast.foretold(seconds(4)), None);
    }

    #[test]
    fn times_are_rounded() {
        let texts = [0, 1, 41, 89, 90, 3_000, 7_200].map(|count| about(seconds(count)));
        let expected = ["10 s", "10 s", "50 s", "90 s", "2 min", "50 min", "2.0 h"];
        assert_eq!(texts, expected.map(|text| format!("about {text}")));
    }
}
