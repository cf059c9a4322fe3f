//! What the threads of an array share: its members, how they stand, and the locks.
//!
//! A change of how members stand is durable in their superblocks *before* any thread acts on it: otherwise a write or
//! a flush would count as done without a member that, after a power cut, nobody knows to be stale. It is written
//! twice: the second superblock says that everyone had the first, so that a member which lacks the first is known
//! for a copy from before the change (see `history`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rustix::io::Errno;
use wharf_runtime::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::array::intent::Intent;
use crate::array::journal::Journal;
use crate::array::layout::{Level, Shape};
use crate::array::superblock::{MemberState, Superblock, absent};
use crate::blocking::Blocking;
use crate::error::StorageError;
use crate::io::{IoError, Op};
use crate::target::{Target, TargetInfo};

/// Locks for windows; two windows may share one.
const LOCKS: u64 = 4096;

/// An array that is open.
pub(super) struct Shared {
    pub(super) info: TargetInfo,
    pub(super) shape: Shape,
    pub(super) uuid: [u8; 16],
    pub(super) journal: Journal,
    pub(super) intent: Mutex<Intent>,
    members: RwLock<Vec<Option<Arc<dyn Target>>>>,
    status: Vec<AtomicU32>,
    /// Counts the targets that a member has had.
    generation: Vec<AtomicU32>,
    rebuilt_windows: AtomicU64,
    /// See [`Shared::is_broken`].
    broken: AtomicBool,
    locks: Box<[AtomicBool]>,
    admin: Mutex<Admin>,
}

/// What superblocks say beside the members' states.
pub(super) struct Admin {
    pub(super) event: u64,
    pub(super) session: u64,
    /// The last event that every member in use has durably, and its session.
    pub(super) settled: (u64, u64),
    /// The event at which each member's target joined.
    pub(super) joined: Vec<u64>,
    pub(super) epoch: u64,
    pub(super) clean: bool,
    /// Windows of the member being rebuilt that are durable there.
    pub(super) rebuilt_windows: u64,
}

impl Shared {
    /// An array as `superblock` describes it, which all `members` that are there have; each with the event at which
    /// it joined. What happens from here on is of `session`.
    pub(super) fn new(
        info: TargetInfo,
        superblock: &Superblock,
        session: u64,
        members: Vec<Option<Arc<dyn Target>>>,
        joined: Vec<u64>,
        intent: Intent,
    ) -> Shared {
        let shape = superblock.shape;
        let states = superblock.states.iter();
        Shared {
            info,
            shape,
            uuid: superblock.uuid,
            journal: Journal::new(superblock.epoch, shape.journal_slots),
            intent: Mutex::new(intent),
            status: states.map(|s| AtomicU32::new(*s as u32)).collect(),
            generation: members.iter().map(|_| AtomicU32::new(0)).collect(),
            members: RwLock::new(members),
            rebuilt_windows: AtomicU64::new(superblock.rebuilt_windows),
            broken: AtomicBool::new(false),
            locks: (0..LOCKS).map(|_| AtomicBool::new(false)).collect(),
            admin: Mutex::new(Admin {
                event: superblock.event,
                session,
                settled: (superblock.event, superblock.session),
                joined,
                epoch: superblock.epoch,
                clean: superblock.clean,
                rebuilt_windows: superblock.rebuilt_windows,
            }),
        }
    }

    /// The target of a member, if there is one.
    pub(super) fn target(&self, member: u32) -> Option<Arc<dyn Target>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members[member as usize].clone()
    }

    /// A channel to a member, for one I/O at a time.
    pub(super) fn way(&self, member: u32) -> Result<Blocking, StorageError> {
        let target = self.target(member).ok_or_else(|| StorageError::Io {
            name: format!("member {member}"),
            error: absent(Op::Read, 0),
        })?;
        Blocking::new(&*target)
    }

    /// Changes whenever a member gets another target: a read without a lock is good if this is the same before
    /// the member was found usable and after the read.
    pub(super) fn generation(&self, member: u32) -> u32 {
        // Acquire: with the Release of `replace`, whose target is seen then.
        self.generation[member as usize].load(Ordering::Acquire)
    }

    pub(super) fn state(&self, member: u32) -> MemberState {
        // Acquire: with the Release of `set_state`.
        let value = self.status[member as usize].load(Ordering::Acquire) as u8;
        MemberState::from_u8(value).expect("only states are stored")
    }

    /// How every member stands.
    pub(super) fn states(&self) -> Vec<MemberState> {
        (0..self.shape.members).map(|m| self.state(m)).collect()
    }

    fn set_states(&self, states: &[MemberState]) {
        for (status, state) in self.status.iter().zip(states) {
            // Release: with the Acquire of `state`.
            status.store(*state as u32, Ordering::Release);
        }
    }

    /// Whether a member holds what it should of a window. Settled only while the window is locked.
    pub(super) fn usable(&self, member: u32, window: u64) -> bool {
        match self.state(member) {
            MemberState::Active => true,
            MemberState::Failed => false,
            MemberState::Rebuilding => window < self.rebuilt_windows(),
        }
    }

    /// The members that hold what they should of a window, one bit each.
    pub(super) fn usable_members(&self, window: u64) -> u64 {
        (0..self.shape.members)
            .filter(|m| self.usable(*m, window))
            .fold(0, |mask, m| mask | 1 << m)
    }

    pub(super) fn rebuilt_windows(&self) -> u64 {
        // Acquire: with the Release of `set_rebuilt`: a reader without the lock sees the window's data.
        self.rebuilt_windows.load(Ordering::Acquire)
    }

    pub(super) fn set_rebuilt(&self, windows: u64) {
        // Release: with the Acquire of `rebuilt_windows`.
        self.rebuilt_windows.store(windows, Ordering::Release);
    }

    /// Locks a window if nobody has it.
    pub(super) fn try_lock(self: &Arc<Self>, window: u64) -> Option<WindowGuard> {
        let index = (window % LOCKS) as usize;
        // Acquire: with the Release of the guard's drop.
        let taken = self.locks[index].swap(true, Ordering::Acquire);
        (!taken).then(|| WindowGuard {
            shared: self.clone(),
            index,
        })
    }

    /// Locks a window, for a thread that has nothing else to do meanwhile.
    pub(super) fn lock(self: &Arc<Self>, window: u64) -> WindowGuard {
        loop {
            if let Some(guard) = self.try_lock(window) {
                return guard;
            }
            std::thread::yield_now();
        }
    }

    /// Leaves a member out: the others have it in their superblocks when this returns. An error if it cannot be spared,
    /// or cannot be written down as left out; the array is broken then.
    pub(super) fn fail(&self, member: u32, error: IoError) -> Result<(), IoError> {
        let mut admin = self.admin();
        let mut states = self.states();
        if states[member as usize] == MemberState::Failed {
            return Ok(());
        }
        if !tolerates_without(self.shape.level, &states, member) {
            self.set_broken();
            return Err(error);
        }
        states[member as usize] = MemberState::Failed;
        self.write_superblocks(&mut admin, states)
    }

    fn set_broken(&self) {
        // Relaxed: it protects nothing, and the thread that sets it acknowledges nothing.
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether writes and flushes are refused until the array is opened again, which mends it. After a failure where no
    /// member could be spared, redundancy may disagree, a member may have lost what it had not flushed, and what
    /// superblocks say may be ahead of what is known here.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// An error if the array is broken.
    pub(super) fn check_intact(&self, op: Op) -> Result<(), IoError> {
        let (offset, errno) = (0, Errno::IO);
        match self.is_broken() {
            true => Err(IoError { op, offset, errno }),
            false => Ok(()),
        }
    }

    pub(super) fn admin(&self) -> MutexGuard<'_, Admin> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The superblock of a member where members stand like this.
    pub(super) fn superblock(
        &self,
        admin: &Admin,
        states: &[MemberState],
        member: u32,
    ) -> Superblock {
        Superblock {
            uuid: self.uuid,
            member,
            shape: self.shape,
            event: admin.event,
            session: admin.session,
            settled_event: admin.settled.0,
            settled_session: admin.settled.1,
            joined: admin.joined[member as usize],
            epoch: admin.epoch,
            clean: admin.clean,
            states: states.to_vec(),
            rebuilt_windows: admin.rebuilt_windows,
        }
    }

    /// Writes the superblocks of all members that are not to be left out; when they are durable, members stand as
    /// `states` says. One that cannot be written is left out too, and they are written again.
    pub(super) fn write_superblocks(
        &self,
        admin: &mut Admin,
        mut states: Vec<MemberState>,
    ) -> Result<(), IoError> {
        self.check_intact(Op::Write)?;
        while let Err((member, error)) = self.settle(admin, &states) {
            if !tolerates_without(self.shape.level, &states, member) {
                self.set_broken();
                return Err(error);
            }
            states[member as usize] = MemberState::Failed;
        }
        self.set_states(&states);
        Ok(())
    }

    /// Tells all members in use how members stand, then that all of them were told. Nobody acts on the first before the
    /// second is durable; so a member that lacks the first was away meanwhile.
    fn settle(&self, admin: &mut Admin, states: &[MemberState]) -> Result<(), (u32, IoError)> {
        self.try_superblocks(admin, states)?;
        admin.settled = (admin.event, admin.session);
        self.try_superblocks(admin, states)
    }

    /// Writes superblocks once, up to the first member that cannot be written.
    fn try_superblocks(
        &self,
        admin: &mut Admin,
        states: &[MemberState],
    ) -> Result<(), (u32, IoError)> {
        admin.event += 1;
        for (member, state) in (0..).zip(states) {
            if *state != MemberState::Failed {
                let superblock = self.superblock(admin, states, member);
                self.way_io(member, |way| superblock.write(way))
                    .map_err(|error| (member, error))?;
            }
        }
        Ok(())
    }

    /// Does something by a channel to a member.
    pub(super) fn way_io<T>(
        &self,
        member: u32,
        run: impl FnOnce(&mut Blocking) -> Result<T, IoError>,
    ) -> Result<T, IoError> {
        let mut way = self.way(member).map_err(|_| absent(Op::Write, 0))?;
        run(&mut way)
    }

    /// Makes what all members hold durable.
    pub(super) fn flush_members(&self) -> Result<(), IoError> {
        for member in 0..self.shape.members {
            if self.state(member) == MemberState::Failed {
                continue;
            }
            if let Err(error) = self.way_io(member, Blocking::flush) {
                self.fail(member, error)?;
            }
        }
        Ok(())
    }

    /// Makes everything durable in its place and begins another epoch, so that no record counts any more. The
    /// caller has made sure that no record is in use. Gives the epoch.
    pub(super) fn checkpoint(&self, clean: bool) -> Result<u64, IoError> {
        self.check_intact(Op::Flush)?;
        self.flush_members()?;
        let mut admin = self.admin();
        admin.epoch += 1;
        admin.clean = clean;
        self.write_superblocks(&mut admin, self.states())?;
        Ok(admin.epoch)
    }

    /// Gives a member that has failed another target, from whose start it will be rebuilt. Waits for the windows that
    /// are locked: who locked one before the member failed may still count on it.
    pub(super) fn replace(
        self: &Arc<Self>,
        member: u32,
        target: Arc<dyn Target>,
    ) -> Result<(), IoError> {
        (0..LOCKS).for_each(|window| drop(self.lock(window)));
        if self.shape.level == Level::Raid5 {
            // The target may be the same as before, with records from before the member failed.
            self.journal.stop();
            self.journal.turned(self.checkpoint(false))?;
        }
        let mut admin = self.admin();
        if self.states().contains(&MemberState::Rebuilding) {
            // Another thread was first, and there is one mark of what is filled.
            let (op, offset, errno) = (Op::Write, 0, Errno::BUSY);
            return Err(IoError { op, offset, errno });
        }
        admin.joined[member as usize] = admin.event + 1;
        admin.rebuilt_windows = 0;
        self.set_rebuilt(0);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members[member as usize] = Some(target);
        drop(members);
        // Release: with the Acquire of `generation`.
        self.generation[member as usize].fetch_add(1, Ordering::Release);
        let mut states = self.states();
        states[member as usize] = MemberState::Rebuilding;
        self.write_superblocks(&mut admin, states)?;
        match self.state(member) {
            MemberState::Failed => Err(absent(Op::Write, 0)),
            _ => Ok(()),
        }
    }

    /// Writes down that a member holds so many windows, which it holds durably.
    pub(super) fn save_rebuilt(&self, windows: u64) -> Result<(), IoError> {
        let mut admin = self.admin();
        admin.rebuilt_windows = windows;
        self.write_superblocks(&mut admin, self.states())
    }

    /// A member holds all it should.
    pub(super) fn activate(&self, member: u32) -> Result<(), IoError> {
        let mut admin = self.admin();
        let mut states = self.states();
        states[member as usize] = MemberState::Active;
        self.write_superblocks(&mut admin, states)
    }

    /// Marks the windows from here on as written to, durably, before they are.
    pub(super) fn intend(&self, window: u64) -> Result<(), IoError> {
        let mut intent = self.intent.lock().unwrap_or_else(PoisonError::into_inner);
        if !intent.set(window) {
            return Ok(());
        }
        if let Err(error) = self.write_intent(&intent) {
            intent.unset(window);
            return Err(error);
        }
        Ok(())
    }

    /// Writes the write-intent map to all members but the failed ones.
    pub(super) fn write_intent(&self, intent: &Intent) -> Result<(), IoError> {
        for member in 0..self.shape.members {
            if self.state(member) == MemberState::Failed {
                continue;
            }
            if let Err(error) = self.way_io(member, |way| intent.write(way)) {
                self.fail(member, error)?;
            }
        }
        Ok(())
    }
}

/// Whether all is still there without one more member.
fn tolerates_without(level: Level, states: &[MemberState], member: u32) -> bool {
    let active = |m: u32| states[m as usize] == MemberState::Active;
    match level {
        Level::Raid0 => false,
        Level::Raid5 => (0..states.len() as u32).all(|m| m == member || active(m)),
        Level::Raid10 => active(member ^ 1),
    }
}

/// A window that nobody else changes.
pub(super) struct WindowGuard {
    shared: Arc<Shared>,
    index: usize,
}

impl Drop for WindowGuard {
    fn drop(&mut self) {
        // Release: with the Acquire of `try_lock`.
        self.shared.locks[self.index].store(false, Ordering::Release);
    }
}
