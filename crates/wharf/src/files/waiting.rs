//! Waiting for a place at a drive that is served: many processes may start at once, and more than may use it.

use std::time::Duration;

use super::ImageError;

/// How long it is waited in all.
const WAIT: Duration = Duration::from_secs(10);

/// The first pause, and the longest: each is twice as long as the one before, so that those who have waited for long ask seldom.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(256);

/// Attaches by `attach`; tries again for up to 10 seconds while all places are taken.
///
/// # Errors
/// That of the last try. Where nobody serves a drive there is no other.
#[allow(clippy::disallowed_methods)] // another process is waited for
pub fn attach_in_time<T>(
    mut attach: impl FnMut() -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    let mut pauses = Pauses::new(std::process::id());
    loop {
        match attach() {
            Err(ImageError::Drive(error)) if error.may_pass() => match pauses.next() {
                Some(pause) => std::thread::sleep(pause),
                None => return Err(error.into()),
            },
            attached => return attached,
        }
    }
}

/// Pauses between tries.
struct Pauses {
    waited: Duration,
    next: Duration,
    /// How much longer one process's pauses are than another's, so that those that have started together do not ask together.
    share: u32,
}

impl Pauses {
    fn new(process: u32) -> Pauses {
        Pauses {
            waited: Duration::ZERO,
            next: PAUSE_MIN,
            share: process % 32,
        }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.waited >= WAIT {
            return None;
        }
        let pause = (self.next + self.next * self.share / 32).min(WAIT - self.waited);
        self.waited += pause;
        self.next = (self.next * 2).min(PAUSE_MAX);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_take_ten_seconds_in_all() {
        for process in 0..64 {
            let pauses: Vec<_> = Pauses::new(process).collect();
            let (last, grown) = pauses.split_last().unwrap();
            assert!(grown.is_sorted() && grown[0] < 2 * PAUSE_MIN);
            assert!(grown.last().unwrap() < &(2 * PAUSE_MAX) && last < &(2 * PAUSE_MAX));
            assert!((25..60).contains(&pauses.len()), "{}", pauses.len());
            assert_eq!(pauses.iter().sum::<Duration>(), WAIT);
        }
    }
}
