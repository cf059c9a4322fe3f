//! The second-chance scan.
//!
//! Problem: to evict what is clean, cold, or lies well together, without any list of what is
//! cached.
//!
//! Idea (Hao et al., section III-A): go through the bitmap in the order of addresses.
//!
//! 1. Clean cold sectors leave, until the round's budget is met: the scan ends there.
//! 2. Dirty cold sectors are only counted, into a table whose entries stand for equal amounts of
//!    them; an entry knows where it begins and how many of its sectors have their neighbour.
//! 3. If the clean ones did not suffice, the entries with the most neighbours are walked again, and
//!    their sectors leave.
//! 4. If all cold sectors do not suffice, those of heat 1 are next, then those of heat 2 and 3.
//! 5. What was scanned gets cooler: clean sectors while clean cold ones are few, dirty ones while
//!    dirty cold ones are few.
//!
//! Where the paper is silent, or where its rule loses hits, a [rule](ScanRules) decides; all of
//! them can be set as in the paper. Of the last step the paper has that everything scanned gets
//! cooler each time. Where writes are many every round scans everything, and soon nothing is hot:
//! on real traces that costs up to two thirds of the hits (`docs/indexless.md`). So sectors get
//! cooler only as victims are needed, as in CLOCK; and as the dirty ones are to be many enough for
//! runs to be among them, dirty ones sooner than clean ones.

use std::ops::Range;

use super::continuity::{Exact, Table};
use super::{Policy, Victim, View, tidy};
use crate::indexless::bitmap::Cold;
use crate::indexless::part::{Counts, Run, SECTORS};
use crate::indexless::word::Word;

/// What the scan goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanRules {
    /// How dirty sectors are ranked.
    pub continuity: Continuity,
    /// Share of the cache that an entry of the table stands for. The paper's: 1/2000.
    pub entry_share: f64,
    /// An entry has at least so many sectors, so that small caches have entries worth ranking. The paper's: 1.
    pub entry_sectors_min: u64,
    /// Whether a scan goes on where the one before ended. The paper's begins at the lowest address.
    pub resumes: bool,
    /// Clean sectors get cooler after a round if less than this share of the cache was clean and cold. The
    /// paper's: 1, in every round.
    pub clean_cold_share: f64,
    /// As for clean ones, of dirty ones.
    pub dirty_cold_share: f64,
    /// Share of a round's budget that clean sectors are taken for before dirty ones. The paper's: 1.
    pub clean_share: f64,
    /// Whether dirty sectors that have to leave are as many as the whole budget, whatever clean
    /// ones left. The paper's: true.
    pub dirty_whole_budget: bool,
}

/// How dirty sectors are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    /// By the table of entries.
    Table,
    /// Exactly, run by run: the paper's "ideal", at the cost of a list of all of them.
    Exact,
}

impl ScanRules {
    /// As the paper says.
    pub const PAPER: ScanRules = ScanRules {
        continuity: Continuity::Table,
        entry_share: 1.0 / 2000.0,
        entry_sectors_min: 1,
        resumes: false,
        clean_cold_share: 1.0,
        dirty_cold_share: 1.0,
        clean_share: 1.0,
        dirty_whole_budget: true,
    };
}

impl Default for ScanRules {
    fn default() -> ScanRules {
        ScanRules {
            entry_sectors_min: 64,
            resumes: true,
            clean_cold_share: 0.05,
            dirty_cold_share: 0.85,
            dirty_whole_budget: false,
            ..ScanRules::PAPER
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct Scan {
    rules: ScanRules,
    /// The part at which the next scan begins, if it resumes.
    next_part: u64,
    /// Sectors looked at, ever.
    visits: u64,
    /// Most bytes that a round took.
    bytes_max: usize,
}

/// Heats that are gone through one after another.
const TIERS: usize = Word::HEAT_MAX as usize + 1;

/// What a round found of one heat.
struct Tier {
    clean: Vec<Victim>,
    clean_sectors: u64,
    dirty: Dirty,
}

enum Dirty {
    Table(Table),
    Exact(Exact),
}

impl Dirty {
    fn add(&mut self, first: u64, count: u64) {
        match self {
            Dirty::Table(table) => table.add(first, count),
            Dirty::Exact(exact) => exact.add(first, count),
        }
    }

    fn sectors(&self) -> u64 {
        match self {
            Dirty::Table(table) => table.sectors(),
            Dirty::Exact(exact) => exact.sectors(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Dirty::Table(table) => table.memory_bytes(),
            Dirty::Exact(exact) => exact.memory_bytes(),
        }
    }
}

impl Scan {
    /// A scan by these rules.
    pub fn new(rules: ScanRules) -> Scan {
        Scan {
            rules,
            next_part: 0,
            visits: 0,
            bytes_max: 0,
        }
    }

    /// The parts with cached sectors whose counts `wanted` likes, from where the scan begins, once round.
    fn each_part(
        &mut self,
        view: View<'_>,
        wanted: impl Fn(&Counts) -> bool,
        runs: &mut Vec<Run>,
        mut each: impl FnMut(u64, &mut Vec<Run>) -> Next,
    ) -> Scanned {
        let begin = if self.rules.resumes {
            self.next_part
        } else {
            0
        };
        let ranges = [begin..view.bitmap.parts(), 0..begin];
        for (is_second, range) in ranges.into_iter().enumerate() {
            let mut at = range.start;
            while let Some(part) = view.bitmap.find_part(view.cpu, at, &wanted)
                && part < range.end
            {
                let mut next = Next::GoOn;
                let mut looked = 0;
                view.bitmap.visit(view.cpu, part, runs, |runs| {
                    looked = runs.iter().map(|run| u64::from(run.count)).sum();
                    next = each(part, runs);
                    false
                });
                self.visits += looked;
                at = part + 1;
                if next == Next::Stop {
                    let is_wrapped = is_second == 1;
                    return Scanned {
                        begin,
                        end: at,
                        is_wrapped,
                    };
                }
            }
        }
        Scanned {
            begin,
            end: begin,
            is_wrapped: true,
        }
    }

    /// Goes through the bitmap until clean cold sectors suffice, or all of it. What is not cold is looked at only if what
    /// is does not suffice.
    fn gather(&mut self, view: View<'_>, budget: u64) -> ([Tier; TIERS], Scanned) {
        let mut tiers = self.tiers(view);
        let cold = view.bitmap.cold(view.cpu);
        if cold.clean + cold.dirty < budget {
            let scanned = self.gather_heats(view, budget, 0..TIERS, &mut tiers);
            return (tiers, scanned);
        }
        let scanned = self.gather_heats(view, budget, 0..1, &mut tiers);
        // Some were not as cold as it had seemed before the scan.
        if tiers[0].clean_sectors + tiers[0].dirty.sectors() < budget {
            self.gather_heats(view, budget, 1..TIERS, &mut tiers);
        }
        (tiers, scanned)
    }

    fn tiers(&self, view: View<'_>) -> [Tier; TIERS] {
        let entry = (view.limit as f64 * self.rules.entry_share).round() as u64;
        let entry = entry.max(self.rules.entry_sectors_min);
        let dirty = || match self.rules.continuity {
            Continuity::Table => Dirty::Table(Table::new(entry)),
            Continuity::Exact => Dirty::Exact(Exact::default()),
        };
        [(); TIERS].map(|()| Tier {
            clean: Vec::new(),
            clean_sectors: 0,
            dirty: dirty(),
        })
    }

    /// The same for sectors of some heats.
    fn gather_heats(
        &mut self,
        view: View<'_>,
        budget: u64,
        heats: Range<usize>,
        tiers: &mut [Tier; TIERS],
    ) -> Scanned {
        let ends_early = heats.start == 0 && self.rules.clean_share >= 1.0;
        let is_cold_only = heats.end == 1;
        let wanted =
            move |counts: &Counts| !is_cold_only || counts.cold_clean > 0 || counts.cold_dirty > 0;
        let mut runs = Vec::new();
        self.each_part(view, wanted, &mut runs, |part, runs| {
            let begin = part * u64::from(SECTORS);
            for run in runs.iter().filter(|run| !run.word.is_leaving()) {
                let heat = usize::from(run.word.heat());
                if !heats.contains(&heat) {
                    continue;
                }
                let (first, count) = (begin + u64::from(run.first), u64::from(run.count));
                let tier = &mut tiers[heat];
                if run.word.is_dirty() {
                    tier.dirty.add(first, count);
                } else if tier.clean_sectors < budget {
                    let count = count.min(budget - tier.clean_sectors);
                    tier.clean_sectors += count;
                    tier.clean.push(Victim {
                        first,
                        count: count as u32,
                    });
                }
            }
            match ends_early && tiers[0].clean_sectors >= budget {
                true => Next::Stop,
                false => Next::GoOn,
            }
        })
    }

    /// Walks from the first sector of an entry, and adds as many dirty sectors of the heat as the entry stands for.
    fn walk(&mut self, view: View<'_>, heat: u8, first: u64, sectors: u64, out: &mut Vec<Victim>) {
        let (mut left, mut at) = (sectors, first / u64::from(SECTORS));
        let mut runs = Vec::new();
        while left > 0
            && let Some(part) = view.bitmap.find_part(view.cpu, at, |c| c.dirty > 0)
        {
            let begin = part * u64::from(SECTORS);
            view.bitmap.visit(view.cpu, part, &mut runs, |runs| {
                for run in runs.iter() {
                    self.visits += u64::from(run.count);
                    let end = begin + u64::from(run.end());
                    let from = first.max(begin + u64::from(run.first));
                    let wanted = run.word.is_dirty()
                        && !run.word.is_leaving()
                        && run.word.heat() == heat
                        && from < end;
                    if wanted && left > 0 {
                        let count = (end - from).min(left);
                        left -= count;
                        out.push(Victim {
                            first: from,
                            count: count as u32,
                        });
                    }
                }
                false
            });
            at = part + 1;
        }
    }

    /// Adds the dirty sectors of a tier that lie best, `budget` of them. Returns how many.
    fn take_dirty(
        &mut self,
        view: View<'_>,
        heat: u8,
        dirty: Dirty,
        budget: u64,
        out: &mut Vec<Victim>,
    ) -> u64 {
        let begin = out.len();
        match dirty {
            _ if budget == 0 => {}
            Dirty::Exact(exact) => out.extend(exact.best(budget)),
            Dirty::Table(table) => {
                let mut left = budget;
                for entry in table.best(budget) {
                    let sectors = entry.sectors.min(left);
                    left -= sectors;
                    self.walk(view, heat, entry.first, sectors, out);
                }
            }
        }
        out[begin..]
            .iter()
            .map(|victim| u64::from(victim.count))
            .sum()
    }

    /// Makes what was scanned cooler, clean or dirty, of which too few were cold.
    fn decay(&mut self, view: View<'_>, scanned: Scanned, cold: Cold) {
        let lacks = |sectors: u64, share: f64| (sectors as f64) < share * view.limit as f64;
        let clean = lacks(cold.clean, self.rules.clean_cold_share);
        let dirty = lacks(cold.dirty, self.rules.dirty_cold_share);
        if !clean && !dirty {
            return;
        }
        let is_hot = |counts: &Counts| counts.cached > counts.cold_clean + counts.cold_dirty;
        let (mut runs, mut at) = (Vec::new(), 0);
        while let Some(part) = view.bitmap.find_part(view.cpu, at, is_hot) {
            at = part + 1;
            if !scanned.has(part) {
                continue;
            }
            let cooled = view.bitmap.cool(view.cpu, part, (clean, dirty), &mut runs);
            self.visits += cooled;
        }
    }
}

/// Whether a scan goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

/// Which parts were scanned.
#[derive(Debug, Clone, Copy)]
struct Scanned {
    begin: u64,
    /// The part behind the last one.
    end: u64,
    is_wrapped: bool,
}

impl Scanned {
    fn has(&self, part: u64) -> bool {
        match self.is_wrapped {
            false => (self.begin..self.end).contains(&part),
            true => part >= self.begin || part < self.end,
        }
    }
}

impl Policy for Scan {
    fn touched(&mut self, _first: u64, _count: u32) {}

    fn forgotten(&mut self, _first: u64, _count: u32) {}

    fn choose(&mut self, view: View<'_>, budget: u64, out: &mut Vec<Victim>) {
        let (tiers, scanned) = self.gather(view, budget);
        let bytes: usize = tiers.iter().map(|t| t.dirty.memory_bytes()).sum();
        self.bytes_max = self.bytes_max.max(bytes);
        let cold = view.bitmap.cold(view.cpu);
        let clean_max = (budget as f64 * self.rules.clean_share).ceil() as u64;
        let mut taken = 0;
        for (heat, tier) in (0..).zip(tiers) {
            if taken >= budget {
                break;
            }
            let wanted = budget - taken;
            let dirty_there = tier.dirty.sectors();
            // More clean ones than their share only if the dirty ones do not suffice.
            let clean = wanted
                .min(clean_max)
                .max(wanted.saturating_sub(dirty_there));
            let clean = take_clean(&tier.clean, clean, out);
            let left = wanted - clean;
            let dirty = match self.rules.dirty_whole_budget && left > 0 {
                true => wanted,
                false => left,
            };
            taken += clean + self.take_dirty(view, heat, tier.dirty, dirty, out);
        }
        self.next_part = scanned.end;
        tidy(out);
        self.decay(view, scanned, cold);
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Scan>() + self.bytes_max
    }

    fn visits(&self) -> Option<u64> {
        Some(self.visits)
    }
}

/// Adds clean sectors in ascending order, `budget` at most. Returns how many.
fn take_clean(clean: &[Victim], budget: u64, out: &mut Vec<Victim>) -> u64 {
    let mut left = budget;
    for victim in clean {
        let count = u64::from(victim.count).min(left);
        if count == 0 {
            break;
        }
        left -= count;
        out.push(Victim {
            first: victim.first,
            count: count as u32,
        });
    }
    budget - left
}
