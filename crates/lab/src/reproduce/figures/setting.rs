//! What a cell is of: a design on a workload with some parameters, and what is read off the run.

use serde::Deserialize;
use wharf_drive::config::FrameIndex;

use crate::config::ArrayLayout;
use crate::input::ClientRule;
use crate::reproduce::figure::Cell;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{Device, Run, Start, Workloads};
use crate::reproduce::setup::scala::slowness;
use crate::reproduce::subject::Subject;
use crate::reproduce::variant::{CLIENTS, Variant};

/// Some of what makes a cell. A cell is of several, of which each takes precedence over those before it; what none of
/// them says is as the paper's set-up has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The name of a point, a series, a panel, a row or a column.
    pub name: Option<String>,
    /// The design, by the name that figures give it.
    pub design: Option<Variant>,
    /// The workload; a trace takes its place.
    pub workload: Option<String>,
    /// What is read off the run.
    pub metric: Option<Metric>,
    /// CPUs of the host that make requests, besides managers.
    pub clients: Option<u32>,
    /// CPUs of the host in all: managers take theirs from the clients. There is no cell where none is left.
    pub cpus: Option<u32>,
    /// Drives.
    pub drives: Option<u32>,
    /// Firmware cores of a drive.
    pub cores: Option<u32>,
    /// KiB of a stripe.
    pub stripe_kib: Option<u32>,
    /// KiB of a request.
    pub request_kib: Option<u32>,
    /// KiB of a unit in which the disk behind a cache is compressed; 0: chunks of any size.
    pub unit_kib: Option<u32>,
    /// The data does not compress.
    pub is_incompressible: Option<bool>,
    /// Microseconds that a command takes longer on its way.
    pub added_us: Option<u32>,
    /// Percent of the data that the cache is large.
    pub cache_percent: Option<u32>,
    /// Files are on flash, where the set-up has persistent memory.
    pub is_on_flash: Option<bool>,
    /// How fast the drive is.
    pub device: Option<Device>,
    /// How many times longer the run is.
    pub stretch: Option<u32>,
    /// A design with managers has its number of them for each drive.
    pub managers_by_drive: Option<bool>,
    /// Replacement heeds collection.
    pub gc_aware: Option<bool>,
    /// Any client makes any request.
    pub dealt_in_turn: Option<bool>,
    /// How drives find the frames of cached pages.
    pub frame_index: Option<FrameIndex>,
    /// How drives make an array.
    pub layout: Option<ArrayLayout>,
    /// What drives hold at the start.
    pub start: Option<Start>,
    /// The value is multiplied by this.
    pub times: Option<f64>,
    /// The value is CPUs of the host and meant in drives: times the slowness of a drive's core, by the drive's cores.
    pub in_drives: Option<bool>,
    /// Perfect scaling with this parameter. Of a series: the value at the first point, times the point by the first. Of a
    /// ratio: divided by that of the parameter.
    pub ideal: Option<Parameter>,
    /// Why nothing here can tell the value, of a cell of a table.
    pub untested: Option<String>,
}

/// A parameter that a design may scale with.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// CPUs of the host in all.
    Cpus,
    /// Drives.
    Drives,
}

impl Setting {
    /// What `other` says, and besides what this says.
    #[must_use]
    pub fn with(&self, other: &Setting) -> Setting {
        macro_rules! either {
            ($($field:ident)*) => {
                Setting { $($field: other.$field.clone().or_else(|| self.$field.clone())),* }
            };
        }
        either! {
            name design workload metric clients cpus drives cores stripe_kib request_kib unit_kib is_incompressible added_us cache_percent is_on_flash device stretch
            managers_by_drive gc_aware dealt_in_turn frame_index layout start times in_drives ideal untested
        }
    }

    /// A name for what this says: its own, the design's, the metric's.
    pub fn title(&self) -> String {
        let own = self.name.clone();
        let named = own.or_else(|| Some(self.design?.label.into()));
        named.unwrap_or_else(|| self.metric.map_or("", Metric::axis).into())
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// If nothing says it.
    pub fn value_of(&self, parameter: Parameter) -> Result<f64, String> {
        let value = match parameter {
            Parameter::Cpus => self.cpus,
            Parameter::Drives => self.drives,
        };
        let said = value.ok_or("'ideal' names a parameter that is not given")?;
        Ok(f64::from(said))
    }

    /// The run; `None` where no CPU would be left for a client.
    ///
    /// # Errors
    /// What is missing, or said twice.
    pub fn run(&self, subject: Subject, workloads: &Workloads) -> Result<Option<Run>, String> {
        let Some(usual) = self.usual(subject, workloads)? else {
            return Ok(None);
        };
        Ok(Some(Run {
            clients: self.clients.unwrap_or(usual.clients),
            drives: self.drives.unwrap_or(usual.drives),
            cores: self.cores.unwrap_or(usual.cores),
            stripe_kib: self.stripe_kib.unwrap_or(usual.stripe_kib),
            request_kib: self.request_kib.unwrap_or(usual.request_kib),
            unit_kib: self.unit_kib.unwrap_or(usual.unit_kib),
            is_incompressible: self.is_incompressible.unwrap_or(false),
            added_us: self.added_us.unwrap_or(0),
            cache_percent: self.cache_percent.unwrap_or(0),
            is_on_flash: self.is_on_flash.unwrap_or(false),
            device: self.device.unwrap_or(usual.device),
            stretch: self.stretch.unwrap_or(usual.stretch),
            gc_aware: self.gc_aware.unwrap_or(usual.gc_aware),
            frame_index: self.frame_index.unwrap_or(usual.frame_index),
            layout: self.layout.unwrap_or(usual.layout),
            start: self.start.unwrap_or(usual.start),
            rule: match self.dealt_in_turn {
                Some(true) => ClientRule::RoundRobin,
                _ => usual.rule,
            },
            ..usual
        }))
    }

    /// The run as the paper's set-up has it, but for design, workload and CPUs.
    fn usual(&self, subject: Subject, workloads: &Workloads) -> Result<Option<Run>, String> {
        let design = self.design.ok_or("no 'design'")?;
        let workload = workloads.one(self.workload.as_deref().ok_or("no 'workload'")?);
        let groups = match self.managers_by_drive {
            Some(true) => self.drives.ok_or("'managers_by_drive' without 'drives'")?,
            _ => 1,
        };
        let variant = Variant {
            managers: design.managers * groups,
            ..design
        };
        match (subject, self.cpus, self.clients) {
            (_, Some(_), Some(_)) => Err("both 'clients' and 'cpus'".into()),
            (Subject::Scala, Some(cpus), None) => Ok(variant.cpus(&workload, cpus)),
            (Subject::Scala, None, _) => Ok(Some(variant.clients(&workload, CLIENTS))),
            (Subject::Scale, Some(_), None) => {
                Err("'cpus' where services have CPUs of their own: say 'clients'".into())
            }
            (Subject::Scale, None, _) => {
                let drives = self.drives.ok_or("no 'drives'")?;
                Ok(Some(variant.threads(&workload, drives)))
            }
            (Subject::Indexless | Subject::Stor | Subject::Omni, Some(_), None) => {
                Err("'cpus' where services have CPUs of their own: say 'clients'".into())
            }
            (Subject::Indexless, None, _) => Ok(Some(variant.before_a_disk(&workload))),
            (Subject::Stor, None, _) => Ok(Some(variant.on_files(&workload))),
            (Subject::Omni, None, _) => Ok(Some(variant.on_private_files(&workload))),
        }
    }

    /// The cell: the metric of the run, times what is said; `None` without a run.
    ///
    /// # Errors
    /// What is missing, or said twice.
    pub fn cell(&self, subject: Subject, workloads: &Workloads) -> Result<Option<Cell>, String> {
        if self.untested.is_some() {
            return Err("'untested' is for cells of a table".into());
        }
        let metric = self.metric.ok_or("no 'metric'")?;
        let Some(run) = self.run(subject, workloads)? else {
            return Ok(None);
        };
        let factor = match (self.times, self.in_drives) {
            (Some(_), Some(true)) => return Err("both 'times' and 'in_drives'".into()),
            (Some(times), _) => times,
            (None, Some(true)) => slowness() / f64::from(run.cores),
            _ => 1.0,
        };
        Ok(Some(Cell::plain(metric, run).times(factor)))
    }
}
