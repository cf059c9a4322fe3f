//! The admin queue as the host uses it: what a drive is, its queues, its log pages, its settings.
//!
//! One task at boot: [`Admin::identify`], [`Admin::allot_queues`], then one
//! [`Admin::create_queue`] for each client. Queue memory is offered to the drive beforehand
//! ([`offer_queues`]): the create commands name it by its address, as they name memory in NVMe.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_wire::admin::{Cns, FeatureSelect, SecureErase};
use wharf_wire::command::{Command, NAMESPACE_ALL};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::events::Event;
use wharf_wire::features::{FeatureId, NumberOfQueues};
use wharf_wire::file::{DeviceCacheLog, DriveKey, FileSystemLog, Revoke};
use wharf_wire::identify::{
    DriveFeature, FeatureSet, IdentifyController, IdentifyError, IdentifyNamespace,
};
use wharf_wire::log_page::{ErrorLogEntry, LogPage, SmartHealth};
use wharf_wire::queue::{DriveQueue, HostQueue};
use wharf_wire::space::{SpacePage, SpaceThresholds};
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::timestamp::Timestamp;
use zerocopy::{FromBytes, IntoBytes};

use crate::buffers::Buffers;
use crate::driver::{Driver, DriverConfig, TRANSFER_PAGES_MAX};
use crate::error::IoError;
use crate::group::{Group, Groups};
use crate::hmb::HmbMemory;
use crate::late::LateCompletions;
use crate::volume::LayoutError;

/// The namespace that the host uses.
const NAMESPACE: u32 = 1;

/// Pages for identify data and log pages.
const BUFFER_PAGES: u32 = 8;

/// An admin command that failed, or an answer that cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The command failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// The drive is not one that this host can use.
    #[error("drive {drive}: {source}")]
    Identify {
        /// Which drive.
        drive: u16,
        /// Why not.
        source: IdentifyError,
    },
    /// The drive's queues are too few.
    #[error("drive {drive} allots {allotted} I/O queues, {wanted} are needed: use fewer clients")]
    TooFewQueues {
        /// Which drive.
        drive: u16,
        /// Queues it allots.
        allotted: u32,
        /// Queues wanted.
        wanted: u32,
    },
    /// Less memory than the drive takes.
    #[error(
        "drive {drive}: {frames} frames of memory, the drive takes no fewer than {frames_min}: use a larger cache"
    )]
    TooFewFrames {
        /// Which drive.
        drive: u16,
        /// Frames to lend.
        frames: u32,
        /// The fewest that the drive takes.
        frames_min: u32,
    },
    /// A number of drives that the volume cannot be on.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A drive that divides pages and frames otherwise than the first of its volume.
    #[error(
        "drive {drive} has other firmware cores than drive 0: the drives of a volume have the same firmware.cores and firmware.stripe"
    )]
    Unlike {
        /// Which drive.
        drive: u16,
    },
    /// The drive cannot do what the design needs.
    #[error(
        "drive {drive} has no feature '{feature}', which the design needs: choose another drive"
    )]
    Lacks {
        /// Which drive.
        drive: u16,
        /// What it lacks.
        feature: DriveFeature,
    },
    /// The drive has no pin and unpin commands.
    #[error(
        "drive {drive} does not pin pages: choose another drive, or set drive.host_memory.enabled=true"
    )]
    NoPins {
        /// Which drive.
        drive: u16,
    },
}

/// What the host needs to know of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveFacts {
    /// Pages of the namespace.
    pub pages: u64,
    /// Most pages of a command.
    pub max_transfer_pages: u32,
    /// Whether a completed write may still be lost at a power cut.
    pub volatile_write_cache: bool,
    /// Firmware cores.
    pub cores: u32,
    /// Pages of a stripe: stripes are dealt out to the cores in turn.
    pub core_stripe_pages: u32,
    /// What it can do beyond an ordinary drive.
    pub features: FeatureSet,
}

impl DriveFacts {
    /// Whether pages and frames are dealt out to the cores as in `other`.
    pub fn divides_frames_as(&self, other: &DriveFacts) -> bool {
        (self.cores, self.core_stripe_pages) == (other.cores, other.core_stripe_pages)
    }
}

/// Queue memory that a drive has been offered.
pub struct QueueOffer {
    /// The number that the queue pair is to have.
    pub qid: u16,
    /// Entries of each ring.
    pub entries: u32,
    /// The address by which the create commands name it.
    pub address: u64,
    /// The firmware core that is to serve its commands for files, if it is not to be any.
    pub core: Option<u16>,
}

/// Makes `count` queue pairs of `entries` entries, numbered from 1, with `new_queue(number, entries)`
/// of a drive, and offers the drive its ends.
///
/// # Errors
/// If there is no memory.
pub fn offer_queues(
    space: &Arc<DmaSpace>,
    count: u16,
    entries: u32,
    mut new_queue: impl FnMut(u16, u32) -> (HostQueue, DriveQueue),
) -> Result<Vec<(HostQueue, QueueOffer)>, RegisterError> {
    // The space keeps the region: no other queue or page gets these addresses.
    let region = space.register_whole(usize::from(count))?;
    let make = |index: u16| {
        let qid = index + 1;
        let address = region.address(usize::from(index));
        let (host, drive) = new_queue(qid, entries);
        space.offer(address, drive);
        (
            host,
            QueueOffer {
                qid,
                entries,
                address,
                core: None,
            },
        )
    };
    Ok((0..count).map(make).collect())
}

/// The host's use of one drive's admin queue.
pub struct Admin {
    cpu: Cpu,
    driver: Rc<Driver>,
    buffers: Rc<Buffers>,
    late: Rc<LateCompletions<Vec<u32>>>,
}

impl Admin {
    /// Takes over the admin queue of drive number `drive`, with its tasks on `cpu`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn start(
        cpu: &Cpu,
        queue: HostQueue,
        space: &Arc<DmaSpace>,
        config: DriverConfig,
    ) -> Result<Admin, RegisterError> {
        let driver = Driver::start(cpu, queue, space, &Groups::new(), config, true)?;
        let buffers = Rc::new(Buffers::new_whole(space, BUFFER_PAGES)?);
        let late = Rc::new(LateCompletions::<Vec<u32>>::default());
        let (its_cpu, its_buffers, its_late_completions) =
            (cpu.clone(), buffers.clone(), late.clone());
        cpu.spawn("admin late completions", async move {
            let release = |_, mut pages: Vec<u32>| its_buffers.give_back(&its_cpu, &mut pages);
            its_late_completions.run(&its_cpu, release).await;
        });
        Ok(Admin {
            cpu: cpu.clone(),
            driver,
            buffers,
            late,
        })
    }

    fn drive(&self) -> u16 {
        self.driver.config().drive
    }

    /// Sends a command without data; gives dword 0 of its completion.
    async fn send(&self, command: Command) -> Result<u32, IoError> {
        self.driver.execute(command, &[]).await
    }

    /// Sends a command whose data are in a page: puts `bytes` there before, or copies `out.len()` bytes of it
    /// afterwards.
    async fn transfer(
        &self,
        command: Command,
        bytes: &[u8],
        out: &mut [u8],
    ) -> Result<(), IoError> {
        let (mut taken, mut addresses) = (Vec::new(), Vec::new());
        self.buffers
            .take(&self.cpu, 1, &mut taken, &mut addresses)
            .await;
        // SAFETY: the page is taken, and no command names it yet.
        let page = unsafe { self.buffers.page_mut(taken[0]) };
        page[..bytes.len()].copy_from_slice(bytes);
        let group = self.driver.groups().open();
        let slot = self.driver.reserve().await;
        self.driver.issue(slot, &group, command, &addresses);
        self.driver.ring();
        let outcome = group.wait(&self.cpu).await;
        if outcome.is_ok() {
            // SAFETY: the page is taken, and its only command is done.
            let page = unsafe { self.buffers.page_mut(taken[0]) };
            out.copy_from_slice(&page[..out.len()]);
            // A key may have been there.
            page[..bytes.len()].fill(0);
        }
        self.give_back(group, taken);
        outcome.map(drop)
    }

    /// Sends a command that fills a page, and copies `out.len()` bytes of it.
    async fn fetch(&self, command: Command, out: &mut [u8]) -> Result<(), IoError> {
        self.transfer(command, &[], out).await
    }

    fn give_back(&self, group: Group, mut taken: Vec<u32>) {
        if group.is_quiet() {
            self.buffers.give_back(&self.cpu, &mut taken);
        } else {
            self.late.adopt(&self.cpu, group, taken);
        }
    }

    async fn fetch_as<T: FromBytes + IntoBytes>(&self, command: Command) -> Result<T, IoError> {
        let mut value = T::new_zeroed();
        self.fetch(command, value.as_mut_bytes()).await?;
        Ok(value)
    }

    /// Identifies the controller.
    ///
    /// # Errors
    /// If the command fails, or the controller is not one that this host can use.
    pub async fn identify_controller(&self) -> Result<IdentifyController, AdminError> {
        let command = Command::identify(0, Cns::Controller);
        let controller: IdentifyController = self.fetch_as(command).await?;
        let drive = self.drive();
        controller
            .check()
            .map_err(|source| AdminError::Identify { drive, source })?;
        Ok(controller)
    }

    /// Identifies the namespace.
    ///
    /// # Errors
    /// If the command fails, or the namespace is not one that this host can use.
    pub async fn identify_namespace(&self) -> Result<IdentifyNamespace, AdminError> {
        let command = Command::identify(NAMESPACE, Cns::Namespace);
        let namespace: IdentifyNamespace = self.fetch_as(command).await?;
        let drive = self.drive();
        namespace
            .check()
            .map_err(|source| AdminError::Identify { drive, source })?;
        Ok(namespace)
    }

    /// Identifies both, and gives what clients need to know.
    ///
    /// # Errors
    /// As for each.
    pub async fn identify(&self) -> Result<DriveFacts, AdminError> {
        let controller = self.identify_controller().await?;
        let namespace = self.identify_namespace().await?;
        let limit = controller
            .max_transfer_pages()
            .unwrap_or(TRANSFER_PAGES_MAX);
        Ok(DriveFacts {
            pages: namespace.nsze,
            max_transfer_pages: limit.min(TRANSFER_PAGES_MAX),
            volatile_write_cache: controller.has_volatile_write_cache(),
            // Another maker's drive tells nothing of its cores.
            cores: u32::from(controller.drive.firmware_cores).max(1),
            core_stripe_pages: controller.drive.stripe_pages.max(1),
            features: controller.drive.features,
        })
    }

    /// Refuses a drive that lacks one of `features`.
    ///
    /// # Errors
    /// [`AdminError::NoPins`], [`AdminError::Lacks`].
    pub fn require(&self, facts: &DriveFacts, features: &[DriveFeature]) -> Result<(), AdminError> {
        let drive = self.drive();
        let lacking = features
            .iter()
            .find(|feature| !facts.features.contains(**feature));
        match lacking {
            None => Ok(()),
            Some(DriveFeature::Pin) => Err(AdminError::NoPins { drive }),
            Some(&feature) => Err(AdminError::Lacks { drive, feature }),
        }
    }

    /// Asks for `wanted` I/O queue pairs.
    ///
    /// # Errors
    /// If the command fails or the drive allots fewer.
    pub async fn allot_queues(&self, wanted: u32) -> Result<(), AdminError> {
        let value = NumberOfQueues {
            submission: wanted,
            completion: wanted,
        }
        .to_value();
        let answer = self.set_feature(FeatureId::NumberOfQueues, value).await?;
        // A count of 65536, which is not allowed, is more than enough.
        let allotted =
            NumberOfQueues::from_value(answer).map_or(u32::MAX, |n| n.submission.min(n.completion));
        if allotted < wanted {
            let drive = self.drive();
            return Err(AdminError::TooFewQueues {
                drive,
                allotted,
                wanted,
            });
        }
        Ok(())
    }

    /// Creates a queue pair in memory that was offered: the completion queue, then the submission
    /// queue, with which the drive takes the offer.
    ///
    /// # Errors
    /// If a command fails.
    pub async fn create_queue(&self, offer: &QueueOffer) -> Result<(), IoError> {
        let QueueOffer {
            qid,
            entries,
            address,
            core,
        } = *offer;
        self.send(Command::create_completion_queue(qid, entries, address))
            .await?;
        let create = Command::create_submission_queue(qid, entries, qid, address);
        self.send(match core {
            Some(core) => create.with_core(core),
            None => create,
        })
        .await?;
        Ok(())
    }

    /// Deletes a queue pair: the submission queue, then the completion queue.
    ///
    /// # Errors
    /// If a command fails: while commands are in flight on the queue, say.
    pub async fn delete_queue(&self, qid: u16) -> Result<(), IoError> {
        self.send(Command::delete_submission_queue(qid)).await?;
        self.send(Command::delete_completion_queue(qid)).await?;
        Ok(())
    }

    /// A feature's value.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn get_feature(&self, feature: FeatureId) -> Result<u32, IoError> {
        self.send(Command::get_feature(feature, FeatureSelect::Current))
            .await
    }

    /// Sets a feature; gives dword 0 of the completion.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn set_feature(&self, feature: FeatureId, value: u32) -> Result<u32, IoError> {
        self.send(Command::set_feature(feature, value)).await
    }

    /// Lends the drive memory. It stays lent until it is taken back or the drive loses power.
    ///
    /// # Errors
    /// [`AdminError::NoPins`] if the drive does not pin pages, [`AdminError::TooFewFrames`] below its minimum;
    /// if the command fails.
    pub async fn lend_memory(&self, memory: &HmbMemory) -> Result<(), AdminError> {
        let controller = self.identify_controller().await?;
        if !controller.drive.features.contains(DriveFeature::Pin) || controller.hmpre == 0 {
            let drive = self.drive();
            return Err(AdminError::NoPins { drive });
        }
        let HmbMemory {
            frames,
            list,
            entries,
        } = *memory;
        if frames < controller.hmmin {
            return Err(AdminError::TooFewFrames {
                drive: self.drive(),
                frames,
                frames_min: controller.hmmin,
            });
        }
        self.send(Command::lend_host_memory(frames, list, entries))
            .await?;
        Ok(())
    }

    /// Takes the host memory buffer back: the drive writes back what is dirty and uses it no more.
    ///
    /// # Errors
    /// If pages are pinned in it, or a page could not be written.
    pub async fn take_memory_back(&self) -> Result<(), IoError> {
        self.send(Command::take_host_memory_back()).await.map(drop)
    }

    /// Erases the namespace: every page reads as zeros then.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn format(&self) -> Result<(), IoError> {
        self.send(Command::format(NAMESPACE_ALL, SecureErase::None))
            .await
            .map(drop)
    }

    /// `T` at byte `offset` of a log page.
    async fn log<T: FromBytes + IntoBytes>(
        &self,
        page: LogPage,
        offset: u64,
    ) -> Result<T, IoError> {
        const { assert!(size_of::<T>() <= PAGE_BYTES) };
        self.fetch_as(Command::get_log_page(page, offset, size_of::<T>() as u32))
            .await
    }

    /// The drive's health.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn smart(&self) -> Result<SmartHealth, IoError> {
        self.log(LogPage::SmartHealth, 0).await
    }

    /// The latest failures that the drive knows of, newest first, at most 64.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn errors(&self) -> Result<Vec<ErrorLogEntry>, IoError> {
        let entries: [ErrorLogEntry; 64] = self.log(LogPage::ErrorInformation, 0).await?;
        Ok(entries.into_iter().filter(|e| e.error_count > 0).collect())
    }

    /// How much of the drive's media is used.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn space(&self) -> Result<SpacePage, IoError> {
        self.log(LogPage::Space, 0).await
    }

    /// Sets when space counts as low, and how the drive tells it.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn set_space_thresholds(&self, thresholds: SpaceThresholds) -> Result<(), IoError> {
        let value = thresholds.to_value();
        self.set_feature(FeatureId::SpaceThresholds, value)
            .await
            .map(drop)
    }

    /// Waits until the drive tells of an event, for as long as it takes. Another of the kind comes when its log page
    /// has been read ([`Admin::space`]). `None` is an event that this host does not know.
    ///
    /// # Errors
    /// If the command fails: the drive holds no more requests, say.
    pub async fn next_event(&self) -> Result<Option<Event>, IoError> {
        let result = self.send(Command::async_event_request()).await?;
        Ok(Event::from_result(result))
    }

    /// What the drive did since power-up.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn statistics(&self) -> Result<DriveStatistics, IoError> {
        self.log(LogPage::DriveStatistics, 0).await
    }

    /// Tells a drive with a file system what time it is, in milliseconds since 1970.
    ///
    /// # Errors
    /// If the command fails, as it does on a drive without one.
    pub async fn set_time(&self, milliseconds: u64) -> Result<(), IoError> {
        let timestamp = Timestamp::of_milliseconds(milliseconds);
        // The driver says where the data are.
        let set = Command::set_timestamp(0);
        self.transfer(set, timestamp.as_bytes(), &mut []).await
    }

    /// Gives a drive with a file system a key: from then on it checks who its guests are.
    ///
    /// # Errors
    /// If the command fails, as it does with a key that is not newer than the one before.
    pub async fn set_key(&self, key: DriveKey) -> Result<(), IoError> {
        let set = Command::set_key(0);
        self.transfer(set, key.as_bytes(), &mut []).await
    }

    /// Takes sessions back: what they have open is closed, and their tokens are none any more.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn revoke(&self, kind: Revoke, which: u64) -> Result<(), IoError> {
        self.send(Command::revoke(kind, which)).await.map(drop)
    }

    /// The time by the drive's clock, as it counts from the last [`Admin::set_time`].
    ///
    /// # Errors
    /// If the command fails.
    pub async fn time(&self) -> Result<Timestamp, IoError> {
        self.fetch_as(Command::get_feature(
            FeatureId::Timestamp,
            FeatureSelect::Current,
        ))
        .await
    }

    /// What has become of the drive's file system at power-up.
    ///
    /// # Errors
    /// If the command fails, as it does on a drive without one.
    pub async fn file_system(&self) -> Result<FileSystemLog, IoError> {
        self.log(LogPage::FileSystem, 0).await
    }

    /// What the cache of pages of files in the drive's memory has, and did.
    ///
    /// # Errors
    /// If the command fails, as it does on a drive without one.
    pub async fn device_cache(&self) -> Result<DeviceCacheLog, IoError> {
        self.log(LogPage::DeviceCache, 0).await
    }

    /// What each of the drive's `cores` firmware cores did since power-up.
    ///
    /// # Errors
    /// If a command fails.
    pub async fn core_statistics(&self, cores: u32) -> Result<Vec<DriveStatistics>, IoError> {
        let mut all = Vec::new();
        for core in 0..u64::from(cores) {
            let offset = core * size_of::<DriveStatistics>() as u64;
            all.push(self.log(LogPage::CoreStatistics, offset).await?);
        }
        Ok(all)
    }
}
