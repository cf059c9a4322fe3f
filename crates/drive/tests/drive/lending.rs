//! Lending memory and taking it back, what other commands do to cached pages, and what collection
//! does below them.

use wharf_drive::ftl::Place;
use wharf_wire::admin::{FeatureSelect, SecureErase};
use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::features::FeatureId;
use wharf_wire::host_memory::HostMemoryDescriptor;
use wharf_wire::pin::{Access, Unpin};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::host::{Host, code};
use crate::support::pins::Lending;
use crate::support::rig::Rig;

use StatusCode as S;

async fn frames(host: &mut Host) -> u32 {
    let get = Command::get_feature(FeatureId::HostMemory, FeatureSelect::Current);
    host.admin(get).await.dw0
}

#[test]
fn memory_taken_back_or_changed_loses_nothing() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            let first = host.lend(&[5]).await;
            for lba in 0..4 {
                let frame = host.pin(lba, Access::Write).await.unwrap();
                first.write(frame, 40 + lba);
            }
            let back = Command::take_host_memory_back();
            // While pages are pinned nothing happens, whatever is asked.
            for command in [back, first.command(), Command::format(1, SecureErase::None)] {
                assert_eq!(host.admin_status(command).await, S::FramesPinned);
            }
            for lba in 0..4 {
                assert_eq!(host.unpin(lba, true).await, S::Success);
            }
            // Less memory, in two chunks, of which one page belongs to no core.
            let second = host.lend(&[2, 1]).await;
            assert_eq!(frames(&mut host).await, 3);
            for lba in 0..4 {
                let frame = host.pin(lba, Access::Write).await.unwrap();
                assert_eq!(second.value(frame), 40 + lba);
                second.write(frame, 60 + lba);
                assert_eq!(host.unpin(lba, false).await, S::Success);
            }
            assert_eq!(host.admin_status(back).await, S::Success);
            assert_eq!(frames(&mut host).await, 0);
            assert_eq!(host.pin(0, Access::Read).await, Err(S::NoHostMemory));
            for lba in 0..4 {
                assert_eq!(host.read(lba).await, Ok(60 + lba));
            }
        });
        assert_eq!(
            rig.contents()[..4],
            [60, 61, 62, 63].map(Ok),
            "it was made durable"
        );
    }
}

#[test]
fn wrong_lending_gets_its_status_and_changes_nothing() {
    let mut rig = Rig::new(tiny_pair());
    rig.run(|mut host| async move {
        let lending = host.lend(&[4]).await;
        let good = Lending::new(&host, &[3, 3]);
        let (list, whole) = (good.list(), host.whole.address(9));
        let lend = Command::lend_host_memory;
        let mut cases = vec![
            ("a crooked list", lend(6, list + 64, 2), S::PrpOffsetInvalid),
            ("a list nowhere", lend(6, 7 << 44, 2), S::DataTransferError),
            ("no descriptors", lend(6, list, 0), S::InvalidField),
            ("too many descriptors", lend(6, list, 4097), S::InvalidField),
            ("another sum", lend(5, list, 2), S::InvalidField),
            ("fewer chunks", lend(6, list, 1), S::InvalidField),
        ];
        // One descriptor each, with one thing wrong.
        let (data, table) = (host.data.address(0), host.whole.address(20));
        let name = PAGE_BYTES as u64;
        let chunk = HostMemoryDescriptor::new;
        let wrong = [
            ("no frames", chunk(data, 0, name, table), S::InvalidField),
            (
                "frames nowhere",
                chunk(0, 2, name, table),
                S::DataTransferError,
            ),
            (
                "a crooked frame",
                chunk(data + 8, 2, name, table),
                S::DataTransferError,
            ),
            (
                "too many frames",
                chunk(data, 601, name, table),
                S::DataTransferError,
            ),
            ("a crooked name", chunk(data, 2, 8, table), S::InvalidField),
            (
                "a name of 64 bits",
                chunk(data, 2, 1 << 63, table),
                S::InvalidField,
            ),
            (
                "names over bit 63",
                chunk(data, 2, (1 << 63) - name, table),
                S::InvalidField,
            ),
            (
                "a table nowhere",
                chunk(data, 2, name, 0),
                S::DataTransferError,
            ),
            (
                "a table of data",
                chunk(data, 2, name, data),
                S::DataTransferError,
            ),
            (
                "a crooked table",
                chunk(data, 2, name, table + 64),
                S::DataTransferError,
            ),
            (
                "fewer frames than cores",
                chunk(data, 1, name, table),
                S::InvalidField,
            ),
        ];
        for (name, descriptor, status) in wrong {
            cases.push((name, lend(descriptor.bsize, whole, 1), status));
        }
        let frame = host.pin(3, Access::Read).await.unwrap();
        assert_eq!(host.unpin(3, false).await, S::Success);
        for (index, (name, command, expected)) in cases.into_iter().enumerate() {
            if let Some((_, descriptor, _)) = index.checked_sub(6).map(|i| wrong[i]) {
                host.whole_page(9)[..32].copy_from_slice(descriptor.as_bytes());
            }
            assert_eq!(host.admin_status(command).await, expected, "{name}");
        }
        assert_eq!(frames(&mut host).await, 4);
        assert_eq!(
            host.pin(3, Access::Read).await,
            Ok(frame),
            "it is still cached"
        );
        assert_eq!(lending.frames(), 4);
        assert_eq!(host.unpin(3, false).await, S::Success);
    });
}

#[test]
fn a_drive_without_the_feature_has_no_pins() {
    let mut config = tiny();
    config.host_memory.enabled = false;
    let mut rig = Rig::new(config);
    rig.run(|mut host| async move {
        let lending = Lending::new(&host, &[4]);
        assert_eq!(host.admin_status(lending.command()).await, S::InvalidField);
        let unpin = Unpin {
            lba: 0,
            is_dirty: false,
        };
        for command in [Command::pin(1, 0, Access::Read), Command::unpin(1, unpin)] {
            assert_eq!(host.io(command).await, S::InvalidOpcode);
        }
    });
}

#[test]
fn other_commands_see_what_is_cached_and_frames_see_what_they_do() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            assert_eq!(host.write(0, 4, 10).await, S::Success);
            let lending = host.lend(&[8]).await;
            let mut frames = Vec::new();
            for lba in 0..4 {
                frames.push(host.pin(lba, Access::Write).await.unwrap());
            }
            lending.write(frames[0], 500);
            assert_eq!(host.read(0).await, Ok(500));
            // A command's write wins over an older one in place, and is what the frame holds.
            assert_eq!(host.write(0, 2, 600).await, S::Success);
            assert_eq!(
                (lending.value(frames[0]), lending.value(frames[1])),
                (600, 601)
            );
            assert!(!lending.is_dirty(frames[0]));
            assert_eq!(host.deallocate(&[(1, 2)]).await, S::Success);
            assert_eq!((lending.value(frames[1]), host.read(2).await), (0, Ok(0)));
            assert_eq!(host.io(Command::write_zeroes(1, 3, 1)).await, S::Success);
            assert_eq!(lending.value(frames[3]), 0);
            for lba in 0..4 {
                assert_eq!(host.unpin(lba, false).await, S::Success);
            }
            let format = Command::format(1, SecureErase::UserData);
            assert_eq!(host.admin_status(format).await, S::Success);
            let frame = host.pin(0, Access::Read).await.unwrap();
            assert_eq!(lending.value(frame), 0);
            assert_eq!(host.unpin(0, false).await, S::Success);
        });
    }
}

#[test]
fn a_page_pinned_to_be_overwritten_is_what_it_was_until_it_is_written() {
    let mut rig = Rig::new(tiny_timed());
    rig.run(|mut host| async move {
        assert_eq!(host.write(0, 2, 10).await, S::Success);
        let lending = host.lend(&[2]).await;
        let reads = host.statistics().await.media_reads;
        let frame = host.pin(0, Access::Overwrite).await.unwrap();
        assert_eq!(lending.value(frame), 0);
        assert_eq!(
            host.statistics().await.media_reads,
            reads,
            "nothing is fetched"
        );
        assert_eq!(host.io(Command::flush(1)).await, S::Success);
        assert_eq!(host.read(0).await, Ok(10));
        assert_eq!(host.unpin(0, false).await, S::Success);
        let frame = host.pin(0, Access::Read).await.unwrap();
        assert_eq!(lending.value(frame), 10);
        assert_eq!(host.unpin(0, false).await, S::Success);
        let frame = host.pin(1, Access::Overwrite).await.unwrap();
        lending.write(frame, 77);
        assert_eq!(host.read(1).await, Ok(77));
        assert_eq!(host.unpin(1, false).await, S::Success);
        assert_eq!(host.io(Command::flush(1)).await, S::Success);
    });
    assert_eq!(rig.contents()[..2], [Ok(10), Ok(77)]);
}

#[test]
fn a_frame_that_is_being_written_is_waited_for_but_not_for_ever() {
    let mut config = tiny_timed();
    config.host_memory.busy_wait_ns = 20_000;
    let mut rig = Rig::new(config);
    rig.run(|mut host| async move {
        let lending = host.lend(&[2]).await;
        let frame = host.pin(0, Access::Write).await.unwrap();
        lending.write(frame, 5);
        assert!(lending.try_begin(frame));
        lending.write_half(frame, 6);
        let write = host.aim(Command::write(1, 0, 1), 1, 0, 0);
        let read = host.aim(Command::read(1, 0, 1), 1, 1, 0);
        let trim = host.deallocate_command(&[(0, 1)], 3);
        for command in [Command::flush(1), write, read, trim] {
            let begun_ns = host.cpu.now();
            assert_eq!(host.io(command).await, S::FrameBusy);
            let took_ns = host.cpu.now() - begun_ns;
            assert!((20_000..30_000).contains(&took_ns), "{took_ns}");
        }
        for (sent, expected) in [(Command::flush(1), 7), (read, 8)] {
            let cid = host.send(0, sent);
            host.cpu.sleep_until(host.cpu.now() + 7_000).await;
            lending.end(frame, expected);
            let found = host.next(0).await;
            assert_eq!((found.cid, code(&found)), (cid, S::Success));
            assert_eq!(host.read(0).await, Ok(expected));
            assert!(lending.try_begin(frame));
        }
        lending.end(frame, 9);
        assert_eq!(host.io(Command::flush(1)).await, S::Success);
        assert_eq!(host.unpin(0, false).await, S::Success);
    });
    assert_eq!(rig.contents()[0], Ok(9));
}

/// A write that had begun to wait for room before any memory was lent failed with `FrameBusy` at the first
/// frame that the host was writing: its time for such frames had been counted from its start.
#[test]
fn a_write_older_than_the_lending_waits_for_a_busy_frame_like_others() {
    let mut config = tiny_timed();
    // Three pages at a time: the lending is done long before the last page has its turn.
    config.ftl.write_buffer_pages = 4;
    config.timing.program_ns = 100_000;
    config.firmware.stripe_pages = 24;
    let mut rig = Rig::new(config);
    rig.run(|mut host| async move {
        (0..24).for_each(|page| host.fill(page, 100 + page as u64));
        let write = host.aim(Command::write(1, 0, 24), 24, 0, 1);
        let write = host.send(0, write);
        let lending = host.lend(&[1]).await;
        let frame = host.pin(23, Access::Write).await.unwrap();
        assert!(lending.try_begin(frame));
        while host.statistics().await.host_write_pages < 23 {
            host.cpu.sleep_until(host.cpu.now() + 1_000).await;
        }
        // Long enough for room for the last page, not for the drive to give up.
        host.cpu.sleep_until(host.cpu.now() + 500_000).await;
        assert!(host.queues[0].poll(&host.cpu).is_none());
        lending.end(frame, 7);
        let found = host.next(0).await;
        assert_eq!((found.cid, code(&found)), (write, S::Success));
        assert_eq!(lending.value(frame), 123);
        assert_eq!(host.unpin(23, false).await, S::Success);
    });
    assert_eq!(rig.contents()[23], Ok(123));
}

/// Where page 4 is on flash.
fn place_of_page_4(rig: &mut Rig) -> Place {
    let mut place = Place::Unmapped;
    rig.inspect(|_, ftl| place = ftl.place(4));
    place
}

#[test]
fn collection_moves_cached_pages_below_their_frames() {
    let mut config = tiny_timed();
    // So that the cold block of the pinned page is moved.
    config.ftl.wear_gap_max = 1;
    let mut rig = Rig::new(config);
    rig.run(|mut host| async move {
        for first in [0, 8, 16] {
            assert_eq!(host.write(first, 8, 100 + first).await, S::Success);
        }
    });
    let before = place_of_page_4(&mut rig);
    rig.run(|mut host| async move {
        let lending = host.lend(&[4]).await;
        let frame = host.pin(4, Access::Read).await.unwrap();
        let mut collected = false;
        for round in 0..600u64 {
            host.fill(0, round + 1000);
            let command = host.aim(Command::write(1, 8 + round % 9, 1), 1, 0, 0);
            host.send(0, command);
            let found = host.next(0).await;
            assert_eq!(code(&found), S::Success);
            collected |= found.gc_state();
        }
        assert!(collected, "no completion told of collection");
        // At rest, none does.
        host.cpu.sleep_until(host.cpu.now() + 1_000_000).await;
        let cid = host.send(0, Command::verify(1, 4, 1));
        let found = host.next(0).await;
        assert_eq!((found.cid, code(&found)), (cid, S::Success));
        assert!(!found.gc_state());
        assert_eq!(lending.value(frame), 104);
        // Given up and brought in again, it comes from where it was moved to.
        assert_eq!(host.unpin(4, false).await, S::Success);
        let back = Command::take_host_memory_back();
        assert_eq!(host.admin_status(back).await, S::Success);
        assert_eq!(host.read(4).await, Ok(104));
    });
    assert_ne!(place_of_page_4(&mut rig), before, "the page was moved");
}
