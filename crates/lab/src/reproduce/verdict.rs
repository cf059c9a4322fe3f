//! Whether a claim of the paper holds here.
//!
//! A claim that compares two things is put as a ratio of A to B: 5.12 times is 5.12, 35 % more is
//! 1.35, 78 % less is 0.22. The size of an effect is the ratio's logarithm, so that twice as fast and
//! half as fast are effects of one size.
//!
//! 1. The claim **holds** if the effect has the paper's direction and between half and twice its size.
//! 2. Its **direction** holds if only the direction does.
//! 3. An order holds if the ratio is above 1.
//! 4. A bound holds if the ratio is no greater.
//! 5. Shares and amounts have no direction: they hold within a factor, 2 unless the data file says
//!    otherwise.

use serde::Serialize;

use super::paper::{ClaimKind, PaperClaim};

/// How far the size of an effect may be from the paper's, as a factor.
const SIZE_WITHIN: f64 = 2.0;

/// How far a share or an amount may be from the paper's, as a factor.
const VALUE_WITHIN: f64 = 2.0;

/// How a claim fares here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the paper says, direction and size.
    Holds,
    /// The direction is the paper's, the size is not.
    DirectionOnly,
    /// It does not hold here.
    Fails,
    /// Nothing here tells.
    Untested,
}

impl Verdict {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DirectionOnly => "direction holds, size does not",
            Verdict::Fails => "does not hold here",
            Verdict::Untested => "not tested",
        }
    }
}

/// Judges `ours`: a ratio of A to B, a share from 0 to 1, or an amount, as the claim's kind wants.
pub fn judge(claim: &PaperClaim, ours: f64) -> Verdict {
    let Some(value) = claim.value else {
        return if ours > 1.0 {
            Verdict::Holds
        } else {
            Verdict::Fails
        };
    };
    match claim.kind {
        ClaimKind::Times => effect(value, ours),
        ClaimKind::More => effect(1.0 + value / 100.0, ours),
        ClaimKind::Less => effect(1.0 - value / 100.0, ours),
        ClaimKind::AtMost if ours <= 1.0 + value / 100.0 => Verdict::Holds,
        ClaimKind::AtMost => Verdict::Fails,
        ClaimKind::Share => near(value / 100.0, ours, claim.within),
        ClaimKind::Amount => near(value, ours, claim.within),
        ClaimKind::Order => Verdict::Untested,
    }
}

fn effect(paper: f64, ours: f64) -> Verdict {
    if ours <= 0.0 {
        return Verdict::Fails;
    }
    let size = ours.ln() / paper.ln();
    match size {
        _ if size <= 0.0 => Verdict::Fails,
        _ if (1.0 / SIZE_WITHIN..=SIZE_WITHIN).contains(&size) => Verdict::Holds,
        _ => Verdict::DirectionOnly,
    }
}

fn near(paper: f64, ours: f64, within: Option<f64>) -> Verdict {
    let factor = within.unwrap_or(VALUE_WITHIN);
    if (paper / factor..=paper * factor).contains(&ours) {
        Verdict::Holds
    } else {
        Verdict::Fails
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

/// The paper's value in the same words; `more` for an order.
pub fn spoken_by_paper(claim: &PaperClaim) -> String {
    let Some(value) = claim.value else {
        return "more, no figure given".into();
    };
    let bound = match claim.kind {
        ClaimKind::AtMost => "at most ",
        _ => "",
    };
    let said = spoken(
        claim,
        match claim.kind {
            ClaimKind::More | ClaimKind::AtMost => 1.0 + value / 100.0,
            ClaimKind::Less => 1.0 - value / 100.0,
            ClaimKind::Share => value / 100.0,
            _ => value,
        },
    );
    format!("{bound}{said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(kind: ClaimKind, value: Option<f64>) -> PaperClaim {
        PaperClaim {
            id: "c".into(),
            text: "A against B.".into(),
            kind,
            value,
            unit: None,
            reading: None,
            difference: None,
            within: None,
        }
    }

    #[test]
    fn effects_need_direction_and_size() {
        use Verdict::{DirectionOnly, Fails, Holds};
        let times = claim(ClaimKind::Times, Some(4.0));
        for (ours, verdict) in [
            (4.0, Holds),
            (2.0, Holds),
            (16.0, Holds),
            (1.9, DirectionOnly),
            (17.0, DirectionOnly),
            (1.0, Fails),
            (0.25, Fails),
            (0.0, Fails),
        ] {
            assert_eq!(judge(&times, ours), verdict, "{ours}");
        }
        let less = claim(ClaimKind::Less, Some(75.0));
        assert_eq!(judge(&less, 0.25), Holds);
        assert_eq!(judge(&less, 0.9), DirectionOnly);
        assert_eq!(judge(&less, 1.1), Fails);
        let more = claim(ClaimKind::More, Some(300.0));
        assert_eq!(judge(&more, 4.0), Holds);
    }

    #[test]
    fn shares_and_amounts_hold_within_a_factor() {
        let share = claim(ClaimKind::Share, Some(20.0));
        assert_eq!(judge(&share, 0.11), Verdict::Holds);
        assert_eq!(judge(&share, 0.09), Verdict::Fails);
        let amount = PaperClaim {
            within: Some(1.25),
            ..claim(ClaimKind::Amount, Some(100.0))
        };
        assert_eq!(judge(&amount, 120.0), Verdict::Holds);
        assert_eq!(judge(&amount, 130.0), Verdict::Fails);
        let order = claim(ClaimKind::Order, None);
        assert_eq!(judge(&order, 1.01), Verdict::Holds);
        assert_eq!(judge(&order, 1.0), Verdict::Fails);
        let bound = claim(ClaimKind::AtMost, Some(4.5));
        assert_eq!(judge(&bound, 1.045), Verdict::Holds);
        assert_eq!(judge(&bound, 0.5), Verdict::Holds);
        assert_eq!(judge(&bound, 1.06), Verdict::Fails);
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
    }
}
