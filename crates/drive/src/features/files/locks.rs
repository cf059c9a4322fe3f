//! Locks of files, and the commands that wait for them.
//!
//! The table is one for all cores (`wharf_files::locks`). A command that waits is *parked*: its share is answered by
//! nobody, and its file task is free for others. It takes a slot of the drive's commands and nothing else, so a part of
//! the slots is the most that may wait: the others always find one.
//!
//! 1. A file task asks the table. If the lock is to be waited for, the table has the command's slot as its ticket, and
//!    here is noted on which core it came.
//! 2. Whoever changes the table, on any core, takes from it which waits are over, and leaves each with the core of its
//!    command.
//! 3. There a task of its own answers it ([`answer_parked`]).
//!
//! A queue that is deleted waits for its commands, so those that are parked end then; and those that have been fetched
//! and not asked yet are marked, and will not wait.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use wharf_files::Errno;
use wharf_files::locks::{
    Asked, Lock, LockAsk, LockError, LockLimits, LockOwner, LockPlace, LockRange, LockSpace,
    LockTable,
};
use wharf_runtime::Op;
use wharf_wire::file::FileHandle;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

use super::answer::FileAnswer;
use crate::controller::Controller;
use crate::core::{Core, Share, Slot, outcome};

/// Locks that a host can have.
const LOCKS_MAX: usize = 4096;

/// What parked commands may take of the drive's slots: one in so many, of a host, and of all hosts.
const WAITS_OF_HOST: usize = 8;
const WAITS_OF_ALL: usize = 4;

/// The note of a command whose queue is being deleted.
pub(super) const QUEUE_CLOSES: u64 = 1;

/// The number of a host for owners of locks: the drive's owner, and guests behind it.
pub(super) fn session_of(guest: Option<Guest>) -> u32 {
    guest.map_or(0, |guest| guest.number + 1)
}

/// What became of a lock command.
pub(super) enum Locked {
    /// It is granted.
    Granted,
    /// It is answered later.
    Parked,
    /// It is not.
    Refused(LockError),
    /// It would have to wait, and its queue is being deleted.
    QueueCloses,
}

/// See the [module](self).
pub struct Locks(RefCell<State>);

struct State {
    table: LockTable,
    /// The core of each parked command, by its slot.
    parked: BTreeMap<u16, u32>,
    /// What each core has to answer.
    over: Vec<Over>,
}

/// Parked commands of a core that are to be answered.
#[derive(Default)]
struct Over {
    answers: VecDeque<(u16, FileAnswer)>,
    waker: Option<Waker>,
}

impl Locks {
    /// Without locks, for a drive with so many cores and slots of commands.
    pub(super) fn new(cores: usize, commands_max: u32) -> Locks {
        let slots = commands_max as usize;
        let limits = LockLimits {
            locks: LOCKS_MAX,
            waits: slots / WAITS_OF_HOST,
            waits_in_all: slots / WAITS_OF_ALL,
        };
        Locks(RefCell::new(State {
            table: LockTable::new(limits),
            parked: BTreeMap::new(),
            over: (0..cores).map(|_| Over::default()).collect(),
        }))
    }

    /// Gives a lock, or refuses it, or parks the command in `slot`, if it `waits`.
    pub(super) fn ask(&self, core: &Core, slot: u16, ask: &LockAsk, waits: bool) -> Locked {
        let closes = core.slots.borrow().get(slot).note == QUEUE_CLOSES;
        self.with_table(core, |state| {
            if waits && !closes {
                return match state.table.lock_or_wait(ask, slot.into()) {
                    Ok(Asked::Locked) => Locked::Granted,
                    Ok(Asked::Waits) => {
                        state.parked.insert(slot, core.index);
                        Locked::Parked
                    }
                    Err(error) => Locked::Refused(error),
                };
            }
            match state.table.lock(ask) {
                Ok(()) => Locked::Granted,
                Err(LockError::Held(_)) if waits => Locked::QueueCloses,
                Err(error) => Locked::Refused(error),
            }
        })
    }

    /// Takes a range away from its owner.
    pub(super) fn unlock(
        &self,
        core: &Core,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
    ) -> Result<(), LockError> {
        self.with_table(core, |state| state.table.unlock(place, owner, range))
    }

    /// Takes all that an owner has in a place.
    pub(super) fn release_owner(&self, core: &Core, place: LockPlace, owner: LockOwner) {
        self.with_table(core, |state| state.table.release_owner(place, owner));
    }

    /// Ends waits of an owner for exactly this range; gives how many.
    pub(super) fn withdraw(
        &self,
        core: &Core,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
    ) -> u64 {
        self.with_table(core, |state| {
            let tickets = state.table.withdraw(place, owner, range);
            let count = tickets.len() as u64;
            for ticket in tickets {
                state.end(ticket as u16, FileAnswer::errno(Errno::EINTR));
            }
            count
        })
    }

    /// The first lock in the way of one.
    pub(super) fn test(&self, core: &Core, ask: &LockAsk) -> Option<Lock> {
        self.with_table(core, |state| state.table.test(ask))
    }

    /// Whether no other host has or waits for a lock of a file, and this one waits for none.
    pub(super) fn is_alone(&self, core: &Core, file: u64, session: u32) -> bool {
        self.with_table(core, |state| {
            LockSpace::ALL
                .into_iter()
                .all(|space| state.table.is_alone(LockPlace { file, space }, session))
        })
    }

    /// All that a host has of a file, each with its space.
    pub(super) fn of_host(&self, file: u64, session: u32) -> Vec<(LockSpace, Lock)> {
        let state = self.0.borrow();
        state.table.of_file(file, session).collect()
    }

    /// A host has granted itself locks of a file, in the place of all that it had.
    pub(super) fn replace(&self, file: u64, session: u32, own: &[(LockSpace, Lock)]) {
        let state = &mut *self.0.borrow_mut();
        state.table.replace_of_file(file, session, own);
        state.hand_over();
    }

    /// All that a host has open is closed: its locks go, and its commands that wait end.
    pub(super) fn end_session(&self, session: u32) {
        let state = &mut *self.0.borrow_mut();
        for ticket in state.table.end_session(session) {
            state.end(ticket as u16, FileAnswer::failed(StatusCode::HandleInvalid));
        }
        state.hand_over();
    }

    /// A host has closed a handle: its commands that wait by it end.
    pub(super) fn handle_closes(&self, core: &Core, session: u32, handle: FileHandle) {
        let state = &mut *self.0.borrow_mut();
        let by_handle: Vec<u16> = {
            let slots = core.slots.borrow();
            let of_handle = |slot: &&u16| {
                let slot = slots.get(**slot);
                session_of(slot.guest) == session && slot.command.file_handle() == handle
            };
            state.parked.keys().filter(of_handle).copied().collect()
        };
        state.withdraw(&by_handle, StatusCode::HandleInvalid);
    }

    /// The queue of these commands is being deleted: those that are parked end.
    fn queue_closes(&self, slots: &[u16]) {
        let state = &mut *self.0.borrow_mut();
        state.withdraw(slots, StatusCode::AbortedQueueDeleted);
    }

    fn with_table<R>(&self, core: &Core, f: impl FnOnce(&mut State) -> R) -> R {
        core.cpu.work(Op::HandleLookup, || {
            let state = &mut *self.0.borrow_mut();
            let done = f(state);
            state.hand_over();
            done
        })
    }

    /// The next parked command of a core that is to be answered.
    async fn next_over(&self, core: u32) -> (u16, FileAnswer) {
        poll_fn(|context| {
            let over = &mut self.0.borrow_mut().over[core as usize];
            match over.answers.pop_front() {
                Some(next) => Poll::Ready(next),
                None => {
                    over.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl State {
    /// Has those answered whose waits are over.
    fn hand_over(&mut self) {
        for ended in self.table.take_ended() {
            let answer = match ended.result {
                Ok(()) => FileAnswer::completed(0),
                Err(error) => FileAnswer::errno(error.errno()),
            };
            self.end(ended.ticket as u16, answer);
        }
    }

    /// Ends those of the commands that wait.
    fn withdraw(&mut self, slots: &[u16], status: StatusCode) {
        for slot in slots {
            if self.table.withdraw_ticket((*slot).into()) {
                self.end(*slot, FileAnswer::failed(status));
            }
        }
    }

    /// Has a parked command answered, by its own core.
    fn end(&mut self, slot: u16, answer: FileAnswer) {
        let core = self.parked.remove(&slot);
        let core = core.expect("a command that waits is parked");
        let over = &mut self.over[core as usize];
        over.answers.push_back((slot, answer));
        if let Some(waker) = over.waker.take() {
            waker.wake();
        }
    }
}

/// The life of the task of a core that answers parked commands.
pub(super) async fn answer_parked(core: &Core, locks: &Locks) {
    loop {
        let (slot, answer) = locks.next_over(core.index).await;
        let now_ns = core.cpu.account_now();
        {
            let mut slots = core.slots.borrow_mut();
            let slot = slots.get_mut(slot);
            (slot.result, slot.to_host_bytes) = (answer.result, answer.to_host_bytes);
        }
        let share = Share {
            slot,
            ..Share::default()
        };
        core.answer_from_task(now_ns, share, outcome(answer.status, 0));
    }
}

/// A queue is being deleted: none of its commands waits for a lock any more.
pub(super) fn queue_closes(controller: &Controller, locks: &Locks, qid: u16) {
    let closing = {
        let mut slots = controller.slots().borrow_mut();
        let is = |slot: &Slot, opcode| slot.command.io_opcode() == Some(opcode);
        let closing = slots.numbers_of(qid, |slot| is(slot, IoOpcode::LockFile));
        // A vector ends before its next piece.
        let vectors = slots.numbers_of(qid, |slot| is(slot, IoOpcode::Vector));
        for slot in closing.iter().chain(&vectors) {
            slots.get_mut(*slot).note = QUEUE_CLOSES;
        }
        closing
    };
    locks.queue_closes(&closing);
}
