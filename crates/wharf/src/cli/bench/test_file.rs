//! The file under test: made and filled, or recognised and read through, and checked against what was written.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::io::Errno;
use wharf_runtime::sync::Ordering;
use wharf_storage::{Blocking, FileOptions, StorageError, Target};

use super::stamp::{PAGE_BYTES, Stamps, Versions};
use crate::cli::{Failure, input, random};

/// Bytes read or written at a time.
const PIECE_BYTES: u64 = 1 << 20;
const PIECE_PAGES: u64 = PIECE_BYTES / PAGE_BYTES as u64;

/// What a file is wanted for.
pub(super) struct Wanted<'a> {
    pub(super) path: &'a Path,
    pub(super) size_bytes: Option<u64>,
    /// Overwrite what others have put there.
    pub(super) force: bool,
    pub(super) stop: &'a AtomicBool,
}

/// A file whose every page is known. Nobody else benches it meanwhile.
pub(super) struct TestFile {
    pub(super) path: PathBuf,
    pub(super) target: Arc<dyn Target>,
    pub(super) bytes: u64,
    pub(super) stamps: Stamps,
    pub(super) versions: Versions,
    /// Made by this command, just now.
    pub(super) is_new: bool,
}

/// Removes a file that was just made, unless it is kept.
struct Made<'a>(Option<&'a Path>);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            // What cannot be removed stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl TestFile {
    /// Makes the file ready: an existing one of an earlier bench is read through, so that it need not be written
    /// again; one that is missing, empty or of another size is filled.
    ///
    /// `progress` gets bytes done and bytes to do.
    pub(super) fn prepare(
        wanted: &Wanted,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<TestFile, Failure> {
        let path = wanted.path;
        let there = std::fs::metadata(path).ok();
        let is_device = there
            .as_ref()
            .is_some_and(|m| m.file_type().is_block_device());
        if let Some(there) = &there
            && !there.is_file()
            && !is_device
        {
            let shown = path.display();
            return Err(input(format!(
                "{shown}: is no file and no block device: name a file to be made"
            )));
        }
        if is_device {
            refuse_device_in_use(path)?;
        }
        let is_new = there.is_none();
        if is_new && wanted.size_bytes.is_none() {
            return Err(input(format!(
                "{}: does not exist: give --size",
                path.display()
            )));
        }
        let options = FileOptions {
            create_bytes: is_new.then_some(0),
            exclusive: true,
            ..FileOptions::default()
        };
        let target = wharf_storage::open(path, &options).map_err(input)?;
        let mut made = Made(is_new.then_some(path));
        let test_file = TestFile::known(wanted, target, is_device, is_new, progress)?;
        made.0 = None;
        Ok(test_file)
    }

    fn known(
        wanted: &Wanted,
        target: Arc<dyn Target>,
        is_device: bool,
        is_new: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<TestFile, Failure> {
        let path = wanted.path;
        let there_bytes = target.size_bytes();
        let known = recognise(&*target)?;
        if there_bytes > 0 && known.is_none() && !wanted.force {
            return Err(input(format!(
                "{}: holds data that no bench wrote: name a file to be made, or --force overwrites it",
                path.display()
            )));
        }
        let page = PAGE_BYTES as u64;
        let bytes = match (is_device, wanted.size_bytes) {
            (true, Some(size)) if size > there_bytes => {
                return Err(input(format!(
                    "{}: has {there_bytes} bytes: give a --size of no more",
                    path.display()
                )));
            }
            (_, Some(size)) => size,
            (_, None) => there_bytes - there_bytes % page,
        };
        if bytes == 0 {
            return Err(input(format!("{}: is empty: give --size", path.display())));
        }
        let is_as_wanted = bytes == there_bytes || (is_device && known.is_some());
        let versions = Versions::new(bytes / page)
            .map_err(|e| Failure::Run(format!("no memory for versions: {e}")))?;
        let mut test_file = TestFile {
            path: path.to_path_buf(),
            target,
            bytes,
            stamps: known.map_or_else(new_stamps, Ok)?,
            versions,
            is_new,
        };
        if is_as_wanted && known.is_some() {
            test_file.read_through(wanted.stop, progress)?;
        } else {
            // Pages of before are told apart by the file's number.
            test_file.stamps = new_stamps()?;
            test_file.fill(is_device, wanted.stop, progress)?;
        }
        Ok(test_file)
    }

    /// Writes version 0 of every page, durably.
    fn fill(
        &self,
        is_device: bool,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Failure> {
        if !is_device {
            // From nothing, so that no old page is left should this be stopped.
            self.target.set_size(0).map_err(failed)?;
            self.target.set_size(self.bytes).map_err(failed)?;
        }
        let mut way = Blocking::new(&*self.target).map_err(failed)?;
        let mut piece = vec![0; PIECE_BYTES as usize];
        for (first, pages) in pieces(self.versions.pages()) {
            go_on(stop)?;
            let piece = &mut piece[..pages as usize * PAGE_BYTES];
            for (page, bytes) in (first..).zip(piece.chunks_exact_mut(PAGE_BYTES)) {
                self.stamps.fill(page, 0, bytes);
            }
            way.write(first * PAGE_BYTES as u64, piece)
                .map_err(|error| match error.errno {
                    Errno::NOSPC => input(format!(
                        "{}: no room: give a smaller --size",
                        self.path.display()
                    )),
                    _ => Failure::Run(format!("{}: {error}", self.path.display())),
                })?;
            progress((first + pages) * PAGE_BYTES as u64, self.bytes);
        }
        way.flush().map_err(|e| Failure::Run(e.to_string()))
    }

    /// Learns the version of every page, and checks it.
    fn read_through(
        &self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Failure> {
        self.read_pieces(pieces(self.versions.pages()), |page, bytes| {
            go_on(stop)?;
            let version = self
                .stamps
                .version(page, bytes)
                .map_err(|e| self.wrong(e))?;
            self.versions.set(page, version);
            if (page + 1).is_multiple_of(PIECE_PAGES) {
                progress((page + 1) * PAGE_BYTES as u64, self.bytes);
            }
            Ok(())
        })
    }

    /// Writes version 0 of every page again, as the file's after a row that was killed in the midst of its writes.
    pub(super) fn fill_again(&self, stop: &AtomicBool) -> Result<(), Failure> {
        (0..self.versions.pages()).for_each(|page| self.versions.set(page, 0));
        // In place: nobody can tell how much of which page was written.
        self.fill(true, stop, &mut |_, _| {})
    }

    /// Checks in storage every page that has been written since `before`: what was acknowledged is there.
    pub(super) fn check_written(&self, before: &[u32]) -> Result<(), Failure> {
        let now = self.versions.all();
        let changed = |page: u64| before[page as usize] != now[page as usize];
        let any_changed = |(first, pages): &(u64, u64)| (*first..first + pages).any(changed);
        let pieces = pieces(self.versions.pages()).filter(any_changed);
        self.read_pieces(pieces, |page, bytes| {
            let version = now[page as usize];
            let checked = self.stamps.check(page, bytes, version..=version);
            checked.map_err(|error| self.wrong(error))
        })
    }

    fn wrong(&self, error: impl std::fmt::Display) -> Failure {
        Failure::Run(format!("{}: {error}", self.path.display()))
    }

    /// Reads pieces of the file, and has `check` look at each page.
    fn read_pieces(
        &self,
        pieces: impl Iterator<Item = (u64, u64)>,
        mut check: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut way = Blocking::new(&*self.target).map_err(failed)?;
        let mut piece = vec![0; PIECE_BYTES as usize];
        for (first, pages) in pieces {
            let piece = &mut piece[..pages as usize * PAGE_BYTES];
            way.read(first * PAGE_BYTES as u64, piece)
                .map_err(|error| self.wrong(error))?;
            for (page, bytes) in (first..).zip(piece.chunks_exact(PAGE_BYTES)) {
                check(page, bytes)?;
            }
        }
        Ok(())
    }
}

/// First page and number of pages of each piece of a file.
fn pieces(pages: u64) -> impl Iterator<Item = (u64, u64)> {
    let piece = move |first| (first, PIECE_PAGES.min(pages - first));
    (0..pages).step_by(PIECE_PAGES as usize).map(piece)
}

fn go_on(stop: &AtomicBool) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

fn failed(error: StorageError) -> Failure {
    Failure::Run(error.to_string())
}

/// Whose pages a file holds: those of a bench if its first or its second page is one.
fn recognise(target: &dyn Target) -> Result<Option<Stamps>, Failure> {
    let pages = (target.size_bytes() / PAGE_BYTES as u64).min(2);
    if pages == 0 {
        return Ok(None);
    }
    let mut bytes = vec![0; pages as usize * PAGE_BYTES];
    let mut way = Blocking::new(target).map_err(failed)?;
    way.read(0, &mut bytes)
        .map_err(|error| Failure::Run(format!("{}: {error}", target.info().name)))?;
    Ok(bytes.chunks_exact(PAGE_BYTES).find_map(Stamps::recognise))
}

/// A file's number that no earlier file had.
fn new_stamps() -> Result<Stamps, Failure> {
    Ok(Stamps {
        file: u32::from_le_bytes(random()?),
    })
}

/// A device that is mounted, or part of something, is somebody's whatever it holds.
fn refuse_device_in_use(path: &Path) -> Result<(), Failure> {
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(exclusive)
        .open(path);
    opened
        .map(drop)
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => input(format!("{}: is in use (mounted?)", path.display())),
            _ => input(format!("{}: {error}", path.display())),
        })
}
