//! Locks of files, by commands: who gets them, who waits without being in anybody's way, and how waits end.

use std::collections::BTreeMap;

use wharf_files::Errno;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::file::{FileHandle, FileLock, LockOperation, LockState, LockWords, OpenMode};
use wharf_wire::status::StatusCode;
use zerocopy::{FromBytes, IntoBytes};

use super::asker::{Asker, UPDATE};
use super::support::{config, new_rig, run};
use crate::support::host::code;
use crate::support::rig::Rig;

use LockOperation::{LockExclusive, LockShared, ReleaseOwner, Unlock, Withdraw};
use StatusCode as S;

/// Long enough for everything that is going to happen, in nanoseconds.
const A_WHILE_NS: u64 = 50_000_000;

/// A lock of all bytes.
pub(super) fn lock(file: FileHandle, operation: LockOperation, owner: u64) -> LockWords {
    LockWords {
        handle: file,
        operation,
        first: 0,
        last: u64::MAX,
        owner,
        whole_file: false,
    }
}

pub(super) fn part(
    file: FileHandle,
    operation: LockOperation,
    owner: u64,
    first: u64,
    last: u64,
) -> Command {
    let words = LockWords {
        first,
        last,
        ..lock(file, operation, owner)
    };
    Command::lock_file(1, words)
}

pub(super) fn all(file: FileHandle, operation: LockOperation, owner: u64) -> Command {
    Command::lock_file(1, lock(file, operation, owner))
}

pub(super) fn flock(file: FileHandle, operation: LockOperation, owner: u64) -> Command {
    let words = LockWords {
        whole_file: true,
        ..lock(file, operation, owner)
    };
    Command::lock_file(1, words)
}

/// A drive with a file, for one host with so many queues.
fn rig(cores: u32, queues: u16, commands_max: u32) -> Rig {
    let mut config = config(cores, 2_000);
    config.firmware.commands_max = commands_max;
    let mut rig = new_rig(config);
    rig.queues_per_client = queues;
    rig.depth = 128;
    rig
}

impl Asker {
    /// Sends a command; gives its status, or its error.
    pub(super) async fn tell(&mut self, command: Command) -> Result<u64, Told> {
        let reply = self.send(command).await;
        told(reply.status, reply.result)
    }

    /// Sends a command on a queue, and does not wait for its end.
    pub(super) fn leave_with(&mut self, queue: usize, command: Command) -> u16 {
        self.host.send(queue, command)
    }

    /// Whether a queue has a completion after a while.
    pub(super) async fn next_soon(&mut self, queue: usize) -> Option<Completion> {
        let cpu = self.host.cpu.clone();
        cpu.sleep_until(cpu.now() + A_WHILE_NS).await;
        let queue = &mut self.host.queues[queue];
        let found = queue.poll(&cpu);
        queue.release();
        found
    }

    pub(super) async fn test(
        &mut self,
        file: FileHandle,
        whole_file: bool,
        asked: FileLock,
    ) -> (Result<u64, Told>, FileLock) {
        self.put(0, asked.as_bytes());
        let command = self.aimed(Command::test_lock(1, file, whole_file, 32));
        let told = self.tell(command).await;
        let bytes = self.got(32);
        let answer = FileLock::read_from_bytes(&bytes);
        (told, answer.expect("an answer"))
    }
}

/// Why a command was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Status(StatusCode),
    Files(Errno),
}

fn told(status: StatusCode, result: u64) -> Result<u64, Told> {
    match status {
        S::Success => Ok(result),
        S::FileError => {
            let errno = Errno::of_number(result as i32);
            Err(Told::Files(errno.expect("an error that is known")))
        }
        status => Err(Told::Status(status)),
    }
}

fn of(found: &Completion) -> Result<u64, Told> {
    told(code(found), found.wide_result())
}

const HELD: Result<u64, Told> = Err(Told::Status(S::LockHeld));

#[test]
fn what_is_in_the_way_is_told_and_may_be_asked_for() {
    run(&mut rig(2, 2, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        let same = asker.file(UPDATE, b"/a").await;
        let other = asker.file(UPDATE, b"/b").await;
        assert_eq!(asker.tell(part(file, LockShared, 1, 10, 19)).await, Ok(0));
        // A lock is the file's, whichever handle it came by.
        assert_eq!(asker.tell(part(same, LockShared, 2, 15, 30)).await, Ok(0));
        assert_eq!(asker.tell(part(same, LockExclusive, 2, 15, 30)).await, HELD);
        let behind = asker.tell(part(same, LockExclusive, 2, 20, u64::MAX)).await;
        assert_eq!(behind, Ok(0));
        assert_eq!(asker.tell(all(other, LockExclusive, 3)).await, Ok(0));
        assert_eq!(asker.tell(flock(file, LockExclusive, 3)).await, Ok(0));
        assert_eq!(asker.tell(flock(file, LockShared, 4)).await, HELD);
        let wanted = FileLock {
            first: 18,
            last: u64::MAX,
            owner: 3,
            state: LockState::Shared.raw(),
            ..FileLock::default()
        };
        let (told, found) = asker.test(file, false, wanted).await;
        let expected = FileLock {
            first: 20,
            last: u64::MAX,
            owner: 2,
            session: 0,
            state: LockState::Exclusive.raw(),
            is_own: 1,
        };
        assert_eq!((told, found), (Ok(1), expected));
        let own = FileLock { owner: 2, ..wanted };
        let free = FileLock::default();
        assert_eq!(asker.test(file, false, own).await, (Ok(0), free));
        let fourth = FileLock { owner: 4, ..wanted };
        let (told, found) = asker.test(file, true, fourth).await;
        assert_eq!((told, found.owner, found.first), (Ok(1), 3, 0));
        // Closing a handle gives nothing back; releasing the owner does.
        assert_eq!(asker.tell(Command::close_file(1, same)).await, Ok(0));
        assert_eq!(asker.tell(part(file, LockExclusive, 1, 25, 25)).await, HELD);
        assert_eq!(asker.tell(all(file, ReleaseOwner, 2)).await, Ok(0));
        assert_eq!(asker.tell(all(file, LockExclusive, 1)).await, Ok(0));
    });
}

#[test]
fn a_record_lock_needs_a_handle_that_may_do_what_it_is_for() {
    run(&mut rig(1, 1, 64), |host| async move {
        let mut asker = Asker::new(host);
        asker.file(UPDATE, b"/a").await;
        let bad = Err(Told::Files(Errno::EBADF));
        let reads = OpenMode {
            write: false,
            ..UPDATE
        };
        let reads = asker.file(reads, b"/a").await;
        assert_eq!(asker.tell(all(reads, LockExclusive, 1)).await, bad);
        assert_eq!(asker.tell(all(reads, LockShared, 1)).await, Ok(0));
        assert_eq!(asker.tell(flock(reads, LockExclusive, 1)).await, Ok(0));
        let writes = OpenMode {
            read: false,
            ..UPDATE
        };
        let writes = asker.file(writes, b"/a").await;
        assert_eq!(asker.tell(all(writes, LockShared, 1)).await, bad);
        assert_eq!(asker.tell(all(writes, LockExclusive, 1)).await, Ok(0));
    });
}

#[test]
fn those_that_wait_are_granted_in_order_whatever_core_they_came_to() {
    run(&mut rig(2, 4, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        assert_eq!(asker.tell(all(file, LockExclusive, 0)).await, Ok(0));
        for queue in 1..4 {
            asker.leave_with(queue, all(file, LockExclusive, queue as u64).waiting());
            assert_eq!(asker.next_soon(queue).await, None);
        }
        for owner in 0..3 {
            let free = all(file, Unlock, owner);
            asker.leave_with(0, free);
            assert_eq!(of(&asker.host.next(0).await), Ok(0));
            let next = owner as usize + 1;
            let granted = asker.next_soon(next).await;
            assert_eq!(granted.map(|found| of(&found)), Some(Ok(0)));
            for later in next + 1..4 {
                assert_eq!(asker.next_soon(later).await, None, "{later} after {next}");
            }
        }
    });
}

#[test]
fn more_that_wait_than_there_are_tasks_are_in_nobodys_way() {
    const WAITERS: u64 = 60;
    for cores in [1, 2] {
        run(&mut rig(cores, 2, 512), move |host| async move {
            let mut asker = Asker::new(host);
            let file = asker.file(UPDATE, b"/a").await;
            asker.put(0, b"bytes");
            let write = asker.aimed(Command::write_file(1, file, 0, 5));
            assert_eq!(asker.tell(write).await, Ok(5));
            assert_eq!(asker.tell(all(file, LockExclusive, 0)).await, Ok(0));
            let mut owners = BTreeMap::new();
            for owner in 1..=WAITERS {
                let waits = all(file, LockExclusive, owner).waiting();
                owners.insert(asker.leave_with(0, waits), owner);
            }
            assert_eq!(asker.next_soon(0).await, None);
            // Behind them on their queue, and on another one.
            for queue in [0, 1] {
                asker.put(0, &[0; 5]);
                let read = asker.aimed(Command::read_file(1, file, 0, 100));
                let cid = asker.leave_with(queue, read);
                let found = asker.host.next(queue).await;
                assert_eq!((found.cid, of(&found)), (cid, Ok(5)));
                assert_eq!(asker.got(5), b"bytes");
            }
            let mut holder = 0;
            for turn in 1..=WAITERS {
                asker.leave_with(1, all(file, Unlock, holder));
                assert_eq!(of(&asker.host.next(1).await), Ok(0));
                let found = asker.host.next(0).await;
                assert_eq!(of(&found), Ok(0));
                holder = owners.remove(&found.cid).expect("each is granted once");
                // Where there are several cores, one may have been asked before the other.
                assert!(
                    cores > 1 || holder == turn,
                    "in the order in which they came"
                );
            }
        });
    }
}

#[test]
fn a_wait_that_would_never_end_is_refused() {
    run(&mut rig(2, 3, 64), |host| async move {
        let mut asker = Asker::new(host);
        let a = asker.file(UPDATE, b"/a").await;
        let b = asker.file(UPDATE, b"/b").await;
        assert_eq!(asker.tell(all(a, LockExclusive, 1)).await, Ok(0));
        assert_eq!(asker.tell(all(b, LockExclusive, 2)).await, Ok(0));
        let waits = |file, owner| all(file, LockShared, owner).waiting().detecting_deadlocks();
        asker.leave_with(1, waits(b, 1));
        assert_eq!(asker.next_soon(1).await, None);
        asker.leave_with(2, waits(a, 2));
        let refused = of(&asker.host.next(2).await);
        assert_eq!(refused, Err(Told::Files(Errno::EDEADLK)));
        // Who is refused has what it had, and can give it back.
        asker.leave_with(2, all(b, Unlock, 2));
        assert_eq!(of(&asker.host.next(2).await), Ok(0));
        assert_eq!(of(&asker.host.next(1).await), Ok(0));
    });
}

#[test]
fn a_wait_may_be_withdrawn() {
    run(&mut rig(2, 3, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        assert_eq!(asker.tell(all(file, LockExclusive, 1)).await, Ok(0));
        asker.leave_with(1, part(file, LockShared, 2, 5, 9).waiting());
        asker.leave_with(2, part(file, LockShared, 2, 5, 10).waiting());
        assert_eq!(asker.next_soon(1).await, None);
        // Nobody waits for that.
        for other in [
            part(file, Withdraw, 2, 5, 8),
            part(file, Withdraw, 1, 5, 9),
            flock(file, Withdraw, 2),
        ] {
            asker.leave_with(0, other);
            assert_eq!(of(&asker.host.next(0).await), Ok(0));
        }
        asker.leave_with(0, part(file, Withdraw, 2, 5, 9));
        assert_eq!(of(&asker.host.next(0).await), Ok(1));
        let ended = of(&asker.host.next(1).await);
        assert_eq!(ended, Err(Told::Files(Errno::EINTR)));
        assert_eq!(asker.next_soon(2).await, None);
        asker.leave_with(0, all(file, Unlock, 1));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        assert_eq!(of(&asker.host.next(2).await), Ok(0));
        // The one that was withdrawn got nothing.
        asker.leave_with(0, part(file, LockExclusive, 1, 10, 10));
        assert_eq!(of(&asker.host.next(0).await), HELD);
        asker.leave_with(0, part(file, Unlock, 2, 5, 10));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        asker.leave_with(0, all(file, LockExclusive, 1));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
    });
}

#[test]
fn a_queue_that_is_deleted_takes_those_that_wait_with_it_and_leaves_the_locks() {
    // In every second run the delete overtakes commands that no core has looked at.
    for (seed, waits_a_while) in [(1, true), (2, false), (3, false), (4, false)] {
        let mut rig = rig(2, 3, 512);
        rig.seed = wharf_runtime::Seed(seed);
        run(&mut rig, move |host| async move {
            let mut asker = Asker::new(host);
            let file = asker.file(UPDATE, b"/a").await;
            asker.leave_with(2, all(file, LockExclusive, 1));
            assert_eq!(of(&asker.host.next(2).await), Ok(0));
            asker.leave_with(1, all(file, LockExclusive, 99).waiting());
            assert_eq!(asker.next_soon(1).await, None);
            for owner in 2..50 {
                asker.leave_with(2, all(file, LockExclusive, owner).waiting());
            }
            if waits_a_while {
                assert_eq!(asker.next_soon(2).await, None);
            }
            let delete = Command::delete_submission_queue(3);
            assert_eq!(asker.host.admin_status(delete).await, S::Success);
            let cpu = asker.host.cpu.clone();
            let mut ended = 0;
            while let Some(found) = asker.host.queues[2].poll(&cpu) {
                asker.host.queues[2].release();
                let aborted = Err(Told::Status(S::AbortedQueueDeleted));
                assert_eq!(of(&found), aborted);
                ended += 1;
            }
            // What had not been fetched is gone with the queue.
            assert!(ended == 48 || !waits_a_while, "{ended} have ended");
            assert_eq!(asker.next_soon(1).await, None);
            // What was granted on the queue is the host's.
            asker.leave_with(0, all(file, LockShared, 3));
            assert_eq!(of(&asker.host.next(0).await), HELD);
            asker.leave_with(0, all(file, Unlock, 1));
            assert_eq!(of(&asker.host.next(0).await), Ok(0));
            assert_eq!(of(&asker.host.next(1).await), Ok(0));
        });
    }
}

#[test]
fn who_leaves_waits_for_nothing_and_has_no_locks() {
    run(&mut rig(2, 3, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        assert_eq!(asker.tell(all(file, LockExclusive, 1)).await, Ok(0));
        for queue in [1, 2] {
            asker.leave_with(queue, all(file, LockShared, 2).waiting());
            assert_eq!(asker.next_soon(queue).await, None);
        }
        asker.leave_with(0, Command::leave_files(1));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        for queue in [1, 2] {
            let ended = of(&asker.host.next(queue).await);
            assert_eq!(ended, Err(Told::Status(S::HandleInvalid)));
        }
        let file = asker.file(UPDATE, b"/a").await;
        assert_eq!(asker.tell(all(file, LockExclusive, 3)).await, Ok(0));
    });
}

#[test]
fn a_handle_that_is_closed_waits_for_nothing() {
    run(&mut rig(2, 3, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        let same = asker.file(UPDATE, b"/a").await;
        assert_eq!(asker.tell(all(file, LockExclusive, 1)).await, Ok(0));
        asker.leave_with(1, all(same, LockShared, 2).waiting());
        asker.leave_with(2, all(file, LockShared, 2).waiting());
        assert_eq!(asker.next_soon(1).await, None);
        asker.leave_with(0, Command::close_file(1, same));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        let ended = of(&asker.host.next(1).await);
        assert_eq!(ended, Err(Told::Status(S::HandleInvalid)));
        assert_eq!(asker.next_soon(2).await, None);
        asker.leave_with(0, all(file, ReleaseOwner, 1));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        assert_eq!(of(&asker.host.next(2).await), Ok(0));
    });
}

#[test]
fn a_loss_of_power_forgets_locks() {
    let mut rig = rig(1, 1, 64);
    for owner in [1, 2] {
        run(&mut rig, move |host| async move {
            let mut asker = Asker::new(host);
            let file = asker.file(UPDATE, b"/a").await;
            assert_eq!(asker.tell(all(file, LockExclusive, owner)).await, Ok(0));
            assert_eq!(asker.tell(Command::sync_files(1)).await, Ok(0));
        });
    }
}

#[test]
fn floods_end_at_limits() {
    run(&mut rig(1, 2, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        let full = Err(Told::Files(Errno::ENOLCK));
        for at in 0..4096 {
            let one = part(file, LockExclusive, at, 2 * at, 2 * at);
            assert_eq!(asker.tell(one).await, Ok(0), "{at}");
        }
        let more = part(file, LockShared, 1, u64::MAX, u64::MAX);
        assert_eq!(asker.tell(more).await, full);
        assert_eq!(asker.tell(flock(file, LockShared, 1)).await, full);
        // One that grows is no more than one.
        assert_eq!(asker.tell(part(file, LockExclusive, 0, 0, 1)).await, Ok(0));
        assert_eq!(asker.tell(part(file, Unlock, 1, 2, 2)).await, Ok(0));
        assert_eq!(asker.tell(part(file, LockExclusive, 0, 0, 2)).await, Ok(0));
        let ends = part(file, LockExclusive, 9, 1 << 40, 1 << 41);
        assert_eq!(asker.tell(ends).await, Ok(0));
        // It would be split in two.
        let split = part(file, Unlock, 9, 3 << 39, 3 << 39);
        assert_eq!(asker.tell(split).await, full);
        // Of 64 commands 8 wait, and no more.
        for owner in 10_000..10_008 {
            asker.leave_with(0, all(file, LockExclusive, owner).waiting());
        }
        assert_eq!(asker.next_soon(0).await, None);
        asker.leave_with(1, all(file, LockExclusive, 10_008).waiting());
        assert_eq!(of(&asker.host.next(1).await), full);
        asker.leave_with(1, all(file, LockExclusive, 10_008));
        assert_eq!(of(&asker.host.next(1).await), HELD);
        asker.leave_with(1, Command::leave_files(1));
        assert_eq!(of(&asker.host.next(1).await), Ok(0));
        for _ in 0..8 {
            let ended = of(&asker.host.next(0).await);
            assert_eq!(ended, Err(Told::Status(S::HandleInvalid)));
        }
    });
}

#[test]
fn one_who_waits_and_may_have_no_more_is_told_so_in_its_turn() {
    run(&mut rig(1, 2, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        let other = asker.file(UPDATE, b"/b").await;
        asker.leave_with(0, all(other, LockExclusive, 1));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        asker.leave_with(1, part(other, LockExclusive, 2, 0, 4).waiting());
        assert_eq!(asker.next_soon(1).await, None);
        for at in 0..4095 {
            asker.leave_with(0, part(file, LockExclusive, 1, 2 * at, 2 * at));
            assert_eq!(of(&asker.host.next(0).await), Ok(0), "{at}");
        }
        // What is given back makes one lock shorter, and no room for another.
        asker.leave_with(0, part(other, Unlock, 1, 0, 4));
        assert_eq!(of(&asker.host.next(0).await), Ok(0));
        let full = Err(Told::Files(Errno::ENOLCK));
        assert_eq!(of(&asker.host.next(1).await), full);
    });
}

#[test]
fn fields_without_a_meaning_are_refused() {
    run(&mut rig(1, 1, 64), |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/a").await;
        let field = Err(Told::Status(S::InvalidField));
        for operation in [LockShared, LockExclusive, Unlock, Withdraw] {
            let reversed = part(file, operation, 1, 10, 9);
            assert_eq!(asker.tell(reversed).await, field, "{operation}");
        }
        assert_eq!(asker.tell(part(file, ReleaseOwner, 1, 10, 9)).await, Ok(0));
        for operation in [Unlock, ReleaseOwner, Withdraw] {
            let waits = all(file, operation, 1).waiting();
            assert_eq!(asker.tell(waits).await, field, "{operation}");
        }
        let detects = all(file, LockShared, 1).detecting_deadlocks();
        assert_eq!(asker.tell(detects).await, field);
        let whole = flock(file, LockShared, 1).waiting().detecting_deadlocks();
        assert_eq!(asker.tell(whole).await, field);
        for operation in 5..=255 {
            let mut unknown = all(file, LockShared, 1);
            unknown.cdw15 |= operation;
            if unknown.lock_operation().is_none() {
                assert_eq!(asker.tell(unknown).await, field, "{operation}");
            }
        }
        let right = FileLock {
            last: 5,
            state: LockState::Shared.raw(),
            ..FileLock::default()
        };
        for wrong in [
            FileLock { state: 0, ..right },
            FileLock { state: 3, ..right },
            FileLock { first: 6, ..right },
        ] {
            assert_eq!(asker.test(file, false, wrong).await.0, field, "{wrong:?}");
        }
        asker.put(0, right.as_bytes());
        for bytes in [0, 31] {
            let short = asker.aimed(Command::test_lock(1, file, false, bytes));
            assert_eq!(asker.tell(short).await, field);
        }
        assert_eq!(asker.test(file, false, right).await.0, Ok(0));
    });
}
