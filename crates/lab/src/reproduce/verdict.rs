//! Whether a claim of the paper holds here.
//!
//! A claim that compares two things is put as a ratio of A to B: 5.12 times is 5.12, 35 % more is
//! 1.35, 78 % less is 0.22.
//!
//! 1. A ratio **holds** if it is on the paper's side of 1 by more than the noise of the seeds and within a
//!    factor of 1.5 of the paper's ratio; it holds **closely** within a factor of 1.25.
//! 2. Its **direction** holds if only that does.
//! 3. An order holds if the ratio is above 1 by more than the noise.
//! 4. A bound holds if the ratio is no greater, noise included.
//! 5. Shares and amounts have no direction: they hold within the same factors, or that of the data file. A
//!    share is bounded on both sides: what is left to 100 % has to be within the factor too.
//! 6. What the seeds cannot tell from the opposite is **within noise**.

use serde::Serialize;

use super::estimate::Estimate;
use super::paper::{ClaimKind, PaperClaim};

/// How far a figure may be from the paper's, as a factor.
pub const WITHIN: f64 = 1.5;

/// How far a figure that agrees closely may be from the paper's, as a factor.
pub const CLOSELY_WITHIN: f64 = 1.25;

/// How a claim fares here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the paper says, within a factor of 1.25.
    HoldsClosely,
    /// As the paper says: a figure within a factor of 1.5, or an order or a bound.
    Holds,
    /// The direction is the paper's, the size is not.
    DirectionOnly,
    /// The seeds cannot tell it from its opposite.
    WithinNoise,
    /// It does not hold here.
    Fails,
    /// Nothing here tells.
    Untested,
    /// An input of the run, shown beside what came of it: it cannot fail.
    Input,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Verdict; 7] = [
        Verdict::HoldsClosely,
        Verdict::Holds,
        Verdict::DirectionOnly,
        Verdict::WithinNoise,
        Verdict::Fails,
        Verdict::Untested,
        Verdict::Input,
    ];

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::HoldsClosely => "holds closely",
            Verdict::Holds => "holds",
            Verdict::DirectionOnly => "direction holds, size does not",
            Verdict::WithinNoise => "within noise",
            Verdict::Fails => "does not hold here",
            Verdict::Untested => "not tested",
            Verdict::Input => "an input",
        }
    }

    /// True if the paper's statement was found here.
    pub fn is_found(self) -> bool {
        matches!(self, Verdict::HoldsClosely | Verdict::Holds)
    }
}

/// Judges `ours`: a ratio of A to B, a share from 0 to 1, or an amount, as the claim's kind wants.
pub fn judge(claim: &PaperClaim, ours: &Estimate) -> Verdict {
    if claim.is_input {
        return Verdict::Input;
    }
    let Some(value) = claim.value else {
        return above(1.0, ours);
    };
    match (claim.kind, claim.paper_ratio()) {
        (_, Some(ratio)) => effect(ratio, ours),
        (ClaimKind::AtMost, _) => below(1.0 + value / 100.0, ours),
        (ClaimKind::Share, _) => {
            let (paper, left) = (value / 100.0, 1.0 - value / 100.0);
            let factor = factor(paper, ours.mean).max(factor(left, 1.0 - ours.mean));
            near(factor, claim.within)
        }
        _ => near(factor(value, ours.mean), claim.within),
    }
}

/// How many times one figure is the other, the greater by the smaller; infinite if only one is positive.
pub fn factor(paper: f64, ours: f64) -> f64 {
    if paper <= 0.0 || ours <= 0.0 {
        return if paper == ours { 1.0 } else { f64::INFINITY };
    }
    (ours / paper).max(paper / ours)
}

fn above(bound: f64, ours: &Estimate) -> Verdict {
    match ours {
        _ if ours.low > bound => Verdict::Holds,
        _ if ours.high < bound => Verdict::Fails,
        _ => Verdict::WithinNoise,
    }
}

fn below(bound: f64, ours: &Estimate) -> Verdict {
    match ours {
        _ if ours.high <= bound => Verdict::Holds,
        _ if ours.low > bound => Verdict::Fails,
        _ => Verdict::WithinNoise,
    }
}

fn effect(paper: f64, ours: &Estimate) -> Verdict {
    let direction = match paper > 1.0 {
        true => above(1.0, ours),
        false if ours.high < 1.0 => Verdict::Holds,
        false if ours.low > 1.0 => Verdict::Fails,
        false => Verdict::WithinNoise,
    };
    if direction != Verdict::Holds {
        return direction;
    }
    match near(factor(paper, ours.mean), None) {
        Verdict::Fails => Verdict::DirectionOnly,
        size => size,
    }
}

fn near(factor: f64, within: Option<f64>) -> Verdict {
    match factor {
        _ if factor > within.unwrap_or(WITHIN) => Verdict::Fails,
        _ if factor <= CLOSELY_WITHIN => Verdict::HoldsClosely,
        _ => Verdict::Holds,
    }
}

/// A value as the claim's kind says it: `5.12 times`, `35 % more`, `0.24 Mop/s`.
pub fn spoken(claim: &PaperClaim, ours: f64) -> String {
    let number = crate::report::format::number;
    let by = |ratio: f64| match ratio {
        _ if ratio >= 1.0 => format!("{} % more", number((ratio - 1.0) * 100.0)),
        _ => format!("{} % less", number((1.0 - ratio) * 100.0)),
    };
    match claim.kind {
        ClaimKind::Times | ClaimKind::Order => format!("{} times", number(ours)),
        ClaimKind::More | ClaimKind::Less | ClaimKind::AtMost => by(ours),
        ClaimKind::Share => format!("{} %", number(ours * 100.0)),
        ClaimKind::Amount => match &claim.unit {
            Some(unit) => format!("{} {unit}", number(ours)),
            None => number(ours),
        },
    }
}

/// Ours with the noise of the seeds, where there are several: `4.20 times (4.11 to 4.29)`.
pub fn spoken_estimate(claim: &PaperClaim, ours: &Estimate) -> String {
    let mean = spoken(claim, ours.mean);
    let (low, high) = (spoken(claim, ours.low), spoken(claim, ours.high));
    match low == high {
        true => mean,
        false => format!("{mean} ({low} to {high})"),
    }
}

/// The paper's value in the same words; `more` for an order.
pub fn spoken_by_paper(claim: &PaperClaim) -> String {
    let Some(value) = claim.value else {
        return "more, no figure given".into();
    };
    let bound = match claim.kind {
        ClaimKind::AtMost => "at most ",
        _ => "",
    };
    let said = match claim.kind {
        ClaimKind::AtMost => 1.0 + value / 100.0,
        ClaimKind::Share => value / 100.0,
        _ => claim.paper_ratio().unwrap_or(value),
    };
    format!("{bound}{}", spoken(claim, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(kind: ClaimKind, value: Option<f64>) -> PaperClaim {
        PaperClaim {
            id: "c".into(),
            section: None,
            text: "A against B.".into(),
            kind,
            value,
            unit: None,
            reading: None,
            difference: None,
            same_as: None,
            left_out: None,
            is_input: false,
            within: None,
        }
    }

    /// Without noise.
    fn exactly(mean: f64) -> Estimate {
        Estimate::of(&[mean])
    }

    fn noisy(low: f64, mean: f64, high: f64) -> Estimate {
        Estimate {
            mean,
            low,
            high,
            seeds: 5,
        }
    }

    #[test]
    fn ratios_need_direction_and_size_and_size_is_of_the_ratio_itself() {
        use Verdict::{DirectionOnly, Fails, Holds, HoldsClosely, WithinNoise};
        let times = claim(ClaimKind::Times, Some(4.0));
        for (ours, verdict) in [
            (4.0, HoldsClosely),
            (5.0, HoldsClosely),
            (3.2, HoldsClosely),
            (5.9, Holds),
            (2.7, Holds),
            (2.6, DirectionOnly),
            (6.1, DirectionOnly),
            (16.0, DirectionOnly),
            (1.0, WithinNoise),
            (0.25, Fails),
            (0.0, Fails),
        ] {
            assert_eq!(judge(&times, &exactly(ours)), verdict, "{ours}");
        }
        let less = claim(ClaimKind::Less, Some(75.0));
        assert_eq!(judge(&less, &exactly(0.25)), HoldsClosely);
        assert_eq!(judge(&less, &exactly(0.36)), Holds);
        assert_eq!(judge(&less, &exactly(0.9)), DirectionOnly);
        assert_eq!(judge(&less, &exactly(1.1)), Fails);
        let more = claim(ClaimKind::More, Some(300.0));
        assert_eq!(judge(&more, &exactly(4.0)), HoldsClosely);
    }

    #[test]
    fn a_ratio_near_the_papers_on_the_wrong_side_of_one_does_not_hold() {
        let times = claim(ClaimKind::Times, Some(1.12));
        assert_eq!(judge(&times, &exactly(0.99)), Verdict::Fails);
        assert_eq!(
            judge(&times, &noisy(0.98, 0.99, 1.01)),
            Verdict::WithinNoise
        );
        assert_eq!(
            judge(&times, &noisy(1.01, 1.02, 1.03)),
            Verdict::HoldsClosely
        );
    }

    #[test]
    fn an_order_that_does_not_clear_the_noise_of_the_seeds_is_within_noise() {
        let order = claim(ClaimKind::Order, None);
        assert_eq!(judge(&order, &noisy(1.001, 1.01, 1.02)), Verdict::Holds);
        assert_eq!(
            judge(&order, &noisy(0.99, 1.01, 1.03)),
            Verdict::WithinNoise
        );
        assert_eq!(judge(&order, &noisy(0.9, 0.95, 0.99)), Verdict::Fails);
        let bound = claim(ClaimKind::AtMost, Some(4.5));
        assert_eq!(judge(&bound, &exactly(1.045)), Verdict::Holds);
        assert_eq!(judge(&bound, &exactly(0.5)), Verdict::Holds);
        assert_eq!(
            judge(&bound, &noisy(1.04, 1.044, 1.05)),
            Verdict::WithinNoise
        );
        assert_eq!(judge(&bound, &exactly(1.06)), Verdict::Fails);
    }

    #[test]
    fn a_share_near_the_whole_is_bounded_from_above() {
        let share = claim(ClaimKind::Share, Some(20.0));
        assert_eq!(judge(&share, &exactly(0.19)), Verdict::HoldsClosely);
        assert_eq!(judge(&share, &exactly(0.14)), Verdict::Holds);
        assert_eq!(judge(&share, &exactly(0.13)), Verdict::Fails);
        let most = claim(ClaimKind::Share, Some(90.0));
        assert_eq!(judge(&most, &exactly(0.91)), Verdict::HoldsClosely);
        assert_eq!(judge(&most, &exactly(0.94)), Verdict::Fails);
        assert_eq!(judge(&most, &exactly(1.0)), Verdict::Fails);
    }

    #[test]
    fn amounts_hold_within_a_factor_and_inputs_are_not_judged() {
        let amount = PaperClaim {
            within: Some(1.1),
            ..claim(ClaimKind::Amount, Some(100.0))
        };
        assert_eq!(judge(&amount, &exactly(109.0)), Verdict::HoldsClosely);
        assert_eq!(judge(&amount, &exactly(111.0)), Verdict::Fails);
        let input = PaperClaim {
            is_input: true,
            ..claim(ClaimKind::Amount, Some(100.0))
        };
        assert_eq!(judge(&input, &exactly(100.0)), Verdict::Input);
    }

    #[test]
    fn values_are_said_as_the_claim_says_them() {
        let more = claim(ClaimKind::More, Some(35.3));
        assert_eq!(spoken_by_paper(&more), "35.3 % more");
        assert_eq!(spoken(&more, 0.8), "20.0 % less");
        let bound = claim(ClaimKind::AtMost, Some(4.5));
        assert_eq!(spoken_by_paper(&bound), "at most 4.50 % more");
        let share = claim(ClaimKind::Share, Some(18.98));
        assert_eq!(spoken_by_paper(&share), "19.0 %");
        let order = claim(ClaimKind::Order, None);
        assert_eq!(spoken_by_paper(&order), "more, no figure given");
        let times = claim(ClaimKind::Times, Some(5.12));
        assert_eq!(
            spoken_estimate(&times, &noisy(4.0, 4.2, 4.4)),
            "4.20 times (4.00 times to 4.40 times)"
        );
    }
}
