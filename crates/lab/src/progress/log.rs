//! Lines for a log: one of each thing under way, by a timer, whether or not a step of it has ended meanwhile.

use std::io::Write;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

/// Time between two lines of a thing.
const EVERY: Duration = Duration::from_secs(10);

/// What has a line while it is under way.
pub(super) trait Line: Send + Sync {
    /// How far it is.
    fn line(&self) -> String;
}

/// All that is under way.
static LIVE: Mutex<Vec<Weak<dyn Line>>> = Mutex::new(Vec::new());

/// Says how far `thing` is every ten seconds, until it is gone.
pub(super) fn begin(thing: &Arc<impl Line + 'static>) {
    static TIMER: Once = Once::new();
    TIMER.call_once(start);
    let weak: Weak<dyn Line> = Arc::downgrade(&(Arc::clone(thing) as Arc<dyn Line>));
    LIVE.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(weak);
}

/// Starts the timer, which ends with the process.
#[allow(clippy::disallowed_methods)] // a thread that belongs to no engine
fn start() {
    let timer = std::thread::Builder::new().name("progress".into());
    // Without a thread there are no lines, and all else goes on.
    let _ = timer.spawn(|| {
        loop {
            std::thread::sleep(EVERY);
            lines().iter().for_each(|line| say(line));
        }
    });
}

/// Writes a line to standard error; who closed it wants none.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A line of each thing under way; those that are gone are forgotten.
fn lines() -> Vec<String> {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|thing| thing.strong_count() > 0);
    let things: Vec<Arc<dyn Line>> = live.iter().filter_map(Weak::upgrade).collect();
    drop(live);
    things.iter().map(|thing| thing.line()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Line for Silent {
        fn line(&self) -> String {
            "silent: no step has ended".into()
        }
    }

    /// There was a line only when a step ended, so that a log of long steps looked dead.
    #[test]
    fn what_does_not_move_has_a_line_too() {
        let thing = Arc::new(Silent);
        let count = || {
            let own = |line: &&String| line.starts_with("silent: ");
            lines().iter().filter(own).count()
        };
        assert_eq!(count(), 0);
        begin(&thing);
        assert_eq!([count(), count()], [1, 1]);
        drop(thing);
        assert_eq!(count(), 0);
    }
}
