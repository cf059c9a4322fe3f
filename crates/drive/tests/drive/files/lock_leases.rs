//! Leases of locks, by commands and by words in memory: what a host has granted itself is what others find, whatever becomes of it.

use wharf_files::Errno;
use wharf_wire::command::Command;
use wharf_wire::dma::DmaArea;
use wharf_wire::file::write_area::Words;
use wharf_wire::file::{FileHandle, FileLock, LockOperation, LockState, OpenMode};
use wharf_wire::status::StatusCode;

use super::asker::{Asker, UPDATE};
use super::locks::{Told, all, flock, part};
use super::support::{config, new_rig};
use super::turns::{Turns, script};
use crate::support::rig::{Rig, Script};

use LockOperation::{LockExclusive, LockShared, Unlock};

/// Pages of an area, its places, and the bits of a state, as the document has them.
const AREA_PAGES: usize = 65;
const PLACES: usize = 64;
const BUSY: u64 = 1 << 63;
const NAMED: u64 = 1 << 17;

const HELD: Result<u64, Told> = Err(Told::Status(StatusCode::LockHeld));

fn rig() -> Rig {
    let mut rig = new_rig(config(2, 2_000));
    rig.has_guests = true;
    rig.whole_pages = 1 + AREA_PAGES;
    rig
}

fn run(mut rig: Rig, clients: Vec<Script>) {
    rig.run_clients(&wharf_drive::PowerSwitch::on(), clients);
}

/// A lock as a host says that it has it: first and last byte, owner, 1 for shared or 2 for exclusive, 1 for a whole file.
type Own = (u64, u64, u64, u16, u16);

/// A host that grants itself locks, as the document says.
struct Area {
    area: DmaArea,
    address: u64,
}

impl Area {
    fn of(asker: &Asker) -> Area {
        let (area, address) = asker.host.whole.area(1, AREA_PAGES);
        Area { area, address }
    }

    async fn lease(&self, asker: &mut Asker, file: FileHandle, place: usize) -> u64 {
        let word = self.address + 8 * place as u64;
        let command = asker.aimed(Command::lease_locks(1, file, word, 128));
        let lease = asker.send(command).await.done().unwrap();
        if lease > 0 {
            let told = self.state(place);
            assert_eq!((self.area.look(place), told >> 16), (lease, NAMED >> 16));
        }
        lease
    }

    fn state(&self, place: usize) -> u64 {
        self.area.look(PLACES + place)
    }

    /// What the drive has told, with a lease, that the host has.
    fn told(&self, place: usize) -> Vec<Own> {
        let mut bytes = vec![0; 32 * (self.state(place) & 0xffff) as usize];
        self.area.copy_out((1 + place) * 4096, &mut bytes);
        let word = |own: &[u8], at: usize| u64::from_le_bytes(own[at..at + 8].try_into().unwrap());
        let own = bytes.chunks(32).map(|own| {
            let rest = word(own, 24);
            let (state, whole) = (rest as u16, (rest >> 16) as u16);
            (word(own, 0), word(own, 8), word(own, 16), state, whole)
        });
        own.collect()
    }

    fn put(&self, (place, side): (usize, usize), locks: &[Own]) {
        let mut bytes = Vec::new();
        for (first, last, owner, state, whole) in locks {
            let words = [first, last, owner].map(|word| word.to_le_bytes());
            bytes.extend(words.concat());
            bytes.extend([state.to_le_bytes(), whole.to_le_bytes()].concat());
            bytes.extend([0; 4]);
        }
        self.area.copy_in((1 + place) * 4096 + side * 2048, &bytes);
    }

    /// Begins a change; gives the state of before, if the lease lasts.
    fn begin(&self, place: usize, lease: u64) -> u64 {
        let state = self.state(place);
        self.area.swap(PLACES + place, state | BUSY);
        assert_eq!(self.area.look(place), lease);
        state
    }

    fn end(&self, place: usize, before: u64, side: usize, locks: usize) -> bool {
        let state = NAMED | (side as u64) << 16 | locks as u64;
        self.area.exchange(PLACES + place, before | BUSY, state)
    }

    /// The host has these locks from now on.
    fn has(&self, place: usize, lease: u64, locks: &[Own]) {
        let before = self.begin(place, lease);
        let side = 1 - (before >> 16 & 1) as usize;
        self.put((place, side), locks);
        assert!(self.end(place, before, side, locks.len()));
    }
}

/// The first lock in the way of an exclusive one of all bytes: first and last byte, and the owner.
async fn in_the_way(asker: &mut Asker, file: FileHandle, owner: u64) -> Option<(u64, u64, u64)> {
    let asked = FileLock {
        last: u64::MAX,
        owner,
        state: LockState::Exclusive.raw(),
        ..FileLock::default()
    };
    let (told, found) = asker.test(file, false, asked).await;
    (told.unwrap() == 1).then_some((found.first, found.last, found.owner))
}

#[test]
fn others_find_what_a_host_has_granted_itself_and_what_it_had_before() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        own_turns.wait(&asker.host.cpu, 1).await;
        // What it had by a command when the lease was given.
        assert_eq!(in_the_way(&mut asker, file, 1).await, Some((5, 9, 3)));
        own_turns.pass(2);
        own_turns.wait(&asker.host.cpu, 3).await;
        assert_eq!(asker.tell(part(file, LockShared, 1, 105, 105)).await, HELD);
        assert_eq!(asker.tell(part(file, LockShared, 1, 200, 205)).await, Ok(0));
        assert_eq!(
            asker.tell(part(file, LockExclusive, 1, 206, 206)).await,
            HELD
        );
        assert_eq!(asker.tell(part(file, LockExclusive, 1, 5, 9)).await, Ok(0));
        assert_eq!(asker.tell(flock(file, LockExclusive, 1)).await, HELD);
        assert_eq!(asker.tell(flock(file, LockShared, 1)).await, Ok(0));
        // One that waits gets it when the holder gives it back, by a command now.
        let waits = asker.leave_with(0, part(file, LockExclusive, 1, 100, 110).waiting());
        assert!(asker.next_soon(0).await.is_none());
        own_turns.pass(4);
        let ended = asker.host.next(0).await;
        assert_eq!(ended.cid, waits);
        own_turns.pass(5);
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        assert_eq!(asker.tell(part(file, LockExclusive, 3, 5, 9)).await, Ok(0));
        assert_eq!(asker.tell(flock(file, LockShared, 4)).await, Ok(0));
        assert!(area.lease(&mut asker, file, 7).await > 0);
        let before = [(5, 9, 3, 2, 0), (0, u64::MAX, 4, 1, 1)];
        assert_eq!(area.told(7), before);
        assert_eq!(asker.tell(flock(file, Unlock, 4)).await, Ok(0));
        its_turns.pass(1);
        its_turns.wait(&asker.host.cpu, 2).await;
        assert_eq!(area.area.look(7), 0);
        let lease = area.lease(&mut asker, file, 7).await;
        area.has(7, lease, &[(5, 9, 3, 2, 0), (0, 0, 0, 1, 1)]);
        let now = [
            (100, 110, 3, 2, 0),
            (200, u64::MAX, 4, 1, 0),
            (0, 0, 9, 1, 1),
        ];
        area.has(7, lease, &now);
        its_turns.pass(3);
        its_turns.wait(&asker.host.cpu, 4).await;
        // Somebody has locks, and waits for one.
        assert_eq!(area.lease(&mut asker, file, 7).await, 0);
        assert_eq!(asker.tell(part(file, Unlock, 3, 100, 110)).await, Ok(0));
        its_turns.wait(&asker.host.cpu, 5).await;
        assert_eq!(in_the_way(&mut asker, file, 4).await.unwrap().2, 1);
    });
    run(rig(), vec![owner, guest]);
}

/// A host that is amid a change is waited for, and not for ever: then it has what it had.
#[test]
fn a_change_that_takes_too_long_has_not_been_made() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        let cpu = asker.host.cpu.clone();
        own_turns.wait(&cpu, 1).await;
        let before_ns = cpu.now();
        assert_eq!(in_the_way(&mut asker, file, 1).await, Some((0, 4, 3)));
        let took_ns = cpu.now() - before_ns;
        assert!((20_000_000..25_000_000).contains(&took_ns), "{took_ns} ns");
        assert_eq!(
            asker.tell(part(file, LockExclusive, 1, 5, u64::MAX)).await,
            Ok(0)
        );
        own_turns.pass(2);
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        let lease = area.lease(&mut asker, file, 0).await;
        area.has(0, lease, &[(0, 4, 3, 2, 0)]);
        let before = area.begin(0, lease);
        // Half of it is there when the drive takes what there is.
        let side = 1 - (before >> 16 & 1) as usize;
        area.put((0, side), &[(10, 14, 3, 2, 0)]);
        its_turns.pass(1);
        its_turns.wait(&asker.host.cpu, 2).await;
        assert!(!area.end(0, before, side, 1));
        assert_eq!((area.area.look(0), area.state(0)), (0, before));
    });
    run(rig(), vec![owner, guest]);
}

#[test]
fn a_file_has_one_lease_a_place_one_file_and_whoever_goes_none() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let (first, second) = (
            asker.file(UPDATE, b"/f").await,
            asker.file(UPDATE, b"/g").await,
        );
        own_turns.wait(&asker.host.cpu, 1).await;
        // Of the first, whose place went to the second, it was taken then.
        assert_eq!(in_the_way(&mut asker, first, 1).await, Some((1, 1, 1)));
        own_turns.pass(2);
        own_turns.wait(&asker.host.cpu, 3).await;
        let qid = asker.host.queues.len() as u16 + 1;
        let delete = Command::delete_submission_queue(qid);
        assert_eq!(asker.host.admin_status(delete).await, StatusCode::Success);
        for file in [first, second] {
            assert_eq!(asker.tell(all(file, LockExclusive, 1)).await, Ok(0));
        }
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        let (first, second) = (
            asker.file(UPDATE, b"/f").await,
            asker.file(UPDATE, b"/g").await,
        );
        let lease = area.lease(&mut asker, first, 3).await;
        area.has(3, lease, &[(1, 1, 1, 2, 0)]);
        let next = area.lease(&mut asker, second, 3).await;
        assert!(next > lease);
        its_turns.pass(1);
        its_turns.wait(&asker.host.cpu, 2).await;
        // The same file by another place.
        area.has(3, next, &[(2, 2, 2, 2, 0)]);
        let last = area.lease(&mut asker, second, 4).await;
        assert_eq!((last > next, area.area.look(3)), (true, 0));
        assert_eq!(in_the_way(&mut asker, second, 1).await, Some((2, 2, 2)));
        let (one, two) = (
            area.lease(&mut asker, first, 5).await,
            area.lease(&mut asker, second, 6).await,
        );
        area.has(5, one, &[(7, 7, 7, 2, 0), (0, 0, 1, 2, 1)]);
        area.has(6, two, &[(8, 8, 8, 1, 0)]);
        its_turns.pass(3);
    });
    run(rig(), vec![owner, guest]);
}

#[test]
fn what_is_no_lease_of_locks_is_refused_and_a_lock_that_may_not_be_had_left_out() {
    let owner = script(|mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        let wrong = [
            (8 * 64, 128, StatusCode::InvalidField),
            (4, 128, StatusCode::InvalidField),
            (0, 127, StatusCode::InvalidField),
            // The area does not fit there.
            (4096, 128, StatusCode::DataTransferError),
            (1 << 63, 128, StatusCode::DataTransferError),
        ];
        for (at, bytes, status) in wrong {
            let word = area.address.wrapping_add(at);
            let command = asker.aimed(Command::lease_locks(1, file, word, bytes));
            assert_eq!(asker.send(command).await.status, status, "{at:#x}");
        }
        let reads = OpenMode {
            read: true,
            ..OpenMode::default()
        };
        let reads = asker.file(reads, b"/f").await;
        // It has a lock that it may not have by this handle.
        assert_eq!(asker.tell(part(file, LockExclusive, 1, 7, 7)).await, Ok(0));
        assert_eq!(area.lease(&mut asker, reads, 0).await, 0);
        assert_eq!(asker.tell(part(file, Unlock, 1, 7, 7)).await, Ok(0));
        let lease = area.lease(&mut asker, reads, 0).await;
        area.has(0, lease, &[(0, 0, 1, 2, 0), (5, 5, 2, 1, 0)]);
        assert_eq!(in_the_way(&mut asker, file, 9).await, Some((5, 5, 2)));
        let lease = area.lease(&mut asker, file, 0).await;
        // The second is in the way of the first; the others are none.
        let odd = [
            (0, 9, 1, 1, 0),
            (9, 9, 2, 2, 0),
            (9, 8, 3, 1, 0),
            (0, 9, 4, 0, 0),
            (0, 9, 5, 3, 0),
        ];
        area.has(0, lease, &odd);
        assert_eq!(in_the_way(&mut asker, file, 1).await, None);
        assert_eq!(in_the_way(&mut asker, file, 9).await, Some((0, 9, 1)));
        assert_eq!(
            asker.tell(part(reads, LockExclusive, 1, 0, 0)).await,
            Err(Told::Files(Errno::EBADF))
        );
    });
    run(rig(), vec![owner]);
}

/// A host that writes anything to its area has what it could have had, and others what they have.
#[test]
fn a_host_that_writes_anything_to_its_area_takes_no_lock_of_others_away() {
    const ROUNDS: u64 = 60;
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let (own, shared) = (
            asker.file(UPDATE, b"/own").await,
            asker.file(UPDATE, b"/f").await,
        );
        assert_eq!(asker.tell(all(own, LockExclusive, 1)).await, Ok(0));
        for round in 0..ROUNDS {
            own_turns.pass(2 * round + 1);
            own_turns.wait(&asker.host.cpu, 2 * round + 2).await;
            in_the_way(&mut asker, shared, 1).await;
            asker.tell(flock(shared, LockShared, 1)).await.ok();
            asker.tell(flock(shared, Unlock, 1)).await.unwrap();
        }
        own_turns.pass(2 * ROUNDS + 1);
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        let mut state = 11_u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 20
        };
        let own = asker.file(UPDATE, b"/own").await;
        for round in 0..ROUNDS {
            its_turns.wait(&asker.host.cpu, 2 * round + 1).await;
            let file = asker.file(UPDATE, b"/f").await;
            area.lease(&mut asker, file, 0).await;
            let many: Vec<Own> = (0..128)
                .map(|_| {
                    (
                        next() % 50,
                        next() % 90,
                        next() % 5,
                        next() as u16 % 4,
                        next() as u16 % 3,
                    )
                })
                .collect();
            area.put((0, 0), &many);
            let state = match round % 3 {
                0 => next() << 20,
                1 => NAMED | (next() % 70),
                _ => NAMED | (1 << 16) | 64,
            };
            area.area.tell(PLACES, state & !BUSY);
            if round % 4 == 0 {
                area.area.tell(0, next());
            }
            assert_eq!(asker.tell(part(own, LockShared, 1, 3, 3)).await, HELD);
            its_turns.pass(2 * round + 2);
        }
        its_turns.wait(&asker.host.cpu, 2 * ROUNDS + 1).await;
        // None of the file is given where another has one.
        assert_eq!(area.lease(&mut asker, own, 1).await, 0);
    });
    run(rig(), vec![owner, guest]);
}
