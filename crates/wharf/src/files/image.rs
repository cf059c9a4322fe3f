//! Making, opening and checking: the table of partitions, and the file system in it.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use wharf_drive::{DriveError, media};
use wharf_files::block::{self, Make, Recovered, Wfs};
use wharf_files::gpt::{Gpt, Guid, Partition, head_bytes, tail_bytes};
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_files::{FileError, Owner, block_on};
use wharf_host::direct::Direct;

use super::pages::DrivePages;
use super::{ImageError, now_ns};
use crate::store::{Client, StoreError, StoreOptions};

/// Bytes of pages with metadata that are kept in memory.
const CACHE_BYTES: usize = 64 << 20;

/// How often it is looked again whether an image that is in use has become free, and when: for 2 s.
const IN_USE_LOOKS: u32 = 200;
const IN_USE_PAUSE: Duration = Duration::from_millis(10);

/// Partitions begin at multiples of so many pages, as those of other tools do: 1 MiB.
const ALIGNMENT_PAGES: u64 = 256;

/// What a new image is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewImage {
    /// Bytes that the drive shows, at least.
    pub bytes: u64,
    /// Whose the root directory is.
    pub owner: Owner,
    /// Its permission bits.
    pub mode: u16,
}

impl NewImage {
    /// One of this size, which belongs to whoever runs this program.
    pub fn of_bytes(bytes: u64) -> NewImage {
        NewImage {
            bytes,
            owner: Owner {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            mode: 0o755,
        }
    }
}

/// Makes a drive in a new file, with a table of partitions and one partition of wfs. If that fails,
/// there is no file.
///
/// # Errors
/// If the file exists, there can be no drive or file system of that size, or no room for it.
pub fn make(image: &Path, new: &NewImage) -> Result<(), ImageError> {
    if image.symlink_metadata().is_ok() {
        let exists = "it exists: remove it or give another name";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists).into());
    }
    let options = StoreOptions::file(image, new.bytes)?;
    let made = make_on(&options, new);
    if made.is_err() {
        // The error is what is told.
        let _ = fs::remove_file(image);
    }
    made
}

fn make_on(options: &StoreOptions, new: &NewImage) -> Result<(), ImageError> {
    let drive = DrivePages::whole(Client::<Direct>::open_local(options)?);
    let blocks = drive.pages();
    let mut gpt = Gpt::new(guid()?, PAGE_BYTES as u32, blocks)?;
    let (first, last) = gpt.usable();
    let mut partition = Partition {
        kind: Guid::FILES,
        guid: guid()?,
        first_block: first.next_multiple_of(ALIGNMENT_PAGES),
        last_block: last,
        attributes: 0,
        name: "wfs".into(),
    };
    partition.set_file_system(block::NUMBER);
    let part = Run::new(
        partition.first_block,
        (last + 1).saturating_sub(partition.first_block),
    );
    gpt.add(partition)?;
    let part = drive.part(part);
    let [file_system, key, other_key] = numbers()?;
    let make = Make {
        file_system,
        hash_key: [key, other_key],
        now_ns: now_ns(),
        uid: new.owner.uid,
        gid: new.owner.gid,
        mode: new.mode,
    };
    block_on(block::make(&part, make))?;
    // Who finds the partition finds a file system in it.
    let drive = part.back();
    let (head, tail) = gpt.encode();
    let place = |bytes: &[u8], first| Run::new(first, (bytes.len() / PAGE_BYTES) as u64);
    let at_end = blocks - (tail.len() / PAGE_BYTES) as u64;
    let written = block_on(async {
        drive.write(&[place(&head, 0)], &head).await?;
        drive.write(&[place(&tail, at_end)], &tail).await?;
        drive.flush().await
    });
    written.map_err(FileError::Io)?;
    Ok(drive.close()?)
}

/// The drive of an image. Who has just unmounted it may be about to end: that is waited for.
#[allow(clippy::disallowed_methods)] // another process is waited for
fn open_drive(image: &Path) -> Result<Client<Direct>, StoreError> {
    let open = || {
        let options = StoreOptions::existing(image)?;
        Client::open_local(&options)
    };
    for _ in 0..IN_USE_LOOKS {
        match open() {
            Err(StoreError::Drive(DriveError::Image(media::ImageError::Locked { .. }))) => {
                std::thread::sleep(IN_USE_PAUSE);
            }
            opened => return opened,
        }
    }
    open()
}

/// The pages of an image's file system.
fn find(image: &Path) -> Result<DrivePages, ImageError> {
    let drive = DrivePages::whole(open_drive(image)?);
    let blocks = drive.pages();
    let mut head = vec![0; head_bytes(PAGE_BYTES as u32)];
    let mut tail = vec![0; tail_bytes(PAGE_BYTES as u32)];
    let (head_pages, tail_pages) = (head.len() / PAGE_BYTES, tail.len() / PAGE_BYTES);
    let at_end = blocks.saturating_sub(tail_pages as u64);
    let read = block_on(async {
        drive
            .read(&[Run::new(0, head_pages as u64)], &mut head)
            .await?;
        drive
            .read(&[Run::new(at_end, tail_pages as u64)], &mut tail)
            .await
    });
    read.map_err(FileError::Io)?;
    let found = Gpt::decode(PAGE_BYTES as u32, blocks, &head, &tail)?;
    let mut partitions = found.gpt.partitions().iter().flatten();
    let wfs = partitions.find(|partition| partition.file_system() == block::NUMBER);
    let wfs = wfs.ok_or(ImageError::NoFileSystem)?;
    Ok(drive.part(Run::new(wfs.first_block, wfs.blocks())))
}

/// The file system of an image, brought up to date, with the drive on this thread.
///
/// # Errors
/// If there is none, it is damaged, or somebody else has it.
pub fn open(image: &Path) -> Result<(Wfs<DrivePages>, Recovered), ImageError> {
    let pages = find(image)?;
    Ok(block_on(Wfs::open(pages, CACHE_BYTES))?)
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
    let recovered = match open(image) {
        Ok((wfs, recovered)) => {
            let settled = block_on(wfs.settle());
            wfs.into_pages().close()?;
            settled.map(|()| recovered).map_err(|e| e.to_string())
        }
        Err(ImageError::Files(error)) => Err(error.to_string()),
        Err(other) => return Err(other),
    };
    let pages = find(image)?;
    let found = block_on(block::check(&pages)).map_err(FileError::Io)?;
    pages.close()?;
    Ok(Checked { recovered, found })
}

/// Three numbers that nobody can guess.
fn numbers() -> io::Result<[u64; 3]> {
    let mut bytes = [0; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
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
