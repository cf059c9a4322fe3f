//! Every read of a file is checked against the writes to it: by object and unit, with a size for each object.
//!
//! An *object* is one file, from its making to its end, whatever names it has. Its unit is that of the block checker: a page with
//! stamp media, else a sector. A write has a number of its own among all writes to all files, and puts it, with the place of
//! the unit within the write, into each unit. So bytes of another file, of an older write, of another place are told apart, also
//! where a write does not know its place before it has ended: an append.
//!
//! * A *version* of a unit has an interval, from the begin of its write to its end. A read may return a version that had begun when the
//!   read ended, unless another one began after its end, and ended before the read began.
//! * A cut, or a hole, is a version that is zeros, of all units from here on, or up to there.
//! * The *size* lies between two bounds, which are equal unless writes that change it overlap. A read, and a look at the attributes,
//!   tells a size within them; it makes them equal if nothing that changes the size was under way.
//! * Appends that overlap in time may come in any order, but not at one place.
//!
//! What nobody can read any more is forgotten, so an object takes memory for its units, and little for what is under way.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use super::size::SizeChange;
use super::versions::{State, UNDER_WAY, Version, WRITE_BITS, WRITE_MASK, Zeros, stamp};
use super::{SECTOR_BYTES, WrongRead};

/// Writes of which it is remembered whose they are, for messages.
const RECENT: u64 = 1 << 14;

/// The checker's book of all files.
pub struct Objects {
    unit_bytes: u64,
    stamp_only: bool,
    /// Begins and ends, in order.
    clock: AtomicU64,
    writes: AtomicU64,
    /// Whose the latest writes are.
    recent: Mutex<Vec<(u64, Arc<str>)>>,
}

/// One file.
pub struct Object {
    name: Arc<str>,
    state: Mutex<State>,
}

/// An operation under way that changes bytes.
#[derive(Debug, Default)]
pub struct Change {
    began: u64,
    write: u64,
    /// First unit, and the one behind the last.
    units: (u64, u64),
    /// The least size when it began.
    least: u64,
}

/// A read, or a look at the size, under way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    began: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Objects {
    /// No files.
    pub fn new(stamp_only: bool) -> Objects {
        Objects {
            unit_bytes: if stamp_only {
                4096
            } else {
                SECTOR_BYTES as u64
            },
            stamp_only,
            clock: AtomicU64::new(1),
            writes: AtomicU64::new(1),
            recent: Mutex::default(),
        }
    }

    /// What offsets, lengths and sizes must be multiples of.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// A file of `bytes` bytes of zeros.
    pub fn object(&self, name: &str, bytes: u64) -> Arc<Object> {
        Arc::new(Object {
            name: name.into(),
            state: Mutex::new(State::new(bytes)),
        })
    }

    /// Bytes of the payload of a request for so many bytes.
    pub fn payload_bytes(&self, bytes: u64) -> usize {
        match self.stamp_only {
            true => (bytes / self.unit_bytes * 8) as usize,
            false => bytes as usize,
        }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }

    fn units(&self, offset: u64, bytes: u64) -> (u64, u64) {
        let end = offset.saturating_add(bytes);
        (offset / self.unit_bytes, end.div_ceil(self.unit_bytes))
    }

    /// Numbers a write, and fills its payload.
    fn stamp(&self, object: &Object, data: &mut [u8]) -> u64 {
        let write = self.writes.fetch_add(1, Relaxed);
        assert!(write < 1 << WRITE_BITS, "fewer than 2^44 writes");
        let step = if self.stamp_only { 8 } else { SECTOR_BYTES };
        for (place, part) in (0..).zip(data.chunks_exact_mut(step)) {
            let stamp = stamp(write, place).to_le_bytes();
            part.as_chunks_mut::<8>().0.fill(stamp);
        }
        let recent = &mut *lock(&self.recent);
        let entry = (write, object.name.clone());
        match recent.get_mut((write % RECENT) as usize) {
            Some(old) => *old = entry,
            None => recent.push(entry),
        }
        write
    }

    /// A write begins: fills `data`.
    pub fn begin_write(&self, object: &Object, offset: u64, bytes: u64, data: &mut [u8]) -> Change {
        let write = self.stamp(object, data);
        let (state, began) = (&mut *lock(&object.state), self.now());
        let units = self.units(offset, bytes);
        state.begin(began);
        state.sizes.begin(SizeChange::Extend(offset + bytes));
        for (place, unit) in (0..).zip(units.0..units.1) {
            state.add(
                unit,
                Version {
                    stamp: stamp(write, place),
                    began,
                    ended: UNDER_WAY,
                },
            );
        }
        Change {
            began,
            write,
            units,
            least: 0,
        }
    }

    /// It has ended.
    pub fn end_write(&self, object: &Object, change: &Change, offset: u64, bytes: u64) {
        let (state, now) = (&mut *lock(&object.state), self.now());
        let written = SizeChange::Extend(offset + bytes);
        state.sizes.end(written);
        for (place, unit) in (0..).zip(change.units.0..change.units.1) {
            let stamp = stamp(change.write, place);
            let versions = state.several.get_mut(&unit).expect("it was added");
            let own = versions.iter_mut().find(|version| version.stamp == stamp);
            own.expect("it was added").ended = now;
        }
        state.end(change.began);
        for unit in change.units.0..change.units.1 {
            state.settle(unit);
        }
    }

    /// An append begins: fills `data`.
    pub fn begin_append(&self, object: &Object, bytes: u64, data: &mut [u8]) -> Change {
        let write = self.stamp(object, data);
        let (state, began) = (&mut *lock(&object.state), self.now());
        state.begin(began);
        let least = state.sizes.begin(SizeChange::Append(bytes));
        let units = bytes / self.unit_bytes;
        state.appends.push((write, units));
        Change {
            began,
            write,
            units: (0, units),
            least,
        }
    }

    /// It has ended, with its first byte at `offset`.
    ///
    /// # Errors
    /// If that is not where the file ended, or where another append is.
    pub fn end_append(
        &self,
        object: &Object,
        change: &Change,
        offset: u64,
        bytes: u64,
    ) -> Result<(), WrongRead> {
        let (state, now) = (&mut *lock(&object.state), self.now());
        let interval = (change.began, now);
        let placed = state
            .sizes
            .end_append(interval, change.least, offset, bytes);
        state.appends.retain(|(write, _)| *write != change.write);
        let first = offset / self.unit_bytes;
        for place in 0..change.units.1 {
            state.add(
                first + place,
                Version {
                    stamp: stamp(change.write, place),
                    began: change.began,
                    ended: now,
                },
            );
        }
        state.end(change.began);
        for place in 0..change.units.1 {
            state.settle(first + place);
        }
        placed.map_err(|(expected, found)| object.wrong("its end", expected, found))
    }

    /// The size is going to be set.
    pub fn begin_cut(&self, object: &Object, bytes: u64) -> Change {
        let first = bytes.div_ceil(self.unit_bytes);
        self.begin_zeros(object, (first, u64::MAX), Some(bytes))
    }

    /// A hole is going to be made: of the units that it covers.
    pub fn begin_hole(&self, object: &Object, offset: u64, bytes: u64) -> Change {
        self.begin_zeros(object, self.units(offset, bytes), None)
    }

    fn begin_zeros(&self, object: &Object, units: (u64, u64), size: Option<u64>) -> Change {
        let (state, began) = (&mut *lock(&object.state), self.now());
        state.begin(began);
        if let Some(bytes) = size {
            state.sizes.begin(SizeChange::Cut(bytes));
        }
        let version = Version {
            stamp: 0,
            began,
            ended: UNDER_WAY,
        };
        state.zeros.push(Zeros {
            first: units.0,
            end: units.1,
            version,
        });
        Change {
            began,
            write: 0,
            units,
            least: 0,
        }
    }

    /// A cut to `size`, or a hole, has ended.
    pub fn end_zeros(&self, object: &Object, change: &Change, size: Option<u64>) {
        let (state, now) = (&mut *lock(&object.state), self.now());
        if let Some(bytes) = size {
            state.sizes.end(SizeChange::Cut(bytes));
        }
        let own = state
            .zeros
            .iter_mut()
            .find(|zeros| zeros.version.began == change.began);
        own.expect("it was added").version.ended = now;
        state.end(change.began);
    }

    /// A read, or a look at the size, begins.
    pub fn begin_look(&self, object: &Object) -> Look {
        let (state, began) = (&mut *lock(&object.state), self.now());
        state.begin(began);
        state.sizes.begin_look(began);
        Look { began }
    }

    /// A look has failed: it tells nothing.
    pub fn drop_look(&self, object: &Object, look: Look) {
        let state = &mut *lock(&object.state);
        let _ = state.sizes.end_look(look.began, |_, _| (true, None));
        state.end(look.began);
    }

    /// A look at the size has told it.
    ///
    /// # Errors
    /// If the file had no such size.
    pub fn end_look(&self, object: &Object, look: Look, bytes: u64) -> Result<(), WrongRead> {
        let state = &mut *lock(&object.state);
        let told = state.sizes.end_look(look.began, |least, most| {
            ((least..=most).contains(&bytes), Some(bytes))
        });
        state.end(look.began);
        told.map_err(|bounds| object.wrong("the size", bounds, format!("{bytes} bytes")))
    }

    /// A read of `asked` bytes from `offset` has returned `bytes` of them, in `data`.
    ///
    /// # Errors
    /// If the file had not so many there, or other ones.
    pub fn end_read(
        &self,
        object: &Object,
        look: Look,
        (offset, asked): (u64, u64),
        bytes: u64,
        data: &[u8],
    ) -> Result<(), WrongRead> {
        let state = &mut *lock(&object.state);
        let there = |size: u64| size.saturating_sub(offset).min(asked);
        let told = state.sizes.end_look(look.began, |least, most| {
            let is_right = (there(least)..=there(most)).contains(&bytes);
            // A read that ends early tells the size; one that has nothing, only that there is no more.
            let size = (0 < bytes && bytes < asked).then_some(offset + bytes);
            (is_right, size)
        });
        let told = told.map_err(|bounds| {
            let found = format!("{bytes} bytes of {asked} from byte {offset} on");
            object.wrong("the size", bounds, found)
        });
        let step = if self.stamp_only { 8 } else { SECTOR_BYTES };
        let (first, end) = self.units(offset, bytes);
        let checked = (first..end)
            .zip(data.chunks_exact(step))
            .try_for_each(|(unit, part)| self.check(object, state, unit, part, look.began));
        state.end(look.began);
        told.and(checked)
    }

    /// Whether pages hold stamps alone.
    pub fn are_stamps(&self) -> bool {
        self.stamp_only
    }

    /// Of `asked` bytes from `offset` on, something with a name was computed of `bytes` that there are, as `right` computes it.
    ///
    /// # Errors
    /// If the file had not so many there, or it is not that of what was there, where only one content was possible.
    pub fn end_computed(
        &self,
        object: &Object,
        look: Look,
        (offset, asked): (u64, u64),
        (name, (bytes, found)): (&str, (u64, String)),
        right: impl FnOnce(&[u8]) -> String,
    ) -> Result<(), WrongRead> {
        let contents = {
            let state = lock(&object.state);
            let (first, end) = self.units(offset, bytes);
            let units = (first..end).map(|unit| state.possible(unit, look.began));
            units.collect::<Vec<Vec<u64>>>()
        };
        let words = if self.stamp_only { 1 } else { SECTOR_BYTES / 8 };
        let mut data = Vec::new();
        for possible in &contents {
            for _ in 0..words {
                data.extend_from_slice(&possible[0].to_le_bytes());
            }
        }
        let is_known = contents.iter().all(|possible| possible.len() == 1);
        data.truncate(self.payload_bytes(bytes));
        // The size is that which a read of as many tells.
        self.end_read(object, look, (offset, asked), bytes, &[])?;
        let right = right(&data);
        match is_known && right != found {
            true => {
                let place = format!("{name} of {bytes} bytes from byte {offset} on");
                Err(object.wrong(&place, right, found))
            }
            false => Ok(()),
        }
    }

    fn check(
        &self,
        object: &Object,
        state: &State,
        unit: u64,
        part: &[u8],
        began: u64,
    ) -> Result<(), WrongRead> {
        let words = part.as_chunks::<8>().0;
        let found = u64::from_le_bytes(words[0]);
        let torn = words.iter().find(|word| **word != words[0]);
        if torn.is_none() && state.allows(unit, found, began) {
            return Ok(());
        }
        let what = match torn {
            Some(other) => {
                let other = u64::from_le_bytes(*other);
                format!(
                    "a mixture of {} and {}",
                    self.describe(found),
                    self.describe(other)
                )
            }
            None => self.describe(found),
        };
        let possible = state.possible(unit, began);
        let possible: Vec<String> = possible.iter().map(|stamp| self.describe(*stamp)).collect();
        let unit_name = if self.stamp_only { "page" } else { "sector" };
        let place = format!("{unit_name} {unit}");
        Err(object.wrong(&place, possible.join(" or "), what))
    }

    fn describe(&self, stamp: u64) -> String {
        let (write, place) = (stamp & WRITE_MASK, stamp >> WRITE_BITS);
        if stamp == 0 {
            return "zeros".into();
        }
        if place == 0 || write >= self.writes.load(Relaxed) {
            return format!("bytes that no write left ({stamp:#x})");
        }
        let recent = lock(&self.recent);
        let whose = recent.iter().find(|(number, _)| *number == write);
        let unit = place - 1;
        match whose {
            Some((_, name)) => format!("unit {unit} of write {write}, to {name}"),
            None => format!("unit {unit} of write {write}"),
        }
    }
}

impl Object {
    /// Its name, as it was when it was first seen.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn wrong(&self, place: &str, expected: String, found: String) -> WrongRead {
        WrongRead {
            place: format!("{place} of {}", self.name),
            expected,
            found,
        }
    }
}
