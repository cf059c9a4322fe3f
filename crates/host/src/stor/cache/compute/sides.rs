//! Which side computes for a program that does not say so: whichever is expected to be done first, by what either took before.
//!
//! It is the model of `model.rs`, one for each function, as an instruction for a byte differs by three powers of ten between them, with what is
//! refused remembered (`refusals.rs`). The answer is the same on both sides, so a drive that refuses is a reason to compute here, and no
//! failure. Pages count as being in neither cache: a program does not see which are.

use std::cell::RefCell;

use wharf_files::Errno;
use wharf_wire::dma::PAGE_BYTES;

use super::model::{DriveRan, HostRan};
use super::refusals::{Asked, Function, Refusals};
use super::{Model, Places, Side};
use crate::files::FileError;
use crate::stor::StorClient;
use crate::stor::vector::{Computed, Vector};

/// What was learned of both sides. See the module.
#[derive(Debug, Default)]
pub struct Sides {
    models: RefCell<Vec<(Function, Model)>>,
    refusals: Refusals,
}

/// A function of so many bytes of a file.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    function: Function,
    bytes: u64,
}

impl Load {
    /// A function that is built in.
    pub fn of(function: wharf_compute::Function, bytes: u64) -> Load {
        let function = Function::BuiltIn(function);
        Load { function, bytes }
    }

    /// The program in the file with this number.
    pub fn of_program(number: u64, bytes: u64) -> Load {
        let function = Function::Program(number);
        Load { function, bytes }
    }

    fn places(&self) -> Places {
        Places {
            stored: self.bytes.div_ceil(PAGE_BYTES as u64).max(1),
            ..Places::default()
        }
    }

    fn asked(&self) -> Asked {
        Asked::new(self.function, self.bytes)
    }
}

impl Sides {
    /// Whether something is known of both sides, for a function.
    pub fn knows(&self, load: &Load) -> bool {
        self.with(load, |model| model.has_run_on_both())
    }

    /// Whether the drive is to compute.
    pub fn is_for_drive(&self, client: &StorClient, load: &Load) -> bool {
        let may_ask = self.refusals.may_ask(load.asked(), client.inner.cpu.now());
        let side = self.with(load, |model| match may_ask {
            true => model.choose_long(load.places()),
            false => model.host_alone(),
        });
        side == Side::Drive
    }

    /// Has the drive do a vector whose last step is this; nothing if it refuses that.
    ///
    /// # Errors
    /// Of the drive, and of a step: what either side would fail with.
    pub async fn on_drive(
        &self,
        client: &StorClient,
        load: &Load,
        vector: &Vector,
    ) -> Result<Option<Computed>, FileError> {
        let cpu = &client.inner.cpu;
        let begun_ns = cpu.now();
        let asking = self.refusals.note(cpu, load.asked(), client.vector(vector));
        let Some(computed) = asking.await? else {
            return Ok(None);
        };
        let failed = computed.steps.iter().find_map(|step| step.failed);
        if failed.is_some_and(is_refused) {
            self.refusals.refused(load.asked(), begun_ns, cpu.now());
            return Ok(None);
        }
        let ran = DriveRan {
            dropped_ns: 0,
            all_ns: cpu.now() - begun_ns,
            waited_ns: computed.waited_ns,
            moved_ns: computed.moved_ns,
            computed_ns: computed.computed_ns,
            queued: computed.queued,
        };
        if failed.is_none() {
            self.with(load, |model| model.drive_ran(load.places(), ran));
        }
        Ok(Some(computed))
    }

    /// This process has computed, and took so long to read and to compute, in nanoseconds.
    pub fn host_ran(&self, load: &Load, (read_ns, computed_ns): (u64, u64)) {
        let ran = HostRan {
            read_ns,
            computed_ns,
            written_ns: 0,
        };
        self.with(load, |model| model.host_ran(load.places(), ran));
    }

    /// How often which side was chosen: this process, the drive.
    pub fn chosen(&self) -> (u64, u64) {
        let models = self.models.borrow();
        let each = models.iter().map(|(_, model)| model.decisions());
        each.fold((0, 0), |(host, drive), one| {
            (host + one.host, drive + one.drive)
        })
    }

    fn with<R>(&self, load: &Load, f: impl FnOnce(&mut Model) -> R) -> R {
        let mut models = self.models.borrow_mut();
        let known = models.iter().position(|(of, _)| *of == load.function);
        let place = known.unwrap_or_else(|| {
            models.push((load.function, Model::default()));
            models.len() - 1
        });
        f(&mut models[place].1)
    }
}

impl StorClient {
    /// What time it is for its CPU, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.inner.cpu.now()
    }
}

/// Whether a step failed for what the drive has not: memory, or the function.
fn is_refused(errno: Errno) -> bool {
    use wharf_compute::Refused::{Memory, NoCodec, NotBuilt};
    let number = errno.number();
    [Memory, NoCodec, NotBuilt]
        .iter()
        .any(|why| why.errno() == number)
}
