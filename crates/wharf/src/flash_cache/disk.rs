//! SLOW: a file, a block device or an array, opened for one cache alone.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_host::backing::SECTOR_BYTES;
use wharf_storage::array::{self, Array};
use wharf_storage::{Blocking, FileId, FileOptions, Opened, Target};

use super::{CacheError, hex};

/// The first bytes of a drive's image.
const IMAGE_MAGIC: &[u8] = b"WHARFIMG";
/// The first bytes of a disk of chunks.
const CHUNKS_MAGIC: &[u8] = b"WHARFBCK";
/// Where the superblock of a disk of chunks names the disk and its cache.
const DISK_ID_AT: usize = 40;
const CACHE_ID_AT: usize = 56;
/// Bytes at the start of the disk that are in its digest: where file systems note that they were
/// mounted.
const HEAD_BYTES: u64 = 1 << 20;
/// Sectors in the digest beside those.
const SAMPLES: u64 = 64;
/// Places that are looked at for data.
const PLACES: u64 = 256;

/// The names of a disk and of its cache.
pub type Pair = ([u8; 16], [u8; 16]);

/// See the module.
pub struct Disk {
    paths: Vec<PathBuf>,
    target: Arc<dyn Target>,
    ids: Vec<FileId>,
    /// Devices, which the system uses for nothing else while they are open.
    _claims: Vec<std::fs::File>,
}

impl Disk {
    /// Opens a disk: one path of a file or device, or those of the members of an array. `read_only`
    /// is of no use for an array, which is written to when it is opened; its data stay as they are.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, or is a cache.
    pub fn open(paths: &[PathBuf], read_only: bool) -> Result<Disk, CacheError> {
        // An array notes in its members that it is open, whatever is done with it.
        let read_only = read_only && paths.len() == 1;
        let options = FileOptions {
            read_only,
            exclusive: !read_only,
            ..FileOptions::default()
        };
        let (mut ids, mut targets, mut claims) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            let opened = Opened::new(path, &options)?;
            ids.push(opened.id());
            if opened.is_device() && !read_only {
                claims.push(claim(path)?);
            }
            let target = opened.target()?;
            if start_of(&*target)?.starts_with(IMAGE_MAGIC) {
                return Err(CacheError::IsCache(path.clone()));
            }
            targets.push(target);
        }
        let target: Arc<dyn Target> = match targets.len() {
            1 => targets.remove(0),
            _ => {
                let array = Array::open(&targets, false);
                Arc::new(array.map_err(|error| CacheError::Choice(error.to_string()))?)
            }
        };
        Ok(Disk {
            paths: paths.to_vec(),
            target,
            ids,
            _claims: claims,
        })
    }

    /// The path that it is told of by: the first member's, of an array.
    pub fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// Its bytes are there.
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.target.size_bytes()
    }

    /// Refuses a cache that is this disk.
    ///
    /// # Errors
    /// If it is.
    pub fn refuse_same(&self, fast: &Path) -> Result<(), CacheError> {
        let Ok(found) = std::fs::metadata(fast) else {
            return Ok(());
        };
        let id = match found.file_type().is_block_device() {
            true => FileId::Device {
                number: found.rdev(),
            },
            false => FileId::File {
                device: found.dev(),
                inode: found.ino(),
            },
        };
        match self.ids.contains(&id) {
            true => Err(CacheError::Same(fast.into())),
            false => Ok(()),
        }
    }

    /// How a disk of chunks is divided: bytes of a zone, and bytes that it shows.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn chunk_shape(&self) -> Result<Option<(u64, u64)>, CacheError> {
        let start = start_of(&*self.target)?;
        let zone = u32::from_le_bytes(start[12..16].try_into().expect("4 bytes"));
        let pages = u64::from_le_bytes(start[32..40].try_into().expect("8 bytes"));
        let is_one = start.starts_with(CHUNKS_MAGIC);
        Ok(is_one.then(|| (u64::from(zone) * 4096, pages.saturating_mul(4096))))
    }

    /// What a disk of chunks says of itself: the names of the disk and of its cache.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn chunk_names(&self) -> Result<Option<Pair>, CacheError> {
        let start = start_of(&*self.target)?;
        let id = |at: usize| start[at..at + 16].try_into().expect("16 bytes");
        Ok(start
            .starts_with(CHUNKS_MAGIC)
            .then(|| (id(DISK_ID_AT), id(CACHE_ID_AT))))
    }

    /// What the disk holds that would be lost if it were written over; the start, the end and
    /// places between are looked at.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn content(&self) -> Result<Option<String>, CacheError> {
        if let Some((disk_id, _)) = self.chunk_names()? {
            return Ok(Some(format!(
                "the chunks of a cache (disk {})",
                hex(&disk_id)
            )));
        }
        if let Ok(superblock) = array::superblock_of(&*self.target) {
            let uuid = hex(&superblock.uuid);
            return Ok(Some(format!("a member of array {uuid}")));
        }
        let failed = |error: array::ArrayError| CacheError::Choice(error.to_string());
        if array::holds_data(&*self.target).map_err(failed)? {
            return Ok(Some("data".into()));
        }
        let mut one = Blocking::new(&*self.target)?;
        for place in 0..PLACES {
            let sector = self.sector_at(place, PLACES);
            if self
                .read_sector(&mut one, sector)?
                .iter()
                .any(|byte| *byte != 0)
            {
                return Ok(Some("data".into()));
            }
        }
        Ok(None)
    }

    fn sector_at(&self, place: u64, places: u64) -> u64 {
        let sectors = self.bytes() / SECTOR_BYTES as u64;
        (u128::from(sectors) * u128::from(place) / u128::from(places)) as u64
    }

    fn read_sector(&self, one: &mut Blocking, sector: u64) -> Result<Vec<u8>, CacheError> {
        let mut bytes = vec![0; SECTOR_BYTES];
        if sector * (SECTOR_BYTES as u64) < self.bytes() {
            self.read(one, sector * SECTOR_BYTES as u64, &mut bytes)?;
        }
        Ok(bytes)
    }

    fn read(&self, one: &mut Blocking, at: u64, out: &mut [u8]) -> Result<(), CacheError> {
        one.read(at, out).map_err(|error| {
            let name = self.target.info().name.clone();
            wharf_storage::StorageError::Io { name, error }.into()
        })
    }

    /// A digest of what it holds: of all of its start, where file systems note that they were in
    /// use, and of samples.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn digest(&self) -> Result<u64, CacheError> {
        let mut one = Blocking::new(&*self.target)?;
        let block = u64::from(self.target.info().block_bytes);
        let head = HEAD_BYTES.min(self.bytes()).next_multiple_of(block);
        let mut bytes = vec![0; head as usize];
        if head > 0 {
            self.read(&mut one, 0, &mut bytes)?;
        }
        let head = crc_fast::crc32_iscsi(&bytes);
        bytes.clear();
        for sample in 1..=SAMPLES {
            let sector = self.sector_at(sample, SAMPLES).saturating_sub(1);
            bytes.extend(self.read_sector(&mut one, sector)?);
        }
        Ok(u64::from(head) << 32 | u64::from(crc_fast::crc32_iscsi(&bytes)))
    }

    /// A digest of which disk it is: of what the device says of itself, or else of where it is.
    pub fn name_digest(&self) -> u64 {
        let names: Vec<String> = self.paths.iter().map(|path| name_of(path)).collect();
        let text = names.join("\n");
        let reversed: Vec<u8> = text.bytes().rev().collect();
        let low = crc_fast::crc32_iscsi(&reversed);
        u64::from(crc_fast::crc32_iscsi(text.as_bytes())) << 32 | u64::from(low)
    }
}

/// The first sectors.
fn start_of(target: &dyn Target) -> Result<Vec<u8>, CacheError> {
    let mut start = vec![0; SECTOR_BYTES];
    if target.size_bytes() > 0 {
        let read = Blocking::new(target)?.read(0, &mut start);
        read.map_err(|error| {
            let name = target.info().name.clone();
            wharf_storage::StorageError::Io { name, error }
        })?;
    }
    Ok(start)
}

/// Holds a device so that nobody mounts it, if nobody has.
fn claim(path: &Path) -> Result<std::fs::File, CacheError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(rustix::fs::OFlags::EXCL.bits() as i32);
    options
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(errno) if errno == rustix::io::Errno::BUSY.raw_os_error() => {
                wharf_storage::StorageError::InUse(path.into()).into()
            }
            _ => CacheError::system(path, "open", error),
        })
}

/// What a device calls itself, with the number of the partition; of a file its place.
fn name_of(path: &Path) -> String {
    let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let place = place.display().to_string();
    let Ok(found) = std::fs::metadata(path) else {
        return place;
    };
    if !found.file_type().is_block_device() {
        return place;
    }
    let number = found.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        let text = text.trim().to_string();
        (!text.is_empty()).then_some(text)
    };
    let names = [
        "wwid",
        "device/wwid",
        "device/serial",
        "serial",
        "dm/uuid",
        "md/uuid",
        "loop/backing_file",
        "../wwid",
        "../device/wwid",
        "../device/serial",
        "../serial",
        "../loop/backing_file",
    ];
    let name = names.iter().find_map(|name| read(name));
    let partition = read("partition").unwrap_or_default();
    name.map_or(place, |name| format!("{name}#{partition}"))
}
