//! What each operation costs on this machine: `wharf calibrate`.
//!
//! Problem: virtual time is worth as much as the costs it charges, and those differ from machine to
//! machine. None may be typed in.
//!
//! Idea: time the real code behind every [`Op`](wharf_runtime::Op) here and now, and write a cost table that says where
//! and when. In this order:
//!
//! 1. queue pairs and rings (`queues.rs`), the loops around them (`firmware.rs`), the translation layer (`flash.rs`), the host's caches
//!    (`cache.rs`), codecs (`codecs.rs`), functions of bytes of files (`compute.rs`), the bitmap of a flash cache (`bitmap.rs`), file systems (`files.rs`), the client itself (`client.rs`), structures such as the designs have (`designs.rs`);
//!    one thread;
//! 2. what the designs do, in its place: they run for real with every operation timed (`in_place.rs`);
//! 3. cache lines and locks between two processors (`contention.rs`);
//! 4. the paths of the machine's own kernel (`system/`), from whose differences the steps of the
//!    `kernel` design follow.
//!
//! Each figure is a median of rounds (`sample.rs`) with its spread. A part is timed again until the spread of
//! each of its figures is below a tenth of it, four times at most; of several the figure of the quietest
//! time is kept (`costs.rs`). The table's comments say how it was obtained, and whether it settled. What the predictions made from them are worth is another measurement:
//! [`fidelity`].

mod bitmap;
mod cache;
mod client;
mod codecs;
mod compute;
mod contention;
mod costs;
mod designs;
pub mod fidelity;
mod file_steps;
mod files;
mod firmware;
mod flash;
mod in_place;
mod queues;
mod real_ext4;
mod real_kernel;
mod sample;
mod stream;
mod system;
mod table;
mod tokens;

use std::path::PathBuf;

use wharf_runtime::{CostTable, Cpu, Machine, Side};
use wharf_wire::dma::RegisterError;

use crate::config::ConfigError;
use crate::replay::RunError;

pub use costs::{Cost, Costs, Path};
pub use sample::Sample;
use sample::Sampler;
pub use table::{Calibration, machine};

/// How often a part is timed at most until its figures settle.
const PASSES_MAX: usize = 4;

/// How to calibrate.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer rounds, nothing timed again and a smaller file: a fraction of the time, wider spreads.
    pub quick: bool,
    /// Where the file for the kernel's paths is made: a folder on a device.
    pub directory: PathBuf,
}

impl Options {
    /// Bytes of the file: beyond the processor's own caches.
    fn file_bytes(&self) -> u64 {
        if self.quick { 128 << 20 } else { 512 << 20 }
    }
}

/// Why a machine cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// Contention needs a second processor.
    #[error(
        "one processor cannot show what a second one costs: calibrate on a machine with two, \
         or use a table from such a machine (--costs FILE)"
    )]
    OneProcessor,
    /// The file cannot be made or used.
    #[error("cannot use a file in {}: {source}: name a writable folder with --dir", .directory.display())]
    File {
        /// The folder.
        directory: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file system has no uncached transfers.
    #[error(
        "the file system refuses uncached reads (O_DIRECT): name a folder on a disk with --dir"
    )]
    NoDirect,
    /// The two threads of a measurement never ran at once.
    #[error(
        "the machine is too busy: two threads hardly ever ran at the same time; try again later"
    )]
    TooBusy,
    /// A system call failed half way.
    #[error("while timing the kernel's paths: {0}")]
    System(#[from] std::io::Error),
    /// A configuration of this module's own.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The drive could not be made.
    #[error(transparent)]
    Drive(#[from] wharf_drive::DriveError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// A run of a design failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Times every operation. `on_step` hears what is being timed.
///
/// # Errors
/// As [`CalibrateError`] says.
pub fn calibrate(options: &Options, on_step: impl Fn(&str)) -> Result<Calibration, CalibrateError> {
    let sampler = Sampler::new(options.quick);
    // A folder that cannot be used is found before the time is spent.
    system::try_folder(&options.directory)?;
    type Part<'a> = &'a dyn Fn(&mut Costs) -> Result<(), CalibrateError>;
    let system = |costs: &mut Costs| {
        system::measure(sampler, &options.directory, options.file_bytes(), costs)
    };
    let parts: [(&str, Part<'_>); 14] = [
        ("queue pairs and rings", &|costs| {
            queues::measure(sampler, costs)
        }),
        ("commands of a drive on one thread", &|costs| {
            firmware::measure(sampler, costs)
        }),
        ("the drive's translation layer", &|costs| {
            flash::measure(sampler, costs)
        }),
        ("the host's caches", &|costs| cache::measure(sampler, costs)),
        ("compression of pages", &|costs| {
            codecs::measure(sampler, costs);
            Ok(())
        }),
        ("functions of bytes of files", &|costs| {
            compute::measure(sampler, costs);
            Ok(())
        }),
        ("the bitmap of a flash cache", &|costs| {
            bitmap::measure(sampler, costs)
        }),
        ("the client", &|costs| client::measure(sampler, costs)),
        ("the designs' own structures", &|costs| {
            designs::measure(sampler, costs)
        }),
        ("the steps of a file system", &|costs| {
            files::measure(sampler, costs)
        }),
        ("tokens of commands for files", &|costs| {
            tokens::measure(sampler, costs);
            Ok(())
        }),
        (
            "the designs, with every operation timed in its place",
            &|costs| in_place::measure(sampler, costs),
        ),
        ("cache lines and locks between two processors", &|costs| {
            contention::measure(sampler, costs)
        }),
        ("the kernel's paths", &system),
    ];
    let mut costs = Costs::default();
    let passes = if options.quick { 1 } else { PASSES_MAX };
    for (title, part) in parts {
        for pass in 1..=passes {
            on_step(&match pass {
                1 => title.to_string(),
                _ => format!("{title}, again ({pass} of {passes}): not settled yet"),
            });
            let mut found = costs.after();
            part(&mut found)?;
            if costs.settle(found) {
                break;
            }
        }
    }
    Ok(Calibration { costs })
}

/// Runs `f` on a CPU of the real engine that lives on this thread.
fn inline_cpu<R>(f: impl FnOnce(&Cpu) -> Result<R, CalibrateError>) -> Result<R, CalibrateError> {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("calibrate", Side::Host, 1.0);
    let inline = machine.inline();
    f(inline.cpu(id))
}
