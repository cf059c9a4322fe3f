//! When bad lines are too many.

use crate::error::BadLine;

/// Bad lines kept with number, reason and text.
const KEPT: usize = 5;

/// How many lines may be bad before reading stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BadLinePolicy {
    /// Share of the lines so far that may be bad, from 0 to 1.
    pub share: f64,
    /// Bad lines that are let pass whatever their share, so that a short preamble does not stop a
    /// reader; not if `share` is 0.
    pub grace: u64,
}

impl Default for BadLinePolicy {
    /// 1 %, and 10 lines: the share is judged from the thousandth line on.
    fn default() -> Self {
        BadLinePolicy {
            share: 0.01,
            grace: 10,
        }
    }
}

impl BadLinePolicy {
    /// Bad lines allowed among `lines`.
    pub fn limit(&self, lines: u64) -> u64 {
        if self.share <= 0.0 {
            0
        } else {
            self.grace.max((lines as f64 * self.share) as u64)
        }
    }

    /// Whether reading must stop.
    pub fn is_exceeded(&self, bad: u64, lines: u64) -> bool {
        bad > 0 && bad > self.limit(lines)
    }

    /// Whether a short trace holds more bad lines than good ones, beyond a preamble of three.
    pub(crate) fn outweighs(&self, bad: u64, good: u64) -> bool {
        self.share < 1.0 && bad > good.max(3)
    }
}

/// Bad lines of one trace: all counted, the first few kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct BadLines {
    pub count: u64,
    pub kept: Vec<BadLine>,
}

impl BadLines {
    pub fn add(&mut self, line: u64, reason: impl std::fmt::Display, text: &[u8]) {
        self.count += 1;
        if self.kept.len() < KEPT {
            let text = excerpt(text);
            self.kept.push(BadLine {
                line,
                reason: reason.to_string(),
                text,
            });
        }
    }
}

/// The beginning of a line, fit to print: at most 60 characters, unprintable bytes escaped.
pub(crate) fn excerpt(line: &[u8]) -> String {
    const CHARS: usize = 60;
    let mut text = String::new();
    for &byte in line {
        let escaped = byte.escape_ascii();
        if text.len() + escaped.len() > CHARS {
            text.push('…');
            break;
        }
        text.extend(escaped.map(char::from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_counts_after_the_grace() {
        let policy = BadLinePolicy::default();
        assert!(!policy.is_exceeded(10, 10));
        assert!(policy.is_exceeded(11, 11));
        assert!(!policy.is_exceeded(100, 10_000));
        assert!(policy.is_exceeded(101, 10_000));
        let strict = BadLinePolicy {
            share: 0.0,
            ..policy
        };
        assert!(strict.is_exceeded(1, 1_000_000));
        assert!(!strict.is_exceeded(0, 0));
    }

    #[test]
    fn only_the_first_few_bad_lines_are_kept() {
        let mut bad = BadLines::default();
        for line in 1..=100 {
            bad.add(line, "size is 0", &[0; 1000]);
        }
        assert_eq!(
            (bad.count, bad.kept.len(), bad.kept[0].line),
            (100, KEPT, 1)
        );
        assert_eq!(bad.kept[0].text.chars().count(), 61);
    }
}
