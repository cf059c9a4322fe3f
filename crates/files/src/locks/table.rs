//! The locks of all files, with limits, and who waits for whom.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{FileLocks, Waiter};
use super::owned::Piece;
use super::range::LockRange;
use super::{Lock, LockError, LockKind, LockOwner, LockPlace, LockSpace};

/// How much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockLimits {
    /// Locks of a session. Ranges that touch and are of one kind are one.
    pub locks: usize,
    /// Waits of a session.
    pub waits: usize,
    /// Waits of all sessions.
    pub waits_in_all: usize,
}

/// A lock that somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockAsk {
    /// Where.
    pub place: LockPlace,
    /// For whom.
    pub owner: LockOwner,
    /// Which bytes; a whole-file lock is of all, whatever this says.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
    /// A wait that would never end is refused, and this one is known to others that want the same.
    pub detects: bool,
}

impl LockAsk {
    /// The bytes that it is about.
    fn range(&self) -> LockRange {
        range_in(self.place, self.range)
    }
}

/// What became of an ask that may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It has the lock.
    Locked,
    /// It is in line.
    Waits,
}

/// A wait that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Which one.
    pub ticket: u32,
    /// Whether it got its lock. If not, its session has as many as it may have.
    pub result: Result<(), LockError>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    locks: usize,
    waits: usize,
}

/// See [the module](super).
#[derive(Debug)]
pub struct LockTable {
    limits: LockLimits,
    files: BTreeMap<LockPlace, FileLocks>,
    sessions: BTreeMap<u32, Counts>,
    /// Where those in line wait, by their tickets.
    tickets: BTreeMap<u32, LockPlace>,
    ended: Vec<Ended>,
}

impl LockTable {
    /// Without locks.
    pub fn new(limits: LockLimits) -> LockTable {
        LockTable {
            limits,
            files: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tickets: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Gives an owner a lock, if it can have it now.
    ///
    /// # Errors
    /// [`LockError::Held`]; [`LockError::NoRoom`].
    pub fn lock(&mut self, ask: &LockAsk) -> Result<(), LockError> {
        let locked = self.try_lock(ask);
        self.serve_line(ask.place, ask.owner);
        locked
    }

    /// Gives an owner a lock, or puts it in line. `ticket` is the wait's name in all that follows: no other
    /// wait has it.
    ///
    /// # Errors
    /// [`LockError::Deadlock`], if that is looked for; [`LockError::NoRoom`].
    pub fn lock_or_wait(&mut self, ask: &LockAsk, ticket: u32) -> Result<Asked, LockError> {
        let asked = match self.try_lock(ask) {
            Ok(()) => Ok(Asked::Locked),
            Err(LockError::Held(lock)) => self.wait(ask, ticket, lock.owner),
            Err(error) => Err(error),
        };
        self.serve_line(ask.place, ask.owner);
        asked
    }

    fn try_lock(&mut self, ask: &LockAsk) -> Result<(), LockError> {
        let (range, kind) = (ask.range(), ask.kind);
        let file = self.files.entry(ask.place).or_default();
        let turns =
            ask.place.space == LockSpace::Whole && !file.has(ask.owner, Piece { range, kind });
        if turns {
            self.take_owners(ask.place, |who| who == ask.owner);
        }
        let held = self.conflicts(ask).next();
        match held {
            Some(lock) => Err(LockError::Held(lock)),
            None => self.set(ask.place, ask.owner, range, Some(kind)),
        }
    }

    fn wait(&mut self, ask: &LockAsk, ticket: u32, blocker: LockOwner) -> Result<Asked, LockError> {
        if ask.detects && self.would_never_end(ask) {
            return Err(LockError::Deadlock);
        }
        let counts = self.sessions.entry(ask.owner.session).or_default();
        if counts.waits >= self.limits.waits || self.tickets.len() >= self.limits.waits_in_all {
            return Err(LockError::NoRoom);
        }
        counts.waits += 1;
        let before = self.tickets.insert(ticket, ask.place);
        assert!(before.is_none(), "no two waits have one ticket");
        let file = self.files.entry(ask.place).or_default();
        file.line.push(Waiter {
            ticket,
            owner: ask.owner,
            range: ask.range(),
            kind: ask.kind,
            detects: ask.detects,
            blocker,
        });
        Ok(Asked::Waits)
    }

    /// Takes an owner's lock of a range away.
    ///
    /// # Errors
    /// [`LockError::NoRoom`], if a lock is split and its owner may have no more. Nothing has changed then.
    pub fn unlock(
        &mut self,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
    ) -> Result<(), LockError> {
        let unlocked = match self.files.contains_key(&place) {
            true => self.set(place, owner, range_in(place, range), None),
            false => Ok(()),
        };
        self.serve_line(place, owner);
        unlocked
    }

    /// The first lock that is in the way of one that is asked for.
    pub fn test(&self, ask: &LockAsk) -> Option<Lock> {
        self.conflicts(ask).next()
    }

    /// Takes all locks of an owner in a place away. Its waits go on.
    pub fn release_owner(&mut self, place: LockPlace, owner: LockOwner) {
        self.take_owners(place, |who| who == owner);
        self.serve_line(place, owner);
    }

    /// Takes an owner's waits for exactly this range out of the line; gives their tickets.
    pub fn withdraw(&mut self, place: LockPlace, owner: LockOwner, range: LockRange) -> Vec<u32> {
        let range = range_in(place, range);
        self.take_waiters(place, |waiter| {
            waiter.owner == owner && waiter.range == range
        })
    }

    /// Takes a wait out of the line; false if it is over.
    pub fn withdraw_ticket(&mut self, ticket: u32) -> bool {
        let place = self.tickets.get(&ticket).copied();
        let taken = place.map(|place| self.take_waiters(place, |waiter| waiter.ticket == ticket));
        taken.is_some_and(|tickets| !tickets.is_empty())
    }

    /// A session has ended: takes all its locks, and its waits, whose tickets it gives.
    pub fn end_session(&mut self, session: u32) -> Vec<u32> {
        let mut tickets = Vec::new();
        if !self.sessions.contains_key(&session) {
            return tickets;
        }
        let places: Vec<LockPlace> = self.files.keys().copied().collect();
        for place in places {
            tickets.extend(self.take_waiters(place, |waiter| waiter.owner.session == session));
            let gone = self.take_owners(place, |who| who.session == session);
            self.serve_line_of(place, gone);
        }
        tickets
    }

    /// Whether nobody but this session has or waits for anything in a place, and this one waits for nothing.
    pub fn is_alone(&self, place: LockPlace, session: u32) -> bool {
        let file = self.files.get(&place);
        file.is_none_or(|file| file.line.is_empty() && file.is_of(session))
    }

    /// All locks of a session in a place, owner by owner.
    pub fn of_session(&self, place: LockPlace, session: u32) -> impl Iterator<Item = Lock> {
        let file = self.files.get(&place).into_iter();
        let locks = file.flat_map(FileLocks::locks);
        locks.filter(move |lock| lock.owner.session == session)
    }

    /// Puts other locks in the place of all that a session has in a place, in one step. What is in the way of another is left out;
    /// it is not looked at how many there are.
    pub fn replace(&mut self, place: LockPlace, session: u32, locks: &[Lock]) {
        let mut changed = self.take_owners(place, |who| who.session == session);
        for lock in locks {
            let ask = LockAsk {
                place,
                owner: lock.owner,
                range: lock.range,
                kind: lock.kind,
                detects: false,
            };
            if lock.owner.session == session && self.conflicts(&ask).next().is_none() {
                self.set_beyond(place, lock.owner, ask.range(), Some(lock.kind), usize::MAX)
                    .expect("it may have any number");
                changed.push(lock.owner);
            }
        }
        self.serve_line_of(place, changed);
        self.tidy_session(session);
    }

    /// Takes the waits that are over because others gave something back, in the order in which they ended.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// How many wait.
    pub fn waits(&self) -> usize {
        self.tickets.len()
    }

    fn conflicts(&self, ask: &LockAsk) -> impl Iterator<Item = Lock> {
        let file = self.files.get(&ask.place).into_iter();
        let (owner, range, kind) = (ask.owner, ask.range(), ask.kind);
        file.flat_map(move |file| file.conflicts(owner, range, kind))
    }

    /// Changes what an owner has.
    fn set(
        &mut self,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
        kind: Option<LockKind>,
    ) -> Result<(), LockError> {
        self.set_beyond(place, owner, range, kind, self.limits.locks)
    }

    /// The same, whose session may have so many locks.
    fn set_beyond(
        &mut self,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
        kind: Option<LockKind>,
        most: usize,
    ) -> Result<(), LockError> {
        let file = self.files.entry(place).or_default();
        let change = file.change(owner, range, kind);
        let counts = self.sessions.entry(owner.session).or_default();
        let locks = counts.locks.saturating_add_signed(change.growth());
        if change.growth() > 0 && locks > most {
            return Err(LockError::NoRoom);
        }
        counts.locks = locks;
        file.apply(owner, change);
        Ok(())
    }

    fn take_owners(
        &mut self,
        place: LockPlace,
        goes: impl Fn(LockOwner) -> bool,
    ) -> Vec<LockOwner> {
        let Some(file) = self.files.get_mut(&place) else {
            return Vec::new();
        };
        let gone = file.take_owners(goes);
        for (owner, locks) in &gone {
            self.sessions.entry(owner.session).or_default().locks -= locks;
        }
        gone.into_iter().map(|(owner, _)| owner).collect()
    }

    fn take_waiters(&mut self, place: LockPlace, goes: impl Fn(&Waiter) -> bool) -> Vec<u32> {
        let Some(file) = self.files.get_mut(&place) else {
            return Vec::new();
        };
        let gone = file.take_waiters(goes);
        for waiter in &gone {
            self.forget_wait(waiter);
        }
        self.tidy(place);
        gone.into_iter().map(|waiter| waiter.ticket).collect()
    }

    fn forget_wait(&mut self, waiter: &Waiter) {
        self.tickets.remove(&waiter.ticket);
        let counts = self.sessions.entry(waiter.owner.session).or_default();
        counts.waits -= 1;
        self.tidy_session(waiter.owner.session);
    }

    fn serve_line(&mut self, place: LockPlace, changed: LockOwner) {
        self.serve_line_of(place, vec![changed]);
        self.tidy_session(changed.session);
    }

    /// Those in line get their locks whose conflict is gone, now that these owners have others than before.
    fn serve_line_of(&mut self, place: LockPlace, mut changed: Vec<LockOwner>) {
        while let Some(file) = self.files.get_mut(&place)
            && let Some(waiter) = file.next_in_line(&changed)
        {
            let Waiter { ticket, owner, .. } = waiter;
            let result = self.set(place, owner, waiter.range, Some(waiter.kind));
            self.ended.push(Ended { ticket, result });
            self.forget_wait(&waiter);
            // It may have turned an exclusive lock of its own into a shared one.
            if !changed.contains(&owner) {
                changed.push(owner);
            }
        }
        self.tidy(place);
        for owner in changed {
            self.tidy_session(owner.session);
        }
    }

    fn tidy(&mut self, place: LockPlace) {
        if self.files.get(&place).is_some_and(FileLocks::is_empty) {
            self.files.remove(&place);
        }
    }

    fn tidy_session(&mut self, session: u32) {
        if self.sessions.get(&session) == Some(&Counts::default()) {
            self.sessions.remove(&session);
        }
    }

    /// Whether all in the way of an ask wait in turn, at last for who asks: those who want to know.
    fn would_never_end(&self, ask: &LockAsk) -> bool {
        let mut waits: BTreeMap<LockOwner, Vec<(&FileLocks, &Waiter)>> = BTreeMap::new();
        for file in self.files.values() {
            for waiter in file.line.iter().filter(|waiter| waiter.detects) {
                waits.entry(waiter.owner).or_default().push((file, waiter));
            }
        }
        let mut seen = BTreeSet::new();
        let mut next: Vec<LockOwner> = self.conflicts(ask).map(|lock| lock.owner).collect();
        while let Some(owner) = next.pop() {
            if owner == ask.owner {
                return true;
            }
            if !seen.insert(owner) {
                continue;
            }
            for (file, waiter) in waits.get(&owner).into_iter().flatten() {
                let blockers = file.conflicts(owner, waiter.range, waiter.kind);
                next.extend(
                    blockers
                        .map(|lock| lock.owner)
                        .filter(|who| !seen.contains(who)),
                );
            }
        }
        false
    }

    /// All locks and waits, for tests: what is kept of them must fit together.
    #[cfg(test)]
    pub(super) fn verify(&self) -> BTreeMap<LockPlace, (Vec<Lock>, Vec<u32>)> {
        let mut sessions: BTreeMap<u32, Counts> = BTreeMap::new();
        let mut all = BTreeMap::new();
        for (place, file) in &self.files {
            assert!(!file.is_empty(), "{place:?} has nothing");
            let locks: Vec<Lock> = file.locks().collect();
            for lock in &locks {
                sessions.entry(lock.owner.session).or_default().locks += 1;
                let other = file.conflicts(lock.owner, lock.range, lock.kind).next();
                assert_eq!(other, None, "{lock:?} is had beside another");
            }
            for waiter in &file.line {
                sessions.entry(waiter.owner.session).or_default().waits += 1;
                let blockers = file.conflicts(waiter.owner, waiter.range, waiter.kind);
                let mut blockers = blockers.map(|lock| lock.owner);
                assert!(
                    blockers.any(|who| who == waiter.blocker),
                    "{waiter:?} need not wait"
                );
                assert_eq!(self.tickets.get(&waiter.ticket), Some(place));
            }
            let tickets = file.line.iter().map(|waiter| waiter.ticket).collect();
            all.insert(*place, (locks, tickets));
        }
        assert_eq!(sessions, self.sessions);
        let waits: usize = sessions.values().map(|counts| counts.waits).sum();
        assert_eq!(waits, self.tickets.len());
        all
    }
}

/// A whole-file lock is of all bytes.
fn range_in(place: LockPlace, range: LockRange) -> LockRange {
    match place.space {
        LockSpace::Records => range,
        LockSpace::Whole => LockRange::ALL,
    }
}
