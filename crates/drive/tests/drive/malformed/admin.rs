//! Malformed admin commands.

use wharf_wire::admin::{Cns, FeatureSelect, SecureErase};
use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::log_page::LogPage;
use wharf_wire::status::StatusCode;

use super::{Case, NOWHERE, with};
use crate::support::configs::tiny_pair;
use crate::support::host::Host;
use crate::support::rig::Rig;

use StatusCode as S;

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
