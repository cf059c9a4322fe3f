//! Locks by the host's client: waits in the drive, waits that are stopped, more waits than there is room for.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use wharf_files::locks::{LockKind, LockRange, LockSpace};
use wharf_files::{Errno, Handle, OpenFlags};
use wharf_host::files::FileError;
use wharf_host::stor::{HeldLock, LockRequest, Placement, StorClient};

use crate::PLACEMENTS;
use crate::machine::run;

type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs futures beside each other, in one task, until all have ended.
async fn beside(mut all: Vec<Running<'_>>) {
    poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        match all.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

const EXCLUSIVE: LockRequest = LockRequest {
    owner: 0,
    space: LockSpace::Records,
    range: LockRange::ALL,
    kind: LockKind::Exclusive,
    waits: false,
    detects: false,
};

fn of(owner: u64) -> LockRequest {
    LockRequest { owner, ..EXCLUSIVE }
}

fn waits(owner: u64) -> LockRequest {
    LockRequest {
        waits: true,
        ..of(owner)
    }
}

async fn file(client: &StorClient, name: &[u8]) -> Handle {
    let opened = client.open(name.into(), OpenFlags::CREATE, 0o644).await;
    opened.unwrap().handle
}

async fn unlock(client: &StorClient, file: Handle, owner: u64) {
    let unlocked = client.unlock(file, owner, LockSpace::Records, LockRange::ALL);
    unlocked.await.unwrap();
}

fn errno(asked: Result<(), FileError>) -> Option<Errno> {
    asked.err().map(|error| error.errno())
}

/// Waits for a lock that is held, for so many milliseconds.
async fn wait_in_vain(client: &StorClient, file: Handle, owner: u64, milliseconds: u32) {
    let mut looks = 0;
    let stop = || {
        looks += 1;
        looks >= milliseconds
    };
    let stopped = client.lock_unless(file, &waits(owner), Some(stop)).await;
    assert_eq!(errno(stopped), Some(Errno::EINTR));
}

#[test]
fn who_has_a_lock_is_told_and_who_waits_gets_it() {
    for placement in PLACEMENTS {
        run(2, placement, async |client| {
            let file = file(&client, b"/a").await;
            client.lock(file, &of(1)).await.unwrap();
            assert_eq!(errno(client.lock(file, &of(2)).await), Some(Errno::EAGAIN));
            let held = client.test_lock(file, &of(2)).await.unwrap();
            let expected = HeldLock {
                owner: 1,
                session: 0,
                is_own: true,
                range: LockRange::ALL,
                kind: LockKind::Exclusive,
            };
            assert_eq!(held, Some(expected));
            assert_eq!(client.test_lock(file, &of(1)).await.unwrap(), None);
            beside(vec![
                Box::pin(async { client.lock(file, &waits(2)).await.unwrap() }),
                Box::pin(unlock(&client, file, 1)),
            ])
            .await;
            let held = client.test_lock(file, &of(1)).await.unwrap();
            assert_eq!(held.map(|lock| lock.owner), Some(2));
            let released = client.release_locks(file, 2, LockSpace::Records).await;
            released.unwrap();
            assert_eq!(client.test_lock(file, &of(1)).await.unwrap(), None);
        });
    }
}

#[test]
fn a_wait_is_stopped_and_leaves_nothing_behind() {
    for placement in PLACEMENTS {
        run(2, placement, async |client| {
            let file = file(&client, b"/a").await;
            client.lock(file, &of(1)).await.unwrap();
            wait_in_vain(&client, file, 2, 1).await;
            wait_in_vain(&client, file, 2, 20).await;
            unlock(&client, file, 1).await;
            assert_eq!(client.test_lock(file, &of(1)).await.unwrap(), None);
        });
    }
}

#[test]
fn a_wait_outlasts_the_time_after_which_commands_are_given_up() {
    run(1, Placement::ByInode, async |client| {
        let file = file(&client, b"/a").await;
        client.lock(file, &of(1)).await.unwrap();
        beside(vec![
            Box::pin(async { client.lock(file, &waits(2)).await.unwrap() }),
            Box::pin(async {
                wait_in_vain(&client, file, 3, 70_000).await;
                unlock(&client, file, 1).await;
            }),
        ])
        .await;
        let held = client.test_lock(file, &of(1)).await.unwrap();
        assert_eq!(held.map(|lock| lock.owner), Some(2));
        assert_eq!(client.counted().failures, 0);
    });
}

#[test]
fn more_who_wait_than_there_is_room_for_all_get_their_turn() {
    for cores in [1, 2] {
        run(cores, Placement::ByInode, async |client| {
            let file = file(&client, b"/a").await;
            client.lock(file, &of(0)).await.unwrap();
            let one = async |owner| {
                client.lock(file, &waits(owner)).await.unwrap();
                let read = client.read(file, 0, &mut [0; 10]).await;
                assert_eq!(read.unwrap(), 0);
                unlock(&client, file, owner).await;
            };
            let mut all: Vec<Running<'_>> = Vec::new();
            for owner in 1..=150 {
                all.push(Box::pin(one(owner)));
            }
            all.push(Box::pin(async {
                wait_in_vain(&client, file, 1000, 5).await;
                unlock(&client, file, 0).await;
            }));
            beside(all).await;
            assert_eq!(client.test_lock(file, &of(0)).await.unwrap(), None);
        });
    }
}

#[test]
fn a_circle_of_two_who_wait_is_refused() {
    run(2, Placement::ByInode, async |client| {
        let (a, b) = (file(&client, b"/a").await, file(&client, b"/b").await);
        client.lock(a, &of(1)).await.unwrap();
        client.lock(b, &of(2)).await.unwrap();
        let detects = |owner| LockRequest {
            detects: true,
            ..waits(owner)
        };
        beside(vec![
            Box::pin(async { client.lock(b, &detects(1)).await.unwrap() }),
            Box::pin(async {
                wait_in_vain(&client, b, 3, 5).await;
                let refused = client.lock(a, &detects(2)).await;
                assert_eq!(errno(refused), Some(Errno::EDEADLK));
                unlock(&client, b, 2).await;
            }),
        ])
        .await;
    });
}
