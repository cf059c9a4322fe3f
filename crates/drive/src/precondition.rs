//! A whole drive brought into the state of long use while it is powered off.

use crate::drive::{Drive, DriveError};
use crate::ftl::{Ftl, Precondition, Preconditioned};
use crate::power::PowerSwitch;

impl Drive {
    /// Fills the drive and overwrites it at random, core by core, in no simulated time. All pages
    /// written hold zeros, as if the workload had never written them. Gives the drive back with
    /// what each core came to.
    ///
    /// # Errors
    /// If the media cannot be opened, a share is out of its range, or the flash takes no more.
    pub fn precondition(
        self,
        options: &Precondition,
    ) -> Result<(Drive, Vec<Preconditioned>), DriveError> {
        options.check()?;
        if self.platters().is_some() {
            return Err(DriveError::NotFlash("preconditioned"));
        }
        let (config, media) = self.into_parts();
        let plan = config.plan()?;
        let (mut prepared, mut results) = (Vec::new(), Vec::new());
        for (core, media) in (0..).zip(media) {
            let mut ftl = Ftl::open(&config, plan.clone(), media, PowerSwitch::on())?;
            let own = Precondition {
                seed: options.seed.index(core),
                ..*options
            };
            results.push(ftl.precondition(&own)?);
            if ftl.checkpoint_is_worthwhile() {
                ftl.write_checkpoint()?;
            }
            prepared.push(ftl.into_media());
        }
        Ok((Drive::with_media(config, prepared)?, results))
    }
}
