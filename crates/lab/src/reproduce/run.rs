//! One run of a reproduction: which design, on what, with which workload.

use serde::{Deserialize, Serialize};

use wharf_drive::config::FrameIndex;
use wharf_host::volume::Level;

use super::setup::rule;
use super::subject::Subject;
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
    /// How fast the drive is.
    pub device: Device,
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
    /// Pages of the drive's cache are loaded and stored, over CXL.
    Cxl,
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
    /// The page cache of the operating system alone; who is expected to have moved the data and computed first computes.
    PageCache,
}

/// How fast a drive is, where a paper has it so and otherwise (the OmniCache paper, Figure 9 and Table 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// As the set-up has it.
    Usual,
    /// Cores of 2.7 GHz, as the host's; memory of 120 GB/s; 900 ns on the link there and back.
    Fast,
    /// Cores of 2.0 GHz; 60 GB/s; 1,200 ns.
    Middle,
    /// Cores of 1.2 GHz; 16 GB/s; 1,500 ns.
    Slow,
    /// Cores of 1.2 GHz.
    SlowCpu,
    /// Memory of 16 GB/s.
    SlowMemory,
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
            let device = match self.device {
                Device::Usual => String::new(),
                device => format!(", a drive that is {device:?}"),
            };
            return format!(
                "{design}{mode} on {files}, {workload}{stretch}{request}{threads}{added}{cache}{device}"
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
        super::variant::SCALA.clients("webmail", super::variant::CLIENTS)
    }

    #[cfg(test)]
    pub(super) fn sample_of_scale() -> Run {
        super::variant::SCALE.threads("random writes", 8)
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
