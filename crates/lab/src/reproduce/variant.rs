//! Designs as the figures of the papers call them, and the runs that their papers make.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use wharf_drive::config::FrameIndex;

use super::run::{Device, Mode, OmniMode, Run, Start};
use super::setup::scale::THREADS;
use super::setup::{indexless, omni, rule};
use super::subject::Subject;
use super::vocabulary::meaning;
use crate::config::ArrayLayout;

/// A design as the figures call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The name in figures.
    pub label: &'static str,
    /// The design.
    pub design: &'static str,
    /// Manager CPUs; 0 where the design has none.
    pub managers: u32,
    /// It is in the operating system, though it could be in the program.
    pub in_kernel: bool,
    /// Its rules are those of its paper as they are written.
    pub by_the_paper: bool,
    /// How it is set.
    pub mode: Mode,
}

/// ScalaCache.
pub const SCALA: Variant = plain("ScalaCache", "scala");
/// Its drive half alone.
pub const HARDWARE: Variant = plain("Hardware", "hardware");
/// The kernel's page cache.
pub const KERNEL: Variant = plain("Kernel", "kernel");
/// A page cache under one lock in the program: not in the paper, a reference of ours.
pub const CLOCK: Variant = plain("clock (ours)", "clock");
/// TriCache with two managers.
pub const TRI_2M: Variant = tri("TriCache-2M", 2);
/// TriCache with four managers.
pub const TRI_4M: Variant = tri("TriCache-4M", 4);
/// TriCache with six managers.
pub const TRI_6M: Variant = tri("TriCache-6M", 6);

/// ScaleCache, which is a change to Linux.
pub const SCALE: Variant = in_kernel("ScaleCache", "scale");
/// The kernel's page cache with ScaleCache's direct flush: without its index.
pub const DFLUSH: Variant = plain("ScaleCache (dflush)", "kernel-dflush");
/// Direct I/O through the operating system.
pub const DIRECT: Variant = in_kernel("Direct I/O", "direct");
/// The kernel's page cache over Falcon's block layer.
pub const FALCON: Variant = plain("Falcon", "falcon");
/// ScaleCache in the program's process: not in the paper.
pub const SCALE_IN_PROGRAM: Variant = plain("in the program (ours)", "scale");

/// The flash cache without an index, by the rules of its paper.
pub const PROPOSED: Variant = Variant {
    by_the_paper: true,
    ..plain("Proposed", "indexless")
};
/// The same by the rules that are usual here.
pub const PROPOSED_HERE: Variant = plain("Proposed (ours)", "indexless");
/// With exact ranks of runs.
pub const IDEAL: Variant = plain("Ideal", "ideal");
/// Half by LRU.
pub const IMPROVED_LRU: Variant = plain("Improved LRU", "improved-lru");
/// LRU by rounds.
pub const LRU: Variant = plain("LRU", "lru");
/// First in, first out.
pub const IN_ORDER: Variant = plain("Write-back in order", "fifo");
/// An index with an entry for each sector in the place of the bitmap: not in the paper.
pub const INDEX: Variant = plain("With an index (ours)", "opencas");
/// Every write goes to the disk at once.
pub const THROUGH: Variant = plain("Write-through", "through");
/// The disk without a cache.
pub const NO_CACHE: Variant = plain("No cache", "direct-disk");

/// The byte-addressable file system in the drive, with the cache of a process.
pub const STOR: Variant = mode("StorStack", "stor", Mode::CachedBytes);
/// The file system of blocks in the drive, with the cache of a process.
pub const STOR_CACHED_BLOCKS: Variant = mode("StorStack+ext4", "stor", Mode::CachedBlocks);
/// The file system of blocks in the drive, without a cache.
pub const STOR_BLOCKS: Variant = mode("StorStack+ext4 NC", "stor", Mode::Blocks);
/// The byte-addressable file system in the drive, without a cache.
pub const STOR_BYTES: Variant = mode("StorStack+DAX NC", "stor", Mode::Bytes);
/// The file system on the host, over the page cache.
pub const EXT4: Variant = plain("Ext4", "ext4-model");
/// The same past the page cache.
pub const EXT4_DIRECT: Variant = mode("Ext4-DIO", "ext4-model", Mode::Direct);
/// The page cache without a file system.
pub const CACHE_ALONE: Variant = plain("page cache alone", "kernel");
/// The block path of the operating system without a file system.
pub const DIRECT_ALONE: Variant = in_kernel("direct I/O alone", "direct");
/// The core of a file serves its operations.
pub const BY_INODE: Variant = mode("by inode", "stor", Mode::ByInode);
/// Cores serve operations in turn.
pub const ROUND_ROBIN: Variant = mode("round robin", "stor", Mode::RoundRobin);
/// The core with the fewest under way serves.
pub const LEAST_LOADED: Variant = mode("least loaded", "stor", Mode::LeastLoaded);
/// Reads in turn, the rest by file.
pub const READ_SPREAD: Variant = mode("read spread", "stor", Mode::ReadSpread);
/// The byte-addressable file system in the drive, which looks at no token.
pub const TRUSTING: Variant = mode("no tokens", "stor", Mode::Trusting);
/// The same, with the token of each command compared.
pub const TOKENS_COMPARED: Variant = mode("tokens compared", "stor", Mode::TokensCompared);
/// The same, with the code of the claims computed for each command.
pub const CODE_EACH_TIME: Variant = mode("code each time", "stor", Mode::CodeEachTime);

/// OmniCache.
pub const OMNI: Variant = plain("OmniCache", "omni");
/// The same with one cache, of the same size, in the host.
pub const HOST_CACHE: Variant = mode("HostCache", "omni", Mode::Omni(OmniMode::HostAlone));
/// Without a cache: FusionFS.
pub const FUSION: Variant = mode("FusionFS", "omni", Mode::Omni(OmniMode::NoCache));
/// As the paper's text has reads.
pub const OMNI_PAPER: Variant = mode(
    "reads as the paper says",
    "omni",
    Mode::Omni(OmniMode::PaperReads),
);
/// Ranges leave the drive's cache however lately they were used.
pub const OMNI_NO_EPOCHS: Variant = mode("no epochs", "omni", Mode::Omni(OmniMode::NoEpochs));
/// A lock is of a whole file.
pub const OMNI_NO_RANGES: Variant = mode(
    "a lock for each file",
    "omni",
    Mode::Omni(OmniMode::NoRanges),
);
/// A page that comes to the host's cache stays in the drive's too.
pub const OMNI_NO_EXCLUSION: Variant = mode(
    "pages in both caches",
    "omni",
    Mode::Omni(OmniMode::NoExclusion),
);
/// Whole pages cross the link.
pub const OMNI_NO_NEAR_IO: Variant = mode(
    "whole pages on the link",
    "omni",
    Mode::Omni(OmniMode::NoNearIo),
);

/// With loads and stores of the drive's cache.
pub const OMNI_CXL: Variant = mode("OmniCXL", "omni", Mode::Omni(OmniMode::Cxl));

/// The host computes.
pub const OMNI_HOST_COMPUTES: Variant = mode(
    "the host computes",
    "omni",
    Mode::Omni(OmniMode::HostComputes),
);
/// The drive computes.
pub const OMNI_DRIVE_COMPUTES: Variant = mode(
    "the drive computes",
    "omni",
    Mode::Omni(OmniMode::DriveComputes),
);
/// Who has more of the pages computes.
pub const OMNI_PRESENCE: Variant = mode(
    "by presence",
    "omni",
    Mode::Omni(OmniMode::PresenceComputes),
);
/// The model of OmniDynamic with one term.
pub const OMNI_DATA_TERM: Variant = mode("moving data", "omni", Mode::Omni(OmniMode::DataComputes));
/// With two terms.
pub const OMNI_EXEC_TERM: Variant =
    mode("and computing", "omni", Mode::Omni(OmniMode::ExecComputes));

/// A file system for persistent memory, run by the host.
pub const NOVA: Variant = plain("NOVA", "nova");

/// The page cache of the operating system, over files in a drive that can compute.
pub const LAMBDA: Variant = in_kernel_mode("lambda-IO", "omni", Mode::Omni(OmniMode::PageCache));

/// All of them.
const VARIANTS: [Variant; 52] = [
    SCALA,
    HARDWARE,
    KERNEL,
    CLOCK,
    TRI_2M,
    TRI_4M,
    TRI_6M,
    SCALE,
    DFLUSH,
    DIRECT,
    FALCON,
    SCALE_IN_PROGRAM,
    PROPOSED,
    PROPOSED_HERE,
    IDEAL,
    IMPROVED_LRU,
    LRU,
    IN_ORDER,
    INDEX,
    THROUGH,
    NO_CACHE,
    STOR,
    STOR_CACHED_BLOCKS,
    STOR_BLOCKS,
    STOR_BYTES,
    EXT4,
    EXT4_DIRECT,
    CACHE_ALONE,
    DIRECT_ALONE,
    BY_INODE,
    ROUND_ROBIN,
    LEAST_LOADED,
    READ_SPREAD,
    TRUSTING,
    TOKENS_COMPARED,
    CODE_EACH_TIME,
    OMNI,
    HOST_CACHE,
    FUSION,
    OMNI_PAPER,
    OMNI_NO_EPOCHS,
    OMNI_NO_RANGES,
    OMNI_NO_EXCLUSION,
    OMNI_NO_NEAR_IO,
    OMNI_CXL,
    OMNI_HOST_COMPUTES,
    OMNI_DRIVE_COMPUTES,
    OMNI_PRESENCE,
    OMNI_DATA_TERM,
    OMNI_EXEC_TERM,
    NOVA,
    LAMBDA,
];

impl<'de> Deserialize<'de> for Variant {
    /// By the name in figures.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Variant, D::Error> {
        let label = String::deserialize(deserializer)?;
        let found = meaning("design", &label, VARIANTS.map(|v| (v.label, v)));
        found.map_err(D::Error::custom)
    }
}

const fn plain(label: &'static str, design: &'static str) -> Variant {
    Variant {
        label,
        design,
        managers: 0,
        in_kernel: false,
        by_the_paper: false,
        mode: Mode::Usual,
    }
}

const fn in_kernel(label: &'static str, design: &'static str) -> Variant {
    Variant {
        in_kernel: true,
        ..plain(label, design)
    }
}

const fn mode(label: &'static str, design: &'static str, mode: Mode) -> Variant {
    Variant {
        mode,
        ..plain(label, design)
    }
}

const fn in_kernel_mode(label: &'static str, design: &'static str, mode: Mode) -> Variant {
    Variant {
        mode,
        ..in_kernel(label, design)
    }
}

const fn tri(label: &'static str, managers: u32) -> Variant {
    Variant {
        managers,
        ..plain(label, "tri")
    }
}

/// Clients where the paper says nothing else.
pub const CLIENTS: u32 = 8;

/// Firmware cores of a drive where the paper says nothing else (section 6.1).
const CORES: u32 = 4;

/// Cores of a drive of preset `optane`: a processor for each channel.
const OPTANE_CORES: u32 = 7;

/// KiB of a stripe (section 5.5).
const STRIPE_KIB: u32 = 64;

impl Variant {
    /// A run of the ScalaCache paper with so many clients besides the managers, on one drive of four cores.
    pub fn clients(self, workload: &str, clients: u32) -> Run {
        Run {
            subject: Subject::Scala,
            workload: workload.into(),
            request_kib: 0,
            unit_kib: 0,
            by_the_paper: self.by_the_paper,
            is_incompressible: false,
            stretch: 1,
            drives: 1,
            stripe_kib: STRIPE_KIB,
            cores: CORES,
            clients,
            design: self.design,
            managers: self.managers,
            in_kernel: self.in_kernel,
            gc_aware: true,
            frame_index: FrameIndex::Merged,
            layout: ArrayLayout::Raid0,
            start: Start::Touched,
            rule: rule(Subject::Scala),
            mode: self.mode,
            added_us: 0,
            cache_percent: 0,
            is_on_flash: false,
            device: Device::Usual,
        }
    }

    /// As [`Variant::clients`], on so many CPUs of the host in all: the managers take theirs from the clients.
    /// `None` where no CPU would be left for a client.
    pub fn cpus(self, workload: &str, cpus: u32) -> Option<Run> {
        let clients = cpus.checked_sub(self.managers).filter(|left| *left > 0)?;
        Some(self.clients(workload, clients))
    }
}

impl Variant {
    /// A run of the ScaleCache paper (section 4.1): 64 clients, requests of 4 KiB, stripes of 512 KiB.
    pub fn threads(self, workload: &str, drives: u32) -> Run {
        Run {
            subject: Subject::Scale,
            request_kib: 4,
            drives,
            stripe_kib: 512,
            cores: OPTANE_CORES,
            managers: 0,
            rule: rule(Subject::Scale),
            ..self.clients(workload, THREADS)
        }
    }
}

impl Variant {
    /// A run of the paper on the flash cache without an index: one drive before one disk.
    pub fn before_a_disk(self, workload: &str) -> Run {
        Run {
            subject: Subject::Indexless,
            clients: indexless::CLIENTS,
            rule: rule(Subject::Indexless),
            ..self.clients(workload, indexless::CLIENTS)
        }
    }
}

impl Variant {
    /// A run of the StorStack paper: one thread on one file, a drive of four cores.
    pub fn on_files(self, workload: &str) -> Run {
        Run {
            subject: Subject::Stor,
            request_kib: 4,
            rule: rule(Subject::Stor),
            ..self.clients(workload, 1)
        }
    }
}

impl Variant {
    /// A run of the OmniCache paper: 32 threads, a drive of four cores, requests of 1 KiB.
    pub fn on_private_files(self, workload: &str) -> Run {
        Run {
            subject: Subject::Omni,
            request_kib: 1,
            rule: rule(Subject::Omni),
            ..self.clients(workload, omni::THREADS)
        }
    }
}
