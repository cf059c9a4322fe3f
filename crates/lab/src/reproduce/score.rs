//! What the claims of a paper come to: equal runs are one verdict, and what cannot fail does not count.
//!
//! 1. Claims of one formula rest on equal runs; so do claims that the data file calls the same. Such claims are a
//!    group. One of each group is judged: of ratios the one with the paper's smaller effect, of shares
//!    and amounts the one that ours is farther from. The others show the verdict of that one and do not count.
//! 2. Quantified claims give a figure. Orders and bounds do not; inputs of the runs and what workloads were fitted to
//!    are left out. What was not tested counts as not found.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::{Figure, Formula};
use super::outcome::Finding;
use super::paper::{ClaimKind, Paper, PaperClaim};
use super::verdict::{CLOSELY_WITHIN, Verdict, WITHIN, factor};

/// A claim that another one was judged for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// It, as `figure/claim`.
    pub claim: String,
    /// The one that was judged.
    pub judged_as: String,
}

/// How many claims were found here, and which were not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Score {
    /// Distinct claims that give a figure.
    pub quantified: u32,
    /// Of these, within a factor of 1.25.
    pub within_1_25: u32,
    /// Of these, within a factor of 1.5.
    pub within_1_5: u32,
    /// Claims that rest on the runs of another one.
    pub merged: Vec<Merged>,
    /// Claims that give a figure and are left out, by the reason.
    pub left_out: BTreeMap<String, Vec<String>>,
}

impl Score {
    /// Adds what the claims of another paper come to.
    pub fn add(&mut self, other: &Score) {
        self.quantified += other.quantified;
        self.within_1_25 += other.within_1_25;
        self.within_1_5 += other.within_1_5;
    }

    /// Two lines: how many claims are within either factor of the paper's figure; one line, where no claim gives a figure.
    pub fn lines(&self) -> String {
        let Score { quantified, .. } = self;
        if *quantified == 0 {
            return "no claim of these gives a figure".to_owned();
        }
        format!(
            "quantified claims within {CLOSELY_WITHIN}: {} of {quantified}\nquantified claims within {WITHIN}: {} of {quantified}",
            self.within_1_25, self.within_1_5
        )
    }
}

/// A claim's place: figure and claim.
type Place = (usize, usize);

/// Gives every group of claims over equal runs one verdict, and counts.
pub(super) fn join(figures: &[Figure], paper: &Paper, findings: &mut [Finding]) -> Score {
    let mut score = Score::default();
    for group in groups(figures, paper, findings).into_values() {
        let judged = judged_of(&group, paper, findings);
        let (name, verdict) = (
            name_of(judged, findings),
            claim_at(judged, findings).verdict,
        );
        for place in group.into_iter().filter(|place| *place != judged) {
            score.merged.push(Merged {
                claim: name_of(place, findings),
                judged_as: name.clone(),
            });
            let claim = &mut findings[place.0].claims[place.1];
            claim.sentence = format!(
                "One verdict with {name}, for it rests on the same runs. {}",
                claim.sentence
            );
            (claim.verdict, claim.counts) = (verdict, false);
            claim.judged_as = Some(name.clone());
        }
    }
    count(paper, findings, &mut score);
    score
}

/// Claims that rest on equal runs, by the first of them.
fn groups(figures: &[Figure], paper: &Paper, findings: &[Finding]) -> BTreeMap<Place, Vec<Place>> {
    let mut first_of: BTreeMap<String, Place> = BTreeMap::new();
    let mut groups: BTreeMap<Place, Vec<Place>> = BTreeMap::new();
    for (figure, finding) in findings.iter().enumerate() {
        for (claim, found) in finding.claims.iter().enumerate() {
            let place = (figure, claim);
            let formula = figures[figure].claims.iter().find(|c| c.id == found.id);
            let formula = &formula.expect("a test compares the claims").formula;
            if found.verdict == Verdict::Input || matches!(formula, Formula::Untested(_)) {
                continue;
            }
            let told = told_at(place, paper, findings);
            let twin = told.same_as.as_ref().and_then(|name| first_of.get(name));
            let is_order = told.value.is_none();
            let own = format!("{is_order} {formula:?}");
            let first = twin
                .or_else(|| first_of.get(&own))
                .copied()
                .unwrap_or(place);
            first_of.entry(own).or_insert(first);
            first_of.insert(name_of(place, findings), first);
            groups.entry(first).or_default().push(place);
        }
    }
    groups
}

/// The claim of a group that is judged.
fn judged_of(group: &[Place], paper: &Paper, findings: &[Finding]) -> Place {
    // A greater key is farther from being judged.
    let key = |place: &Place| {
        let told = told_at(*place, paper, findings);
        if let Some(ratio) = told.paper_ratio() {
            return ratio.ln().abs();
        }
        let whole = if told.kind == ClaimKind::Share {
            100.0
        } else {
            1.0
        };
        let paper = told.value.unwrap_or_default() / whole;
        let ours = claim_at(*place, findings).ours_value;
        -ours.map_or(0.0, |ours| factor(paper, ours.mean))
    };
    let least = group.iter().min_by(|a, b| key(a).total_cmp(&key(b)));
    *least.expect("a group has claims")
}

fn count(paper: &Paper, findings: &[Finding], score: &mut Score) {
    for (figure, finding) in findings.iter().enumerate() {
        for (index, claim) in finding.claims.iter().enumerate() {
            let place = (figure, index);
            if let Some(why) = &told_at(place, paper, findings).left_out {
                let name = name_of(place, findings);
                score.left_out.entry(why.clone()).or_default().push(name);
            }
            if claim.counts {
                score.quantified += 1;
                score.within_1_25 += u32::from(claim.verdict == Verdict::HoldsClosely);
                score.within_1_5 += u32::from(claim.verdict.is_found());
            }
        }
    }
}

fn claim_at(place: Place, findings: &[Finding]) -> &super::FoundClaim {
    &findings[place.0].claims[place.1]
}

fn told_at<'a>(place: Place, paper: &'a Paper, findings: &[Finding]) -> &'a PaperClaim {
    let finding = &findings[place.0];
    let figure = paper
        .figure(&finding.name)
        .expect("a test compares the names");
    let id = &finding.claims[place.1].id;
    let told = figure.claims.iter().find(|claim| claim.id == *id);
    told.expect("the finding has the paper's claims")
}

fn name_of(place: Place, findings: &[Finding]) -> String {
    let finding = &findings[place.0];
    format!("{}/{}", finding.name, finding.claims[place.1].id)
}
