//! The paper's "improved LRU": half of a round by LRU, half of what is left by continuity.
//! (Hao et al., section IV-B.)

use super::lists::Lru;
use super::{Continuity, Policy, Scan, ScanRules, Victim, View, tidy};

/// Half by LRU, half the longest runs of dirty cold sectors.
#[derive(Debug)]
pub struct ImprovedLru {
    lru: Lru,
    /// For the second half: dirty sectors alone, ranked exactly.
    runs: Scan,
}

impl ImprovedLru {
    /// With heats that decay as `rules` say.
    pub fn new(rules: ScanRules) -> ImprovedLru {
        let runs = ScanRules {
            continuity: Continuity::Exact,
            clean_share: 0.0,
            dirty_whole_budget: false,
            ..rules
        };
        ImprovedLru {
            lru: Lru::default(),
            runs: Scan::new(runs),
        }
    }
}

impl Policy for ImprovedLru {
    fn touched(&mut self, first: u64, count: u32) {
        self.lru.touched(first, count);
    }

    fn forgotten(&mut self, first: u64, count: u32) {
        self.lru.forgotten(first, count);
    }

    fn choose(&mut self, view: View<'_>, budget: u64, out: &mut Vec<Victim>) {
        self.lru.choose(view, budget / 2, out);
        let mut runs = Vec::new();
        self.runs.choose(view, budget - budget / 2, &mut runs);
        // What both chose leaves once: the others make up for it in the next round.
        for run in runs {
            let end = run.first + u64::from(run.count);
            let by_lru = |sector: &u64| holds(out, *sector);
            let others: Vec<u64> = (run.first..end).filter(|s| !by_lru(s)).collect();
            out.extend(others.iter().map(|first| Victim {
                first: *first,
                count: 1,
            }));
            tidy(out);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.lru.memory_bytes() + self.runs.memory_bytes()
    }
}

/// Whether a sector is among victims, which are in order.
fn holds(victims: &[Victim], sector: u64) -> bool {
    let after = victims.partition_point(|victim| victim.first <= sector);
    let before = victims[..after].last();
    before.is_some_and(|victim| sector - victim.first < u64::from(victim.count))
}
