//! Where sectors are: the bitmap says so, or in its place an index (design `opencas`).

use std::sync::Arc;

use wharf_runtime::Cpu;

use super::bitmap::{Bitmap, Totals};
use super::index::LineIndex;
use super::part::{Run, SECTORS};
use super::policy::Victim;
use super::stretch::{Stretch, Unknown};
use super::word::Word;

/// See the module. Functions are as those of [`Bitmap`].
#[expect(
    clippy::large_enum_variant,
    reason = "a cache has one, and looks at it for each request"
)]
pub(super) enum Places {
    Bitmap(Bitmap),
    Index(Arc<LineIndex>),
}

impl Places {
    /// The bitmap, if there is one.
    pub(super) fn bitmap(&self) -> Option<&Bitmap> {
        match self {
            Places::Bitmap(bitmap) => Some(bitmap),
            Places::Index(_) => None,
        }
    }

    pub(super) fn parts(&self, cpu: &Cpu) -> u64 {
        match self {
            Places::Bitmap(bitmap) => bitmap.parts(),
            Places::Index(index) => index.parts(cpu),
        }
    }

    #[inline]
    pub(super) fn totals(&self) -> Totals {
        match self {
            Places::Bitmap(bitmap) => bitmap.totals(),
            Places::Index(index) => index.totals(),
        }
    }

    #[inline]
    pub(super) fn access(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        match self {
            Places::Bitmap(bitmap) => bitmap.access(cpu, first, count, out),
            // It is told of what was used apart from this.
            Places::Index(index) => index.look(cpu, first, count, out),
        }
    }

    #[inline]
    pub(super) fn look(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        match self {
            Places::Bitmap(bitmap) => bitmap.look(cpu, first, count, out),
            Places::Index(index) => index.look(cpu, first, count, out),
        }
    }

    pub(super) fn look_for(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        wanted: impl Fn(Word) -> bool,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        match self {
            Places::Bitmap(bitmap) => bitmap.look_for(cpu, first, count, wanted, out),
            Places::Index(index) => index.look_for(cpu, first, count, wanted, out),
        }
    }

    #[inline]
    pub(super) fn change(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        change: impl Fn(Word) -> Word,
    ) -> Result<(), Unknown> {
        match self {
            Places::Bitmap(bitmap) => bitmap.change(cpu, first, count, change),
            Places::Index(index) => index.change(cpu, first, count, change),
        }
    }

    pub(super) fn learn(&self, cpu: &Cpu, part: u64, runs: &[Run]) -> bool {
        match self {
            Places::Bitmap(bitmap) => bitmap.learn(cpu, part, runs),
            Places::Index(index) => index.learn(cpu, part, runs),
        }
    }

    pub(super) fn end_learning(&self, cpu: &Cpu) {
        match self {
            Places::Bitmap(bitmap) => bitmap.end_learning(cpu),
            Places::Index(index) => index.end_learning(cpu),
        }
    }

    pub(super) fn find_unknown(&self, cpu: &Cpu, from: u64) -> Option<u64> {
        match self {
            Places::Bitmap(bitmap) => bitmap.find_unknown(cpu, from),
            Places::Index(index) => index.find_unknown(cpu, from),
        }
    }

    pub(super) fn memory_bytes(&self, cpu: &Cpu) -> usize {
        match self {
            Places::Bitmap(bitmap) => bitmap.memory_bytes(cpu),
            Places::Index(index) => index.memory_bytes(cpu),
        }
    }

    /// As many dirty sectors as `budget` says, from where the last look for them ended; and where this one did, 0 after
    /// the last of them. (A part of the bitmap, an entry of an index.)
    pub(super) fn dirty(&self, cpu: &Cpu, from: u64, budget: u64) -> (Vec<Victim>, u64) {
        let bitmap = match self {
            Places::Bitmap(bitmap) => bitmap,
            Places::Index(index) => return index.dirty(cpu, from, budget),
        };
        let (mut victims, mut found, mut part) = (Vec::new(), 0, from);
        while found < budget {
            let next = bitmap.find_part(cpu, part, |counts| counts.dirty > 0);
            let Some(at) = next else {
                return (victims, 0);
            };
            bitmap.visit(cpu, at, &mut Vec::new(), |runs| {
                for run in runs.iter().filter(|run| run.word.is_dirty()) {
                    found += u64::from(run.count);
                    victims.push(Victim {
                        first: at * u64::from(SECTORS) + u64::from(run.first),
                        count: run.count.into(),
                    });
                }
                false
            });
            part = at + 1;
        }
        (victims, part)
    }
}
