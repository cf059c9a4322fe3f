//! Making room: what the policy has chosen leaves the cache.
//!
//! A clean sector lies at its own address on the drive of the cache, a dirty one at another; which
//! of them the drive has says durably what is cached and what is dirty, without a journal. That
//! holds after a cut at any time because of these rules:
//!
//! * **R1** Where the drive has both copies, the dirty one counts.
//! * **R2** A dirty copy is never deallocated while a clean one that is older may be there: the clean ones
//!   below dirty ones are deallocated first, and a flush lies between.
//! * **R3** A sector that is read from the disk does not come into the cache if it was written since: whoever brings
//!   it in has it locked from before the read.
//! * **R4** A dirty sector leaves in this order: the disk has it durably, its mapping is durable, the dirty copy is
//!   deallocated. A cut in between has it written back once more.
//!
//! The walk of a round: the policy chooses; clean sectors are locked, taken from the bitmap and
//! deallocated; dirty ones are marked as leaving, and while anybody may read and write them they are
//! read from the cache and written to the disk, run by run; the disk is flushed; those that nobody has
//! written meanwhile are taken from the bitmap and deallocated.

use std::cell::RefCell;
use std::rc::Rc;

use wharf_runtime::Notify;
use wharf_runtime::range_lock::RangeGuard;

use super::bitmap::Stretch;
use super::keeper::Keeper;
use super::policy::{Victim, View};
use super::settings::PIECE_SECTORS;
use super::word::{Place, Word};
use crate::volume::Transfer;

/// Pieces that are under way at a time.
const PIECES: usize = 8;

/// A run that is on the disk, or on its way.
struct Leaving {
    victim: Victim,
    _leaving: RangeGuard,
}

/// A round.
#[derive(Default)]
struct Round {
    pieces: RefCell<Vec<Victim>>,
    workers: std::cell::Cell<usize>,
    worker_ended: Notify,
    /// Runs that were written to the disk.
    written: RefCell<Vec<Leaving>>,
    /// Sectors that have left.
    left: std::cell::Cell<u64>,
}

impl Keeper {
    /// Evicts round by round until there is room.
    pub(super) async fn make_room(self: Rc<Self>) {
        while self.shared.is_round_due(&self.known.bitmap) {
            let left = self.clone().evict_round().await;
            self.shared.room.wake_all(&self.cpu, self.shared.keeper());
            if left == 0 {
                // Everything that was chosen is in use. Others go on first.
                self.cpu.yield_now().await;
            }
        }
        self.evicts.set(false);
        self.shared.room.wake_all(&self.cpu, self.shared.keeper());
    }

    /// One round; returns how many sectors have left.
    async fn evict_round(self: Rc<Self>) -> u64 {
        let mut victims = Vec::new();
        let view = View {
            cpu: &self.cpu,
            bitmap: &self.known.bitmap,
            limit: self.shared.limit,
        };
        let budget = self.shared.round();
        self.shared.policy.with(&self.cpu, |policy| {
            policy.choose(view, budget, &mut victims);
        });
        self.deallocate_stale().await;
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
        self.publish();
        round.left.get()
    }

    /// Deallocates clean copies below dirty ones.
    async fn deallocate_stale(&self) {
        let stale = self.shared.stale.with(&self.cpu, std::mem::take);
        for victim in stale {
            let locker = self.numbers.locker(self.shared.keeper(), false);
            let (first, count) = (victim.first, u64::from(victim.count));
            let _alone = self
                .shared
                .locks
                .lock_as(&self.cpu, locker, first, count)
                .await;
            for stretch in self.look(victim) {
                // One that is clean has been brought in anew since.
                if stretch.place != Place::Clean {
                    let lies = self.known.plan.clean(stretch.first);
                    let sectors = u64::from(stretch.count);
                    let done = self.mover.cache.deallocate(&self.cpu, lies, sectors).await;
                    if done.is_err() {
                        self.note_stale(stretch);
                    }
                }
            }
        }
    }

    /// A clean copy is to be deallocated in the next round.
    fn note_stale(&self, stretch: Stretch) {
        let stale = &self.shared.stale;
        stale.with(&self.cpu, |list| list.push(stretch.into()));
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

    /// Clean sectors of a piece leave, dirty ones are written to the disk. What somebody uses stays.
    async fn evict_piece(&self, round: &Round, piece: Victim) {
        let keeper = self.shared.keeper();
        let (first, count) = (piece.first, u64::from(piece.count));
        let locker = self.numbers.locker(keeper, false);
        let Some(leaving) = self
            .shared
            .leaving
            .try_lock_as(&self.cpu, locker, first, count)
        else {
            return;
        };
        let locker = self.numbers.locker(keeper, false);
        let Some(alone) = self
            .shared
            .locks
            .try_lock_as(&self.cpu, locker, first, count)
        else {
            return;
        };
        let mut dirty = Vec::new();
        for stretch in self.look(piece) {
            match stretch.place {
                Place::Disk => {}
                Place::Dirty => {
                    self.change(stretch, |word| match word.is_leaving() {
                        true => word,
                        false => word.leaving(),
                    });
                    dirty.push(stretch);
                }
                Place::Clean => {
                    self.change(stretch, |_| Word::ABSENT);
                    self.shared
                        .forgotten(&self.cpu, stretch.first, stretch.count);
                    let lies = self.known.plan.clean(stretch.first);
                    let sectors = u64::from(stretch.count);
                    let done = self.mover.cache.deallocate(&self.cpu, lies, sectors).await;
                    if done.is_err() {
                        // It may still be there when the sector is dirty and leaves.
                        self.note_stale(stretch);
                    }
                    round.left.set(round.left.get() + sectors);
                }
            }
        }
        drop(alone);
        let mut any_written = false;
        for stretch in &dirty {
            match self.write_back(*stretch).await {
                Ok(()) => any_written = true,
                Err(_) => self.change(*stretch, Word::staying),
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
    async fn write_back(&self, stretch: Stretch) -> Result<(), crate::error::IoError> {
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
        written.map_err(super::keeper::io_error)
    }

    /// What was written to the disk is durable there, and then leaves the cache.
    async fn finish_written(&self, round: &Round) {
        let written = round.written.take();
        if written.is_empty() {
            return;
        }
        // R4, and R2: clean copies are gone durably before dirty ones go.
        let durable = match self.disk.flush().await {
            Ok(()) => self.mover.cache.flush(&self.cpu).await.is_ok(),
            Err(_) => false,
        };
        for leaving in written {
            let (first, count) = (leaving.victim.first, u64::from(leaving.victim.count));
            let locker = self.numbers.locker(self.shared.keeper(), false);
            let _alone = self
                .shared
                .locks
                .lock_as(&self.cpu, locker, first, count)
                .await;
            for stretch in self.runs_leaving(leaving.victim) {
                if !durable {
                    self.change(stretch, Word::staying);
                    continue;
                }
                self.change(stretch, |_| Word::ABSENT);
                self.shared
                    .forgotten(&self.cpu, stretch.first, stretch.count);
                let lies = self.known.plan.dirty(stretch.first);
                let sectors = u64::from(stretch.count);
                let _ = self.mover.cache.deallocate(&self.cpu, lies, sectors).await;
                round.left.set(round.left.get() + sectors);
            }
        }
    }

    /// The sectors of a victim that nobody has written since they began to leave.
    fn runs_leaving(&self, victim: Victim) -> Vec<Stretch> {
        let runs = RefCell::new(Vec::<Stretch>::new());
        for sector in victim.first..victim.first + u64::from(victim.count) {
            let looks = |word: Word| {
                if word.is_leaving() {
                    let mut runs = runs.borrow_mut();
                    match runs.last_mut() {
                        Some(last) if last.first + u64::from(last.count) == sector => {
                            last.count += 1;
                        }
                        _ => runs.push(Stretch {
                            first: sector,
                            count: 1,
                            place: Place::Dirty,
                        }),
                    }
                }
                word
            };
            let one = Stretch {
                first: sector,
                count: 1,
                place: Place::Dirty,
            };
            self.change(one, looks);
        }
        runs.into_inner()
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
