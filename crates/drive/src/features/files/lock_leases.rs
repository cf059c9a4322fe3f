//! Leases of locks: hosts that grant themselves the locks of a file, as long as they alone have any.
//!
//! Problem: programs that lock a file around all that they do with it send as many commands for locks as for everything else, though
//! nearly always nobody else is there. To ask such a host for its locks when another one comes, and to wait for its answer, would put
//! everybody into its hands.
//!
//! Idea: the host keeps the locks that it grants in memory that the drive reaches (`wharf_wire::file::lock_area`), and the drive
//! *takes* them, whatever becomes of the host.
//!
//! 1. One host has the lease of a file's locks, and nobody else a lock of it, nor waits for one ([`LockLeases::grant`]). What the host has
//!    in the table it is told with the lease, as it may have asked for some of it at the same time, and does not know in which order.
//! 2. Whoever is about to look at the file's locks in the table, or to change them, has the drive [settle](LockLeases::settle) them first:
//!    the lease ends, and what the host has granted takes the place of what the table says of it. There is no wait between
//!    that and the look.
//! 3. While that is under way all others who want the locks wait.
//! 4. When a host leaves, or its process is gone, its leases end, and its locks with them ([`LockLeases::host_leaves`]).
//!
//! What a host has granted takes effect when it says so in its memory, and by then its lease lasted; so whoever began to look at
//! the locks later finds it. A host that says that it is amid a change holds others up for a limited time, and then the change
//! has not taken effect, which the host finds. What it says is looked at once, and checked.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use wharf_files::locks::{Lock, LockSpace};
use wharf_wire::dma::DmaArea;
use wharf_wire::file::lock_area::{
    LOCKS, OwnLock, PLACES, Told, Words, lease_word, locks_at, state_word, stop,
};
use zerocopy::{FromBytes, IntoBytes};

use super::locks::Locks;
use super::writers::still;

/// See the [module](self).
#[derive(Default)]
pub(super) struct LockLeases(RefCell<State>);

#[derive(Default)]
struct State {
    /// By the numbers of the files.
    files: FxHashMap<u64, Lease>,
    /// The files, by the hosts and their places.
    places: FxHashMap<(u32, usize), u64>,
}

/// A lease that is given.
pub(super) struct LockGrant {
    pub(super) host: u32,
    pub(super) area: DmaArea,
    pub(super) place: usize,
    /// Its number.
    pub(super) lease: u64,
    /// Whether its handle may read, and write.
    pub(super) may: (bool, bool),
}

struct Lease {
    grant: Rc<LockGrant>,
    /// It has ended for the host, and its locks are being taken.
    is_stopping: bool,
    /// Those who wait for that.
    waiting: Vec<Waker>,
}

/// What one who wants the locks of a file has to do.
enum Turn {
    Nothing,
    Wait,
    Take(Rc<LockGrant>),
}

impl LockLeases {
    /// The file whose lease a host has by a place.
    pub(super) fn of_place(&self, host: u32, place: usize) -> Option<u64> {
        self.0.borrow().places.get(&(host, place)).copied()
    }

    /// Gives the lease of the locks of a file, of which nobody else has any, and tells the host which ones are its `own`.
    pub(super) fn grant(&self, number: u64, grant: LockGrant, own: &[OwnLock]) {
        let (side, locks) = (0, own.len());
        let at = locks_at(grant.place, side);
        grant.area.copy_in(at, own.as_bytes());
        let told = Told { side, locks };
        grant.area.tell(state_word(grant.place), told.raw());
        grant.area.tell(lease_word(grant.place), grant.lease);
        let state = &mut *self.0.borrow_mut();
        state.places.insert((grant.host, grant.place), number);
        let lease = Lease {
            grant: Rc::new(grant),
            is_stopping: false,
            waiting: Vec::new(),
        };
        let before = state.files.insert(number, lease);
        assert!(before.is_none(), "one host grants the locks of a file");
    }

    /// Has all locks of a file in the table; nobody has a lease of them then, until there is a wait.
    pub(super) async fn settle(&self, locks: &Locks, number: u64) {
        loop {
            match self.turn(number) {
                Turn::Nothing => return,
                Turn::Wait => self.ended(number).await,
                Turn::Take(grant) => {
                    still(&grant.area, grant.place).await;
                    // If the host is gone meanwhile its memory may be another's.
                    if self.end(number, grant.lease) {
                        locks.replace(number, grant.host, &grant.own_locks());
                    }
                }
            }
        }
    }

    fn turn(&self, number: u64) -> Turn {
        let state = &mut *self.0.borrow_mut();
        let Some(lease) = state.files.get_mut(&number) else {
            return Turn::Nothing;
        };
        if lease.is_stopping {
            return Turn::Wait;
        }
        lease.is_stopping = true;
        stop(&lease.grant.area, lease.grant.place);
        Turn::Take(lease.grant.clone())
    }

    /// A lease ends; false if it had ended already.
    fn end(&self, number: u64, lease: u64) -> bool {
        let state = &mut *self.0.borrow_mut();
        let found = state.files.get(&number);
        if found.is_none_or(|found| found.grant.lease != lease) {
            return false;
        }
        state.forget(number);
        true
    }

    /// Waits until the locks of a file that are being taken are taken.
    async fn ended(&self, number: u64) {
        let mut is_noted = false;
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            match state.files.get_mut(&number) {
                Some(lease) if lease.is_stopping && !is_noted => {
                    is_noted = true;
                    lease.waiting.push(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// A host leaves, or is gone: what it has granted goes with it.
    pub(super) fn host_leaves(&self, host: u32) {
        let state = &mut *self.0.borrow_mut();
        for place in 0..PLACES {
            if let Some(number) = state.places.get(&(host, place)).copied() {
                stop(&state.files[&number].grant.area, place);
                state.forget(number);
            }
        }
    }
}

impl State {
    fn forget(&mut self, number: u64) {
        if let Some(Lease { grant, waiting, .. }) = self.files.remove(&number) {
            self.places.remove(&(grant.host, grant.place));
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl LockGrant {
    /// What the host has of the file, each with its space. One that says what no host may say has nothing.
    fn own_locks(&self) -> Vec<(LockSpace, Lock)> {
        let mut locks = Vec::new();
        let Some(told) = Told::from_raw(self.area.look(state_word(self.place))) else {
            return locks;
        };
        let mut bytes = [0; LOCKS * size_of::<OwnLock>()];
        let bytes = &mut bytes[..told.locks * size_of::<OwnLock>()];
        self.area
            .copy_out(locks_at(self.place, told.side), &mut *bytes);
        for own in bytes.chunks_exact(size_of::<OwnLock>()) {
            let own = OwnLock::read_from_bytes(own).expect("it has as many bytes");
            locks.extend(self.checked(&own));
        }
        locks
    }

    /// Locks that the host has, as it is told of them; none if they are more than it can be told of, or some that it may not have by
    /// this lease.
    pub(super) fn tell(&self, own: &[(LockSpace, Lock)]) -> Option<Vec<OwnLock>> {
        let may = |(space, lock): &(LockSpace, Lock)| lock.kind.may_be_had(*space, self.may);
        let may = own.len() <= LOCKS && own.iter().all(may);
        may.then(|| own.iter().map(|(space, lock)| lock.told(*space)).collect())
    }

    /// A lock, if a command would have given it.
    fn checked(&self, own: &OwnLock) -> Option<(LockSpace, Lock)> {
        let (space, lock) = Lock::of_told(own, self.host)?;
        let may = lock.kind.may_be_had(space, self.may);
        may.then_some((space, lock))
    }
}
