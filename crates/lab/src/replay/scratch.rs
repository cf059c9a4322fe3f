//! The images of drives with file media: new for each design and gone after it, so that every
//! design begins alike.

use std::path::{Path, PathBuf};

use wharf_drive::config::{DriveConfig, MediaKind};

use super::{RunError, Setup};

/// Names the images of one run, and removes them when the run is over.
pub(super) struct Scratch {
    /// Of each drive, in the order of their numbers.
    images: Vec<Option<PathBuf>>,
}

impl Scratch {
    /// Claims an image for each drive. Other media need none.
    ///
    /// # Errors
    /// One of them exists: it is the user's.
    pub(super) fn claim(setup: &Setup) -> Result<Scratch, RunError> {
        let mut images = Vec::new();
        let each = setup.devices.iter();
        let each = each.flat_map(|group| (0..group.drives).map(|_| &group.drive.media));
        for (number, media) in (0..).zip(each) {
            images.push(match (media.kind, &media.path) {
                (MediaKind::File, Some(path)) => Some(image_of(path, number)),
                _ => None,
            });
        }
        match images.iter().flatten().find(|image| image.exists()) {
            Some(image) => Err(RunError::ImageExists(image.clone())),
            None => Ok(Scratch { images }),
        }
    }

    /// The configuration of drive `number`.
    pub(super) fn config_of(&self, drive: &DriveConfig, number: u32) -> DriveConfig {
        let mut own = drive.clone();
        if let Some(image) = &self.images[number as usize] {
            own.media.path = Some(image.clone());
        }
        own
    }
}

/// The first drive's image has the name given, the others' a number after it.
fn image_of(path: &Path, index: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if index > 0 {
        name.push(format!(".{index}"));
    }
    name.into()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for image in self.images.iter().flatten() {
            // A run that failed early has not made them all.
            let _ = std::fs::remove_file(image);
        }
    }
}
