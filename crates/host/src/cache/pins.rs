//! The frames that a request holds, and the commands that set them free.
//!
//! A request takes hold of frames page by page, in order, and *settles* them together:
//!
//! 1. the dirty pages that leave frames are written to the drive, neighbours as one command;
//! 2. missing pages are read, neighbours as one command, and the payload is copied;
//! 3. with write-through, what was written goes to the drive.
//!
//! Each run of neighbours has a group of its own, so that an error concerns its pages alone. A page
//! that cannot be written stays in the cache, dirty, and the request tries to get another frame: a
//! read should not fail because of a page that is none of its own. A page that cannot be read is
//! taken out of the cache again.
//!
//! After a timeout the drive may still use a frame: it is left to the client's late, and *stuck*
//! until the drive answers: requests for its pages fail instead of waiting. [`Pins`] does the same
//! for whatever it still holds when it is dropped.

use std::ops::{Deref, DerefMut};

use crate::cache::copied::Copied;
use crate::cache::local::Local;
use crate::cache::pin::{Action, Part, Pin, Scratch};
use crate::error::IoError;
use crate::span::Span;
use crate::volume::Transfer;

/// How often a request tries to get other frames when dirty pages cannot be written.
const ATTEMPTS_MAX: u32 = 4;

/// The frames that a request holds. See the module.
pub struct Pins<'a> {
    local: &'a Local,
    scratch: Kept,
    attempts: u32,
}

/// Lists of a request, until it gives them back: a pointer, as they are many.
struct Kept(Option<Box<Scratch>>);

impl Deref for Kept {
    type Target = Scratch;

    #[inline]
    fn deref(&self) -> &Scratch {
        self.0.as_ref().expect("a request has its lists to its end")
    }
}

impl DerefMut for Kept {
    #[inline]
    fn deref_mut(&mut self) -> &mut Scratch {
        self.0.as_mut().expect("a request has its lists to its end")
    }
}

impl<'a> Pins<'a> {
    /// No frames yet, for a request of `local`.
    pub fn new(local: &'a Local) -> Pins<'a> {
        Pins {
            local,
            scratch: Kept(Some(local.spare.borrow_mut().pop().unwrap_or_default())),
            attempts: 0,
        }
    }

    /// Takes hold of a frame.
    #[inline]
    pub fn push(&mut self, pin: Pin) {
        self.scratch.pins.push(pin);
    }

    /// The frames held.
    #[inline]
    pub fn as_slice(&self) -> &[Pin] {
        &self.scratch.pins
    }

    /// Spans to be done again.
    #[inline]
    pub fn redo(&mut self) -> &mut Vec<Span> {
        &mut self.scratch.redo
    }

    /// Does everything that the frames are held for, and gives them back. Spans that must be done
    /// again are in [`Pins::redo`] then.
    ///
    /// # Errors
    /// The first error of a command. All frames are given back or kept until the drive has ended
    /// them also then.
    pub async fn settle<P: Copied>(&mut self, payload: &mut P) -> Result<(), IoError> {
        let mut outcome = Ok(());
        if self.any(|p| p.leaving.is_some()) {
            let written = self.transfer(Transfer::Write, |p| p.leaving).await;
            self.have_left();
            outcome = outcome.and(self.try_again(written));
        }
        if self.any(|p| p.action == Action::Fill) {
            let wanted = |p: &Pin| (p.action == Action::Fill).then_some(p.span.page);
            outcome = outcome.and(self.transfer(Transfer::Read, wanted).await);
            self.give_up_failed();
        }
        self.copy(payload);
        if self.any(Pin::writes_own_page) {
            let changed = |p: &Pin| p.writes_own_page().then_some(p.span.page);
            outcome = outcome.and(self.transfer(Transfer::Write, changed).await);
            self.have_written();
        }
        self.scratch.pins.clear();
        outcome
    }

    fn any(&self, f: impl Fn(&Pin) -> bool) -> bool {
        self.scratch.pins.iter().any(f)
    }

    /// Moves the pages that `page_of` gives, and waits. Pins of runs that failed are taken out:
    /// into `failed`, or to the late.
    async fn transfer(
        &mut self,
        kind: Transfer,
        page_of: impl Fn(&Pin) -> Option<u64>,
    ) -> Result<(), IoError> {
        self.plan(page_of);
        let Scratch {
            pins,
            parts,
            addresses,
            runs,
            ..
        } = &mut *self.scratch;
        let local = self.local;
        let mut start = 0;
        for run in parts.chunk_by(|a, b| a.page + 1 == b.page) {
            let range = start..start + run.len();
            start = range.end;
            runs.push((local.volume.open_group(), range.clone()));
            let group = &runs.last().expect("a run").0;
            let (first, addresses) = (run[0].page, &addresses[range]);
            let is_issued = match addresses {
                [one] => local.volume.issue_now(group, kind, first, *one),
                _ => false,
            };
            if !is_issued {
                local.volume.issue(group, kind, first, addresses).await;
            }
        }
        local.volume.ring();
        let mut outcome = Ok(());
        for (group, range) in runs {
            if let Err(error) = group.wait(&local.cpu).await {
                // A timeout outranks a status: its pages cannot be tried again.
                if outcome.is_ok() || error.is_timeout() {
                    outcome = Err(error);
                }
                for part in &parts[range.clone()] {
                    pins[part.pin as usize].failed = true;
                }
            }
        }
        if outcome.is_err() {
            self.part_with_failed();
        }
        self.scratch.runs.clear();
        outcome
    }

    fn plan(&mut self, page_of: impl Fn(&Pin) -> Option<u64>) {
        let Scratch {
            pins,
            parts,
            addresses,
            ..
        } = &mut *self.scratch;
        parts.clear();
        addresses.clear();
        if let [pin] = &pins[..] {
            // As most often.
            if let Some(page) = page_of(pin) {
                parts.push(Part { page, pin: 0 });
                addresses.push(self.local.cache.address(pin.shard, pin.frame));
            }
            return;
        }
        let pages = pins.iter().enumerate();
        parts.extend(pages.filter_map(|(i, p)| {
            Some(Part {
                page: page_of(p)?,
                pin: i as u32,
            })
        }));
        parts.sort_unstable();
        addresses.extend(parts.iter().map(|part| {
            let pin = &pins[part.pin as usize];
            self.local.cache.address(pin.shard, pin.frame)
        }));
    }

    /// Takes the failed pins out: those that the drive may still use go to the late.
    #[cold]
    fn part_with_failed(&mut self) {
        let local = self.local;
        let Scratch {
            pins,
            parts,
            runs,
            failed,
            ..
        } = &mut *self.scratch;
        for (group, range) in runs.drain(..).filter(|(group, _)| !group.is_quiet()) {
            let late = parts[range].iter().map(|part| pins[part.pin as usize]);
            let late: Vec<Pin> = late.collect();
            for pin in &late {
                local.with_woken(pin.shard, |s, woken| s.set_stuck(pin.frame, woken));
                local.cache.note_failures(u64::from(pin.writes_back()));
            }
            let is_late = |p: &Pin| {
                late.iter()
                    .any(|l| (l.shard, l.frame) == (p.shard, p.frame))
            };
            // A mark, since the other parts still count on the pins' places.
            pins.iter_mut()
                .filter(|p| is_late(p))
                .for_each(|p| p.shard = u32::MAX);
            local.late.adopt(&local.cpu, group, late);
        }
        pins.retain(|pin| {
            if pin.failed && pin.shard != u32::MAX {
                local.cache.note_failures(u64::from(pin.writes_back()));
                failed.push(*pin);
            }
            !pin.failed && pin.shard != u32::MAX
        });
    }

    fn give_up_failed(&mut self) {
        self.local.give_up(&self.scratch.failed);
        self.scratch.failed.clear();
    }

    /// Gives up the frames whose dirty page could not be written, to try for others. The error
    /// counts if there is no hope in that.
    fn try_again(&mut self, written: Result<(), IoError>) -> Result<(), IoError> {
        if written.is_ok() {
            return written;
        }
        self.attempts += 1;
        let hopeless = written.is_err_and(|e| e.is_timeout()) || self.attempts >= ATTEMPTS_MAX;
        if !hopeless {
            let Scratch { failed, redo, .. } = &mut *self.scratch;
            redo.extend(failed.iter().rev().map(|p| p.span));
        }
        self.give_up_failed();
        if hopeless { written } else { Ok(()) }
    }

    /// The pages that leave are on the drive.
    fn have_left(&mut self) {
        let local = self.local;
        let mut left = 0;
        for pin in &mut self.scratch.pins {
            if let Some(page) = pin.leaving.take() {
                left += 1;
                local.with_woken(pin.shard, |shard, woken| shard.has_left(page, woken));
            }
        }
        local.counters.write_backs.add(left);
    }

    /// The data that was to be read is there: copies what the request wants of it, and what it
    /// writes.
    fn copy<P: Copied>(&mut self, payload: &mut P) {
        let local = self.local;
        self.scratch.pins.retain_mut(|pin| {
            if !matches!(pin.action, Action::Fill | Action::Overwrite) {
                return true;
            }
            let through = local.with_woken(pin.shard, |shard, woken| {
                shard.set_ready(pin.frame, woken);
                local.copy(shard, pin.frame, &pin.span, payload)
            });
            pin.action = Action::Through;
            through
        });
    }

    /// The drive has what was written.
    fn have_written(&mut self) {
        let local = self.local;
        let mut backs = 0;
        for pin in &self.scratch.pins {
            backs += u64::from(pin.action == Action::Clean);
            local.with_woken(pin.shard, |s, woken| s.end_writing(pin.frame, true, woken));
        }
        local.counters.write_backs.add(backs);
        self.give_up_failed();
    }
}

impl Pins<'_> {
    /// The request fails between settlements, or is dropped in one.
    #[cold]
    fn abandon(&mut self) {
        self.part_with_failed();
        let Scratch { pins, failed, .. } = &mut *self.scratch;
        failed.append(pins);
        self.give_up_failed();
        self.scratch.redo.clear();
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        if !self.scratch.is_at_rest() {
            self.abandon();
        }
        let scratch = self.scratch.0.take().expect("its lists");
        self.local.spare.borrow_mut().push(scratch);
    }
}
