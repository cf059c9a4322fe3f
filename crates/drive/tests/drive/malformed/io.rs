//! Malformed reads, writes and the like.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::{Case, NOWHERE, with};
use crate::support::configs::tiny_pair;
use crate::support::host::Host;
use crate::support::rig::Rig;

use StatusCode as S;

fn io_cases(host: &Host, pages: u64) -> Vec<Case> {
    let (data, whole) = (host.data.address(0), host.whole.address(0));
    let write = |lba, n| Command::write(1, lba, n).with_prp(data, 0);
    let read = |lba, n| Command::read(1, lba, n).with_prp(data, 0);
    let verify = |lba, n| Command::verify(1, lba, n);
    let zeroes = |lba, n| Command::write_zeroes(1, lba, n);
    let ranges = |list: &[(u64, u32)], at| host.deallocate_command(list, at);
    let flags = |bits| move |c: &mut Command| c.flags = bits;
    let nsid = |id| move |c: &mut Command| c.nsid = id;
    vec![
        (
            "opcode 03h",
            with(write(0, 1), |c| c.opcode = 3),
            S::InvalidOpcode,
        ),
        (
            "a vendor's opcode",
            with(write(0, 1), |c| c.opcode = 0x85),
            S::InvalidOpcode,
        ),
        (
            "opcode before flags",
            with(write(0, 1), |c| (c.opcode, c.flags) = (3, 1)),
            S::InvalidOpcode,
        ),
        (
            "a fused write",
            with(write(0, 1), flags(1)),
            S::InvalidField,
        ),
        ("an SGL", with(read(0, 1), flags(0x40)), S::InvalidField),
        (
            "flags before namespace",
            with(with(read(0, 1), flags(0x80)), nsid(9)),
            S::InvalidField,
        ),
        (
            "namespace 0",
            with(write(0, 1), nsid(0)),
            S::InvalidNamespace,
        ),
        (
            "namespace 2",
            with(zeroes(0, 1), nsid(2)),
            S::InvalidNamespace,
        ),
        (
            "a write to all namespaces",
            with(write(0, 1), nsid(u32::MAX)),
            S::InvalidNamespace,
        ),
        (
            "a flush of namespace 2",
            Command::flush(2),
            S::InvalidNamespace,
        ),
        (
            "namespace before range",
            with(verify(pages, 1), nsid(5)),
            S::InvalidNamespace,
        ),
        ("a write at the end", write(pages, 1), S::LbaOutOfRange),
        ("a read over the end", read(pages - 1, 2), S::LbaOutOfRange),
        (
            "zeroes over the end",
            zeroes(pages - 1, 2),
            S::LbaOutOfRange,
        ),
        (
            "a verify over the end",
            verify(1, pages as u32),
            S::LbaOutOfRange,
        ),
        (
            "an address that overflows",
            write(u64::MAX, 1),
            S::LbaOutOfRange,
        ),
        (
            "range before pointer",
            with(write(pages, 1), |c| c.prp1 = 8),
            S::LbaOutOfRange,
        ),
        (
            "a write at a crooked address",
            with(write(0, 1), |c| c.prp1 += 8),
            S::PrpOffsetInvalid,
        ),
        (
            "a read to nowhere",
            with(read(0, 1), |c| c.prp1 = NOWHERE),
            S::DataTransferError,
        ),
        (
            "a write from address 0",
            with(write(0, 1), |c| c.prp1 = 0),
            S::DataTransferError,
        ),
        (
            "a crooked second page",
            with(write(0, 2), |c| c.prp2 = data + 4),
            S::PrpOffsetInvalid,
        ),
        (
            "a second page nowhere",
            with(read(0, 2), |c| c.prp2 = NOWHERE),
            S::DataTransferError,
        ),
        (
            "a crooked list",
            with(write(0, 3), |c| c.prp2 = whole + 4),
            S::PrpOffsetInvalid,
        ),
        (
            "a list nowhere",
            with(write(0, 3), |c| c.prp2 = NOWHERE),
            S::DataTransferError,
        ),
        (
            "ranges at a crooked address",
            with(ranges(&[(0, 1)], 3), |c| c.prp1 += 16),
            S::PrpOffsetInvalid,
        ),
        (
            "ranges nowhere",
            with(ranges(&[(0, 1)], 3), |c| c.prp1 = NOWHERE),
            S::DataTransferError,
        ),
        (
            "a range over the end",
            ranges(&[(0, 2), (pages - 1, 2)], 3),
            S::LbaOutOfRange,
        ),
        (
            "a range that overflows",
            ranges(&[(0, 2), (u64::MAX, 2)], 4),
            S::LbaOutOfRange,
        ),
        (
            "ranges of namespace 3",
            with(ranges(&[(0, 1)], 5), nsid(3)),
            S::InvalidNamespace,
        ),
    ]
}

#[test]
fn a_malformed_io_command_gets_its_status_and_changes_nothing() {
    let mut rig = Rig::new(tiny_pair());
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        for lba in 0..pages {
            assert_eq!(host.write(lba, 1, 500 + lba).await, S::Success);
        }
        let before = host.statistics().await;
        // Each case has its own list page where it needs one.
        let cases = io_cases(&host, pages).len();
        for index in 0..cases {
            let (name, command, expected) = io_cases(&host, pages)[index];
            host.fill(0, 4711);
            assert_eq!(host.io(command).await, expected, "{name}");
            assert_eq!(host.value(0), Ok(4711), "{name} moved data");
        }
        let after = host.statistics_before(cases as u64).await;
        assert_eq!(
            before, after,
            "a refused command was counted or changed something"
        );
        for lba in 0..pages {
            assert_eq!(host.read(lba).await, Ok(500 + lba), "page {lba}");
        }
    });
}
