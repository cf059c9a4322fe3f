//! The set-up of a run: drives, host and requests, as its paper has them, or smaller in proportion.
//!
//! | file | the set-up of |
//! |---|---|
//! | `scala.rs` | ScalaCache: one flash drive and more, profiles |
//! | `indexless.rs` | the flash cache without an index: a compressing drive before a disk |
//! | `stor.rs` | StorStack: files on persistent memory behind four cores |
//! | `omni.rs` | OmniCache: private files on persistent memory, a cache in the host and one in the drive |
//! | `scale.rs` | ScaleCache: 64 CPUs, eight Optane drives, 64 files |

pub(super) mod indexless;
pub(super) mod omni;
pub(super) mod scala;
pub(super) mod scale;
pub(super) mod stor;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use wharf_drive::DriveConfig;
use wharf_workload::files::FileSpec;
use wharf_workload::fit::FitMode;
use wharf_workload::generate::ThreadsSpec;
use wharf_workload::profiles::Profile;

use super::run::Run;
use super::runs::Gap;
use super::subject::Subject;
use crate::config::{ConfigError, HostConfig};
use crate::input::{ClientRule, FilesFrom, Input, Made};
use crate::replay::Submission;

/// Divisors that a set-up can be scaled by are powers of two up to this one.
pub const SCALE_MAX: u32 = 1024;

/// How much smaller than the paper's a set-up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Scale {
    /// Drive, cache and requests are divided by this.
    pub divisor: u32,
    /// At most so many requests in a run; for tests.
    pub requests_max: Option<u64>,
}

impl Scale {
    /// A scale of 1/`divisor`; `None` unless it is a power of two up to [`SCALE_MAX`].
    pub fn new(divisor: u32) -> Option<Scale> {
        (divisor.is_power_of_two() && divisor <= SCALE_MAX).then_some(Scale {
            divisor,
            requests_max: None,
        })
    }

    /// The media below file systems. From an eighth of the papers' sizes on, whole pages fit into the memory of most machines;
    /// the figures are the same.
    fn media_kind(self) -> &'static str {
        match self.divisor {
            ..8 => "mixed",
            _ => "ram",
        }
    }

    /// So many requests, or as many as there may be.
    fn at_most(self, requests: u64) -> u64 {
        self.requests_max
            .map_or(requests, |most| requests.min(most))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.divisor {
            1 => f.write_str("full size"),
            n => write!(f, "scale 1/{n}"),
        }
    }
}

/// The requests of a run, before they are brought onto its volume.
pub struct Load {
    /// Where they come from.
    pub input: Input,
    /// What to do with addresses beyond the volume.
    pub fit: FitMode,
}

impl Load {
    /// A generator's or a profile's.
    fn made(name: &str, made: Made) -> Load {
        Load {
            input: Input::Generated {
                name: name.into(),
                parameters: BTreeMap::new(),
                spec: Box::new(made),
            },
            fit: FitMode::Error,
        }
    }

    /// Those of files, of which sectors are checked.
    fn files(name: &str, spec: FileSpec) -> Load {
        /// A sector.
        const UNIT_BYTES: u64 = 512;
        Load {
            input: Input::Files {
                name: name.into(),
                from: FilesFrom::Made {
                    spec,
                    parameters: BTreeMap::new(),
                },
                unit_bytes: UNIT_BYTES,
            },
            fit: FitMode::Error,
        }
    }

    /// Those that threads make in `run_ns`.
    fn timed(name: &str, spec: FileSpec, run_ns: u64) -> Load {
        Load {
            input: Input::Timed {
                name: name.into(),
                spec,
                run_ns,
            },
            fit: FitMode::Error,
        }
    }

    /// Those of threads with a file each.
    fn threads(name: &str, spec: ThreadsSpec) -> Load {
        Load {
            input: Input::Threads {
                name: name.into(),
                spec,
            },
            fit: FitMode::Error,
        }
    }
}

/// The drive of a run.
///
/// # Errors
/// A drive that cannot be built.
pub fn drive(scale: Scale, run: &Run) -> Result<DriveConfig, ConfigError> {
    match run.subject {
        Subject::Scala => scala::drive(scale, run),
        Subject::Scale => scale::drive(scale, run),
        Subject::Indexless => indexless::drive(scale, run),
        Subject::Stor => stor::drive(scale, run),
        Subject::Omni => omni::drive(scale, run),
    }
}

/// The drive behind that of the cache, if there is one.
///
/// # Errors
/// A drive that cannot be built.
pub fn backing(scale: Scale, run: &Run) -> Result<Option<DriveConfig>, ConfigError> {
    match run.subject {
        Subject::Scala | Subject::Scale | Subject::Stor | Subject::Omni => Ok(None),
        Subject::Indexless => indexless::backing(scale).map(Some),
    }
}

/// The host of a run.
///
/// # Errors
/// A key that this build does not have: the design that brings it is missing.
pub fn host(scale: Scale, run: &Run) -> Result<HostConfig, ConfigError> {
    match run.subject {
        Subject::Scala => scala::host(run),
        Subject::Scale => scale::host(scale, run),
        Subject::Indexless => indexless::host(run),
        Subject::Stor => stor::host(scale, run),
        Subject::Omni => omni::host(scale, run),
    }
}

/// Requests that each client keeps in flight.
pub fn depth(run: &Run) -> u32 {
    match run.subject {
        Subject::Scala => scala::DEPTH,
        Subject::Scale => scale::depth(run),
        Subject::Indexless => indexless::DEPTH,
        Subject::Stor => stor::DEPTH,
        Subject::Omni => omni::DEPTH,
    }
}

/// Whether the requests that a client keeps in flight are under way together.
pub fn submission(run: &Run) -> Submission {
    match run.subject {
        Subject::Scala => scala::submission(run),
        Subject::Scale | Subject::Indexless | Subject::Stor | Subject::Omni => Submission::Together,
    }
}

/// The table of costs of a paper's machine.
pub fn costs(subject: Subject) -> &'static str {
    match subject {
        Subject::Scala => scala::COSTS,
        Subject::Scale => scale::COSTS,
        Subject::Indexless => indexless::COSTS,
        Subject::Stor => stor::COSTS,
        Subject::Omni => omni::COSTS,
    }
}

/// Which client makes which request, where a run says nothing else.
pub const fn rule(subject: Subject) -> ClientRule {
    match subject {
        Subject::Scala => scala::RULE,
        Subject::Scale => scale::RULE,
        Subject::Indexless => indexless::RULE,
        Subject::Stor => stor::RULE,
        Subject::Omni => omni::RULE,
    }
}

/// The requests of a run on a volume of `device_bytes`.
///
/// # Errors
/// No such workload.
pub fn load(scale: Scale, run: &Run, seed: u64, device_bytes: u64) -> Result<Load, Gap> {
    match run.subject {
        Subject::Scala => scala::load(scale, run, seed, device_bytes),
        Subject::Scale => scale::load(scale, run, seed, device_bytes),
        Subject::Indexless => indexless::load(scale, run, seed, device_bytes),
        Subject::Stor => stor::load(scale, run, seed),
        Subject::Omni => omni::load(scale, run, seed),
    }
}

/// The profile of a run whose workload is one.
pub fn profile(run: &Run) -> Option<&'static Profile> {
    match run.subject {
        Subject::Scala => scala::profile(run),
        Subject::Scale | Subject::Indexless | Subject::Stor | Subject::Omni => None,
    }
}

/// What a reader has to know of a paper's set-up, one sentence each.
pub fn notes(scale: Scale, subject: Subject) -> Vec<String> {
    match subject {
        Subject::Scala => scala::notes(scale),
        Subject::Scale => scale::notes(scale),
        Subject::Indexless => indexless::notes(scale),
        Subject::Stor => stor::notes(scale),
        Subject::Omni => omni::notes(scale),
    }
}
