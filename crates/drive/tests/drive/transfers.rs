//! PRP lists: long, chained, starting anywhere, and broken ones; the largest transfer.

use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_wire::command::Command;
use wharf_wire::prp::prp_for;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny_timed;
use crate::support::host::Host;
use crate::support::rig::Rig;

/// The largest transfer: 2^MDTS pages.
const LARGEST: u32 = 256;

/// A drive that holds the largest transfer.
fn wide(kind: MediaKind, stripe_pages: u32) -> DriveConfig {
    let mut config = tiny_timed();
    config.media.kind = kind;
    config.geometry.channels = 2;
    config.geometry.blocks_per_plane = 64;
    config.firmware.cores = 2;
    config.firmware.stripe_pages = stripe_pages;
    config
}

fn expect_values(host: &Host, first: usize, pages: u32, value: u64) {
    for page in 0..pages as usize {
        assert_eq!(
            host.value(first + page),
            Ok(value + page as u64),
            "page {page} of {pages}"
        );
    }
}

#[test]
fn transfers_of_every_length_arrive_in_order() {
    for (kind, stripe_pages) in [
        (MediaKind::Stamp, 1),
        (MediaKind::Ram, 4),
        (MediaKind::Stamp, 3),
    ] {
        Rig::new(wide(kind, stripe_pages)).run(move |mut host| async move {
            for pages in [1, 2, 3, 4, 7, 8, 31, 64, 255, LARGEST] {
                let value = u64::from(pages) << 20;
                assert_eq!(
                    host.write(5, pages, value).await,
                    StatusCode::Success,
                    "{pages}"
                );
                let first = 300;
                let read = host.aim(Command::read(1, 5, pages), pages, first, 2);
                assert_eq!(host.io(read).await, StatusCode::Success, "{pages}");
                expect_values(&host, first, pages, value);
            }
        });
    }
}

#[test]
fn one_page_more_than_mdts_is_refused() {
    Rig::new(wide(MediaKind::Stamp, 2)).run(|mut host| async move {
        let pages = LARGEST + 1;
        for command in [Command::write(1, 0, pages), Command::read(1, 0, pages)] {
            let command = host.aim(command, pages, 0, 0);
            assert_eq!(host.io(command).await, StatusCode::InvalidField);
        }
        assert_eq!(
            host.io(Command::verify(1, 0, pages)).await,
            StatusCode::Success
        );
        assert_eq!(
            host.io(Command::write_zeroes(1, 0, pages)).await,
            StatusCode::Success
        );
    });
}

/// A list that begins near the end of its page goes on in another one.
#[test]
fn a_list_may_begin_anywhere_and_chain() {
    Rig::new(wide(MediaKind::Ram, 2)).run(|mut host| async move {
        for slots_left in [1u64, 2, 3] {
            let pages = 12usize;
            (0..pages).for_each(|page| host.fill(page, 700 + page as u64));
            let start = host.whole.address(1) - 8 * slots_left;
            let next = host.whole.address(5);
            let entries: Vec<u64> = (1..pages).map(|page| host.data.address(page)).collect();
            let here = slots_left as usize - 1;
            for (i, entry) in entries.iter().enumerate() {
                let at = if i < here {
                    start + 8 * i as u64
                } else {
                    next + 8 * (i - here) as u64
                };
                host.poke(at, *entry);
            }
            host.poke(host.whole.address(1) - 8, next);
            let write = Command::write(1, 0, pages as u32).with_prp(host.data.address(0), start);
            assert_eq!(host.io(write).await, StatusCode::Success, "{slots_left}");
            let read = host.aim(Command::read(1, 0, pages as u32), pages as u32, 100, 8);
            assert_eq!(host.io(read).await, StatusCode::Success);
            expect_values(&host, 100, pages as u32, 700);
        }
    });
}

#[test]
fn pages_in_any_order_and_the_same_page_twice() {
    Rig::new(wide(MediaKind::Ram, 2)).run(|mut host| async move {
        (0..8).for_each(|page| host.fill(page, 60 + page as u64));
        let order = [6usize, 1, 1, 7, 0];
        let pages: Vec<u64> = order.iter().map(|page| host.data.address(*page)).collect();
        let list = [host.whole.address(0)];
        let (prp1, prp2) = prp_for(&pages, &list, |at, value| host.poke(at, value)).unwrap();
        assert_eq!(
            host.io(Command::write(1, 2, 5).with_prp(prp1, prp2)).await,
            StatusCode::Success
        );
        for (lba, page) in (2..).zip(order) {
            assert_eq!(host.read(lba).await, Ok(60 + page as u64));
        }
    });
}

#[test]
fn a_fault_anywhere_in_a_list_moves_nothing() {
    Rig::new(wide(MediaKind::Stamp, 1)).run(|mut host| async move {
        assert_eq!(host.write(0, 40, 1000).await, StatusCode::Success);
        let faults = [
            (8, StatusCode::PrpOffsetInvalid),
            (0x7000_0000_0000, StatusCode::DataTransferError),
        ];
        for index in [0u64, 17, 38] {
            for (wrong, expected) in faults {
                (0..40).for_each(|page| host.fill(page, 9));
                let entry = host.whole.address(0) + 8 * index;
                let write = host.aim(Command::write(1, 0, 40), 40, 0, 0);
                host.poke(entry, wrong);
                assert_eq!(host.io(write).await, expected);
                let read = host.aim(Command::read(1, 0, 40), 40, 0, 0);
                host.poke(entry, wrong);
                assert_eq!(host.io(read).await, expected);
                (0..40).for_each(|page| assert_eq!(host.value(page), Ok(9), "data moved"));
            }
        }
        for lba in 0..40 {
            assert_eq!(host.read(lba).await, Ok(1000 + lba));
        }
    });
}
