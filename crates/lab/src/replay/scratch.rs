//! The images of drives with file media: new for each design and gone after it, so that every
//! design begins alike.

use std::path::{Path, PathBuf};

use wharf_drive::config::MediaKind;

use super::{RunError, Setup};

/// Names the images of one run, and removes them when the run is over.
pub(super) struct Scratch {
    images: Vec<PathBuf>,
}

impl Scratch {
    /// Claims an image for each drive. Other media need none.
    ///
    /// # Errors
    /// One of them exists: it is the user's.
    pub(super) fn claim(setup: &Setup) -> Result<Scratch, RunError> {
        let path = match (setup.drive.media.kind, &setup.drive.media.path) {
            (MediaKind::File, Some(path)) => path,
            _ => return Ok(Scratch { images: Vec::new() }),
        };
        let images: Vec<PathBuf> = (0..setup.drives)
            .map(|index| image_of(path, index))
            .collect();
        match images.iter().find(|image| image.exists()) {
            Some(image) => Err(RunError::ImageExists(image.clone())),
            None => Ok(Scratch { images }),
        }
    }

    /// The setup as drive `index` sees it.
    pub(super) fn setup_of(&self, setup: &Setup, index: u32) -> Setup {
        let mut own = setup.clone();
        if let Some(image) = self.images.get(index as usize) {
            own.drive.media.path = Some(image.clone());
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
        for image in &self.images {
            // A run that failed early has not made them all.
            let _ = std::fs::remove_file(image);
        }
    }
}
