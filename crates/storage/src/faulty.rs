//! Faults on purpose: a target around another, for tests of what lies above.
//!
//! * **Errors** of reads and writes, by chance from a seed; a member that dies (`ENODEV`).
//! * **Delays**: an I/O is done some polls after it was submitted, so that I/Os end in another order.
//! * **Power cuts**: a [`Power`] is shared by all members of an array, counts their writes and flushes, and goes off
//!   at the one that it is told. What was written since a member's last flush is lost or not, block by
//!   block, when the power comes back: so the last write is torn, and flushes matter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use wharf_runtime::{Rng, Seed};

use crate::blocking::Blocking;
use crate::error::StorageError;
use crate::io::{Completion, Io, Op};
use crate::target::{Channel, Ended, Full, Target, TargetInfo, admit, check_depth};
use crate::transfer::Transfer;

/// The supply of one or more targets.
pub struct Power(Mutex<Supply>);

struct Supply {
    on: bool,
    /// Writes and flushes since the power came.
    events: u64,
    /// At which of these it goes off.
    cut_at: Option<u64>,
}

impl Power {
    /// Power that stays.
    #[allow(clippy::new_without_default)] // "default power" says nothing
    pub fn new() -> Arc<Power> {
        Arc::new(Power(Mutex::new(Supply {
            on: true,
            events: 0,
            cut_at: None,
        })))
    }

    /// Lets the power go off during the `event`-th write or flush from now, from 0.
    pub fn cut_at(&self, event: u64) {
        let mut supply = lock(&self.0);
        supply.events = 0;
        supply.cut_at = Some(event);
    }

    /// Writes and flushes since [`Power::cut_at`] or [`Power::come_back`].
    pub fn events(&self) -> u64 {
        lock(&self.0).events
    }

    /// Whether it is there.
    pub fn is_on(&self) -> bool {
        lock(&self.0).on
    }

    /// Turns it off now.
    pub fn cut(&self) {
        lock(&self.0).on = false;
    }

    /// Turns it on again, to stay.
    pub fn come_back(&self) {
        *lock(&self.0) = Supply {
            on: true,
            events: 0,
            cut_at: None,
        };
    }

    /// Counts an event: whether there was power when it began, and when it ended.
    fn draw(&self) -> (bool, bool) {
        let mut supply = lock(&self.0);
        let before = supply.on;
        if before && supply.cut_at == Some(supply.events) {
            supply.on = false;
        }
        supply.events += 1;
        (before, supply.on)
    }
}

/// What becomes of a block that was not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Every one is as at the last flush.
    All,
    /// Every one is as written last.
    Nothing,
    /// Each is any that it was since.
    Some,
}

/// How often faults come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Reads that fail with `EIO`, of a million.
    pub read_errors_ppm: u32,
    /// Writes that fail with `EIO`, of a million; what they wrote is torn.
    pub write_errors_ppm: u32,
    /// The most polls between submission and execution.
    pub delay_polls_max: u32,
}

/// A target with faults.
pub struct Faulty {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<dyn Target>,
    info: TargetInfo,
    power: Arc<Power>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    rates: Rates,
    dead: bool,
    /// What blocks were since the last flush, oldest first, by number.
    unflushed: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Faulty {
    /// A target around `inner` that fails only when told.
    pub fn new(inner: Arc<dyn Target>, power: Arc<Power>, seed: Seed) -> Faulty {
        let info = TargetInfo {
            needs_flush: true,
            ..inner.info().clone()
        };
        let state = Mutex::new(State {
            rng: seed.child("faults").rng(),
            rates: Rates::default(),
            dead: false,
            unflushed: BTreeMap::new(),
        });
        let shared = Arc::new(Shared {
            inner,
            info,
            power,
            state,
        });
        Faulty { shared }
    }

    /// Says how often faults come from now on.
    pub fn set_rates(&self, rates: Rates) {
        lock(&self.shared.state).rates = rates;
    }

    /// Every I/O fails from now on.
    pub fn die(&self) {
        lock(&self.shared.state).dead = true;
    }

    /// I/Os are done again; what the target holds is as it was when it died.
    pub fn live(&self) {
        lock(&self.shared.state).dead = false;
    }

    /// After a power cut: decides what the target holds of what was not flushed.
    pub fn settle(&self, loss: Loss) -> Result<(), StorageError> {
        let mut state = lock(&self.shared.state);
        let state = &mut *state;
        let mut way = Blocking::new(&*self.shared.inner)?;
        let block = u64::from(self.shared.info.block_bytes);
        for (number, versions) in std::mem::take(&mut state.unflushed) {
            let chosen = match loss {
                Loss::All => 0,
                Loss::Nothing => versions.len(),
                Loss::Some => state.rng.below(versions.len() as u64 + 1) as usize,
            };
            if let Some(old) = versions.get(chosen) {
                way.write(number * block, old)
                    .map_err(|error| StorageError::Io {
                        name: self.shared.info.name.clone(),
                        error,
                    })?;
            }
        }
        Ok(())
    }
}

impl Target for Faulty {
    fn info(&self) -> &TargetInfo {
        &self.shared.info
    }

    fn size_bytes(&self) -> u64 {
        self.shared.inner.size_bytes()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        Ok(Box::new(FaultyChannel {
            shared: self.shared.clone(),
            way: Blocking::new(&*self.shared.inner)?,
            depth: depth as usize,
            waiting: Vec::new(),
            ended: Ended::default(),
        }))
    }
}

struct FaultyChannel {
    shared: Arc<Shared>,
    way: Blocking,
    depth: usize,
    /// I/Os, each with the polls until it is done.
    waiting: Vec<(u32, Transfer)>,
    ended: Ended,
}

impl FaultyChannel {
    /// Does an I/O, or does not.
    fn run(&mut self, transfer: &mut Transfer) -> Result<(), Errno> {
        let shared = self.shared.clone();
        let mut state = lock(&shared.state);
        if state.dead {
            return Err(Errno::NODEV);
        }
        match transfer.op {
            Op::Read => {
                let ppm = u64::from(state.rates.read_errors_ppm);
                if !shared.power.is_on() || state.rng.chance(ppm, 1_000_000) {
                    return Err(Errno::IO);
                }
                self.read(transfer)
            }
            Op::Write => {
                let (before, after) = shared.power.draw();
                if !before {
                    return Err(Errno::IO);
                }
                let ppm = u64::from(state.rates.write_errors_ppm);
                let fails = state.rng.chance(ppm, 1_000_000);
                self.write(transfer, &mut state, fails)?;
                if after && !fails {
                    Ok(())
                } else {
                    Err(Errno::IO)
                }
            }
            Op::Flush => {
                let (before, after) = shared.power.draw();
                if !before || !after {
                    return Err(Errno::IO);
                }
                state.unflushed.clear();
                self.way.flush().map_err(|e| e.errno)
            }
        }
    }

    fn read(&mut self, transfer: &mut Transfer) -> Result<(), Errno> {
        let mut bytes = vec![0; transfer.remaining_bytes as usize];
        let start = transfer.offset;
        self.way.read(start, &mut bytes).map_err(|e| e.errno)?;
        transfer.drain(|offset, segment| {
            let from = &bytes[(offset - start) as usize..][..segment.len_bytes];
            // SAFETY: `submit`'s caller promises that the memory is valid and nobody else's.
            unsafe {
                segment
                    .pointer
                    .copy_from_nonoverlapping(from.as_ptr(), from.len())
            };
        });
        Ok(())
    }

    /// Keeps what is overwritten, then writes; all of it, or, if it `fails`, some blocks.
    fn write(
        &mut self,
        transfer: &mut Transfer,
        state: &mut State,
        fails: bool,
    ) -> Result<(), Errno> {
        let block = self.shared.info.block_bytes as usize;
        let start = transfer.offset;
        let mut new = Vec::with_capacity(transfer.remaining_bytes as usize);
        transfer.drain(|_, segment| {
            // SAFETY: `submit`'s caller promises that the memory is valid and not changed.
            new.extend_from_slice(unsafe {
                std::slice::from_raw_parts(segment.pointer, segment.len_bytes)
            });
        });
        let mut old = vec![0; new.len()];
        self.way.read(start, &mut old).map_err(|e| e.errno)?;
        for (index, before) in old.chunks(block).enumerate() {
            let number = start / block as u64 + index as u64;
            let versions = state.unflushed.entry(number).or_default();
            versions.push(before.to_vec());
            if fails && state.rng.chance(1, 2) {
                new[index * block..][..block].copy_from_slice(before);
            }
        }
        self.way.write(start, &new).map_err(|e| e.errno)
    }

    fn end(&mut self, mut transfer: Transfer) {
        let result = self.run(&mut transfer).map_err(|e| transfer.error(e));
        self.ended.push(transfer.tag, result);
    }
}

impl Channel for FaultyChannel {
    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.ended.len()
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        if self.in_flight() == self.depth {
            return Err(Full);
        }
        if let Err(error) = admit(&self.shared.info, self.shared.inner.size_bytes(), &io) {
            self.ended.push(io.tag, Err(error));
            return Ok(());
        }
        let mut transfer = Transfer::idle();
        transfer.begin(&io);
        let delay = {
            let mut state = lock(&self.shared.state);
            let most = u64::from(state.rates.delay_polls_max);
            state.rng.below(most + 1) as u32
        };
        self.waiting.push((delay, transfer));
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        for (delay, transfer) in std::mem::take(&mut self.waiting) {
            match delay {
                0 => self.end(transfer),
                _ => self.waiting.push((delay - 1, transfer)),
            }
        }
        self.ended.report(done)
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        let min = min.min(self.in_flight());
        let mut count = self.poll(done);
        while count < min {
            count += self.poll(done);
        }
        count
    }
}

impl Drop for FaultyChannel {
    fn drop(&mut self) {
        self.wait(self.in_flight(), &mut |_| {});
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
