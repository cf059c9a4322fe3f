//! Locks of files that this process grants to its own owners, while nobody else has any of the file.
//!
//! `wharf_wire::file::lock_area` says what lies where, and who may do what when. Here is the host's side: a table of what this
//! process has locked of the files whose locks it may change without a command. The table is the drive's own
//! (`wharf_files::locks`), so a lock that is granted here is one that the drive would have granted.
//!
//! 1. The second lock of a file asks the drive for a lease of its locks. None is given while another process has one, or waits for one.
//! 2. With the lease the drive tells what this process has of the file: threads may have sent commands in any order.
//! 3. Under the lease, a change is made to the table, and told in the memory that the drive takes it from. If the lease has ended
//!    by then, a command is sent, and what the table has of the file means nothing.

use wharf_files::locks::{
    Lock, LockAsk, LockError, LockLimits, LockOwner, LockPlace, LockRange, LockSpace, LockTable,
};
use wharf_host::stor::{HeldLock, LockRequest};
use wharf_wire::dma::{DmaArea, DmaRegion};
use wharf_wire::file::lock_area::{
    AREA_PAGES, LOCKS, OwnLock, PLACES, Told, Words, begin, end, locks_at, state_word,
};
use zerocopy::IntoBytes;

use super::pause::Pause;
use super::places::{Places, Wanted};

/// A lease that was of use for fewer locks is a reason to wait longer for the next.
const USES_MIN: u32 = 4;

/// Locks by commands before the first lease of a file is asked for.
const LOCKS_BEFORE: u32 = 1;

/// This process, in a table that knows no other.
const OWN: u32 = 0;

/// Pages of the area.
pub(super) const PAGES: usize = AREA_PAGES;

/// What the handle by which something is locked may do: read, and write.
pub(in crate::files) type May = (bool, bool);

/// What is done with locks of a file.
#[derive(Debug, Clone, Copy)]
pub(in crate::files) enum Change<'a> {
    /// One is to be had.
    Lock(&'a LockRequest),
    /// An owner gives back a range.
    Unlock(u64, LockSpace, LockRange),
    /// An owner gives back all.
    Release(u64, LockSpace),
}

/// See the [module](self).
pub(super) struct Granted {
    area: DmaArea,
    places: Places,
    /// Of each place what its handle may do, and what the drive was told last.
    told: [(May, u64); PLACES],
    /// What this process has of files with leases; of others what it had once.
    table: LockTable,
    /// The number by which the drive knows this process, once it has been told.
    session: Option<u32>,
    /// Locks of the file that is changed, before and after.
    before: Vec<OwnLock>,
    after: Vec<OwnLock>,
}

impl Granted {
    /// With the pages of a region from page `first` on.
    pub(super) fn new(region: &DmaRegion, first: usize) -> Granted {
        let (area, address) = region.area(first, PAGES);
        // The drive has limits; a process has what it has.
        let all = LockLimits {
            locks: usize::MAX,
            waits: 0,
            waits_in_all: 0,
        };
        Granted {
            area,
            places: Places::new(address, USES_MIN),
            told: [((false, false), 0); PLACES],
            table: LockTable::new(all),
            session: None,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// The lease of a file's locks that is to be asked for; none if there is one, or if it is no time for it.
    pub(super) fn ask(&mut self, number: u64) -> Option<Wanted> {
        if self.places.valid(&self.area, number).is_some() {
            return None;
        }
        self.places.ask(&self.area, number, Pause::of(LOCKS_BEFORE))
    }

    /// What was answered to who has a handle that may do so much.
    pub(super) fn answered(&mut self, wanted: Wanted, lease: u64, may: May) {
        let Some(place) = self.places.answered(wanted, lease) else {
            return;
        };
        let state = self.area.look(state_word(place));
        self.told[place] = (may, state);
        // If the lease has ended meanwhile nobody looks at this.
        self.before.clear();
        if let Some(Told { side, locks }) = Told::from_raw(state) {
            self.before.resize(locks, OwnLock::default());
            self.area
                .copy_out(locks_at(place, side), self.before.as_mut_bytes());
        }
        restore(&mut self.table, wanted.number, &self.before);
    }

    /// Makes a change under a lease; none if it takes a command.
    pub(super) fn change(
        &mut self,
        number: u64,
        change: Change<'_>,
    ) -> Option<Result<(), LockError>> {
        let place = self.places.valid(&self.area, number)?;
        let (may, told) = self.told[place];
        if let Change::Lock(request) = change
            && !request.kind.may_be_had(request.space, may)
        {
            return None;
        }
        if !begin(&self.area, place, self.places.lease(place), told) {
            return None;
        }
        list(&self.table, number, &mut self.before);
        let done = apply(&mut self.table, number, change);
        list(&self.table, number, &mut self.after);
        let next = match self.after == self.before {
            true => Some(told),
            false => self.tell(place, told),
        };
        // If it has more than there is room for, the drive takes what it had before, and the change is a command.
        let is_done = end(&self.area, place, told, next.unwrap_or(told)) && next.is_some();
        if !is_done {
            restore(&mut self.table, number, &self.before);
            return None;
        }
        self.told[place].1 = next.unwrap_or(told);
        self.places.uses(place);
        Some(done)
    }

    /// Puts all locks of the file at a place where the drive looks for them if it is told the state that this gives; none if they are too
    /// many.
    fn tell(&self, place: usize, told: u64) -> Option<u64> {
        let side = 1 - Told::from_raw(told)?.side;
        let locks = self.after.len();
        if locks > LOCKS {
            return None;
        }
        self.area
            .copy_in(locks_at(place, side), self.after.as_bytes());
        Some(Told { side, locks }.raw())
    }

    /// The first lock that is in the way of one, if there is any; none if that takes a command.
    pub(super) fn test(&mut self, number: u64, request: &LockRequest) -> Option<Option<HeldLock>> {
        let place = self.places.valid(&self.area, number)?;
        let found = match self.table.test(&ask_of(number, request)) {
            None => None,
            Some(lock) => Some(HeldLock {
                owner: lock.owner.id,
                session: self.session?,
                is_own: true,
                range: lock.range,
                kind: lock.kind,
            }),
        };
        self.places.uses(place);
        Some(found)
    }

    /// The drive has said which lock is in the way.
    pub(super) fn learn(&mut self, found: &HeldLock) {
        if found.is_own {
            self.session = Some(found.session);
        }
    }
}

fn of(file: u64, space: LockSpace) -> LockPlace {
    LockPlace { file, space }
}

fn own(id: u64) -> LockOwner {
    LockOwner { session: OWN, id }
}

fn ask_of(number: u64, request: &LockRequest) -> LockAsk {
    LockAsk {
        place: of(number, request.space),
        owner: own(request.owner),
        range: request.range,
        kind: request.kind,
        detects: false,
    }
}

fn apply(table: &mut LockTable, number: u64, change: Change<'_>) -> Result<(), LockError> {
    match change {
        Change::Lock(request) => table.lock(&ask_of(number, request)),
        Change::Unlock(owner, space, range) => table.unlock(of(number, space), own(owner), range),
        Change::Release(owner, space) => {
            table.release_owner(of(number, space), own(owner));
            Ok(())
        }
    }
}

/// All locks of a file, as the drive is told of them.
fn list(table: &LockTable, number: u64, locks: &mut Vec<OwnLock>) {
    locks.clear();
    let own = table.of_file(number, OWN);
    locks.extend(own.map(|(space, lock)| lock.told(space)));
}

/// The file has the locks again that it had.
fn restore(table: &mut LockTable, number: u64, locks: &[OwnLock]) {
    let own = locks.iter().filter_map(|told| Lock::of_told(told, OWN));
    let own: Vec<(LockSpace, Lock)> = own.collect();
    table.replace_of_file(number, OWN, &own);
}
