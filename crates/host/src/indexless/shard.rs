//! A shard of the bitmap: its groups of parts, which of them are raw, and touches that wait.

use std::ops::Range;
use std::sync::Arc;

use wharf_runtime::Op;

use super::part::{Counts, Form, Pages, Part, Run, SECTORS};
use super::raws::Raws;
use super::stretch::{self, Stretch, Unknown};
use super::word::Word;

/// Parts of a group.
pub(super) const GROUP_PARTS: u64 = 16;

/// Touches that a shard notes before it puts them in.
const TOUCHES_MAX: usize = 64;

/// Bytes of a raw part.
const RAW_BYTES: usize = SECTORS as usize / 2;

/// The same with what is beside them in memory.
const PAGE_BYTES: usize = RAW_BYTES + 24;

/// How many more sectors are cached, and dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Change {
    pub(super) cached: i32,
    pub(super) dirty: i32,
}

impl Change {
    fn between(old: Counts, new: Counts) -> Change {
        Change {
            cached: i32::from(new.cached) - i32::from(old.cached),
            dirty: i32::from(new.dirty) - i32::from(old.dirty),
        }
    }
}

/// A touch of sectors that a packed form could not take in.
#[derive(Clone, Copy)]
struct Touched {
    part: u64,
    first: u16,
    count: u16,
}

struct Group {
    parts: [Part; GROUP_PARTS as usize],
    /// Parts of which nothing is known, a bit each.
    unknown: u16,
}

/// What is behind one lock.
pub(super) struct Shard {
    /// Every group of this shard's turn.
    groups: Vec<Option<Box<Group>>>,
    /// Two to the power of this is the number of shards: the group of a part is found by that.
    shard_bits: u32,
    /// Whether a group that is not there is unknown.
    recovers: bool,
    /// Groups that are known although they are not there, a bit each; none where `recovers` is false.
    empty: Vec<u64>,
    /// Raw parts, for those who look at them without the lock; and pages for them.
    raws: Arc<Raws>,
    pages: Pages,
    /// Raw parts, and the hand that looks for one to pack.
    raw: Vec<u64>,
    hand: usize,
    raw_max: usize,
    touches: Vec<Touched>,
    /// Parts that were packed or unpacked.
    packs: u64,
    /// Bytes of packed parts.
    packed_bytes: usize,
}

/// Where a part is among those of its shard, of which there are two to the power of `shard_bits`.
#[inline]
pub(super) fn index_of(part: u64, shard_bits: u32) -> usize {
    (((part / GROUP_PARTS) >> shard_bits) * GROUP_PARTS + part % GROUP_PARTS) as usize
}

impl Shard {
    /// A shard of `groups` groups, one of two to the power of `shard_bits`.
    pub(super) fn new(groups: u64, shard_bits: u32, raw_bytes: usize, recovers: bool) -> Shard {
        let raw_max = (raw_bytes / RAW_BYTES).max(1);
        let raws = Arc::new(Raws::new(groups * GROUP_PARTS, raw_max));
        Shard {
            groups: (0..groups).map(|_| None).collect(),
            shard_bits,
            recovers,
            empty: match recovers {
                true => vec![0; groups.div_ceil(64) as usize],
                false => Vec::new(),
            },
            pages: raws.pages(),
            raws,
            raw: Vec::new(),
            hand: 0,
            raw_max,
            touches: Vec::new(),
            packs: 0,
            packed_bytes: 0,
        }
    }

    /// Its raw parts.
    pub(super) fn raws(&self) -> Arc<Raws> {
        self.raws.clone()
    }

    #[inline]
    fn place(&self, part: u64) -> (usize, usize) {
        let group = (part / GROUP_PARTS) >> self.shard_bits;
        (group as usize, (part % GROUP_PARTS) as usize)
    }

    #[inline]
    fn part(&self, part: u64) -> Option<&Part> {
        let (group, index) = self.place(part);
        Some(&self.groups[group].as_ref()?.parts[index])
    }

    #[inline]
    fn is_empty(&self, group: usize) -> bool {
        self.empty
            .get(group / 64)
            .is_some_and(|word| word >> (group % 64) & 1 == 1)
    }

    fn group_mut(&mut self, part: u64) -> &mut Group {
        let (group, _) = self.place(part);
        let is_known = !self.recovers || self.is_empty(group);
        let unknown = if is_known { 0 } else { u16::MAX };
        self.groups[group].get_or_insert_with(|| {
            Box::new(Group {
                parts: Default::default(),
                unknown,
            })
        })
    }

    /// How often parts were packed or unpacked.
    pub(super) fn packs(&self) -> u64 {
        self.packs
    }

    /// What a look at sectors of a part costs, and how many times that.
    #[inline]
    pub(super) fn cost_of_look(&self, part: u64, sectors: &Range<u32>) -> (Op, u32) {
        let count = sectors.end - sectors.start;
        match self.part(part).map(Part::form) {
            None | Some(Form::Empty) => (Op::BitmapLookup, 1),
            Some(Form::Raw) => (Op::BitmapLookup, count),
            Some(Form::Packed { searches }) => (Op::BitmapSearch, searches(count)),
        }
    }

    /// The counts of a part, if there is one.
    pub(super) fn counts(&self, part: u64) -> Option<Counts> {
        self.part(part).map(Part::counts)
    }

    /// Refuses a part of which nothing is known.
    #[inline]
    pub(super) fn known(&self, part: u64) -> Result<(), Unknown> {
        let (group, index) = self.place(part);
        let unknown = match &self.groups[group] {
            Some(group) => group.unknown >> index & 1 == 1,
            None => self.recovers && !self.is_empty(group),
        };
        if unknown { Err(Unknown(part)) } else { Ok(()) }
    }

    /// Adds the stretches of sectors of a part.
    #[inline]
    pub(super) fn look(
        &self,
        part: u64,
        sectors: Range<u32>,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.look_for(part, sectors, |_| true, out)
    }

    /// Adds the stretches of those sectors of a part whose words are `wanted`.
    #[inline]
    pub(super) fn look_for(
        &self,
        part: u64,
        sectors: Range<u32>,
        wanted: impl Fn(Word) -> bool,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.known(part)?;
        let begin = part * u64::from(SECTORS);
        let mut push = |sectors: Range<u32>, word: Word| {
            if !wanted(word) {
                return;
            }
            let (first, count) = (begin + u64::from(sectors.start), sectors.len() as u32);
            stretch::push(out, first, count, word.place());
        };
        match self.part(part) {
            Some(part) => part.each_in(sectors, push),
            None => push(sectors, Word::ABSENT),
        }
        Ok(())
    }

    /// Makes sectors of a part hotter, or notes that they are.
    #[inline]
    pub(super) fn warm(&mut self, part: u64, sectors: Range<u32>) {
        let (group, index) = self.place(part);
        let Some(group) = &mut self.groups[group] else {
            return;
        };
        self.raws.note_use(index_of(part, self.shard_bits));
        let count = sectors.end - sectors.start;
        let of_part = &mut group.parts[index];
        if of_part.change_in_place(sectors.start, count, Word::warmer) {
            return;
        }
        self.touches.push(Touched {
            part,
            first: sectors.start as u16,
            count: count as u16,
        });
        if self.touches.len() >= TOUCHES_MAX {
            self.put_in_touches();
        }
    }

    /// Changes sectors of a part, which is known.
    pub(super) fn change(
        &mut self,
        part: u64,
        sectors: Range<u32>,
        change: impl Fn(Word) -> Word,
    ) -> Change {
        if self.touches.iter().any(|touched| touched.part == part) {
            self.put_in_touches();
        }
        let (number, index) = self.place(part);
        self.group_mut(part);
        self.raws.note_use(index_of(part, self.shard_bits));
        let group = self.groups[number].as_mut().expect("it was made above");
        let of_part = &mut group.parts[index];
        let (old, was_raw, bytes) = (of_part.counts(), of_part.is_raw(), of_part.bytes());
        let count = sectors.end - sectors.start;
        of_part.change(sectors.start, count, &mut self.pages, change);
        let new = of_part.counts();
        if of_part.is_raw() && !was_raw {
            self.packs += 1;
            self.packed_bytes -= bytes;
            self.raw.push(part);
            self.pack_unused();
            let group = self.groups[number].as_mut().expect("it was made above");
            if let Some(page) = group.parts[index].settled_page(&mut self.pages) {
                self.raws.publish(index_of(part, self.shard_bits), page);
            }
        }
        Change::between(old, new)
    }

    /// Packs raw parts that were not used since the hand passed, until the budget is kept, or the
    /// hand has gone round twice.
    fn pack_unused(&mut self) {
        let (mut looks, mut room) = (2 * self.raw.len(), Vec::new());
        while self.raw.len() > self.raw_max && looks > 0 {
            looks -= 1;
            self.hand %= self.raw.len();
            let part = self.raw[self.hand];
            let (group, index) = self.place(part);
            let at = index_of(part, self.shard_bits);
            if self.raws.forget_use(at) {
                self.hand += 1;
                continue;
            }
            let group = self.groups[group].as_mut().expect("raw parts have a group");
            let of_part = &mut group.parts[index];
            of_part.pack(&mut room, &mut self.pages);
            if of_part.is_raw() {
                // Sectors of it are being written back.
                self.hand += 1;
                continue;
            }
            // Before somebody takes the page that was given back.
            self.raws.withdraw(at);
            self.packs += 1;
            self.packed_bytes += of_part.bytes();
            self.raw.swap_remove(self.hand);
        }
    }

    /// Looks at a part whole; see [`super::bitmap::Bitmap::visit`].
    pub(super) fn visit(
        &mut self,
        part: u64,
        runs: &mut Vec<Run>,
        visit: impl FnOnce(&mut Vec<Run>) -> bool,
    ) -> Change {
        let (group, index) = self.place(part);
        let is_there = |group: &Group| group.parts[index].counts().cached > 0;
        if !self.groups[group].as_deref().is_some_and(is_there) {
            return Change::default();
        }
        if self.touches.iter().any(|touched| touched.part == part) {
            self.put_in_touches();
        }
        let group = self.groups[group].as_mut().expect("looked at above");
        let of_part = &mut group.parts[index];
        let old = of_part.counts();
        runs.clear();
        of_part.runs(runs);
        if visit(runs) {
            merge(runs);
            let (was_raw, bytes) = (of_part.is_raw(), of_part.bytes());
            of_part.replace(runs, &mut self.pages);
            self.recount(part, was_raw, bytes);
        }
        let new = self.counts(part).expect("looked at above");
        Change::between(old, new)
    }

    /// Makes sectors of a part cooler, clean ones if `clean`, dirty ones if `dirty`, if it is raw: sectors and
    /// runs that were looked at.
    pub(super) fn cool(&mut self, part: u64, clean: bool, dirty: bool) -> Option<(u64, u32)> {
        if self.touches.iter().any(|touched| touched.part == part) {
            self.put_in_touches();
        }
        let (group, index) = self.place(part);
        let of_part = &mut self.groups[group].as_mut()?.parts[index];
        let sectors = u64::from(of_part.counts().cached);
        Some((sectors, of_part.cool(clean, dirty)?))
    }

    /// Notes the form that a part has now.
    fn recount(&mut self, part: u64, was_raw: bool, bytes: usize) {
        let (group, index) = self.place(part);
        let group = self.groups[group].as_ref().expect("it has changed");
        let of_part = &group.parts[index];
        self.packed_bytes -= if was_raw { 0 } else { bytes };
        let at = index_of(part, self.shard_bits);
        match (was_raw, of_part.page()) {
            (false, Some(page)) => {
                self.raws.publish(at, page);
                self.raw.push(part);
            }
            (true, None) => {
                self.raws.withdraw(at);
                self.raw.retain(|other| *other != part);
            }
            _ => {}
        }
        self.packed_bytes += match of_part.is_raw() {
            true => 0,
            false => of_part.bytes(),
        };
    }

    /// Notes what the drive holds of a part; see [`super::bitmap::Bitmap::learn`].
    pub(super) fn learn(&mut self, part: u64, runs: &[Run]) -> Option<Change> {
        self.known(part).err()?;
        let (number, index) = self.place(part);
        let group = self.group_mut(part);
        group.unknown &= !(1 << index);
        let is_empty = |part: &Part| part.counts().cached == 0 && part.bytes() == 0;
        if group.unknown == 0 && runs.is_empty() && group.parts.iter().all(is_empty) {
            let is_of = |touched: &Touched| touched.part / GROUP_PARTS == part / GROUP_PARTS;
            self.touches.retain(|touched| !is_of(touched));
            self.groups[number] = None;
            self.empty[number / 64] |= 1 << (number % 64);
            return Some(Change::default());
        }
        let learned = Part::of_runs(runs, &mut self.pages);
        let new = learned.counts();
        let group = self.groups[number].as_mut().expect("it was made above");
        group.parts[index] = learned;
        self.recount(part, false, 0);
        Some(Change::between(Counts::default(), new))
    }

    /// All groups are known.
    pub(super) fn end_learning(&mut self) {
        self.recovers = false;
        self.empty = Vec::new();
    }

    /// Makes hotter what was noted.
    fn put_in_touches(&mut self) {
        let (mut touches, mut room) = (std::mem::take(&mut self.touches), Vec::new());
        touches.sort_by_key(|touched| touched.part);
        for of_part in touches.chunk_by(|a, b| a.part == b.part) {
            let number = of_part[0].part;
            let (group, index) = self.place(number);
            let group = self.groups[group]
                .as_mut()
                .expect("touched parts have a group");
            let part = &mut group.parts[index];
            let (was_raw, bytes) = (part.is_raw(), part.bytes());
            if part.counts().cached == 0 {
                continue;
            }
            for touched in of_part {
                part.change(
                    u32::from(touched.first),
                    u32::from(touched.count),
                    &mut self.pages,
                    Word::warmer,
                );
            }
            if !was_raw {
                part.pack(&mut room, &mut self.pages);
                self.packs += 1;
            }
            self.recount(number, was_raw, bytes);
        }
        touches.clear();
        self.touches = touches;
    }

    /// Bytes that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let groups = self.groups.iter().flatten().count() * size_of::<Group>();
        let directory = self.groups.capacity() * size_of::<Option<Box<Group>>>();
        let lists =
            self.raw.capacity() * size_of::<u64>() + self.touches.capacity() * size_of::<Touched>();
        let directory = directory + self.empty.capacity() * size_of::<u64>();
        let pages = (self.raw.len() + self.pages.spare()) * PAGE_BYTES;
        groups + directory + lists + pages + self.raws.memory_bytes() + self.packed_bytes
    }
}

/// Makes one run of neighbours with one word, and drops those that are absent.
fn merge(runs: &mut Vec<Run>) {
    let mut kept = 0;
    for at in 0..runs.len() {
        let run = runs[at];
        if !run.word.is_cached() || run.count == 0 {
            continue;
        }
        if kept > 0 && runs[kept - 1].end() == run.first && runs[kept - 1].word == run.word {
            runs[kept - 1].count += run.count;
        } else {
            runs[kept] = run;
            kept += 1;
        }
    }
    runs.truncate(kept);
}
