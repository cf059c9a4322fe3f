//! The file that is read and written, and memory for uncached transfers.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, OFlags, fadvise};

use crate::calibrate::CalibrateError;

/// Bytes of a page.
pub(in crate::calibrate) const PAGE_BYTES: u64 = 4096;

/// A written file without a name: it is gone when the program ends, however it ends.
pub(in crate::calibrate) struct ScratchFile {
    /// Through the page cache.
    pub(in crate::calibrate) cached: File,
    /// Past it (`O_DIRECT`); `None` where the file system refuses.
    pub(in crate::calibrate) direct: Option<File>,
    /// Pages of it.
    pub(in crate::calibrate) pages: u64,
}

impl ScratchFile {
    /// Writes a file of `bytes` bytes in `directory`, and brings it to the device.
    pub(in crate::calibrate) fn new(
        directory: &Path,
        bytes: u64,
    ) -> Result<ScratchFile, CalibrateError> {
        let path = directory.join(format!(".wharf-calibrate-{}", std::process::id()));
        let fault = |source| CalibrateError::File {
            directory: directory.to_owned(),
            source,
        };
        let cached = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(fault)?;
        let direct = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&path);
        std::fs::remove_file(&path).map_err(fault)?;
        let chunk = vec![0x5a; 1 << 20];
        for offset in (0..bytes).step_by(chunk.len()) {
            cached.write_all_at(&chunk, offset).map_err(fault)?;
        }
        cached.sync_all().map_err(fault)?;
        // What is timed is random: reading ahead would bring pages that were not asked for.
        fadvise(&cached, 0, None, Advice::Random).map_err(|e| fault(e.into()))?;
        Ok(ScratchFile {
            cached,
            direct: direct.ok(),
            pages: bytes / PAGE_BYTES,
        })
    }

    /// Takes the file out of the page cache.
    pub(in crate::calibrate) fn forget(&self) -> std::io::Result<()> {
        self.cached.sync_all()?;
        Ok(fadvise(&self.cached, 0, None, Advice::DontNeed)?)
    }

    /// Brings the first `pages` pages into the page cache.
    pub(in crate::calibrate) fn load(&self, pages: u64) -> std::io::Result<()> {
        let mut chunk = vec![0; 1 << 20];
        let end = pages * PAGE_BYTES;
        for offset in (0..end).step_by(chunk.len()) {
            let bytes = chunk.len().min((end - offset) as usize);
            self.cached.read_exact_at(&mut chunk[..bytes], offset)?;
        }
        Ok(())
    }
}

/// A page of memory that begins at a page's boundary, as uncached transfers need.
#[repr(C, align(4096))]
pub(in crate::calibrate) struct AlignedPage(pub(in crate::calibrate) [u8; 4096]);

impl AlignedPage {
    /// A page of zeros.
    pub(in crate::calibrate) fn new() -> Box<AlignedPage> {
        Box::new(AlignedPage([0; 4096]))
    }
}
