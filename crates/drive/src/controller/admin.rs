//! The admin queue: identify, queues, features, log pages, format.

use wharf_wire::admin::{Cns, FeatureSelect, SecureErase};
use wharf_wire::command::{Command, NAMESPACE_ALL};
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::features::{
    Arbitration, FeatureId, NumberOfQueues, VolatileWriteCache, capabilities,
};
use wharf_wire::identify::{IdentifyController, IdentifyNamespace};
use wharf_wire::log_page::LogPage;
use wharf_wire::opcode::{AdminOpcode, IoOpcode};
use wharf_wire::queue::DEPTH_MAX;
use wharf_wire::space::SpaceThresholds;
use wharf_wire::status::{Status, StatusCode};
use zerocopy::IntoBytes;

use super::MDTS;
use super::events::REQUESTS_MAX;
use super::state::{ARBITRATION_DEFAULT, Controller, NAMESPACE, Waiting};
use super::whole_cores::{Format, LogPages, NamespaceData, SetWriteCache};

/// Smallest number of entries of a queue.
const ENTRIES_MIN: u32 = 2;

impl Controller {
    /// Answers an admin command, or starts what the cores have to do for it.
    pub(super) fn admin_command(&mut self, command: Command) {
        match self.start_admin(command) {
            Ok(Some(result)) => self.finish(0, &command, Status::SUCCESS, u64::from(result), 0),
            Ok(None) => {}
            Err(status) => self.finish(0, &command, Status::new(status), 0, 0),
        }
    }

    /// The result, if it is there at once.
    fn start_admin(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        let opcode = command.admin_opcode().ok_or(StatusCode::InvalidOpcode)?;
        command.check_flags()?;
        if self.slots.borrow().is_in_use(0, command.cid) || self.events.holds(command.cid) {
            return Err(StatusCode::CommandIdConflict);
        }
        match opcode {
            AdminOpcode::Identify => self.identify(command),
            AdminOpcode::CreateCompletionQueue => {
                self.create_completion_queue(&command).map(|()| Some(0))
            }
            AdminOpcode::CreateSubmissionQueue => {
                self.create_submission_queue(&command).map(|()| Some(0))
            }
            AdminOpcode::DeleteSubmissionQueue => self.delete_submission_queue(command),
            AdminOpcode::DeleteCompletionQueue => {
                self.delete_completion_queue(&command).map(|()| Some(0))
            }
            AdminOpcode::GetFeatures => self.get_feature(&command).map(Some),
            AdminOpcode::SetFeatures => self.set_feature(command),
            AdminOpcode::GetLogPage => self.get_log_page(command),
            AdminOpcode::FormatNvm => self.format(command),
            AdminOpcode::GetLbaStatus => self.get_lba_status(command),
            AdminOpcode::AsyncEventRequest => self.async_event_request(command).map(|()| None),
            AdminOpcode::SetKey | AdminOpcode::Revoke => {
                let mut features = self.features.clone().into_iter();
                let outcome = features.find_map(|feature| feature.admin_command(self, &command));
                outcome.unwrap_or(Err(StatusCode::InvalidOpcode))
            }
        }
    }

    fn identify(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        match command.cns().ok_or(StatusCode::InvalidField)? {
            Cns::Controller => {
                self.write_page(&command, self.identify_controller().as_bytes())?;
            }
            Cns::Namespace if command.nsid == NAMESPACE => {
                // A write of nothing checks the address.
                self.write_page(&command, &[])?;
                self.broadcast(&NamespaceData, 0, command, 0);
                return Ok(None);
            }
            Cns::Namespace => return Err(StatusCode::InvalidNamespace),
            Cns::ActiveNamespaces if command.nsid >= u32::MAX - 1 => {
                return Err(StatusCode::InvalidNamespace);
            }
            Cns::ActiveNamespaces => {
                let mut list = [0u32; PAGE_BYTES / 4];
                if command.nsid < NAMESPACE {
                    list[0] = NAMESPACE;
                }
                self.write_page(&command, list.as_bytes())?;
            }
        }
        Ok(Some(0))
    }

    pub(super) fn write_page(&self, command: &Command, bytes: &[u8]) -> Result<(), StatusCode> {
        if !command.prp1.is_multiple_of(PAGE_BYTES as u64) {
            return Err(StatusCode::PrpOffsetInvalid);
        }
        // SAFETY: the page is named by a command in flight and the controller alone writes it.
        unsafe { self.dma.write_bytes(command.prp1, bytes) }
            .map_err(|_| StatusCode::DataTransferError)
    }

    fn identify_controller(&self) -> IdentifyController {
        let geometry = &self.config.geometry;
        let mut controller = IdentifyController::new(
            &format!("Wharf {}", self.config.name),
            "WHARF0001",
            env!("CARGO_PKG_VERSION"),
        );
        controller.mdts = MDTS;
        controller.aerl = REQUESTS_MAX as u8 - 1;
        controller.maxcmd = self.config.firmware.commands_max as u16;
        // What the flash holds; a namespace may show more.
        let held = self.namespace_pages.min(self.capacity_pages());
        let held = if self.plan.is_sparse {
            held
        } else {
            self.namespace_pages
        };
        controller.tnvmcap = (u128::from(held) * PAGE_BYTES as u128).into();
        controller.set_subsystem_name("nqn.2026-11.org.wharf:drive");
        controller.drive.firmware_cores = self.config.firmware.cores as u16;
        controller.drive.stripe_pages = self.config.firmware.stripe_pages;
        controller.drive.queue_entries_max = DEPTH_MAX;
        controller.drive.channels = geometry.channels as u16;
        controller.drive.dies = (geometry.channels * geometry.dies_per_channel) as u16;
        controller.drive.block_pages = geometry.pages_per_block;
        controller.drive.physical_pages = match self.config.as_disk() {
            Some(disk) => disk.sectors(),
            None => geometry.pages(),
        };
        for feature in &self.features {
            feature.identify(self, &mut controller);
        }
        controller
    }

    /// Pages that may be on flash at once.
    fn capacity_pages(&self) -> u64 {
        u64::from(self.plan.capacity_pages) * self.cores.len() as u64
    }

    /// The namespace as the cores reported it.
    pub(super) fn identify_namespace(&self) -> IdentifyNamespace {
        let stripe = self.config.firmware.stripe_pages;
        let mut namespace =
            IdentifyNamespace::new(self.namespace_pages).with_granularity(1, stripe);
        namespace.ncap = self.capacity_pages();
        namespace.nuse = self.statistics().mapped_pages;
        namespace.nsattr = u8::from(self.is_read_only());
        namespace
    }

    fn create_completion_queue(&mut self, command: &Command) -> Result<(), StatusCode> {
        let (qid, entries) = self.check_new_queue(command)?;
        if self.created.iter().any(|c| c.0 == qid) {
            return Err(StatusCode::InvalidQueueId);
        }
        if command.queue_interrupts() {
            return Err(StatusCode::InvalidInterruptVector);
        }
        self.had_io_queues = true;
        self.created.push((qid, entries, command.prp1));
        Ok(())
    }

    fn check_new_queue(&self, command: &Command) -> Result<(u16, u32), StatusCode> {
        let (qid, entries) = (command.queue_id(), command.queue_entries());
        if !self.is_allotted(qid) || self.queues[qid as usize].is_some() {
            return Err(StatusCode::InvalidQueueId);
        }
        if !(ENTRIES_MIN..=DEPTH_MAX).contains(&entries) {
            return Err(StatusCode::InvalidQueueSize);
        }
        if !command.queue_is_contiguous() {
            return Err(StatusCode::InvalidField);
        }
        if !command.prp1.is_multiple_of(PAGE_BYTES as u64) {
            return Err(StatusCode::PrpOffsetInvalid);
        }
        Ok((qid, entries))
    }

    fn is_allotted(&self, qid: u16) -> bool {
        qid != 0 && usize::from(qid) < self.queues.len()
    }

    /// The queue pair becomes usable: a submission queue with the completion queue of its number.
    fn create_submission_queue(&mut self, command: &Command) -> Result<(), StatusCode> {
        let (qid, entries) = self.check_new_queue(command)?;
        let core = command.queue_core().map(u32::from);
        if core.is_some_and(|core| core as usize >= self.cores.len()) {
            return Err(StatusCode::InvalidField);
        }
        if !self.is_allotted(command.queue_completion_id()) {
            return Err(StatusCode::InvalidQueueId);
        }
        let paired = self
            .created
            .iter()
            .find(|c| c.0 == command.queue_completion_id());
        let (completion_id, completion_entries, address) =
            *paired.ok_or(StatusCode::CompletionQueueInvalid)?;
        // One ring memory holds both queues here: they pair one to one.
        if completion_id != qid || completion_entries != entries || address != command.prp1 {
            return Err(StatusCode::InvalidField);
        }
        let queue = self
            .dma
            .take_offer(command.prp1)
            .ok_or(StatusCode::DataTransferError)?;
        if queue.depth() != entries {
            self.dma.offer(command.prp1, queue);
            return Err(StatusCode::InvalidQueueSize);
        }
        self.attach(qid, queue);
        if let Some(queue) = self.queue_mut(qid) {
            queue.core = core;
        }
        Ok(())
    }

    /// Nothing more is fetched from the queue; it goes when what was fetched is answered. What
    /// could wait for a command behind it on the queue is answered at once.
    fn delete_submission_queue(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        let qid = command.queue_id();
        let queue = self.queue_mut(qid).filter(|q| qid != 0 && !q.closing);
        queue.ok_or(StatusCode::InvalidQueueId)?.closing = true;
        self.waiting.push(Waiting::DeleteQueue(qid, command));
        for feature in self.features.clone() {
            feature.queue_closes(self, qid, &command);
        }
        self.serve_waiting();
        Ok(None)
    }

    fn delete_completion_queue(&mut self, command: &Command) -> Result<(), StatusCode> {
        let qid = command.queue_id();
        if qid != 0 && self.queue_mut(qid).is_some() {
            return Err(StatusCode::InvalidQueueDeletion);
        }
        let index = self
            .created
            .iter()
            .position(|c| c.0 == qid)
            .ok_or(StatusCode::InvalidQueueId)?;
        self.created.remove(index);
        Ok(())
    }

    fn get_feature(&self, command: &Command) -> Result<u32, StatusCode> {
        check_for_controller(command, StatusCode::FeatureNotNamespaceSpecific)?;
        let feature = command.feature().ok_or(StatusCode::InvalidField)?;
        let select = command.feature_select().ok_or(StatusCode::InvalidField)?;
        let (current, default) = match feature {
            FeatureId::Arbitration => (self.arbitration.to_value(), ARBITRATION_DEFAULT),
            FeatureId::VolatileWriteCache => {
                let enabled = self.write_cache;
                let current = VolatileWriteCache { enabled }.to_value();
                (current, u32::from(self.config.volatile_write_cache()))
            }
            FeatureId::NumberOfQueues => (self.number_of_queues(), self.number_of_queues()),
            FeatureId::SpaceThresholds => (self.events.thresholds.to_value(), 0),
            FeatureId::HostMemory => {
                let mut features = self.features.iter();
                let value = features.find_map(|one| one.value(self, feature));
                (value.unwrap_or(0), 0)
            }
            FeatureId::Timestamp => return self.get_long_feature(command, feature, select),
        };
        Ok(match select {
            FeatureSelect::Current => current,
            // Nothing is saved over power cycles: what would be is the default.
            FeatureSelect::Default | FeatureSelect::Saved => default,
            FeatureSelect::Capabilities => {
                capabilities(false, false, feature != FeatureId::NumberOfQueues)
            }
        })
    }

    /// Gets a feature whose value is in host memory.
    fn get_long_feature(
        &self,
        command: &Command,
        feature: FeatureId,
        select: FeatureSelect,
    ) -> Result<u32, StatusCode> {
        let mut features = self.features.iter();
        let value = features.find_map(|one| one.long_value(self, feature));
        let mut value = value.ok_or(StatusCode::InvalidField)?;
        match select {
            FeatureSelect::Current => {}
            FeatureSelect::Default | FeatureSelect::Saved => value.fill(0),
            FeatureSelect::Capabilities => return Ok(capabilities(false, false, true)),
        }
        self.write_page(command, &value)?;
        Ok(0)
    }

    fn number_of_queues(&self) -> u32 {
        let queues = self.queues.len() as u32 - 1;
        NumberOfQueues {
            submission: queues,
            completion: queues,
        }
        .to_value()
    }

    fn set_feature(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        check_for_controller(&command, StatusCode::FeatureNotNamespaceSpecific)?;
        if command.feature_save() {
            return Err(StatusCode::FeatureNotSaveable);
        }
        let value = command.feature_value();
        match command.feature().ok_or(StatusCode::InvalidField)? {
            FeatureId::Arbitration => {
                self.arbitration = Arbitration::from_value(value);
                Ok(Some(0))
            }
            FeatureId::VolatileWriteCache => {
                let on = VolatileWriteCache::from_value(value).enabled;
                self.broadcast(&SetWriteCache, 0, command, u64::from(on));
                Ok(None)
            }
            FeatureId::SpaceThresholds => {
                self.set_space_thresholds(SpaceThresholds::from_value(value));
                Ok(Some(0))
            }
            FeatureId::HostMemory | FeatureId::Timestamp => {
                let mut features = self.features.clone().into_iter();
                let outcome = features.find_map(|feature| feature.set_value(self, &command));
                outcome.unwrap_or(Err(StatusCode::InvalidField))
            }
            FeatureId::NumberOfQueues => {
                NumberOfQueues::from_value(value)?;
                if self.had_io_queues {
                    return Err(StatusCode::CommandSequenceError);
                }
                Ok(Some(self.number_of_queues()))
            }
        }
    }

    fn get_log_page(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        let page = command.log_page().ok_or(StatusCode::InvalidLogPage)?;
        self.check_log_transfer(&command, page)?;
        match page {
            LogPage::ErrorInformation
            | LogPage::Space
            | LogPage::FileSystem
            | LogPage::DeviceCache => match self.write_log_page(&command) {
                StatusCode::Success => {
                    if page == LogPage::Space && !command.log_page_retains_event() {
                        self.unmask_events();
                    }
                    Ok(Some(0))
                }
                status => Err(status),
            },
            LogPage::SmartHealth | LogPage::DriveStatistics | LogPage::CoreStatistics => {
                self.broadcast(&LogPages, 0, command, 0);
                Ok(None)
            }
        }
    }

    fn get_lba_status(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        if command.nsid != NAMESPACE {
            return Err(StatusCode::InvalidNamespace);
        }
        if self.is_formatting() {
            return Err(StatusCode::FormatInProgress);
        }
        let status = self.table[IoOpcode::GetLbaStatus.raw() as usize];
        let status = status.ok_or(StatusCode::InvalidOpcode)?;
        status.start(self, 0, command)?;
        Ok(None)
    }

    fn format(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        if command.nsid != NAMESPACE && command.nsid != u32::MAX {
            return Err(StatusCode::InvalidNamespace);
        }
        if command.format_index() != 0 || command.format_wants_metadata() {
            return Err(StatusCode::InvalidFormat);
        }
        match command.format_secure_erase() {
            Some(SecureErase::None | SecureErase::UserData) => {}
            // There is no key to throw away.
            Some(SecureErase::Cryptographic) | None => return Err(StatusCode::InvalidField),
        }
        if self.is_read_only() {
            return Err(StatusCode::NamespaceWriteProtected);
        }
        for feature in &self.features {
            feature.check_format(self)?;
        }
        self.formats_under_way += 1;
        self.waiting.push(Waiting::Format(command));
        self.serve_waiting();
        Ok(None)
    }
}

impl Controller {
    /// Begins what waited for commands in flight, as far as they have ended.
    pub(super) fn serve_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::DeleteQueue(qid, command) if self.is_quiet(qid) => {
                    let guest = self.guest_of(qid);
                    self.queues[qid as usize] = None;
                    let mut features = self.features.clone().into_iter();
                    let goes_on = guest.is_some_and(|guest| {
                        features.any(|feature| feature.guest_leaves(self, guest, &command))
                    });
                    if !goes_on {
                        self.finish(0, &command, Status::SUCCESS, 0, 0);
                    }
                }
                Waiting::Format(command) if !self.slots.borrow().has_io() => {
                    let erase = u64::from(erases(&command));
                    self.broadcast(&Format, 0, command, erase);
                }
                later => self.waiting.push(later),
            }
        }
    }
}

/// True if a format command asks for the media to be erased.
fn erases(command: &Command) -> bool {
    command.format_secure_erase() == Some(SecureErase::UserData)
}

/// Refuses a command that names one namespace for what belongs to the controller.
pub fn check_for_controller(command: &Command, otherwise: StatusCode) -> Result<(), StatusCode> {
    match command.nsid {
        0 | NAMESPACE_ALL => Ok(()),
        _ => Err(otherwise),
    }
}
