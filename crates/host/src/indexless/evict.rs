//! Making room: what the policy has chosen leaves the cache. And the rules that hold through power cuts.
//!
//! Of a sector there may be a *clean copy*, at its own address on the drive of the cache, a *dirty copy* at another,
//! and what the disk has. Which copies the drive has says durably what is cached and what is dirty, without a
//! journal. A cut may bring back what was given up and not flushed, and take away what was written and not
//! flushed, on either device, page by page. After it every sector is what it was at the last flush, or what it was
//! given since; and it stays so, whatever leaves the cache later. That holds because of these rules:
//!
//! * **R1** Where the drive has both copies, the dirty one counts. *Why it may:* while a dirty copy is there, nothing
//!   newer is anywhere: writes overwrite it (R5 says when they do not). It may be as old as a copy that was written
//!   back and given up, if the cut brought that back: by R4 the disk has the same then, and by R5 still.
//! * **R2** A dirty copy is given up only after the clean copy below it is gone durably: both are deallocated, in this
//!   order, with a flush in between. *Why it must:* the clean one is older than the disk by then. Which
//!   clean copies are there is not asked: a list of them would not survive a cut. The clean copies of all sectors that
//!   leave are deallocated. (`Shared::stale` is a list to have their room sooner, and nothing relies on it.)
//! * **R3** A clean copy is written only of what the disk has durably, and only if nobody has written the sector since it
//!   was read: whoever brings it in has it locked from before the read (`client.rs`), and it is not in the list
//!   of what the disk may still lose (`unsettled.rs`). *Why it must:* the clean copy may outlive a cut that the disk's
//!   newer content does not; reads would give the new, and after an eviction the old. Neighbours that come with what was
//!   missed are not locked while they are read: they come in if nothing near them has changed since (`changes.rs`).
//! * **R4** A dirty sector leaves in this order: the disk has it durably, its mapping is durable, R2, the dirty copy is
//!   deallocated. A cut in between has it written back once more.
//! * **R5** Around the cache (`around.rs`) the disk is written only after the clean copies of these sectors are gone durably;
//!   and a dirty copy is given up only after the disk has the new content durably. *Why so:* a clean copy that came back would be
//!   older than the disk. A dirty copy that was given up first would leave what the disk had before it, which is older than
//!   what was flushed. If a cut brings the dirty copy back, it is what was there before the write that went around, which
//!   was not flushed; a flush makes its end durable.
//! * **R6** A flush of a client flushes the drive of the cache, and the disk if it was written around the cache
//!   since.
//!
//! A clean sector that is evicted needs no order: if a cut brings its copy back, it is still what the disk has, since by R2
//! and R5 nothing was written to the disk while that was not settled.
//!
//! The walk of a round: the policy chooses; clean sectors are locked, taken from the bitmap and
//! deallocated; dirty ones are marked as leaving, and while anybody may read and write them they are
//! read from the cache and written to the disk, run by run; the disk is flushed; clean copies below them are
//! deallocated, and the drive of the cache is flushed; those that nobody has written meanwhile are taken from
//! the bitmap and deallocated.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wharf_runtime::Notify;
use wharf_runtime::range_lock::RangeGuard;
use wharf_runtime::sync::Ordering;

use super::bitmap::Stretch;
use super::keeper::Keeper;
use super::mode::Mode;
use super::planted::Fault;
use super::policy::Victim;
use super::settings::PIECE_SECTORS;
use super::word::{Place, Word};
use crate::backing::Sectors;
use crate::error::IoError;
use crate::volume::Transfer;

/// Pieces that are under way at a time.
const PIECES: usize = 8;

/// Time after a round in which nothing could leave, in nanoseconds: others go on first.
const IN_USE_NS: u64 = 100_000;

/// Time after a round in which nothing left as a device failed, in nanoseconds.
const FAILED_NS: u64 = 10_000_000;

/// A run that is on the disk, or on its way.
struct Leaving {
    victim: Victim,
    _leaving: RangeGuard,
}

/// A round.
#[derive(Default)]
struct Round {
    pieces: RefCell<Vec<Victim>>,
    workers: Cell<usize>,
    worker_ended: Notify,
    /// Runs that were written to the disk.
    written: RefCell<Vec<Leaving>>,
    /// Sectors that have left.
    left: Cell<u64>,
    /// Why some could not, if a device failed.
    failure: Cell<Option<IoError>>,
}

/// What came of a round.
pub(super) struct RoundEnd {
    left: u64,
    failure: Option<IoError>,
}

impl<S: Sectors + 'static> Keeper<S> {
    /// Whether something is to leave.
    pub(super) fn is_due(&self) -> bool {
        let totals = self.known.bitmap.totals();
        // Relaxed: whoever notes it wakes the keeper.
        let is_tight = self.shared.is_tight.load(Ordering::Relaxed);
        self.must_drain()
            || is_tight && totals.cached > 0
            || self.shared.room.is_round_due(&self.known.bitmap)
    }

    /// Whether nothing is to be dirty, and something is.
    fn must_drain(&self) -> bool {
        self.shared.mode.get() != Mode::WriteBack && self.known.bitmap.totals().dirty > 0
    }

    /// Evicts round by round until there is room.
    pub(super) async fn make_room(self: Rc<Self>) {
        while self.is_due() {
            let victims = match self.must_drain() {
                true => self.dirty_victims(),
                false => self.victims(),
            };
            let end = self.clone().evict_round(victims).await;
            self.note_level();
            self.publish();
            if end.left > 0 {
                self.shared.note_space(&self.mover);
            }
            // Relaxed: whoever reads it late waits, or goes around the cache, once more.
            let is_stuck = end.left == 0 && end.failure.is_some();
            self.failure.set(end.failure);
            self.shared.is_stuck.store(is_stuck, Ordering::Relaxed);
            self.shared
                .room
                .waiters
                .wake_all(&self.cpu, self.shared.keeper());
            if end.left == 0 {
                let rest_ns = if is_stuck { FAILED_NS } else { IN_USE_NS };
                self.cpu.sleep_until(self.cpu.now() + rest_ns).await;
            }
            self.snapshot_sometimes().await;
        }
        self.shared.is_stuck.store(false, Ordering::Relaxed);
        self.evicts.set(false);
        self.shared
            .room
            .waiters
            .wake_all(&self.cpu, self.shared.keeper());
    }

    /// Writes all that is dirty to the disk.
    ///
    /// # Errors
    /// If something cannot be: that stays.
    pub(super) async fn drain(self: &Rc<Self>) -> Result<(), IoError> {
        self.learn_all().await?;
        let begun = self.rounds.get();
        loop {
            while self.evicts.replace(true) {
                // A round that began before this one was asked for says nothing.
                let is_stuck =
                    self.shared.is_stuck.load(Ordering::Relaxed) && self.rounds.get() > begun + 1;
                if let Some(failure) = self.failure.get().filter(|_| is_stuck) {
                    return Err(failure);
                }
                self.cpu.sleep_until(self.cpu.now() + IN_USE_NS).await;
            }
            let victims = self.dirty_victims();
            if victims.is_empty() && self.known.bitmap.totals().dirty == 0 {
                self.evicts.set(false);
                return Ok(());
            }
            let end = self.clone().evict_round(victims).await;
            self.evicts.set(false);
            match end.failure {
                Some(failure) if end.left == 0 => return Err(failure),
                _ if end.left == 0 => {
                    self.cpu.sleep_until(self.cpu.now() + IN_USE_NS).await;
                }
                _ => {}
            }
        }
    }

    /// What the policy chooses for a round.
    fn victims(&self) -> Vec<Victim> {
        let room = &self.shared.room;
        let amounts = (room.limit, room.round);
        self.shared
            .order
            .choose(&self.cpu, &self.known.bitmap, amounts)
    }

    /// As many dirty sectors as a round has, from where the last look for them ended.
    fn dirty_victims(&self) -> Vec<Victim> {
        let (from, budget) = (self.drained_to.get(), self.shared.room.round);
        let (victims, next) = self.known.bitmap.dirty(&self.cpu, from, budget);
        self.drained_to.set(next);
        victims
    }

    /// One round.
    async fn evict_round(self: Rc<Self>, victims: Vec<Victim>) -> RoundEnd {
        self.give_up_stale().await;
        let round = Rc::new(Round::default());
        let mut pieces: Vec<Victim> = victims.iter().flat_map(|victim| pieces(*victim)).collect();
        pieces.reverse();
        *round.pieces.borrow_mut() = pieces;
        round.workers.set(PIECES);
        for _ in 0..PIECES {
            let (keeper, round) = (self.clone(), round.clone());
            self.cpu.spawn("piece", async move {
                while let Some(piece) = { round.pieces.borrow_mut().pop() } {
                    keeper.evict_piece(&round, piece).await;
                }
                round.workers.set(round.workers.get() - 1);
                round.worker_ended.notify_all(&keeper.cpu);
            });
        }
        while round.workers.get() > 0 {
            round.worker_ended.wait(&self.cpu).await;
        }
        self.finish_written(&round).await;
        self.shared.note_dirty(self.cpu.now(), &self.known.bitmap);
        RoundEnd {
            left: round.left.get(),
            failure: round.failure.get(),
        }
    }

    /// Deallocates clean copies below dirty ones that were noted.
    async fn give_up_stale(&self) {
        let stale = self.shared.stale.with(&self.cpu, std::mem::take);
        if self.shared.planted.is(Fault::KeepsClean) {
            return;
        }
        for victim in stale {
            let _alone = self.lock(victim).await;
            // One that is clean has been brought in anew since.
            let is_stale = |stretch: &Stretch| stretch.place != Place::Clean;
            let found = self.look(victim);
            self.give_up(found.iter().copied().filter(is_stale), false)
                .await;
        }
    }

    /// Deallocates copies of sectors, clean or dirty ones; false if that failed.
    async fn give_up(&self, of: impl Iterator<Item = Stretch>, is_dirty: bool) -> bool {
        let plan = &self.known.plan;
        let address = |sector| {
            if is_dirty {
                plan.dirty(sector)
            } else {
                plan.clean(sector)
            }
        };
        let ranges: Vec<(u64, u64)> = of
            .map(|stretch| (address(stretch.first), stretch.count.into()))
            .collect();
        self.shared
            .trims
            .give_up(&self.mover, &ranges)
            .await
            .is_ok()
    }

    async fn lock(&self, victim: Victim) -> RangeGuard {
        let locker = self.numbers.locker(self.shared.keeper(), false);
        let (first, count) = (victim.first, u64::from(victim.count));
        self.shared
            .locks
            .lock_as(&self.cpu, locker, first, count)
            .await
    }

    fn look(&self, victim: Victim) -> Vec<Stretch> {
        let mut found = Vec::new();
        let bitmap = &self.known.bitmap;
        // What is not known is not cached, as far as anybody knows.
        let _ = bitmap.look(&self.cpu, victim.first, victim.count, &mut found);
        found
    }

    fn change(&self, stretch: Stretch, change: impl Fn(Word) -> Word) {
        let bitmap = &self.known.bitmap;
        let changed = bitmap.change(&self.cpu, stretch.first, stretch.count, change);
        changed.expect("it was looked at");
    }

    /// Sectors are not in the cache any more.
    fn forget(&self, stretch: Stretch) {
        self.change(stretch, |_| Word::ABSENT);
        self.shared
            .forgotten(&self.cpu, stretch.first, stretch.count);
    }

    /// Clean sectors of a piece leave, dirty ones are written to the disk. What somebody uses stays.
    async fn evict_piece(&self, round: &Round, piece: Victim) {
        let keeper = self.shared.keeper();
        let (first, count) = (piece.first, u64::from(piece.count));
        let locker = self.numbers.locker(keeper, false);
        let leaving = &self.shared.leaving;
        let Some(leaving) = leaving.try_lock_as(&self.cpu, locker, first, count) else {
            return;
        };
        let locker = self.numbers.locker(keeper, false);
        let locks = &self.shared.locks;
        let Some(alone) = locks.try_lock_as(&self.cpu, locker, first, count) else {
            return;
        };
        let found = self.look(piece);
        let of = |place| found.iter().copied().filter(move |one| one.place == place);
        for stretch in of(Place::Dirty) {
            self.change(stretch, |word| match word.is_leaving() {
                true => word,
                false => word.leaving(),
            });
        }
        let mut left = 0;
        for stretch in of(Place::Clean) {
            self.forget(stretch);
            left += u64::from(stretch.count);
        }
        self.give_up(of(Place::Clean), false).await;
        round.left.set(round.left.get() + left);
        drop(alone);
        let mut any_written = false;
        for stretch in of(Place::Dirty) {
            match self.write_back(stretch).await {
                Ok(()) => any_written = true,
                Err(error) => {
                    self.change(stretch, Word::staying);
                    round.failure.set(Some(error));
                }
            }
        }
        if any_written {
            round.written.borrow_mut().push(Leaving {
                victim: piece,
                _leaving: leaving,
            });
        }
    }

    /// Writes a dirty run to the disk.
    async fn write_back(&self, stretch: Stretch) -> Result<(), IoError> {
        let count = stretch.count as usize;
        let mut pages = self.mover.take(count).await;
        let lies = self.known.plan.dirty(stretch.first);
        pages.begin(Transfer::Read, lies, 0..count).await;
        pages.end().await?;
        let page_bytes = self.shared.space.page_bytes();
        let mut data = vec![0; count * page_bytes];
        for (at, to) in data.chunks_mut(page_bytes).enumerate() {
            pages.with(at, |page| to.copy_from_slice(page));
        }
        drop(pages);
        let written = self.disk.write(stretch.first, &data).await;
        written.map_err(super::disk::io_error)
    }

    /// What was written to the disk is durable there, and then leaves the cache.
    async fn finish_written(&self, round: &Round) {
        let written = round.written.take();
        if written.is_empty() {
            return;
        }
        let settled = self.settle_written(&written).await;
        if let Err(error) = settled {
            round.failure.set(Some(error));
        }
        for leaving in written {
            let _alone = self.lock(leaving.victim).await;
            let Victim { first, count } = leaving.victim;
            self.shared.changes.note(first, count.into());
            let runs = self.runs_leaving(leaving.victim);
            if settled.is_err() {
                runs.iter().for_each(|run| self.change(*run, Word::staying));
                continue;
            }
            runs.iter().for_each(|run| self.forget(*run));
            self.give_up(runs.iter().copied(), true).await;
            let left: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
            round.left.set(round.left.get() + left);
        }
    }

    /// R4 and R2: the disk has what was written durably, and what is clean below it is gone durably.
    async fn settle_written(&self, written: &[Leaving]) -> Result<(), IoError> {
        let planted = &self.shared.planted;
        if !planted.is(Fault::NoFlushOfDisk) {
            self.flush_disk().await?;
        }
        // Only of what leaves: it is locked against all that could bring a clean copy in (`leaving`).
        let mut clean = Vec::new();
        for leaving in written.iter().filter(|_| !planted.is(Fault::KeepsClean)) {
            let runs = self.runs_leaving(leaving.victim);
            let below = |run: &Stretch| (self.known.plan.clean(run.first), run.count.into());
            clean.extend(runs.iter().map(below));
        }
        self.shared.trims.give_up(&self.mover, &clean).await?;
        if planted.is(Fault::NoFlushOfClean) {
            return Ok(());
        }
        self.shared.trims.flush(&self.mover).await
    }

    /// The sectors of a victim that nobody has written since they began to leave.
    fn runs_leaving(&self, victim: Victim) -> Vec<Stretch> {
        let mut runs = Vec::new();
        let bitmap = &self.known.bitmap;
        // What is not known does not leave.
        let _ = bitmap.look_for(
            &self.cpu,
            victim.first,
            victim.count,
            Word::is_leaving,
            &mut runs,
        );
        runs
    }
}

/// A victim cut at multiples of [`PIECE_SECTORS`].
fn pieces(victim: Victim) -> impl Iterator<Item = Victim> {
    let end = victim.first + u64::from(victim.count);
    let mut at = victim.first;
    std::iter::from_fn(move || {
        let first = at;
        at = end.min((first / PIECE_SECTORS + 1) * PIECE_SECTORS);
        (first < end).then_some(Victim {
            first,
            count: (at - first) as u32,
        })
    })
}
