//! Malformed commands: each wrong field gets the status that the command set has for it, and
//! nothing is changed.

use wharf_wire::admin::{Cns, FeatureSelect, SecureErase};
use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::log_page::LogPage;
use wharf_wire::pin::{Access, Unpin};
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny_pair;
use crate::support::host::Host;
use crate::support::rig::Rig;

use StatusCode as S;

type Case = (&'static str, Command, StatusCode);

fn with(mut command: Command, change: impl FnOnce(&mut Command)) -> Command {
    change(&mut command);
    command
}

/// Where there is no host memory.
const NOWHERE: u64 = 0x7000_0000_0000;

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
        for index in 0..io_cases(&host, pages).len() {
            let (name, command, expected) = io_cases(&host, pages)[index];
            host.fill(0, 4711);
            assert_eq!(host.io(command).await, expected, "{name}");
            assert_eq!(host.value(0), Ok(4711), "{name} moved data");
        }
        let after = host.statistics().await;
        assert_eq!(
            before, after,
            "a refused command was counted or changed something"
        );
        for lba in 0..pages {
            assert_eq!(host.read(lba).await, Ok(500 + lba), "page {lba}");
        }
    });
}

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
        for index in 0..pin_cases(&host, pages).len() {
            let (name, command, expected) = pin_cases(&host, pages)[index];
            let lists = LISTS.map(|list| host.whole_page(list).to_vec());
            assert_eq!(host.io(command).await, expected, "{name}");
            let after = LISTS.map(|list| host.whole_page(list).to_vec());
            assert!(lists == after, "{name} changed a list");
        }
        assert_eq!(host.statistics().await, before, "something was done");
        assert_eq!(host.unpin(3, false).await, S::Success);
    });
}

fn admin_cases(host: &Host) -> Vec<Case> {
    let page = host.whole.address(0);
    let identify = |id, what| Command::identify(id, what).with_prp(page, 0);
    let log = |at, bytes| Command::get_log_page(LogPage::SmartHealth, at, bytes).with_prp(page, 0);
    let set = Command::set_feature;
    let get = Command::get_feature;
    let format = |id| Command::format(id, SecureErase::None);
    let arbitration = FeatureId::Arbitration;
    vec![
        (
            "opcode 7Fh",
            with(format(1), |c| c.opcode = 0x7f),
            S::InvalidOpcode,
        ),
        (
            "opcode before flags",
            with(format(1), |c| (c.opcode, c.flags) = (0x7f, 1)),
            S::InvalidOpcode,
        ),
        (
            "a fused format",
            with(format(1), |c| c.flags = 1),
            S::InvalidField,
        ),
        (
            "identify what?",
            with(identify(1, Cns::Controller), |c| c.cdw10 = 0x77),
            S::InvalidField,
        ),
        (
            "identify namespace 0",
            identify(0, Cns::Namespace),
            S::InvalidNamespace,
        ),
        (
            "identify namespace 2",
            identify(2, Cns::Namespace),
            S::InvalidNamespace,
        ),
        (
            "identify all",
            identify(u32::MAX, Cns::Namespace),
            S::InvalidNamespace,
        ),
        (
            "namespaces after the last",
            identify(u32::MAX - 1, Cns::ActiveNamespaces),
            S::InvalidNamespace,
        ),
        (
            "a crooked page",
            identify(1, Cns::Controller).with_prp(page + 64, 0),
            S::PrpOffsetInvalid,
        ),
        (
            "namespace to a crooked page",
            identify(1, Cns::Namespace).with_prp(page + 64, 0),
            S::PrpOffsetInvalid,
        ),
        (
            "no memory",
            identify(1, Cns::Namespace).with_prp(NOWHERE, 0),
            S::DataTransferError,
        ),
        (
            "log page 7Eh",
            with(log(0, 512), |c| c.cdw10 = c.cdw10 & !0xff | 0x7e),
            S::InvalidLogPage,
        ),
        (
            "log of namespace 1",
            with(log(0, 512), |c| c.nsid = 1),
            S::InvalidField,
        ),
        (
            "a crooked offset",
            with(log(0, 512), |c| c.cdw12 = 6),
            S::InvalidField,
        ),
        ("an offset beyond the log", log(516, 4), S::InvalidField),
        (
            "a log to a crooked page",
            log(0, 512).with_prp(page + 4, 0),
            S::PrpOffsetInvalid,
        ),
        (
            "a log to nowhere",
            log(0, 512).with_prp(NOWHERE, 0),
            S::DataTransferError,
        ),
        ("a log above MDTS", log(0, (1 << 20) + 4), S::InvalidField),
        (
            "feature FFh",
            with(get(arbitration, FeatureSelect::Current), |c| {
                c.cdw10 |= 0xff
            }),
            S::InvalidField,
        ),
        (
            "value 7 of a feature",
            with(get(arbitration, FeatureSelect::Current), |c| {
                c.cdw10 |= 7 << 8
            }),
            S::InvalidField,
        ),
        (
            "get for namespace 1",
            with(get(arbitration, FeatureSelect::Current), |c| c.nsid = 1),
            S::FeatureNotNamespaceSpecific,
        ),
        (
            "set for namespace 1",
            with(set(arbitration, 0), |c| c.nsid = 1),
            S::FeatureNotNamespaceSpecific,
        ),
        (
            "set of feature FFh",
            with(set(arbitration, 0), |c| c.cdw10 |= 0xff),
            S::InvalidField,
        ),
        (
            "set and save",
            with(set(arbitration, 0), |c| c.cdw10 |= 1 << 31),
            S::FeatureNotSaveable,
        ),
        (
            "too many queues",
            set(FeatureId::NumberOfQueues, 0xffff),
            S::InvalidField,
        ),
        (
            "queues too late",
            set(FeatureId::NumberOfQueues, 0),
            S::CommandSequenceError,
        ),
        ("format namespace 0", format(0), S::InvalidNamespace),
        ("format namespace 2", format(2), S::InvalidNamespace),
        (
            "format 1",
            with(format(1), |c| c.cdw10 |= 1),
            S::InvalidFormat,
        ),
        (
            "format 16",
            with(format(1), |c| c.cdw10 |= 1 << 12),
            S::InvalidFormat,
        ),
        (
            "format with metadata",
            with(format(1), |c| c.cdw10 |= 1 << 4),
            S::InvalidFormat,
        ),
        (
            "format with protection",
            with(format(1), |c| c.cdw10 |= 1 << 5),
            S::InvalidFormat,
        ),
        (
            "format without a key",
            Command::format(1, SecureErase::Cryptographic),
            S::InvalidField,
        ),
        (
            "format and erase what?",
            with(format(1), |c| c.cdw10 |= 5 << 9),
            S::InvalidField,
        ),
    ]
}

#[test]
fn a_malformed_admin_command_gets_its_status_and_changes_nothing() {
    let mut rig = Rig::new(tiny_pair());
    rig.run(|mut host| async move {
        assert_eq!(host.write(3, 5, 900).await, S::Success);
        let before = host.statistics().await;
        for (name, command, expected) in admin_cases(&host) {
            host.whole_page(0).fill(0x5a);
            assert_eq!(host.admin_status(command).await, expected, "{name}");
            assert!(
                host.whole_page(0).iter().all(|byte| *byte == 0x5a),
                "{name} moved data"
            );
        }
        let feature = Command::get_feature(FeatureId::Arbitration, FeatureSelect::Current);
        assert_eq!(host.admin(feature).await.dw0, 3, "the burst is still 8");
        assert_eq!(host.statistics().await, before);
        for lba in 0..5 {
            assert_eq!(host.read(3 + lba).await, Ok(900 + lba));
        }
    });
}
