//! Modes, full devices, dead devices: nothing hangs, nothing that was acknowledged is lost, and errors say what is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use wharf_host::error::DiskFault;
use wharf_host::indexless::{Mode, Reason, Store};
use wharf_host::{Client, IoError, Role};
use wharf_runtime::Seed;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::space::SpaceLevel;
use wharf_wire::status::StatusCode;

use crate::rig::{Held, PAGE, Session, Shape, read, run, sectors, write};

/// How often sectors did not come into a cache for a reason.
fn count(status: &wharf_host::indexless::Status, reason: Reason) -> u64 {
    let found = status.reasons.iter().find(|(of, _)| *of == reason);
    found.expect("all reasons are there").1
}

#[test]
fn through_leaves_nothing_dirty_and_bypass_uses_no_cache() {
    for store in [Store::Plain, Store::Fixed, Store::Chunks] {
        let shape = Shape::of(store);
        run(
            Session::create(&shape),
            &Held::default(),
            |cpu, client, cache| async move {
                write(&client, 0, &[1, 2, 3]).await.unwrap();
                assert_eq!(cache.status(&cpu).dirty, 3);
                cache.set_mode(Mode::WriteThrough);
                write(&client, 1, &[4]).await.unwrap();
                cpu.sleep_until(cpu.now() + 10_000_000).await;
                let status = cache.status(&cpu);
                assert_eq!((status.cached, status.dirty), (0, 0), "drained");
                assert_eq!(status.dirty_age_max_ns, 0);
                // The disk has it; it comes in once it has it durably.
                assert_eq!(read(&client, 0, 3).await.unwrap(), [1, 4, 3]);
                client.flush().await.unwrap();
                read(&client, 0, 3).await.unwrap();
                cpu.sleep_until(cpu.now() + 1_000_000).await;
                assert_eq!(cache.status(&cpu).cached, 3);
                write(&client, 2, &[5]).await.unwrap();
                assert_eq!(
                    cache.status(&cpu).cached,
                    2,
                    "what is written leaves the cache"
                );
                cache.set_mode(Mode::Bypass);
                let before = client.statistics();
                assert_eq!(read(&client, 0, 3).await.unwrap(), [1, 4, 5]);
                let since = client.statistics().since(&before);
                assert_eq!((since.touches, since.hits), (3, 0));
                cache.set_mode(Mode::WriteBack);
                assert_eq!(read(&client, 0, 2).await.unwrap(), [1, 4]);
                assert_eq!(client.statistics().since(&before).hits, 2);
            },
        );
    }
}

/// 081h from the drive of the cache: writes go around it, and nothing is lost, of sectors that are dirty neither.
#[test]
fn a_drive_without_space_is_written_around() {
    let shape = Shape::of(Store::Plain);
    let is_full = Arc::new(AtomicBool::new(false));
    let full = is_full.clone();
    let mut session = Session::create(&shape);
    session.fates = Some(Box::new(move |role, command| {
        let is_write = command.io_opcode() == Some(IoOpcode::Write);
        let refuses = role == Role::Cache && is_write && full.load(Ordering::Relaxed);
        refuses.then_some(StatusCode::CapacityExceeded)
    }));
    run(
        session,
        &Held::default(),
        move |cpu, client, cache| async move {
            write(&client, 0, &[1, 2, 3, 4]).await.unwrap();
            client.flush().await.unwrap();
            is_full.store(true, Ordering::Relaxed);
            write(&client, 2, &[5, 6, 7, 8]).await.unwrap();
            assert_eq!(read(&client, 0, 6).await.unwrap(), [1, 2, 5, 6, 7, 8]);
            let status = cache.status(&cpu);
            assert_eq!((status.dirty, count(&status, Reason::Level)), (2, 4));
            client.flush().await.unwrap();
            is_full.store(false, Ordering::Relaxed);
            write(&client, 2, &[9]).await.unwrap();
            assert_eq!(read(&client, 0, 6).await.unwrap(), [1, 2, 9, 6, 7, 8]);
        },
    );
}

/// The disk does not answer: what is cached is read and written, up to the limit; then writers fail, and none hangs.
/// Nothing that was acknowledged is lost when it is back.
#[test]
fn a_dead_disk_leaves_the_cache_and_hangs_nobody() {
    let shape = Shape::of(Store::Plain);
    let is_dead = Arc::new(AtomicBool::new(true));
    let dead = is_dead.clone();
    let mut session = Session::create(&shape);
    session.fates = Some(Box::new(move |role, _| {
        let fails = role == Role::Backing && dead.load(Ordering::Relaxed);
        fails.then_some(StatusCode::DataTransferError)
    }));
    run(
        session,
        &Held::default(),
        move |cpu, client, cache| async move {
            let mut taken = Vec::new();
            for at in 0..20 {
                let first = at * 8;
                match write(&client, first, &[at + 1; 6]).await {
                    Ok(()) => taken.push(first),
                    Err(error) => assert!(matches!(error, IoError::Status { .. }), "{error}"),
                }
                cpu.progress();
            }
            assert!((5..=8).contains(&taken.len()), "{taken:?}");
            for first in &taken {
                assert_eq!(read(&client, *first, 6).await.unwrap(), [first / 8 + 1; 6]);
            }
            read(&client, 1000, 1).await.unwrap_err();
            client.drain().await.unwrap_err();
            assert!(cache.status(&cpu).is_stuck);
            is_dead.store(false, Ordering::Relaxed);
            client.drain().await.unwrap();
            cache.set_mode(Mode::Bypass);
            for first in &taken {
                assert_eq!(read(&client, *first, 6).await.unwrap(), [first / 8 + 1; 6]);
            }
            cache.set_mode(Mode::WriteBack);
            write(&client, 500, &[3; 8]).await.unwrap();
            assert_eq!(read(&client, 500, 8).await.unwrap(), [3; 8]);
        },
    );
}

/// The drive of the cache does not give back what it holds: clean sectors come from the disk, dirty ones are named.
#[test]
fn what_the_drive_of_the_cache_has_lost_is_read_from_the_disk_or_named() {
    let shape = Shape::of(Store::Plain);
    let sectors_of_disk = shape.disk_sectors;
    let is_bad = Arc::new(AtomicBool::new(false));
    let bad = is_bad.clone();
    let mut session = Session::create(&shape);
    session.fates = Some(Box::new(move |role, command| {
        if role != Role::Cache || command.io_opcode() != Some(IoOpcode::Read) {
            return None;
        }
        let range = command.slba()..command.slba() + u64::from(command.pages());
        // The clean copy of sector 3, the dirty one of sector 21.
        let hit = [3, sectors_of_disk + 21]
            .iter()
            .any(|lba| range.contains(lba));
        (hit && bad.load(Ordering::Relaxed)).then_some(StatusCode::UnrecoveredReadError)
    }));
    run(
        session,
        &Held::default(),
        move |cpu, client, cache| async move {
            write(&client, 0, &[1, 2, 3, 4, 5, 6]).await.unwrap();
            client.drain().await.unwrap();
            read(&client, 0, 6).await.unwrap();
            cpu.sleep_until(cpu.now() + 1_000_000).await;
            write(&client, 20, &[7, 8, 9]).await.unwrap();
            assert_eq!(cache.status(&cpu).cached, 9);
            is_bad.store(true, Ordering::Relaxed);
            assert_eq!(read(&client, 0, 6).await.unwrap(), [1, 2, 3, 4, 5, 6]);
            let status = cache.status(&cpu);
            assert!((3..9).contains(&status.cached) && count(&status, Reason::Failed) > 0);
            assert_eq!(read(&client, 0, 6).await.unwrap(), [1, 2, 3, 4, 5, 6]);
            let lost = read(&client, 20, 3).await.unwrap_err();
            assert_eq!(lost, DiskFault::Lost { page: 21 }.into());
            assert_eq!(read(&client, 20, 1).await.unwrap(), [7]);
            assert_eq!(read(&client, 22, 1).await.unwrap(), [9]);
            // What is written again is there again.
            is_bad.store(false, Ordering::Relaxed);
            write(&client, 21, &[4]).await.unwrap();
            assert_eq!(read(&client, 20, 3).await.unwrap(), [7, 4, 9]);
        },
    );
}

/// A sequence is written around the cache from the cut-off on, but for what is dirty.
#[test]
fn a_sequence_goes_around_the_cache() {
    let shape = Shape::of(Store::Chunks);
    run(
        Session::create(&shape),
        &Held::default(),
        |cpu, client, cache| async move {
            write(&client, 28, &[99]).await.unwrap();
            for at in 0..5 {
                write(&client, at * 6, &[at + 1; 6]).await.unwrap();
            }
            let status = cache.status(&cpu);
            // The first is admitted; the last overwrites a dirty sector, and is cheaper to write beside it.
            assert_eq!(count(&status, Reason::Sequential), 18, "{status:?}");
            assert_eq!(status.dirty, 12);
            for at in 0..5 {
                assert_eq!(read(&client, at * 6, 6).await.unwrap(), [at + 1; 6]);
            }
        },
    );
}

/// Yellow: sectors leave before the limit is reached. Red: what is written goes around, and what is read does not come in;
/// what is dirty can still be written back.
#[test]
fn levels_of_space_make_room_and_stop_what_comes() {
    let shape = Shape::of(Store::Chunks);
    let level = Arc::new(Mutex::new(SpaceLevel::Green));
    let mut session = Session::create(&shape);
    session.level = Some(level.clone());
    run(
        session,
        &Held::default(),
        move |cpu, client, cache| async move {
            let set = |to| *level.lock().unwrap() = to;
            write(&client, 0, &[1, 2, 3, 4, 5, 6]).await.unwrap();
            cpu.sleep_until(cpu.now() + 10_000_000).await;
            assert_eq!(cache.status(&cpu).dirty, 6);
            set(SpaceLevel::Yellow);
            write(&client, 20, &[7]).await.unwrap();
            cpu.sleep_until(cpu.now() + 10_000_000).await;
            assert_eq!(cache.status(&cpu).cached, 0);
            set(SpaceLevel::Green);
            write(&client, 40, &[8, 9]).await.unwrap();
            set(SpaceLevel::Red);
            client.flush().await.unwrap();
            write(&client, 50, &[10]).await.unwrap();
            write(&client, 40, &[11]).await.unwrap();
            assert_eq!(read(&client, 0, 6).await.unwrap(), [1, 2, 3, 4, 5, 6]);
            let status = cache.status(&cpu);
            assert!(count(&status, Reason::Level) >= 7, "{status:?}");
            assert_eq!(read(&client, 40, 2).await.unwrap(), [11, 9]);
            assert_eq!(read(&client, 50, 1).await.unwrap(), [10]);
            client.drain().await.unwrap();
        },
    );
}

/// Data that does not compress, more than the disk holds: writers are refused before what is dirty has no place; nobody
/// hangs, nothing is lost, and after a discard it goes on.
#[test]
fn a_full_disk_refuses_writers_and_keeps_what_it_took() {
    let shape = Shape::of(Store::Chunks);
    let noise = |at: u64| {
        let mut rng = Seed(at).rng();
        let words = (0..8 * PAGE / 8).flat_map(|_| rng.below(u64::MAX).to_le_bytes());
        words.collect::<Vec<u8>>()
    };
    run(
        Session::create(&shape),
        &Held::default(),
        move |cpu, client, cache| async move {
            let (mut taken, mut refused) = (Vec::new(), 0);
            for at in 0..720 {
                // Not in order: through the cache.
                let first = at * 7 % 720 * 8;
                match client.write(sectors(first, 8), &noise(at)).await {
                    Ok(_) => taken.push((first, at)),
                    Err(IoError::Disk(DiskFault::Full)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                cpu.progress();
            }
            assert!(
                refused > 20 && taken.len() > 200,
                "{refused} of {}",
                taken.len()
            );
            client.drain().await.unwrap();
            client.flush().await.unwrap();
            let mut out = vec![0; 8 * PAGE];
            for (first, at) in &taken {
                client.read(sectors(*first, 8), &mut out).await.unwrap();
                assert!(out == noise(*at), "sectors from {first} on");
            }
            for (first, _) in &taken[..150] {
                client.discard(sectors(*first, 8)).await.unwrap();
            }
            client.flush().await.unwrap();
            let (first, _) = taken[0];
            client.write(sectors(first, 8), &noise(5)).await.unwrap();
            client.drain().await.unwrap();
            client.read(sectors(first, 8), &mut out).await.unwrap();
            assert!(out == noise(5) && !cache.status(&cpu).is_stuck);
        },
    );
}
