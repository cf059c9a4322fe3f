//! How a figure is taken on a machine that is never quite quiet.
//!
//! A round times a batch of one operation. Rounds come in groups; the figure is the least of the
//! groups' medians: a median shrugs off single disturbances, and the least of several is the group
//! that neighbours disturbed least. (Between two processors it is the median of the groups'.) The spread is how far apart the middle half of that group's
//! rounds lay.

use std::ops::{Add, Div, Mul, Sub};

use wharf_runtime::clock::Clock;

/// Differences below this, in nanoseconds of one operation, are none: they are rounded away in a table.
const CLOCK_NS: f64 = 0.5;

/// A measured figure, in nanoseconds of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// The figure.
    pub ns: f64,
    /// How far apart the middle half of the rounds lay.
    pub spread_ns: f64,
}

/// How many rounds are taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampler {
    /// Groups of rounds.
    pub groups: usize,
    /// Rounds of a group.
    pub rounds: usize,
}

impl Sampler {
    /// Many rounds, or few.
    pub fn new(quick: bool) -> Sampler {
        match quick {
            true => Sampler {
                groups: 3,
                rounds: 11,
            },
            false => Sampler {
                groups: 7,
                rounds: 25,
            },
        }
    }

    /// The figure of rounds that `round` takes, each giving nanoseconds of one operation.
    pub fn collect(self, mut round: impl FnMut() -> f64) -> Sample {
        let all: Vec<f64> = (0..self.groups * self.rounds).map(|_| round()).collect();
        self.figure(&all)
    }

    /// As [`Sampler::collect`], of rounds that can fail: the first error ends them.
    pub fn try_collect<E>(self, mut round: impl FnMut() -> Result<f64, E>) -> Result<Sample, E> {
        let all = (0..self.groups * self.rounds).map(|_| round());
        Ok(self.figure(&all.collect::<Result<Vec<f64>, E>>()?))
    }

    /// As [`Sampler::collect`], for two processors at once: the group in the middle. Two processors of a
    /// virtual machine are now two threads of one core and now two distant cores, and the least
    /// would be the luck of having met the former.
    pub fn collect_typical(self, mut round: impl FnMut() -> f64) -> Sample {
        let all: Vec<f64> = (0..self.groups * self.rounds).map(|_| round()).collect();
        let mut groups: Vec<Sample> = all.chunks(self.rounds).map(Sample::of).collect();
        groups.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        groups[groups.len() / 2]
    }

    /// The figure of operations done `batch` at a time by `f`, on what `before` made ready.
    pub fn time<S>(
        self,
        batch: u64,
        mut before: impl FnMut() -> S,
        mut f: impl FnMut(&mut S),
    ) -> Sample {
        self.collect(|| {
            let mut state = before();
            let clock = Clock::start();
            f(&mut state);
            clock.now_ns() as f64 / batch as f64
        })
    }

    /// The figure of rounds that were taken in this order, in as many groups as this sampler has.
    pub fn figure(self, rounds: &[f64]) -> Sample {
        assert!(!rounds.is_empty(), "a figure has rounds");
        let groups = rounds.chunks(rounds.len().div_ceil(self.groups));
        groups
            .map(Sample::of)
            .min_by(|a, b| a.ns.total_cmp(&b.ns))
            .expect("a group")
    }
}

impl Sample {
    /// Median and spread of one group of rounds.
    fn of(rounds: &[f64]) -> Sample {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        let spread_ns = at(0.75) - at(0.25);
        Sample {
            ns: at(0.5),
            // Rounds that came to nothing are infinite, and their differences are no numbers.
            spread_ns: if spread_ns.is_finite() {
                spread_ns
            } else {
                0.0
            },
        }
    }

    /// The spread as a share of the figure.
    pub(super) fn spread_share(self) -> f64 {
        match self.spread_ns {
            0.0 => 0.0,
            spread_ns => spread_ns / self.ns,
        }
    }

    /// True if the rounds lay close together: within a tenth of the figure, or within what the clock can tell.
    pub fn has_settled(self) -> bool {
        self.spread_ns < (self.ns * 0.1).max(CLOCK_NS)
    }

    /// True if the figure says something: the rounds did not lie farther apart than it is large.
    pub fn is_known(self) -> bool {
        self.spread_ns <= self.ns.max(CLOCK_NS)
    }

    /// The figure where it is above `floor`'s, else that one: for differences that noise may turn
    /// below what is possible.
    pub(super) fn at_least(self, floor: Sample) -> Sample {
        if self.ns >= floor.ns { self } else { floor }
    }
}

impl Add for Sample {
    type Output = Sample;

    fn add(self, other: Sample) -> Sample {
        Sample {
            ns: self.ns + other.ns,
            spread_ns: self.spread_ns + other.spread_ns,
        }
    }
}

/// What is left of a path without one of its parts; never below nothing.
impl Sub for Sample {
    type Output = Sample;

    fn sub(self, other: Sample) -> Sample {
        Sample {
            ns: (self.ns - other.ns).max(0.0),
            spread_ns: self.spread_ns + other.spread_ns,
        }
    }
}

impl Mul<f64> for Sample {
    type Output = Sample;

    fn mul(self, factor: f64) -> Sample {
        Sample {
            ns: self.ns * factor,
            spread_ns: self.spread_ns * factor,
        }
    }
}

impl Div<f64> for Sample {
    type Output = Sample;

    fn div(self, divisor: f64) -> Sample {
        self * (1.0 / divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLER: Sampler = Sampler {
        groups: 3,
        rounds: 5,
    };

    #[test]
    fn the_figure_is_the_least_of_the_medians_with_that_groups_spread() {
        let rounds = [
            30.0, 31.0, 32.0, 33.0, 34.0, // disturbed throughout
            10.0, 12.0, 11.0, 13.0, 900.0, // once
            20.0, 20.0, 20.0, 20.0, 1.0, // a lucky round counts for nothing
        ];
        let sample = SAMPLER.figure(&rounds);
        assert_eq!((sample.ns, sample.spread_ns), (12.0, 2.0));
    }

    #[test]
    fn the_typical_figure_is_that_of_the_group_in_the_middle() {
        let rounds = [
            9.0, 9.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 5.0, 6.0, 7.0, 8.0,
        ];
        let mut next = rounds.into_iter();
        let sample = SAMPLER.collect_typical(|| next.next().expect("15 rounds"));
        assert_eq!((sample.ns, sample.spread_ns), (6.0, 2.0));
    }

    #[test]
    fn a_figure_settles_within_a_tenth_and_is_known_within_itself() {
        let sample = |ns, spread_ns| Sample { ns, spread_ns };
        assert!(sample(100.0, 9.0).has_settled() && !sample(100.0, 11.0).has_settled());
        assert!(sample(100.0, 99.0).is_known() && !sample(100.0, 101.0).is_known());
        assert!(sample(0.0, 0.1).has_settled() && sample(0.0, 0.1).is_known());
        assert!(!sample(0.0, 3.0).has_settled() && !sample(0.0, 3.0).is_known());
    }

    #[test]
    fn every_round_counts() {
        let mut count = 0.0;
        let sample = SAMPLER.collect(|| {
            count += 1.0;
            count
        });
        assert_eq!((count, sample.ns), (15.0, 3.0));
    }

    #[test]
    fn differences_do_not_fall_below_nothing_and_spreads_add_up() {
        let (a, b) = (
            Sample {
                ns: 3.0,
                spread_ns: 1.0,
            },
            Sample {
                ns: 5.0,
                spread_ns: 0.5,
            },
        );
        assert_eq!(((a - b).ns, (a - b).spread_ns), (0.0, 1.5));
        assert_eq!((a + b).ns, 8.0);
        assert_eq!((b / 2.0).ns, 2.5);
        assert_eq!(a.at_least(b), b);
        assert_eq!(b.at_least(a), b);
    }
}
