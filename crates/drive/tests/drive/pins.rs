//! Pinning, unpinning, lending: what each command does alone, step by step.

use wharf_wire::command::Command;
use wharf_wire::pin::{Access, Unpin};
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::host::code;
use crate::support::pins::PIN_LIST;
use crate::support::rig::Rig;
use crate::wear::{short_lived, wear_out};

use StatusCode as S;

fn clean(lba: u64) -> Unpin {
    let is_dirty = false;
    Unpin { lba, is_dirty }
}

#[test]
fn a_pinned_page_is_in_its_frame_until_it_is_unpinned() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            assert_eq!(host.pin(1, Access::Read).await, Err(S::NoHostMemory));
            assert_eq!(host.write(0, 4, 100).await, S::Success);
            let lending = host.lend(&[4]).await;
            let frame = host.pin(1, Access::Read).await.unwrap();
            assert_eq!(lending.value(frame), 101);
            // The same page pinned again is the same frame.
            assert_eq!(host.pin(1, Access::Read).await, Ok(frame));
            for _ in 0..2 {
                assert_eq!(host.unpin(1, false).await, S::Success);
            }
            assert_eq!(host.unpin(1, false).await, S::NotPinned);
            let statistics = host.statistics().await;
            assert_eq!((statistics.pinned_pages, statistics.pin_hits), (2, 1));
            assert_eq!(statistics.pin_fills, 1, "the other pin found it in a frame");
            assert_eq!((statistics.pin_commands, statistics.unpin_commands), (2, 2));
            assert_eq!((statistics.frames, statistics.frames_held), (4, 0));
        });
    }
}

#[test]
fn what_is_written_in_place_survives_eviction_and_flush() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            let lending = host.lend(&[2]).await;
            // Two frames, and every page of the first ones written in place: dirty evictions.
            for lba in 0..12 {
                let frame = host.pin(lba, Access::Write).await.unwrap();
                assert_eq!(lending.value(frame), 0);
                lending.write(frame, 300 + lba);
                assert_eq!(host.unpin(lba, lba % 2 == 0).await, S::Success);
            }
            for lba in 0..12 {
                assert_eq!(host.read(lba).await, Ok(300 + lba), "page {lba}");
            }
            // A pinned page, too, is written by a flush.
            let frame = host.pin(3, Access::Write).await.unwrap();
            lending.write(frame, 777);
            assert_eq!(host.io(Command::flush(1)).await, S::Success);
            assert!(!lending.is_dirty(frame));
        });
        let contents = rig.contents();
        for (lba, expected) in (0..12).map(|lba| (lba, if lba == 3 { 777 } else { 300 + lba })) {
            assert_eq!(contents[lba as usize], Ok(expected), "page {lba} on flash");
        }
    }
}

#[test]
fn a_pin_tells_of_zeros_that_another_has_not_overwritten_yet() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            assert_eq!(host.write(0, 9, 100).await, S::Success);
            let lending = host.lend(&[8]).await;
            let overwrite = Command::pin(1, 2, Access::Overwrite);
            let (frame, is_blank) = host.pin_told(overwrite).await.unwrap();
            assert!(!is_blank, "who overwrites it need not know");
            for access in [Access::Read, Access::Write] {
                let told = host.pin_told(Command::pin(1, 2, access)).await;
                assert_eq!(told, Ok((frame, true)));
            }
            let (status, _) = host.pin_list(&[1, 2, 3], Access::Read, &[]).await;
            assert_eq!(status, S::Success);
            let told = host.told(PIN_LIST, 3).into_iter();
            let are_blank: Vec<bool> = told.map(|told| told.unwrap().1).collect();
            assert_eq!(are_blank, [false, true, false]);
            // Written, then written back: it has content from the mark on.
            lending.write(frame, 700);
            for _ in 0..2 {
                let told = host.pin_told(Command::pin(1, 2, Access::Read)).await;
                assert_eq!(told, Ok((frame, false)));
                assert_eq!(host.io(Command::flush(1)).await, S::Success);
            }
            // In a frame already: what it holds is not thrown away.
            let frame = host.pin(5, Access::Read).await.unwrap();
            assert_eq!(host.pin(5, Access::Overwrite).await, Ok(frame));
            let told = host.pin_told(Command::pin(1, 5, Access::Read)).await;
            assert_eq!(told, Ok((frame, false)));
        });
    }
}

#[test]
fn a_list_exchanges_pages() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            assert_eq!(host.write(0, 9, 100).await, S::Success);
            let lending = host.lend(&[3, 3]).await;
            let (status, frames) = host.pin_list(&[0, 1, 4], Access::Read, &[]).await;
            assert_eq!(status, S::Success);
            let values: Vec<u64> = frames.iter().map(|f| lending.value(f.unwrap())).collect();
            assert_eq!(values, [100, 101, 104]);
            // Unpins are served first, so frames of two cores suffice for ever.
            for round in 0..6u64 {
                let (old, new) = match round % 2 {
                    0 => ([0, 1, 4], [2, 3, 7]),
                    _ => ([2, 3, 7], [0, 1, 4]),
                };
                let unpins = old.map(clean);
                let (status, frames) = host.pin_list(&new, Access::Read, &unpins).await;
                assert_eq!(status, S::Success, "round {round}");
                for (lba, frame) in new.iter().zip(frames) {
                    assert_eq!(lending.value(frame.unwrap()), 100 + lba);
                }
            }
            host.fill_list(9, 0, &[], &[0, 1, 4].map(clean));
            let unpin = host.listed(Command::unpin_list(1, 3), 9);
            assert_eq!(host.io(unpin).await, S::Success);
            assert_eq!(host.statistics().await.frames_held, 0);
        });
    }
}

/// A worn drive refused such a command whole, with the status of one whose unpins are done: the host took its
/// pages for given back, and their frames were held for ever.
#[test]
fn a_worn_drive_pins_nothing_to_be_written_but_takes_pages_back() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(short_lived(config));
        let pages = rig.config().namespace_pages();
        rig.run(move |mut host| async move {
            wear_out(&mut host, pages).await;
            let _lending = host.lend(&[4, 4]).await;
            for lba in [0, 1, 4, 5] {
                host.pin(lba, Access::Read).await.unwrap();
            }
            let pin = Command::pin(1, 8, Access::Write).with_unpin(clean(0));
            assert_eq!(host.pin_command(pin).await, Err(S::NamespaceWriteProtected));
            let unpins = [1, 4].map(clean);
            for access in [Access::Write, Access::Overwrite] {
                let (status, frames) = host.pin_list(&[8, 9], access, &unpins).await;
                assert_eq!(frames, [None, None]);
                // Of the failures, that of the lowest page is told: the second time, of the unpins.
                let expected = match access {
                    Access::Write => S::NamespaceWriteProtected,
                    _ => S::NotPinned,
                };
                assert_eq!(status, expected);
            }
            assert_eq!(host.statistics().await.frames_held, 1, "page 5 alone");
            // To read is allowed.
            let (status, frames) = host.pin_list(&[0, 1], Access::Read, &[clean(5)]).await;
            assert_eq!((status, frames.iter().flatten().count()), (S::Success, 2));
        });
    }
}

/// What became of the unpins was forgotten with the wait.
#[test]
fn a_pin_that_waits_tells_of_its_failed_unpins_at_its_end() {
    let mut rig = Rig::new(tiny_timed());
    rig.run(|mut host| async move {
        let _lending = host.lend(&[1]).await;
        let frame = host.pin(5, Access::Read).await.unwrap();
        let pin = host.send(0, Command::pin(1, 6, Access::Read).with_unpin(clean(7)));
        host.cpu.sleep_until(host.cpu.now() + 50_000).await;
        assert!(host.queues[0].poll(&host.cpu).is_none());
        host.send(0, Command::unpin(1, clean(5)));
        assert_eq!(code(&host.next(0).await), S::Success);
        let found = host.next(0).await;
        assert_eq!((found.cid, code(&found)), (pin, S::NotPinned));
        assert_eq!(found.wide_result(), frame, "it is pinned all the same");
        assert_eq!(host.unpin(6, false).await, S::Success);
    });
}

/// A command whose pages are another core's stood in line on a core that had only unpins of it.
#[test]
fn a_core_that_pins_nothing_for_a_command_does_not_have_it_wait() {
    let mut rig = Rig::new(tiny_pair());
    rig.run(|mut host| async move {
        // One frame a core; of each four pages the last two are the second core's.
        let _lending = host.lend(&[2]).await;
        for _ in 0..2 {
            host.pin(2, Access::Read).await.unwrap();
        }
        let waiting = host.send(0, Command::pin(1, 3, Access::Read));
        host.cpu.sleep_until(host.cpu.now() + 50_000).await;
        let both = Command::pin(1, 0, Access::Read).with_unpin(clean(2));
        host.pin_command(both).await.unwrap();
        host.send(0, Command::unpin(1, clean(2)));
        let ends = [host.next(0).await, host.next(0).await];
        assert!(ends.iter().all(|end| code(end) == S::Success));
        assert_eq!(ends[1].cid, waiting);
    });
}

#[test]
fn a_pin_without_a_free_frame_waits_for_an_unpin_or_fails() {
    for config in [tiny(), tiny_timed()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            let _lending = host.lend(&[1]).await;
            let frame = host.pin(5, Access::Read).await.unwrap();
            let impatient = Command::pin(1, 6, Access::Read).without_waiting();
            assert_eq!(host.pin_command(impatient).await, Err(S::NoFreeFrame));
            // More than all frames at once can never be.
            let (status, frames) = host.pin_list(&[6, 7], Access::Read, &[]).await;
            assert_eq!((status, frames), (S::NoFreeFrame, vec![None, None]));
            let waiting = host.send(0, Command::pin(1, 6, Access::Read));
            host.cpu.sleep_until(host.cpu.now() + 50_000).await;
            assert!(host.queues[0].poll(&host.cpu).is_none());
            let unpin = host.send(0, Command::unpin(1, clean(5)));
            let ends = [host.next(0).await, host.next(0).await];
            assert!(ends.iter().all(|end| code(end) == S::Success));
            assert_eq!(ends.map(|end| end.cid), [unpin, waiting]);
            assert_eq!(ends[1].wide_result(), frame);
            assert_eq!(host.unpin(6, false).await, S::Success);
            assert_eq!(host.statistics().await.pin_waits, 1);
        });
    }
}
