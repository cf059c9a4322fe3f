//! Images as files: creating, opening and locking them, and every way in which one can be bad.
//!
//! An image is made under a temporary name beside its own and renamed when it is complete, so that
//! neither a failure nor a kill leaves half an image under the name that was asked for. An open
//! image is locked (`flock`): two drives on one image would destroy it.
//!
//! A block device has its name already: there the header is written last, and what it held is gone
//! when that begins. A device that is mounted, or otherwise in use by the system, is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FlockOperation;
use zerocopy::{FromZeros, IntoBytes};

use super::format::{
    ALIGN, Header, ImageGeometry, Layout, MAGIC, SLOT_AT, Sealed, VERSION, VERSION_PAGES,
};
use super::log::SlotLog;
use super::store::{KillPoint, Store};
use super::{FileMedia, HeldSyncs, load};
use crate::media::{AnyMedia, CoreGeometry, GeometryError, HostFault, SlabError, packed};

/// Why an image cannot be created or opened. Each is one line that names the file.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No such file.
    #[error("no drive image at {}: create it first, or correct the path", path.display())]
    Missing {
        /// The path asked for.
        path: PathBuf,
    },
    /// There is a file already, and it was not to be overwritten.
    #[error("{} exists already: open it, remove it, or ask for it to be overwritten", path.display())]
    Exists {
        /// The path asked for.
        path: PathBuf,
    },
    /// A directory or something else that holds no bytes.
    #[error("{} is neither a regular file nor a block device: a drive image needs one", path.display())]
    NotAFile {
        /// The path asked for.
        path: PathBuf,
    },
    /// A block device without room for the image.
    #[error("{} has {found} bytes, and the image takes {needed}: make a smaller drive, or take a larger device", path.display())]
    DeviceTooSmall {
        /// The path asked for.
        path: PathBuf,
        /// Bytes that the image takes.
        needed: u64,
        /// Bytes of the device.
        found: u64,
    },
    /// Another drive has it open.
    #[error("{} is in use by another drive: stop that one, or use another image", path.display())]
    Locked {
        /// The path asked for.
        path: PathBuf,
    },
    /// The file does not begin as an image does.
    #[error("{} is not a drive image: check the path, or create an image elsewhere", path.display())]
    NotAnImage {
        /// The path asked for.
        path: PathBuf,
    },
    /// An image of another version of the format.
    #[error(
        "{} is a drive image of version {found}, and this program knows versions {VERSION_PAGES} and {VERSION} only: \
         use the program that made it",
        path.display()
    )]
    UnknownVersion {
        /// The path asked for.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// The file is shorter than it was made.
    #[error(
        "{} is truncated, {found} bytes of {expected}: restore it from a copy or create it anew",
        path.display()
    )]
    Truncated {
        /// The path asked for.
        path: PathBuf,
        /// Bytes that an image of its header has.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// The header does not fit its checksum, or speaks of an impossible drive.
    #[error("the header of {} is damaged: restore it from a copy or create it anew", path.display())]
    HeaderDamaged {
        /// The path asked for.
        path: PathBuf,
    },
    /// A structure of one core does not fit its checksum, and the core cannot work without it.
    #[error(
        "the {what} of core {core} in {} cannot be trusted: restore it from a copy or create it anew",
        path.display()
    )]
    Damaged {
        /// The image.
        path: PathBuf,
        /// The structure.
        what: &'static str,
        /// The core.
        core: u32,
    },
    /// The image is of another drive than the configuration's.
    #[error(
        "{} has {what} = {image}, and the configuration {wanted}: use its own configuration or \
         another image",
        path.display()
    )]
    Mismatch {
        /// The image.
        path: PathBuf,
        /// The field that differs first.
        what: &'static str,
        /// Its value in the image.
        image: u64,
        /// Its value in the configuration.
        wanted: u64,
    },
    /// No image can have this shape.
    #[error("cannot create {}: {cause}", path.display())]
    Geometry {
        /// The path asked for.
        path: PathBuf,
        /// What is wrong with the shape.
        cause: GeometryError,
    },
    /// The image's tables do not fit this machine's memory.
    #[error(transparent)]
    Memory(#[from] SlabError),
    /// The system refused.
    #[error(transparent)]
    Host(#[from] Box<HostFault>),
}

/// Bytes at the start of a device that have to be zeros for it to count as empty: those where file systems,
/// partition tables and arrays say who they are.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// How an image is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// Whether `create` may replace an existing file (never one that is in use).
    pub overwrite: bool,
    /// Whether what was synced survives a crash of the host machine *at any later instant*: each
    /// erase then waits until the copies of what the block held are on the disk. Without it, what
    /// was synced is safe at any instant from a death of the process only; erases take
    /// microseconds.
    pub ordered: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            ordered: true,
        }
    }
}

/// An open image file, from which each core takes its own media.
#[derive(Debug)]
pub struct FileImage {
    store: Arc<Store>,
    geometry: ImageGeometry,
    id: [u8; 16],
    /// Whether a core's media is out; shared with the media, which resets it when dropped.
    taken: Arc<[AtomicBool]>,
}

impl FileImage {
    /// Makes an image of erased flash and opens it. Its id follows from `seed`.
    ///
    /// On an error, no file is left behind and an existing one is unchanged.
    pub fn create(
        path: &Path,
        geometry: &ImageGeometry,
        seed: u64,
        options: FileOptions,
    ) -> Result<Self, ImageError> {
        Self::create_with(path, geometry, seed, options, |_| Ok(()))
    }

    /// Makes an image with the contents that `write` gives it, and opens it. The file has its name
    /// only when all is written and on the disk.
    ///
    /// On an error, no file is left behind and an existing one is unchanged.
    pub fn create_with<E: From<ImageError>>(
        path: &Path,
        geometry: &ImageGeometry,
        seed: u64,
        options: FileOptions,
        write: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let bad_geometry = |cause| ImageError::Geometry {
            path: path.into(),
            cause,
        };
        geometry.check().map_err(bad_geometry)?;
        let file_bytes = geometry.file_bytes().map_err(bad_geometry)?;
        refuse_to_replace(path, options.overwrite)?;
        if is_device(path) {
            let image = Self::begin_on_device(path, geometry, seed, options, file_bytes)?;
            write(&image)?;
            image.finish_on_device(file_bytes)?;
            return Ok(image);
        }
        let unfinished = unfinished_path(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&unfinished)
            .map_err(|cause| ImageError::from(fault("create", path, cause)))?;
        lock(&file, path)?;
        let failed = |cause| ImageError::from(fault("create", path, cause));
        let complete = (|| {
            fill(&file, geometry, id_of(seed), file_bytes).map_err(failed)?;
            let image = Self::new(file, path, options, *geometry, id_of(seed));
            write(&image)?;
            std::fs::rename(&unfinished, path).map_err(failed)?;
            sync_directory_of(path).map_err(failed)?;
            Ok(image)
        })();
        complete.inspect_err(|_: &E| {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(&unfinished);
        })
    }

    /// Makes a device hold an image but for its header.
    fn begin_on_device(
        path: &Path,
        geometry: &ImageGeometry,
        seed: u64,
        options: FileOptions,
        file_bytes: u64,
    ) -> Result<Self, ImageError> {
        let file = open_existing(path, true)?;
        lock(&file, path)?;
        refuse_device(&file, path, file_bytes, options.overwrite)?;
        let image = Self::new(file, path, options, *geometry, id_of(seed));
        clear_device(&image.store, geometry)?;
        Ok(image)
    }

    /// Writes the header: from now on it is an image.
    fn finish_on_device(&self, file_bytes: u64) -> Result<(), ImageError> {
        let header = Header::new(&self.geometry, self.id, file_bytes);
        self.store.write_at("create", header.as_bytes(), 0)?;
        Ok(self.store.sync()?)
    }

    /// Opens an image, whatever its shape; [`FileImage::require`] compares that with what is wanted.
    ///
    /// Nothing is written, here or on an error.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, ImageError> {
        let file = open_existing(path, true)?;
        lock(&file, path)?;
        Self::open_file(file, path, options)
    }

    /// Opens an image to copy it: others may do so at the same time, and none may run a drive on
    /// it. Its media refuse to be changed.
    pub fn open_read_only(path: &Path) -> Result<Self, ImageError> {
        let file = open_existing(path, false)?;
        lock_as(&file, path, FlockOperation::NonBlockingLockShared)?;
        Self::open_file(file, path, FileOptions::default())
    }

    fn open_file(file: File, path: &Path, options: FileOptions) -> Result<Self, ImageError> {
        let own = || path.to_path_buf();
        let store = Store::new(
            file.try_clone().map_err(|e| fault("open", path, e))?,
            own(),
            false,
        );
        let found = bytes_of(&file).map_err(|cause| fault("open", path, cause))?;
        let mut header = Header::new_zeroed();
        let readable = (found as usize).min(size_of::<Header>());
        store.read_at("read", &mut header.as_mut_bytes()[..readable], 0)?;
        if header.magic != MAGIC {
            return Err(ImageError::NotAnImage { path: own() });
        }
        if readable < size_of::<Header>() {
            return Err(ImageError::Truncated {
                path: own(),
                expected: super::format::ALIGN,
                found,
            });
        }
        if !(VERSION_PAGES..=VERSION).contains(&header.version.get()) {
            return Err(ImageError::UnknownVersion {
                path: own(),
                found: header.version.get(),
            });
        }
        let geometry = header.geometry();
        let expected = header.file_bytes.get();
        let possible = geometry.check().is_ok()
            && header.fits_version()
            && geometry.file_bytes() == Ok(expected);
        if !header.is_sound() || !possible {
            return Err(ImageError::HeaderDamaged { path: own() });
        }
        if found < expected {
            return Err(ImageError::Truncated {
                path: own(),
                expected,
                found,
            });
        }
        Ok(Self::new(file, path, options, geometry, header.id))
    }

    fn new(
        file: File,
        path: &Path,
        options: FileOptions,
        geometry: ImageGeometry,
        id: [u8; 16],
    ) -> Self {
        Self {
            store: Arc::new(Store::new(file, path.into(), options.ordered)),
            geometry,
            id,
            taken: (0..geometry.cores)
                .map(|_| AtomicBool::new(false))
                .collect(),
        }
    }

    /// The image's shape.
    pub fn geometry(&self) -> &ImageGeometry {
        &self.geometry
    }

    /// The image's name among all images, from the seed that it was created with.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Refuses an image of another shape, and names the first field that differs.
    pub fn require(&self, wanted: &ImageGeometry) -> Result<(), ImageError> {
        let fields = |geometry: &ImageGeometry| {
            [
                ("cores", u64::from(geometry.cores)),
                ("blocks", u64::from(geometry.core.blocks)),
                ("pages_per_block", u64::from(geometry.core.pages_per_block)),
                ("page_bytes", u64::from(geometry.core.page_bytes)),
                ("unit_pages", u64::from(geometry.core.unit_pages)),
                ("log_bytes", geometry.core.log_bytes),
            ]
        };
        for ((what, image), (_, wanted)) in fields(&self.geometry).into_iter().zip(fields(wanted)) {
            if image != wanted {
                let path = self.store.path().clone();
                return Err(ImageError::Mismatch {
                    path,
                    what,
                    image,
                    wanted,
                });
            }
        }
        Ok(())
    }

    /// Loads the media of core `core`, of pages or of units as the image has them.
    ///
    /// # Panics
    /// As [`FileImage::core`].
    pub fn media(&self, core: u32) -> Result<AnyMedia, ImageError> {
        match self.geometry.core.unit_pages {
            0 => self.core(core).map(AnyMedia::File),
            _ => self
                .load_with(core, packed::load_image)
                .map(AnyMedia::Packed),
        }
    }

    /// Loads the media of core `core`: reads its block records, out-of-band areas and log, and the
    /// data of those pages that no sync covered.
    ///
    /// Panics if there is no such core or its media is in use; once dropped, it can be had again.
    pub fn core(&self, core: u32) -> Result<FileMedia, ImageError> {
        assert_eq!(self.geometry.core.unit_pages, 0, "an image of units");
        self.load_with(core, load::core)
    }

    fn load_with<M>(
        &self,
        core: u32,
        load: impl FnOnce(
            Arc<Store>,
            Arc<[AtomicBool]>,
            CoreGeometry,
            u32,
            Layout,
        ) -> Result<M, ImageError>,
    ) -> Result<M, ImageError> {
        let layout = Layout::new(&self.geometry, core).expect("the geometry was checked");
        let taken = &self.taken[core as usize];
        assert!(
            !taken.swap(true, Ordering::AcqRel),
            "core {core} has its media already"
        );
        load(
            self.store.clone(),
            self.taken.clone(),
            self.geometry.core,
            core,
            layout,
        )
        .inspect_err(|_| taken.store(false, Ordering::Release))
    }

    /// Has syncs of this image not end before what this gives is dropped, as on a disk that takes
    /// long. Those that are made where nothing else could go on meanwhile fail.
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.store.hold_syncs()
    }

    /// Lets the writes that `point` allows succeed and every one after them fail, as if the process
    /// had been killed there. For tests: drop all of the image and open it again to go on.
    pub fn kill_at(&self, point: KillPoint) {
        self.store.kill_at(point);
    }

    /// Takes the notes of what reached the file since the last call.
    #[cfg(test)]
    pub(in crate::media) fn take_journal(&self) -> Vec<super::store::Event> {
        std::mem::take(&mut self.store.journal.lock().expect("no panic under this lock"))
    }
}

fn fault(action: &'static str, path: &Path, cause: io::Error) -> Box<HostFault> {
    Box::new(HostFault {
        action,
        path: path.into(),
        cause,
    })
}

fn open_existing(path: &Path, writable: bool) -> Result<File, ImageError> {
    let metadata = std::fs::metadata(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => ImageError::Missing { path: path.into() },
        _ => fault("open", path, cause).into(),
    })?;
    let is_device = metadata.file_type().is_block_device();
    if !metadata.is_file() && !is_device {
        return Err(ImageError::NotAFile { path: path.into() });
    }
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    if is_device && writable {
        // Of a device this says: not while the system uses it.
        options.custom_flags(rustix::fs::OFlags::EXCL.bits() as i32);
    }
    let file = options.open(path);
    file.map_err(|cause| match cause.raw_os_error() {
        Some(errno) if is_device && errno == rustix::io::Errno::BUSY.raw_os_error() => {
            ImageError::Locked { path: path.into() }
        }
        _ => fault("open", path, cause).into(),
    })
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// Bytes of a file or device.
fn bytes_of(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Refuses a device that is too small, or that holds something and is not to be overwritten.
fn refuse_device(file: &File, path: &Path, needed: u64, overwrite: bool) -> Result<(), ImageError> {
    let failed = |cause| fault("open", path, cause);
    let found = bytes_of(file).map_err(failed)?;
    if found < needed {
        let path = path.into();
        return Err(ImageError::DeviceTooSmall {
            path,
            needed,
            found,
        });
    }
    let mut start = vec![0; LOOKED_AT_BYTES.min(found) as usize];
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    match overwrite || start.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(ImageError::Exists { path: path.into() }),
    }
}

/// Makes everything but the header that of erased flash.
fn clear_device(store: &Store, geometry: &ImageGeometry) -> Result<(), Box<HostFault>> {
    store.zero("create", 0, ALIGN)?;
    for core in 0..geometry.cores {
        let layout = Layout::new(geometry, core).expect("the geometry was checked");
        store.zero("create", layout.core_page, layout.data - layout.core_page)?;
        // Data of erased pages is never read: that it goes only spares the device work.
        store.punch("create", layout.data, layout.slots[0] - layout.data)?;
        store.zero("create", layout.slots[0], layout.end - layout.slots[0])?;
        let header = SlotLog::first_header(core);
        store.write_at("create", header.as_bytes(), layout.core_page + SLOT_AT[0])?;
    }
    store.sync()
}

fn lock(file: &File, path: &Path) -> Result<(), ImageError> {
    lock_as(file, path, FlockOperation::NonBlockingLockExclusive)
}

fn lock_as(file: &File, path: &Path, how: FlockOperation) -> Result<(), ImageError> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ImageError::Locked { path: path.into() }),
        Err(errno) => Err(fault("lock", path, errno.into()).into()),
    }
}

/// Passes if `path` is free, a device, or may be replaced and is no image in use.
fn refuse_to_replace(path: &Path, overwrite: bool) -> Result<(), ImageError> {
    if is_device(path) {
        return Ok(());
    }
    match open_existing(path, true) {
        Err(ImageError::Missing { .. }) => Ok(()),
        Err(ImageError::NotAFile { path }) => Err(ImageError::NotAFile { path }),
        _ if !overwrite => Err(ImageError::Exists { path: path.into() }),
        Err(error) => Err(error),
        Ok(file) => lock(&file, path),
    }
}

/// Where an image lies until it is complete.
fn unfinished_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// Writes an image of erased flash to a file of any earlier content.
fn fill(file: &File, geometry: &ImageGeometry, id: [u8; 16], file_bytes: u64) -> io::Result<()> {
    file.set_len(0)?;
    file.set_len(file_bytes)?;
    for core in 0..geometry.cores {
        let layout = Layout::new(geometry, core).expect("the geometry was checked");
        let header = SlotLog::first_header(core);
        file.write_all_at(header.as_bytes(), layout.core_page + SLOT_AT[0])?;
    }
    file.write_all_at(Header::new(geometry, id, file_bytes).as_bytes(), 0)?;
    file.sync_all()
}

/// Makes a rename survive a crash of the machine.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Sixteen bytes from a seed, by two steps of SplitMix64 (Steele, Lea, Flood 2014).
fn id_of(seed: u64) -> [u8; 16] {
    let step = |n: u64| {
        let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (u128::from(step(1)) << 64 | u128::from(step(2))).to_le_bytes()
}
