//! Malformed pins and unpins.

use wharf_wire::command::Command;
use wharf_wire::pin::{Access, Unpin};
use wharf_wire::status::StatusCode;

use super::{Case, NOWHERE, with};
use crate::support::configs::tiny_pair;
use crate::support::host::Host;
use crate::support::rig::Rig;

use StatusCode as S;

/// List pages of malformed pins, each its own: a good one of two pages and an unpin, one with a bit
/// behind its window, one with an unpin beyond the namespace, and a full one.
const LISTS: [usize; 4] = [30, 31, 32, 33];

fn pin_cases(host: &Host, pages: u64) -> Vec<Case> {
    let unpin = |lba| Unpin {
        lba,
        is_dirty: false,
    };
    host.fill_list(LISTS[0], 0, &[0, 1], &[unpin(3)]);
    host.fill_list(LISTS[1], 0, &[0, 3], &[]);
    host.fill_list(LISTS[2], 0, &[0], &[unpin(pages)]);
    host.fill_list(LISTS[3], 0, &[0, 1], &vec![unpin(3); 504]);
    let pin = |lba| Command::pin(1, lba, Access::Read);
    let window = |lba, n| Command::pin_window(1, lba, n, Access::Read);
    let at = |list: usize, command: Command| host.listed(command, LISTS[list]);
    vec![
        (
            "a pin of namespace 2",
            with(pin(0), |c| c.nsid = 2),
            S::InvalidNamespace,
        ),
        (
            "a fused pin",
            with(pin(0), |c| c.flags = 1),
            S::InvalidField,
        ),
        (
            "an overwrite that is no write",
            with(pin(0), |c| c.cdw12 |= 1 << 17),
            S::ConflictingAttributes,
        ),
        ("a pin at the end", pin(pages), S::LbaOutOfRange),
        ("a pin far beyond", pin(u64::MAX), S::LbaOutOfRange),
        (
            "two pages without a list",
            with(pin(0), |c| c.cdw12 |= 1),
            S::CommandSizeLimitExceeded,
        ),
        (
            "two unpins without a list",
            with(pin(0), |c| c.cdw13 = 2),
            S::CommandSizeLimitExceeded,
        ),
        (
            "an unpin of nothing",
            with(Command::unpin(1, unpin(3)), |c| c.cdw13 = 0),
            S::CommandSizeLimitExceeded,
        ),
        (
            "an unpin at the end",
            pin(0).with_unpin(unpin(pages)),
            S::LbaOutOfRange,
        ),
        (
            "a window over the end",
            at(0, window(pages - 1, 2)),
            S::LbaOutOfRange,
        ),
        (
            "505 unpins",
            with(at(3, window(0, 2).with_unpin_list(504)), |c| c.cdw13 = 505),
            S::CommandSizeLimitExceeded,
        ),
        (
            "two pins and 504 unpins",
            at(3, window(0, 2).with_unpin_list(504)),
            S::CommandSizeLimitExceeded,
        ),
        (
            "a crooked list",
            with(at(0, window(0, 2)), |c| c.prp1 += 64),
            S::PrpOffsetInvalid,
        ),
        (
            "a list nowhere",
            with(at(0, window(0, 2)), |c| c.prp1 = NOWHERE),
            S::DataTransferError,
        ),
        (
            "a bit behind the window",
            at(1, window(0, 2)),
            S::InvalidField,
        ),
        (
            "an unpin in the list at the end",
            at(2, window(0, 2).with_unpin_list(1)),
            S::LbaOutOfRange,
        ),
    ]
}

#[test]
fn a_malformed_pin_gets_its_status_and_changes_nothing() {
    let mut rig = Rig::new(tiny_pair());
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        let _lending = host.lend(&[8]).await;
        // Page 3 is pinned, so that an unpin that is done would show.
        assert!(host.pin(3, Access::Read).await.is_ok());
        let before = host.statistics().await;
        let cases = pin_cases(&host, pages).len();
        for index in 0..cases {
            let (name, command, expected) = pin_cases(&host, pages)[index];
            let lists = LISTS.map(|list| host.whole_page(list).to_vec());
            assert_eq!(host.io(command).await, expected, "{name}");
            let after = LISTS.map(|list| host.whole_page(list).to_vec());
            assert!(lists == after, "{name} changed a list");
        }
        let after = host.statistics_before(cases as u64).await;
        assert_eq!(after, before, "something was done");
        assert_eq!(host.unpin(3, false).await, S::Success);
    });
}
