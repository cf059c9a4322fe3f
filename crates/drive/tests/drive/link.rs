//! What crosses the link beside the data of reads and writes: pages of the host memory buffer.

use wharf_drive::config::DriveConfig;
use wharf_wire::command::Command;
use wharf_wire::pin::Access;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny;
use crate::support::rig::Rig;

/// What a page takes on the link of [`slow_link`].
const PAGE_NS: u64 = 1_000;

/// Flash that takes no time, behind a link that does: 4096 MB/s from the host.
fn slow_link(to_host_mb_s: u64) -> DriveConfig {
    let mut config = tiny();
    config.link.from_host_mb_s = 4096;
    config.link.to_host_mb_s = to_host_mb_s;
    config
}

#[test]
fn a_flush_waits_until_the_link_has_carried_what_was_written_in_place() {
    Rig::new(slow_link(0)).run(|mut host| async move {
        let hmb = host.lend(&[4]).await;
        for lba in 0..4 {
            let frame = host.pin(lba, Access::Overwrite).await.unwrap();
            hmb.write(frame, 40 + lba);
        }
        let before_ns = host.cpu.now();
        assert_eq!(host.io(Command::flush(1)).await, StatusCode::Success);
        assert_eq!(host.cpu.now() - before_ns, 4 * PAGE_NS);
        // What is written back already stays where it is.
        let before_ns = host.cpu.now();
        assert_eq!(host.io(Command::flush(1)).await, StatusCode::Success);
        assert_eq!(host.cpu.now(), before_ns);
    });
}

#[test]
fn a_pin_waits_until_the_link_has_carried_the_dirty_page_that_leaves() {
    Rig::new(slow_link(0)).run(|mut host| async move {
        let hmb = host.lend(&[1]).await;
        let frame = host.pin(0, Access::Overwrite).await.unwrap();
        hmb.write(frame, 7);
        assert_eq!(host.unpin(0, true).await, StatusCode::Success);
        let before_ns = host.cpu.now();
        host.pin(1, Access::Overwrite).await.unwrap();
        assert_eq!(host.cpu.now() - before_ns, PAGE_NS);
        assert_eq!(host.read(0).await, Ok(7));
    });
}

/// A page that came into a frame while a pin waited for a free one was charged to that pin, too.
#[test]
fn a_page_that_two_pins_want_crosses_the_link_once() {
    Rig::new(slow_link(2048)).run(|mut host| async move {
        let hmb = host.lend(&[2]).await;
        let mut frames = Vec::new();
        for lba in 0..2 {
            frames.push(host.pin(lba, Access::Overwrite).await.unwrap());
            hmb.write(frames[lba as usize], 40 + lba);
            assert_eq!(host.unpin(lba, true).await, StatusCode::Success);
        }
        // Both frames are being written: two pins wait for one of them, with a frame reserved each.
        assert!(frames.iter().all(|frame| hmb.try_begin(*frame)));
        let pins = [5, 5].map(|lba| host.send(0, Command::pin(1, lba, Access::Read)));
        host.cpu.sleep_until(host.cpu.now() + 10 * PAGE_NS).await;
        frames.iter().for_each(|frame| hmb.end(*frame, 50));
        let before_ns = host.cpu.now();
        let found = host.next(0).await;
        assert!(pins.contains(&found.cid));
        // One pin finds the page that the other has brought in; only that one's crosses the link.
        let waited_ns = host.cpu.now() - before_ns;
        assert!(waited_ns <= PAGE_NS, "{waited_ns}");
        host.next(0).await;
        assert!(host.cpu.now() - before_ns >= 2 * PAGE_NS);
    });
}

#[test]
fn a_cached_page_that_is_read_crosses_the_link_twice() {
    Rig::new(slow_link(2048)).run(|mut host| async move {
        let hmb = host.lend(&[1]).await;
        let frame = host.pin(0, Access::Overwrite).await.unwrap();
        hmb.write(frame, 7);
        let before_ns = host.cpu.now();
        assert_eq!(host.read(0).await, Ok(7));
        assert_eq!(host.cpu.now() - before_ns, PAGE_NS + 2 * PAGE_NS);
    });
}
