//! A flash cache without a flash: its bitmap, a policy, and counts.

use std::cell::Cell;

use wharf_host::indexless::bitmap::{Bitmap, Stretch};
use wharf_host::indexless::policy::{Policy, Victim, View};
use wharf_host::indexless::word::{Place, Word};
use wharf_runtime::Cpu;
use wharf_workload::Request;
use wharf_workload::request::Op;

/// Sectors of a unit in which the disk is written.
const UNIT: u64 = 8;

/// What was found. Pairs are of misses and hits.
#[derive(Default)]
pub struct Found {
    reads: [u64; 2],
    writes: [u64; 2],
    /// Sectors that left.
    evicted: u64,
    /// Dirty ones among them.
    written_back: u64,
    /// Sectors of the units that they are in.
    units: u64,
    /// Runs in which they left.
    runs: u64,
    /// How often sectors were chosen.
    pub rounds: u64,
}

impl Found {
    /// Share of all page touches that were hits.
    pub fn hit_ratio(&self) -> f64 {
        let sum = |at: usize| self.reads[at] + self.writes[at];
        ratio([sum(0), sum(1)])
    }

    /// Share of the pages read that were hits.
    pub fn read_hit_ratio(&self) -> f64 {
        ratio(self.reads)
    }

    /// Share of the pages written that were hits.
    pub fn write_hit_ratio(&self) -> f64 {
        ratio(self.writes)
    }

    /// Bytes of the units written back, for each dirty byte that left.
    pub fn write_amplification(&self) -> f64 {
        self.units as f64 / self.written_back.max(1) as f64
    }

    /// Mean length of the runs written back.
    pub fn run_sectors(&self) -> f64 {
        self.written_back as f64 / self.runs.max(1) as f64
    }
}

/// The cache.
pub struct Cache<'a> {
    cpu: &'a Cpu,
    sectors: u64,
    bitmap: Bitmap,
    limit: u64,
    round: u64,
    insert_heat: u8,
    policy: Box<dyn Policy>,
    /// What was found so far.
    pub found: Found,
}

impl Cache<'_> {
    /// An empty cache of at most `limit` of `sectors` sectors, from which `round` leave at a time;
    /// those that come in have `insert_heat`.
    pub fn new(
        cpu: &Cpu,
        sectors: u64,
        limit: u64,
        round: u64,
        insert_heat: u8,
        policy: Box<dyn Policy>,
    ) -> Cache<'_> {
        Cache {
            cpu,
            sectors,
            bitmap: Bitmap::new(sectors, 64 << 20, false),
            limit,
            round,
            insert_heat,
            policy,
            found: Found::default(),
        }
    }

    /// Serves the pages of a read or a write.
    pub fn request(&mut self, request: &Request) {
        let writes = request.op == Op::Write;
        request.pages().for_each(|page| self.touch(page, writes));
    }

    fn touch(&mut self, page: u64, writes: bool) {
        let mut out: Vec<Stretch> = Vec::new();
        self.bitmap
            .access(self.cpu, page, 1, &mut out)
            .expect("known");
        let is_hit = out[0].place != Place::Disk;
        let counts = match writes {
            true => &mut self.found.writes,
            false => &mut self.found.reads,
        };
        counts[usize::from(is_hit)] += 1;
        let heat = self.insert_heat;
        let word = |word: Word| match (word.is_cached(), writes) {
            (true, true) => Word::dirty(word.heat()),
            (true, false) => word,
            (false, true) => Word::dirty(heat),
            (false, false) => Word::clean(heat),
        };
        self.bitmap.change(self.cpu, page, 1, word).expect("known");
        self.policy.touched(page, 1);
        if self.bitmap.totals().cached > self.limit {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let view = View {
            cpu: self.cpu,
            bitmap: &self.bitmap,
            limit: self.limit,
        };
        let mut victims = Vec::new();
        self.policy.choose(view, self.round, &mut victims);
        assert!(!victims.is_empty());
        self.found.rounds += 1;
        self.found.evicted += victims.iter().map(|v| u64::from(v.count)).sum::<u64>();
        let mut dirty: Vec<Victim> = Vec::new();
        for victim in victims {
            self.policy.forgotten(victim.first, victim.count);
            for sector in victim.first..victim.first + u64::from(victim.count) {
                if !self.leaves(sector) {
                    continue;
                }
                match dirty.last_mut() {
                    Some(last) if last.first + u64::from(last.count) == sector => last.count += 1,
                    _ => dirty.push(Victim {
                        first: sector,
                        count: 1,
                    }),
                }
            }
        }
        for run in dirty {
            let end = run.first + u64::from(run.count);
            self.found.written_back += u64::from(run.count);
            self.found.units += (end.div_ceil(UNIT) - run.first / UNIT) * UNIT;
            self.found.runs += 1;
        }
    }

    /// Cached sectors that the policy looked at for each one that left, if it looks at them.
    pub fn visits_by_evicted(&self) -> Option<f64> {
        let visits = self.policy.visits()?;
        Some(visits as f64 / self.found.evicted.max(1) as f64)
    }

    /// The same bitmap with no part unpacked.
    pub fn packed(&self) -> Bitmap {
        let packed = Bitmap::new(self.sectors, 0, true);
        let (mut from, mut room) = (0, Vec::new());
        while let Some(part) = self.bitmap.find_part(self.cpu, from, |_| true) {
            self.bitmap.visit(self.cpu, part, &mut room, |runs| {
                packed.learn(self.cpu, part, runs);
                false
            });
            from = part + 1;
        }
        packed.end_learning(self.cpu);
        assert_eq!(packed.totals(), self.bitmap.totals());
        packed
    }

    /// Takes a sector out; true if it was dirty.
    fn leaves(&self, sector: u64) -> bool {
        let was_dirty = Cell::new(false);
        let gone = |word: Word| {
            was_dirty.set(word.is_dirty());
            Word::ABSENT
        };
        let changed = self.bitmap.change(self.cpu, sector, 1, gone);
        changed.expect("known");
        was_dirty.get()
    }
}

fn ratio(counts: [u64; 2]) -> f64 {
    counts[1] as f64 / (counts[0] + counts[1]).max(1) as f64
}
