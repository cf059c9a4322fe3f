//! Prepared drives as files: preconditioning once, and starting many runs from its result.
//!
//! An image holds all that is on the media: pages with their out-of-band data, the wear of blocks,
//! the log. It has the format of file media (`docs/media-format.md`), with pages of 8 bytes where
//! the drive holds stamps, so that a saved drive can also be run in place.

use std::path::Path;
use std::sync::Arc;

use crate::config::{DriveConfig, MediaKind};
use crate::disk::Platters;
use crate::drive::{Drive, DriveError, IMAGE_SEED};
use crate::media::{AnyMedia, FileImage, FileOptions, ImageGeometry, copy_core};

impl Drive {
    /// Writes what is on the media to a new image. The drive stays as it is.
    ///
    /// # Errors
    /// If the file exists, cannot be written, or a page has rotted. No file is left behind then.
    pub fn save(&self, path: &Path) -> Result<(), DriveError> {
        write_image(self.config(), path, |core, to| {
            copy_core(&self.media()[core as usize], to)
        })
    }

    /// A drive with the contents of a saved image, which stays as it is: the media are of the
    /// configuration's kind, and must hold as much in a page as the image does. File media are a
    /// new image at `media.path`.
    ///
    /// # Errors
    /// If the image is missing, of another shape, damaged or in use; if `media.path` exists.
    pub fn load(config: DriveConfig, path: &Path) -> Result<Drive, DriveError> {
        let image = FileImage::open_read_only(path)?;
        image.require(&shape_of(&config)?)?;
        let copy = |core, to: &mut AnyMedia| -> Result<(), DriveError> {
            // One core at a time: the tables of an image take memory.
            Ok(copy_core(&image.media(core)?, to)?)
        };
        if let (MediaKind::File, Some(own)) = (config.media.kind, &config.media.path) {
            write_image(&config, own, copy)?;
            return Drive::new(config);
        }
        let mut drive = Drive::new(config)?;
        for (core, to) in (0..).zip(drive.media_mut()) {
            copy(core, to)?;
        }
        Ok(drive)
    }

    /// A second drive with the same contents: many runs from one prepared drive in memory.
    ///
    /// # Errors
    /// If memory is short, or a page has rotted.
    ///
    /// # Panics
    /// If the media are a file: a copy needs a path of its own, as [`Drive::load`] takes one.
    pub fn copy(&self) -> Result<Drive, DriveError> {
        assert!(
            self.config().media.kind != MediaKind::File,
            "media in memory"
        );
        if let Some(copy) = self.platters().and_then(Platters::copy) {
            return Ok(Drive::with_platters(self.config().clone(), copy));
        }
        let mut drive = Drive::new(self.config().clone())?;
        for (from, to) in self.media().iter().zip(drive.media_mut()) {
            copy_core(from, to)?;
        }
        let persistent = self.persistent().map(|held| Arc::new((**held).clone()));
        Ok(drive.with_persistent(persistent))
    }
}

/// The shape of an image of such a drive.
fn shape_of(config: &DriveConfig) -> Result<ImageGeometry, DriveError> {
    if config.as_disk().is_some() {
        return Err(DriveError::NotFlash("kept in an image"));
    }
    let core = config.plan()?.media_geometry(config.page_bytes() as u32);
    Ok(ImageGeometry {
        cores: config.firmware.cores,
        core,
    })
}

/// Makes an image; `copy` fills each core's flash.
fn write_image<E>(
    config: &DriveConfig,
    path: &Path,
    copy: impl Fn(u32, &mut AnyMedia) -> Result<(), E>,
) -> Result<(), DriveError>
where
    DriveError: From<E>,
{
    let shape = shape_of(config)?;
    // One wait for the disk, at the end: nothing is read before the file has its name.
    let options = FileOptions {
        overwrite: false,
        ordered: false,
    };
    let write = |image: &FileImage| {
        (0..shape.cores)
            .try_for_each(|core| Ok::<_, DriveError>(copy(core, &mut image.media(core)?)?))
    };
    FileImage::create_with(path, &shape, IMAGE_SEED, options, write).map(drop)
}
