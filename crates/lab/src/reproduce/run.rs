//! One run of a reproduction: which design, on what, with which workload.

use serde::Serialize;

/// What makes a run different from another one. Equal runs are run once, however many figures show
/// them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Run {
    /// The workload: a profile's name, or that of the trace.
    pub workload: String,
    /// The times that the workload is as long as the scale gives it: for percentiles of the tail.
    pub stretch: u32,
    /// Drives side by side.
    pub drives: u32,
    /// Firmware cores of each drive.
    pub cores: u32,
    /// CPUs of the host that make requests.
    pub clients: u32,
    /// The design's name.
    pub design: &'static str,
    /// CPUs of the host that manage the cache; 0 where the design has none.
    pub managers: u32,
    /// Replacement prefers clean pages while a drive collects, in designs that can.
    pub gc_aware: bool,
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

const fn plain(label: &'static str, design: &'static str) -> Variant {
    Variant {
        label,
        design,
        managers: 0,
    }
}

const fn tri(label: &'static str, managers: u32) -> Variant {
    Variant {
        label,
        design: "tri",
        managers,
    }
}

/// Clients where the paper says nothing else.
pub const CLIENTS: u32 = 8;

/// Firmware cores of a drive where the paper says nothing else (section 6.1).
const CORES: u32 = 4;

impl Variant {
    /// A run with so many clients besides the managers, on one drive of four cores.
    pub fn clients(self, workload: &str, clients: u32) -> Run {
        Run {
            workload: workload.into(),
            stretch: 1,
            drives: 1,
            cores: CORES,
            clients,
            design: self.design,
            managers: self.managers,
            gc_aware: true,
        }
    }

    /// A run on so many CPUs of the host in all: the managers take theirs from the clients.
    /// `None` where no CPU would be left for a client.
    pub fn cpus(self, workload: &str, cpus: u32) -> Option<Run> {
        let clients = cpus.checked_sub(self.managers).filter(|left| *left > 0)?;
        Some(self.clients(workload, clients))
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
        let stretch = match self.stretch {
            1 => String::new(),
            n => format!(" x{n}"),
        };
        format!(
            "{}{managers}{aware} on {}{stretch}: {} clients, {} drives of {} cores",
            self.design, self.workload, self.clients, self.drives, self.cores
        )
    }

    #[cfg(test)]
    pub(super) fn sample() -> Run {
        SCALA.clients("webmail", CLIENTS)
    }
}

/// The workloads that figures are made of: the ten profiles, or one trace in the place of all.
#[derive(Debug, Clone)]
pub struct Workloads {
    trace: Option<String>,
}

impl Workloads {
    /// The profiles.
    pub fn profiles() -> Workloads {
        Workloads { trace: None }
    }

    /// A trace of this name.
    pub fn trace(name: impl Into<String>) -> Workloads {
        Workloads {
            trace: Some(name.into()),
        }
    }

    /// All of them.
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
