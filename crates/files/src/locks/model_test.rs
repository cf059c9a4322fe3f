//! The lock table beside a slow obvious one, byte by byte.

use std::collections::{BTreeMap, BTreeSet};

use wharf_runtime::Seed;
use wharf_runtime::rng::Rng;

use super::*;

/// Bytes that are told apart. The last one stands for all that follow.
const BYTES: usize = 14;

fn byte(at: usize) -> u64 {
    at as u64
}

/// A range of the bytes from `first` to `last`.
fn range(first: usize, last: usize) -> LockRange {
    let last = match last == BYTES - 1 {
        true => u64::MAX,
        false => byte(last),
    };
    LockRange::new(byte(first), last).expect("it has a byte")
}

fn bytes(range: LockRange) -> std::ops::RangeInclusive<usize> {
    let last = range.last().min(byte(BYTES - 1));
    range.first() as usize..=last as usize
}

type Bytes = [Option<LockKind>; BYTES];

#[derive(Clone)]
struct Wait {
    ticket: u32,
    ask: LockAsk,
}

/// What each owner has of each byte; who waits, in order.
struct Obvious {
    limits: LockLimits,
    had: BTreeMap<(LockPlace, LockOwner), Bytes>,
    line: Vec<Wait>,
    ended: Vec<Ended>,
    /// What was in the way of the latest ask, then.
    in_the_way: Vec<Lock>,
}

impl Obvious {
    fn runs(bytes: &Bytes) -> Vec<(usize, usize, LockKind)> {
        let mut runs: Vec<(usize, usize, LockKind)> = Vec::new();
        for (at, kind) in bytes.iter().enumerate() {
            let Some(kind) = *kind else { continue };
            match runs.last_mut() {
                Some(run) if run.1 + 1 == at && run.2 == kind => run.1 = at,
                _ => runs.push((at, at, kind)),
            }
        }
        runs
    }

    fn locks(&self, place: LockPlace) -> Vec<Lock> {
        let of_place = self.had.iter().filter(|((at, _), _)| *at == place);
        let locks = of_place.flat_map(|((_, owner), had)| {
            let runs = Obvious::runs(had).into_iter();
            runs.map(|(first, last, kind)| Lock {
                owner: *owner,
                range: range(first, last),
                kind,
            })
        });
        locks.collect()
    }

    fn conflicts(&self, ask: &LockAsk) -> Vec<Lock> {
        let locks = self.locks(ask.place).into_iter();
        let in_the_way = locks.filter(|lock| {
            lock.owner != ask.owner
                && lock.range.meets(ask.range)
                && (lock.kind == LockKind::Exclusive || ask.kind == LockKind::Exclusive)
        });
        in_the_way.collect()
    }

    fn set(
        &mut self,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
        kind: Option<LockKind>,
    ) -> Result<(), LockError> {
        let had = self.had.get(&(place, owner)).copied().unwrap_or_default();
        let mut has = had;
        has[bytes(range)].fill(kind);
        let others = self
            .had
            .iter()
            .filter(|((_, who), _)| who.session == owner.session);
        let all: usize = others.map(|(_, had)| Obvious::runs(had).len()).sum();
        let (before, after) = (Obvious::runs(&had).len(), Obvious::runs(&has).len());
        if after > before && all - before + after > self.limits.locks {
            return Err(LockError::NoRoom);
        }
        self.had.insert((place, owner), has);
        Ok(())
    }

    fn ask(&mut self, ask: &LockAsk, ticket: Option<u32>) -> Result<Asked, LockError> {
        let asked = self.try_ask(ask, ticket);
        self.serve();
        asked
    }

    fn try_ask(&mut self, ask: &LockAsk, ticket: Option<u32>) -> Result<Asked, LockError> {
        if ask.place.space == LockSpace::Whole {
            let had = self.had.entry((ask.place, ask.owner)).or_default();
            if *had != [Some(ask.kind); BYTES] {
                *had = Bytes::default();
            }
        }
        self.in_the_way = self.conflicts(ask);
        let Some(first) = self.in_the_way.first().copied() else {
            let set = self.set(ask.place, ask.owner, ask.range, Some(ask.kind));
            return set.map(|()| Asked::Locked);
        };
        let Some(ticket) = ticket else {
            return Err(LockError::Held(first));
        };
        if ask.detects && self.waits_for(ask).contains(&ask.owner) {
            return Err(LockError::Deadlock);
        }
        let own = self
            .line
            .iter()
            .filter(|wait| wait.ask.owner.session == ask.owner.session);
        if own.count() >= self.limits.waits || self.line.len() >= self.limits.waits_in_all {
            return Err(LockError::NoRoom);
        }
        self.line.push(Wait { ticket, ask: *ask });
        Ok(Asked::Waits)
    }

    /// All that an ask waits for, directly or not.
    fn waits_for(&self, ask: &LockAsk) -> BTreeSet<LockOwner> {
        let owners = |ask: &LockAsk| self.conflicts(ask).into_iter().map(|lock| lock.owner);
        let mut all: BTreeSet<LockOwner> = owners(ask).collect();
        loop {
            let waits = self.line.iter().filter(|wait| wait.ask.detects);
            let waits = waits.filter(|wait| all.contains(&wait.ask.owner));
            let more: BTreeSet<LockOwner> = waits.flat_map(|wait| owners(&wait.ask)).collect();
            let before = all.len();
            all.extend(more);
            if all.len() == before {
                return all;
            }
        }
    }

    fn serve(&mut self) {
        while let Some(at) = self
            .line
            .iter()
            .position(|w| self.conflicts(&w.ask).is_empty())
        {
            let Wait { ticket, ask } = self.line.remove(at);
            let result = self.set(ask.place, ask.owner, ask.range, Some(ask.kind));
            self.ended.push(Ended { ticket, result });
        }
    }

    fn unlock(
        &mut self,
        place: LockPlace,
        owner: LockOwner,
        range: LockRange,
    ) -> Result<(), LockError> {
        let unlocked = self.set(place, owner, range, None);
        self.serve();
        unlocked
    }

    /// One session has those of these locks of a place that are not in the way of others, and no more.
    fn replace(&mut self, place: LockPlace, session: u32, locks: &[Lock]) {
        self.had
            .retain(|(at, owner), _| *at != place || owner.session != session);
        for lock in locks {
            let ask = LockAsk {
                place,
                owner: lock.owner,
                range: lock.range,
                kind: lock.kind,
                detects: false,
            };
            if self.conflicts(&ask).is_empty() {
                let had = self.had.entry((place, lock.owner)).or_default();
                had[bytes(lock.range)].fill(Some(lock.kind));
            }
        }
        self.serve();
    }

    fn is_alone(&self, place: LockPlace, session: u32) -> bool {
        let locks = self.locks(place);
        let is_had = locks.iter().any(|lock| lock.owner.session != session);
        !is_had && self.line.iter().all(|wait| wait.ask.place != place)
    }

    fn take_line(&mut self, goes: impl Fn(&LockAsk) -> bool) -> Vec<u32> {
        let gone = self.line.extract_if(.., |wait| goes(&wait.ask));
        gone.map(|wait| wait.ticket).collect()
    }

    fn release(&mut self, goes: impl Fn(LockPlace, LockOwner) -> bool) {
        self.had.retain(|(place, owner), _| !goes(*place, *owner));
        self.serve();
    }
}

/// Both tables, and what they were asked.
struct Beside {
    rng: Rng,
    table: LockTable,
    obvious: Obvious,
    tickets: u32,
    seen: BTreeMap<&'static str, u32>,
}

fn sorted(mut tickets: Vec<u32>) -> Vec<u32> {
    tickets.sort_unstable();
    tickets
}

impl Beside {
    fn place(&mut self) -> LockPlace {
        LockPlace {
            file: self.rng.below(2),
            space: match self.rng.chance(1, 4) {
                true => LockSpace::Whole,
                false => LockSpace::Records,
            },
        }
    }

    fn owner(&mut self) -> LockOwner {
        LockOwner {
            session: self.rng.below(2) as u32,
            id: self.rng.below(2),
        }
    }

    fn range(&mut self, space: LockSpace) -> LockRange {
        let (one, other) = (self.rng.below(BYTES as u64), self.rng.below(BYTES as u64));
        match space {
            LockSpace::Records => range(one.min(other) as usize, one.max(other) as usize),
            LockSpace::Whole => LockRange::ALL,
        }
    }

    fn asked(&mut self) -> LockAsk {
        let place = self.place();
        LockAsk {
            place,
            owner: self.owner(),
            range: self.range(place.space),
            kind: match self.rng.chance(1, 2) {
                true => LockKind::Shared,
                false => LockKind::Exclusive,
            },
            detects: place.space == LockSpace::Records && self.rng.chance(3, 4),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn same(
        &mut self,
        ask: &LockAsk,
        found: Result<Asked, LockError>,
        expected: Result<Asked, LockError>,
    ) {
        self.saw(match expected {
            Ok(Asked::Locked) => "locked",
            Ok(Asked::Waits) => "waits",
            Err(LockError::Held(_)) => "held",
            Err(LockError::Deadlock) => "deadlock",
            Err(LockError::NoRoom) => "no room",
        });
        match (found, expected) {
            // Which of several is the first depends on who came first: it must be one of them.
            (Err(LockError::Held(lock)), Err(LockError::Held(_))) => {
                let all = &self.obvious.in_the_way;
                assert!(all.contains(&lock), "{lock:?} is not in the way of {ask:?}");
            }
            (found, expected) => assert_eq!(found, expected, "{ask:?}"),
        }
    }

    fn step(&mut self) {
        let ask = self.asked();
        let LockAsk {
            place,
            owner,
            range,
            ..
        } = ask;
        match self.rng.below(17) {
            0..4 => {
                let expected = self.obvious.ask(&ask, None);
                let found = self.table.lock(&ask).map(|()| Asked::Locked);
                self.same(&ask, found, expected);
            }
            4..8 => {
                self.tickets += 1;
                let expected = self.obvious.ask(&ask, Some(self.tickets));
                let found = self.table.lock_or_wait(&ask, self.tickets);
                self.same(&ask, found, expected);
            }
            8..12 => {
                let expected = self.obvious.unlock(place, owner, range);
                assert_eq!(self.table.unlock(place, owner, range), expected, "{ask:?}");
            }
            12 => {
                let expected = self.obvious.conflicts(&ask);
                let found = self.table.test(&ask);
                assert_eq!(found.is_some(), !expected.is_empty());
                assert!(found.is_none_or(|lock| expected.contains(&lock)));
            }
            13 => {
                self.obvious.release(|at, who| (at, who) == (place, owner));
                self.table.release_owner(place, owner);
            }
            14 => self.withdraw(ask),
            15 => {
                let few = 0..self.rng.below(5);
                let locks: Vec<Lock> = few
                    .map(|_| Lock {
                        owner: LockOwner {
                            id: self.rng.below(2),
                            ..owner
                        },
                        range: self.range(place.space),
                        kind: self.asked().kind,
                    })
                    .collect();
                self.saw("replaced");
                self.obvious.replace(place, owner.session, &locks);
                self.table.replace(place, owner.session, &locks);
            }
            _ if self.rng.chance(1, 4) => {
                let session = owner.session;
                let expected = self.obvious.take_line(|ask| ask.owner.session == session);
                // File by file, as the table does.
                for file in 0..2 {
                    for space in [LockSpace::Records, LockSpace::Whole] {
                        let here = LockPlace { file, space };
                        self.obvious
                            .release(|at, who| at == here && who.session == session);
                    }
                }
                let found = self.table.end_session(session);
                assert_eq!(sorted(found), sorted(expected));
            }
            _ => {}
        }
        assert_eq!(
            self.table.take_ended(),
            std::mem::take(&mut self.obvious.ended)
        );
        self.compare();
        let is_alone = self.obvious.is_alone(place, owner.session);
        assert_eq!(self.table.is_alone(place, owner.session), is_alone);
        if is_alone {
            self.saw("alone");
            let own = self.table.of_session(place, owner.session).count();
            assert_eq!(own, self.obvious.locks(place).len());
        }
    }

    fn withdraw(&mut self, like: LockAsk) {
        let waiting = self
            .obvious
            .line
            .iter()
            .map(|wait| wait.ask)
            .find(|ask| ask.owner == like.owner);
        let of = waiting.unwrap_or(like);
        let expected = self
            .obvious
            .take_line(|ask| (ask.place, ask.owner, ask.range) == (of.place, of.owner, of.range));
        match expected.as_slice() {
            [ticket] if self.rng.chance(1, 2) => {
                assert!(self.table.withdraw_ticket(*ticket));
                assert!(!self.table.withdraw_ticket(*ticket));
            }
            _ => {
                let found = self.table.withdraw(of.place, of.owner, of.range);
                assert_eq!(found, expected);
            }
        }
        if !expected.is_empty() {
            self.saw("withdrawn");
        }
    }

    fn compare(&self) {
        let key = |lock: &Lock| (lock.owner, lock.range.first());
        let mut found = self.table.verify();
        for file in 0..2 {
            for space in [LockSpace::Records, LockSpace::Whole] {
                let place = LockPlace { file, space };
                let (mut locks, tickets) = found.remove(&place).unwrap_or_default();
                locks.sort_by_key(key);
                let mut expected = self.obvious.locks(place);
                expected.sort_by_key(key);
                assert_eq!(locks, expected, "{place:?}");
                let line = self
                    .obvious
                    .line
                    .iter()
                    .filter(|wait| wait.ask.place == place);
                let line: Vec<u32> = line.map(|wait| wait.ticket).collect();
                assert_eq!(tickets, line, "{place:?}");
            }
        }
        assert!(found.is_empty());
        assert_eq!(self.table.waits(), self.obvious.line.len());
    }
}

#[test]
fn random_asks_come_to_what_they_come_to_byte_by_byte() {
    let mut seen = BTreeMap::new();
    for seed in 0..60 {
        println!("seed {seed}");
        let limits = match seed % 3 {
            0 => LockLimits {
                locks: 4,
                waits: 2,
                waits_in_all: 3,
            },
            _ => LockLimits {
                locks: 100,
                waits: 100,
                waits_in_all: 100,
            },
        };
        let mut beside = Beside {
            rng: Seed(seed).rng(),
            table: LockTable::new(limits),
            obvious: Obvious {
                limits,
                had: BTreeMap::new(),
                line: Vec::new(),
                ended: Vec::new(),
                in_the_way: Vec::new(),
            },
            tickets: 0,
            seen: std::mem::take(&mut seen),
        };
        (0..600).for_each(|_| beside.step());
        seen = beside.seen;
    }
    for what in [
        "locked",
        "waits",
        "held",
        "deadlock",
        "no room",
        "withdrawn",
        "replaced",
        "alone",
    ] {
        assert!(
            seen.get(what).is_some_and(|count| *count > 100),
            "{what} is rare: {seen:?}"
        );
    }
}

const FILE: LockPlace = LockPlace {
    file: 7,
    space: LockSpace::Records,
};

fn ask(id: u64, range: LockRange, kind: LockKind) -> LockAsk {
    LockAsk {
        place: FILE,
        owner: LockOwner { session: 1, id },
        range,
        kind,
        detects: true,
    }
}

fn table() -> LockTable {
    LockTable::new(LockLimits {
        locks: 8,
        waits: 8,
        waits_in_all: 8,
    })
}

#[test]
fn those_in_line_get_their_locks_in_the_order_in_which_they_came() {
    let mut table = table();
    let (all, exclusive) = (LockRange::ALL, LockKind::Exclusive);
    assert_eq!(table.lock(&ask(1, all, exclusive)), Ok(()));
    for id in 2..5 {
        let waits = table.lock_or_wait(&ask(id, all, exclusive), id as u32);
        assert_eq!(waits, Ok(Asked::Waits));
    }
    for id in 1..4 {
        table.release_owner(FILE, LockOwner { session: 1, id });
        let next = Ended {
            ticket: id as u32 + 1,
            result: Ok(()),
        };
        assert_eq!(table.take_ended(), [next]);
    }
}

#[test]
fn a_circle_is_found_and_one_who_does_not_want_to_know_is_no_part_of_it() {
    for detects in [true, false] {
        let mut table = table();
        let (a, b) = (range(0, 0), range(1, 1));
        let exclusive = LockKind::Exclusive;
        assert_eq!(table.lock(&ask(1, a, exclusive)), Ok(()));
        assert_eq!(table.lock(&ask(2, b, exclusive)), Ok(()));
        let first = LockAsk {
            detects,
            ..ask(1, b, exclusive)
        };
        assert_eq!(table.lock_or_wait(&first, 1), Ok(Asked::Waits));
        let second = table.lock_or_wait(&ask(2, a, exclusive), 2);
        match detects {
            true => assert_eq!(second, Err(LockError::Deadlock)),
            false => assert_eq!(second, Ok(Asked::Waits)),
        }
    }
}

#[test]
fn the_last_byte_that_there_can_be_is_a_byte_like_others() {
    let mut table = table();
    let last = LockRange::new(u64::MAX, u64::MAX).unwrap();
    let before = LockRange::new(5, u64::MAX - 1).unwrap();
    assert_eq!(table.lock(&ask(1, last, LockKind::Shared)), Ok(()));
    assert_eq!(table.lock(&ask(1, before, LockKind::Shared)), Ok(()));
    let found = table.test(&ask(2, LockRange::ALL, LockKind::Exclusive));
    assert_eq!(found.map(|lock| lock.range), LockRange::new(5, u64::MAX));
    let owner = LockOwner { session: 1, id: 1 };
    assert_eq!(table.unlock(FILE, owner, last), Ok(()));
    assert_eq!(table.test(&ask(2, last, LockKind::Exclusive)), None);
    let found = table.test(&ask(2, LockRange::ALL, LockKind::Exclusive));
    assert_eq!(found.map(|lock| lock.range), Some(before));
}
