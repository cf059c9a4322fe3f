//! One run of a reproduction: which design, on what, with which workload.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use wharf_drive::config::FrameIndex;
use wharf_host::volume::Level;

use super::setup::scale::THREADS;
use super::setup::{indexless, omni, rule};
use super::subject::Subject;
use super::vocabulary::meaning;
use crate::config::ArrayLayout;
use crate::input::ClientRule;

/// What makes a run different from another one. Equal runs are run once, however many figures show
/// them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Run {
    /// The paper, whose set-up it has.
    pub subject: Subject,
    /// The workload: one of the paper's, or the trace.
    pub workload: String,
    /// KiB of a request, in workloads that leave it open; 0 in others.
    pub request_kib: u32,
    /// The times that the workload is as long as the scale gives it: for percentiles of the tail. In ScaleCache's set-up, where
    /// files, cache and drives scale alike, the times that all of them are as large.
    pub stretch: u32,
    /// KiB of a unit in which the disk behind a cache is compressed; 0 for chunks of any size, and where there is no such disk.
    pub unit_kib: u32,
    /// The rules of the cache are those of its paper as they are written.
    pub by_the_paper: bool,
    /// The data does not compress, where a drive of the cache or the disk behind it compresses.
    pub is_incompressible: bool,
    /// Drives side by side.
    pub drives: u32,
    /// KiB that go to one of them before the next one's turn.
    pub stripe_kib: u32,
    /// Firmware cores of each drive.
    pub cores: u32,
    /// CPUs of the host that make requests.
    pub clients: u32,
    /// The design's name.
    pub design: &'static str,
    /// CPUs of the host that manage the cache; 0 where the design has none.
    pub managers: u32,
    /// Designs that could be in the program are in the operating system.
    pub in_kernel: bool,
    /// Replacement prefers clean pages while a drive collects, in designs that can.
    pub gc_aware: bool,
    /// How the drives find the frames of cached pages.
    pub frame_index: FrameIndex,
    /// How the drives make an array.
    pub layout: ArrayLayout,
    /// What the drives hold at the start, where nobody asks for another state.
    pub start: Start,
    /// How requests go to clients.
    pub rule: ClientRule,
    /// How the design is set, where figures tell several ways apart.
    pub mode: Mode,
    /// Microseconds that a command takes longer on its way.
    pub added_us: u32,
    /// Percent of the data that the cache is large; 0: what the set-up says.
    pub cache_percent: u32,
    /// Files are on flash, where the set-up has persistent memory.
    pub is_on_flash: bool,
}

/// How a design is set, where a paper has it in several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As it is.
    Usual,
    /// A file system of blocks, in the drive.
    Blocks,
    /// A byte-addressable one, in the drive.
    Bytes,
    /// A file system of blocks in the drive, with the cache of a process before it.
    CachedBlocks,
    /// A byte-addressable one with such a cache.
    CachedBytes,
    /// Past the page cache.
    Direct,
    /// Each file has a core of the drive.
    ByInode,
    /// Operations go to all cores in turn.
    RoundRobin,
    /// They go where the fewest are under way.
    LeastLoaded,
    /// Reads go in turn, and the rest by file.
    ReadSpread,
    /// The drive believes whoever sends a command.
    Trusting,
    /// It compares the token of each command.
    TokensCompared,
    /// It computes the code of the claims with each command.
    CodeEachTime,
    /// With parts of OmniCache left out, or others in their place.
    Omni(OmniMode),
}

/// How `omni` is set, where figures tell several ways apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OmniMode {
    /// The cache of the host alone, of both caches' size.
    HostAlone,
    /// No cache.
    NoCache,
    /// Reads do not bring pages to the host's cache.
    PaperReads,
    /// Ranges leave the drive's cache however lately they were used.
    NoEpochs,
    /// A lock is of a whole file.
    NoRanges,
    /// A page that comes to the host's cache stays in the drive's too.
    NoExclusion,
    /// Whole pages cross the link.
    NoNearIo,
    /// The host computes.
    HostComputes,
    /// The drive computes.
    DriveComputes,
    /// Who has more of the pages computes.
    PresenceComputes,
    /// Who is expected to have moved the data first computes.
    DataComputes,
    /// Who is expected to have moved the data and computed first computes.
    ExecComputes,
}

/// What the drives hold when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The pages that the workload touches, written once in order; the rest of the flash is empty.
    Touched,
    /// Every page, written once in order: collection begins soon.
    Filled,
    /// Filled, then overwritten at random until collection is steady.
    Steady,
}

impl Start {
    /// All of them.
    pub const ALL: [Start; 3] = [Start::Touched, Start::Filled, Start::Steady];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Start::Touched => "touched",
            Start::Filled => "filled",
            Start::Steady => "steady",
        }
    }
}

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

/// All of them.
const VARIANTS: [Variant; 49] = [
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
    OMNI_HOST_COMPUTES,
    OMNI_DRIVE_COMPUTES,
    OMNI_PRESENCE,
    OMNI_DATA_TERM,
    OMNI_EXEC_TERM,
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
            workload: workload.into(),
            request_kib: 4,
            unit_kib: 0,
            by_the_paper: self.by_the_paper,
            is_incompressible: false,
            stretch: 1,
            drives,
            stripe_kib: 512,
            cores: OPTANE_CORES,
            clients: THREADS,
            design: self.design,
            managers: 0,
            in_kernel: self.in_kernel,
            gc_aware: true,
            frame_index: FrameIndex::Merged,
            layout: ArrayLayout::Raid0,
            start: Start::Touched,
            rule: rule(Subject::Scale),
            mode: self.mode,
            added_us: 0,
            cache_percent: 0,
            is_on_flash: false,
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

impl Run {
    /// The run in a few words.
    pub fn describe(&self) -> String {
        let managers = match self.managers {
            0 => String::new(),
            n => format!(" with {n} managers"),
        };
        let aware = if self.gc_aware { "" } else { " unaware of GC" };
        let table = self.table();
        let dealt = match self.rule == rule(self.subject) {
            true => String::new(),
            false => format!(", where {}", self.rule.describe()),
        };
        let stretch = match self.stretch {
            1 => String::new(),
            n => format!(" x{n}"),
        };
        let request = match self.request_kib {
            0 => String::new(),
            n => format!(" of {n} KiB"),
        };
        if matches!(self.subject, Subject::Stor | Subject::Omni) {
            let mode = match self.mode {
                Mode::Usual => String::new(),
                mode => format!(" ({mode:?})"),
            };
            let added = match self.added_us {
                0 => String::new(),
                us => format!(", {us} us more on the way"),
            };
            let (design, workload) = (self.design, &self.workload);
            let threads = match self.clients {
                1 => String::new(),
                n => format!(", {n} threads"),
            };
            let cache = match self.cache_percent {
                0 => String::new(),
                percent => format!(", a cache of {percent} %"),
            };
            let files = match self.is_on_flash {
                true => "files on flash",
                false => "files",
            };
            return format!(
                "{design}{mode} on {files}, {workload}{stretch}{request}{threads}{added}{cache}"
            );
        }
        if self.subject == Subject::Indexless {
            let unit = match self.unit_kib {
                0 => "chunks of any size".into(),
                kib => format!("units of {kib} KiB"),
            };
            let rules = if self.by_the_paper { " as written" } else { "" };
            let (design, workload) = (self.design, &self.workload);
            let data = match self.is_incompressible {
                true => ", data that does not compress",
                false => "",
            };
            return format!("{design}{rules} on {workload}{stretch} over {unit}{data}");
        }
        format!(
            "{}{managers}{aware}{table} on {}{request}{stretch}: {} clients, {} drives{} of {} cores, stripes of {} KiB{dealt}",
            self.design,
            self.workload,
            self.clients,
            self.drives,
            self.array(),
            self.cores,
            self.stripe_kib
        )
    }

    /// What drives find cached pages by, if not by their map.
    pub(super) fn table(&self) -> &'static str {
        match self.frame_index {
            FrameIndex::Merged => "",
            FrameIndex::Hash => " over a hash table",
        }
    }

    /// What drives that are more than striped make.
    pub(super) fn array(&self) -> String {
        match self.layout {
            ArrayLayout::Raid0 => String::new(),
            layout => format!(" as {}", Level::from(layout)),
        }
    }

    #[cfg(test)]
    pub(super) fn sample() -> Run {
        SCALA.clients("webmail", CLIENTS)
    }

    #[cfg(test)]
    pub(super) fn sample_of_scale() -> Run {
        SCALE.threads("random writes", 8)
    }
}

/// The workloads that figures are made of: the paper's, or one trace in the place of all.
#[derive(Debug, Clone)]
pub struct Workloads {
    trace: Option<String>,
}

impl Workloads {
    /// Those of the paper.
    pub fn own() -> Workloads {
        Workloads { trace: None }
    }

    /// A trace of this name.
    pub fn trace(name: impl Into<String>) -> Workloads {
        Workloads {
            trace: Some(name.into()),
        }
    }

    /// The ten profiles of the ScalaCache paper.
    pub fn all(&self) -> Vec<String> {
        let names = wharf_workload::profiles::Profile::ALL.iter();
        self.pick(&names.map(|p| p.table.name).collect::<Vec<_>>())
    }

    /// Those named, or the trace.
    pub fn pick(&self, names: &[&str]) -> Vec<String> {
        match &self.trace {
            Some(trace) => vec![trace.clone()],
            None => names.iter().map(|name| (*name).to_string()).collect(),
        }
    }

    /// The one named, or the trace.
    pub fn one(&self, name: &str) -> String {
        self.trace.clone().unwrap_or_else(|| name.into())
    }
}
