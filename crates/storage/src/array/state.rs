//! What the threads of an array share: its members, how they stand, and the locks.
//!
//! A member that fails is written down on the others *before* any write counts as done without it, so that it is
//! found stale when it comes back.

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
    /// A write failed where no member could be spared: parity may disagree until the journal is replayed.
    broken: AtomicBool,
    locks: Box<[AtomicBool]>,
    admin: Mutex<Admin>,
}

/// What superblocks say beside the members' states.
pub(super) struct Admin {
    pub(super) event: u64,
    pub(super) epoch: u64,
    pub(super) clean: bool,
    /// Windows of the member being rebuilt that are durable there.
    pub(super) rebuilt_windows: u64,
}

impl Shared {
    /// An array as `superblock` describes it, with the targets that are there.
    pub(super) fn new(
        info: TargetInfo,
        superblock: &Superblock,
        members: Vec<Option<Arc<dyn Target>>>,
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

    fn set_state(&self, member: u32, state: MemberState) {
        // Release: with the Acquire of `state`.
        self.status[member as usize].store(state as u32, Ordering::Release);
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

    /// Whether all is still there without one more member.
    pub(super) fn tolerates_without(&self, member: u32) -> bool {
        let active = |m: u32| self.state(m) == MemberState::Active;
        match self.shape.level {
            Level::Raid0 => false,
            Level::Raid5 => (0..self.shape.members).all(|m| m == member || active(m)),
            Level::Raid10 => active(member ^ 1),
        }
    }

    /// Leaves a member out, and writes that down on the others. An error if it cannot be spared.
    pub(super) fn fail(&self, member: u32, error: IoError) -> Result<(), IoError> {
        let mut admin = self.admin();
        if self.state(member) == MemberState::Failed {
            return Ok(());
        }
        if !self.tolerates_without(member) {
            return Err(error);
        }
        self.set_state(member, MemberState::Failed);
        self.write_superblocks(&mut admin)
    }

    /// Refuses all further writes: see [`Shared::is_broken`].
    pub(super) fn set_broken(&self) {
        // Relaxed: it protects nothing, and the thread that sets it has refused its own write.
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether writes are refused until the array is opened again, which replays the journal.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(super) fn admin(&self) -> MutexGuard<'_, Admin> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The superblock of a member as things stand.
    pub(super) fn superblock(&self, admin: &Admin, member: u32) -> Superblock {
        Superblock {
            uuid: self.uuid,
            member,
            shape: self.shape,
            event: admin.event,
            epoch: admin.epoch,
            clean: admin.clean,
            states: (0..self.shape.members).map(|m| self.state(m)).collect(),
            rebuilt_windows: admin.rebuilt_windows,
        }
    }

    /// Writes the superblocks of all members but the failed ones. One that cannot be written fails too, and
    /// they are written again.
    pub(super) fn write_superblocks(&self, admin: &mut Admin) -> Result<(), IoError> {
        'again: loop {
            admin.event += 1;
            for member in 0..self.shape.members {
                if self.state(member) == MemberState::Failed {
                    continue;
                }
                let superblock = self.superblock(admin, member);
                if let Err(error) = self.way_io(member, |way| superblock.write(way)) {
                    if !self.tolerates_without(member) {
                        return Err(error);
                    }
                    self.set_state(member, MemberState::Failed);
                    continue 'again;
                }
            }
            return Ok(());
        }
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
        if self.is_broken() {
            return Err(IoError {
                op: Op::Flush,
                offset: 0,
                errno: Errno::IO,
            });
        }
        self.flush_members()?;
        let mut admin = self.admin();
        admin.epoch += 1;
        admin.clean = clean;
        self.write_superblocks(&mut admin)?;
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
        let mut admin = self.admin();
        admin.rebuilt_windows = 0;
        self.set_rebuilt(0);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members[member as usize] = Some(target);
        drop(members);
        // Release: with the Acquire of `generation`.
        self.generation[member as usize].fetch_add(1, Ordering::Release);
        self.set_state(member, MemberState::Rebuilding);
        self.write_superblocks(&mut admin)
    }

    /// Writes down that a member holds so many windows, which it holds durably.
    pub(super) fn save_rebuilt(&self, windows: u64) -> Result<(), IoError> {
        let mut admin = self.admin();
        admin.rebuilt_windows = windows;
        self.write_superblocks(&mut admin)
    }

    /// A member holds all it should.
    pub(super) fn activate(&self, member: u32) -> Result<(), IoError> {
        let mut admin = self.admin();
        self.set_state(member, MemberState::Active);
        self.write_superblocks(&mut admin)
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
