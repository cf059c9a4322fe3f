//! Making, opening and checking an image: a drive with a file system.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use wharf_drive::config::{NewFiles, TokenCheck};
use wharf_drive::{DriveError, media};
use wharf_files::block::{self, Make, Recovered};
use wharf_files::gpt::Guid;
use wharf_files::partitions::{self, TableError};
use wharf_files::volume::{self, Format};
use wharf_files::{FileError, Owner, block_on};

use super::drive::FileDrive;
use super::pages::DrivePages;
use super::waiting::attach_in_time;
use super::{ImageError, now_ns};
use crate::random;
use crate::store::{Client, StoreError, StoreOptions, random_key};

/// How often it is looked again whether an image that is in use has become free, and when: for 2 s.
const IN_USE_LOOKS: u32 = 200;
const IN_USE_PAUSE: Duration = Duration::from_millis(10);

/// What a new image is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewImage {
    /// Bytes that the drive shows, at least.
    pub bytes: u64,
    /// Whose the root directory is.
    pub owner: Owner,
    /// Its permission bits.
    pub mode: u16,
    /// Which file system.
    pub format: Format,
}

impl NewImage {
    /// wfs in one of this size, which belongs to whoever runs this program.
    pub fn of_bytes(bytes: u64) -> NewImage {
        NewImage {
            bytes,
            owner: Owner {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            mode: 0o755,
            format: Format::Wfs,
        }
    }
}

/// Makes a drive in a new file, with a table of partitions and one partition with a file system. If that
/// fails, there is no file.
///
/// # Errors
/// If the file exists, there can be no drive or file system of that size, or no room for it.
pub fn make(image: &Path, new: &NewImage) -> Result<(), ImageError> {
    if image.symlink_metadata().is_ok() {
        let exists = "it exists: remove it or give another name";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists).into());
    }
    let options = StoreOptions::file(image, new.bytes)?;
    let made = make_on(options, new);
    if made.is_err() {
        // The error is what is told.
        let _ = fs::remove_file(image);
    }
    made
}

fn make_on(options: StoreOptions, new: &NewImage) -> Result<(), ImageError> {
    FileDrive::open(options, Some(new))?.end()
}

/// What a drive is told of a new file system.
pub(super) fn new_files(new: &NewImage) -> io::Result<NewFiles> {
    let [file_system, key, other_key] = numbers()?;
    Ok(NewFiles {
        disk: guid()?,
        partition: guid()?,
        make: Make {
            file_system,
            hash_key: [key, other_key],
            now_ns: now_ns(),
            uid: new.owner.uid,
            gid: new.owner.gid,
            mode: new.mode,
        },
    })
}

/// Opens the drive of an image. Who has just unmounted it may be about to end: that is waited for.
#[allow(clippy::disallowed_methods)] // another process is waited for
pub(super) fn open_drive<T>(
    image: &Path,
    open: impl Fn(StoreOptions) -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    let open = || open(StoreOptions::existing(image)?);
    for _ in 0..IN_USE_LOOKS {
        match open() {
            Err(ImageError::Drive(StoreError::Drive(DriveError::Image(
                media::ImageError::Locked { .. },
            )))) => {
                std::thread::sleep(IN_USE_PAUSE);
            }
            opened => return opened,
        }
    }
    open()
}

/// An image's file system: which, and its pages.
fn find(image: &Path) -> Result<(Format, DrivePages), ImageError> {
    let drive = open_drive(image, |options| Ok(Client::open_local(&options)?))?;
    let drive = DrivePages::whole(drive);
    let found = block_on(partitions::find(&drive, &Format::ALL));
    let found = found.map_err(|error| match error {
        TableError::Table(error) => ImageError::Table(error.to_string()),
        TableError::Fault(fault) => FileError::Io(fault).into(),
    })?;
    let (format, part) = found.ok_or(ImageError::NoFileSystem)?;
    Ok((format, drive.part(part)))
}

/// The file system of an image, brought up to date, with the drive that runs it on this thread; or that of a
/// [`Server`](super::Server), by its socket: where all places are taken, it waits for one ([`attach_in_time`]).
///
/// # Errors
/// If there is none, it is damaged, or somebody else has it.
pub fn open(image: &Path) -> Result<FileDrive, ImageError> {
    if is_socket(image) {
        return attach_in_time(|| FileDrive::attach(image));
    }
    open_drive(image, |options| FileDrive::open(options, None))
}

/// A file system in memory, gone when it is closed.
///
/// # Errors
/// If there can be none of that size.
pub(super) fn in_memory(new: &NewImage) -> Result<FileDrive, ImageError> {
    let options = StoreOptions::memory(new.bytes)?;
    FileDrive::open(options, Some(new))
}

/// The same; its drive checks this process as it checks others, which have to show who they are.
///
/// # Errors
/// As before.
pub(super) fn in_memory_checking(
    new: &NewImage,
    check: TokenCheck,
) -> Result<FileDrive, ImageError> {
    let options = StoreOptions::memory(new.bytes)?.token_check(check);
    let drive = FileDrive::open(options, Some(new))?;
    drive.check_this_process(random_key(1)?)?;
    Ok(drive)
}

/// Whether a path names a socket, at which a process may serve a drive.
pub(crate) fn is_socket(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.file_type().is_socket())
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What was done to bring the file system up to date; why it could not be.
    pub recovered: Result<Recovered, String>,
    /// What is there, and what is wrong with it.
    pub found: block::Checked,
}

impl Checked {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.recovered.is_ok() && self.found.findings.is_empty()
    }
}

/// Brings the file system of an image up to date, as opening it does, and checks all of it.
///
/// # Errors
/// If there is none, or its first pages cannot be read.
pub fn check(image: &Path) -> Result<Checked, ImageError> {
    if is_socket(image) {
        return Err(ImageError::Served);
    }
    let recovered = match open(image) {
        Ok(drive) => {
            let recovered = *drive.recovered();
            drive.end().map(|()| recovered).map_err(|e| e.to_string())
        }
        Err(ImageError::Damaged(text)) => Err(text),
        Err(ImageError::Files(error)) => Err(error.to_string()),
        Err(other) => return Err(other),
    };
    let (format, pages) = find(image)?;
    let found = block_on(volume::check(&pages, format)).map_err(FileError::Io)?;
    pages.close()?;
    Ok(Checked { recovered, found })
}

/// Three numbers that nobody can guess.
fn numbers() -> io::Result<[u64; 3]> {
    let bytes = random::bytes::<24>()?;
    let (numbers, _) = bytes.as_chunks::<8>();
    Ok([0, 1, 2].map(|nth| u64::from_le_bytes(numbers[nth])))
}

/// A random GUID (RFC 9562, version 4).
fn guid() -> io::Result<Guid> {
    let [low, high, _] = numbers()?;
    let mut bytes = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
    // The third field is little-endian on disk: its upper byte is the eighth.
    bytes[7] = bytes[7] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Guid(bytes))
}
