//! Drives as a run finds them: empty, holding the workload's pages, in steady state, or from an image.

use wharf_drive::Drive;
use wharf_drive::ftl::{Overwrite, Precondition};
use wharf_host::volume::Layout;

use wharf_runtime::Seed;

use crate::input::Plan;
use crate::replay::{Prepare, RunError, Setup};

/// Builds drive `index` of the setup and prepares it.
///
/// # Errors
/// A wrong configuration, an unusable image, or no memory.
pub(crate) fn drive(setup: &Setup, plan: &Plan, index: u32) -> Result<Drive, RunError> {
    let new = || Drive::new(setup.drive.clone());
    match &setup.prepare {
        Prepare::Empty => Ok(new()?),
        Prepare::Touched => Ok(new()?.fill(&pages_on_drive(setup, plan, index))?),
        Prepare::Steady => {
            let seed = Seed(setup.seed).child("prepare").index(u64::from(index));
            Ok(new()?.precondition(&steady(seed))?.0)
        }
        Prepare::Image(path) => Ok(Drive::load(setup.drive.clone(), path)?),
    }
}

/// Fills the whole namespace, then overwrites it until collection is steady.
pub fn steady(seed: Seed) -> Precondition {
    Precondition {
        fill_share: 1.0,
        overwrite: Overwrite::UntilSteady,
        seed,
    }
}

/// The touched pages that lie on one drive of the volume, as ranges of its own pages.
fn pages_on_drive(setup: &Setup, plan: &Plan, index: u32) -> Vec<(u64, u64)> {
    let stripe_pages = setup.host.stripe_bytes / 4096;
    let layout = Layout::new(
        &vec![setup.drive.namespace_pages(); setup.drives as usize],
        stripe_pages,
    );
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (first, end) in &plan.touched {
        let mut page = *first;
        while page < *end {
            let count = (stripe_pages - page % stripe_pages).min(end - page);
            let (drive, local) = layout.locate(page);
            page += count;
            if drive as u32 != index {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.1 == local => last.1 += count,
                _ => ranges.push((local, local + count)),
            }
        }
    }
    ranges
}
