//! The commands of the admin queue: constructors for the host, accessors for the drive.
//!
//! Accessors return what stands in the command, in counts from 1; whether it makes sense is for
//! the drive to judge. Values from a closed set come back as `None` when they are not in it.

use crate::bits::{bit_fields, wire_enum};
use crate::command::{Command, NAMESPACE_ALL, zero_based};
use crate::features::FeatureId;
use crate::log_page::LogPage;
use crate::opcode::AdminOpcode;

/// The fewest entries a queue may have: with one, full and empty would look the same.
pub const QUEUE_ENTRIES_MIN: u32 = 2;

/// The most entries that a create command can ask for (a 16-bit, 0-based count).
pub const QUEUE_ENTRIES_MAX: u32 = 1 << 16;

bit_fields! {
    /// Create I/O completion queue.
    mod create_cq_fields {
        QID = 10 [15:0];
        QSIZE = 10 [31:16];
        PC = 11 [0:0];
        IEN = 11 [1:1];
        IV = 11 [31:16];
    }
}

bit_fields! {
    /// Create I/O submission queue.
    mod create_sq_fields {
        QID = 10 [15:0];
        QSIZE = 10 [31:16];
        PC = 11 [0:0];
        QPRIO = 11 [2:1];
        CQID = 11 [31:16];
        CORE = 12 [15:0];
    }
}

bit_fields! {
    /// Delete I/O submission or completion queue.
    mod delete_queue_fields {
        QID = 10 [15:0];
    }
}

bit_fields! {
    /// Identify.
    mod identify_fields {
        CNS = 10 [7:0];
        CNTID = 10 [31:16];
    }
}

bit_fields! {
    /// Get log page.
    mod get_log_page_fields {
        LID = 10 [7:0];
        RAE = 10 [15:15];
        NUMDL = 10 [31:16];
        NUMDU = 11 [15:0];
        LPOL = 12 [31:0];
        LPOU = 13 [31:0];
    }
}

bit_fields! {
    /// Get features.
    mod get_features_fields {
        FID = 10 [7:0];
        SEL = 10 [10:8];
    }
}

bit_fields! {
    /// Set features.
    mod set_features_fields {
        FID = 10 [7:0];
        SV = 10 [31:31];
        VALUE = 11 [31:0];
    }
}

bit_fields! {
    /// Format NVM.
    mod format_fields {
        LBAFL = 10 [3:0];
        MSET = 10 [4:4];
        PI = 10 [7:5];
        PIL = 10 [8:8];
        SES = 10 [11:9];
        LBAFU = 10 [13:12];
    }
}

wire_enum! {
    /// What an identify command asks for (CNS).
    pub enum Cns: u8 {
        /// [`IdentifyNamespace`](crate::identify::IdentifyNamespace) of the namespace named.
        Namespace = 0x00 => "namespace",
        /// [`IdentifyController`](crate::identify::IdentifyController).
        Controller = 0x01 => "controller",
        /// The identifiers of up to 1024 active namespaces above the one named, as u32 in
        /// ascending order, zeros after the last.
        ActiveNamespaces = 0x02 => "active namespaces",
    }
}

wire_enum! {
    /// Which of a feature's values a get features command asks for (SEL).
    pub enum FeatureSelect: u8 {
        /// The value in force.
        Current = 0 => "current",
        /// The value after power-up, unless one was saved.
        Default = 1 => "default",
        /// The value saved over power cycles.
        Saved = 2 => "saved",
        /// What can be done with it, as [`capabilities`](crate::features::capabilities).
        Capabilities = 3 => "capabilities",
    }
}

wire_enum! {
    /// What a format does beyond making every page read as zeros (SES).
    pub enum SecureErase: u8 {
        /// Nothing: old data may linger on the media.
        None = 0 => "no secure erase",
        /// Erases all data on the media.
        UserData = 1 => "user data erase",
        /// Erases by throwing a key away.
        Cryptographic = 2 => "cryptographic erase",
    }
}

/// The 0-based size of a queue of `entries` entries.
const fn queue_size(entries: u32) -> u32 {
    assert!(
        entries >= QUEUE_ENTRIES_MIN,
        "a queue has at least 2 entries"
    );
    zero_based(entries, QUEUE_ENTRIES_MAX)
}

impl Command {
    #[inline]
    pub(crate) const fn admin(opcode: AdminOpcode, nsid: u32) -> Command {
        Command::blank(opcode.raw(), nsid)
    }

    /// Creates I/O completion queue `qid` of `entries` entries (2..=65536) in the contiguous
    /// memory at DMA address `base`; it raises no interrupts.
    ///
    /// # Panics
    /// If `entries` is out of its range.
    pub const fn create_completion_queue(qid: u16, entries: u32, base: u64) -> Command {
        Command::admin(AdminOpcode::CreateCompletionQueue, 0)
            .with(create_cq_fields::QID, qid as u32)
            .with(create_cq_fields::QSIZE, queue_size(entries))
            .with(create_cq_fields::PC, 1)
            .with_prp(base, 0)
    }

    /// Creates I/O submission queue `qid` of `entries` entries (2..=65536) in the contiguous
    /// memory at DMA address `base`; its commands complete on queue `completion_qid`.
    ///
    /// # Panics
    /// If `entries` is out of its range.
    pub const fn create_submission_queue(
        qid: u16,
        entries: u32,
        completion_qid: u16,
        base: u64,
    ) -> Command {
        Command::admin(AdminOpcode::CreateSubmissionQueue, 0)
            .with(create_sq_fields::QID, qid as u32)
            .with(create_sq_fields::QSIZE, queue_size(entries))
            .with(create_sq_fields::PC, 1)
            .with(create_sq_fields::CQID, completion_qid as u32)
            .with_prp(base, 0)
    }

    /// Deletes I/O submission queue `qid`.
    pub const fn delete_submission_queue(qid: u16) -> Command {
        Command::admin(AdminOpcode::DeleteSubmissionQueue, 0)
            .with(delete_queue_fields::QID, qid as u32)
    }

    /// Deletes I/O completion queue `qid`.
    pub const fn delete_completion_queue(qid: u16) -> Command {
        Command::admin(AdminOpcode::DeleteCompletionQueue, 0)
            .with(delete_queue_fields::QID, qid as u32)
    }

    /// Asks for one page of identify data.
    pub const fn identify(nsid: u32, what: Cns) -> Command {
        Command::admin(AdminOpcode::Identify, nsid).with(identify_fields::CNS, what.raw() as u32)
    }

    /// Reads `bytes` bytes of a log page from byte `offset` on.
    ///
    /// # Panics
    /// If `bytes` is 0, or `bytes` or `offset` is no multiple of 4.
    pub const fn get_log_page(page: LogPage, offset: u64, bytes: u32) -> Command {
        assert!(bytes > 0, "a log page is read by at least one dword");
        assert!(
            bytes.is_multiple_of(4) && offset.is_multiple_of(4),
            "log pages go by dwords"
        );
        let dwords = bytes / 4 - 1;
        Command::admin(AdminOpcode::GetLogPage, NAMESPACE_ALL)
            .with(get_log_page_fields::LID, page.raw() as u32)
            .with(get_log_page_fields::NUMDL, dwords & 0xffff)
            .with(get_log_page_fields::NUMDU, dwords >> 16)
            .with(get_log_page_fields::LPOL, offset as u32)
            .with(get_log_page_fields::LPOU, (offset >> 32) as u32)
    }

    /// Asks for a feature's value; it comes in dword 0 of the completion.
    pub const fn get_feature(feature: FeatureId, select: FeatureSelect) -> Command {
        Command::admin(AdminOpcode::GetFeatures, 0)
            .with(get_features_fields::FID, feature.raw() as u32)
            .with(get_features_fields::SEL, select.raw() as u32)
    }

    /// Sets a feature; [`crate::features`] makes the values.
    pub const fn set_feature(feature: FeatureId, value: u32) -> Command {
        Command::admin(AdminOpcode::SetFeatures, 0)
            .with(set_features_fields::FID, feature.raw() as u32)
            .with(set_features_fields::VALUE, value)
    }

    /// Formats a namespace with its only format, number 0.
    pub const fn format(nsid: u32, erase: SecureErase) -> Command {
        Command::admin(AdminOpcode::FormatNvm, nsid).with(format_fields::SES, erase.raw() as u32)
    }

    /// The opcode, taken as that of the admin queue.
    #[inline]
    pub const fn admin_opcode(&self) -> Option<AdminOpcode> {
        AdminOpcode::from_raw(self.opcode)
    }

    /// The queue that a create or delete command names.
    pub const fn queue_id(&self) -> u16 {
        self.field(delete_queue_fields::QID) as u16
    }

    /// Entries of the queue to create: 1..=65536, of which 1 is too few.
    pub const fn queue_entries(&self) -> u32 {
        self.field(create_cq_fields::QSIZE) + 1
    }

    /// Whether the queue to create lies in contiguous memory at PRP1, not in a list of pages.
    pub const fn queue_is_contiguous(&self) -> bool {
        self.field(create_cq_fields::PC) != 0
    }

    /// Whether the completion queue to create is to raise interrupts.
    pub const fn queue_interrupts(&self) -> bool {
        self.field(create_cq_fields::IEN) != 0
    }

    /// The interrupt vector of the completion queue to create.
    pub const fn queue_interrupt_vector(&self) -> u16 {
        self.field(create_cq_fields::IV) as u16
    }

    /// The completion queue that the submission queue to create is to use.
    pub const fn queue_completion_id(&self) -> u16 {
        self.field(create_sq_fields::CQID) as u16
    }

    /// The same creation of a submission queue, whose commands for files firmware core `core` serves.
    ///
    /// # Panics
    /// If there can be no core of that number.
    #[must_use]
    pub const fn with_core(self, core: u16) -> Command {
        self.with(create_sq_fields::CORE, core as u32 + 1)
    }

    /// The firmware core that serves commands for files of the queue to create; `None` for any.
    pub const fn queue_core(&self) -> Option<u16> {
        match self.field(create_sq_fields::CORE) {
            0 => None,
            core => Some(core as u16 - 1),
        }
    }

    /// The priority class (0..=3) of the submission queue to create; used only by weighted
    /// arbitration, which this command set has not.
    pub const fn queue_priority(&self) -> u8 {
        self.field(create_sq_fields::QPRIO) as u8
    }

    /// What an identify command asks for, or the value it has no meaning for.
    pub const fn cns(&self) -> Option<Cns> {
        Cns::from_raw(self.field(identify_fields::CNS) as u8)
    }

    /// The controller that an identify command names (CNTID); none of the kinds of identify
    /// data here takes one.
    pub const fn identify_controller_id(&self) -> u16 {
        self.field(identify_fields::CNTID) as u16
    }

    /// The log page that a get log page command names.
    pub const fn log_page(&self) -> Option<LogPage> {
        LogPage::from_raw(self.field(get_log_page_fields::LID) as u8)
    }

    /// Bytes of the log page to return: 4..=16 GiB, a multiple of 4.
    pub const fn log_page_bytes(&self) -> u64 {
        let low = self.field(get_log_page_fields::NUMDL) as u64;
        let high = self.field(get_log_page_fields::NUMDU) as u64;
        ((high << 16 | low) + 1) * 4
    }

    /// The byte of the log page to begin with. Must be a multiple of 4.
    pub const fn log_page_offset(&self) -> u64 {
        let low = self.field(get_log_page_fields::LPOL) as u64;
        low | (self.field(get_log_page_fields::LPOU) as u64) << 32
    }

    /// Whether reading the log page leaves an asynchronous event standing (RAE).
    pub const fn log_page_retains_event(&self) -> bool {
        self.field(get_log_page_fields::RAE) != 0
    }

    /// The feature that a get or set features command names.
    pub const fn feature(&self) -> Option<FeatureId> {
        FeatureId::from_raw(self.field(get_features_fields::FID) as u8)
    }

    /// Which of a feature's values a get features command asks for.
    pub const fn feature_select(&self) -> Option<FeatureSelect> {
        FeatureSelect::from_raw(self.field(get_features_fields::SEL) as u8)
    }

    /// The value that a set features command carries.
    pub const fn feature_value(&self) -> u32 {
        self.field(set_features_fields::VALUE)
    }

    /// Whether a set features command asks to save the value over power cycles.
    pub const fn feature_save(&self) -> bool {
        self.field(set_features_fields::SV) != 0
    }

    /// The LBA format that a format command asks for: 0..=63.
    pub const fn format_index(&self) -> u8 {
        let low = self.field(format_fields::LBAFL);
        (self.field(format_fields::LBAFU) << 4 | low) as u8
    }

    /// Whether a format command asks for metadata or protection information, of which there is
    /// none here: any of MSET, PI and PIL.
    pub const fn format_wants_metadata(&self) -> bool {
        let mset = self.field(format_fields::MSET);
        mset | self.field(format_fields::PI) | self.field(format_fields::PIL) != 0
    }

    /// What a format command is to erase, or `None` for a reserved value.
    pub const fn format_secure_erase(&self) -> Option<SecureErase> {
        SecureErase::from_raw(self.field(format_fields::SES) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_created_and_deleted_as_asked() {
        let cq = Command::create_completion_queue(3, 65536, 0x10_0000);
        assert_eq!(cq.admin_opcode(), Some(AdminOpcode::CreateCompletionQueue));
        assert_eq!(
            (cq.queue_id(), cq.queue_entries(), cq.prp1),
            (3, 65536, 0x10_0000)
        );
        assert!(cq.queue_is_contiguous() && !cq.queue_interrupts());
        assert_eq!(cq.queue_interrupt_vector(), 0);
        let loud = Command {
            cdw11: 7 << 16 | 2,
            ..cq
        };
        assert!(loud.queue_interrupts() && !loud.queue_is_contiguous());
        assert_eq!(loud.queue_interrupt_vector(), 7);

        let sq = Command::create_submission_queue(4, 2, 3, 0x20_0000);
        assert_eq!(sq.admin_opcode(), Some(AdminOpcode::CreateSubmissionQueue));
        assert_eq!(
            (sq.queue_id(), sq.queue_entries(), sq.prp1),
            (4, 2, 0x20_0000)
        );
        assert_eq!((sq.queue_completion_id(), sq.queue_priority()), (3, 0));
        assert!(sq.queue_is_contiguous());
        assert_eq!(Command { cdw11: 0b110, ..sq }.queue_priority(), 3);
        assert_eq!(sq.queue_core(), None);
        assert_eq!(sq.with_core(0).queue_core(), Some(0));
        assert_eq!(sq.with_core(15).queue_core(), Some(15));

        let deletions = [
            (
                Command::delete_submission_queue(9),
                AdminOpcode::DeleteSubmissionQueue,
            ),
            (
                Command::delete_completion_queue(9),
                AdminOpcode::DeleteCompletionQueue,
            ),
        ];
        for (command, opcode) in deletions {
            assert_eq!(
                (command.admin_opcode(), command.queue_id()),
                (Some(opcode), 9)
            );
        }
    }

    #[test]
    #[should_panic(expected = "at least 2 entries")]
    fn a_queue_of_one_entry_cannot_be_said() {
        let _ = Command::create_completion_queue(1, 1, 0);
    }

    #[test]
    fn a_queue_of_one_entry_can_be_received() {
        assert_eq!(
            Command {
                cdw10: 5,
                ..Command::delete_submission_queue(0)
            }
            .queue_entries(),
            1
        );
    }

    #[test]
    fn identify_names_its_subject() {
        for &cns in Cns::ALL {
            let command = Command::identify(2, cns);
            assert_eq!(command.admin_opcode(), Some(AdminOpcode::Identify));
            assert_eq!((command.nsid, command.cns()), (2, Some(cns)));
            assert_eq!(command.identify_controller_id(), 0);
        }
        let odd = Command {
            cdw10: 0x0005_0077,
            ..Command::identify(1, Cns::Namespace)
        };
        assert_eq!((odd.cns(), odd.identify_controller_id()), (None, 5));
    }

    #[test]
    fn log_pages_go_by_dwords_over_the_whole_range() {
        for (offset, bytes) in [(0, 4), (512, 512), (1 << 40, 1 << 20), (4, u32::MAX - 3)] {
            let command = Command::get_log_page(LogPage::CoreStatistics, offset, bytes);
            assert_eq!(command.admin_opcode(), Some(AdminOpcode::GetLogPage));
            assert_eq!(command.log_page(), Some(LogPage::CoreStatistics));
            assert_eq!(command.log_page_bytes(), u64::from(bytes));
            assert_eq!(command.log_page_offset(), offset);
            assert!(!command.log_page_retains_event());
        }
        let all = Command {
            cdw10: u32::MAX,
            cdw11: 0xffff,
            ..Default::default()
        };
        assert_eq!((all.log_page(), all.log_page_bytes()), (None, 16 << 30));
        assert!(all.log_page_retains_event());
    }

    #[test]
    #[should_panic(expected = "dwords")]
    fn a_crooked_log_page_offset_cannot_be_said() {
        let _ = Command::get_log_page(LogPage::SmartHealth, 2, 4);
    }

    #[test]
    fn features_are_named_and_valued() {
        let get = Command::get_feature(FeatureId::VolatileWriteCache, FeatureSelect::Capabilities);
        assert_eq!(get.admin_opcode(), Some(AdminOpcode::GetFeatures));
        assert_eq!(get.feature(), Some(FeatureId::VolatileWriteCache));
        assert_eq!(get.feature_select(), Some(FeatureSelect::Capabilities));
        let set = Command::set_feature(FeatureId::NumberOfQueues, 0xdead_beef);
        assert_eq!(set.admin_opcode(), Some(AdminOpcode::SetFeatures));
        assert_eq!(set.feature(), Some(FeatureId::NumberOfQueues));
        assert_eq!(set.feature_value(), 0xdead_beef);
        assert!(!set.feature_save());
        let odd = Command {
            cdw10: 1 << 31 | 0x7fe,
            ..set
        };
        assert_eq!((odd.feature(), odd.feature_select()), (None, None));
        assert!(odd.feature_save());
    }

    #[test]
    fn format_says_what_it_erases() {
        for &erase in SecureErase::ALL {
            let command = Command::format(1, erase);
            assert_eq!(command.admin_opcode(), Some(AdminOpcode::FormatNvm));
            assert_eq!(command.format_secure_erase(), Some(erase));
            assert_eq!(command.format_index(), 0);
            assert!(!command.format_wants_metadata());
        }
        let format = |cdw10| Command {
            cdw10,
            ..Command::format(1, SecureErase::None)
        };
        assert_eq!(format(7 << 9).format_secure_erase(), None);
        assert_eq!(format(3 << 12 | 0xf).format_index(), 63);
        for bit in 4..=8 {
            assert!(format(1 << bit).format_wants_metadata(), "bit {bit}");
        }
    }
}
