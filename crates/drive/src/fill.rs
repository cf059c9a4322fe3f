//! Putting zeros on chosen pages of a drive that is powered off, in no simulated time: so that a run
//! reads flash where the real data would lie.

use crate::drive::{Drive, DriveError};
use crate::ftl::{Ftl, Refusal};
use crate::power::PowerSwitch;

impl Drive {
    /// Writes zeros to the pages of `ranges` (first and end of each), once and in order. Pages that
    /// hold data are written anew.
    ///
    /// # Errors
    /// If the media cannot be opened.
    ///
    /// # Panics
    /// If a range lies beyond the namespace, or a thinly provisioned drive is too small.
    pub fn fill(self, ranges: &[(u64, u64)]) -> Result<Drive, DriveError> {
        if self.platters().is_some() {
            // A sector of zeros is read as any other.
            return Ok(self);
        }
        let (config, media) = self.into_parts();
        let plan = config.plan()?;
        let striping = config.striping();
        let mut filled = Vec::with_capacity(media.len());
        for (core, media) in (0..).zip(media) {
            let mut ftl = Ftl::open(&config, plan.clone(), media, PowerSwitch::on())?;
            for (first, end) in ranges {
                let local = striping.pages_below(*first, core)..striping.pages_below(*end, core);
                local.for_each(|lpn| write_zeros(&mut ftl, lpn));
            }
            ftl.finish_all();
            filled.push(ftl.into_media());
        }
        Drive::with_media(config, filled)
    }
}

fn write_zeros(ftl: &mut Ftl, lpn: u32) {
    loop {
        match ftl.stage_zeros(0, lpn) {
            Ok(_) => return,
            Err(Refusal::NoFrame) => ftl.finish_all(),
            // Every page is written once, and the plan keeps blocks for all of them.
            Err(refusal) => panic!("filling page {lpn} was refused: {refusal:?}"),
        }
    }
}
