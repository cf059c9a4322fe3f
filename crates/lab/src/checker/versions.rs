//! What the units of one object may hold, while operations on it overlap: versions and their intervals.

use std::collections::{BTreeMap, BTreeSet};

use super::size::Sizes;

/// Units whose stamps are together.
const CHUNK: u64 = 64;

/// Bits of a stamp that hold the number of the write; those above hold the unit's place within it, from 1.
pub(super) const WRITE_BITS: u32 = 44;

pub(super) const WRITE_MASK: u64 = (1 << WRITE_BITS) - 1;

/// When a version has ended that has not.
pub(super) const UNDER_WAY: u64 = u64::MAX;

/// Of a unit: what a write has left there, or leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    pub(super) stamp: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
}

/// Zeros, in units from `first` to before `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zeros {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) version: Version,
}

/// What is known of an object, behind its lock.
#[derive(Default)]
pub(super) struct State {
    /// Stamps of units with one version; 0 of those that are zeros.
    stable: BTreeMap<u64, Box<[u64; CHUNK as usize]>>,
    /// Units with several, or one that has not ended.
    pub(super) several: BTreeMap<u64, Vec<Version>>,
    pub(super) zeros: Vec<Zeros>,
    /// When operations that are under way began.
    under_way: BTreeSet<u64>,
    pub(super) sizes: Sizes,
    /// Appends under way: number and units.
    pub(super) appends: Vec<(u64, u64)>,
}

impl State {
    /// An object of so many bytes, all zeros.
    pub(super) fn new(bytes: u64) -> State {
        State {
            sizes: Sizes::new(bytes),
            ..State::default()
        }
    }

    pub(super) fn begin(&mut self, began: u64) {
        self.under_way.insert(began);
    }

    /// An operation is not under way any more; zeros that all have seen become those of their units.
    pub(super) fn end(&mut self, began: u64) {
        self.under_way.remove(&began);
        let oldest = self.oldest();
        while let Some(at) = self
            .zeros
            .iter()
            .position(|zeros| zeros.version.ended < oldest)
        {
            let zeros = self.zeros.swap_remove(at);
            self.spread(&zeros);
        }
    }

    /// When the oldest operation under way began.
    fn oldest(&self) -> u64 {
        self.under_way.first().map_or(UNDER_WAY, |began| *began)
    }

    /// Gives zeros to their units, when nobody can read what they have replaced for certain.
    fn spread(&mut self, zeros: &Zeros) {
        let range = zeros.first..zeros.end;
        let chunks = zeros.first / CHUNK..=zeros.end / CHUNK;
        for (chunk, stamps) in self.stable.range_mut(chunks) {
            for (unit, stamp) in (chunk * CHUNK..).zip(stamps.iter_mut()) {
                if range.contains(&unit) && !self.several.contains_key(&unit) {
                    *stamp = 0;
                }
            }
        }
        let units: Vec<u64> = self.several.range(range).map(|(unit, _)| *unit).collect();
        for unit in units {
            self.add(unit, zeros.version);
            self.settle(unit);
        }
        let end = zeros.end;
        if end == u64::MAX {
            self.stable
                .retain(|_, stamps| stamps.iter().any(|stamp| *stamp != 0));
        }
    }

    fn stable_stamp(&self, unit: u64) -> u64 {
        let stamps = self.stable.get(&(unit / CHUNK));
        stamps.map_or(0, |stamps| stamps[(unit % CHUNK) as usize])
    }

    pub(super) fn add(&mut self, unit: u64, version: Version) {
        let stable = Version {
            stamp: self.stable_stamp(unit),
            began: 0,
            ended: 0,
        };
        let versions = self.several.entry(unit).or_insert_with(|| vec![stable]);
        versions.push(version);
    }

    /// All versions of a unit: its own, and zeros that cover it.
    fn versions(&self, unit: u64) -> impl Iterator<Item = Version> + Clone + '_ {
        let own = self.several.get(&unit).map_or(&[][..], |versions| versions);
        let stable = own.is_empty().then(|| Version {
            stamp: self.stable_stamp(unit),
            began: 0,
            ended: 0,
        });
        let zeros = self
            .zeros
            .iter()
            .filter(move |zeros| (zeros.first..zeros.end).contains(&unit));
        let zeros = zeros.map(|zeros| zeros.version);
        stable.into_iter().chain(own.iter().copied()).chain(zeros)
    }

    /// Those that a read that began then may return.
    fn allowed(&self, unit: u64, began: u64) -> impl Iterator<Item = Version> + '_ {
        let all = self.versions(unit);
        let others = all.clone();
        all.filter(move |version| {
            let mut others = others.clone();
            !others.any(|other| other.began > version.ended && other.ended < began)
        })
    }

    pub(super) fn allows(&self, unit: u64, stamp: u64, began: u64) -> bool {
        self.allowed(unit, began)
            .any(|version| version.stamp == stamp)
            || self.is_of_append(stamp)
    }

    /// Whether a stamp is of an append whose place nobody knows yet.
    fn is_of_append(&self, found: u64) -> bool {
        let (number, place) = (found & WRITE_MASK, found >> WRITE_BITS);
        let mut appends = self.appends.iter();
        appends.any(|(write, units)| *write == number && (1..=*units).contains(&place))
    }

    pub(super) fn possible(&self, unit: u64, began: u64) -> Vec<u64> {
        self.allowed(unit, began)
            .map(|version| version.stamp)
            .collect()
    }

    /// Forgets versions of a unit that nobody can read any more.
    pub(super) fn settle(&mut self, unit: u64) {
        let oldest = self.oldest();
        let Some(versions) = self.several.get_mut(&unit) else {
            return;
        };
        let all = versions.clone();
        versions.retain(|version| {
            let mut others = all.iter();
            !others.any(|other| other.began > version.ended && other.ended < oldest)
        });
        // Zeros that are still to be spread may have come before it, or after.
        let has_zeros = self
            .zeros
            .iter()
            .any(|zeros| (zeros.first..zeros.end).contains(&unit));
        if let [only] = versions[..]
            && only.ended < oldest
            && !has_zeros
        {
            self.several.remove(&unit);
            let stamps = self
                .stable
                .entry(unit / CHUNK)
                .or_insert_with(|| Box::new([0; CHUNK as usize]));
            stamps[(unit % CHUNK) as usize] = only.stamp;
        }
    }
}

/// The stamp of a unit of a write.
pub(super) fn stamp(write: u64, place: u64) -> u64 {
    (place + 1) << WRITE_BITS | write
}
